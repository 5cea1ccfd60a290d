// Features that are the pixels of a picture: their importance as one.

panels.push({
  id: "picture", title: "Importance by pixel", part: "Selected now",
  note: "Each feature is a pixel; dots mark the selected ones.",
  shown: (run) => Boolean(run.picture),
  make(body, page) {
    const canvas = el("canvas", { role: "img", tabindex: 0 });
    const cursor = el("div", { class: "raster-cursor", hidden: true });
    const plot = el("div", { class: "pixels" }, canvas, cursor);
    const box = el("div", { class: "chart" }, plot);
    const legend = el("div", { class: "legend" });
    const strongest = el("div", {});
    body.append(el("div", { class: "beside" }, el("div", {}, box, legend), strongest));
    const tip = new Tip(box);
    let run, picture, greatest, size, at = null, names = new Map();

    function draw(width) {
      const [high, wide] = picture.shape;
      const dots = devicePixelRatio || 1;
      const room = Math.min(width, 560), tall = 560;
      // A pixel has a whole number of dots on the screen, if there are enough, and so sharp edges.
      const fit = Math.min(room / wide, tall / high, 40);
      size = fit * dots >= 1 ? Math.floor(fit * dots) / dots : fit;
      const pen = sharp(canvas, wide * size, high * size);
      plot.style.width = `${wide * size}px`;
      plot.style.height = `${high * size}px`;
      const [above, below] = [theme("positive"), theme("negative")];
      pen.fillStyle = theme("raised");
      pen.fillRect(0, 0, wide * size, high * size);
      picture.importance.forEach((value, place) => {
        if (!value) return;
        pen.fillStyle = value < 0 ? below : above;
        pen.globalAlpha = Math.min(1, Math.abs(value) / (greatest || 1)) ** 0.7;
        pen.fillRect((place % wide) * size, Math.floor(place / wide) * size, size, size);
      });
      pen.globalAlpha = 1;
      for (const place of picture.selected) {
        const x = ((place % wide) + 0.5) * size, y = (Math.floor(place / wide) + 0.5) * size;
        pen.beginPath();
        pen.arc(x, y, Math.max(1, Math.min(3.5, size / 6)), 0, 2 * Math.PI);
        pen.fillStyle = theme("text");
        pen.fill();
        pen.strokeStyle = theme("panel");
        pen.lineWidth = 1;
        if (size >= 8) pen.stroke();
      }
      look(at);
    }

    function look(place) {
      at = place !== null && place >= 0 && place < picture.importance.length ? place : null;
      cursor.hidden = at === null;
      if (at === null) return tip.hide();
      const [, wide] = picture.shape, column = at % wide, line = Math.floor(at / wide);
      cursor.style.left = `${column * size}px`;
      cursor.style.top = `${line * size}px`;
      cursor.style.width = cursor.style.height = `${size}px`;
      return tip.show((column + 1) * size, line * size, nameOf(at), `line ${line + 1}, column ${column + 1}`,
        `importance ${short(picture.importance[at], 3)}${picture.selected.includes(at) ? ", selected" : ""}`);
    }

    canvas.addEventListener("pointermove", (event) => {
      const [high, wide] = picture.shape;
      const column = Math.min(wide - 1, Math.floor(event.offsetX / size)), line = Math.min(high - 1, Math.floor(event.offsetY / size));
      look(line * wide + column);
    });
    canvas.addEventListener("pointerleave", () => look(null));
    canvas.addEventListener("blur", () => look(null));
    canvas.addEventListener("click", () => { if (run.timeline.series.some((one) => one.place === at)) page.pick(at); });
    canvas.addEventListener("keydown", (event) => {
      const [high, wide] = picture.shape;
      const move = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
      if (event.key === "Escape") look(null);
      else if (!move) return;
      else if (at === null) look(0);
      else {
        const line = Math.max(0, Math.min(high - 1, Math.floor(at / wide) + move[0])), column = Math.max(0, Math.min(wide - 1, (at % wide) + move[1]));
        look(line * wide + column);
      }
      event.preventDefault();
    });

    function listOfStrongest() {
      const wide = picture.shape[1];
      const first = picture.importance.map((_, place) => place).filter((place) => picture.importance[place]).sort((a, b) => Math.abs(picture.importance[b]) - Math.abs(picture.importance[a])).slice(0, 12);
      return table(["pixel", "line", "column", "importance"], first.map((place) => [nameOf(place), whole(Math.floor(place / wide) + 1), whole((place % wide) + 1), short(picture.importance[place], 3)]),
        { caption: "Most important pixels", numbers: [1, 2, 3] });
    }
    const nameOf = (place) => names.get(place) ?? `pixel ${whole(place)}`;

    const redraw = redrawn(box, draw);
    return (next) => {
      run = next;
      picture = run.picture;
      greatest = greatestSize(picture.importance);
      names = new Map(run.now.place.map((place, i) => [place, run.now.name[i]]));
      legend.replaceChildren(ramp(greatest, picture.importance.some((value) => value < 0)), el("span", { class: "keyed" }, el("i", { class: "key-dot" }), `selected: ${whole(picture.selected.length)}`));
      const [high, wide] = picture.shape;
      canvas.setAttribute("aria-label", `Importance of ${high} by ${wide} pixels, ${whole(picture.selected.length)} of them selected. Arrow keys read the pixels.`);
      strongest.replaceChildren(el("h4", {}, "Most important pixels"), listOfStrongest());
      redraw();
    };
  },
});
