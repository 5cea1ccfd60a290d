// Columns that carry the same information, and columns that became several features.

panels.push({
  id: "twins", title: "Redundant features and groups", part: "Details",
  note: "A redundant feature adds nothing to the selected feature named first. A group is one column of the data, encoded as several features.",
  folded: (run) => [
    run.twins.length ? plural(new Set(run.twins.map((one) => one.feature)).size, "redundant feature") : null,
    run.groups.length ? plural(run.groups.length, "group") : null,
  ].filter(Boolean).join(", "),
  shown: (run) => run.twins.length > 0 || run.groups.length > 0,
  make(body) {
    const MOST = 60;
    const twins = el("div", {}), groups = el("div", {});
    body.append(twins, groups);

    const lines = (title, found, line) => [
      el("h4", {}, title), el("ul", { class: "lines" }, found.slice(0, MOST).map((one) => el("li", {}, line(one)))),
      found.length > MOST ? el("p", { class: "note" }, `and ${whole(found.length - MOST)} more`) : "",
    ];
    return (run) => {
      const selected = new Set(run.now.name.filter((_, i) => run.now.selected[i]));
      const likeOne = grouped(run.twins, ({ of }) => of);
      twins.hidden = !run.twins.length;
      twins.replaceChildren(...lines("Redundant features", [...likeOne], ([of, found]) => [named(of), el("span", { class: "muted" }, "makes redundant:"), el("span", { title: found[0].why }, listed(found.map((one) => one.feature), 12))]));
      groups.hidden = !run.groups.length;
      groups.replaceChildren(...lines("Groups", run.groups, ({ name, features }) => {
        const chosen = features.filter((each) => selected.has(each));
        return [named(name), el("span", { class: "muted" }, `${plural(features.length, "feature")}, ${chosen.length ? `${whole(chosen.length)} selected: ${listed(chosen)}` : "none selected"}`)];
      }));
    };
  },
});
