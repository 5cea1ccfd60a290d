r"""An alarm when a model is more surprised than usual.

The surprise of a batch is its log loss minus what the predictions let one expect, and
:math:`z` is that divided by its standard deviation under the predictions. A model that is always a
little surprised is measured against itself: :math:`z` is standardised by its own running mean and
spread. Page's sum of these, less a slack of 0.5 and at most 4 in one batch, raises the alarm. It is
for learners that tell only this of a batch, such as nets. Learners that give the likelihood of each
row use :mod:`fires.drift.likelihood`, which sees a change sooner.
"""

from __future__ import annotations

import math
from typing import ClassVar

from fires.core.declared import Array, Declared

_SLACK, _MAX_STEP, _SLOW = 0.5, 4.0, 0.01


class SurpriseAlarm:
    """Watch the surprise of batches.

    Examples
    --------
    >>> alarm = SurpriseAlarm()
    >>> max(alarm.update(0.0, 1.0) for _ in range(200))
    0.0
    >>> [alarm.update(9.0, 1.0) > alarm.limit for _ in range(5)]
    [False, False, False, False, True]
    """

    learnt: ClassVar[Declared] = {
        "total": Array(low=0.0),
        "mean": Array(),
        "variance": Array(low=0.0),
        "batches": Array(low=0.0),
    }

    def __init__(self, limit: float = 15.0, warm_up: int = 100) -> None:
        self.limit, self.warm_up = limit, warm_up
        self.restart()

    def restart(self) -> None:
        """Start again, after an alarm."""
        self.total, self.mean, self.variance, self.batches = 0.0, 0.0, 1.0, 0.0

    def update(self, surprise: float, variance: float) -> float:
        """Take in a batch."""
        z = surprise / math.sqrt(variance + 1e-9)
        self.batches += 1.0
        young = self.batches <= self.warm_up
        step = min((z - self.mean) / math.sqrt(max(self.variance, 1.0)), _MAX_STEP) - _SLACK
        self.mean += (z - self.mean) * (1.0 / self.batches if young else _SLOW)
        excess = (z - self.mean) ** 2 - self.variance
        self.variance += excess * (1.0 / max(self.batches, 5.0) if young else _SLOW)
        self.total = 0.0 if young else max(self.total + step, 0.0)
        return self.total
