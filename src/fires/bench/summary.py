"""What the cells of a folder come to: means over the settings, for each data set and method."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from fires.bench import published
from fires.bench.cells import DATASETS, METHODS
from fires.bench.kdd2020 import read_runs
from fires.bench.protocols import PROTOCOLS
from fires.bench.results import Record, made_by, read_records
from fires.evaluation.records import defined_mean, number_or_none

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
    values = {name: [record[name] for record in records] for name in published.QUANTITIES}
    means = {name: number_or_none(defined_mean(found)) for name, found in values.items()}
    return Entry(means, len(records), records[0]["rows"])


def _setting(record: Record) -> tuple[str, str, str, int, float, int]:
    return *_place(record), record["batch_size"], record["fraction"] or 0.0, record["seed"]
