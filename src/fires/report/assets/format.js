// Numbers as people read them. A true minus sign, so that columns of figures align.

const MINUS = "\u2212";

function short(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size >= 1e6 || size < 1e-4
    ? size.toExponential(Math.max(0, digits - 2)).replace("e+", "e").replace("e-", `e${MINUS}`)
    : String(Number(size.toPrecision(digits)));
  return (value < 0 ? MINUS : "") + text;
}

// With a fixed number of decimals, for columns.
function fixed(value, decimals = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "\u2013";
  const text = Math.abs(value).toFixed(decimals);
  return (value < 0 && Number(text) !== 0 ? MINUS : "") + text;
}

// As many decimals as tell values apart that lie so far from each other.
function decimalsFor(room, least) {
  return Math.max(least, Math.min(8, 2 - Math.floor(Math.log10(room || 1))));
}

// A score: a share with three decimals, an error with four digits.
function scored(value) {
  const size = Math.abs(value ?? 0);
  return size < 10 ? fixed(value) : size < 1e4 || size >= 1e6 ? short(value) : whole(value);
}

function whole(value) {
  return value === null || value === undefined ? "\u2013" : Math.round(value).toLocaleString("en-US");
}

// A number of rows: 950, 12.4 k, 1.2 M.
function rows(value) {
  if (value === null || value === undefined) return "\u2013";
  for (const [size, sign] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (value >= size) return `${Number((value / (sign === "k" ? 1e3 : size)).toPrecision(3))} ${sign}`;
  }
  return whole(value);
}

function percent(share, decimals = 0) {
  if (share === null || share === undefined) return "\u2013";
  return `${(100 * share).toFixed(decimals)} %`;
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "\u2013";
  if (seconds < 1e-3) return `${short(seconds * 1e6, 2)} \u00b5s`;
  if (seconds < 1) return `${short(seconds * 1e3, 2)} ms`;
  if (seconds < 120) return `${short(seconds, 2)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${short(seconds / 3600, 3)} h`;
}

function moment(iso) {
  if (!iso) return "\u2013";
  const at = new Date(iso);
  if (Number.isNaN(at.getTime())) return iso;
  return at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

function plural(count, one, many = `${one}s`) {
  return `${whole(count)} ${count === 1 ? one : many}`;
}

const SCORES = { accuracy: "accuracy", balanced_accuracy: "balanced accuracy", r2: "R\u00b2", mae: "mean absolute error", f1: "F1" };
const SOURCES = { selected: "selected features", all: "all features", majority: "most common class", mean: "mean of the target" };
