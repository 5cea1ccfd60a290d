// Columns that say the same, and columns that became several features.

panels.push({
  id: "twins", title: "Redundant features and groups",
  note: "A redundant feature says the same as another one. A group is one column of the data that became several features.",
  shown: (run) => run.twins.length > 0 || run.groups.length > 0,
  make(body) {
    const MOST = 30;
    const twins = el("div", {}), groups = el("div", {});
    body.append(el("div", { class: "columns" }, twins, groups));

    const lines = (title, found, line) => [
      el("h3", {}, title), el("ul", { class: "lines" }, found.slice(0, MOST).map((one) => el("li", {}, line(one)))),
      found.length > MOST ? el("p", { class: "note" }, `and ${whole(found.length - MOST)} more`) : "",
    ];
    return (run) => {
      const selected = new Set(run.now.name.filter((_, i) => run.now.selected[i]));
      twins.hidden = !run.twins.length;
      twins.replaceChildren(...lines("Redundant features", run.twins, ({ feature, of, why }) => [
        el("span", { class: "pair" }, named(feature), el("span", { class: "muted" }, "is like"), named(of)), why ? el("span", { class: "muted" }, why) : null]));
      groups.hidden = !run.groups.length;
      groups.replaceChildren(...lines("Groups", run.groups, ({ name, features }) => {
        const chosen = features.filter((each) => selected.has(each));
        return [named(name), el("span", { class: "muted" }, `${plural(features.length, "feature")}, ${chosen.length ? `${whole(chosen.length)} selected: ${listed(chosen)}` : "none selected"}`)];
      }));
    };
  },
});
