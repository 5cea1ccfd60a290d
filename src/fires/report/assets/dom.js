// Elements, made without HTML text: whatever a feature is called, it can only become text.

function filled(node, props, children) {
  for (const [key, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.setAttribute("class", value);
    else if (key === "text") node.textContent = value;
    else if (key === "on") for (const [name, fn] of Object.entries(value)) node.addEventListener(name, fn);
    else if (key === "aria") for (const [name, said] of Object.entries(value)) node.setAttribute(`aria-${name}`, said);
    else if (key === "data") Object.assign(node.dataset, value);
    else if (key === "css") for (const [name, to] of Object.entries(value)) node.style.setProperty(name, to);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function el(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

function svg(tag, props, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

// The name of a feature: set apart, broken after its parts or cut where there is no room, whole in its title.
function named(name, tag = "span") {
  const shown = name.trim() === "" ? "(no name)" : name;
  const parts = shown.split(/(?<=[_.:/-])/).flatMap((part) => [el("wbr", {}), part]);
  return el(tag, { class: "name", title: name }, parts.slice(1));
}

// Puts new content in place of old; the button that had the focus, or the one now in its place, has it again.
function replaced(holder, nodes) {
  const at = [...holder.querySelectorAll("button")].indexOf(document.activeElement);
  holder.replaceChildren(...nodes);
  if (at < 0) return;
  const now = holder.querySelectorAll("button");
  now[Math.min(at, now.length - 1)]?.focus({ preventScroll: true });
}

// Calls back now and whenever the width of an element has changed.
function onWidth(node, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(node.clientWidth);
    if (now && now !== width) {
      width = now;
      draw(now);
    }
  }).observe(node);
}

// A button that opens what takes room, such as the same numbers as a table; made when it is opened.
function disclosure(label, make) {
  const box = el("details", { class: "more" }, el("summary", { text: label }));
  box.addEventListener("toggle", () => {
    if (box.open) box.replaceChildren(box.firstElementChild, make());
  });
  return box;
}

function table(head, rows, { caption, numbers = [] } = {}) {
  const align = (place) => (numbers.includes(place) ? "number" : null);
  return el("div", { class: "scroll", tabindex: 0, role: "group", aria: { label: caption || "table" } },
    el("table", {},
      caption ? el("caption", { class: "hidden", text: caption }) : null,
      el("thead", {}, el("tr", {}, head.map((title, i) => title ? el("th", { scope: "col", class: align(i) }, title) : el("td", {})))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, i) => el("td", { class: align(i) }, cell)))))));
}
