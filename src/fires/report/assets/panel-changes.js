// What changed between two snapshots: for each feature a bar from its importance then to that now.

panels.push({
  id: "changes", title: "What changed in between",
  note: "Pick two moments. Each bar goes from the importance then to the importance now; the greatest changes come first.",
  shown: (run) => run.timeline.rows.length > 1 && run.timeline.series.some((one) => !one.coarse),
  make(body, page) {
    const sliders = [makeSlider("then"), makeSlider("now")];
    const back = el("button", { type: "button", class: "quiet", on: { click: () => toAlarm(-1) } }, "Previous alarm");
    const ahead = el("button", { type: "button", class: "quiet", on: { click: () => toAlarm(1) } }, "Next alarm");
    const all = el("button", { type: "button", class: "quiet", on: { click: () => choose(0, null) } }, "Whole run");
    const buttons = el("div", { class: "bar" }, back, ahead, all);
    const list = el("div", { class: "falls", role: "list" });
    const said = el("p", { class: "note", role: "status" });
    body.append(el("div", { class: "sliders" }, sliders.map((one) => one.node)), buttons, said, list);
    // What the reader has chosen, as rows; null follows the run.
    let run, chosen = [null, null];

    function makeSlider(label) {
      const value = el("output", {});
      const input = el("input", { type: "range", min: 0, step: 1, aria: { label: `${label}: snapshot` } });
      input.addEventListener("input", () => {
        const rowsOf = run.timeline.rows;
        const ends = sliders.map((one) => Number(one.input.value));
        // The two may meet, and then push each other, but never pass.
        if (ends[0] > ends[1]) ends[label === "then" ? 1 : 0] = ends[label === "then" ? 0 : 1];
        choose(ends[0], ends[1] === rowsOf.length - 1 ? null : ends[1]);
      });
      return { node: el("label", { class: "slider" }, el("span", { class: "muted" }, label), input, value), input, value };
    }

    function choose(then, now) {
      const at = run.timeline.rows;
      chosen = [at[then], now === null ? null : at[now]];
      draw();
    }

    // The places of the two snapshots: the last that is not after a chosen row.
    function ends() {
      const at = run.timeline.rows, last = at.length - 1;
      const before = (row) => Math.max(0, at.findLastIndex((each) => each <= row));
      const now = chosen[1] === null ? last : before(chosen[1]);
      const then = chosen[0] === null ? Math.min(before(at[last] * 0.9), last - 1) : before(chosen[0]);
      return [Math.min(then, now), now];
    }

    const alarms = () => [...new Set(alarmRows(run))].sort((a, b) => a - b);

    // Around the alarm before, or after, the one that is looked at: a twentieth of the run on each side of it.
    function toAlarm(step) {
      const at = run.timeline.rows, found = alarms();
      const [then, now] = ends();
      const middle = (at[then] + at[now]) / 2;
      const next = step < 0 ? found.filter((row) => row < middle - 1e-9 && row <= at[now]).pop() : found.find((row) => row > middle);
      const row = next ?? (step < 0 ? found[0] : found[found.length - 1]);
      const reach = at[at.length - 1] / 20;
      const first = Math.max(0, at.findLastIndex((each) => each < row));
      const after = at.findIndex((each) => each >= row + reach);
      choose(Math.max(0, Math.min(first, at.findLastIndex((each) => each <= row - 1))), after < 0 ? null : after);
      seen = row;
    }
    let seen = null;

    // Whether a feature was selected at a row; null where that is not known.
    function selectedAt(place, row) {
      const { places, rows: last, share } = run.members;
      const i = places.indexOf(place);
      if (i < 0) return null;
      const j = last.findIndex((each) => each >= row);
      return share[i][j < 0 ? last.length - 1 : j] >= 0.5;
    }

    function changes([then, now]) {
      const at = run.timeline.rows;
      return run.timeline.series.filter((one) => !one.coarse && one.importance[then] !== null && one.importance[now] !== null).map((one) => {
        const [was, is] = [selectedAt(one.place, at[then]), selectedAt(one.place, at[now])];
        return { name: one.name, place: one.place, from: one.importance[then], to: one.importance[now], word: was === is || was === null ? "" : is ? "came" : "left" };
      }).sort((a, b) => Math.abs(b.to - b.from) - Math.abs(a.to - a.from)).slice(0, 20);
    }

    function draw() {
      const at = run.timeline.rows, both = ends(), found = changes(both);
      sliders.forEach((one, i) => {
        one.input.max = at.length - 1;
        one.input.value = both[i];
        one.value.textContent = `row ${whole(at[both[i]])}`;
        one.input.setAttribute("aria-valuetext", `row ${whole(at[both[i]])}`);
      });
      back.hidden = ahead.hidden = !alarms().length;
      const values = found.flatMap((one) => [one.from, one.to]);
      const low = Math.min(0, ...values), high = Math.max(0, ...values), room = high - low || 1;
      const scale = (value) => (100 * (value - low)) / room;
      const words = (word) => listed(found.filter((one) => one.word === word).map((one) => one.name));
      said.textContent = [`${whole(at[both[1]] - at[both[0]])} rows in between.`, words("came") ? `Came: ${words("came")}.` : null, words("left") ? `Left: ${words("left")}.` : null].filter(Boolean).join(" ");
      list.replaceChildren(...found.map((one) => rowOfChange(one, scale)));
    }

    function rowOfChange({ name, place, from, to, word }, scale) {
      const change = to - from, up = change > 0;
      const [left, right] = [Math.min(scale(from), scale(to)), Math.max(scale(from), scale(to))];
      const look = up ? "fall-up" : "fall-down";
      const percentOf = (value) => `${value.toFixed(2)}%`;
      return el("div", { class: "fall", role: "listitem" },
        el("div", { class: "fall-name" }, el("button", { type: "button", class: "text", aria: { pressed: String(page.picked.has(place)) }, on: { click: () => page.pick(place) } }, named(name)),
          word ? el("span", { class: word === "came" ? "word good" : "word worse" }, word) : null),
        svg("svg", { class: `fall-bar ${look}`, role: "img", aria: { label: `from ${short(from, 3)} to ${short(to, 3)}` } },
          svg("title", {}, `${name}: from ${short(from, 3)} to ${short(to, 3)}`),
          svg("line", { class: "zero", x1: percentOf(scale(0)), x2: percentOf(scale(0)), y1: 0, y2: 22 }),
          svg("rect", { x: percentOf(left), width: percentOf(Math.max(0.25, right - left)), y: 6, height: 10, rx: 2 }),
          svg("circle", { class: "was", cx: percentOf(scale(from)), cy: 11, r: 4 }),
          svg("circle", { class: "is", cx: percentOf(scale(to)), cy: 11, r: 4 })),
        el("span", { class: "fall-values muted" }, `${short(from, 2)} \u2192 ${short(to, 2)}`),
        el("span", { class: "fall-change number" }, `${up ? "+" : ""}${fixed(change)}`));
    }

    page.onPick(() => draw());
    return (next) => {
      if (run && run.run.id !== next.run.id) chosen = [null, null];
      run = next;
      draw();
    };
  },
});
