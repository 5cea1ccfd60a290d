"""The figures of the paper: which runs they need, and drawn from the runs that a folder keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING

from fires.bench import drawing
from fires.bench.cells import AS_PUBLISHED, DIGITS, METHODS, PROTOCOLS, Cell, Run
from fires.bench.datasets import loading as datasets
from fires.bench.drawing import LOOKS, Pixels
from fires.bench.runner import CELLS, made_by, read_records
from fires.bench.worker import Record
from fires.core.files import make_folder
from fires.core.optional import require
from fires.core.output import enumeration
from fires.report import figures as report_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = "figures"
BATCH_SIZE, FRACTION, QUICK_ROWS = 100, 0.1, 3_000
# Three of the paper's figures are of Gisette; the others stand in for it, in this order.
SOURCES = ("Gisette", "MNIST", "Madelon")
DIGIT_ROWS, DIGIT_FRACTION = 1_000, 0.147  # M = 115 of 784 pixels
DIGIT_METHODS = ("FIRES-GLM", "FIRES-ANN", "OFS", "EFS", "FSDS")
UNCERTAINTY_PENALTIES = tuple(10.0**power for power in range(-4, 5))


def plan(
    names: Sequence[str],
    methods: Sequence[str],
    protocols: Iterable[str] = PROTOCOLS,
    *,
    quick: bool = False,
) -> tuple[list[Cell], list[str]]:
    """The runs that the figures need, and one line for each thing that will be missing.

    Discriminative features are those of MNIST's digits. The other figures are of Gisette or, where
    that is not here as a whole, of MNIST, or else of Madelon.
    """
    if AS_PUBLISHED not in protocols:
        return [], ["figures: they follow the paper's protocol, as-published"]
    sources = enumeration(SOURCES, "or")
    if not set(SOURCES) & set(names):
        return [], [f"figures: they are of {sources}"]
    cell = Cell("MNIST", "FIRES-GLM", BATCH_SIZE, DIGIT_FRACTION, n_rows=DIGIT_ROWS, figure=True)
    digits = [
        replace(cell, method=method, digit=digit)
        for digit, method in product(DIGITS, DIGIT_METHODS)
        if "MNIST" in names and method in methods
    ]
    source = next((name for name in SOURCES if name in names and _is_whole(name)), None)
    n_rows, shown = QUICK_ROWS if quick else None, methods if source else ()
    cell = replace(cell, dataset=source or "", fraction=FRACTION, n_rows=n_rows)
    lines = [
        replace(cell, method=m, fraction=FRACTION if METHODS[m].selects else None)
        for m in LOOKS
        if m in shown
    ]
    penalties = [replace(cell, penalty=p) for p in UNCERTAINTY_PENALTIES if "FIRES-GLM" in shown]
    whole = f"{sources} as a whole, and of"
    of_digits, of_lines = (enumeration(some, "or") for some in (DIGIT_METHODS, LOOKS))
    told = [
        (not digits, f"discriminative-features: it is of MNIST, and of {of_digits}"),
        (not lines, f"over-time and accuracy-stability: they are of {whole} {of_lines}"),
        (not penalties, f"uncertainty-penalty: it is of {whole} FIRES-GLM"),
    ]
    if lines and source != "Gisette" and "Gisette" in names:
        told.append((True, f"figures of Gisette, of which a part is missing: {source} stands in"))
    return [*digits, *lines, *penalties], [line for is_missing, line in told if is_missing]


def draw(folder: Path) -> tuple[list[Path], list[str]]:
    """Draw all figures for which a folder keeps runs, into ``figures`` within, as PNG and SVG.

    Gives the files, and one line for each thing that they do not show.

    Only runs of the version and code of fires that made the last one count. Where data sets or
    numbers of rows differ, the paper's data set counts, or what comes next to it, and the most
    rows.
    """
    require("matplotlib", "drawing figures", "plot")
    kept = [r for r in read_records(folder) if r.get("figure") and "error" not in r]
    kept = [record for record in kept if made_by(record) == made_by(kept[-1])]
    if not kept:
        return [], [f"figures: there are no runs for them in {folder / CELLS}"]

    left_out: list[str] = []
    files: list[Path] = []
    for name, figure in chain(_of_digits(kept, left_out), _of_one_stream(kept)):
        make_folder(folder / FOLDER)
        files += report_figures.save(figure, folder / FOLDER, name)
    return files, left_out


def _is_whole(name: str) -> bool:
    try:
        return datasets.load(name, n_rows=1).complete
    except datasets.DataUnavailable:
        return False


def _of_digits(records: Sequence[Record], left_out: list[str]) -> Iterator[tuple[str, Figure]]:
    """The figure of the pixels that each method selects; which methods are missing is noted."""
    pixels, means = {}, []
    for method in DIGIT_METHODS:
        of_it = {r["digit"]: r for r in records if r["method"] == method and r["digit"] in DIGITS}
        if len(of_it) < len(DIGITS):
            continue
        if ends := [r["diverged_at"] for r in of_it.values() if "diverged_at" in r]:
            why = f"it ceased to be finite after row {min(ends):,}"
            left_out.append(f"{method} in discriminative-features: {why}")
            continue
        means = [of_it[digit]["means"] for digit in DIGITS]
        pixels[method] = [Pixels(of_it[d]["weights"], of_it[d]["selected"]) for d in DIGITS]
    n_pixels = 28 * 28
    settings = (
        f"MNIST, rows labelled {', '.join(map(str, DIGITS[:-1]))} or {DIGITS[-1]}, each digit "
        f"against the others\nthe first {DIGIT_ROWS:,} rows in batches of {BATCH_SIZE}, scaled as "
        f"published; {int(DIGIT_FRACTION * n_pixels)} of {n_pixels} pixels selected"
    )
    if pixels:
        figure = drawing.discriminative_features(pixels, means, settings)
        yield "discriminative-features", figure


def _of_one_stream(records: Sequence[Record]) -> Iterator[tuple[str, Figure]]:
    """The figures of what was run over one stream: methods, and FIRES-GLM with penalties."""
    records = [r for r in records if r["digit"] is None and r["dataset"] in SOURCES]
    if not records:
        return
    first = min(records, key=lambda r: (SOURCES.index(r["dataset"]), -r["rows"]))
    name, rows = first["dataset"], first["rows"]
    records = [r for r in records if (r["dataset"], r["rows"]) == (name, rows)]
    runs = {(r["method"], r["penalty"]): Run.from_record(r) for r in records}
    effect = {penalty: run for (_, penalty), run in runs.items() if penalty is not None}
    info = datasets.describe(name)
    task = f", {info.positive} against the rest" if info.one_against_rest else ""
    why = "" if name == "Gisette" else " (in place of the paper's Gisette)"
    settings = (
        f"{name}{task}, {rows:,} rows{why}\nbatches of {BATCH_SIZE}, {FRACTION:.0%} of the "
        "features, order and scaling as published"
    )
    lines = {method: runs[method, None] for method in LOOKS if (method, None) in runs}
    if lines:
        shown = lines, settings, first["majority"]
        yield "over-time", drawing.over_time(*shown)
        yield "accuracy-stability", drawing.accuracy_against_stability(*shown)
    if effect:
        yield (
            "uncertainty-penalty",
            drawing.effect_of_penalty(dict(sorted(effect.items())), settings),
        )
