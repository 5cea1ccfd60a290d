// The selected set over time: a row for each feature, a column for each span of the run.
panels.push({
  id: "members",
  title: "The selected set over time",
  note: "Where a feature is selected its row is filled, the stronger its importance the deeper. A thin bar: selected in some batches of that span only.",
  shown: (run) => run.members.names.length > 0 && run.members.rows.length > 0,
  make(body, page) {
    const names = el("div", { class: "raster-names", aria: { hidden: "true" } });
    const canvas = el("canvas", { role: "img", tabindex: "0" });
    const cursor = el("div", { class: "raster-cursor" });
    const axis = el("div", { class: "raster-axis", aria: { hidden: "true" } });
    const plot = el("div", { class: "raster-plot" }, canvas, cursor, axis);
    const box = el("div", { class: "raster" }, names, plot);
    const legend = el("div", { class: "legend" });
    const table = tools.table("The selected set over time", ["Feature", "Selected in rows", "Share of the run", "Importance"], tableRows);
    body.append(legend, box, table.details);
    const tip = tools.tip(box);

    let run, members, greatest, signed, rowHeight, width, feature, span;
    const from = (j) => (j ? members.rows[j - 1] : members.first_row || 0);
    const x = (row) => ((row - from(0)) / (members.rows.at(-1) - from(0) || 1)) * width;

    function draw() {
      const { names: all, share, importance, rows } = members;
      width = plot.clientWidth;
      rowHeight = all.length > 30 ? 15 : all.length > 12 ? 18 : 22;
      box.style.setProperty("--row", `${rowHeight}px`);
      const height = all.length * rowHeight;
      const pen = tools.sharp(canvas, width, height);
      const above = tools.ink("positive");
      const below = tools.ink("negative");
      pen.fillStyle = tools.ink("line");
      pen.globalAlpha = 0.5;
      all.forEach((_, i) => pen.fillRect(0, (i + 1) * rowHeight - 1, width, 1));
      all.forEach((_, i) =>
        rows.forEach((_, j) => {
          const part = share[i][j];
          if (!part) return;
          // Edges on whole dots of the screen: neighbours meet without a seam.
          const dot = devicePixelRatio || 1;
          const left = Math.round(x(from(j)) * dot) / dot;
          const right = Math.max(Math.round(x(rows[j]) * dot) / dot, left + 1 / dot);
          const tall = Math.max(2, (rowHeight - 3) * part);
          pen.fillStyle = importance[i][j] < 0 ? below : above;
          pen.globalAlpha = tools.strength(importance[i][j], greatest);
          pen.fillRect(left, (i + 0.5) * rowHeight - tall / 2 - 0.5, right - left, tall);
        }),
      );
      pen.globalAlpha = 1;
      pen.fillStyle = tools.ink("warn");
      for (const row of new Set(run.alarms.map((alarm) => alarm.row))) pen.fillRect(Math.round(x(row)) - 0.5, 0, 1, height);
      drawAxis();
      mark();
    }

    function drawAxis() {
      const marks = tools.ticks(from(0), members.rows.at(-1), Math.max(2, width / 110));
      axis.replaceChildren(
        ...marks.map((row) => {
          const label = el("span", { text: rows(row) });
          const at = x(row);
          label.style.left = `${at}px`;
          label.classList.toggle("at-start", at < 16);
          label.classList.toggle("at-end", at > width - 24);
          return label;
        }),
      );
    }

    // The cell that is looked at: by the pointer, or with the arrow keys.
    function mark() {
      const on = feature !== undefined && feature < members.names.length && span < members.rows.length;
      cursor.hidden = !on;
      if (!on) return tip.hide();
      const left = x(from(span));
      cursor.style.left = `${left}px`;
      cursor.style.width = `${Math.max(2, x(members.rows[span]) - left)}px`;
      cursor.style.top = `${feature * rowHeight}px`;
      const [title, ...lines] = words(feature, span);
      tip.show(plot.offsetLeft + left, feature * rowHeight, title, ...lines);
    }

    function words(i, j) {
      const part = members.share[i][j];
      const where = `rows ${tools.exact(from(j) + 1)} to ${tools.exact(members.rows[j])}`;
      const value = members.importance[i][j];
      return [
        members.names[i],
        part ? `selected in ${percent(part)} of ${where}` : `not selected in ${where}`,
        part && value !== null ? `importance ${short(value)}` : "",
      ];
    }

    const look = (i, j) => {
      feature = i === undefined ? undefined : Math.max(0, Math.min(i, members.names.length - 1));
      span = Math.max(0, Math.min(j, members.rows.length - 1));
      mark();
    };
    canvas.addEventListener("pointermove", (event) => {
      const row = from(0) + (event.offsetX / width) * (members.rows.at(-1) - from(0));
      const j = members.rows.findIndex((end) => end >= row);
      look(Math.floor(event.offsetY / rowHeight), j < 0 ? members.rows.length - 1 : j);
    });
    canvas.addEventListener("pointerleave", () => look());
    canvas.addEventListener("blur", () => look());
    canvas.addEventListener("click", () => feature !== undefined && page.pick(members.places[feature]));
    canvas.addEventListener("keydown", (event) => {
      const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] || [];
      if (down !== undefined) {
        if (feature === undefined) look(0, members.rows.length - 1);
        else look(feature + down, span + right);
      } else if (event.key === "Enter" && feature !== undefined) page.pick(members.places[feature]);
      else if (event.key === "Escape") look();
      else return;
      event.preventDefault();
    });

    // Spans in which it was selected without a break, as "1 to 1,200, 5,001 to 60,000".
    function stretches(share) {
      const found = [];
      share.forEach((part, j) => {
        if (!part) return;
        if (j && share[j - 1]) found.at(-1)[1] = members.rows[j];
        else found.push([from(j) + 1, members.rows[j]]);
      });
      return found.map(([first, last]) => `${tools.exact(first)} to ${tools.exact(last)}`).join(", ");
    }

    function tableRows() {
      const whole = members.rows.at(-1) - from(0) || 1;
      return members.names.map((name, i) => {
        const selected = members.share[i].reduce((sum, part, j) => sum + part * (members.rows[j] - from(j)), 0);
        const last = members.importance[i].findLast((value) => value !== null);
        return [name, stretches(members.share[i]), percent(selected / whole), last === undefined ? null : short(last)];
      });
    }

    function drawNames() {
      names.replaceChildren(
        ...members.names.map((name, i) => {
          const now = members.share[i].at(-1) > 0;
          const label = el("div", { class: now ? "raster-name" : "raster-name gone", text: name, title: name });
          label.classList.toggle("picked", page.picked.has(members.places[i]));
          label.addEventListener("click", () => page.pick(members.places[i]));
          return label;
        }),
      );
    }

    const redraw = tools.redrawn(plot, draw);
    page.onPick(() => run && drawNames());
    return (next) => {
      run = next;
      members = next.members;
      const values = members.importance.flat().filter((value) => value !== null);
      greatest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
      signed = values.some((value) => value < 0);
      legend.replaceChildren(
        ...(signed ? [el("span", { text: `−${short(greatest)}` }), el("i", { class: "ramp ramp-signed" })] : [el("span", { text: "0" }), el("i", { class: "ramp" })]),
        el("span", { text: `${short(greatest)} importance` }),
        ...(run.alarms.length ? [el("i", { class: "key-alarm" }), el("span", { text: "alarm" })] : []),
      );
      const now = members.names.filter((_, i) => members.share[i].at(-1) > 0);
      canvas.setAttribute(
        "aria-label",
        `${members.names.length} features over rows ${tools.exact(from(0) + 1)} to ${tools.exact(members.rows.at(-1))}. ` +
          `Selected at the end: ${tools.list(now, 5) || "none"}. Arrow keys move over the cells, Enter picks a feature.`,
      );
      drawNames();
      table.update();
      redraw();
    };
  },
});
