"""Tables like the paper's, ours beside the published, from a folder of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fires.bench import published, reproduction
from fires.bench.cells import METHODS
from fires.bench.datasets.loading import describe
from fires.bench.notes import dataset_notes, protocol_notes
from fires.bench.protocols import PROTOCOLS
from fires.bench.summary import Summary
from fires.bench.text_table import NONE, TextTable, number
from fires.core.belief import Floats
from fires.core.files import replace_file


class _Quantity(NamedTuple):
    """How a quantity of the paper is shown."""

    file: str
    title: str
    digits: str = ".3f"
    # Other machines, other libraries: two times side by side, and nothing to subtract.
    is_duration: bool = False


_QUANTITIES = {
    "accuracy": _Quantity("accuracy", "Accuracy"),
    "milliseconds_per_step": _Quantity(
        "time", "Milliseconds per step, to select and to train", ".2f", is_duration=True
    ),
    "stability": _Quantity("stability", "Stability, over windows of 10 steps"),
}


def write(folder: Path) -> list[Path]:
    """Write all tables of a folder that :func:`fires.bench.runner.run_cells` filled.

    ``tables.md`` has all of them with what must be known to read them, and ``reproduction.md``
    what differs from the paper; each table is in a ``.csv`` and a ``.tex`` of its own too. The
    text depends on ``cells.jsonl`` and ``runs.json`` alone.
    """
    summary = Summary(folder)
    texts = {"tables.md": markdown(summary), "reproduction.md": reproduction.text(summary)}
    for table in all_tables(summary):
        texts |= {f"{table.name}.csv": table.csv(), f"{table.name}.tex": table.latex() + "\n"}
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in texts]


def markdown(summary: Summary) -> str:
    """All tables, with what must be known to read them."""
    parts = [
        "# The experiments of FIRES (Haug et al., KDD 2020), run again",
        "\n".join(_run_lines(summary)),
        "Beside ours stand the numbers that the paper prints in its tables 3 and 4. Each number "
        "is a mean over the batch sizes and the fractions of selected features that were run, "
        f"{NONE} means that there is none. Differences are ours less the published.",
    ]
    for protocol in summary.protocols:
        parts += [f"## {protocol}", PROTOCOLS[protocol].about]
        for table in protocol_tables(summary, protocol):
            parts += [f"### {table.title}", table.markdown()]
        parts.append(_list(protocol_notes(summary, protocol)))
    parts += ["## Data sets", _dataset_table(summary).markdown(), _list(dataset_notes(summary))]
    notes = [f"{name}: {METHODS[name].note}." for name in summary.methods if METHODS[name].note]
    parts += ["## Methods", _list(notes)] * bool(notes)
    return "\n\n".join(filter(None, parts)) + "\n"


def _run_lines(summary: Summary) -> list[str]:
    """How the results were made, one line for each command."""
    lines = [
        f"- {run['date']}: `{run['command']}`, {run['jobs']} processes of one thread each, "
        f"{run['cores']} cores, {run['machine']}; "
        + ", ".join(f"{name} {version}" for name, version in run["versions"].items())
        for run in summary.runs
    ]
    return lines or ["- Not in runs.json: date, command and versions are not known."]


def all_tables(summary: Summary) -> list[TextTable]:
    """Every table there is."""
    found = (protocol_tables(summary, protocol) for protocol in summary.protocols)
    return [_dataset_table(summary), *(table for tables in found for table in tables)]


def protocol_tables(summary: Summary, protocol: str) -> list[TextTable]:
    """Accuracy, time and stability under one protocol."""
    tables = [_quantity_table(summary, protocol, name) for name in _QUANTITIES]
    return [table for table in tables if table.rows]


def _quantity_table(summary: Summary, protocol: str, quantity: str) -> TextTable:
    """For each data set ours, the published and the difference, one column for each method."""
    shown = _QUANTITIES[quantity]
    ours = _matrix(summary, partial(summary.value, quantity, protocol))
    theirs = _matrix(summary, partial(published.value, quantity))
    lines, columns = map(np.unique, np.nonzero(~np.isnan(ours)))
    names = [summary.datasets[line] for line in lines]
    methods = [summary.methods[column] for column in columns]
    rows: list[list[str]] = []
    if names:
        part = np.ix_(lines, columns)
        ours, theirs = (np.vstack([side[part], side[part].mean(axis=0)]) for side in (ours, theirs))
        for name, our, their in zip([*names, "mean"], ours, theirs, strict=True):
            rows.append([name, "ours", *_texts(our, shown.digits)])
            rows.append(["", "published", *_texts(their, shown.digits)])
            if not shown.is_duration:
                rows.append(["", "difference", *_texts(our - their, f"+z{shown.digits}")])
        rows.append(["rank", "ours", *_ranks(ours[-1], shown)])
        rows.append(["", "published", *_ranks(theirs[-1], shown)])
    return TextTable(
        ["data set", "", *methods],
        rows,
        "ll" + "r" * len(methods),
        name=f"{shown.file}-{protocol}",
        title=f"{shown.title}, {protocol}",
    )


def _matrix(summary: Summary, value: Callable[[str, str], float | None]) -> Floats:
    """A number for each data set and method; NaN, as in all means and differences, for none."""
    numbers = [[value(name, method) for method in summary.methods] for name in summary.datasets]
    return np.array(numbers, dtype=np.float64)


def _texts(values: Floats, digits: str) -> list[str]:
    return [number(value, digits) for value in values.tolist()]


def _ranks(means: Floats, shown: _Quantity) -> list[str]:
    """1 for the best; equal means share a rank, and what has no mean has none."""
    worse = np.less if shown.is_duration else np.greater
    places = 1 + worse.outer(means, means).sum(axis=0)
    return [NONE if isnan(mean) else f"{place}." for mean, place in zip(means, places, strict=True)]


def _dataset_table(summary: Summary) -> TextTable:
    """What the data sets are, here and in the paper."""
    columns = ["data set", "types", "positive class", "source", "licence"]
    columns += ["rows", "rows in the paper", "features"]
    rows = []
    for name in summary.datasets:
        info = describe(name)
        sizes = (summary.rows(name), info.n_rows, info.n_features)
        words = (name, info.kinds, str(info.positive), info.source, info.licence)
        rows.append([*words, *(f"{size:,}" for size in sizes)])
    return TextTable(columns, rows, "lllllrrr", "datasets", "Data sets")


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
