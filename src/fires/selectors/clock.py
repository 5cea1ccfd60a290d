"""Memory as time: how far evidence fades with the rows of a batch, by when they were."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fires.core.declared import Array
from fires.core.state import Arrays
from fires.core.types import Floats

_PAUSE = 0.1  # of the memory: a longer one lets evidence fade at once, before a batch


class Clock(NamedTuple):
    """The time of the last batch, and the logarithm of what evidence has lost with each row of it.

    The time of a batch is the median of its rows. Between two batches evidence fades by
    exp(-time / memory): evenly with the rows of the later one, but for a pause before it. Where
    time stands still, nothing fades; nor does it in the first batch.

    Examples
    --------
    >>> hour = np.arange(0.0, 3600.0, 36.0)
    >>> Clock(at=-1818.0).after(hour, 100.0, memory=1e6)
    (Clock(at=1782.0, rate=3.6e-05), 1.0)
    >>> clock = Clock(at=1782.0)
    >>> day_later, kept = clock.after(hour + 86_400.0, 100.0, memory=1e5)
    >>> round(kept, 3)  # exp(-0.83): the rest of the day fades with the rows
    0.437
    """

    at: float | None = None
    rate: float = 0.0

    @classmethod
    def read(cls, arrays: Arrays) -> Clock | None:
        """The clock in a state file, if there is one."""
        saved = Array(2, optional=True).read("clock", {}, arrays, {})
        return None if saved is None else cls(float(saved[0]), float(np.clip(saved[1], 0.0, 1.0)))

    def after(self, times: Floats, weight: float, memory: float) -> tuple[Clock, float]:
        """After rows of this total weight; and what a pause before them leaves of the evidence."""
        known = times[np.isfinite(times)]
        if not len(known):
            return Clock(self.at), 1.0
        early, now, late = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
        passed = 0.0 if self.at is None else (now - self.at) / memory
        if passed <= 0.0:  # rows may come late; but a clock may also have been wrong, and is set
            return Clock(self.at if -1.0 <= passed < 0.0 else now), 1.0
        pause = passed - 2.0 * (late - early) / memory
        pause = pause if pause > _PAUSE else 0.0
        return Clock(now, min((passed - pause) / weight, 1.0)), math.exp(-pause)
