// A comparison of selectors: what came out, then the numbers behind it. The table at the end has all of them.

const OF_COMPARISON = "comparison";
const scoreTitle = (found) => SCORES[found.score] || found.score;
const signedScore = (found, value) => (value > 0 ? "+" : "") + (found.score === "mae" ? short(value, 3) : fixed(value));
const shownScore = (found, value) => (found.score === "mae" ? short(value) : fixed(value));
const perRow = (found, i) => (found.selectors.microseconds_per_row[i] === null ? null : found.selectors.microseconds_per_row[i] / 1e6);
const selectorLabel = (name) => (name in SOURCES && name !== "selected" ? SOURCES[name] : name === "random" ? "random features" : name);

// The ends of a long name tell it from others.
const shortLabel = (name) => (selectorLabel(name).length > 24 ? `${selectorLabel(name).slice(0, 13)}\u2026${selectorLabel(name).slice(-10)}` : selectorLabel(name));
const labelOf = (name) => el("span", { class: "name", title: name }, shortLabel(name));

// Selections have colours of their own, what they should beat has that of quiet text.
function selectorColour(found, i) {
  const { is_baseline } = found.selectors;
  if (is_baseline[i]) return "var(--muted)";
  return `var(--series-${(is_baseline.slice(0, i).filter((one) => !one).length % 8) + 1})`;
}

panels.push({
  id: "verdict", label: "Result", of: OF_COMPARISON,
  make(body) {
    const sentence = el("p", { class: "sentence" });
    const tiles = el("div", { class: "tiles" });
    const cautions = el("ul", { class: "lines" });
    let found;
    const notes = disclosure("Method", () => el("ul", { class: "lines" }, found.notes.map((note) => el("li", {}, note))));
    body.append(sentence, tiles, cautions, notes);
    return (now) => {
      found = now;
      const tile = (value, label) => el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label));
      sentence.textContent = found.sentence;
      tiles.replaceChildren(
        tile(whole(found.selectors.is_baseline.filter((one) => !one).length), `selectors, and ${whole(found.selectors.is_baseline.filter(Boolean).length)} to compare with`),
        tile(rows(found.rows), "rows"), tile(rows(found.features), "features"),
        tile(whole(found.runs), found.runs === 1 ? "run of each" : "runs of each"),
        tile(found.classes ? whole(found.classes) : "numbers", found.classes ? "classes" : "as the target"));
      cautions.replaceChildren(...found.cautions.map((caution) => el("li", {}, caution)));
      renew(notes);
    };
  },
});

panels.push({
  id: "trade", title: "Accuracy and stability", of: OF_COMPARISON, wide: false,
  make(body) {
    const note = el("p", { class: "note" });
    const picture = svg("svg", { class: "fields trade", role: "img" });
    const box = el("div", { class: "chart" }, picture);
    body.append(note, box);
    const tip = new Tip(box);
    let found, dots = [];
    const draw = (width) => {
      const height = width < 420 ? 340 : 400;
      dots = drawTrade(picture, found, width, height);
    };
    picture.addEventListener("pointermove", (event) => {
      const at = box.getBoundingClientRect(), px = event.clientX - at.left, py = event.clientY - at.top;
      const far = (dot) => Math.hypot(dot.cx - px, dot.cy - py);
      const near = dots.reduce((best, dot) => (best === null || far(dot) < far(best) ? dot : best), null);
      if (!near || far(near) > 24) return tip.hide();
      return tip.show(near.cx, near.cy, selectorLabel(found.selectors.name[near.i]), ...toldOf(found, near.i));
    });
    picture.addEventListener("pointerleave", () => tip.hide());
    const redraw = redrawn(box, draw);
    return (now) => {
      found = now;
      const said = now.selectors.name.map((name, i) => `${selectorLabel(name)}: ${scoreTitle(now)} ${shownScore(now, now.selectors.score[i])}, stability ${fixed(now.selectors.stability[i])}`);
      picture.setAttribute("aria-label", `${said.join("; ")}.`);
      note.textContent = `${now.more_is_better ? "Up" : "Down"}: better features. Right: the set changes less while the stream flows.${now.runs > 1 ? " Bars: standard deviation over the runs." : ""}`;
      redraw();
    };
  },
});

function toldOf(found, i) {
  const { score, spread, stability, stability_spread } = found.selectors;
  const within = (value) => (value === null ? "" : ` \u00b1 ${short(value, 2)}`);
  return [`${scoreTitle(found)} ${shownScore(found, score[i])}${within(spread[i])}`,
    stability[i] === null ? "selects nothing" : `stability ${fixed(stability[i])}${within(stability_spread[i])}`];
}

function drawTrade(picture, found, width, height) {
  const { name, score, spread, stability, stability_spread } = found.selectors;
  const edge = { left: 52, right: width - 12, top: 10, bottom: height - 42 };
  const all = score.map((_, i) => i).filter((i) => score[i] !== null);
  const known = all.filter((i) => stability[i] !== null), levels = all.filter((i) => stability[i] === null);
  const reach = (values, spreads, places) => [Math.min(...places.map((i) => values[i] - (spreads[i] || 0))), Math.max(...places.map((i) => values[i] + (spreads[i] || 0)))];
  const [low, high] = reach(score, spread, all);
  const [least, most] = known.length ? reach(stability, stability_spread, known) : [0, 1];
  const room = 0.08 * (high - low || 0.1), aside = Math.max(0.02, 0.08 * (most - least));
  const x = (value) => edge.left + ((value - least + aside) / (most - least + 2 * aside)) * (edge.right - edge.left);
  const y = (value) => edge.bottom - ((value - low + room) / (high - low + 2 * room)) * (edge.bottom - edge.top);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("height", height);
  const dots = known.map((i) => ({ i, cx: x(stability[i]), cy: y(score[i]) }));
  const taken = dots.map(({ cx, cy }) => [cx - 7, cy - 7, cx + 7, cy + 7]);
  const reaches = dots.flatMap(({ i, cx, cy }) => {
    const colour = { stroke: selectorColour(found, i) };
    const bars = [];
    if (spread[i]) bars.push([cx, cx, y(score[i] + spread[i]), y(score[i] - spread[i])]);
    if (stability_spread[i]) bars.push([x(stability[i] - stability_spread[i]), x(stability[i] + stability_spread[i]), cy, cy]);
    taken.push(...bars.map(([x1, x2, y1, y2]) => [x1 - 1, y1 - 1, x2 + 1, y2 + 1]));
    return bars.map(([x1, x2, y1, y2]) => svg("line", { class: "trade-reach", css: colour, x1, x2, y1, y2 }));
  });
  // Levels one above the other have their names at different places along the line.
  taken.push(...levels.map((i) => [edge.left, y(score[i]) - 1, edge.right, y(score[i]) + 1]));
  const lines = levels.map((i) => svg("line", { class: "trade-level", x1: edge.left, x2: edge.right, y1: y(score[i]), y2: y(score[i]) }));
  const levelNames = levels.map((i) => placedText(`${selectorLabel(name[i])} ${shownScore(found, score[i])}`, levelSpots(edge, y(score[i])), edge, taken, "trade-quiet"));
  const names = dots.map(({ i, cx, cy }) => {
    const text = fitted(shortLabel(name[i]), 190);
    return placedText(text, aroundPoint(cx, cy, 1.1 * textWidth(text)), edge, taken, found.selectors.is_baseline[i] ? "trade-quiet" : "trade-name", [cx, cy]);
  });
  const across = ticks(Math.max(-1, least - aside), Math.min(1, most + aside), width < 420 ? 4 : 6);
  picture.replaceChildren(
    svg("g", { class: "fields-axes" },
      svg("line", { x1: edge.left, x2: edge.right, y1: edge.bottom, y2: edge.bottom }), svg("line", { x1: edge.left, x2: edge.left, y1: edge.top, y2: edge.bottom }),
      across.map((value) => svg("text", { x: x(value), y: edge.bottom + 16, "text-anchor": "middle" }, short(value, 3))),
      ticks(low - room, high + room, 5).map((value) => svg("g", {}, svg("line", { x1: edge.left, x2: edge.right, y1: y(value), y2: y(value) }),
        svg("text", { x: edge.left - 8, y: y(value), dy: "0.35em", "text-anchor": "end" }, short(value, 3)))),
      svg("text", { x: edge.right, y: height - 6, "text-anchor": "end" }, "stability \u2192"),
      svg("text", { x: edge.left, y: height - 6, "text-anchor": "start" }, `\u2191 ${scoreTitle(found)}${found.more_is_better ? "" : " (lower is better)"}`)),
    svg("g", {}, lines), svg("g", {}, reaches),
    svg("g", {}, dots.map(({ i, cx, cy }) => svg("circle", { css: { fill: selectorColour(found, i) }, cx, cy, r: found.selectors.is_baseline[i] ? 4 : 6 }))),
    svg("g", {}, levelNames), svg("g", {}, names));
  return dots;
}

// Where a text may begin: close to the point first, then farther away, with a line that leads to it.
function aroundPoint(cx, cy, wide) {
  const spots = [[10, 4], [-10 - wide, 4], [-wide / 2, -12], [-wide / 2, 21], [8, -9], [8, 18], [-8 - wide, -9], [-8 - wide, 18]];
  for (const far of [26, 42, 60, 80]) for (const [ax, ay] of [[0, -1], [0, 1], [1, -0.6], [-1, -0.6], [1, 0.6], [-1, 0.6]]) {
    spots.push([ax * far - (ax < 0 ? wide : ax === 0 ? wide / 2 : 0), ay * far + 4, far]);
  }
  return spots.map(([dx, dy, far]) => ({ x: cx + dx, y: cy + dy, far }));
}

function levelSpots(edge, at) {
  const found = [];
  for (const share of [0, 0.35, 0.6, 0.8]) for (const dy of [-7, 16]) found.push({ x: edge.left + 6 + share * (edge.right - edge.left), y: at + dy });
  return found;
}

// A text at the first spot where it covers nothing; it is left out where there is none.
function placedText(text, spots, edge, taken, look, from) {
  const wide = 1.1 * textWidth(text);  // it may be bold
  const area = ({ x, y }) => [x - 2, y - 11, x + wide + 2, y + 4];
  const free = spots.find((spot) => {
    const [x1, y1, x2, y2] = area(spot);
    const inside = x1 >= edge.left && x2 <= edge.right + 8 && y1 >= edge.top - 8 && y2 <= edge.bottom;
    return inside && !taken.some((other) => x1 < other[2] && x2 > other[0] && y1 < other[3] && y2 > other[1]);
  });
  if (!free) return null;
  taken.push(area(free));
  const leads = from && free.far ? svg("line", { class: "trade-lead", x1: from[0], y1: from[1], x2: Math.max(free.x, Math.min(from[0], free.x + wide)), y2: free.y - 4 }) : null;
  return svg("g", {}, leads, svg("text", { class: look, x: free.x, y: free.y }, text));
}

panels.push({
  id: "pace", title: "Cost", of: OF_COMPARISON, wide: false,
  make(body) {
    const note = el("p", { class: "note" });
    const list = el("div", { class: "paces" });
    body.append(note, list);
    return (found) => {
      const places = found.selectors.name.map((_, i) => i).filter((i) => perRow(found, i) !== null && !["majority", "mean"].includes(found.selectors.name[i]));
      const costs = places.map((i) => perRow(found, i)), most = Math.max(...costs), least = Math.min(...costs.filter((cost) => cost > 0));
      const log = most / least > 30;
      const share = (cost) => (log ? (Math.log10(cost / least) + 0.3) / (Math.log10(most / least) + 0.3) : cost / most);
      note.textContent = `Time to learn from a row, the median over batches of ${whole(found.batch_size)}${log ? "; the scale is logarithmic" : ""}.`;
      list.replaceChildren(...places.sort((a, b) => perRow(found, a) - perRow(found, b)).map((i) => el("div", { class: "pace" },
        labelOf(found.selectors.name[i]),
        svg("svg", { class: "pace-bar", role: "presentation", aria: { hidden: "true" } },
          svg("rect", { css: { fill: selectorColour(found, i) }, x: 0, y: 4, height: 14, rx: 3, width: `${Math.max(0.6, 100 * share(perRow(found, i)))}%` })),
        el("span", { class: "number" }, duration(perRow(found, i))))));
    };
  },
});

panels.push({
  id: "differences", title: "Are the differences significant?", of: OF_COMPARISON,
  shown: (found) => found.selectors.difference.some((value) => value !== null),
  make(body) {
    const note = el("p", { class: "note" });
    const list = el("div", { class: "forest" });
    body.append(note, list);
    return (found) => {
      const { name, difference, low, high, p_value, won } = found.selectors;
      const tested = p_value.some((value) => value !== null);
      note.textContent = `The ${scoreTitle(found)} minus that of ${shortLabel(found.reference)}${found.more_is_better ? "" : "; lower is better"}. ` + (tested
        ? "Bars are confidence intervals, corrected for the number of comparisons: a difference is significant if its interval excludes 0 (p below 0.05). Won: the number of pieces of the stream in which the selector was better."
        : "Not tested: this needs three runs and three pieces of the stream.");
      const places = name.map((_, i) => i).filter((i) => difference[i] !== null);
      const ends = places.flatMap((i) => [difference[i], low[i], high[i]]).filter((value) => value !== null).concat(0);
      const least = Math.min(...ends), most = Math.max(...ends), room = 0.04 * (most - least || 0.1);
      const at = (value) => `${(100 * (value - least + room)) / (most - least + 2 * room)}%`;
      const verdict = (i) => {
        if (p_value[i] === null) return ["not tested", "muted"];
        if (p_value[i] >= 0.05) return ["may be chance", "muted"];
        return difference[i] > 0 === found.more_is_better ? ["better", "good"] : ["worse", "worse"];
      };
      const signed = (value) => signedScore(found, value);
      list.replaceChildren(...places.map((i) => {
        const [word, look] = verdict(i);
        const interval = low[i] === null ? "" : ` (${signed(low[i])} to ${signed(high[i])})`;
        return el("div", { class: "fork" }, labelOf(name[i]),
          svg("svg", { class: `fork-bar ${look}`, role: "img", aria: { label: `${signed(difference[i])}${interval}` } },
            svg("line", { class: "zero", x1: at(0), x2: at(0), y1: 0, y2: 26 }),
            low[i] === null ? null : svg("line", { class: "fork-reach", x1: at(low[i]), x2: at(high[i]), y1: 13, y2: 13 }),
            low[i] === null ? null : [low[i], high[i]].map((end) => svg("line", { class: "fork-end", x1: at(end), x2: at(end), y1: 8, y2: 18 })),
            svg("circle", { cx: at(difference[i]), cy: 13, r: 5 })),
          el("span", { class: "number" }, signed(difference[i]), el("span", { class: "muted" }, interval)),
          el("span", { class: look }, word),
          el("span", { class: "muted fork-more" }, `${p_value[i] === null ? "" : `p ${p_value[i] < 0.0005 ? "< 0.001" : fixed(p_value[i])}, `}won ${won[i]} of ${found.n_pieces}`));
      }), el("div", { class: "fork fork-axis", aria: { hidden: "true" } }, el("span"),
        svg("svg", { class: "fork-bar" }, ticks(least - room, most + room, 5).map((value) => svg("text", { x: at(value), y: 14, "text-anchor": "middle" }, short(value, 2))))));
    };
  },
});

const VERDICTS = { better: ["\u2713", "yes", "good"], perhaps: ["\u2248", "perhaps", "muted"], no: ["\u2717", "no", "worse"] };

panels.push({
  id: "beaten", title: "Is selecting worth it?", of: OF_COMPARISON, wide: false,
  shown: (found) => found.beaten.selectors.length > 0 && found.beaten.others.length > 0,
  make(body) {
    const note = el("p", { class: "note" });
    const box = el("div", { class: "beaten" });
    body.append(note, box);
    return (found) => {
      const { others, selectors, words, tested } = found.beaten;
      note.textContent = `Whether each selection predicts better than each baseline${tested ? ", at the 5 % level, corrected for their number. Perhaps: it is ahead, but that may be chance" : "; by the score alone, as nothing was tested"}.`;
      const mark = (word) => {
        if (word === null) return el("span", { class: "muted" }, "\u2013");
        const [sign, said, look] = VERDICTS[word];
        return el("span", { class: look }, el("span", { aria: { hidden: "true" } }, `${sign} `), said);
      };
      box.replaceChildren(table(["better than", ...others.map((other) => shortLabel(other.name))],
        selectors.map((name, i) => [labelOf(name), ...words[i].map(mark)]), { caption: "Selections against baselines" }));
    };
  },
});

panels.push({
  id: "pieces", title: "Along the stream", of: OF_COMPARISON, wide: false,
  note: "The score in consecutive pieces of the stream. A name shows or hides its line.",
  shown: (found) => found.n_pieces > 1,
  make(body) {
    const picture = svg("svg", { class: "fields pieces", role: "img" });
    const box = el("div", { class: "chart" }, picture);
    const legend = el("div", { class: "legend" });
    body.append(box, legend);
    const tip = new Tip(box);
    const hidden = new Set();
    let found, at;
    const draw = (width) => { at = drawPieces(picture, found, width, hidden); };
    const redraw = redrawn(box, draw);
    picture.addEventListener("pointermove", (event) => {
      const frame = box.getBoundingClientRect(), px = event.clientX - frame.left;
      const piece = Math.round(at.piece(px));
      if (!(piece >= 0 && piece < found.n_pieces)) return tip.hide();
      const order = found.pieces.map((_, i) => i).filter((i) => !hidden.has(found.selectors.name[i])).sort((a, b) => (found.pieces[b][piece] - found.pieces[a][piece]) * (found.more_is_better ? 1 : -1));
      return tip.show(at.x(piece), 60, `piece ${piece + 1} of ${found.n_pieces}`, ...order.map((i) => `${selectorLabel(found.selectors.name[i])} ${shownScore(found, found.pieces[i][piece])}`));
    });
    picture.addEventListener("pointerleave", () => tip.hide());
    return (now) => {
      found = now;
      picture.setAttribute("aria-label", `${scoreTitle(now)} in ${now.n_pieces} pieces of the stream. ${now.selectors.name.map((name, i) => `${selectorLabel(name)}: from ${shownScore(now, now.pieces[i][0])} to ${shownScore(now, now.pieces[i].at(-1))}`).join("; ")}.`);
      legend.replaceChildren(...now.selectors.name.map((name, i) => {
        const button = el("button", { type: "button", class: "text", aria: { pressed: String(!hidden.has(name)) } }, sample(now, i), labelOf(name));
        button.addEventListener("click", () => {
          if (!hidden.delete(name)) hidden.add(name);
          button.setAttribute("aria-pressed", String(!hidden.has(name)));
          redraw();
        });
        return button;
      }));
      redraw();
    };
  },
});

// What selects nothing of its own has broken lines, each in its own way.
function pieceLook(found, i) {
  const quiet = found.selectors.is_baseline[i];
  const dashes = { all: "8 4", random: "2 3", majority: "8 3 2 3", mean: "8 3 2 3" };
  return { class: quiet ? "piece-line piece-quiet" : "piece-line", css: { stroke: selectorColour(found, i), "stroke-dasharray": quiet ? dashes[found.selectors.name[i]] : "none" } };
}

function sample(found, i) {
  return svg("svg", { class: "sample", width: 24, height: 12, aria: { hidden: "true" } }, svg("line", { ...pieceLook(found, i), x1: 0, x2: 24, y1: 6, y2: 6 }));
}

function drawPieces(picture, found, width, hidden) {
  const height = width < 420 ? 240 : 280;
  const edge = { left: 48, right: width - 12, top: 8, bottom: height - 36 };
  const shown = found.pieces.map((_, i) => i).filter((i) => !hidden.has(found.selectors.name[i]));
  const values = shown.flatMap((i) => found.pieces[i]).filter((value) => value !== null);
  const low = Math.min(...values), high = Math.max(...values), room = 0.06 * (high - low) || 0.05;
  const last = Math.max(1, found.n_pieces - 1);
  const x = (piece) => edge.left + 8 + (piece / last) * (edge.right - edge.left - 16);
  const y = (value) => edge.bottom - ((value - low + room) / (high - low + 2 * room)) * (edge.bottom - edge.top);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("height", height);
  const line = (i) => {
    const points = found.pieces[i].map((value, piece) => (value === null ? null : `${x(piece).toFixed(1)},${y(value).toFixed(1)}`)).filter(Boolean).join(" ");
    return svg("polyline", { ...pieceLook(found, i), points });
  };
  const every = Math.max(1, Math.ceil(found.n_pieces / (width < 420 ? 6 : 12)));
  picture.replaceChildren(
    values.length ? svg("g", { class: "fields-axes" },
      ticks(low - room, high + room, 5).map((value) => svg("g", {}, svg("line", { x1: edge.left, x2: edge.right, y1: y(value), y2: y(value) }),
        svg("text", { x: edge.left - 8, y: y(value), dy: "0.35em", "text-anchor": "end" }, short(value, 3)))),
      Array.from({ length: found.n_pieces }, (_, piece) => piece).filter((piece) => piece % every === 0).map((piece) => svg("text", { x: x(piece), y: edge.bottom + 16, "text-anchor": "middle" }, piece + 1)),
      svg("text", { x: edge.right, y: height - 4, "text-anchor": "end" }, "piece of the stream \u2192"),
      svg("text", { x: edge.left, y: height - 4, "text-anchor": "start" }, `\u2191 ${scoreTitle(found)}`)) : "",
    svg("g", {}, shown.filter((i) => found.selectors.is_baseline[i]).map(line)),
    svg("g", {}, shown.filter((i) => !found.selectors.is_baseline[i]).reverse().map(line)));
  return { x, piece: (px) => ((px - edge.left - 8) / (edge.right - edge.left - 16)) * last };
}

panels.push({
  id: "outcomes", title: "All numbers", of: OF_COMPARISON,
  make(body) {
    const box = el("div", {}), more = el("div", {});
    let found;
    const save = el("button", { type: "button", on: { click: () => saveText(`${found.name}.csv`, outcomesCsv(found), "text/csv") } }, "Export CSV");
    body.append(el("div", { class: "bar" }, save), box, more);
    return (now) => {
      found = now;
      const { selectors } = now;
      const within = (value, spread) => `${shownScore(now, value)}${spread === null ? "" : ` \u00b1 ${short(spread, 2)}`}`;
      box.replaceChildren(table(["selector", scoreTitle(now), "stability", "runs agree", `against ${shortLabel(now.reference)}`, "pieces won", "p", "ms a batch", "time a row"],
        selectors.name.map((name, i) => [named(selectorLabel(name)), within(selectors.score[i], selectors.spread[i]), fixed(selectors.stability[i]), fixed(selectors.agreement[i]),
          name === now.reference ? "reference" : signedScore(now, selectors.difference[i]), name === now.reference ? "" : `${selectors.won[i]}/${now.n_pieces}`,
          selectors.p_value[i] === null ? "" : selectors.p_value[i] < 0.0005 ? "< 0.001" : fixed(selectors.p_value[i]), short(selectors.milliseconds[i], 3), duration(perRow(now, i))]),
        { caption: "All numbers of the comparison", numbers: [1, 2, 3, 4, 5, 6, 7, 8] }));
      const said = (value) => (Array.isArray(value) ? value.join(", ") : value === null ? "\u2013" : String(value));
      const facts = Object.entries({ ...(now.settings || {}), ...(now.versions || {}) });
      more.replaceChildren(...(facts.length ? [disclosure("Settings and versions", () => el("dl", {}, facts.flatMap(([key, value]) => [el("dt", {}, key.replaceAll("_", " ")), el("dd", {}, said(value))])))] : []));
    };
  },
});

function outcomesCsv(found) {
  const { selectors } = found;
  const keys = Object.keys(selectors);
  const pieces = Array.from({ length: found.n_pieces }, (_, piece) => `piece_${piece + 1}`);
  return csvText([...keys, ...pieces], selectors.name.map((_, i) => [...keys.map((key) => selectors[key][i]), ...found.pieces[i]]));
}
