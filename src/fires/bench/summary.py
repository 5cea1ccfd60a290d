"""What the cells of a folder come to: means over the settings, for each data set and method."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from fires.bench import published
from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
from fires.bench.kdd2020 import read_runs
from fires.bench.runner import Record, made_by, read_records


@dataclass(frozen=True)
class Entry:
    """A data set and a method under one protocol.

    Parameters
    ----------
    values : mapping of str to float or None
        The mean over the settings of each of the quantities of :mod:`fires.bench.published`.
    n_settings : int
        How many settings were run.
    rows : int
        How many rows the stream had.
    """

    values: Mapping[str, float | None]
    n_settings: int
    rows: int


class Summary:
    """The results in a folder.

    Only results of the version and code of fires that wrote the last one count. Where a setting
    was run several times, the run over most rows counts, and of these the last. Of a data set and
    a method under one protocol, only the settings with the most rows count.

    Parameters
    ----------
    folder : Path
        Holds ``cells.jsonl``.
    """

    def __init__(self, folder: Path) -> None:
        records = [r for r in read_records(folder) if r.get("method") in METHODS]
        last = made_by(records[-1]) if records else None
        self.runs = [run for run in read_runs(folder) if _code_of(run) == last]
        self.records, self.left_out = _that_count(r for r in records if made_by(r) == last)

    @cached_property
    def entries(self) -> dict[tuple[str, str, str], Entry]:
        """What there is under (protocol, data set, method)."""
        cells: dict[tuple[str, str, str], list[Record]] = {}
        for record in self.records:
            if "error" not in record and "diverged_at" not in record:
                cells.setdefault(_place(record), []).append(record)
        return {
            place: Entry(
                {name: mean(r[name] for r in found) for name in published.QUANTITIES},
                len(found),
                found[0]["rows"],
            )
            for place, found in cells.items()
        }

    @property
    def protocols(self) -> list[str]:
        """Those with results, in order."""
        return [name for name in PROTOCOLS if any(place[0] == name for place in self.entries)]

    @property
    def datasets(self) -> list[str]:
        """Those with results, in the paper's order."""
        found = dict.fromkeys(place[1] for place in self.entries)
        return [name for name in DATASETS if name in found]

    @property
    def methods(self) -> list[str]:
        """Those with results, in the paper's order."""
        return [name for name in METHODS if any(place[2] == name for place in self.entries)]

    def value(self, quantity: str, protocol: str, dataset: str, method: str) -> float | None:
        """Ours; None if there is none."""
        entry = self.entries.get((protocol, dataset, method))
        return None if entry is None else entry.values[quantity]

    def rows(self, dataset: str) -> int:
        """How many rows a data set had; the most, if some methods were shown fewer."""
        return max(entry.rows for place, entry in self.entries.items() if place[1] == dataset)

    def expected(self, protocol: str, method: str) -> int:
        """How many settings a method should have under a protocol, going by what was run."""
        of_it = [r for r in self.records if r["protocol"] == protocol]
        sizes = {record["batch_size"] for record in of_it}
        shares = {record["fraction"] for record in of_it} - {None}
        return len(sizes) * (len(shares) if METHODS[method].selects else 1)

    def n_left_out(self, protocol: str, dataset: str, method: str) -> int:
        """How many settings do not count, as others were run over more rows."""
        return sum(_place(record) == (protocol, dataset, method) for record in self.left_out)

    def divergences(self, protocol: str) -> dict[tuple[str, str], list[int]]:
        """The rows at which a method ceased to be finite, under (data set, method)."""
        rows: dict[tuple[str, str], list[int]] = {}
        for record in self.records:
            if "diverged_at" in record and record["protocol"] == protocol:
                place = record["dataset"], record["method"]
                rows.setdefault(place, []).append(record["diverged_at"])
        return rows

    def failures(self, protocol: str) -> dict[tuple[str, str, str], int]:
        """How often it went wrong, under (data set, method, message)."""
        counts: dict[tuple[str, str, str], int] = {}
        for record in self.records:
            if "error" in record and record["protocol"] == protocol:
                place = record["dataset"], record["method"], record["error"]
                counts[place] = counts.get(place, 0) + 1
        return counts


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of those that are numbers; None if there are none.

    Examples
    --------
    >>> mean([1.0, None, 2.0]), mean([None])
    (1.5, None)
    """
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _place(record: Record) -> tuple[str, str, str]:
    return record["protocol"], record["dataset"], record["method"]


def _code_of(run: Mapping[str, Any]) -> tuple[str | None, str | None]:
    return run["versions"].get("fires"), run.get("code")


def _that_count(records: Iterable[Record]) -> tuple[list[Record], list[Record]]:
    """One record for each setting, in the order of the settings and not of the file.

    Apart from these, those of settings that were run over fewer rows than others of their place.
    Which failed is told in any case: how many rows they would have had is not known.
    """
    best: dict[tuple[Any, ...], Record] = {}
    for record in records:
        share = record["fraction"]
        setting = (*_place(record), record["batch_size"], share or 0.0, record["seed"])
        before = best.get(setting)
        if before is None or _rows(record) >= _rows(before):
            best[setting] = record
    found = [best[setting] for setting in sorted(best)]
    most: dict[tuple[str, str, str], int] = {}
    for record in found:
        most[_place(record)] = max(most.get(_place(record), 0), record.get("rows", 0))

    def has_most(record: Record) -> bool:
        return bool(record.get("rows", most[_place(record)]) == most[_place(record)])

    return [r for r in found if has_most(r)], [r for r in found if not has_most(r)]


def _rows(record: Record) -> float:
    return float("inf") if record["n_rows"] is None else record["n_rows"]
