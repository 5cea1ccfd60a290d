"""What a Bayesian learner notices beside its belief: changes, and dependent rows."""

from __future__ import annotations

import copy
import math
from typing import ClassVar, NamedTuple, Self

import numpy as np

from fires.core.declared import Array, Declared, collect, rearrange, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Places
from fires.drift import Led, Moves, ScoreTests, SlopeAlarm, level_increments, slope_increments
from fires.kernels.assimilate import ADDED, WIDTH, Seen
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.families import Family
from fires.models.inflation import Inflation


class ScoreSums(NamedTuple):
    """The scores of a batch: totals and squares, of some columns or, if None, of all."""

    columns: Places | None
    sums: Floats


_LOCAL = 500.0  # rows that a level is of
_SUSPICION = 5.0  # of the sum of the alarm: beyond, rows may show a change, and no dependence
_RARE = 0.05  # the share below which one of two classes is rare


class Level:
    """Local means: of what the features add to predictions, and the share of positives."""

    learnt: ClassVar[Declared] = {"means": Array(2, "R"), "rows": Array(low=0.0)}

    def __init__(self, kind: str, n_rows: int) -> None:
        self.kind, self.means, self.rows = kind, np.zeros((2, n_rows)), 0.0

    @property
    def added(self) -> Floats:
        """The mean of what the features add."""
        added: Floats = self.means[0]
        return added

    @property
    def is_rare(self) -> bool:
        """Whether one of two classes is rare."""
        has_two = self.kind == "classes" and self.means.shape[1] == 1 and self.rows > 0.0
        return has_two and not _RARE <= self.means[1, 0] <= 1.0 - _RARE

    def increments(
        self, y: Floats, log_p: Floats, f: Floats, g: Floats, bend: Floats, inflation: Floats
    ) -> Floats:
        """What each row adds to the sum of the alarm."""
        if not self.is_rare:
            return slope_increments(f, g, bend, inflation, even=self.kind == "numbers")
        share = (self.rows * float(self.means[1, 0]) + 0.5) / (self.rows + 1.0)
        log_level = np.where(y > 0.0, math.log(share), math.log(1.0 - share))
        return level_increments(log_p, log_level)

    def learn(self, sums: Floats, weight: float) -> None:
        """Take in a batch by its sums."""
        self.rows += weight
        pace = max(1.0 - math.exp(-weight / _LOCAL), weight / self.rows)
        self.means = self.means + pace * (sums / weight - self.means)


class Changes:
    """The tests of coefficients, the alarm about all of them, and the inflation."""

    def __init__(self, n_rows: int, n_features: int, family: Family, *, warm_up: float) -> None:
        self.family, self.even = family, family.kind == "numbers"  # whether noise is symmetric
        self.level = Level(family.kind, n_rows)
        self.alarm = SlopeAlarm(n_rows, warm_up=warm_up)
        self.tests = ScoreTests(n_rows, n_features)
        self.inflation = Inflation(n_rows)

    def _parts(self) -> dict[str, SlopeAlarm | ScoreTests | Inflation | Level]:
        parts: dict[str, SlopeAlarm | ScoreTests | Inflation | Level] = {"alarm": self.alarm}
        return parts | {"tests": self.tests, "level": self.level, "inflation": self.inflation}

    def scores(self, seen: Seen) -> tuple[Floats, Floats, Floats, Floats]:
        """Slope and bend of each row's log likelihood, the slope as it counts, and its square."""
        precision, kept = seen.stats[:, 2], self.tests.kept(seen.weight)
        bend = precision / (1.0 + seen.stats[:, WIDTH] * precision)
        g = bend * seen.stats[:, 3]
        expected = g * g if self.even else np.maximum(g * g, bend)
        return g, bend, kept * g, kept * kept * expected

    def sums(self, rows: DenseRows | MixedRows, seen: Seen) -> ScoreSums:
        """What scaled rows say of each coefficient."""
        _, _, total, square = self.scores(seen)
        if isinstance(rows, DenseRows):
            full = rows.full
            return ScoreSums(None, np.stack([total @ full, square @ (full * full)]))
        columns, *sums = rows.accumulate(total, square)
        return ScoreSums(columns, np.stack(sums))

    def take(self, seen: Seen, scores: ScoreSums, columns: Ints, Z: Floats, gamma: float) -> Floats:
        """Take in a batch, of which Z are the leading columns; the greatest sums of the alarm."""
        stats, weight, inflation = seen.stats, seen.weight, self.inflation
        g, bend, total, square = self.scores(seen)
        f = stats[:, ADDED] - self.level.added[:, None]
        n_rows = float(weight.sum())
        shared = np.empty((2, len(f), 2))
        shared[0, :, 0], shared[1, :, 0] = total.sum(axis=1), square.sum(axis=1)
        shared[0, :, 1] = np.einsum("kb,kb->k", total, f)
        shared[1, :, 1] = np.einsum("kb,kb,kb->k", square, f, f)
        self.tests.add(scores, shared, n_rows)
        more = self.level.increments(seen.y, stats[:, 1], f, g, bend, self.slope_inflation)
        greatest = self.alarm.update(more, weight)
        means = np.stack([stats[:, ADDED] @ weight, (seen.y > 0.0) @ weight])
        self.level.learn(means, n_rows)
        usual, start = (greatest < (np.inf if self.even else _SUSPICION))[:, None], 0
        while start < len(weight):
            rows = slice(start, start + inflation.room())
            own, u, h, along = Z[rows], g[:, rows] * usual, bend[:, rows] * usual, f[:, rows]
            sums = np.empty((2, len(u), own.shape[1] + 1))
            sums[0, :, :-1], sums[1, :, :-1] = u @ own, h @ (own * own)
            sums[0, :, -1] = np.einsum("kb,kb->k", u, along)
            sums[1, :, -1] = np.einsum("kb,kb,kb->k", h, along, along)
            inflation.add(columns, sums, len(own), gamma)
            start = rows.stop
        return greatest

    @property
    def slope_inflation(self) -> Floats:
        """The inflation along the predictor, which often changes make greater, too."""
        along, pooled = self.inflation.of_predictor, self.inflation.pooled
        return along if self.even else np.minimum(along, 2.0 * pooled)

    def moved(
        self, evidence: Floats, n_rows: float, n_present: int, columns: Places | None, led: Led
    ) -> tuple[Moves | None, Places, Moves | None]:
        """The coefficients that have moved, which of these moves are alarms, and shared moves.

        What moves in the first rows is still being learnt: first no test, then no alarm.
        """
        warm_up, young = self.alarm.warm_up, evidence < self.alarm.warm_up
        if young.any():
            self.tests.restart(young)
            if young.all():
                return None, _NONE, None
        n_tests = n_present * len(evidence)
        far, alarms = self.tests.moved(self.inflation.pooled, n_rows, n_tests, columns, led)
        if far is not None:
            alarms = alarms[evidence[far.row[alarms]] > 2.0 * warm_up]
        return far, alarms, self.tests.shared_moves(self.inflation.pooled, n_rows)

    def restart(self, row: int) -> None:
        """Start again for one row of parameters, after an alarm about all features."""
        self.alarm.restart(row)
        self.tests.restart(row)

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns."""
        other, places = copy.copy(self), np.full(self.tests.total.shape[1], -1)
        places[source[source >= 0]] = np.flatnonzero(source >= 0)
        fresh = ScoreTests(1, len(source))
        other.tests = rearrange(self.tests, ScoreTests.learnt, source, fresh)
        other.inflation = self.inflation.rearranged(places)
        return other

    def with_rows(self, n_rows: int, rows: Places, old: Places, signs: Floats) -> Changes:
        """A copy for other rows of parameters: which go on from earlier ones, with which signs."""
        mine = self.tests
        other = Changes(n_rows, mine.total.shape[1], self.family, warm_up=self.alarm.warm_up)
        for name in SlopeAlarm.learnt:
            vars(other.alarm)[name][rows] = vars(self.alarm)[name][old]
        other.level.rows = self.level.rows
        other.level.means[0, rows] = signs * self.level.means[0, old]
        share = self.level.means[1, old]
        other.level.means[1, rows] = np.where(signs > 0.0, share, 1.0 - share)
        other.tests.total[rows] = signs[:, None] * mine.total[old]
        other.tests.square[rows], other.tests.unit = mine.square[old], mine.unit
        other.tests.shared[:, rows] = mine.shared[:, old]
        other.tests.shared[0, rows, 0] *= signs
        other.inflation = self.inflation.with_rows(n_rows, rows, old, signs)
        return other

    def state(self) -> Arrays:
        """All that was learnt, by its name in a file."""
        arrays: Arrays = {}
        for name, part in self._parts().items():
            arrays |= under(name, collect(part, part.learnt)[1])
        return arrays

    def restore(self, arrays: Arrays, sizes: dict[str, int]) -> None:
        """Go on from :meth:`state`; files of earlier versions have the alarm only."""
        for name, part in self._parts().items():
            if found := part_of(name, arrays):
                size = np.size(found.get("columns", ()))
                restore(part, part.learnt, {}, found, sizes | {"C": size, "C1": size + 1})
        self.inflation.refresh()


_NONE: Places = np.empty(0, dtype=np.intp)
