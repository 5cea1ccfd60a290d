"""How long batches take: the usual time and the worst, in memory that does not grow."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

import numpy as np

from fires.core.types import Floats, Header

_LEAST, _MAX = 1e-6, 1e6  # seconds; times beyond count as these
_GROWTH = 1.02  # from one bucket to the next: so a time is known to 1 %


class Latencies:
    """The seconds from when a batch is at hand to when its step is done.

    Times are counted in buckets, each 2 % wider than the one before it, some 1,400 in all.

    Examples
    --------
    >>> latencies = Latencies()
    >>> for milliseconds in range(1, 101):
    ...     latencies.add(milliseconds / 1000)
    >>> round(latencies.quantile(0.5), 3), latencies.as_dict()["max"]
    (0.05, 0.1)
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._max = 0.0
        self._began: float | None = None

    def begin(self, *_: object) -> None:
        """A batch is at hand."""
        self._began = time.perf_counter()

    def end(self) -> float | None:
        """Its step is done."""
        if self._began is None:
            return None
        seconds, self._began = time.perf_counter() - self._began, None
        self.add(seconds)
        return seconds

    def add(self, seconds: float) -> None:
        """Count one batch in."""
        within = min(max(seconds, _LEAST), _MAX)
        self._counts[math.floor(math.log(within / _LEAST, _GROWTH))] += 1
        self._max = max(self._max, seconds)

    def add_all(self, seconds: Floats) -> None:
        """Count many batches in at once."""
        within = np.clip(seconds, _LEAST, _MAX)
        buckets = np.floor(np.log(within / _LEAST) / math.log(_GROWTH)).astype(np.int64)
        for bucket, count in zip(*np.unique(buckets, return_counts=True), strict=True):
            self._counts[int(bucket)] += int(count)
        self._max = max(self._max, float(seconds.max(initial=0.0)))

    def quantile(self, share: float) -> float:
        """The time that this share of the batches did not exceed, to 1 %."""
        left = math.ceil(share * self._counts.total())
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                return min(_LEAST * math.pow(_GROWTH, bucket + 0.5), self._max)
        return math.nan

    def as_dict(self) -> dict[str, float | None]:
        """What a summary tells."""
        if not self._counts:
            return {"p50": None, "p99": None, "max": None}
        return {"p50": self.quantile(0.5), "p99": self.quantile(0.99), "max": self._max}

    def state(self) -> Header:
        """What to save with a checkpoint."""
        return {"counts": sorted(self._counts.items()), "max": self._max}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where an earlier run was."""
        self._counts = Counter({int(bucket): int(count) for bucket, count in state["counts"]})
        self._max = float(state["max"])
