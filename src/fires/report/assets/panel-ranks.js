// Ranks over time: a line for each feature that was ever in the top ten.
panels.push({
  id: "ranks",
  title: "Ranks of the top ten over time",
  note: "Who overtook whom. A line that fades out has left the top ten.",
  shown: (run) => run.ranks.names.length > 0 && run.ranks.rows.length > 0,
  make(body, page) {
    const box = el("div", { class: "bump" });
    const table = tools.table("Ranks of the top ten", ["Feature", "At first", "Best", "Now"], () =>
      ranks.names.map((name, i) => {
        const known = ranks.rank[i].filter((rank) => rank !== null);
        return [name, ranks.rank[i][0], known.length ? Math.min(...known) : null, ranks.rank[i].at(-1)];
      }),
    );
    body.append(box, table.details);
    const picture = svg("svg", { role: "img" });
    box.append(picture);
    const tip = tools.tip(box);
    const mask = "ranks-fade";

    let ranks, hovered, lines;

    function draw(width) {
      const { rows: at, rank, names } = ranks;
      const last = Math.max(1, ...rank.flat().filter((each) => each !== null && each <= 10));
      const gap = width < 500 ? 24 : 28;
      const left = 26;
      const right = Math.min(150, Math.max(88, width * 0.27));
      const height = (last + 1) * gap + 22;
      const span = at.at(-1) - at[0];
      const inner = width - left - right;
      const x = (row) => left + (span ? ((row - at[0]) / span) * inner : inner / 2);
      const y = (place) => (place - 0.5) * gap;
      picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
      picture.setAttribute("width", width);
      picture.setAttribute("height", height);
      const fade = svg(
        "linearGradient",
        { id: `${mask}-ramp`, gradientUnits: "userSpaceOnUse", x1: 0, x2: 0, y1: y(last) + 4, y2: y(last + 1) },
        svg("stop", { offset: 0, "stop-color": "#fff" }),
        svg("stop", { offset: 1, "stop-color": "#000" }),
      );
      const cover = svg("rect", { x: 0, y: 0, width, height, fill: `url(#${mask}-ramp)` });
      const whole = { id: mask, maskUnits: "userSpaceOnUse", x: 0, y: 0, width, height };
      const grid = svg("g", { class: "bump-grid" });
      for (let place = 1; place <= last; place++) {
        grid.append(
          svg("line", { x1: left, x2: left + inner, y1: y(place), y2: y(place) }),
          svg("text", { x: left - 12, y: y(place), "text-anchor": "end", "dominant-baseline": "central" }, String(place)),
        );
      }
      for (const row of tools.ticks(at[0], at.at(-1), Math.max(2, inner / 110))) {
        const anchor = x(row) < left + 14 ? "start" : "middle";
        grid.append(svg("text", { x: x(row), y: height - 5, "text-anchor": anchor }, rows(row)));
      }
      lines = names.map((name, i) => feature(i, rank[i], x, y, last, left + inner, right));
      picture.replaceChildren(
        svg("defs", {}, fade, svg("mask", whole, cover)),
        grid,
        svg("g", { mask: `url(#${mask})` }, ...lines.map((each) => each.line)),
        svg("g", {}, ...lines.map((each) => each.marks)),
      );
      paint();
    }

    // The line of one feature, the dots where it enters and leaves, and its name if it is still there.
    function feature(i, rank, x, y, last, end, room) {
      const inside = rank.map((place) => place !== null && place <= last);
      const points = rank.map((place, j) => [x(ranks.rows[j]), y(inside[j] ? place : last + 1)]);
      let path = "";
      points.forEach(([px, py], j) => {
        if (!inside[j] && !inside[j - 1] && !inside[j + 1]) return;
        if (!path || (!inside[j] && !inside[j - 1])) path += `M${px.toFixed(1)} ${py.toFixed(1)}`;
        else {
          const [bx, by] = points[j - 1];
          const middle = ((bx + px) / 2).toFixed(1);
          path += `C${middle} ${by.toFixed(1)} ${middle} ${py.toFixed(1)} ${px.toFixed(1)} ${py.toFixed(1)}`;
        }
      });
      const line = svg("path", { d: path, class: "bump-line" });
      const marks = svg("g", { class: "bump-marks" });
      const wide = svg("path", { d: path, class: "bump-reach" });
      points.forEach(([px, py], j) => {
        if (inside[j] && (!inside[j - 1] || !inside[j + 1])) marks.append(svg("circle", { cx: px, cy: py, r: 3.5 }));
      });
      if (inside.at(-1)) {
        const label = svg("text", { x: end + 12, y: y(rank.at(-1)), "dominant-baseline": "central" }, cut(ranks.names[i], room - 14));
        label.append(svg("title", {}, ranks.names[i]));
        marks.append(label);
      }
      const group = svg("g", {}, line, wide);
      for (const part of [group, marks]) {
        part.addEventListener("pointermove", (event) => look(i, event));
        part.addEventListener("pointerleave", () => look());
        part.addEventListener("click", () => page.pick(ranks.places[i]));
      }
      return { line: group, marks };
    }

    // What fits into so many pixels, at 7 pixels a letter.
    const cut = (name, room) => {
      const letters = Math.max(4, Math.floor(room / 7));
      return name.length > letters ? `${name.slice(0, letters - 1)}…` : name;
    };

    function look(i, event) {
      hovered = i;
      paint();
      if (i === undefined) return tip.hide();
      const { left, top } = box.getBoundingClientRect();
      const known = ranks.rank[i];
      const now = known.at(-1);
      tip.show(
        event.clientX - left,
        event.clientY - top,
        ranks.names[i],
        now === null ? "rank now is not known" : `rank ${now} now`,
        known[0] !== null && known.length > 1 ? `rank ${known[0]} at row ${rows(ranks.rows[0])}` : "",
      );
    }

    // Colour for what the reader looks at and for the first three; all else stays in the background.
    function paint() {
      const looking = hovered !== undefined || ranks.places.some((place) => page.picked.has(place));
      lines.forEach(({ line, marks }, i) => {
        const chosen = i === hovered || page.picked.has(ranks.places[i]);
        const strong = looking ? chosen : ranks.rank[i].at(-1) !== null && ranks.rank[i].at(-1) <= 3;
        for (const part of [line, marks]) {
          part.classList.toggle("strong", strong);
          part.style.color = strong ? page.colour(ranks.places[i]) : "";
        }
        if (strong) {
          line.parentNode.append(line);
          marks.parentNode.append(marks);
        }
      });
    }

    const redraw = tools.redrawn(box, draw);
    page.onPick(() => lines && paint());
    return (run) => {
      ranks = run.ranks;
      hovered = undefined;
      tip.hide();
      const now = ranks.names.filter((_, i) => ranks.rank[i].at(-1) !== null && ranks.rank[i].at(-1) <= 10);
      picture.setAttribute("aria-label", `Ranks over ${tools.exact(ranks.rows.at(-1))} rows. Best now, in order: ${now.join(", ")}.`);
      table.update();
      redraw();
    };
  },
});
