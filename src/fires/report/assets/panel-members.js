// The selected set over time: a line for each feature, a column for each span of the run.

panels.push({
  id: "members", title: "Selection over time", part: "What changed",
  note: "Filled where a feature is selected; the deeper the colour, the greater its importance. Thinner: selected in only some batches of the span.",
  shown: (run) => run.members.names.length > 0 && run.members.rows.length > 0,
  make(body, page) {
    const names = el("div", { class: "raster-names", aria: { hidden: "true" } });
    const canvas = el("canvas", { role: "img", tabindex: 0 });
    const cursor = el("div", { class: "raster-cursor", hidden: true });
    const axis = el("div", { class: "raster-axis", aria: { hidden: "true" } });
    const plot = el("div", { class: "raster-plot" }, canvas, cursor, axis);
    const box = el("div", { class: "raster" }, names, plot);
    const legend = el("div", { class: "legend" });
    const more = el("button", { type: "button", class: "quiet", on: { click: () => { all = !all; show(); } } });
    const tableBox = disclosure("Show as table", asTable);
    body.append(box, legend, el("div", { class: "bar after" }, more), tableBox);
    const tip = new Tip(box);

    let run, members, many, greatest, lineHeight, width, all = false, line = null, span = 0;
    const begin = (j) => (j ? members.rows[j - 1] : members.first_row || 0);
    const end = () => members.rows[members.rows.length - 1];
    const x = (row) => ((row - begin(0)) / (end() - begin(0) || 1)) * width;

    function draw() {
      width = plot.clientWidth;
      lineHeight = many > 30 ? 15 : many > 12 ? 19 : 24;
      box.style.setProperty("--line-height", `${lineHeight}px`);
      const pen = sharp(canvas, width, many * lineHeight);
      const colours = { above: theme("positive"), below: theme("negative") };
      pen.fillStyle = theme("line");
      for (let i = 1; i <= many; i++) pen.fillRect(0, i * lineHeight - 1, width, 1);
      for (let i = 0; i < many; i++) for (let j = 0; j < members.rows.length; j++) drawCell(pen, colours, i, j);
      pen.globalAlpha = 0.75;
      pen.fillStyle = theme("text");
      for (const row of new Set(alarmRows(run))) pen.fillRect(Math.round(x(row)) - 0.5, 0, 1, many * lineHeight);
      drawAxis();
      look(line, span);
    }

    function drawCell(pen, colours, i, j) {
      const share = members.share[i][j];
      if (!share) return;
      // Edges lie on whole dots of the screen, so that neighbours meet without a seam.
      const dots = devicePixelRatio || 1;
      const left = Math.round(x(begin(j)) * dots) / dots;
      const right = Math.max(Math.round(x(members.rows[j]) * dots) / dots, left + 1 / dots);
      const value = members.importance[i][j];
      const tall = Math.max(2, Math.round((lineHeight - 5) * share));
      pen.fillStyle = value < 0 ? colours.below : colours.above;
      pen.globalAlpha = strength(value, greatest);
      const area = [left, i * lineHeight + Math.round((lineHeight - 1 - tall) / 2), right - left, tall];
      pen.clearRect(...area); // spans narrower than a dot share it, and must not add up
      pen.fillRect(...area);
    }

    function drawAxis() {
      axis.replaceChildren(...ticks(begin(0), end(), roomForRows(width)).map((row, place) => {
        const at = x(row);
        const side = at < 16 ? "at-start" : at > width - 20 ? "at-end" : null;
        return el("span", { class: side, css: { left: `${at}px` } }, rowMark(row, place));
      }));
    }

    // Shows the cell that the pointer is on, or that the arrow keys have reached; null: none.
    function look(i, j) {
      line = i === null ? null : Math.max(0, Math.min(i, many - 1));
      span = Math.max(0, Math.min(j, members.rows.length - 1));
      cursor.hidden = line === null;
      if (line === null) return tip.hide();
      const left = x(begin(span));
      cursor.style.left = `${left}px`;
      cursor.style.width = `${Math.max(3, x(members.rows[span]) - left)}px`;
      cursor.style.top = `${line * lineHeight}px`;
      return tip.show(plot.offsetLeft + left, line * lineHeight, ...said(line, span));
    }

    function said(i, j) {
      const share = members.share[i][j], value = members.importance[i][j];
      const where = `rows ${whole(begin(j) + 1)} to ${whole(members.rows[j])}`;
      return [members.names[i], share ? `selected in ${percent(share)} of ${where}` : `not selected in ${where}`, share && value !== null ? `importance ${short(value, 3)}` : null];
    }

    canvas.addEventListener("pointermove", (event) => {
      const row = begin(0) + (event.offsetX / width) * (end() - begin(0));
      const found = members.rows.findIndex((last) => last >= row);
      look(Math.floor(event.offsetY / lineHeight), found < 0 ? members.rows.length - 1 : found);
    });
    canvas.addEventListener("pointerleave", () => look(null, span));
    canvas.addEventListener("blur", () => look(null, span));
    canvas.addEventListener("click", () => { if (line !== null) page.pick(members.places[line]); });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
      if (move && line === null) look(0, members.rows.length - 1);
      else if (move) look(line + move[0], span + move[1]);
      else if (event.key === "Enter" && line !== null) page.pick(members.places[line]);
      else if (event.key === "Escape") look(null, span);
      else return;
      event.preventDefault();
    });

    function drawNames() {
      names.replaceChildren(...members.names.slice(0, many).map((name, i) => {
        const place = members.places[i], picked = page.picked.has(place);
        return el("div", { class: isSelected(i) ? "raster-name" : "raster-name gone", on: { click: () => page.pick(place) } },
          el("span", { class: "dot", css: { background: picked ? pickedColour(place) : "transparent" } }), named(name));
      }));
    }

    const isSelected = (i) => members.share[i][members.rows.length - 1] > 0;

    // Where a feature was selected without a break: "1 to 1,200; 5,001 to 60,000".
    function stretches(shares) {
      const found = [];
      shares.forEach((share, j) => {
        if (!share) return;
        if (j && shares[j - 1]) found[found.length - 1][1] = members.rows[j];
        else found.push([begin(j) + 1, members.rows[j]]);
      });
      return found.map(([first, last]) => `${whole(first)} to ${whole(last)}`).join("; ");
    }

    function asTable() {
      const all = end() - begin(0) || 1;
      return table(["feature", "selected in rows", "share of rows", "importance"], members.names.map((name, i) => {
        const selected = members.share[i].reduce((sum, share, j) => sum + share * (members.rows[j] - begin(j)), 0);
        return [named(name), stretches(members.share[i]), percent(selected / all), short(latest(members.importance[i]), 3)];
      }), { caption: "Selection over time", numbers: [2, 3] });
    }

    // Importances are recorded in some batches only: until the next one, the last one holds.
    function carried(values) {
      let known = values.find((value) => value !== null) ?? null;
      return values.map((value) => (known = value ?? known));
    }

    // The first ones by rank; all on demand, since sixty lines fill a screen.
    function show() {
      const whole = members.names.length, FIRST = 24;
      many = all || whole <= FIRST + 4 ? whole : FIRST;
      more.hidden = whole <= FIRST + 4;
      more.textContent = all ? `Show the first ${FIRST}` : `Show all ${whole}`;
      drawNames();
      redraw();
    }

    const redraw = redrawn(plot, draw);
    page.onPick(drawNames);
    return (next) => {
      run = next;
      members = { ...run.members, importance: run.members.importance.map(carried) };
      const values = members.importance.flat();
      greatest = greatestSize(values);
      legend.replaceChildren(ramp(greatest, values.some((value) => value < 0)));
      if (alarmRows(run).length) legend.append(el("span", { class: "keyed" }, el("i", { class: "key-alarm" }), "drift event"));
      const now = members.names.filter((_, i) => isSelected(i));
      canvas.setAttribute("aria-label", `${plural(members.names.length, "feature")} over rows ${whole(begin(0) + 1)} to ${whole(end())}. ` +
        `Selected at the end: ${listed(now, 6) || "none"}. Arrow keys read the cells, Enter picks a feature.`);
      renew(tableBox);
      show();
    };
  },
});
