"""What is known of each feature: now, by the newest that a run has written down, and over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from fires.core.types import Floats, Header, Indices, Ints, Mask, Numbers
from fires.report.folder import Result, Snapshot
from fires.report.records import Records, rounded, well_formed, whole

_MAX_FEATURES, _MOST_DRIFT = 2_000, 500
_AGO = 0.1  # of the run: so long ago is the rank that the present one is held against
_REACH = NormalDist().inv_cdf(0.975)
# What a page of less than 1 MB, and of less than 300 KB for an ordinary run, has room for:
_FINE, _FINE_POINTS = 30, 4_000
_COARSE, _COARSE_POINTS = 2_000, 8
_RANKED, _TOP, _MOST_RANKS = 40, 10, 20
_FAIR_ROWS = 2_000  # a mean of fewer says little


class Features:
    """All features of a run.

    Importance, uncertainty and rank are those of the last snapshot; of the selected features, those
    of the last record that tells them, which is newer; and when a run has ended, its result.
    """

    def __init__(
        self, records: Records, shots: Sequence[Snapshot], result: Result, names: Sequence[str]
    ) -> None:
        self._records, self._shots, self._result, self._names = records, shots, result, names
        self.selected = np.zeros(len(names), dtype=bool)
        self.selected[records.selected] = True
        self.importance, self.uncertainty, self.rank = np.full((3, len(names)), np.nan)
        if shots:
            self._know(shots[-1].places, shots[-1].importance, shots[-1].uncertainty)
            self.rank[shots[-1].places] = shots[-1].rank
        if records.known is not None and (not shots or records.known[0] > shots[-1].index):
            self._know(*records.known[1:])
        if result.numbers:
            self.rank = result.numbers["rank"]
            known = np.flatnonzero(~np.isnan(result.numbers["importance"]))
            numbers = (result.numbers[name][known] for name in ("importance", "uncertainty"))
            self._know(known, *numbers)
            self.importance[np.isnan(self.rank)] = np.nan  # they were forgotten
        old = [shot for shot in shots if shot.rows <= (1.0 - _AGO) * records.n_rows]
        self.before = old[-1] if old else None

    def _know(self, places: Indices, importance: Numbers, uncertainty: Numbers) -> None:
        self.importance[places], self.uncertainty[places] = importance, uncertainty

    def _named(self, places: Sequence[int]) -> list[str]:
        return [self._names[place] for place in places]

    # --- now -------------------------------------------------------------------------------------

    @cached_property
    def in_order(self) -> Ints:
        """All features whose rank or importance is known, the best first."""
        known = np.flatnonzero(~np.isnan(self.importance) | self.selected)
        return known[np.argsort(np.nan_to_num(self.rank[known], nan=np.inf), kind="stable")]

    @property
    def above_noise(self) -> Mask | None:
        """Which features are significant, as the run says; None if it does not."""
        if self._result.counts or not self._shots:
            return self._result.above_noise
        if (told := self._shots[-1].significant) is None:
            return None
        above = np.zeros(len(self._names), dtype=bool)
        above[self._shots[-1].places] = told
        return above

    def now(self, above_noise: Mask | None, *, intervals: bool) -> Header:
        """The table of features."""
        order = self.in_order
        if len(order) > _MAX_FEATURES:
            is_in = self.selected[order]
            is_in[np.flatnonzero(~is_in)[: max(_MAX_FEATURES - int(is_in.sum()), 0)]] = True
            order = order[is_in][:_MAX_FEATURES]
        records, result, places = self._records, self._result, order.tolist()
        importance, uncertainty = self.importance[order], self.uncertainty[order]
        half_width = uncertainty * (_REACH if intervals else np.nan)
        ranks_before, drifts = np.full((2, len(self._names)), np.nan)
        if self.before is not None:
            ranks_before[self.before.places] = self.before.rank
        if self._drifts is not None:
            drifts[self._drifts[1]] = self._drifts[4]
        selected = self.selected[order]
        low = importance - half_width
        if "low" in result.numbers:  # an importance without a sign is not below 0
            low = np.fmax(low, result.numbers["low"][order])
        table: dict[str, Any] = {
            "place": places,
            "name": self._named(places),
            "rank": whole(self.rank[order]),
            "importance": rounded(importance),
            "low": rounded(low),
            "high": rounded(importance + half_width),
            "uncertainty": rounded(uncertainty),
            "above_noise": [None] * len(order)
            if above_noise is None
            else above_noise[order].tolist(),
            "selected": selected.tolist(),
            "rank_before": whole(ranks_before[order]),
            "since": whole(np.where(selected, records.since[order], np.nan)),
            "share": rounded(records.times[order] / max(records.n_batches, 1)),
            "drift": rounded(drifts[order]),
            "alarms": records.alarms_of[order].tolist(),
        }
        if result.classes is not None:
            table["class"] = result.classes[order].tolist()
        for name, of in result.of_columns.items():
            found: Any = [of.get(result.columns[place]) for place in places]
            table[name] = rounded(found) if name == "missing" else found
        return table

    # --- over time -------------------------------------------------------------------------------

    def _by_interest(self) -> Ints:
        """Those with a course over time: the selected ones by rank, then by their greatest ever."""
        greatest = np.full(len(self._names), np.nan)
        for shot in self._shots:
            greatest[shot.places] = np.fmax(greatest[shot.places], np.abs(shot.importance))
        present = np.flatnonzero(~np.isnan(greatest))
        selected = self.selected[present]
        rank = np.nan_to_num(self.rank[present], nan=np.inf)
        return present[
            np.lexsort((present, np.where(selected, rank, -greatest[present]), ~selected))
        ]

    def timeline(self) -> Header:
        """Importances over time: of the first few at every snapshot, of the others at some."""
        shots, places = self._shots, self._by_interest()
        coarse = evenly(len(shots), _COARSE_POINTS)
        n_fine = max(_FINE, _FINE_POINTS // max(len(shots), 1))
        series: list[Header] = []
        for some, which in ((places[:n_fine], None), (places[n_fine:_COARSE], coarse)):
            these = shots if which is None else [shots[place] for place in which]
            numbers = [rounded(_over_time(these, some, of)) for of in ("importance", "uncertainty")]
            for place, importance, uncertainty in zip(some.tolist(), *numbers, strict=True):
                one = {"place": place, "name": self._names[place]}
                one |= {"importance": importance, "uncertainty": uncertainty}
                series.append(one if which is None else one | {"coarse": True})
        return {
            "rows": [shot.rows for shot in shots],
            "batches": [shot.index for shot in shots],
            "coarse": coarse,
            "series": series,
        }

    def ranks(self) -> Header:
        """The ranks of the best features over time."""
        some = [self._shots[place] for place in evenly(len(self._shots), _RANKED)]
        tops = [shot.places[np.argsort(shot.rank)[:_TOP]] for shot in some]
        now = tops[-1].tolist() if tops else []
        seen, times = np.unique(np.concatenate([*tops, []]).astype(np.int64), return_counts=True)
        others = seen[np.argsort(-times, kind="stable")].tolist()
        places = list(dict.fromkeys([*now, *others]))[:_MOST_RANKS]
        ranks = _over_time(some, np.array(places, dtype=np.int64), "rank")
        return {
            "rows": [shot.rows for shot in some],
            "places": places,
            "names": self._named(places),
            "rank": [whole(line) for line in ranks],
        }

    # --- then and now ----------------------------------------------------------------------------

    @cached_property
    def _drifts(self) -> tuple[list[int], Ints, Floats, Floats, Floats] | None:
        """Two rows; columns, how far they moved, how their spread changed, the farther of both."""
        told = [shot for shot in self._shots if len(shot.moments) == 2]
        fair = next((shot for shot in told if shot.rows >= _FAIR_ROWS), told[0] if told else None)
        if fair is None or fair is told[-1]:
            return None
        places, moved, spread = drift(fair, told[-1])
        with np.errstate(divide="ignore"):
            far = np.fmax(np.abs(moved), np.abs(np.log(spread)))
        return [fair.rows, told[-1].rows], places, moved, spread, far

    def drift(self) -> Header | None:
        """Which columns have moved."""
        if self._drifts is None:
            return None
        rows, places, moved, spread, far = self._drifts
        order = np.lexsort((places, -np.nan_to_num(far, nan=-1.0, posinf=np.inf)))
        first = np.lexsort((np.arange(len(order)), ~self.selected[places[order]]))
        order = order[np.sort(first[:_MOST_DRIFT])]
        places = places[order]
        return {
            "from_row": rows[0],
            "to_row": rows[1],
            "place": places.tolist(),
            "name": self._named(places.tolist()),
            "drift": rounded(far[order]),
            "moved": rounded(moved[order]),
            "spread": rounded(spread[order]),
            "importance": rounded(self.importance[places]),
            "selected": self.selected[places].tolist(),
            "alarms": self._records.alarms_of[places].tolist(),
        }


def drift(then: Snapshot, now: Snapshot) -> tuple[Ints, Floats, Floats]:
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


def _over_time(shots: Sequence[Snapshot], places: Ints, what: str) -> Floats:
    """Numbers of some features, a row each, at each snapshot; NaN where it has none of them."""
    greatest = [int(shot.places.max(initial=0)) for shot in shots]
    line = np.full(1 + max([int(places.max(initial=0)), *greatest]), -1)
    line[places] = np.arange(len(places))
    table = np.full((len(places), len(shots)), np.nan)
    for column, shot in enumerate(shots):
        lines = line[shot.places]
        table[lines[lines >= 0], column] = vars(shot)[what][lines >= 0]
    return table


# --- curves and pairs ----------------------------------------------------------------------------

_Moments: TypeAlias = list[tuple[int, dict[str, Any]]]
_MOMENTS = 6  # of a curve that are shown


def relations_over_time(
    shots: Sequence[Snapshot], facts: Mapping[str, Any], n_rows: int
) -> dict[str, Any] | None:
    """The curves and pairs there are now, with what they were before; None if there are none.

    ``rows``, ``values`` and ``effect`` have an entry for each of at most six moments, the last one
    now; a pair has been there since the row ``since``.
    """
    told = {shot.rows: shot.relations for shot in shots}
    told |= {n_rows: found} if (found := facts.get("relations")) else {}
    moments = list(told.items())
    now = moments[-1][1] if moments else {}
    if not now.get("curves") and not now.get("pairs"):
        return None
    return {
        "curves": [_curve(moments, one) for one in now["curves"]],
        "pairs": [_pair(moments, one) for one in now["pairs"]],
        "unsigned": list(map(well_formed, now["unsigned"])),
    }


def _same(moments: _Moments, what: str, one: dict[str, Any], *keys: str) -> list[Any]:
    """At which rows there was a curve, or a pair, with what it was; None where there was none."""
    own = [one.get(key) for key in keys]
    return [
        (row, next((of for of in then.get(what, ()) if [of.get(k) for k in keys] == own), None))
        for row, then in moments
    ]


def _curve(moments: _Moments, one: dict[str, Any]) -> Header:
    found = [at for at in _same(moments, "curves", one, "feature", "class") if at[1] is not None]
    some = [found[place] for place in evenly(len(found), _MOMENTS)]
    return {
        "name": well_formed(one["feature"]),
        "class": None if one.get("class") is None else well_formed(one["class"]),
        "rows": [row for row, _ in some],
        "values": [rounded(of["values"]) for _, of in some],
        "effect": [rounded(of["effect"]) for _, of in some],
        "low": rounded(one["low"]),
        "high": rounded(one["high"]),
    }


def _pair(moments: _Moments, one: dict[str, Any]) -> Header:
    since = moments[-1][0]
    for row, of in reversed(_same(moments, "pairs", one, "first", "second")):
        if of is None:
            break
        since = row
    numbers = {name: rounded(one[name]) for name in ("importance", "low", "high")}
    ends = {name: well_formed(one[name]) for name in ("first", "second")}
    return ends | numbers | {"since": since}
