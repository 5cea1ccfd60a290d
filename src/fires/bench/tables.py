"""Tables like the paper's, ours beside the published, from a folder of results; what differs."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import rankdata

from fires.bench.cells import (
    AS_PUBLISHED,
    AUTHORS,
    DATASETS,
    METHODS,
    PROTOCOLS,
    TEST_THEN_TRAIN,
)
from fires.bench.datasets.loading import describe
from fires.bench.kdd2020 import read_runs
from fires.bench.runner import made_by, read_records
from fires.core.files import replace_file
from fires.core.output import csv_text, enumeration
from fires.core.types import Floats

QUANTITIES = ("accuracy", "milliseconds_per_step", "stability")
_PLACE = ("protocol", "dataset", "method")
_SETTING = (*_PLACE, "batch_size", "fraction", "seed")
_SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys((*_PLACE, "error"), pl.String),
    **dict.fromkeys(("batch_size", "seed", "n_rows", "rows", "diverged_at"), pl.Int64),
    **dict.fromkeys(("fraction", *QUANTITIES), pl.Float64),
    "notes": pl.List(pl.String),
}


class Summary:
    """The results in a folder.

    Of a data set and a method under one protocol, only results of the version and code of fires
    that wrote the last one count: no number is a mean over different code. Where a setting
    was run several times, the run over most rows counts, and of these the last. Of a data set and
    a method under one protocol, only the settings with the most rows count.
    """

    def __init__(self, folder: Path) -> None:
        records = [r for r in read_records(folder) if r.get("method") in METHODS]
        records = [record for record in records if not record.get("figure")]
        last = {tuple(r[name] for name in _PLACE): made_by(r) for r in records}
        self.runs = [
            run
            for run in read_runs(folder)
            if (run["versions"].get("fires"), run.get("code")) in last.values()
        ]
        counting = [r for r in records if made_by(r) == last[tuple(r[name] for name in _PLACE)]]
        frame = pl.DataFrame(counting, schema=_SCHEMA)
        frame = frame.sort("n_rows", nulls_last=True, maintain_order=True)
        frame = frame.unique(_SETTING, keep="last").sort(_SETTING)
        # Which failed is told in any case: how many rows they would have had is not known.
        rows = pl.col("rows")
        counts = (rows == rows.max().over(_PLACE)).fill_null(True)
        self.records, self._left_out = frame.filter(counts), frame.filter(~counts)
        ended = self.records.filter(pl.all_horizontal(pl.col("error", "diverged_at").is_null()))
        self._means = ended.group_by(_PLACE).agg(
            pl.mean(*QUANTITIES),
            pl.first("rows"),
            pl.col("batch_size", "fraction").drop_nulls().unique().sort(),
            n_settings=pl.len(),
        )
        # Means, rows and number of settings under (protocol, data set, method).
        self.entries: dict[Any, dict[str, Any]] = self._means.rows_by_key(
            _PLACE, named=True, unique=True
        )
        found = (self._means[name].to_list() for name in _PLACE)
        self.protocols, self.datasets, self.methods = (
            [name for name in names if name in some]
            for names, some in zip((PROTOCOLS, DATASETS, METHODS), found, strict=True)
        )

    def value(self, quantity: str, protocol: str, dataset: str, method: str) -> float | None:
        """One number of ours."""
        return self.entries.get((protocol, dataset, method), {}).get(quantity)

    def rows(self, dataset: str) -> int:
        """How many rows a data set had."""
        return int(self._means.filter(dataset=dataset)["rows"].to_numpy().max())

    def expected(self, protocol: str, method: str) -> int:
        """How many settings a method should have under a protocol, going by what was run."""
        records = self.records.filter(protocol=protocol)
        n_shares = records["fraction"].drop_nulls().n_unique()
        return records["batch_size"].n_unique() * (n_shares if METHODS[method].selects else 1)

    def n_left_out(self, protocol: str, dataset: str, method: str) -> int:
        """How many settings do not count, as others were run over more rows."""
        return len(self._left_out.filter(protocol=protocol, dataset=dataset, method=method))

    def divergences(self, protocol: str) -> dict[tuple[str, str], list[int]]:
        """Where methods ceased to be finite."""
        found = self.records.filter(protocol=protocol).drop_nulls("diverged_at")
        by = found.group_by("dataset", "method", maintain_order=True).agg("diverged_at")
        return {(dataset, method): rows for dataset, method, rows in by.iter_rows()}

    def failures(self, protocol: str) -> Iterator[tuple[str, str, str, int]]:
        """What went wrong, and how often."""
        found = self.records.filter(protocol=protocol).drop_nulls("error")
        return found.group_by("dataset", "method", "error", maintain_order=True).len().iter_rows()


# --- the numbers of the paper's tables 3 and 4 --------------------------------------------------


def _read(name: str) -> str:
    return resources.files("fires.bench").joinpath(name).read_text(encoding="utf-8")


@cache
def published() -> dict[str, Any]:
    """The tables, where they are from, how they were made, and what is odd in them."""
    content: dict[str, Any] = json.loads(_read("published.json"))
    return content


@cache
def findings() -> dict[str, Any]:
    """What is to be known about the tables, and about differences: reasons by their names."""
    return tomllib.loads(_read("reproduction.toml"))


def published_value(quantity: str, dataset: str, method: str) -> float | None:
    """A published number, as printed; None where the paper has none.

    Examples
    --------
    >>> published_value("accuracy", "Spambase", "FIRES-GLM")
    0.742
    >>> published_value("stability", "Spambase", "all features") is None
    True
    """
    name = method.removesuffix(AUTHORS)
    number: float | None = published()[quantity].get(dataset, {}).get(name)
    return number


# --- what stands below the tables: how their numbers came about, and what lacks ------------------


def protocol_notes(summary: Summary, protocol: str) -> list[str]:
    """What must be known about the means and ranks, and what is not there."""
    names = [d for d in summary.datasets if any(p[:2] == (protocol, d) for p in summary.entries)]
    facts = {"names": ", ".join(names), "machine": published()["protocol"]["machine"]}
    notes = [note.format(**facts) for note in findings()["notes"]]
    for dataset, method in product(names, summary.methods):
        lacks = _what_lacks(summary, protocol, dataset, method)
        notes += [f"{dataset}, {method}: {line}" for line in lacks]
    for (dataset, method), rows in summary.divergences(protocol).items():
        notes.append(
            f"{dataset}, {method}: its parameters ceased to be finite in {len(rows)} of "
            f"{summary.expected(protocol, method)} settings, first after row {min(rows):,}; "
            "these do not count."
        )
    for dataset, method, error, n in summary.failures(protocol):
        notes.append(f"{dataset}, {method}: failed in {n} of its settings: {error}")
    return notes


def _what_lacks(summary: Summary, protocol: str, dataset: str, method: str) -> Iterator[str]:
    """In what a number has less behind it than others have."""
    if (entry := summary.entries.get((protocol, dataset, method))) is not None:
        expected = summary.expected(protocol, method)
        if entry["n_settings"] < expected:
            sizes = enumeration(entry["batch_size"])
            shares = enumeration([f"{100 * f:g}" for f in entry["fraction"]] or [100])
            over = f"Batches of {sizes} rows, {shares} % of the features."
            yield f"a mean over {entry['n_settings']} of {expected} settings only. {over}"
        if entry["rows"] < summary.rows(dataset):
            yield f"{entry['rows']:,} rows only."
    if n := summary.n_left_out(protocol, dataset, method):
        were, do = ("setting that was", "does") if n == 1 else ("settings that were", "do")
        yield f"{n} {were} run over fewer rows than others {do} not count."


def dataset_notes(summary: Summary) -> list[str]:
    """What was done to each data set, and which were not run."""
    notes = []
    for name in summary.datasets:
        of_it = summary.records.filter(dataset=name, rows=summary.rows(name))
        reasons = of_it["notes"].explode().drop_nulls().unique(maintain_order=True)
        notes += [f"{name}: {'; '.join(reasons)}."] * bool(len(reasons))
    absent = [name for name in DATASETS if name not in summary.datasets]
    return notes + [f"Not run: {', '.join(absent)}."] * bool(absent)


NONE = "–"
_MARKS = {"l": "---", "r": "--:"}


def number(value: float | None, digits: str) -> str:
    """A number as text; a dash where there is none."""
    return NONE if value is None or math.isnan(value) else format(value, digits)


@dataclass(frozen=True)
class TextTable:
    r"""Text in rows and columns."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    sides: str
    name: str = ""
    title: str = ""

    def markdown(self) -> str:
        """The table alone, without its title."""
        marks = "|".join(_MARKS[side] for side in self.sides)
        head, *body = (
            "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |"
            for line in (self.columns, *self.rows)
        )
        return "\n".join([head, f"|{marks}|", *body])

    def csv(self) -> str:
        """Comma-separated; what is not there is empty, and every row has its name."""
        rows, name = [], ""
        for row in self.rows:
            name = row[0] or name
            rows.append([name, *("" if cell == NONE else cell for cell in row[1:])])
        return csv_text(self.columns, rows)


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
    what differs from the paper; each table is in a ``.csv`` of its own too. The
    text depends on ``cells.jsonl`` and ``runs.json`` alone.
    """
    summary = Summary(folder)
    texts = {"tables.md": markdown(summary), "reproduction.md": reproduction(summary)}
    for table in all_tables(summary):
        texts[f"{table.name}.csv"] = table.csv()
    for name, text in texts.items():
        replace_file(folder / name, text.encode())
    return [folder / name for name in texts]


def markdown(summary: Summary) -> str:
    """All tables, with what must be known to read them."""
    parts = [
        "# The experiments of FIRES (Haug et al., KDD 2020), run again",
        "\n".join(map(run_line, summary.runs))
        or "- Not in runs.json: date, command and versions are not known.",
        findings()["about_tables"],
    ]
    for protocol in summary.protocols:
        parts += [f"## {protocol}", findings()["protocols"][protocol]]
        for table in protocol_tables(summary, protocol):
            parts += [f"### {table.title}", table.markdown()]
        parts.append(_list(protocol_notes(summary, protocol)))
    parts += ["## Data sets", _dataset_table(summary).markdown(), _list(dataset_notes(summary))]
    of_methods = findings()["methods"]
    notes = [f"{name}: {of_methods[name]}." for name in summary.methods if name in of_methods]
    parts += ["## Methods", _list(notes)] * bool(notes)
    return "\n\n".join(filter(None, parts)) + "\n"


def run_line(run: dict[str, Any]) -> str:
    """How results were made."""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items())
    return (
        f"- {run['date']}: `{run['command']}`, {run['jobs']} processes of one thread each, "
        f"{run['cores']} cores, {run['machine']}; {versions}"
    )


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
    # NaN, as in all means and differences, where there is no number.
    ours, theirs = (
        np.array([[of(name, m) for m in summary.methods] for name in summary.datasets], dtype=float)
        for of in (partial(summary.value, quantity, protocol), partial(published_value, quantity))
    )
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
        once = np.where([method.endswith(AUTHORS) for method in methods], np.nan, theirs[-1])
        for name, side, means in (("rank", "ours", ours[-1]), ("", "published", once)):
            # 1 for the best; equal means share a rank, and what has no mean has none.
            ranks = rankdata(means if shown.is_duration else -means, "min", nan_policy="omit")
            rows.append([name, side, *_texts(ranks, ".0f", ".")])
    name, title = f"{shown.file}-{protocol}", f"{shown.title}, {protocol}"
    return TextTable(["data set", "", *methods], rows, "ll" + "r" * len(methods), name, title)


def _texts(values: Floats, digits: str, end: str = "") -> list[str]:
    texts = (number(value, digits) for value in values.tolist())
    return [text if text == NONE else text + end for text in texts]


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


# --- where our numbers differ from the paper's, and why, as far as that is known ----------------

TOLERANCE = 0.03
_TIME = "milliseconds_per_step"
NOT_FOUND = "not found"
_COMPARED = ("accuracy", "stability")
_HEAD = (
    "| | data set | method | ours | published | difference | reason |",
    "|---|---|---|--:|--:|--:|---|",
)

_PROTOCOL, _FEWER_ROWS, _FEWER_SETTINGS = "protocol", "fewer rows", "fewer settings"


def reproduction(summary: Summary) -> str:
    """The whole page."""
    parts = [
        "# Reproduction of the paper's tables",
        "Written by `fires bench kdd2020` together with its tables, from the same results.",
        "\n".join(f"- {run['date']}: `{run['command']}`" for run in summary.runs),
        findings()["about"].format(tolerance=TOLERANCE),
    ]
    used = {_PROTOCOL} if TEST_THEN_TRAIN in summary.protocols else set()
    for protocol in summary.protocols:
        parts += _protocol_parts(summary, protocol, used)
    parts += _time_parts(summary)
    known = findings()["reasons"]
    meanings = [f"- {one['name']}: {one['text']}" for one in known if one["name"] in used]
    parts += ["## Reasons", "\n".join(meanings)] * bool(meanings)
    return "\n\n".join(filter(None, parts)) + "\n"


def _protocol_parts(summary: Summary, protocol: str, used: set[str]) -> list[str]:
    """What is said about one protocol; the reasons that it names are added to those used."""
    n_compared, rows = 0, []
    for quantity, dataset, method in product(_COMPARED, summary.datasets, summary.methods):
        ours = summary.value(quantity, protocol, dataset, method)
        theirs = published_value(quantity, dataset, method)
        if ours is None or theirs is None:
            continue
        n_compared += 1
        if _differs(ours, theirs):
            names = reasons(summary, protocol, dataset, method)
            used.update(names)
            why = ", ".join(names) or NOT_FOUND
            if protocol != AS_PUBLISHED:
                same = summary.value(quantity, AS_PUBLISHED, dataset, method)
                why = _told_apart(ours, same, theirs, why)
            numbers = f"{ours:.3f} | {theirs:.3f} | {ours - theirs:+z.3f}"
            rows.append(f"| {quantity} | {dataset} | {method} | {numbers} | {why} |")
    lost = [
        f"{method} on {dataset}"
        for dataset, method in summary.divergences(protocol)
        if (protocol, dataset, method) not in summary.entries
    ]
    return [
        f"## {protocol}",
        f"{n_compared - len(rows)} of {n_compared} numbers are within {TOLERANCE} of the "
        f"published, {len(rows)} are not.",
        "\n".join([*_HEAD, *rows]) if rows else "",
        f"Without a number, as parameters ceased to be finite in every setting: {', '.join(lost)}."
        if lost
        else "",
    ]


def _time_parts(summary: Summary) -> list[str]:
    """The time of a batch beside the paper's, over the data sets that have both."""
    rows = []
    for method in summary.methods:
        found = [
            (summary.value(_TIME, AS_PUBLISHED, name, method), published_value(_TIME, name, method))
            for name in summary.datasets
        ]
        both = np.array([pair for pair in found if None not in pair], dtype=float)
        if len(both):
            ours, theirs = both.mean(axis=0)
            ratio = np.exp(np.log(both[:, 1] / both[:, 0]).mean())
            numbers = (f"{len(both)}", f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.1f}")
            rows.append([method, *numbers])
    columns = ["method", "data sets", "ours", "published", "published / ours"]
    told = findings()["time"].format(machine=published()["protocol"]["machine"])
    return ["## Time", told, TextTable(columns, rows, "lrrrr").markdown()] * bool(rows)


def _differs(ours: float, theirs: float) -> bool:
    """As both are printed: the published number has three digits."""
    return round(abs(ours - theirs), 3) > TOLERANCE


def _told_apart(ours: float, same: float | None, theirs: float, why: str) -> str:
    """What the protocol makes of a number, and the rest, which has the reasons as published."""
    if same is None:
        return f"{_PROTOCOL}, {why}"
    rest = f"{same - theirs:+z.3f} as published"
    known = f" ({why})" if _differs(same, theirs) else ""
    return f"{ours - same:+z.3f} by the protocol, {rest}{known}"


def reasons(summary: Summary, protocol: str, dataset: str, method: str) -> list[str]:
    """What is known to set the numbers of a method apart from the published ones."""
    entry = summary.entries[protocol, dataset, method]
    paper = published()["protocol"]
    n_fractions = len(paper["fractions"]) if METHODS[method].selects else 1
    found = {
        _FEWER_ROWS: entry["rows"] < describe(dataset).n_rows,
        _FEWER_SETTINGS: entry["n_settings"] < len(paper["batch_sizes"]) * n_fractions,
    }
    for one in findings()["reasons"]:
        of_it = method in one.get("methods", METHODS) and dataset in one.get("datasets", DATASETS)
        found.setdefault(one["name"], of_it)
    return [name for name, holds in found.items() if holds]
