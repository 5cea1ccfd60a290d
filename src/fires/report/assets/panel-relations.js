// Curves: what each selected feature adds, value by value, now and before. Pairs: a map of the columns in them.

panels.push({
  id: "curves", title: "Nonlinear effects", part: "Selected now",
  note: "Contribution of a feature to the linear predictor, by value; 0 on average. All charts share one scale. The band is the 95 % interval.",
  shown: (run) => Boolean(run.relations) && run.relations.curves.length > 0,
  make(body) {
    const grid = el("div", { class: "curves" });
    const legend = el("div", { class: "legend" },
      el("span", { class: "keyed" }, el("i", { class: "key-curve" }), "now, with its band"),
      el("span", { class: "keyed" }, el("i", { class: "key-curve before" }), "earlier; older curves are fainter"));
    const tableBox = disclosure("Show as table", asTable);
    body.append(grid, legend, tableBox);
    const shown = new Map(); // by name, so that what is pointed at stays while data come in
    let curves = [], ends = [0, 1];

    function asTable() {
      const lines = curves.flatMap((one) => {
        const last = one.rows.length - 1;
        return one.values[last].map((value, i) => [named(one.name), short(value, 3), short(one.effect[last][i], 3), `${short(one.low[i], 3)} to ${short(one.high[i], 3)}`,
          last ? `${short(atValue(one.values[0], one.effect[0], value), 3)} at row ${whole(one.rows[0])}` : "\u2013"]);
      });
      return table(["feature", "value", "effect", "95 % interval", "at first"], lines, { caption: "Nonlinear effects by feature", numbers: [1, 2, 3, 4] });
    }

    return (run) => {
      curves = run.relations.curves;
      const all = curves.flatMap((one) => [...one.low, ...one.high, 0]);
      const room = 0.06 * (Math.max(...all) - Math.min(...all));
      ends = [Math.min(...all) - room, Math.max(...all) + room];
      const names = curves.map(keyOf);
      for (const name of [...shown.keys()]) if (!names.includes(name)) shown.delete(name);
      for (const one of curves) {
        if (!shown.has(keyOf(one))) shown.set(keyOf(one), curveChart());
        shown.get(keyOf(one)).show(one, ends);
      }
      const boxes = names.map((name) => shown.get(name).box);
      if (boxes.some((box, i) => grid.children[i] !== box) || grid.children.length !== boxes.length) grid.replaceChildren(...boxes);
      legend.lastElementChild.hidden = !curves.some((one) => one.rows.length > 1);
      renew(tableBox);
    };
  },
});

const keyOf = (one) => JSON.stringify([one.name, one.class]);

// A line through points, read at a value; beyond the ends, as there.
function atValue(values, effects, value) {
  const j = values.findIndex((each) => each >= value);
  if (j <= 0) return effects[j < 0 ? effects.length - 1 : 0];
  const way = (value - values[j - 1]) / (values[j] - values[j - 1] || 1);
  return effects[j - 1] + way * (effects[j] - effects[j - 1]);
}

let curveCharts = 0;
function curveChart() {
  const id = `curve-${++curveCharts}`;
  const title = el("h4", {});
  const picture = svg("svg", { class: "curve", role: "img", tabindex: 0 });
  const chart = el("div", { class: "chart" }, picture);
  const box = el("div", {}, title, chart);
  const tip = new Tip(chart);
  const left = 40, right = 8, top = 8, below = 22, height = 170;
  let one = null, ends = [0, 1], x, y, at = null, mark;

  function draw(width) {
    if (!one) return;
    const last = one.rows.length - 1, values = one.values[last];
    const [first, final] = [values[0], values[values.length - 1]];
    x = (value) => left + ((value - first) / (final - first || 1)) * (width - left - right);
    y = (effect) => top + ((ends[1] - effect) / (ends[1] - ends[0] || 1)) * (height - top - below);
    picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    picture.setAttribute("height", height);
    const dot = (value, effect) => `${x(value).toFixed(1)} ${y(effect).toFixed(1)}`;
    const route = (xs, effects) => `M${xs.map((value, i) => dot(value, effects[i])).join("L")}`;
    const band = `${route(values, one.high)}L${[...values].reverse().map((value, i) => dot(value, one.low[values.length - 1 - i])).join("L")}Z`;
    const grid = svg("g", { class: "curve-grid" });
    for (const effect of ticks(ends[0], ends[1], 5)) {
      grid.append(svg("line", { class: effect === 0 ? "zero" : null, x1: left, x2: width - right, y1: y(effect), y2: y(effect) }),
        svg("text", { x: left - 6, y: y(effect), dy: "0.35em", "text-anchor": "end" }, short(effect, 3)));
    }
    for (const value of ticks(first, final, Math.max(2, (width - left) / 80))) {
      const side = x(value) > width - right - 20 ? "end" : x(value) < left + 12 ? "start" : "middle";
      grid.append(svg("text", { x: x(value), y: height - 5, "text-anchor": side }, short(value, 4)));
    }
    mark = svg("g", { class: "curve-mark", visibility: "hidden" }, svg("line", { y1: top, y2: height - below }), svg("circle", { r: 4 }));
    picture.replaceChildren(
      svg("defs", {}, svg("clipPath", { id }, svg("rect", { x: left, y: top, width: Math.max(width - left - right, 0), height: height - top - below }))), grid,
      svg("g", { "clip-path": `url(#${id})` }, svg("path", { class: "curve-band", d: band }),
        one.rows.slice(0, -1).map((_, k) => svg("path", { class: "curve-line before", d: route(one.values[k], one.effect[k]), opacity: (0.25 + 0.5 * (k / Math.max(last - 1, 1))).toFixed(2) })),
        svg("path", { class: "curve-line", d: route(values, one.effect[last]) })), mark);
    look(at);
  }

  function look(i) {
    const last = one.rows.length - 1, values = one.values[last];
    at = i === null ? null : Math.max(0, Math.min(i, values.length - 1));
    mark.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at === null) return tip.hide();
    const [px, py] = [x(values[at]), y(one.effect[last][at])];
    mark.firstChild.setAttribute("x1", px);
    mark.firstChild.setAttribute("x2", px);
    mark.lastChild.setAttribute("cx", px);
    mark.lastChild.setAttribute("cy", py);
    return tip.show(px, py, one.name, `at ${short(values[at])}: ${short(one.effect[last][at], 3)}`, `95 % interval ${short(one.low[at], 3)} to ${short(one.high[at], 3)}`,
      last ? `${short(atValue(one.values[0], one.effect[0], values[at]), 3)} at row ${whole(one.rows[0])}` : null);
  }

  picture.addEventListener("pointermove", (event) => {
    const px = event.clientX - picture.getBoundingClientRect().left;
    const far = one.values[one.rows.length - 1].map((value) => Math.abs(x(value) - px));
    look(far.indexOf(Math.min(...far)));
  });
  picture.addEventListener("pointerleave", () => look(null));
  picture.addEventListener("blur", () => look(null));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") look(null);
    else if (step) look(at === null ? 0 : at + step);
    else return;
    event.preventDefault();
  });

  const redraw = redrawn(chart, draw);
  return {
    box,
    show(curve, scale) {
      [one, ends] = [curve, scale];
      title.replaceChildren(named(one.name), one.class === null ? "" : el("span", {}, ` for ${isolated(one.class)}`));
      const last = one.rows.length - 1, values = one.values[last], effect = one.effect[last];
      const [least, most] = [Math.min(...effect), Math.max(...effect)];
      picture.setAttribute("aria-label", `${one.name}: its effect is lowest at ${short(values[effect.indexOf(least)], 3)}, with ${short(least, 3)}, ` +
        `and highest at ${short(values[effect.indexOf(most)], 3)}, with ${short(most, 3)}. Arrow keys read the values.`);
      redraw();
    },
  };
}

panels.push({
  id: "pairs", title: "Interactions", part: "Selected now",
  note: "Pairs of columns whose product adds to the prediction. Positive: rows where both are high, or both low, favour the greater label, or a greater number.",
  shown: (run) => Boolean(run.relations) && run.relations.pairs.length > 0,
  make(body) {
    const MOST_NAMES = 30, FIRST = 12;
    const picture = svg("svg", { class: "pairs", role: "img", tabindex: 0 });
    const chart = el("div", { class: "chart" }, picture);
    const legend = el("div", { class: "legend" });
    const beside = el("div", {}), rest = el("div", {}), more = disclosure("Show all", () => asTable(pairs));
    body.append(el("div", { class: "beside" }, el("div", {}, chart, legend), el("div", {}, beside, rest)));
    const tip = new Tip(chart);
    let pairs = [], drawn = [], names = [], greatest = 1, at = null, cell = 0, places = new Map(), left = 0, cursor;

    const asTable = (some) => table(["pair", "importance", "95 % interval", "since row"], some.map((pair) => [
      el("span", { class: "pair" }, named(pair.first), "\u00d7", named(pair.second)), short(pair.importance, 3), `${short(pair.low, 3)} to ${short(pair.high, 3)}`, whole(pair.since)]),
    { caption: "Interactions", numbers: [1, 2, 3] });

    // A line for each column but the first, and a square for each one before it.
    function draw(width) {
      const n = names.length;
      left = Math.min(Math.ceil(Math.max(...names.slice(1).map((name) => textWidth(name)))) + 12, Math.round(0.34 * width));
      cell = Math.max(6, Math.min(40, Math.floor((width - left) / (n - 1))));
      const room = Math.min(Math.ceil(Math.max(...names.slice(0, -1).map((name) => textWidth(name)))), 110);
      const height = cell * (n - 1) + room + 10;
      const square = (i, j, look) => svg("rect", { x: left + j * cell + 1, y: (i - 1) * cell + 1, width: cell - 2, height: cell - 2, rx: 2, ...look });
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("height", height);
      const small = cell < 12;
      const nodes = names.flatMap((name, i) => [
        i ? svg("text", { class: small ? "small" : null, x: left - 8, y: (i - 0.5) * cell, dy: "0.35em", "text-anchor": "end" }, svg("title", {}, name), fitted(name, left - 10)) : null,
        i < n - 1 ? svg("text", { class: small ? "small" : null, "text-anchor": "end", dy: "0.35em", transform: `translate(${left + (i + 0.5) * cell} ${(n - 1) * cell + 6}) rotate(-90)` }, svg("title", {}, name), fitted(name, room)) : null,
        ...names.slice(0, i).map((_, j) => square(i, j, { class: "none" })),
      ]);
      for (const pair of drawn) {
        const [j, i] = placeOf(pair);
        nodes.push(square(i, j, { fill: pair.importance < 0 ? "var(--negative)" : "var(--positive)", opacity: strength(pair.importance, greatest).toFixed(2) }));
        // The sign is not by colour alone.
        if (cell >= 14) nodes.push(svg("text", { class: "sign", x: left + (j + 0.5) * cell, y: (i - 0.5) * cell, dy: "0.35em", "text-anchor": "middle" }, pair.importance < 0 ? MINUS : "+"));
      }
      cursor = square(1, 0, { class: "cursor", visibility: "hidden" });
      picture.replaceChildren(...nodes.filter(Boolean), cursor);
      look(at);
    }

    const placeOf = (pair) => [places.get(pair.first), places.get(pair.second)].sort((a, b) => a - b);

    function look(k) {
      at = k === null ? null : Math.max(0, Math.min(k, drawn.length - 1));
      cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
      if (at === null) return tip.hide();
      const pair = drawn[at], [j, i] = placeOf(pair);
      cursor.setAttribute("x", left + j * cell + 1);
      cursor.setAttribute("y", (i - 1) * cell + 1);
      return tip.show(left + (j + 1) * cell, (i - 1) * cell, `${isolated(pair.first)} \u00d7 ${isolated(pair.second)}`,
        `importance ${short(pair.importance, 3)}, 95 % interval ${short(pair.low, 3)} to ${short(pair.high, 3)}`, `since row ${whole(pair.since)}`);
    }

    picture.addEventListener("pointermove", (event) => {
      const { left: from, top } = picture.getBoundingClientRect();
      const j = Math.floor((event.clientX - from - left) / cell), i = Math.floor((event.clientY - top) / cell) + 1;
      const found = drawn.findIndex((pair) => placeOf(pair).join() === `${j},${i}`);
      look(found < 0 ? null : found);
    });
    picture.addEventListener("pointerleave", () => look(null));
    picture.addEventListener("blur", () => look(null));
    picture.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
      if (event.key === "Escape") look(null);
      else if (step) look(at === null ? 0 : at + step);
      else return;
      event.preventDefault();
    });

    const redraw = redrawn(chart, draw);
    return (run) => {
      pairs = run.relations.pairs;
      const known = new Set();
      drawn = pairs.filter(({ first, second }) => {
        const both = new Set([...known, first, second]);
        if (both.size <= MOST_NAMES) both.forEach((name) => known.add(name));
        return both.size <= MOST_NAMES;
      });
      names = [...known];
      places = new Map(names.map((name, place) => [name, place]));
      greatest = greatestSize(pairs.map((pair) => pair.importance));
      if (at !== null && at >= drawn.length) at = null;
      legend.replaceChildren(ramp(greatest, pairs.some((pair) => pair.importance < 0)));
      if (drawn.length < pairs.length) legend.append(`${whole(pairs.length - drawn.length)} more in the table`);
      picture.setAttribute("aria-label", `${plural(pairs.length, "pair")} of ${plural(names.length, "column")}. The strongest: ` +
        `${listed(pairs.slice(0, 4).map(({ first, second }) => `${first} and ${second}`), 4)}. Arrow keys read the pairs.`);
      beside.replaceChildren(asTable(pairs.slice(0, FIRST)));
      if (!more.isConnected || pairs.length <= FIRST) rest.replaceChildren(...(pairs.length > FIRST ? [more] : []));
      more.firstElementChild.textContent = `Show all ${pairs.length}`;
      renew(more);
      redraw();
    };
  },
});
