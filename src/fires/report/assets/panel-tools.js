// What the panels that are drawn by hand share: sharp canvases, one kind of tip, axes, tables on demand.
const tools = (() => {
  // A colour of the theme, as it is now.
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Calls draw(width) whenever the element has another width or the theme changes; returns a function that asks for it.
  const redrawn = (element, draw) => {
    let asked = 0;
    let width = 0;
    const ask = () => {
      asked ||= requestAnimationFrame(() => {
        asked = 0;
        if (element.clientWidth) draw(element.clientWidth);
      });
    };
    new ResizeObserver(() => {
      if (element.clientWidth === width) return;
      width = element.clientWidth;
      ask();
    }).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", ask);
    new MutationObserver(ask).observe(document.documentElement, { attributes: true });
    return ask;
  };

  // A canvas of so many CSS pixels, with as many dots as the screen has; returns what draws on it.
  const sharp = (canvas, width, height) => {
    const scale = devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    return pen;
  };

  // How strongly a value is drawn: weak ones stay visible, 1 is the greatest.
  const strength = (value, greatest) => 0.16 + 0.84 * Math.sqrt(Math.min(1, Math.abs(value || 0) / (greatest || 1)));

  // Round numbers from low to high, about so many.
  const ticks = (low, high, about) => {
    const span = high - low;
    if (!(span > 0)) return [low];
    const rough = span / Math.max(1, about);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((each) => each * power >= rough * 0.999) * power;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(+(at * step).toPrecision(12));
    return found;
  };

  // A box at the pointer that says what is there; a screen reader hears it too. The container is position: relative.
  const tip = (container) => {
    const box = el("div", { class: "tip", role: "status" });
    container.append(box);
    return {
      show(x, y, title, ...lines) {
        box.replaceChildren(el("strong", { text: title }), ...lines.filter(Boolean).map((line) => el("span", { text: line })));
        box.classList.add("tip-shown");
        const room = container.clientWidth;
        const { offsetWidth: wide, offsetHeight: high } = box;
        const left = x + 14 + wide <= room ? x + 14 : x - 14 - wide;
        box.style.left = `${Math.max(0, Math.min(left, room - wide))}px`;
        box.style.top = `${y - high - 12 >= -20 ? y - high - 12 : y + 18}px`;
      },
      hide() {
        box.classList.remove("tip-shown");
      },
    };
  };

  // "Show as table": rows are worked out only while it is open.
  const table = (label, columns, content) => {
    const head = el("tr", {}, ...columns.map((name) => el("th", { scope: "col", text: name })));
    const body = el("tbody", {});
    const scroll = el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", aria: { label } },
      el("table", { class: "plain" }, el("thead", {}, head), body),
    );
    const details = el("details", { class: "as-table" }, el("summary", { text: "Show as table" }), scroll);
    const update = () => {
      if (details.open) body.replaceChildren(...content().map(line));
    };
    details.addEventListener("toggle", update);
    return { details, update };
  };

  const line = (cells) => el("tr", {}, ...cells.map((cell, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, cell ?? "–")));

  // The names of the first few, and how many more there are.
  const list = (names, most = 3) => {
    const more = names.length - most;
    if (more > 1) return `${names.slice(0, most).join(", ")} and ${more} more`;
    return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names.at(-1)}` : names.join("");
  };

  const exact = (n) => n.toLocaleString("en-US");

  return { ink, redrawn, sharp, strength, ticks, tip, table, line, list, exact };
})();
