// Ranks over time: a line for each feature that was ever among the first ten.

panels.push({
  id: "ranks", title: "Ranks over time", part: "Details", folded: () => "who overtook whom in the top ten",
  note: "A line that fades out has left the top ten. Colours are those of the features in the chart of importance.",
  shown: (run) => run.ranks.names.length > 0 && run.ranks.rows.length > 1,
  make(body, page) {
    const picture = svg("svg", { class: "bump", role: "img" });
    const box = el("div", { class: "chart" }, picture);
    const tableBox = disclosure("Show as table", asTable);
    body.append(box, tableBox);
    const tip = new Tip(box);
    let all, ranks, lines = [], hovered = null;

    // As many moments as there is room for, the last among them: closer ones would only tangle.
    function thinned(room) {
      const last = all.rows.length - 1, step = Math.ceil((last + 1) / Math.max(4, room / 28));
      const kept = all.rows.map((_, j) => j).filter((j) => (last - j) % step === 0);
      return { ...all, rows: kept.map((j) => all.rows[j]), rank: all.rank.map((one) => kept.map((j) => one[j])) };
    }

    function draw(width) {
      const gap = width < 520 ? 26 : 30, left = 28, right = Math.round(Math.min(215, Math.max(100, width * 0.24)));
      const inner = width - left - right;
      ranks = thinned(inner);
      const at = ranks.rows, final = at.length - 1;
      const lowest = Math.max(1, ...ranks.rank.flat().filter((rank) => rank !== null && rank <= 10));
      const height = (lowest + 0.6) * gap + 24;
      const x = (row) => (final ? left + ((row - at[0]) / (at[final] - at[0] || 1)) * inner : left + inner);
      const y = (rank) => (rank - 0.5) * gap + 4;
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("height", height);
      lines = ranks.names.map((_, i) => makeLine(i, { x, y, lowest, names: left + inner + 12, room: right - 14 }));
      const grid = svg("g", { class: "bump-grid" });
      for (let rank = 1; rank <= lowest; rank++) {
        grid.append(svg("line", { x1: left, x2: left + inner, y1: y(rank), y2: y(rank) }), svg("text", { x: left - 14, y: y(rank), "text-anchor": "end", dy: "0.35em" }, rank));
      }
      if (final) ticks(at[0], at[final], roomForRows(inner)).forEach((row, place) => {
        grid.append(svg("text", { x: x(row), y: height - 4, "text-anchor": x(row) < left + 16 ? "start" : "middle" }, rowMark(row, place)));
      });
      picture.replaceChildren(fade(width, height, y(lowest) + 5, y(lowest + 0.9)), grid,
        svg("g", { mask: "url(#bump-mask)" }, lines.map((each) => each.path)), svg("g", {}, lines.map((each) => each.marks)));
      paint();
    }

    // Below the last rank lines grow faint, and end.
    function fade(width, height, from, to) {
      const whole = { x: 0, y: 0, width, height };
      return svg("defs", {},
        svg("linearGradient", { id: "bump-fade", gradientUnits: "userSpaceOnUse", x1: 0, x2: 0, y1: from, y2: to },
          svg("stop", { offset: 0, "stop-color": "#fff" }), svg("stop", { offset: 1, "stop-color": "#000" })),
        svg("mask", { id: "bump-mask", maskUnits: "userSpaceOnUse", ...whole }, svg("rect", { ...whole, fill: "url(#bump-fade)" })));
    }

    function makeLine(i, { x, y, lowest, names, room }) {
      const rank = ranks.rank[i];
      const inside = rank.map((each) => each !== null && each <= lowest);
      const points = rank.map((each, j) => [x(ranks.rows[j]), y(inside[j] ? each : lowest + 1)].map((value) => Math.round(value * 10) / 10));
      let route = "";
      points.forEach(([px, py], j) => {
        if (inside[j] || inside[j - 1]) {
          const [bx, by] = points[j - 1] || [];
          const half = Math.round(5 * (bx + px)) / 10;
          route += j && route ? `C${half} ${by} ${half} ${py} ${px} ${py}` : `M${px} ${py}`;
        } else if (inside[j + 1]) route += `M${px} ${py}`;
      });
      const marks = svg("g", { class: "bump-marks" }, points.filter((_, j) => j === inside.indexOf(true) || j === inside.lastIndexOf(true)).map(([cx, cy]) => svg("circle", { class: cx === points[0][0] || cx === points[points.length - 1][0] ? null : "within", cx, cy, r: 3.5 })));
      if (inside[rank.length - 1]) marks.append(svg("text", { x: names, y: y(rank[rank.length - 1]), dy: "0.35em" }, svg("title", {}, ranks.names[i]), fitted(ranks.names[i], 0.92 * room)));
      const path = svg("g", { class: "bump-line" }, svg("path", { class: "bump-stroke", d: route }), svg("path", { class: "bump-reach", d: route }));
      for (const part of [path, marks]) {
        part.addEventListener("pointermove", (event) => look(i, event));
        part.addEventListener("pointerleave", () => look(null));
        part.addEventListener("click", () => page.pick(ranks.places[i]));
      }
      return { path, marks };
    }

    function look(i, event) {
      if (hovered !== i) {
        hovered = i;
        paint();
      }
      if (i === null) return tip.hide();
      const { left, top } = box.getBoundingClientRect();
      const rank = all.rank[i], now = rank[rank.length - 1];
      return tip.show(event.clientX - left, event.clientY - top, ranks.names[i], now === null ? "no longer ranked" : `rank ${whole(now)} now`,
        rank.length > 1 && rank[0] !== null ? `rank ${whole(rank[0])} at row ${whole(all.rows[0])}` : null);
    }

    // Colour is for the picked ones and the one that is looked at; all else stays in the background.
    function paint() {
      lines.forEach(({ path, marks }, i) => {
        const place = ranks.places[i];
        const strong = i === hovered || page.picked.has(place);
        for (const part of [path, marks]) {
          part.classList.toggle("strong", strong);
          part.classList.toggle("behind", hovered !== null && i !== hovered);
          part.style.color = strong ? pickedColour(place) : "";
        }
      });
      for (const { path } of lines) if (path.classList.contains("strong") && path !== path.parentNode.lastChild && hovered === null) path.parentNode.append(path);
    }

    function asTable() {
      const last = all.rows.length - 1;
      return table(["feature", `rank at row ${rows(all.rows[0])}`, "best", `rank at row ${rows(all.rows[last])}`], all.names.map((name, i) => {
        const known = all.rank[i].filter((rank) => rank !== null);
        return [named(name), whole(all.rank[i][0]), known.length ? whole(Math.min(...known)) : "\u2013", whole(all.rank[i][last])];
      }), { caption: "Ranks over time", numbers: [1, 2, 3] });
    }

    const redraw = redrawn(box, draw);
    page.onPick(paint);
    return (run) => {
      all = run.ranks;
      hovered = null;
      tip.hide();
      const last = all.rows.length - 1;
      const first = all.names.map((name, i) => [all.rank[i][last], name]).filter(([rank]) => rank !== null && rank <= 10).sort((a, b) => a[0] - b[0]);
      picture.setAttribute("aria-label", `Ranks up to row ${whole(all.rows[last])}. Now, in order: ${first.map(([, name]) => name).join(", ")}.`);
      renew(tableBox);
      redraw();
    };
  },
});
