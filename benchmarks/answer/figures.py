"""What is measured on, and how a figure is written down."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Maker:
    """Makes the selector that is measured; it travels to other processes.

    Parameters
    ----------
    selector : str
        ``"module:name"`` of something that is called with the number of features to select and
        settings as keywords.
    settings : dict
        Settings in place of the defaults. They also win over those that a part asks for.
    """

    selector: str = "fires:FIRES"
    settings: dict[str, Any] = field(default_factory=dict)

    def __call__(self, n_features_to_select: int | str, **asked: Any) -> Any:
        """A fresh selector. What a part asks for is left out where there is no such setting."""
        module, name = self.selector.split(":")
        kind: Any = import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        known = inspect.signature(kind).parameters
        if not any(setting.kind is setting.VAR_KEYWORD for setting in known.values()):
            asked = {name: value for name, value in asked.items() if name in known}
        return kind(n_features_to_select, **(asked | self.settings))


@dataclass(frozen=True)
class Bench:
    """A selector, its seeds, the processes that help, if any do, and which figures are wanted."""

    make: Maker = Maker()
    n_seeds: int | None = None
    pool: Executor | None = None
    only: str = ""
    first: int = 0

    def wanted(self, what: str) -> bool:
        """Whether the name of a figure has what was asked for in it.

        A part may ask before it measures. Those that do not are filtered after it.
        """
        return self.only.lower() in what.lower()

    def seeds(self, default: int) -> range:
        """The seeds, from the first on; as many as were asked for, or as the part needs."""
        return range(self.first, self.first + (self.n_seeds or default))

    def map(self, measure: Callable[..., Any], cases: Iterable[Sequence[Any]]) -> list[Any]:
        """``measure(make, *case)`` for every case, in order."""
        if self.pool is None:
            return [measure(self.make, *case) for case in cases]
        pending = [self.pool.submit(measure, self.make, *case) for case in cases]
        return [future.result() for future in pending]


@contextmanager
def workers(n_jobs: int) -> Iterator[Executor | None]:
    """So many processes; none beside this one if it is 1."""
    if n_jobs == 1:
        yield None
        return
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as processes:
        yield processes


@dataclass(frozen=True)
class Figure:
    """One line of a table.

    Parameters
    ----------
    what : str
        What was measured.
    measured : str
        What came out.
    asked : str
        What it should be; empty where a figure is only reported.
    reached : bool or None
        Whether it is; None where nothing is asked.
    values : sequence of float
        One for each seed, for the page of ablations.
    headline : str
        Its name on that page; empty if it does not stand there.
    """

    what: str
    measured: str
    asked: str = ""
    reached: bool | None = None
    values: Sequence[float] = ()
    headline: str = ""


def judged(
    what: str,
    values: Iterable[float],
    asked: str = "",
    *,
    headline: str = "",
    take: Callable[[Any], Any] = np.mean,
    note: str = "",
    digits: int = 3,
) -> Figure:
    """A figure from one value for each seed, and ``asked``, such as ">= 4.5" or "<= 20".

    What is judged is ``take`` of the values: their mean, if nothing else is said. The spread beside
    it is their standard deviation.
    """
    values = [float(value) for value in values]
    taken = float(take(values))
    measured = f"{taken:.{digits}f}"
    if len(values) > 1:
        measured += f" (sd {np.std(values, ddof=1):.{digits}f})"
    reached = None
    if asked:
        sign, limit = asked.split()[:2]
        bound = float(limit.replace(",", ""))
        reached = bool(taken >= bound - 1e-12 if sign == ">=" else taken <= bound + 1e-12)
    return Figure(what, measured + note, asked, reached, values, headline)


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print a table."""
    lines = [("what", "measured", "asked", "reached")]
    for figure in figures:
        reached = {None: "", True: "yes", False: "NO"}[figure.reached]
        lines.append((figure.what, figure.measured, figure.asked, reached))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(title)
    for line in lines:
        print("  " + " | ".join(map(str.ljust, line, widths)).rstrip())
    print(flush=True)
