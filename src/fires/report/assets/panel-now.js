// Now: one sentence, the figures that matter, and the leaderboard.

panels.push({
  id: "now", label: "Selected now", part: "Selected now",
  make(body, page) {
    const sentence = el("p", { class: "sentence" });
    const tiles = el("div", { class: "tiles" });
    const board = el("tbody");
    const legend = el("p", { class: "note" });
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { all = !all; update(page.run); } } });
    const before = el("th", { scope: "col", class: "x-move" });
    const head = el("tr", {},
      el("th", { scope: "col", text: "rank" }), before, el("th", { scope: "col", text: "feature" }),
      el("th", { scope: "col", text: "importance" }), el("th", { scope: "col", class: "number" }, el("span", { class: "hidden" }, "value")),
      el("th", { scope: "col", class: "x-spark", text: "over time" }), el("th", { scope: "col", class: "x-since", text: "selected since" }),
      el("th", { scope: "col", class: "x-share number", text: "share", title: "of all batches" }));
    const columns = ["rank", "move", "name", "gauge", "value", "spark", "since", "share"];
    const whole = el("div", {},
      el("table", { class: "board" },
        el("caption", { class: "hidden", text: "The features that matter most now" }),
        el("colgroup", {}, columns.map((name) => el("col", { class: `c-${name}` }))),
        el("thead", {}, head), board));
    body.append(sentence, tiles, whole, el("div", { class: "bar" }, more), legend);
    let all = false;

    function update(run) {
      sentence.replaceChildren(...run.sentence.map((part) => (typeof part === "string" ? part : named(part.feature, "b"))));
      tiles.replaceChildren(...tilesOf(run));
      const now = run.now;
      const places = now.place.map((_, i) => i);
      const selected = places.filter((i) => now.selected[i]);
      // In the order of their bars.
      const candidates = (selected.length ? selected : places.slice(0, 10)).sort((a, b) => Math.abs(now.importance[b]) - Math.abs(now.importance[a]) || now.rank[a] - now.rank[b]);
      const shown = all ? candidates.slice(0, 200) : candidates.slice(0, 12);
      whole.hidden = !shown.length;
      head.children[3].textContent = run.run.intervals ? "importance, with 95\u00a0% interval" : "importance";
      before.textContent = run.rank_before_row === null ? "" : "moved";
      before.title = run.rank_before_row === null ? "" : `since row ${rows(run.rank_before_row)}`;
      const ends = shown.flatMap((i) => [now.low[i], now.high[i], now.importance[i]]).filter((end) => end !== null);
      const reach = [Math.min(0, ...ends), Math.max(1e-9, ...ends)];
      const signed = shown.some((i) => now.importance[i] < 0);
      const series = new Map(run.timeline.series.map((one) => [one.place, one]));
      board.replaceChildren(...shown.map((i) => rowOf(run, i, reach, series.get(now.place[i]))));
      const weak = shown.some((i) => now.above_noise[i] === false);
      const unclear = shown.some((i) => now.above_noise[i] && now.low[i] <= 0 && now.high[i] >= 0);
      more.hidden = candidates.length <= 12;
      more.textContent = all ? "Show the first 12" : candidates.length > 200 ? "Show the first 200" : `Show all ${candidates.length}`;
      legend.textContent = [meaning(run, signed), run.run.intervals && run.run.why ? `${run.run.why}.` : "",
        weak || unclear ? `Significant: given the selected features, corrected for ${plural(run.counts.features, "feature")}.` : "",
        unclear ? "Intervals are given all features: where features are correlated, that of a significant one can contain 0." : ""].filter(Boolean).join(" ");
    }
    return update;
  },
});

function meaning(run, signed) {
  const { kind, classes } = run.run;
  if (!signed) return "";
  if (kind === "classes" && classes && classes.length === 2) return `Positive values favour class "${classes[1]}", negative ones "${classes[0]}".`;
  if (kind === "numbers") return "Positive values: the target grows with the feature.";
  return "";
}

function tilesOf(run) {
  const { counts, scores, stability } = run;
  const total = (scores.total || {})[scores.name] || {};
  const tile = (value, label) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label));
  const found = [tile(`${whole(counts.selected)} of ${rows(counts.features)}`, "features selected")];
  if (counts.above_noise !== null) {
    const others = counts.significant_selected < counts.above_noise ? `, ${whole(counts.significant_selected)} selected` : "";
    found.push(tile(whole(counts.above_noise), `${counts.above_noise === 1 ? "significant feature" : "significant features"}${others}`));
  }
  if (total.selected !== undefined && total.selected !== null) {
    const other = total.all === undefined || total.all === null ? "" : `; ${scored(total.all)} with all features`;
    found.push(tile(scored(total.selected), `${SCORES[scores.name] || scores.name}${other}`));
  }
  if (stability.total !== null) found.push(tile(fixed(stability.total), "mean stability (1: no change)"));
  found.push(tile(rows(counts.rows), counts.rows === 1 ? "row read" : "rows read"));
  found.push(tile(whole(run.events.length), run.events.length === 1 ? "drift event" : "drift events"));
  return found;
}

function rowOf(run, i, reach, series) {
  const now = run.now;
  const moved = now.rank_before[i] === null ? null : now.rank_before[i] - now.rank[i];
  const said = moved === null ? "new" : moved === 0 ? "\u2013" : `${moved > 0 ? "\u25b2" : "\u25bc"} ${Math.abs(moved)}`;
  const aria = moved === null ? "not ranked before" : moved === 0 ? "same rank" : `${moved > 0 ? "up" : "down"} ${Math.abs(moved)}`;
  const weak = now.above_noise[i] === false;
  return el("tr", { class: weak ? "weak" : null },
    el("td", {}, whole(now.rank[i])),
    el("td", { class: `x-move ${moved > 0 ? "up" : moved < 0 ? "down" : "muted"}` }, run.rank_before_row === null ? "" : el("span", { aria: { label: aria }, role: "img" }, said)),
    el("td", {}, named(now.name[i]),
      weak ? el("span", { class: "noise" }, "not significant") : now.class && now.class[i] ? el("span", { class: "noise" }, `for ${now.class[i]}`) : null),
    el("td", {}, gauge(now, i, reach)),
    el("td", { class: "number" }, fixed(now.importance[i], decimalsFor(reach[1] - reach[0], 3))),
    el("td", { class: "x-spark" }, series ? spark(series) : ""),
    el("td", { class: "x-since" }, now.since[i] === null ? el("span", { class: "muted" }, "not selected") : `row ${whole(now.since[i])}`),
    el("td", { class: "x-share number" }, percent(now.share[i])));
}

// A bar from 0 to the importance, and the interval on top of it.
function gauge(now, i, [least, most]) {
  const at = (value) => 0.5 + (99 * (value - least)) / (most - least);
  const value = now.importance[i] ?? 0;
  const [from, to] = [Math.min(at(0), at(value)), Math.max(at(0), at(value))];
  const known = now.low[i] !== null && now.high[i] !== null;
  const said = known ? `${short(value)}, between ${short(now.low[i])} and ${short(now.high[i])}` : short(value);
  const bar = value < 0 ? "bar-negative" : "bar-positive";
  const [low, high] = known ? [now.low[i], now.high[i]].map((end) => Math.min(100, Math.max(0, at(end)))) : [0, 0];
  return svg("svg", { class: "gauge", role: "img", aria: { label: said } },
    svg("title", {}, said),
    svg("line", { class: "zero", x1: `${at(0)}%`, x2: `${at(0)}%`, y1: 0, y2: 22 }),
    svg("rect", { class: bar, x: `${from}%`, width: `${Math.max(0.3, to - from)}%`, y: 5, height: 12, rx: 2 }),
    known ? svg("line", { class: "reach", x1: `${low}%`, x2: `${high}%`, y1: 11, y2: 11 }) : null,
    known ? [low, high].map((end) => svg("line", { class: "reach", x1: `${end}%`, x2: `${end}%`, y1: 7.5, y2: 14.5 })) : null);
}

// The size of the importance over the whole run.
function spark(series) {
  const values = series.importance.map((value) => (value === null ? null : Math.abs(value)));
  const top = Math.max(1e-9, ...values.filter((value) => value !== null));
  const step = 120 / Math.max(1, values.length - 1);
  let path = "", pen = "M";
  values.forEach((value, i) => {
    if (value === null) { pen = "M"; return; }
    path += `${pen}${(i * step).toFixed(1)} ${(24 - (22 * value) / top).toFixed(1)}`;
    pen = "L";
  });
  const known = series.importance.filter((value) => value !== null);
  return svg("svg", { class: "spark", viewBox: "0 0 120 26", preserveAspectRatio: "none", role: "img",
    aria: { label: `size from ${short(Math.abs(known[0]), 2)} to ${short(Math.abs(known[known.length - 1]), 2)}` } },
  svg("path", { class: "spark-line", d: path }));
}
