// Health: rejected rows, missing values, suspicious columns, speed; settings and versions of the run.

panels.push({
  id: "health", title: "Data quality, speed and settings", part: "Details",
  folded: ({ counts, doubts }) => [
    plural(counts.bad, "rejected row"), plural(counts.missing, "missing value"), doubts.length ? plural(doubts.length, "suspicious column") : null,
  ].filter(Boolean).join(", "),
  make(body, page) {
    const facts = el("div"), bad = el("div"), doubts = el("div"), speed = el("div");
    const columns = el("div", { class: "columns" }, facts, bad, doubts, speed);
    body.append(columns);
    speed.append(el("h4", {}, "Milliseconds per batch, selecting and training"));
    const chart = new RowsChart(speed, "Milliseconds per batch");
    body.append(disclosure("Settings", () => settingsOf(page.run)));
    return (run) => {
      const { health, counts } = run;
      const late = health.latency;
      facts.replaceChildren(el("dl", {}, [
        ["rows", whole(counts.rows)], ["batches", whole(counts.batches)],
        ["rows per second", health.rows_per_second === null ? "\u2013" : whole(health.rows_per_second)],
        ["time per batch", late ? `${duration(late.p50)} (median), ${duration(late.p99)} (99 %), ${duration(late.max)} at most` : "\u2013"],
        ["total time", duration(run.run.seconds)],
        ["rejected rows", whole(counts.bad)],
        ["missing values", whole(counts.missing)],
        health.waited ? ["batches cut off by time", whole(health.waited)] : null,
      ].filter(Boolean).flatMap(([term, said]) => [el("dt", {}, term), el("dd", {}, said)])));
      const reasons = health.bad.reasons;
      bad.hidden = !reasons.length;
      bad.replaceChildren(el("h4", {}, "Rejected rows"), table(["reason", "rows", "first at"],
        reasons.map((one) => [el("span", { title: one.raw }, one.reason), whole(one.count), whole(one.line)]), { caption: "Rejected rows", numbers: [1, 2] }));
      doubts.hidden = !run.doubts.length;
      doubts.replaceChildren(el("h4", {}, "Suspicious columns"), el("ul", { class: "lines" }, [...grouped(run.doubts, (one) => `${one.kind}: ${one.why}`)].map(([why, found]) => el("li", {},
        el("span", {}, why), el("span", { class: "muted" }, listed(found.map((one) => one.column), 12))))));
      speed.hidden = health.speed.rows.length < 3;
      if (!speed.hidden) chart.show(() => speedSpec(run), `Milliseconds per batch over time; median ${late ? duration(late.p50) : "unknown"}`);
    };
  },
});

function speedSpec(run) {
  const { speed } = run.health;
  const top = 1.2 * [...speed.seconds].filter((value) => value !== null).sort((a, b) => a - b)[Math.floor(0.98 * (speed.seconds.length - 1))];
  return {
    data: [speed.rows, speed.seconds.map((value) => (value === null ? null : Math.min(value, top) * 1e3))],
    series: [{ stroke: theme("series-7"), width: 1.5, fill: faint(theme("series-7"), 0.12), points: { show: false } }],
    marks: [], height: 130, y: { range: [0, top * 1e3 || 1] },
    tell: (at) => [`${duration(speed.seconds[at])} per batch`, el("div", { class: "muted" }, `${duration(speed.max[at])} at most`)],
  };
}

function settingsOf(run) {
  const shown = (value) => (Array.isArray(value) ? value.join(", ") || "none" : value === null ? "none" : value === true ? "yes" : value === false ? "no" : String(value));
  const list = (title, of) => el("div", {}, el("h4", {}, title), el("dl", {}, Object.entries(of).flatMap(([name, value]) => [el("dt", {}, name.replaceAll("_", " ")), el("dd", {}, shown(value))])));
  return el("div", { class: "columns" }, list("Settings", run.run.settings || {}),
    list("Versions", { fires: run.run.fires, ...(run.run.versions || {}), model: run.run.model, run: run.run.id }));
}
