"""The field as tables and a picture, from the records of :mod:`fires.bench.field`."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t as student

from fires.bench import drawing, field
from fires.bench.kdd2020 import read_runs
from fires.bench.runner import made_by, read_records
from fires.bench.tables import NONE, TextTable, findings, number, run_line
from fires.core.files import replace_file
from fires.core.types import Floats
from fires.report import figures as report_figures

CELLS, PAGE, PICTURE = "field.jsonl", "leaderboard.md", "leaderboard"
FEWEST = 3  # differences that make an interval


class Quantity(NamedTuple):
    """How a quantity is shown; those with ratios are compared by their logarithm."""

    title: str
    digits: str = ".3f"
    sign: int = 1
    ratio: bool = False

    def text(self, value: float) -> str:
        """A value, as it is compared, in the form that tables have."""
        return number(math.exp(value) if self.ratio else value, self.digits)


QUANTITIES = {
    "linear": Quantity("accuracy, linear"),
    "tree": Quantity("accuracy, tree"),
    "recall": Quantity("recall"),
    "rows": Quantity("rows to recover", ",.0f", -1),
    "stability": Quantity("stability"),
    "perturbed": Quantity("stability under noise"),
    "milliseconds": Quantity("milliseconds per batch", ".2f", -1, ratio=True),
}


class Leaderboard:
    """The results in a folder; those of the code of fires that wrote the last one count."""

    def __init__(self, folder: Path) -> None:
        records = [r for r in read_records(folder, CELLS) if "error" not in r]
        last = made_by(records[-1]) if records else None
        self.cells = {(r["dataset"], r["method"]): r for r in records if made_by(r) == last}
        self.runs = [r for r in read_runs(folder) if r.get("code") == (last or [None])[-1]]
        streams, methods = ({key[i] for key in self.cells} for i in range(2))
        known = [*field.STREAMS, *field.DATASETS]
        self.streams = [name for name in known if name in streams]
        self.methods = [name for name in field.methods() if name in methods]
        self.overall = cache(self._overall)
        self.methods.sort(
            key=lambda name: -np.nan_to_num(self.overall("linear", name).value, nan=-1)
        )

    def values(self, quantity: str, stream: str, method: str) -> Floats:
        """What each seed gave, as it is compared; empty if there is nothing."""
        found = self.cells.get((stream, method), {}).get("values", {}).get(quantity, ())
        values = np.array(found, dtype=np.float64)
        if QUANTITIES[quantity].ratio and len(values):
            values = np.log([values.min()])
        return values

    def difference(self, quantity: str, stream: str, method: str) -> Floats:
        """What each seed gave, less what it gave the reference."""
        ours, theirs = (self.values(quantity, stream, m) for m in (method, field.REFERENCE))
        return ours - theirs if len(ours) == len(theirs) else ours[:0]

    def _overall(self, quantity: str, method: str) -> Overall:
        """The mean over streams, by way of the reference."""
        reference = [self.values(quantity, stream, field.REFERENCE) for stream in self.streams]
        level = [values.mean() for values in reference if len(values)]
        paired = [self.difference(quantity, stream, method) for stream in self.streams]
        gaps = np.array([gap.mean() for gap in paired if len(gap)])
        if not len(gaps):
            return Overall(math.nan, math.nan, math.nan)
        return Overall(float(np.mean(level) + gaps.mean()), float(gaps.mean()), half_width(gaps))


class Overall(NamedTuple):
    """The level of a method over all streams, its mean difference and half of its interval."""

    value: float
    difference: float
    half: float

    def text(self, shown: Quantity, *, reference: bool) -> str:
        """As a table has it."""
        value, gap, half = self
        text = shown.text(value)
        if reference or math.isnan(value):
            return text
        if not shown.ratio:
            around = "" if math.isnan(half) else f" ± {half:{shown.digits}}"
            return f"{text} ({gap:+z{shown.digits}}{around})"
        ends = (0.0,) if math.isnan(half) else (-half, half)
        return f"{text} ({'–'.join(f'×{math.exp(gap + end):.2g}' for end in ends)})"


def half_width(differences: Floats) -> float:
    """Half of the 95 % interval of their mean; NaN if they are few.

    Examples
    --------
    >>> round(half_width(np.array([1.0, 2.0, 3.0])), 3)
    2.484
    """
    n = len(differences)
    if n < FEWEST:
        return math.nan
    return float(student.ppf(0.975, n - 1) * differences.std(ddof=1) / math.sqrt(n))


def overall_table(found: Leaderboard) -> TextTable:
    """One line for each method, over all streams."""
    rows = []
    for method in found.methods:
        is_reference = method == field.REFERENCE
        texts = [
            found.overall(name, method).text(shown, reference=is_reference)
            for name, shown in QUANTITIES.items()
        ]
        n = sum("values" in found.cells.get((stream, method), {}) for stream in found.streams)
        rows.append([method, *texts, f"{n} of {len(found.streams)}"])
    titles = ["method", *(shown.title for shown in QUANTITIES.values()), "streams"]
    return TextTable(titles, rows, "l" + "r" * (len(titles) - 1), "overall", "Overall")


def quantity_table(found: Leaderboard, name: str) -> TextTable:
    """One line for each method and one column for each stream that has the quantity."""
    of_it = {key[0] for key, cell in found.cells.items() if name in cell.get("values", {})}
    streams = [stream for stream in found.streams if stream in of_it]
    rows = [[m, *(_entry(found, name, stream, m) for stream in streams)] for m in found.methods]
    sides, title = "l" + "r" * len(streams), QUANTITIES[name].title
    return TextTable(["method", *streams], rows, sides, name, title[0].upper() + title[1:])


def _entry(found: Leaderboard, name: str, stream: str, method: str) -> str:
    shown, values = QUANTITIES[name], found.values(name, stream, method)
    if not len(values):
        return str(found.cells.get((stream, method), {}).get("missing", NONE))
    gaps = shown.sign * found.difference(name, stream, method)
    clear = len(gaps) >= FEWEST and abs(gaps.mean()) > half_width(gaps)
    mark = "" if not clear else " ▲" if gaps.mean() > 0.0 else " ▼"
    return shown.text(values.mean()) + mark


def page(found: Leaderboard) -> str:
    """All tables, with what must be known to read them."""
    facts = {"recovered": field.RECOVERED, "noise": field.NOISE, "reference": field.REFERENCE}
    told = {name: text.format(**facts) for name, text in findings()["field"].items()}
    parts = ["# The field", "\n".join(map(run_line, found.runs)), told["about"]]
    parts += ["## Overall", overall_table(found).markdown(), told["overall"]]
    parts += [f"![Accuracy against stability]({PICTURE}.png)", "## Stream by stream", told["each"]]
    for name in QUANTITIES:
        table = quantity_table(found, name)
        parts += [f"### {table.title}", table.markdown()] * (len(table.columns) > 1)
    failed = [(key, cell["why"]) for key, cell in found.cells.items() if "why" in cell]
    reasons = [f"- {', '.join(key)}: {why}" for key, why in failed]
    parts += ["### Failed", "\n".join(reasons)] * bool(reasons)
    return "\n\n".join(filter(None, parts)) + "\n"


def write(folder: Path) -> list[Path]:
    """Write the page of a folder, and draw the picture; it needs matplotlib."""
    found = Leaderboard(folder)
    replace_file(folder / PAGE, page(found).encode())
    return [folder / PAGE, *report_figures.save(picture(found), folder, PICTURE)]


def picture(found: Leaderboard) -> Any:
    """Accuracy of both predictors against stability; the area of a circle is the cost."""
    cost = {method: found.overall("milliseconds", method).value for method in found.methods}
    panels = {
        f"{QUANTITIES[name].title} predictor": {
            method: (x, found.overall(name, method).value, math.exp(cost[method]))
            for method in found.methods
            if not math.isnan(x := found.overall("stability", method).value)
        }
        for name in ("linear", "tree")
    }
    n_seeds = max((cell["seeds"] for cell in found.cells.values()), default=0)
    return drawing.field(panels, f"means over {len(found.streams)} streams, {n_seeds} seeds each")
