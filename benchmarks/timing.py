"""How time is taken, and how it is shown.

Times mean little on a shared machine, ratios of them more. What is compared takes turns within one
run, in an order that rotates, and the clock is the processor's: what others do with it meanwhile
is not counted. They still slow us down, through the caches, and never speed us up; so the ratio of
the minima is the figure that counts. Eight times over, on two cores with four busy processes, it
varied by 1 to 5 %, and the ratio of the medians by 2 to 5 %; by the clock on the wall these were
1 to 25 % and 2 to 34 %. The medians moreover follow the load: one run's quartiles lie up to a half
apart. They stand beside, as the ratio of the medians and the quartiles of the rounds' ratios.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from time import thread_time

import numpy as np
import numpy.typing as npt

Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Ratio:
    """How many times longer one thing takes than another, over rounds in which both had a turn."""

    value: float  # of the minima
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, long: Seconds, short: Seconds) -> Ratio:
        """The ratio of the times of the same rounds."""
        low, high = np.quantile(long / short, [0.25, 0.75])
        median = np.median(long) / np.median(short)
        return cls(long.min() / short.min(), median, low, high)

    def __str__(self) -> str:
        return f"{self.value:.3g} (median {self.median:.3g}, {self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class Row:
    """One line of a table; ``asked`` is empty where a figure is only reported."""

    what: str
    size: str
    time: str
    ratio: Ratio | str = ""
    asked: str = ""
    reached: bool | None = None


def take_turns(
    things: Mapping[str, Callable[[int], object]],
    rounds: int,
    calls: int = 1,
    untimed: int = 1,
    clock: Callable[[], float] = thread_time,
) -> dict[str, Seconds]:
    """The seconds a call takes, for every thing and round.

    A thing is called with 0, 1, 2, ..., by which it chooses its batch. The first calls of a turn
    are not timed: they take back the caches from the others.
    """
    names = list(things)
    seconds = {name: np.empty(rounds) for name in names}
    gc.disable()
    try:
        for r in range(rounds):
            turn, first = r % len(names), r * (untimed + calls)
            for name in names[turn:] + names[:turn]:
                thing = things[name]
                for i in range(first, first + untimed):
                    thing(i)
                begin = clock()
                for i in range(first + untimed, first + untimed + calls):
                    thing(i)
                seconds[name][r] = (clock() - begin) / calls
            gc.collect(0)
    finally:
        gc.enable()
    return seconds


def shown(seconds: Seconds | float) -> str:
    """A time (of several, the shortest) in a unit that reads well."""
    value = float(np.min(seconds))
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-6:.3g} us"


def show(title: str, rows: Iterable[Row]) -> list[Row]:
    """Print a table, and hand its rows on to be counted."""
    rows = list(rows)
    lines = [("what", "size", "time", "ratio", "asked", "reached")]
    for row in rows:
        reached = "" if row.reached is None else "yes" if row.reached else "NO"
        lines.append((row.what, row.size, row.time, str(row.ratio), row.asked, reached))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(title)
    for line in lines:
        print("  " + " | ".join(map(str.ljust, line, widths)).rstrip())
    print(flush=True)
    return rows
