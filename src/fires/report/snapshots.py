"""All features after some batches, as a run has them in its folder: over time, and then and now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fires.core.errors import InputError
from fires.core.files import damaged
from fires.core.types import Header
from fires.report.rounding import rounded
from fires.report.spans import Numbers, Whole
from fires.run.records import read_snapshot, snapshots

# What a page of less than 1 MB, and of less than 300 KB for an ordinary run, has room for:
_FINE, _FINE_POINTS = 30, 4_000
_COARSE, _COARSE_POINTS = 2_000, 8
_RANKED, _TOP, _MOST_RANKS = 40, 10, 20
_FAIR_ROWS = 2_000  # a mean of fewer says little

Small = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All features after a batch, or the first by rank."""

    index: int
    rows: int
    places: npt.NDArray[np.int32]
    importance: Small
    uncertainty: Small
    rank: npt.NDArray[np.int32]
    path: Path
    has_moments: bool
    n_classes: int = 0

    @cached_property
    def moments(self) -> Numbers:
        """Mean and standard deviation of the last rows of each feature, read when asked for."""
        _, arrays = read_snapshot(self.path)
        return np.array([arrays["mean"], arrays["deviation"]], dtype=np.float64)


class Snapshots:
    """The snapshots of a run; each is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[int, Snapshot] = {}

    def refresh(self) -> bool:
        """Read those that are new, and forget those that are not there any more."""
        present = dict(snapshots(self._folder))
        changed = present.keys() != self._read.keys()
        self._read = {index: one for index, one in self._read.items() if index in present}
        for index, path in present.items():
            if index not in self._read:
                try:
                    with damaged(path):
                        self._read[index] = _snapshot(path)
                except FileNotFoundError:  # the run has just removed it
                    continue
        return changed

    def until(self, n_batches: int, n_features: int = 1 << 31) -> list[Snapshot]:
        """Those of the first batches, in order: a snapshot may be there before its record is."""
        found = [self._read[index] for index in sorted(self._read) if index < n_batches]
        for shot in found:
            if len(shot.places) and not 0 <= shot.places.min() <= shot.places.max() < n_features:
                raise InputError(f"{shot.path} is damaged: there are {n_features:,} features")
        return found


def _snapshot(path: Path) -> Snapshot:
    facts, arrays = read_snapshot(path)
    if len(shapes := {array.shape for array in arrays.values()}) > 1 or len(*shapes) != 1:
        raise ValueError("its arrays are of several lengths")
    importance = arrays["importance"].astype(np.float32)
    saved = arrays.get("rank")
    if saved is not None:
        rank = saved.astype(np.int32, copy=False)
    else:  # of an earlier version
        rank = np.empty(len(importance), dtype=np.int32)
        rank[np.argsort(-np.abs(importance), kind="stable")] = np.arange(1, len(importance) + 1)
    return Snapshot(
        int(facts["index"]),
        int(facts["rows"]),
        arrays["features"].astype(np.int32),
        importance,
        arrays["uncertainty"].astype(np.float32),
        rank,
        path,
        {"mean", "deviation"} <= arrays.keys(),
        int(facts.get("classes", 0)),
    )


def greatest_importances(shots: Sequence[Snapshot], n_features: int) -> Numbers:
    """How far from 0 the importance of each feature ever was."""
    greatest = np.full(n_features, np.nan)
    for shot in shots:
        greatest[shot.places] = np.fmax(greatest[shot.places], np.abs(shot.importance))
    return greatest


def timeline(shots: Sequence[Snapshot], places: Whole, names: Sequence[str]) -> Header:
    """Importances over time."""
    coarse = evenly(len(shots), _COARSE_POINTS)
    n_fine = max(_FINE, _FINE_POINTS // max(len(shots), 1))
    series = []
    for some, which in ((places[:n_fine], None), (places[n_fine:_COARSE], coarse)):
        these = list(shots) if which is None else [shots[place] for place in which]
        numbers = [rounded(_over_time(these, some, of)) for of in ("importance", "uncertainty")]
        for place, importance, uncertainty in zip(some.tolist(), *numbers, strict=True):
            one = {"place": place, "name": names[place]}
            one |= {"importance": importance, "uncertainty": uncertainty}
            series.append(one if which is None else one | {"coarse": True})
    return {
        "rows": [shot.rows for shot in shots],
        "batches": [shot.index for shot in shots],
        "coarse": coarse,
        "series": series,
    }


def ranks(shots: Sequence[Snapshot], names: Sequence[str]) -> Header:
    """The ranks of the best features over time."""
    some = [shots[place] for place in evenly(len(shots), _RANKED)]
    tops = [shot.places[np.argsort(shot.rank)[:_TOP]] for shot in some]
    now = tops[-1].tolist() if tops else []
    seen, times = np.unique(np.concatenate([*tops, []]).astype(np.int64), return_counts=True)
    others = seen[np.argsort(-times, kind="stable")].tolist()
    places = list(dict.fromkeys([*now, *others]))[:_MOST_RANKS]
    rank = _over_time(some, np.array(places, dtype=np.int64), "rank")
    return {
        "rows": [shot.rows for shot in some],
        "places": places,
        "names": [names[place] for place in places],
        "rank": [[None if one != one else int(one) for one in line] for line in rank.tolist()],
    }


def then_and_now(shots: Sequence[Snapshot]) -> tuple[Snapshot, Snapshot] | None:
    """Between which snapshots columns may have drifted."""
    told = [shot for shot in shots if shot.has_moments]
    fair = next((shot for shot in told if shot.rows >= _FAIR_ROWS), told[0] if told else None)
    return (fair, told[-1]) if fair is not None and fair is not told[-1] else None


def drift(then: Snapshot, now: Snapshot) -> tuple[Whole, Numbers, Numbers]:
    """How far columns have moved, in standard deviations, and how their spread has changed."""
    places, a, b = np.intersect1d(then.places, now.places, True, return_indices=True)
    (mean_then, sd_then), (mean_now, sd_now) = then.moments[:, a], now.moments[:, b]
    shift = mean_now - mean_then
    both = np.sqrt(0.5 * (sd_now**2 + sd_then**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(shift == 0.0, 0.0, shift / both)
        spread = np.where(both == 0.0, 1.0, sd_now / sd_then)
    return places.astype(np.int64), moved, spread


def evenly(n: int, most: int) -> list[int]:
    """Places in a list, evenly apart, the first and the last among them."""
    places = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    return [int(place) for place in np.unique(places)]


def _over_time(shots: Sequence[Snapshot], places: Whole, what: str) -> Numbers:
    """Numbers of some features, a row each, at each snapshot; NaN where it has none of them."""
    size = 1 + max((int(shot.places.max(initial=0)) for shot in shots), default=0)
    line = np.full(max(size, int(places.max(initial=0)) + 1), -1)
    line[places] = np.arange(len(places))
    table = np.full((len(places), len(shots)), np.nan)
    for column, shot in enumerate(shots):
        lines = line[shot.places]
        table[lines[lines >= 0], column] = getattr(shot, what)[lines >= 0]
    return table
