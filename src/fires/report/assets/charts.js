// What all charts share: colours of the theme, the axis of rows, marks for alarms, a tooltip, keys.

function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function faint(colour, opacity) {
  return `color-mix(in srgb, ${colour} ${Math.round(100 * opacity)}%, transparent)`;
}

function seriesColour(place) {
  return theme(`series-${(place % 8) + 1}`);
}

// A chart over rows that is redrawn when its width or the theme changes. `spec(width)` gives
// {data, series, bands, marks, y, height, tell(index) -> nodes}; null draws nothing.
class RowsChart {
  constructor(box, label) {
    this.plot = null;
    this.spec = null;
    this.tip = el("div", { class: "tip", role: "status", hidden: true });
    this.area = el("div", { class: "plot", tabindex: 0, role: "img", aria: { label } });
    this.holder = el("div", { class: "chart" }, this.area, this.tip);
    box.append(this.holder);
    this.area.addEventListener("keydown", (event) => this.key(event));
    this.area.addEventListener("blur", () => { this.tip.hidden = true; });
    // What comes in while somebody marks what to zoom to waits until that is done.
    this.area.addEventListener("mousedown", (event) => { this.held = event.button === 0; });
    document.addEventListener("mouseup", () => setTimeout(() => this.release()));
    onWidth(this.holder, () => this.draw());
    page.onTheme(() => this.draw());
  }

  show(make, label) {
    this.make = make;
    if (this.subject !== page.subject) this.zoomed = false;
    this.subject = page.subject;
    if (label) this.area.setAttribute("aria-label", label);
    this.draw();
  }

  draw() {
    const width = Math.floor(this.holder.clientWidth);
    if (!this.make || !width) return;
    if (this.held) return void (this.waits = true);
    const spec = (this.spec = this.make(width));
    const zoom = this.plot && this.zoomed ? { ...this.plot.scales.x } : null;
    const told = this.plot && !this.tip.hidden ? { ...this.plot.cursor } : null;
    if (this.plot) this.plot.destroy();
    this.plot = null;
    this.tip.hidden = true;
    if (!spec || !spec.data[0].length) return;
    const narrow = width < 520;
    const axis = {
      stroke: theme("muted"), font: `12px ${theme("font")}`, labelFont: `12px ${theme("font")}`, gap: 4,
      grid: { stroke: theme("line"), width: 1 }, ticks: { show: false },
    };
    this.plot = new uPlot({
      width, height: spec.height || (narrow ? 220 : 300),
      padding: [12, 20, 0, 0],
      legend: { show: false },
      cursor: { points: { size: 7 }, drag: { x: true, y: false, setScale: true } },
      scales: {
        x: { time: false, range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) },
        y: spec.y || {},
      },
      axes: [
        { ...axis, size: 30, space: narrow ? 70 : 90, values: (u, ticks) => ticks.map(rowMark), grid: { show: false } },
        { ...axis, size: narrow ? 42 : 54, space: 36, values: (u, ticks) => ticks.map((tick) => short(tick, 3)) },
      ],
      series: [{}, ...spec.series],
      bands: spec.bands || [],
      hooks: {
        drawClear: [(u) => this.marks(u)],
        setCursor: [(u) => this.tell(u)],
        setSelect: [() => { this.zoomed = true; }],
      },
    }, spec.data, this.area);
    this.plot.over.addEventListener("dblclick", () => { this.zoomed = false; });
    if (zoom) this.plot.setScale("x", { min: zoom.min, max: zoom.max });
    // The plot works out its scales in a task of its own, before this one.
    if (told) queueMicrotask(() => this.plot?.setCursor({ left: told.left, top: told.top }));
  }

  release() {
    this.held = false;
    if (this.waits) this.draw();
    this.waits = false;
  }

  reset() {
    this.zoomed = false;
    this.draw();
  }

  marks(u) {
    const { left, top, height, width } = u.bbox;
    u.ctx.save();
    u.ctx.strokeStyle = theme("warn");
    u.ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    u.ctx.lineWidth = devicePixelRatio;
    for (const row of this.spec.marks || []) {
      const x = Math.round(u.valToPos(row, "x", true));
      if (x < left || x > left + width) continue;
      u.ctx.beginPath();
      u.ctx.moveTo(x, top);
      u.ctx.lineTo(x, top + height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  }

  tell(u) {
    const at = u.cursor.idx;
    if (at === null || at === undefined || u.cursor.left < 0) {
      this.tip.hidden = true;
      return;
    }
    this.tip.replaceChildren(el("div", { class: "tip-head" }, `row ${whole(u.data[0][at])}`), ...this.spec.tell(at));
    this.tip.hidden = false;
    const left = u.cursor.left + u.bbox.left / devicePixelRatio;
    const room = this.holder.clientWidth;
    const width = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, left + 16 + width > room ? left - width - 16 : left + 16)}px`;
  }

  // Arrow keys walk through the points, as the mouse does; Escape shows all again.
  key(event) {
    const u = this.plot;
    if (!u) return;
    const last = u.data[0].length - 1;
    const now = u.cursor.idx ?? last;
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -last, End: last, PageUp: -10, PageDown: 10 };
    if (event.key === "Escape") return void this.reset();
    if (!(event.key in steps)) return;
    event.preventDefault();
    const at = Math.min(last, Math.max(0, now + steps[event.key]));
    u.setCursor({ left: u.valToPos(u.data[0][at], "x"), top: u.over.clientHeight / 2 });
  }
}

// One line of a tooltip or a legend.
function keyed(colour, ...content) {
  return el("div", { class: "keyed" }, el("span", { class: "dot", css: { background: colour } }), ...content);
}

// Rows at which events were noticed: alarms about all features, and those about one of some features.
function alarmRows(run, names) {
  return run.events.filter(({ features }) => !names || !features.length || features.some((name) => names.has(name))).map((event) => event.row).sort((a, b) => a - b);
}

// A running mean over about a share of all spans, weighted; gaps stay gaps.
function smoothed(values, weights, reach) {
  let total = 0, weight = 0;
  const out = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== null) { total += values[i] * weights[i]; weight += weights[i]; }
    const gone = i - reach;
    if (gone >= 0 && values[gone] !== null) { total -= values[gone] * weights[gone]; weight -= weights[gone]; }
    out.push(values[i] === null || weight <= 0 ? null : total / weight);
  }
  return out;
}
