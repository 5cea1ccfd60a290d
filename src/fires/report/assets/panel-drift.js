// Drift of features against their importance, in four fields.

const DRIFTED = 0.5, MOST_DRIFT = 500; // of which a summary tells

// As many are important as are selected, but no more than are significant.
function nImportant({ counts }) {
  return Math.min(counts.selected, counts.above_noise ?? Infinity);
}

function leastImportant(run) {
  const sizes = run.drift.importance.map((value) => Math.abs(value || 0)).sort((a, b) => b - a), many = nImportant(run);
  return many ? sizes[Math.min(many, sizes.length) - 1] : 1.25 * sizes[0];
}

function kindOfDrift(drift, bar, i) {
  const important = Math.abs(drift.importance[i] || 0) >= bar;
  return drift.drift[i] >= DRIFTED ? (important ? "harmful" : "harmless") : important ? "steady-strong" : "steady";
}

// Those that are important and have drifted, the most important first.
function drifted(run) {
  const { drift } = run, bar = leastImportant(run);
  return drift.name.map((_, i) => i).filter((i) => kindOfDrift(drift, bar, i) === "harmful").sort((a, b) => Math.abs(drift.importance[b]) - Math.abs(drift.importance[a]));
}

panels.push({
  id: "drift", title: "Feature drift", part: "Details",
  note: "Drift is the shift of a feature's mean in standard deviations, or the log ratio of its spreads, whichever is larger. Features that are important and have drifted deserve a look.",
  folded: (run) => {
    const found = drifted(run).length;
    return found ? `${plural(found, "important feature has", "important features have")} drifted` : "no important feature has drifted";
  },
  shown: (run) => Boolean(run.drift) && run.drift.name.length > 0,
  make(body, page) {
    const picture = svg("svg", { class: "fields", role: "img" });
    const box = el("div", { class: "chart" }, picture);
    const range = el("p", { class: "note" });
    const missing = el("p", { class: "note" }), harmful = el("div", {});
    const tableBox = disclosure("Show as table", asTable);
    body.append(box, range, missing, harmful, tableBox);
    const tip = new Tip(box);
    let drift, bar, dots, constant;

    const kind = (i) => kindOfDrift(drift, bar, i);
    // "mean shifted by +1.4 SD, spread × 1.2".
    const moved = (i) => [
      drift.moved[i] === null ? null : `mean shifted by ${drift.moved[i] > 0 ? "+" : ""}${short(drift.moved[i], 2)} SD`,
      drift.spread[i] === null ? null : `spread \u00d7 ${short(drift.spread[i], 2)}`,
    ].filter(Boolean).join(", ");

    function draw(width) {
      const height = width < 520 ? 360 : 400, left = 40, bottom = 38, top = 22, right = 10;
      const known = drift.name.map((_, i) => i).filter((i) => drift.drift[i] !== null && !constant.has(drift.name[i]));
      const farthest = 1.08 * Math.max(2 * DRIFTED, ...known.map((i) => drift.drift[i]));
      const highest = Math.max(greatestSize(drift.importance), 2 * bar) || 1;
      // Square roots: most features lie close to 0 in both, and would be one blot. Above and below is
      // room for what the fields are called.
      const x = (value) => left + Math.sqrt(Math.max(0, value) / farthest) * (width - left - right);
      const y = (value) => height - bottom - 26 - Math.sqrt(Math.abs(value || 0) / highest) * (height - bottom - top - 26 - 36);
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("height", height);
      const edge = { left, right: width - right, top, bottom: height - bottom, across: x(DRIFTED), up: y(bar) };
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
        word(left + 8, top + 17, "start", "important, stable"),
        word(right - 8, top + 17, "end", "important and drifting", "alert"),
        word(left + 8, bottom - 9, "start", "stable"),
        word(right - 8, bottom - 9, "end", narrow ? "drifting" : "drifting, not important"));
    }

    function axes({ left, right, bottom, top }, x, y, farthest, highest, height) {
      const apart = (values, at, least) => values.reduce((kept, value) => (kept.length && Math.abs(at(value) - at(kept[kept.length - 1])) < least ? kept : [...kept, value]), []);
      const across = apart([0, 0.1, DRIFTED, 1, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000].filter((each) => each <= farthest), x, 34);
      const up = apart(ticks(0, highest, 6), y, 20);
      return svg("g", { class: "fields-axes" },
        svg("line", { x1: left, x2: right, y1: bottom, y2: bottom }), svg("line", { x1: left, x2: left, y1: top, y2: bottom }),
        across.map((value) => svg("text", { x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value, 2))),
        up.map((value) => svg("text", { x: left - 8, y: y(value), dy: "0.35em", "text-anchor": "end" }, short(value, 2))),
        svg("text", { x: right, y: height - 5, "text-anchor": "end" }, "drift, in standard deviations"),
        svg("text", { x: 0, y: 11, "text-anchor": "start" }, "importance (absolute)"));
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
        drift.alarms[i] ? plural(drift.alarms[i], "drift alarm", "drift alarms") : null);
    });
    picture.addEventListener("pointerleave", () => tip.hide());

    function drawHarmful() {
      const found = drifted(page.run);
      harmful.replaceChildren(el("h4", {}, found.length ? "Important and drifting" : "No important feature has drifted by half a standard deviation."),
        ...(found.length ? [el("ul", { class: "lines" }, found.slice(0, 10).map((i) => el("li", {}, named(drift.name[i]),
          el("span", { class: "muted" }, `${moved(i)}; importance ${short(drift.importance[i], 3)}${drift.alarms[i] ? `; ${plural(drift.alarms[i], "alarm")}` : ""}`))))] : []),
        found.length > 10 ? el("p", { class: "note" }, `and ${found.length - 10} more`) : "");
    }

    const FIELDS = { harmful: "important and drifting", "steady-strong": "important, stable", harmless: "drifting, not important", steady: "stable" };
    function asTable() {
      return table(["feature", "drift", "shift of the mean", "spread", "importance", "selected", "alarms", "field"], drift.name.slice(0, 200).map((name, i) => [
        named(name), short(drift.drift[i], 2), short(drift.moved[i], 2), `\u00d7 ${short(drift.spread[i], 2)}`, short(drift.importance[i], 3), drift.selected[i] ? "yes" : "", drift.alarms[i] || "", FIELDS[kind(i)],
      ]), { caption: "Drift and importance", numbers: [1, 2, 3, 4, 6] });
    }

    // Which features are not in the picture, and why.
    function leftOut(run) {
      const still = (wanted) => drift.name.filter((name, i) => !constant.has(name) && wanted(i));
      const late = still((i) => drift.drift[i] === null);
      const rest = run.counts.features - constant.size - still(() => true).length;
      return [
        constant.size ? `${plural(constant.size, "constant feature")} (${listed([...constant])})` : null,
        late.length ? `${plural(late.length, "feature")} without variation up to row ${whole(drift.from_row)} (${listed(late)})` : null,
        rest > 0 ? plural(rest, "other feature") + (drift.name.length < MOST_DRIFT ? " not present in both periods" : ` with less drift than the ${MOST_DRIFT} shown`) : null,
      ].filter(Boolean).join("; ");
    }

    const redraw = redrawn(box, draw);
    return (run) => {
      drift = run.drift;
      bar = leastImportant(run);
      constant = new Set(run.doubts.filter((one) => one.kind === "constant").map((one) => one.column));
      drift.name.forEach((name, i) => { if (drift.moved[i] === 0 && drift.spread[i] === 1) constant.add(name); });
      const important = nImportant(run);
      range.textContent = `Rows up to ${whole(drift.to_row)} compared with those up to ${whole(drift.from_row)}. Filled: selected. ${important ? `Important: among the first ${whole(important)} by absolute importance.` : "No feature is significant, so none counts as important."}` + (drift.alarms.some(Boolean) ? " Ringed: raised a drift alarm." : "");
      missing.textContent = `Not shown: ${leftOut(run) || "none"}.`;
      const count = (wanted) => drift.name.filter((_, i) => kind(i) === wanted).length;
      picture.setAttribute("aria-label", `Drift against importance. ${Object.entries(FIELDS).map(([name, words]) => `${words}: ${count(name)}`).join("; ")}.`);
      drawHarmful();
      renew(tableBox);
      redraw();
    };
  },
});
