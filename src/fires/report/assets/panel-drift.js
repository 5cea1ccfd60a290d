// Drift of features against what they matter, in four fields; then the alarms as a list.

panels.push({
  id: "drift", title: "Drift that matters, and drift that does not",
  note: "How far the mean of each feature has moved, in standard deviations, or its spread has grown or shrunk, as a logarithm, whichever is more; against the size of its importance. A feature that matters and moves is worth a look.",
  shown: (run) => Boolean(run.drift) && run.drift.name.length > 0,
  make(body, page) {
    const MOVES = 0.5;
    const picture = svg("svg", { class: "fields", role: "img" });
    const box = el("div", { class: "chart" }, picture);
    const range = el("p", { class: "note" });
    const harmful = el("div", {});
    const tableBox = disclosure("Show as table", asTable);
    body.append(box, range, harmful, tableBox);
    const tip = new Tip(box);
    let drift, bar, dots, none = false;

    const matters = (i) => Math.abs(drift.importance[i] || 0) >= bar;
    const moves = (i) => drift.drift[i] >= MOVES;
    const kind = (i) => (matters(i) ? (moves(i) ? "harmful" : "steady-strong") : moves(i) ? "harmless" : "steady");
    // "mean moved by +1.4 standard deviations, spread × 1.2".
    const moved = (i) => [
      drift.moved[i] === null ? null : `mean moved by ${drift.moved[i] > 0 ? "+" : ""}${short(drift.moved[i], 2)} standard deviations`,
      drift.spread[i] === null ? null : `spread \u00d7 ${short(drift.spread[i], 2)}`,
    ].filter(Boolean).join(", ");

    function draw(width) {
      const height = width < 520 ? 360 : 400, left = 40, bottom = 38, top = 22, right = 10;
      const known = drift.name.map((_, i) => i).filter((i) => drift.drift[i] !== null);
      const farthest = 1.08 * Math.max(2 * MOVES, ...known.map((i) => drift.drift[i]));
      const highest = Math.max(greatestSize(drift.importance), 2 * bar) || 1;
      // Square roots: most features lie close to 0 in both, and would be one blot. Above and below is
      // room for what the fields are called.
      const x = (value) => left + Math.sqrt(Math.max(0, value) / farthest) * (width - left - right);
      const y = (value) => height - bottom - 26 - Math.sqrt(Math.abs(value || 0) / highest) * (height - bottom - top - 26 - 36);
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("height", height);
      const edge = { left, right: width - right, top, bottom: height - bottom, across: x(MOVES), up: y(bar) };
      dots = known.map((i) => ({ i, cx: x(drift.drift[i]), cy: y(drift.importance[i]), kind: kind(i) }));
      const order = ["steady", "harmless", "steady-strong", "harmful"];
      dots.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
      picture.replaceChildren(fields(edge), axes(edge, x, y, farthest, highest, height),
        svg("g", {}, dots.map((dot) => svg("circle", { class: `dot-${dot.kind}${drift.selected[dot.i] ? "" : " open"}`, cx: dot.cx, cy: dot.cy, r: drift.selected[dot.i] ? 5 : dots.length > 100 ? 3 : 4 }))),
        svg("g", {}, dots.filter((dot) => drift.alarms[dot.i]).map((dot) => svg("circle", { class: "ring", cx: dot.cx, cy: dot.cy, r: 8.5 }))),
        svg("g", { class: "fields-names" }, namesBesideDots(edge)));
    }

    function fields({ left, right, top, bottom, across, up }) {
      const word = (x, y, anchor, text, look) => svg("text", { x, y, "text-anchor": anchor, class: `field-name ${look || ""}` }, text);
      const narrow = right < 420;
      return svg("g", {},
        svg("rect", { class: "field-harmful", x: across, y: top, width: right - across, height: up - top }),
        svg("line", { class: "field-edge", x1: across, x2: across, y1: top, y2: bottom }),
        svg("line", { class: "field-edge", x1: left, x2: right, y1: up, y2: up }),
        word(left + 8, top + 17, "start", "matters, steady"),
        word(right - 8, top + 17, "end", narrow ? "matters and moves" : "matters and moves: look at it", "alert"),
        word(left + 8, bottom - 9, "start", "steady"),
        word(right - 8, bottom - 9, "end", narrow ? "moves, harmless" : "moves, but does not matter"));
    }

    function axes({ left, right, bottom, top }, x, y, farthest, highest, height) {
      const apart = (values, at, least) => values.reduce((kept, value) => (kept.length && Math.abs(at(value) - at(kept[kept.length - 1])) < least ? kept : [...kept, value]), []);
      const across = apart([0, 0.1, MOVES, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000].filter((each) => each <= farthest), x, 34);
      const up = apart(ticks(0, highest, 6), y, 20);
      return svg("g", { class: "fields-axes" },
        svg("line", { x1: left, x2: right, y1: bottom, y2: bottom }), svg("line", { x1: left, x2: left, y1: top, y2: bottom }),
        across.map((value) => svg("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value, 2))),
        up.map((value) => svg("text", { x: left - 8, y: y(value), dy: "0.35em", "text-anchor": "end" }, short(value, 2))),
        svg("text", { x: right, y: height - 5, "text-anchor": "end" }, "drift, in standard deviations"),
        svg("text", { x: 0, y: 11, "text-anchor": "start" }, "size of the importance"));
    }

    // Names of the notable ones, each where it covers no other name and no dot; else it is left out.
    function namesBesideDots(edge) {
      const weight = (dot) => ({ harmful: 3000, "steady-strong": 2000, harmless: 1000, steady: 0 })[dot.kind] + 100 * (Math.abs(drift.importance[dot.i] || 0) / (bar || 1)) + drift.drift[dot.i];
      const notable = dots.filter((dot) => dot.kind !== "steady" || drift.selected[dot.i]).sort((a, b) => weight(b) - weight(a)).slice(0, 24);
      const taken = dots.map(({ cx, cy }) => [cx - 5, cy - 5, cx + 5, cy + 5]);
      for (const [x, y] of [[edge.left, edge.top], [edge.left, edge.bottom - 24]]) taken.push([x, y, x + 120, y + 24]);
      for (const [x, y] of [[edge.right, edge.top], [edge.right, edge.bottom - 24]]) taken.push([x - (edge.right < 420 ? 130 : 200), y, x, y + 24]);
      return notable.map((dot) => {
        const text = fitted(drift.name[dot.i], 130), wide = textWidth(text, dot.kind === "harmful" ? 600 : 400);
        const aside = drift.alarms[dot.i] ? 12 : 9;
        const spots = [[aside, 4], [-aside - wide, 4], [-wide / 2, -10], [-wide / 2, 19], [7, -8], [7, 16], [-7 - wide, -8], [-7 - wide, 16]];
        for (const [dx, dy] of spots) {
          const area = [dot.cx + dx, dot.cy + dy - 10, dot.cx + dx + wide, dot.cy + dy + 3];
          const inside = area[0] >= edge.left && area[2] <= edge.right && area[1] >= edge.top && area[3] <= edge.bottom;
          if (!inside || taken.some((other) => area[0] < other[2] && area[2] > other[0] && area[1] < other[3] && area[3] > other[1])) continue;
          taken.push(area);
          return svg("text", { x: dot.cx + dx, y: dot.cy + dy, class: `name-${dot.kind}` }, text);
        }
        return null;
      });
    }

    picture.addEventListener("pointermove", (event) => {
      const at = box.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
      const far = (dot) => Math.hypot(dot.cx - px, dot.cy - py);
      const near = dots.reduce((best, dot) => (best === null || far(dot) < far(best) ? dot : best), null);
      if (!near || far(near) > 24) return tip.hide();
      const { i } = near;
      return tip.show(near.cx, near.cy, drift.name[i], moved(i), `importance ${short(drift.importance[i], 3)}${drift.selected[i] ? ", selected" : ""}`,
        drift.alarms[i] ? plural(drift.alarms[i], "alarm of its own", "alarms of its own") : null);
    });
    picture.addEventListener("pointerleave", () => tip.hide());

    function drawHarmful() {
      const found = drift.name.map((_, i) => i).filter((i) => kind(i) === "harmful").sort((a, b) => Math.abs(drift.importance[b]) - Math.abs(drift.importance[a]));
      harmful.replaceChildren(el("h3", {}, found.length ? "Matters and moves" : "No feature that matters has moved by half a standard deviation."),
        ...(found.length ? [el("ul", { class: "lines" }, found.slice(0, 10).map((i) => el("li", {}, named(drift.name[i]),
          el("span", { class: "muted" }, `${moved(i)}; importance ${short(drift.importance[i], 3)}${drift.alarms[i] ? `; ${plural(drift.alarms[i], "alarm")}` : ""}`))))] : []),
        found.length > 10 ? el("p", { class: "note" }, `and ${found.length - 10} more`) : "");
    }

    const FIELDS = { harmful: "matters and moves", "steady-strong": "matters, steady", harmless: "moves, but does not matter", steady: "steady" };
    function asTable() {
      return table(["feature", "drift", "mean moved by", "spread", "importance", "selected", "alarms", "field"], drift.name.slice(0, 200).map((name, i) => [
        named(name), short(drift.drift[i], 2), short(drift.moved[i], 2), `\u00d7 ${short(drift.spread[i], 2)}`, short(drift.importance[i], 3), drift.selected[i] ? "yes" : "", drift.alarms[i] || "", FIELDS[kind(i)],
      ]), { caption: "Drift and importance", numbers: [1, 2, 3, 4, 6] });
    }

    // What matters is at least as important as the weakest selected feature that is significant. If
    // none is, none matters.
    function weakest(run) {
      const noise = new Set(run.now.place.filter((_, i) => run.now.above_noise[i] === false));
      none = run.counts.above_noise === 0;
      if (none) return 1.25 * greatestSize(drift.importance);
      const sizes = (wanted) => drift.importance.filter((value, i) => value !== null && wanted(i)).map(Math.abs);
      const sure = sizes((i) => drift.selected[i] && !noise.has(drift.place[i]));
      const found = sure.length ? sure : sizes((i) => drift.selected[i]);
      return found.length ? Math.min(...found) : greatestSize(drift.importance) / 2;
    }

    const redraw = redrawn(box, draw);
    return (run) => {
      drift = run.drift;
      bar = weakest(run);
      range.textContent = `Rows up to ${whole(drift.to_row)} against those up to ${whole(drift.from_row)}. Filled: selected. ${none ? "No feature is significant, so none matters." : `What matters is at least as important as the weakest selected feature${run.run.intervals ? " that is significant" : ""}.`}` + (drift.alarms.some(Boolean) ? " Ringed: had an alarm of its own." : "");
      const count = (wanted) => drift.name.filter((_, i) => kind(i) === wanted).length;
      picture.setAttribute("aria-label", `Drift against importance. ${Object.entries(FIELDS).map(([name, words]) => `${words}: ${count(name)}`).join("; ")}.`);
      drawHarmful();
      renew(tableBox);
      redraw();
    };
  },
});

panels.push({
  id: "alarms", title: "Alarms",
  note: "Alarms within 1,000 rows of each other are one event, and the strongest comes first: strong from twice the limit of an alarm on, clear from 1.25 times. Scores are those before and after.",
  shown: (run) => run.events.length > 0,
  make(body) {
    const list = el("div", {}), folded = el("p", { class: "muted" });
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { all = !all; draw(); } } });
    body.append(list, folded, el("div", { class: "bar" }, more));
    let all = false, events = [], name = "accuracy";

    const parts = [["came", "good", "came"], ["left", "worse", "left"], ["flipped", "", "changed sign"]];
    const names = (found) => [...found.slice(0, 3).map((each) => named(each)), found.length > 3 ? el("span", { class: "muted" }, `and ${found.length - 3} more`) : null];
    const score = (side) => (side && side[name]) ?? null;
    const compared = ({ before, after }) => (score(before) === null && score(after) === null ? "" : `${scored(score(before))} \u2192 ${scored(score(after))}`);
    const changes = (event) => parts.filter(([key]) => event[key] && event[key].length);

    function change(event) {
      const found = changes(event);
      return el("span", { class: "change" }, found.length ? found.map(([key, look, word]) => el("span", { class: "keyed" }, el("span", { class: `word ${look}` }, word), ...names(event[key]))) : "the selected features are the same");
    }

    function draw() {
      const changed = events.filter((event) => event.severity === "strong" || changes(event).length);
      const some = (changed.length ? changed : events).slice(0, changed.length ? 8 : 1), shown = all ? events : some;
      const scored = shown.some((event) => score(event.before) !== null || score(event.after) !== null);
      const head = ["row", "what", "severity", "what changed", scored ? SCORES[name] || name : null].filter(Boolean);
      list.replaceChildren(table(head, shown.map((event) => [
        event.last_row > event.row ? `${whole(event.row)} to ${whole(event.last_row)}` : whole(event.row),
        event.features.length ? el("span", { class: "keyed" }, ...names(event.features)) : "all features", event.severity, change(event),
        scored ? el("span", { class: "scores" }, compared(event)) : null,
      ].filter((cell) => cell !== null)), { caption: "Alarms", numbers: scored ? [head.length - 1] : [] }));
      const left = events.length - shown.length;
      folded.hidden = !left;
      folded.textContent = `and ${plural(left, "more event", "more events")}${changed.length <= some.length ? " that changed nothing in the set" : ""}`;
      more.hidden = events.length <= some.length;
      more.textContent = all ? "Show the strongest" : `Show all ${events.length}`;
    }
    return (run) => {
      events = run.events;
      // Not all scores can be taken over some batches: R\u00b2 cannot.
      name = [run.scores.name, ...Object.keys(SCORES)].find((each) => events.some(({ before, after }) => each in { ...before, ...after })) || run.scores.name;
      draw();
    };
  },
});
