// Several runs side by side: their results, and which features they agree on.

panels.push({
  id: "runs", title: "Runs side by side", of: "runs",
  note: "The buttons above choose which run the rest of the page shows.",
  shown: (data) => data.runs.length > 1,
  make(body, page) {
    const results = el("div"), common = el("div");
    body.append(results, common);
    return (data) => {
      const total = (run, who) => ((run.scores.total || {})[run.scores.name] || {})[who];
      results.replaceChildren(table(["run", "rows", "selected", "score", "all features", "stability", "drift events", "best features"],
        data.runs.map((run) => [named(run.run.name), rows(run.counts.rows), `${whole(run.counts.selected)} of ${rows(run.counts.features)}`,
          `${scored(total(run, "selected"))} ${SCORES[run.scores.name] || ""}`, scored(total(run, "all")), fixed(run.stability.total), whole(run.events.length),
          run.now.name.slice(0, 3).flatMap((name, i) => [i ? ", " : "", named(name)])]), { caption: "Results of the runs", numbers: [1, 3, 4, 5, 6] }));
      const sets = data.runs.map((run) => new Map(run.now.name.map((name, i) => [name, i]).filter(([, i]) => run.now.selected[i])));
      const names = [...new Set(sets.flatMap((set) => [...set.keys()]))];
      const count = (name) => sets.filter((set) => set.has(name)).length;
      names.sort((a, b) => count(b) - count(a));
      common.replaceChildren(disclosure(`Selected features, run by run (${whole(names.filter((name) => count(name) === sets.length).length)} of ${whole(names.length)} in all runs)`, () =>
        table(["feature", ...data.runs.map((run) => named(run.run.name))], names.slice(0, 200).map((name) => [named(name),
          ...sets.map((set, i) => (set.has(name) ? fixed(data.runs[i].now.importance[set.get(name)]) : "\u2013"))]),
        { caption: "Importance of the selected features in each run", numbers: data.runs.map((_, i) => i + 1) })));
    };
  },
});
