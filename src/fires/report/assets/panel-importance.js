// Importance over time, with bands: pick features, search among thousands, zoom.

panels.push({
  id: "importance", title: "Importance over time", part: "What changed",
  note: (run) => [run.run.intervals ? "Bands are 95 % intervals." : "", alarmRows(run).length ? "Dashed lines are drift events." : "", "Drag to zoom in, double-click to zoom out."].filter(Boolean).join(" "),
  shown: (run) => run.timeline.series.length > 0,
  make(body, page) {
    const chips = el("div", { class: "chips", role: "group", aria: { label: "Features shown" } });
    const search = makeSearch((place) => { if (!page.picked.has(place)) page.pick(place); });
    const again = el("button", { type: "button", class: "quiet", on: { click: () => chart.reset() } }, "Whole run");
    const first = el("button", { type: "button", class: "quiet", on: { click: () => { page.picked.clear(); page.hasPicked = false; page.refresh(); } } }, "Most important");
    body.append(el("div", { class: "bar" }, search.node, first, again), chips);
    const chart = new RowsChart(body, "Importance over time");
    const tableBox = disclosure("Show as table", () => asTable(page.run, shown(page.run)));
    body.append(tableBox);
    page.onPick(() => update(page.run));

    function shown(run) {
      const known = new Map(run.timeline.series.map((one) => [one.place, one]));
      if (!page.hasPicked) return run.timeline.series.filter((one) => !one.coarse && one.importance.some(Boolean)).slice(0, 5);
      return [...page.picked].map((place) => known.get(place)).filter(Boolean);
    }

    function update(run) {
      const picked = shown(run);
      if (!page.hasPicked) {
        page.picked.clear();
        for (const one of picked) page.picked.add(one.place);
      }
      search.update(run, new Set(picked.map((one) => one.place)));
      replaced(chips, picked.map((one, i) => el("button", {
        type: "button", class: "chip", title: `Remove ${one.name}`, aria: { label: `Remove ${one.name}` }, on: { click: () => page.pick(one.place) },
      }, el("span", { class: "dot", css: { background: `var(--series-${i + 1})` } }), named(one.name), el("span", { aria: { hidden: "true" } }, "\u00d7"))));
      if (!picked.length) chips.append(el("span", { class: "muted" }, "Search for a feature, or pick one in the table of all features."));
      const names = picked.map((one) => `${one.name} ${short(latest(one.importance), 3)}`).join(", ");
      chart.show(() => spec(run, picked), `Importance over time. Now: ${names || "none picked"}. Arrow keys read the values.`);
      if (tableBox.open) tableBox.replaceChildren(tableBox.firstElementChild, asTable(run, picked));
    }
    return update;
  },
});

function latest(values) {
  for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i];
  return null;
}

// The values of a series at every snapshot; null where it has none.
function atSnapshots(run, one, name) {
  if (!one.coarse) return one[name];
  const full = new Array(run.timeline.rows.length).fill(null);
  run.timeline.coarse.forEach((place, i) => { full[place] = one[name][i]; });
  return full;
}

function spec(run, picked) {
  const data = [run.timeline.rows], series = [], bands = [];
  const points = { show: run.timeline.rows.length < 3 || undefined };
  picked.forEach((one, i) => {
    const colour = seriesColour(i);
    const importance = atSnapshots(run, one, "importance");
    data.push(importance);
    series.push({ label: one.name, stroke: colour, width: 2, spanGaps: Boolean(one.coarse), points });
    if (!run.run.intervals) return;
    const uncertainty = atSnapshots(run, one, "uncertainty");
    // At exactly 0 nothing has been learnt yet, as of a column that has been constant: its band would be that of the prior.
    const end = (sign) => importance.map((value, at) => (!value || uncertainty[at] === null ? null : value + sign * 1.96 * uncertainty[at]));
    for (const sign of [1, -1]) {
      data.push(end(sign));
      series.push({ stroke: "transparent", width: 0, spanGaps: Boolean(one.coarse), points: { show: false } });
    }
    bands.push({ series: [data.length - 2, data.length - 1], fill: faint(colour, 0.16) });
  });
  const per = run.run.intervals ? 3 : 1;
  return {
    data, series, bands, y: { range: yRange(data, per) }, marks: alarmRows(run, new Set(picked.map((one) => one.name))),
    height: window.innerWidth < 620 ? 260 : 360,
    tell: (at) => [
      ...picked.map((one, i) => {
        const value = data[1 + per * i][at];
        const range = per === 3 && data[2 + per * i][at] !== null ? el("span", { class: "muted" }, `[${short(data[3 + per * i][at], 2)}, ${short(data[2 + per * i][at], 2)}]`) : null;
        return keyed(`var(--series-${i + 1})`, named(one.name), el("span", {}, short(value, 3)), range);
      }),
    ],
  };
}

// From the least to the greatest, but for bands that are wide in few snapshots, when little is known.
function yRange(data, per) {
  let low = 0, high = 0;
  data.slice(1).forEach((values, i) => {
    const known = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!known.length) return;
    const few = i % per ? Math.floor(0.07 * known.length) : 0; // lines are shown whole
    low = Math.min(low, known[few]);
    high = Math.max(high, known[known.length - 1 - few]);
  });
  const room = 0.08 * (high - low) || 1;
  return [low < 0 ? low - room : 0, high > 0 || !low ? high + room : 0];
}

function asTable(run, picked) {
  const every = Math.max(1, Math.floor(run.timeline.rows.length / 20));
  const values = picked.map((one) => atSnapshots(run, one, "importance"));
  const places = run.timeline.rows.map((_, i) => i).filter((i) => i % every === 0 || i === run.timeline.rows.length - 1);
  return table(["row", ...picked.map((one) => named(one.name))], places.map((i) => [whole(run.timeline.rows[i]), ...values.map((of) => short(of[i], 3))]),
    { caption: "Importance over time", numbers: picked.map((_, i) => i + 1) });
}

// A box to find a feature by a part of its name: arrow keys and Enter, or the mouse.
function makeSearch(choose) {
  const input = el("input", { type: "search", placeholder: "Search features", role: "combobox", autocomplete: "off",
    aria: { label: "Search features", expanded: "false", controls: "found", autocomplete: "list" } });
  const list = el("ul", { class: "found", id: "found", role: "listbox", aria: { label: "Features found" }, hidden: true });
  const node = el("div", { class: "search" }, input, list);
  let series = [], taken = new Set(), found = [], active = 0, ranks = new Map();

  function show() {
    const asked = input.value.trim().toLowerCase();
    found = asked === "" && document.activeElement !== input ? [] : series.filter((one) => !taken.has(one.place) && one.name.toLowerCase().includes(asked)).slice(0, 50);
    active = Math.min(active, Math.max(0, found.length - 1));
    list.hidden = !found.length || document.activeElement !== input;
    input.setAttribute("aria-expanded", String(!list.hidden));
    list.replaceChildren(...found.map((one, i) => el("li", {
      id: `found-${i}`, role: "option", aria: { selected: String(i === active) },
      on: { mousedown: (event) => { event.preventDefault(); take(i); } },
    }, named(one.name), el("span", { class: "muted" }, ranks.has(one.place) ? `rank ${whole(ranks.get(one.place))}` : ""))));
    if (list.hidden) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", `found-${active}`);
  }
  function take(i) {
    const one = found[i];
    input.value = "";
    if (one) choose(one.place);
    show();
  }
  input.addEventListener("input", () => { active = 0; show(); });
  input.addEventListener("focus", show);
  input.addEventListener("blur", () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      active = Math.min(found.length - 1, Math.max(0, active + (event.key === "ArrowDown" ? 1 : -1)));
      show();
      list.children[active]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter") {
      event.preventDefault();
      take(active);
    } else if (event.key === "Escape") {
      input.value = "";
      list.hidden = true;
    }
  });
  return {
    node,
    update(run, now) {
      series = run.timeline.series;
      taken = now;
      ranks = new Map(run.now.place.map((place, i) => [place, run.now.rank[i]]));
      if (document.activeElement === input) show();
    },
  };
}
