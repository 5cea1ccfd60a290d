// What panels drawn by hand share: when to draw, sharp canvases, round numbers for axes, a box that tells.

// Draws when the width of a node or the theme changes, and when the function that comes back is called.
function redrawn(node, draw) {
  const again = () => { if (node.clientWidth) draw(Math.floor(node.clientWidth)); };
  onWidth(node, again);
  page.onTheme(again);
  return again;
}

// A canvas of so many CSS pixels, with as many dots as the screen has; what draws on it comes back.
function sharp(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}

// How strongly an importance is inked, from 0 to 1: weak ones can still be seen.
function strength(value, greatest) {
  return 0.15 + 0.85 * Math.sqrt(Math.min(1, Math.abs(value || 0) / (greatest || 1)));
}

function greatestSize(values) {
  let most = 0;
  for (const value of values) if (value !== null && Math.abs(value) > most) most = Math.abs(value);
  return most;
}

// Round numbers between two ends, about so many.
function ticks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

// What stands at a mark of the axis of rows; the first says what is counted.
function rowMark(row, place) {
  return place ? rows(row) : `row ${rows(row)}`;
}

// How many marks of rows an axis of so many pixels has room for.
function roomForRows(width) {
  return Math.max(3, width / 110);
}

// From weak to strong, below and above 0, in the colours of importance.
function ramp(greatest, signed) {
  return el("span", { class: "keyed" },
    el("span", {}, signed ? short(-greatest, 2) : "0"), el("i", { class: signed ? "ramp ramp-signed" : "ramp" }), el("span", {}, `${short(greatest, 2)} importance`));
}

// A box beside a point that says what is there; a screen reader hears it too.
class Tip {
  constructor(holder) {
    this.holder = holder;
    this.box = el("div", { class: "tip", role: "status", hidden: true });
    holder.append(this.box);
  }

  show(x, y, title, ...lines) {
    this.box.hidden = false;
    this.box.replaceChildren(el("div", {}, named(title)), ...lines.filter(Boolean).map((line) => el("div", { class: "muted" }, line)));
    const room = this.holder.clientWidth, wide = this.box.offsetWidth, high = this.box.offsetHeight;
    const left = x + 14 + wide <= room ? x + 14 : x - 14 - wide;
    this.box.style.left = `${Math.max(0, Math.min(left, room - wide))}px`;
    this.box.style.top = `${y - high - 10 > -40 ? y - high - 10 : y + 30}px`;
  }

  hide() {
    this.box.hidden = true;
  }
}

// The colour a picked feature has in all charts; others have that of text.
function pickedColour(place) {
  const order = [...page.picked].indexOf(place);
  return order >= 0 && order < 8 ? `var(--series-${order + 1})` : "var(--text)";
}

// A name that is written from right to left must not turn around what follows it.
function isolated(name) {
  return `\u2068${name}\u2069`;
}

// The first few of some names, and how many more there are.
function listed(names, most = 3) {
  names = names.map(isolated);
  if (names.length > most + 1) return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names.join("");
}

// The items of a list by what a function says of them, in the order in which they come.
function grouped(items, keyOf) {
  const found = new Map();
  for (const item of items) found.set(keyOf(item), [...(found.get(keyOf(item)) || []), item]);
  return found;
}

// Works out anew what a disclosure holds, if it is open.
function renew(box) {
  box.dispatchEvent(new Event("toggle"));
}

// A name cut to so many pixels of a chart's text.
const measuring = document.createElement("canvas").getContext("2d");
function textWidth(text, weight = 400) {
  measuring.font = `${weight} 12px ${theme("font")}`;
  return measuring.measureText(text).width;
}
function fitted(name, room) {
  if (name.length < 100 && textWidth(name) <= room) return name;
  const letters = [...name.slice(0, 100)];
  while (letters.length > 1 && textWidth(`${letters.join("")}\u2026`) > room) letters.pop();
  return `${letters.join("")}\u2026`;
}
