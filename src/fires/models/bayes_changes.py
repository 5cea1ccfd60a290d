"""What a Bayesian learner notices beside its belief: changes, and dependent rows."""

from __future__ import annotations

import copy
import math
from typing import ClassVar, Self

import numpy as np

from fires.core.batch import ones
from fires.core.declared import Array, Declared, collect, rearrange, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Places
from fires.drift import Led, Move, ScoreTests, SlopeAlarm
from fires.kernels.assimilate import N_LINES, Seen, add_scores, kept_of, note_scores
from fires.kernels.changes import N_SUMS, increments, take_batch
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.families import Family
from fires.models.inflation import Inflation

_LOCAL = 500.0  # rows that a level is of
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
    def share(self) -> float:
        """The share of positives, if one of two classes is rare; else 0."""
        if self.kind != "classes" or self.means.shape[1] > 1 or not self.rows:
            return 0.0
        positive = float(self.means[1, 0])
        is_rare = not _RARE <= positive <= 1.0 - _RARE
        return (self.rows * positive + 0.5) / (self.rows + 1.0) if is_rare else 0.0

    def increments(self, seen: Floats, inflation: Floats) -> Floats:
        """What each row adds to the sum of the alarm: see :mod:`fires.kernels.changes`."""
        return increments(seen, inflation, self.kind == "numbers", self.share)

    def pace(self, weight: float) -> float:
        """How far the means follow a batch of this weight."""
        return max(1.0 - math.exp(-weight / _LOCAL), weight / (self.rows + weight))

    def learn(self, sums: Floats, weight: float) -> None:
        """Take in a batch by its sums."""
        self.means += self.pace(weight) * (sums / weight - self.means)
        self.rows += weight


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

    def take(
        self,
        seen: Seen,
        rows: DenseRows | MixedRows,
        columns: Ints,
        Z: Floats,
        gamma: float,
        evidence: Floats,
    ) -> Floats:
        """Take in a batch of scaled rows, Z in the leading columns; the alarm's greatest sums.

        Of millions of sparse columns, none is tested by the evidence before the batch as long as
        all are young: see :meth:`moved`.
        """
        y, weight, stats = seen
        tests, alarm, level = self.tests, self.alarm, self.level
        n_rows = float(len(weight) if weight is ones(len(weight)) else weight.sum())
        tests.fade(n_rows)
        lines, sums = np.empty((N_LINES, *stats.shape[::2])), np.zeros((len(stats), N_SUMS))
        note_scores(stats, 0, len(weight), kept_of(weight, tests.unit), self.even, lines)
        if isinstance(rows, DenseRows):
            scores = np.zeros((2, *tests.total.shape))
            add_scores(rows.full, 0, lines[:2], scores)
            tests.add(None, *scores)
        elif max(evidence.tolist()) >= alarm.warm_up:
            tests.add(*rows.accumulate(lines[0], lines[1]))
        take_batch(
            *(y, weight, stats, self.even),
            *(level.means, level.share, level.pace(n_rows) / n_rows),
            *(self.inflation.found, alarm.warm_up, alarm.sums, tests.shared, lines, sums),
        )
        level.rows += n_rows
        self.inflation.take(columns, Z, lines, gamma)
        return sums[:, -1]

    @property
    def slope_inflation(self) -> Floats:
        """The inflation along the predictor, which often changes make greater, too."""
        along, pooled = self.inflation.of_predictor, self.inflation.pooled
        return along if self.even else np.minimum(along, 2.0 * pooled)

    def moved(
        self, evidence: Floats, n_rows: float, n_present: int, columns: Places | None, led: Led
    ) -> list[Move]:
        """The coefficients that have moved.

        What moves in the first rows is still being learnt: there is no test.
        """
        if min(evidence.tolist()) < self.alarm.warm_up:
            young = evidence < self.alarm.warm_up
            self.tests.restart(young)
            if young.all():
                self.tests.is_blank = columns is not None
                return []
        n_tests = n_present * len(evidence)
        return self.tests.moved(self.inflation.pooled, n_rows, n_tests, columns, led)

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
        other.alarm.sums[:, rows] = self.alarm.sums[:, old]
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
