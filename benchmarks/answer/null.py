"""``compare`` on selectors that are equal: two random ones with different seeds.

A test at level 0.05 may call the difference real in one trial of twenty. Every trial is another
stream and another pair.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from fires import RandomFeatures
from fires.evaluation.compare import compare
from fires.streams.synthetic import KnownTruth

TITLE = "how often two equal random selectors are called different"
N_TRIALS, AT_A_TIME = 200, 10


def rejections(_: Maker, first: int, fixed: bool) -> list[bool]:
    """Whether each of ten trials called a difference real."""
    return [rejected(trial, fixed) for trial in range(first, first + AT_A_TIME)]


def rejected(trial: int, fixed: bool) -> bool:
    """Whether this trial did.

    ``fixed``: each selector keeps its seed, and so its set, in all runs of the trial. Otherwise it
    gets another one with every run.
    """

    def one(which: int) -> Callable[[int], RandomFeatures]:
        seeds = np.random.default_rng([trial, which]).integers(2**31, size=100).tolist()
        return lambda seed: RandomFeatures(5, random_state=seeds[0 if fixed else seed])

    found = compare(
        lambda: KnownTruth(2_000, 20, 5, random_state=trial),
        {"a": one(0), "b": one(1)},
        batch_size=50,
    )
    return bool(found["b"].p_value < 0.05)


def measure(bench: Bench) -> list[Figure]:
    """Another seed for every run, which is judged; and fixed sets, which do differ a little."""
    figures = []
    for fixed, n_trials in ((False, N_TRIALS), (True, N_TRIALS // 4)):
        cases = [(first, fixed) for first in range(0, n_trials, AT_A_TIME)]
        shares = [float(np.mean(trials)) for trials in bench.map(rejections, cases)]
        what = "one seed for all runs" if fixed else "another seed for every run"
        asked = "" if fixed else "<= 0.08"
        figures.append(judged(f"{what}: share of {n_trials} trials rejected", shares, asked))
    return figures
