"""What the cells of a folder come to: means over the settings, for each data set and method."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from itertools import groupby, product
from pathlib import Path
from typing import Any

from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
from fires.bench.kdd2020 import read_runs
from fires.bench.runner import made_by, read_records
from fires.bench.worker import Record
from fires.evaluation.records import defined_mean, number_or_none

QUANTITIES = ("accuracy", "milliseconds_per_step", "stability")
Place = tuple[str, str, str]  # protocol, data set, method


@dataclass(frozen=True)
class Entry:
    """A data set and a method under one protocol."""

    values: Mapping[str, float | None]
    n_settings: int
    rows: int


class Summary:
    """The results in a folder.

    Only results of the version and code of fires that wrote the last one count. Where a setting
    was run several times, the run over most rows counts, and of these the last. Of a data set and
    a method under one protocol, only the settings with the most rows count.
    """

    def __init__(self, folder: Path) -> None:
        records = [r for r in read_records(folder) if r.get("method") in METHODS]
        last = made_by(records[-1]) if records else None
        self.runs = [run for run in read_runs(folder) if _code_of(run) == last]
        self.records, self.left_out = _that_count(r for r in records if made_by(r) == last)

    @cached_property
    def entries(self) -> dict[Place, Entry]:
        """What there is under (protocol, data set, method)."""
        ended = [record for record in self.records if not record.keys() & {"error", "diverged_at"}]
        return {place: _entry(list(found)) for place, found in groupby(ended, key=_place)}

    @cached_property
    def _found(self) -> list[set[str]]:
        """The protocols, the data sets and the methods with results."""
        return [set(names) for names in zip(*self.entries, strict=True)] or [set()] * 3

    @property
    def protocols(self) -> list[str]:
        """Those with results, in order."""
        return [name for name in PROTOCOLS if name in self._found[0]]

    @property
    def datasets(self) -> list[str]:
        """Those with results, in the paper's order."""
        return [name for name in DATASETS if name in self._found[1]]

    @property
    def methods(self) -> list[str]:
        """Those with results, in the paper's order."""
        return [name for name in METHODS if name in self._found[2]]

    def value(self, quantity: str, protocol: str, dataset: str, method: str) -> float | None:
        """One number of ours."""
        entry = self.entries.get((protocol, dataset, method))
        return None if entry is None else entry.values[quantity]

    def rows(self, dataset: str) -> int:
        """How many rows a data set had."""
        return max(entry.rows for place, entry in self.entries.items() if place[1] == dataset)

    def expected(self, protocol: str, method: str) -> int:
        """How many settings a method should have under a protocol, going by what was run."""
        records = self._under(protocol)
        sizes = {record["batch_size"] for record in records}
        shares = {record["fraction"] for record in records} - {None}
        return len(sizes) * (len(shares) if METHODS[method].selects else 1)

    def n_left_out(self, protocol: str, dataset: str, method: str) -> int:
        """How many settings do not count, as others were run over more rows."""
        return sum(_place(record) == (protocol, dataset, method) for record in self.left_out)

    def divergences(self, protocol: str) -> dict[tuple[str, str], list[int]]:
        """Where methods ceased to be finite."""
        found = groupby(self._under(protocol, "diverged_at"), key=_place)
        return {place[1:]: [r["diverged_at"] for r in records] for place, records in found}

    def failures(self, protocol: str) -> Counter[tuple[str, str, str]]:
        """What went wrong."""
        records = self._under(protocol, "error")
        return Counter((r["dataset"], r["method"], r["error"]) for r in records)

    def _under(self, protocol: str, *having: str) -> list[Record]:
        """The records of a protocol that have these entries."""
        of_it = (record for record in self.records if record["protocol"] == protocol)
        return [record for record in of_it if record.keys() >= set(having)]


def _place(record: Record) -> Place:
    return record["protocol"], record["dataset"], record["method"]


def _code_of(run: Mapping[str, Any]) -> tuple[str | None, str | None]:
    return run["versions"].get("fires"), run.get("code")


def _that_count(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """One record for each setting, in the order of the settings and not of the file.

    Apart from these, those of settings that were run over fewer rows than others of their place.
    Which failed is told in any case: how many rows they would have had is not known.
    """
    # The sort is stable: of several records of a setting, the last that it puts there stays.
    by_rows = sorted(records, key=lambda record: record["n_rows"] or math.inf)
    best = {_setting(record): record for record in by_rows}
    count, do_not = list[Record](), list[Record]()
    for _, found in groupby((best[setting] for setting in sorted(best)), key=_place):
        of_place = list(found)
        most = max(record.get("rows", 0) for record in of_place)
        count += [record for record in of_place if record.get("rows", most) == most]
        do_not += [record for record in of_place if record.get("rows", most) < most]
    return count, do_not


def _entry(records: list[Record]) -> Entry:
    values = {name: [record[name] for record in records] for name in QUANTITIES}
    means = {name: number_or_none(defined_mean(found)) for name, found in values.items()}
    return Entry(means, len(records), records[0]["rows"])


def _setting(record: Record) -> tuple[str, str, str, int, float, int]:
    return *_place(record), record["batch_size"], record["fraction"] or 0.0, record["seed"]


# --- the numbers of the paper's tables 3 and 4 --------------------------------------------------


@cache
def published() -> dict[str, Any]:
    """The tables, where they are from, how they were made, and what is odd in them."""
    text = resources.files("fires.bench").joinpath("published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content


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
    machine = published()["protocol"]["machine"]
    notes = [
        f"Mean: over {', '.join(names)} on both sides, so that the published means are not those "
        "of the paper unless these are all ten data sets. A method that lacks one of them has "
        "none.",
        "Rank: by the mean, among the methods in the row. The paper has neither all features nor "
        "random features.",
        "Time: of other machines and other libraries, so that nothing follows from one number "
        f"being less than the other. The paper's machine: {machine}.",
    ]
    for dataset, method in product(names, summary.methods):
        lacks = _what_lacks(summary, protocol, dataset, method)
        notes += [f"{dataset}, {method}: {line}" for line in lacks]
    for (dataset, method), rows in summary.divergences(protocol).items():
        notes.append(
            f"{dataset}, {method}: its parameters ceased to be finite in {len(rows)} of "
            f"{summary.expected(protocol, method)} settings, first behind row {min(rows):,}; "
            "these do not count."
        )
    for (dataset, method, error), n in summary.failures(protocol).items():
        notes.append(f"{dataset}, {method}: failed in {n} of its settings: {error}")
    return notes


def _what_lacks(summary: Summary, protocol: str, dataset: str, method: str) -> Iterator[str]:
    """In what a number has less behind it than others have."""
    entry = summary.entries.get((protocol, dataset, method))
    if entry is not None:
        expected = summary.expected(protocol, method)
        if entry.n_settings < expected:
            yield f"a mean over {entry.n_settings} of {expected} settings only."
        if entry.rows < summary.rows(dataset):
            yield f"{entry.rows:,} rows only."
    if n := summary.n_left_out(protocol, dataset, method):
        were, do = ("setting that was", "does") if n == 1 else ("settings that were", "do")
        yield f"{n} {were} run over fewer rows than others {do} not count."


def dataset_notes(summary: Summary) -> list[str]:
    """What was done to each data set, and which were not run."""
    notes = []
    for name in summary.datasets:
        reasons = dict.fromkeys(
            note
            for record in summary.records
            if record["dataset"] == name and record.get("rows") == summary.rows(name)
            for note in record["notes"]
        )
        notes += [f"{name}: {'; '.join(reasons)}."] * bool(reasons)
    absent = [name for name in DATASETS if name not in summary.datasets]
    return notes + [f"Not run: {', '.join(absent)}."] * bool(absent)
