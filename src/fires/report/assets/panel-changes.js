// What changed between two snapshots: for each feature a bar from its importance then to that now.

panels.push({
  id: "changes", title: "Compare two points in time", part: "What changed",
  note: (run) => `Each bar runs from the earlier importance (open) to the later one (filled); the largest changes come first.${run.run.intervals ? " Grey: within the uncertainty." : ""}`,
  shown: (run) => run.timeline.rows.length > 1 && run.timeline.series.some((one) => !one.coarse),
  make(body, page) {
    const sliders = ["from", "to"].map(makeSlider);
    const back = el("button", { type: "button", class: "quiet", on: { click: () => toAlarm(alarms().filter((row) => row < (seen ?? Infinity)).pop()) } }, "Previous event");
    const ahead = el("button", { type: "button", class: "quiet", on: { click: () => toAlarm(alarms().find((row) => row > seen)) } }, "Next event");
    const wholeRun = el("button", { type: "button", class: "quiet", on: { click: () => choose([0, run.timeline.rows.length - 1]) } }, "Whole run");
    const latestTenth = el("button", { type: "button", class: "quiet", on: { click: () => { chosen = [null, null]; seen = null; draw(); } } }, "Last tenth");
    const said = el("p", { class: "note", role: "status" });
    const list = el("div", { class: "falls", role: "list" });
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { all = !all; draw(); } } });
    body.append(el("div", { class: "sliders" }, sliders.map((one) => one.node)), el("div", { class: "bar" }, latestTenth, wholeRun, back, ahead), said, list, el("div", { class: "bar after" }, more));
    // What the reader has chosen, as rows: null goes on with the run. Seen is the row of the alarm in between.
    let run, chosen = [null, null], seen = null, all = false;

    const alarms = () => [...new Set(alarmRows(run))].sort((a, b) => a - b);

    function makeSlider(label, side) {
      const value = el("output", {});
      const input = el("input", { type: "range", min: 0, step: 1, aria: { label: `${label} row` } });
      input.addEventListener("input", () => {
        const both = sliders.map((one) => Number(one.input.value));
        // They may meet, and then one pushes the other.
        choose(side ? [Math.min(...both), both[1]] : [both[0], Math.max(...both)]);
      });
      return { node: el("label", { class: "slider" }, el("span", { class: "muted" }, label), input, value), input, value };
    }

    function choose([from, to], alarm = null) {
      const at = run.timeline.rows;
      chosen = [at[from], to === at.length - 1 ? null : at[to]];
      seen = alarm;
      draw();
    }

    // From the last snapshot before an alarm to one a twentieth of the run after it.
    function toAlarm(row) {
      const at = run.timeline.rows, last = at.length - 1;
      const to = at.findIndex((each) => each >= row + at[last] / 20);
      choose([Math.max(0, at.findLastIndex((each) => each < row)), to < 0 ? last : to], row);
    }

    // The places of both snapshots: the last ones that are not after the chosen rows.
    function ends() {
      const at = run.timeline.rows, last = at.length - 1;
      const before = (row) => Math.max(0, at.findLastIndex((each) => each <= row));
      const to = chosen[1] === null ? last : before(chosen[1]);
      const from = chosen[0] === null ? Math.min(before(0.9 * at[last]), last - 1) : before(chosen[0]);
      return [Math.min(from, to), to];
    }

    // Whether a feature was selected at a row; null where that is not known.
    function selectedAt(place, row) {
      const i = run.members.places.indexOf(place);
      if (i < 0) return null;
      const span = run.members.rows.findIndex((last) => last >= row);
      return run.members.share[i][span < 0 ? run.members.rows.length - 1 : span] >= 0.5;
    }

    function changes([from, to]) {
      const at = run.timeline.rows;
      return run.timeline.series.filter((one) => !one.coarse && one.importance[from] !== null && one.importance[to] !== null).map((one) => {
        const [was, is] = [selectedAt(one.place, at[from]), selectedAt(one.place, at[to])];
        const noise = run.run.intervals ? 1.96 * Math.hypot(one.uncertainty[from] || 0, one.uncertainty[to] || 0) : 0;
        const word = was === null || was === is ? null : is ? "added" : "dropped";
        return { name: one.name, place: one.place, from: one.importance[from], to: one.importance[to], noise, word };
      }).sort((a, b) => Math.abs(b.to - b.from) - Math.abs(a.to - a.from));
    }

    function draw() {
      const at = run.timeline.rows, both = ends(), found = changes(both);
      // Those that are more than noise, some to compare them with, and all that were added or dropped.
      const clear = found.filter((one) => Math.abs(one.to - one.from) > one.noise).length;
      const first = Math.min(20, Math.max(8, clear)), most = Math.min(20, found.length);
      const shown = found.filter((one, i) => i < (all ? most : first) || one.word);
      more.hidden = most <= first;
      more.textContent = all ? `Show the first ${first}` : `Show the first ${most}`;
      sliders.forEach(({ input, value }, side) => {
        const row = `row ${whole(at[both[side]])}`;
        input.max = at.length - 1;
        input.value = both[side];
        input.setAttribute("aria-valuetext", row);
        value.textContent = row;
      });
      back.hidden = ahead.hidden = !alarms().length;
      back.disabled = !alarms().some((row) => row < (seen ?? Infinity));
      ahead.disabled = seen === null || !alarms().some((row) => row > seen);
      said.textContent = inWords(both, found);
      const values = shown.flatMap((one) => [one.from, one.to]);
      const low = Math.min(0, ...values), room = Math.max(0, ...values) - low || 1;
      const decimals = decimalsFor(room, 2);
      replaced(list, shown.map((one) => lineOf(one, (value) => (100 * (value - low)) / room, decimals)));
    }

    function inWords([from, to], found) {
      const at = run.timeline.rows;
      const who = (word) => found.filter((one) => one.word === word).map((one) => one.name);
      return [
        `${plural(at[to] - at[from], "row")} in between${seen === null ? "" : `, around the drift event at row ${whole(seen)}`}.`,
        who("added").length ? `Added: ${listed(who("added"))}.` : null, who("dropped").length ? `Dropped: ${listed(who("dropped"))}.` : null,
      ].filter(Boolean).join(" ");
    }

    function lineOf({ name, place, from, to, noise, word }, scale, decimals) {
      const change = to - from, low = Math.min(from, to), high = Math.max(from, to);
      const look = Math.abs(change) <= noise ? "fall-noise" : change > 0 ? "fall-up" : "fall-down";
      const at = (value) => `${scale(value).toFixed(2)}%`;
      const both = `${fixed(from, decimals)} \u2192 ${fixed(to, decimals)}`;
      return el("div", { class: "fall", role: "listitem" },
        el("div", { class: "fall-name" },
          el("button", { type: "button", class: "text", aria: { pressed: String(page.picked.has(place)) }, on: { click: () => page.pick(place) } }, named(name)),
          word ? el("span", { class: word === "added" ? "word good" : "word worse" }, word) : null),
        svg("svg", { class: `fall-bar ${look}`, role: "img", aria: { label: `from ${fixed(from, decimals)} to ${fixed(to, decimals)}` } },
          svg("title", {}, both),
          svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: 22 }),
          svg("rect", { x: at(low), width: `${Math.max(0.25, scale(high) - scale(low)).toFixed(2)}%`, y: 7, height: 8, rx: 2 }),
          svg("circle", { class: "was", cx: at(from), cy: 11, r: 4 }),
          svg("circle", { cx: at(to), cy: 11, r: 4 })),
        el("span", { class: "fall-values muted" }, both),
        el("span", { class: "number" }, `${change > 0 ? "+" : ""}${fixed(change, decimals)}`));
    }

    page.onPick(draw);
    return (next) => {
      const isNew = !run || run.run.id !== next.run.id;
      run = next;
      if (isNew) [chosen, seen] = [[null, null], null];
      if (isNew && alarms().length) toAlarm(alarms().pop()); // the first question is what an alarm has changed
      else draw();
    };
  },
});
