// How well the selected features predict, beside all features and knowing nothing; how stable they are.

panels.push({
  id: "scores", title: "Predictive performance", part: "How well they predict", wide: false,
  note: "Each batch is predicted before it is learnt from. Lines are running means; the band spans the worst and the best batch.",
  shown: (run) => Object.values(run.scores.series).some((one) => one.mean.some((value) => value !== null)),
  make(body, page) {
    const chart = new RowsChart(body, "Scores over time");
    const legend = el("div", { class: "legend" });
    const totals = el("div", {});
    const by = el("p", { class: "muted" });
    body.append(legend, totals, by);
    return (run) => {
      const { scores } = run;
      const names = Object.keys(SOURCES).filter((name) => name in scores.series);
      const title = SCORES[scores.name] || scores.name;
      chart.show(() => scoresSpec(run, names), `${title} over time. In all: ${names.map((name) => `${SOURCES[name] || name} ${short((scores.total[scores.name] || {})[name], 3)}`).join(", ")}.`);
      legend.replaceChildren(...names.map((name) => keyed(`var(${SCORE_COLOURS[name] || "--muted"})`, SOURCES[name] || name)));
      by.textContent = scores.by ? `Predictor: ${scores.by}.` : "";
      const kinds = Object.keys(scores.total).filter((kind) => Object.values(scores.total[kind]).some((value) => value !== null));
      totals.replaceChildren(kinds.length ? table(["over all rows", ...kinds.map((kind) => SCORES[kind] || kind)],
        names.map((name) => [`${SOURCES[name] || name}`, ...kinds.map((kind) => scored(scores.total[kind][name]))]),
        { caption: "Scores over all rows", numbers: kinds.map((_, i) => i + 1) }) : "");
    };
  },
});

const SCORE_COLOURS = { selected: "--series-1", all: "--series-2", majority: "--muted", mean: "--muted" };

function scoresSpec(run, names) {
  const { scores } = run;
  const reach = Math.max(1, Math.ceil(scores.rows.length / 40));
  const lines = names.map((name) => smoothed(scores.series[name].mean, scores.n_rows, reach));
  const own = scores.series.selected;
  const data = [scores.rows, ...lines, own.max, own.min];
  const looks = { selected: { width: 2.2 }, all: { width: 1.6 }, majority: { width: 1.4, dash: [6, 4] }, mean: { width: 1.4, dash: [6, 4] } };
  const hidden = { stroke: "transparent", width: 0, points: { show: false } };
  const known = lines.flat().filter((value) => value !== null);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const room = Math.max(0.02, 0.25 * (high - low));
  return {
    data,
    series: [...names.map((name) => ({ stroke: theme((SCORE_COLOURS[name] || "--muted").slice(2)), points: { show: scores.rows.length < 3 || undefined }, ...(looks[name] || {}) })), hidden, hidden],
    bands: [{ series: [names.length + 1, names.length + 2], fill: faint(theme("series-1"), 0.1) }],
    marks: alarmRows(run),
    height: 240,
    y: { range: [low < 0 ? low - room : Math.max(0, low - room), Math.min(high + room, Math.max(1, high))] },
    tell: (at) => [
      ...names.map((name, i) => keyed(`var(${SCORE_COLOURS[name] || "--muted"})`, `${SOURCES[name] || name} ${scored(lines[i][at])}`)),
      el("div", { class: "muted" }, `batches from ${scored(own.min[at])} to ${scored(own.max[at])}`),
    ],
  };
}

panels.push({
  id: "stability", title: "Stability of the selection", part: "How well they predict", wide: false,
  note: "1: unchanged over the last ten batches; 0: no better than a random selection. The band is the 95 % interval.",
  shown: (run) => run.stability.mean.some((value) => value !== null),
  make(body, page) {
    const chart = new RowsChart(body, "Stability over time");
    const legend = el("div", { class: "legend" });
    const totals = el("div", {});
    body.append(legend, totals);
    return (run) => {
      const { stability, counts } = run;
      const now = stability.now;
      const wide = now && now[1] !== now[2];
      const facts = [
        now ? ["now", fixed(now[0]), `${fixed(now[1])} to ${fixed(now[2])}`] : null,
        stability.total === null ? null : ["mean of the run", fixed(stability.total), ""],
        ["lowest", fixed(Math.min(...stability.min.filter((value) => value !== null))), ""],
      ].filter(Boolean).map((fact) => fact.slice(0, wide ? 3 : 2));
      legend.textContent = `The selection changed in ${whole(counts.changes)} of ${plural(counts.batches, "batch", "batches")}.`;
      chart.show(() => stabilitySpec(run), `Stability over time. ${facts.map((fact) => fact.join(" ")).join("; ")}. ${legend.textContent}`);
      totals.replaceChildren(table(["", "stability", "95 % interval"].slice(0, wide ? 3 : 2), facts, { caption: "Stability over all rows", numbers: [1, 2] }));
    };
  },
});

function stabilitySpec(run) {
  const { stability } = run;
  const clipped = (values) => values.map((value) => (value === null ? null : Math.min(1, Math.max(-1, value))));
  const data = [stability.rows, stability.mean, clipped(stability.high), clipped(stability.low), stability.min];
  const known = [...stability.mean, ...stability.min].filter((value) => value !== null);
  const low = Math.min(0.8, ...known);
  const colour = theme("series-3");
  const hidden = { stroke: "transparent", width: 0, points: { show: false } };
  return {
    data,
    series: [{ stroke: colour, width: 2, points: { show: stability.rows.length < 3 || undefined } }, hidden, hidden, { stroke: faint(colour, 0.5), width: 1, dash: [2, 3], points: { show: false } }],
    bands: [{ series: [2, 3], fill: faint(colour, 0.16) }],
    marks: alarmRows(run),
    height: 240,
    y: { range: [low - 0.05 * (1 - low), 1.02] },
    tell: (at) => [
      keyed("var(--series-3)", `stability ${fixed(data[1][at])}`),
      data[3][at] === null ? "" : el("div", { class: "muted" }, `interval ${fixed(data[3][at])} to ${fixed(data[2][at])}`),
      stability.min[at] === null ? "" : el("div", { class: "muted" }, `lowest ${fixed(stability.min[at])}`),
    ],
  };
}
