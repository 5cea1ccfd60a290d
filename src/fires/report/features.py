"""What is known of each feature now: the newest of all that a run has written down."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.types import Header, Mask
from fires.report.records import Records
from fires.report.result import Result
from fires.report.rounding import rounded
from fires.report.snapshots import Snapshot, drift, greatest_importances, then_and_now
from fires.report.spans import Numbers, Whole

_MAX_FEATURES, _MOST_DRIFT = 2_000, 500
_AGO = 0.1  # of the run: so long ago is the rank that the present one is held against
_REACH = NormalDist().inv_cdf(0.975)

Places: TypeAlias = npt.NDArray[np.signedinteger]
Floats: TypeAlias = npt.NDArray[np.floating]


class Features:
    """All features of a run as they are now.

    Importance, uncertainty and rank are those of the last snapshot; of the selected features, those
    of the last record that tells them, which is newer; and when a run has ended, its result.
    """

    def __init__(
        self, records: Records, shots: Sequence[Snapshot], result: Result, names: Sequence[str]
    ) -> None:
        self._records, self._shots, self._result, self._names = records, shots, result, names
        n = len(names)
        self.selected = np.zeros(n, dtype=bool)
        self.selected[records.stays.selected] = True
        self.rank, self.importance, self.uncertainty = (np.full(n, np.nan) for _ in range(3))
        if shots:
            self._know(shots[-1].places, shots[-1].importance, shots[-1].uncertainty)
            self.rank[shots[-1].places] = shots[-1].rank
        batch, places, importance, uncertainty = records.known
        if not shots or batch > shots[-1].index:
            self._know(places, importance, uncertainty)
        if result.numbers:
            self.rank = result.numbers["rank"]
            known = np.flatnonzero(~np.isnan(result.numbers["importance"]))
            numbers = (result.numbers[name][known] for name in ("importance", "uncertainty"))
            self._know(known, *numbers)
            self.importance[np.isnan(self.rank)] = np.nan  # they were forgotten
        old = [shot for shot in shots if shot.rows <= (1.0 - _AGO) * records.n_rows]
        self.before = old[-1] if old else None

    def _know(self, places: Places, importance: Floats, uncertainty: Floats) -> None:
        self.importance[places], self.uncertainty[places] = importance, uncertainty

    @cached_property
    def in_order(self) -> Whole:
        """All features whose rank or importance is known, the best first."""
        known = np.flatnonzero(~np.isnan(self.importance) | self.selected)
        return known[np.argsort(np.nan_to_num(self.rank[known], nan=np.inf), kind="stable")]

    def above_noise(self) -> npt.NDArray[np.bool_]:
        """Which importances chance alone would hardly give to any of all features."""
        n_classes = self._shots[-1].n_classes if self._shots else 0
        n_chances = max(len(self._names), 1) * (n_classes if n_classes >= 3 else 1)
        half_width = NormalDist().inv_cdf(1.0 - 0.025 / n_chances)
        is_above: npt.NDArray[np.bool_] = np.abs(self.importance) > half_width * self.uncertainty
        return is_above

    def by_interest(self) -> Whole:
        """Those with a course over time: the selected ones by rank, then by their greatest ever."""
        greatest = greatest_importances(self._shots, len(self._names))
        present = np.flatnonzero(~np.isnan(greatest))
        rank = np.nan_to_num(self.rank, nan=np.inf)
        selected = self.selected[present]
        keys = np.where(selected, rank[present], -greatest[present])
        return present[np.lexsort((present, keys, ~selected))]

    def now(self, above_noise: Mask | None) -> Header:
        """The table of features."""
        order = self.in_order
        if len(order) > _MAX_FEATURES:
            is_in = self.selected[order]
            is_in[np.flatnonzero(~is_in)[: max(_MAX_FEATURES - int(is_in.sum()), 0)]] = True
            order = order[is_in][:_MAX_FEATURES]
        records, result = self._records, self._result
        importance, uncertainty = self.importance[order], self.uncertainty[order]
        half_width = uncertainty * (np.nan if above_noise is None else _REACH)
        ranks_before = np.full(len(self._names), np.nan)
        if self.before is not None:
            ranks_before[self.before.places] = self.before.rank
        drifts = np.full(len(self._names), np.nan)
        if self._drifts is not None:
            drifts[self._drifts[0]] = self._drifts[3]
        selected = self.selected[order]
        since = np.where(selected, records.stays.since[order], np.nan)
        table = {
            "place": order.tolist(),
            "name": [self._names[place] for place in order.tolist()],
            "rank": whole(self.rank[order]),
            "importance": rounded(importance),
            "low": rounded(importance - half_width),
            "high": rounded(importance + half_width),
            "uncertainty": rounded(uncertainty),
            "above_noise": [None] * len(order)
            if above_noise is None
            else above_noise[order].tolist(),
            "selected": selected.tolist(),
            "rank_before": whole(ranks_before[order]),
            "since": whole(since),
            "share": rounded(records.stays.times[order] / max(records.n_batches, 1)),
            "drift": rounded(drifts[order]),
            "alarms": records.alarms_of[order].tolist(),
        }
        columns = [result.columns[place] for place in order.tolist()] if result.columns else []
        if result.classes is not None:
            table["class"] = result.classes[order].tolist()
        if result.kinds:
            table["kind"] = [result.kinds.get(column) for column in columns]
        if result.missing:
            shares = [result.missing.get(column) for column in columns]
            table["missing"] = rounded(np.array(shares, dtype=np.float64))
        return table

    @cached_property
    def _drifts(self) -> tuple[Whole, Numbers, Numbers, Numbers] | None:
        pair = then_and_now(self._shots)
        if pair is None:
            return None
        try:
            places, moved, spread = drift(*pair)
        except FileNotFoundError:  # the run has just removed one: there will be another
            return None
        with np.errstate(divide="ignore"):
            turned = np.abs(np.log(spread))
        return places, moved, spread, np.fmax(np.abs(moved), turned)

    def drift(self) -> Header | None:
        """Which columns have moved."""
        pair = then_and_now(self._shots)
        if pair is None or self._drifts is None:
            return None
        places, moved, spread, far = self._drifts
        order = np.lexsort((places, -np.nan_to_num(far, nan=-1.0, posinf=np.inf)))
        first = np.lexsort((np.arange(len(order)), ~self.selected[places[order]]))
        kept = np.sort(first[:_MOST_DRIFT])
        order = order[kept]
        places = places[order]
        return {
            "from_row": pair[0].rows,
            "to_row": pair[1].rows,
            "place": places.tolist(),
            "name": [self._names[place] for place in places.tolist()],
            "drift": rounded(far[order]),
            "moved": rounded(moved[order]),
            "spread": rounded(spread[order]),
            "importance": rounded(self.importance[places]),
            "selected": self.selected[places].tolist(),
            "alarms": self._records.alarms_of[places].tolist(),
        }


def whole(values: Numbers) -> list[int | None]:
    """Whole numbers; None for NaN."""
    return [None if value != value else int(value) for value in values.tolist()]
