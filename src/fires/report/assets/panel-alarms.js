// Drift events: alarms close to each other are one, with what changed in the selection and in the scores.

panels.push({
  id: "alarms", title: "Drift events", part: "What changed",
  note: "Alarms within 1,000 rows of each other are one event; the strongest comes first. Strong: at least twice the alarm threshold; clear: at least 1.25 times.",
  shown: (run) => run.events.length > 0,
  make(body) {
    const list = el("div", {}), folded = el("p", { class: "muted" });
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { all = !all; draw(); } } });
    body.append(list, folded, el("div", { class: "bar" }, more));
    let all = false, events = [], name = "accuracy";

    const parts = [["came", "good", "added"], ["left", "worse", "dropped"], ["flipped", "", "changed sign"]];
    const names = (found) => [...found.slice(0, 3).map((each) => named(each)), found.length > 3 ? el("span", { class: "muted" }, `and ${found.length - 3} more`) : null];
    const score = (side) => (side && side[name]) ?? null;
    const compared = ({ before, after }) => (score(before) === null && score(after) === null ? "" : `${scored(score(before))} \u2192 ${scored(score(after))}`);
    const changes = (event) => parts.filter(([key]) => event[key] && event[key].length);

    function change(event) {
      const found = changes(event);
      return el("span", { class: "change" }, found.length ? found.map(([key, look, word]) => el("span", { class: "keyed" }, el("span", { class: `word ${look}` }, word), ...names(event[key]))) : "selection unchanged");
    }

    function draw() {
      const changed = events.filter((event) => event.severity === "strong" || changes(event).length);
      const some = (changed.length ? changed : events).slice(0, changed.length ? 8 : 1), shown = all ? events : some;
      const scored = shown.some((event) => score(event.before) !== null || score(event.after) !== null);
      const head = ["rows", "features", "severity", "selection", scored ? `${SCORES[name] || name}, before \u2192 after` : null].filter(Boolean);
      list.replaceChildren(table(head, shown.map((event) => [
        event.last_row > event.row ? `${whole(event.row)} to ${whole(event.last_row)}` : whole(event.row),
        event.features.length ? el("span", { class: "keyed" }, ...names(event.features)) : "all features", event.severity, change(event),
        scored ? el("span", { class: "scores", data: { score: SCORES[name] || name } }, compared(event)) : null,
      ].filter((cell) => cell !== null)), { caption: "Drift events", numbers: scored ? [head.length - 1] : [] }));
      const left = events.length - shown.length;
      folded.hidden = !left;
      folded.textContent = `and ${plural(left, "more event", "more events")}${changed.length <= some.length ? " that left the selection unchanged" : ""}`;
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
