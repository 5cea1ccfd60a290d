"""What the cells of a folder come to: means over the settings, for each data set and method."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
from fires.bench.kdd2020 import read_runs
from fires.bench.runner import made_by, read_records

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

    Only results of the version and code of fires that wrote the last one count. Where a setting
    was run several times, the run over most rows counts, and of these the last. Of a data set and
    a method under one protocol, only the settings with the most rows count.
    """

    def __init__(self, folder: Path) -> None:
        records = [r for r in read_records(folder) if r.get("method") in METHODS]
        last = made_by(records[-1]) if records else None
        self.runs = [
            run
            for run in read_runs(folder)
            if (run["versions"].get("fires"), run.get("code")) == last
        ]
        frame = pl.DataFrame([r for r in records if made_by(r) == last], schema=_SCHEMA)
        frame = frame.sort("n_rows", nulls_last=True, maintain_order=True)
        frame = frame.unique(_SETTING, keep="last").sort(_SETTING)
        # Which failed is told in any case: how many rows they would have had is not known.
        rows = pl.col("rows")
        counts = (rows == rows.max().over(_PLACE)).fill_null(True)
        self.records, self._left_out = frame.filter(counts), frame.filter(~counts)
        ended = self.records.filter(pl.all_horizontal(pl.col("error", "diverged_at").is_null()))
        self._means = ended.group_by(_PLACE).agg(
            pl.mean(*QUANTITIES), pl.first("rows"), n_settings=pl.len()
        )
        self.entries: dict[Any, dict[str, Any]] = self._means.rows_by_key(
            _PLACE, named=True, unique=True
        )
        """Means, rows and number of settings under (protocol, data set, method)."""
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
    number: float | None = published()[quantity].get(dataset, {}).get(method)
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
            f"{summary.expected(protocol, method)} settings, first behind row {min(rows):,}; "
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
            yield f"a mean over {entry['n_settings']} of {expected} settings only."
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
