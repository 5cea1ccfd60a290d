// All features of the page as a table: sort, filter, pick for the chart, export.

const FEATURE_COLUMNS = [
  { key: "rank", title: "rank", number: true, show: whole },
  { key: "name", title: "feature" },
  { key: "importance", title: "importance", number: true, show: (value) => fixed(value, 4), size: true },
  { key: "low", title: "low", number: true, show: (value) => fixed(value, 4) },
  { key: "high", title: "high", number: true, show: (value) => fixed(value, 4) },
  { key: "selected", title: "selected", show: (value) => (value ? "yes" : "") },
  { key: "above_noise", title: "significant", show: (value) => (value === null ? "\u2013" : value ? "yes" : "no") },
  { key: "share", title: "share", number: true, show: percent },
  { key: "since", title: "since row", number: true, show: (value) => (value === null ? "" : whole(value)) },
  { key: "drift", title: "drift", number: true, show: (value) => short(value, 2) },
  { key: "alarms", title: "alarms", number: true, show: (value) => (value ? whole(value) : "") },
  { key: "missing", title: "missing", number: true, show: (value) => percent(value, 1) },
  { key: "kind", title: "kind", show: (value) => value || "" },
  { key: "class", title: "class", show: (value) => value || "" },
];

panels.push({
  id: "features", title: "All features", part: "Details",
  folded: (run) => `${plural(run.counts.features, "feature")}: sort, filter, export`,
  shown: (run) => run.now.place.length > 0,
  make(body, page) {
    const filter = el("input", { type: "search", class: "grow", placeholder: "Filter by name", aria: { label: "Filter features by name" }, on: { input: () => { limit = 15; draw(); } } });
    const save = el("button", { type: "button", on: { click: () => download(page.run) } }, "Export CSV");
    const said = el("p", { class: "note", role: "status" });
    const head = el("tr"), rowsOf = el("tbody");
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { limit *= 4; draw(); } } }, "Show more");
    let sort = "rank", up = true, limit = 15;
    body.append(el("div", { class: "bar" }, filter, save),
      el("div", { class: "scroll", tabindex: 0, role: "group", aria: { label: "All features" } },
        el("table", { class: "features" }, el("caption", { class: "hidden", text: "All features" }), el("thead", {}, head), rowsOf)),
      el("div", { class: "bar" }, more), said);
    page.onPick(() => draw());

    function draw() {
      const run = page.run, now = run.now;
      const columns = FEATURE_COLUMNS.filter(({ key }) => now[key] && now[key].some((value) => value !== null && value !== 0));
      replaced(head, columns.map((column) => el("th", {
        scope: "col", class: column.number ? "number" : null, aria: { sort: column.key === sort ? (up ? "ascending" : "descending") : "none" },
      }, el("button", { type: "button", class: "sort", on: { click: () => { up = column.key === sort ? !up : !column.size; sort = column.key; draw(); } } }, column.title))));
      const asked = filter.value.trim().toLowerCase();
      const places = now.place.map((_, i) => i).filter((i) => now.name[i].toLowerCase().includes(asked));
      const by = columns.find((column) => column.key === sort) || columns[0];
      const value = (i) => { const found = now[by.key][i]; return by.size && found !== null ? Math.abs(found) : found; };
      places.sort((a, b) => compareValues(value(a), value(b), up) || now.rank[a] - now.rank[b]);
      replaced(rowsOf, places.slice(0, limit).map((i) => el("tr", {}, columns.map((column) => el("td", { class: column.number ? "number" : null },
        column.key === "name" ? pickButton(now, i) : column.show(now[column.key][i]))))));
      more.hidden = places.length <= limit;
      const rest = run.counts.features - now.place.length;
      said.textContent = `${plural(places.length, "feature")}${asked ? " found" : ""}. A name adds the feature to the chart of importance.` + (rest > 0 ? ` The page holds the first ${whole(now.place.length)} by rank; features.csv has all.` : "");
    }

    function pickButton(now, i) {
      const on = page.picked.has(now.place[i]);
      const known = page.run.timeline.series.some((one) => one.place === now.place[i]);
      if (!known) return named(now.name[i]);
      return el("button", { type: "button", class: "text", aria: { pressed: String(on) }, on: { click: () => page.pick(now.place[i]) } }, named(now.name[i]));
    }
    return draw;
  },
});

// Nothing known comes last, whichever way the rest is sorted.
function compareValues(a, b, up) {
  if (a === b) return 0;
  if (a === null || a === undefined || a === "") return 1;
  if (b === null || b === undefined || b === "") return -1;
  return (a < b ? -1 : 1) * (up ? 1 : -1);
}

function download(run) {
  const now = run.now;
  const keys = FEATURE_COLUMNS.map((column) => column.key).filter((key) => now[key]);
  saveText(`${run.run.name}-features.csv`, csvText(keys, now.place.map((_, i) => keys.map((key) => now[key][i]))), "text/csv");
}

function csvText(head, rows) {
  // A cell that begins like a formula would be run by a spreadsheet.
  const safe = (text) => (/^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text);
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "string" ? safe(value) : String(value);
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function saveText(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
