"""What is measured on, and how a figure is written down."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing import get_context
from typing import Any

import numpy as np

THREAD_POOLS = tuple(f"{pool}_NUM_THREADS" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA"))


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

    def __call__(self, n_features_to_select: int, **asked: Any) -> Any:
        """A fresh selector."""
        module, name = self.selector.split(":")
        kind = import_module(module)
        for part in name.split("."):
            kind = getattr(kind, part)
        return kind(n_features_to_select, **(asked | self.settings))


@dataclass(frozen=True)
class Bench:
    """A selector, how many seeds it is measured with, and how many processes work at a time."""

    make: Maker = Maker()
    n_seeds: int | None = None
    n_jobs: int = 1

    def seeds(self, default: int) -> range:
        """The seeds 0, 1, 2, ...; as many as were asked for, or as the part needs."""
        return range(self.n_seeds or default)

    def map(self, measure: Callable[..., Any], cases: Iterable[Sequence[Any]]) -> list[Any]:
        """``measure(make, *case)`` for every case, in order."""
        cases = list(cases)
        if self.n_jobs == 1:
            return [measure(self.make, *case) for case in cases]
        with ProcessPoolExecutor(self.n_jobs, mp_context=get_context("spawn")) as pool:
            return [
                pending.result()
                for pending in [pool.submit(measure, self.make, *case) for case in cases]
            ]


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


def on_one_thread() -> None:
    """Pin every thread pool, before NumPy loads: several in one process slow each other down."""
    for pool in THREAD_POOLS:
        os.environ[pool] = "1"
