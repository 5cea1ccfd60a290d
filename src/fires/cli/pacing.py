"""Rows of a file as if they came live: no more than so many a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar


class _Rows(Protocol):
    @property
    def n_rows(self) -> int:
        """How many."""


Rows = TypeVar("Rows", bound=_Rows)


def paced(
    batches: Iterator[Rows],
    rows_per_second: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[Rows]:
    """Hand out batches no faster than at a given rate.

    The first batch comes at once, and each after it when the rows of the one before are due. Time
    that is lost, since whoever learns from them is slow or was stopped, or since the source had
    none, is not made up for.

    It waits before it asks for a batch. So while it waits, the source is where the last batch ended
    that was handed out, and a signal that ends the wait loses no rows.
    """
    due = clock()
    while True:
        if (left := due - clock()) > 0:
            sleep(left)
        asked = clock()
        if (batch := next(batches, None)) is None:
            return
        lasts = batch.n_rows / rows_per_second
        came = clock()
        # A batch that is at hand takes no time; one that was waited for starts the clock anew.
        due = (came if came - asked > lasts else asked) + lasts
        yield batch
