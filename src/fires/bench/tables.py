"""Tables like the paper's, ours beside the published, from a folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from fires.bench import published, reproduction
from fires.bench.cells import METHODS
from fires.bench.datasets.loading import describe
from fires.bench.notes import dataset_notes, protocol_notes
from fires.bench.protocols import PROTOCOLS
from fires.bench.summary import Summary, mean
from fires.bench.text_table import NONE, TextTable, number
from fires.core.state import replace_file


class _Quantity(NamedTuple):
    """How a quantity of the paper is shown."""

    file: str
    title: str
    digits: str = ".3f"
    # Other machines, other libraries: two times side by side, and nothing to subtract.
    is_time: bool = False


_QUANTITIES = {
    "accuracy": _Quantity("accuracy", "Accuracy"),
    "milliseconds_per_step": _Quantity(
        "time", "Milliseconds per step, to select and to train", ".2f", is_time=True
    ),
    "stability": _Quantity("stability", "Stability, over windows of 10 steps"),
}


def write(folder: Path) -> list[Path]:
    """Write all tables of a folder that :func:`fires.bench.runner.run_cells` filled.

    ``tables.md`` has all of them with what must be known to read them, and ``reproduction.md``
    what differs from the paper; each table is in a ``.csv`` and a ``.tex`` of its own too. The
    text depends on ``cells.jsonl`` and ``runs.json`` alone.

    Parameters
    ----------
    folder : Path
        Where the results are, and the tables go.

    Returns
    -------
    list of Path
        What was written.
    """
    summary = Summary(folder)
    texts = {"tables.md": markdown(summary), "reproduction.md": reproduction.text(summary)}
    for table in all_tables(summary):
        texts |= {f"{table.name}.csv": table.csv(), f"{table.name}.tex": table.latex() + "\n"}
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in texts]


def markdown(summary: Summary) -> str:
    """All tables, with what must be known to read them.

    Parameters
    ----------
    summary : Summary
        The results.

    Returns
    -------
    str
        A page.
    """
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
    """Every table there is.

    Parameters
    ----------
    summary : Summary
        The results.

    Returns
    -------
    list of TextTable
        The data sets, then those of each protocol.
    """
    found = (protocol_tables(summary, protocol) for protocol in summary.protocols)
    return [_dataset_table(summary), *(table for tables in found for table in tables)]


def protocol_tables(summary: Summary, protocol: str) -> list[TextTable]:
    """Accuracy, time and stability under one protocol.

    Parameters
    ----------
    summary : Summary
        The results.
    protocol : str
        One of those that the results have.

    Returns
    -------
    list of TextTable
        Without those that would be empty.
    """
    tables = [_quantity_table(summary, protocol, name) for name in _QUANTITIES]
    return [table for table in tables if table.rows]


_Numbers = dict[str, float | None]


def _quantity_table(summary: Summary, protocol: str, quantity: str) -> TextTable:
    """For each data set ours, the published and the difference, one column for each method."""
    shown = _QUANTITIES[quantity]
    of_all = {
        dataset: {m: summary.value(quantity, protocol, dataset, m) for m in summary.methods}
        for dataset in summary.datasets
    }
    defined = {name: {m for m, v in of_all[name].items() if v is not None} for name in of_all}
    names = [name for name in of_all if defined[name]]
    methods = [m for m in summary.methods if any(m in known for known in defined.values())]
    rows: list[list[str]] = []
    if names:
        ours = [{m: of_all[name][m] for m in methods} for name in names]
        theirs = [{m: published.value(quantity, name, m) for m in methods} for name in names]
        for side in (ours, theirs):
            side.append({m: _full_mean([numbers[m] for numbers in side]) for m in methods})
        for name, our, their in zip([*names, "mean"], ours, theirs, strict=True):
            rows += _block(name, our, their, shown)
        rows += [
            ["rank", "ours", *_ranks(ours[-1], shown)],
            ["", "published", *_ranks(theirs[-1], shown)],
        ]
    return TextTable(
        ["data set", "", *methods],
        rows,
        "ll" + "r" * len(methods),
        name=f"{shown.file}-{protocol}",
        title=f"{shown.title}, {protocol}",
    )


def _full_mean(values: Sequence[float | None]) -> float | None:
    """Over all of these data sets; a mean over some of them could not be compared."""
    return None if None in values else mean(values)


def _block(name: str, ours: _Numbers, theirs: _Numbers, shown: _Quantity) -> list[list[str]]:
    """The lines of one data set."""
    rows = [
        [name, "ours", *(number(value, shown.digits) for value in ours.values())],
        ["", "published", *(number(value, shown.digits) for value in theirs.values())],
    ]
    if not shown.is_time:
        gaps = (
            None if our is None or their is None else our - their
            for our, their in zip(ours.values(), theirs.values(), strict=True)
        )
        rows.append(["", "difference", *(number(gap, f"+z{shown.digits}") for gap in gaps)])
    return rows


def _ranks(means: _Numbers, shown: _Quantity) -> list[str]:
    """1 for the best; equal means share a rank, and what has no mean has none."""
    sign = 1 if shown.is_time else -1
    known = [sign * value for value in means.values() if value is not None]
    return [
        NONE if value is None else f"{1 + sum(other < sign * value for other in known)}."
        for value in means.values()
    ]


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
