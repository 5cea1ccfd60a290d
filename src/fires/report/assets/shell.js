// The page: its head, its panels in order, and what they share. Live, new data come in by themselves.

const panels = [];
// The headings of the page; a panel says under which it stands.
const PARTS = ["Selected now", "What changed", "How well they predict", "Details"];
const MOST_PICKED = 8; // there are no more colours
const page = {
  data: null, run: null, picked: new Set(), chosen: 0, subject: null,
  _pick: [], _theme: [],
  onPick(fn) { this._pick.push(fn); },
  onTheme(fn) { this._theme.push(fn); },
  pick(place) {
    if (this.picked.has(place)) this.picked.delete(place);
    else this.picked.add(place);
    if (this.picked.size > MOST_PICKED) this.picked.delete(this.picked.values().next().value); // the oldest
    this.hasPicked = true;
    for (const fn of this._pick) fn();
  },
};

const STATUS = {
  waiting: ["waiting for the first rows", "wait"], running: ["running", "live"], ended: ["ended", "ok"],
  "ended early": ["ended early", "bad"], killed: ["killed: continue it with --resume", "bad"],
  gone: ["removed: its folder is gone", "bad"],
};

function start() {
  page.data = JSON.parse(document.getElementById("data").textContent);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themeChanged);
  const main = document.getElementById("page");
  main.replaceChildren();
  const head = makeHead(document.getElementById("top"));
  const made = [], headings = PARTS.map((name) => el("h2", { class: "part", text: name }));
  const refresh = () => {
    page.run = page.data.runs[page.chosen] || null;
    const subject = page.run && `${page.chosen} ${page.run.run.id}`;
    if (subject !== page.subject) forget(subject); // another one was chosen, or has taken its place
    head();
    for (const panel of panels) {
      const about = panel.of === "comparison" ? page.data.comparison : panel.of === "runs" ? page.data : page.run;
      let one = made.find((known) => known.panel === panel);
      const shown = Boolean(about) && (!panel.shown || Boolean(panel.shown(about)));
      if (shown && !one) made.push((one = makePanel(main, panel, made)));
      if (!one) continue;
      one.section.hidden = !shown;
      if (!shown) continue;
      if (typeof panel.note === "function") one.note.textContent = panel.note(about);
      if (panel.folded) one.fact.textContent = panel.folded(about);
      one.update(about);
    }
    const visible = made.filter((one) => !one.section.hidden).sort((a, b) => panels.indexOf(a.panel) - panels.indexOf(b.panel));
    fillHalves(visible);
    headings.forEach((heading, i) => {
      const first = visible.find((one) => one.panel.part === PARTS[i]);
      if (!first) heading.remove();
      else if (first.section.previousElementSibling !== heading) first.section.before(heading);
    });
  };
  page.refresh = refresh;
  refresh();
  foot();
  addEventListener("beforeprint", () => main.querySelectorAll(".folded > details").forEach((one) => { one.open = true; }));
  if (isLive()) follow(refresh);
}

// A half without another one beside it takes the whole width.
function fillHalves(visible) {
  let open = null;
  for (const { panel, section } of visible) {
    const half = panel.wide === false;
    section.classList.toggle("half", half);
    if (!half) open?.classList.remove("half");
    open = half && !open ? section : null;
  }
  open?.classList.remove("half");
}

function forget(subject) {
  page.subject = subject;
  page.picked.clear();
  page.hasPicked = false;
}

function makePanel(main, panel, made) {
  const body = el("div", { class: "body" });
  const title = panel.title ? el(panel.part ? "h3" : "h2", { id: `${panel.id}-title`, class: "title", text: panel.title }) : null;
  const fact = el("span", { class: "muted" });
  const note = panel.note ? el("p", { class: "note" }, typeof panel.note === "string" ? panel.note : null) : null;
  const section = el("section", {
    id: panel.id, class: panel.folded ? "panel folded" : "panel", tabindex: -1,
    aria: panel.title ? { labelledby: `${panel.id}-title` } : { label: panel.label || panel.id },
  }, panel.folded ? el("details", {}, el("summary", {}, title, fact), note, body) : [title, note, body]);
  const order = panels.indexOf(panel);
  const next = made.filter((one) => panels.indexOf(one.panel) > order).sort((a, b) => panels.indexOf(a.panel) - panels.indexOf(b.panel))[0];
  main.insertBefore(section, next ? next.section : null);
  return { panel, section, note, fact, update: panel.make(body, page) };
}

function makeHead(top) {
  const title = el("h1");
  const facts = el("p", { class: "facts" });
  const status = el("span", { class: "status", role: "status" });
  const link = el("span", { class: "link", role: "status" });
  const runs = el("div", { class: "runs", role: "group", aria: { label: "Runs" } });
  const toggle = el("button", { class: "quiet", type: "button", on: { click: switchTheme } });
  const offer = () => { toggle.textContent = isDark() ? "Light" : "Dark"; toggle.setAttribute("aria-label", `${toggle.textContent} theme`); };
  offer();
  page.onTheme(offer);
  page.link = link;
  top.append(el("div", { class: "titles" }, el("p", { class: "brand" }, "fires"), title, facts), el("div", { class: "tools" }, status, link, toggle), runs);
  return () => {
    const { run, data } = page;
    title.replaceChildren(run ? run.run.name : data.comparison ? data.comparison.name : data.title);
    if (run) {
      const [said, look] = STATUS[run.run.status] || [run.run.status, "wait"];
      status.textContent = run.run.status === "ended early" && run.run.reason ? `ended early: ${run.run.reason}` : said;
      status.className = `status ${look}`;
      facts.replaceChildren(...factsOf(run));
    } else {
      status.hidden = true;
      facts.replaceChildren(...(data.comparison && data.comparison.started ? factsOf({ run: { kind: null, ...data.comparison } }) : []));
    }
    runs.hidden = data.runs.length < 2;
    runs.replaceChildren(...(runs.hidden ? [] : data.runs.map((one, place) => el("button", {
      type: "button", class: "choice", aria: { pressed: String(place === page.chosen) },
      on: { click: () => { page.chosen = place; page.refresh(); } },
    }, one.run.name))));
  };
}

function factsOf(run) {
  const { target, kind, classes, sources, started, updated } = run.run;
  const what = kind === "classes" && classes ? `${target} (${classes.length > 4 ? plural(classes.length, "class", "classes") : classes.join(", ")})` : target;
  return [
    target ? el("span", {}, "target ", named(what)) : null,
    sources.length ? el("span", {}, "from ", named(sources.length > 1 ? `${sources[0]} and ${sources.length - 1} more` : sources[0])) : null,
    el("span", {}, `started ${moment(started)}`),
    updated ? el("span", {}, `last record ${moment(updated)}`) : null,
  ].filter(Boolean);
}

function foot() {
  const { made, fires } = page.data;
  const asks = isLive() ? "It makes requests to its own server only." : "This page makes no network requests.";
  document.getElementById("foot").append(el("p", {}, `Made by fires ${fires}, ${moment(made)}. ${asks} Charts: uPlot (MIT).`));
}

function isLive() {
  return document.documentElement.hasAttribute("data-live");
}

function switchTheme() {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  themeChanged();
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function themeChanged() {
  for (const fn of page._theme) fn();
}

// New data by server-sent events. The browser connects again by itself; where it gives up, we try.
// A page that nobody sees lets go of its connection: a browser has only six of them for a server.
function follow(refresh) {
  let events = null, later = null;
  const say = (text, look) => { page.link.textContent = text; page.link.className = `link ${look}`; };
  const connect = () => {
    events = new EventSource(`events${location.search}`);
    events.onopen = () => say("live", "live");
    events.onmessage = (event) => { page.data = JSON.parse(event.data); refresh(); };
    events.onerror = () => {
      say("not connected, trying again", "bad");
      if (events.readyState === EventSource.CLOSED) {
        clearTimeout(later);
        later = setTimeout(connect, 3000);
      }
    };
  };
  const look = () => {
    if (events !== null) events.close();
    clearTimeout(later);
    if (!document.hidden) connect();
  };
  document.addEventListener("visibilitychange", look);
  look();
}
