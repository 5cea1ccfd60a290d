"""What a selector says of curves and pairs."""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from fires.core.types import Floats, Mask
from fires.models.base import Learner
from fires.models.relations import RelationsLearner

_SPAN = 2.0  # normal scores between which a curve is shown: 95 % of the rows


class FeatureCurve(NamedTuple):
    """What a feature adds to the linear predictor, at some of its values, with a band.

    The mean over the rows between the first and the last value is 0. ``low`` and ``high`` hold the
    true curve at each value with the probability that was asked for.
    """

    values: Floats
    effect: Floats
    low: Floats
    high: Floats


class Pair(NamedTuple):
    """Two features whose product adds to the linear predictor.

    The importance is that of the standardised product of their normal scores: positive if they
    speak for the greater label where both are high, or both are low. With several classes, it is
    that of the class for which the pair matters most.
    """

    first: int | str
    second: int | str
    importance: float
    low: float
    high: float


def curve_of(
    learner: Learner, column: int, row: int | None, confidence: float, n_points: int
) -> FeatureCurve:
    """The curve of a column, for one row of parameters; None for that in which it matters most."""
    if not isinstance(learner, RelationsLearner):
        raise AttributeError("curve is for relations='curves', 'pairs' or 'auto'.")
    values, curve = learner.curve(column, np.linspace(-_SPAN, _SPAN, n_points))
    effect, deviation = curve
    if row is None:
        row = int(np.ptp(effect, axis=1).argmax())
    half = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * deviation[row]
    return FeatureCurve(values, effect[row], effect[row] - half, effect[row] + half)


def pairs_of(learner: Learner, confidence: float = 0.95) -> list[tuple[int, int, float, float]]:
    """The two columns of each pair, its importance and the half-width of its interval."""
    if not isinstance(learner, RelationsLearner) or learner.kind != "pairs":
        return []
    assert learner.wide is not None
    mu, sigma = learner.wide.pair_belief()
    best = (np.abs(mu) - sigma).argmax(axis=0)[None]
    mean, spread = (np.take_along_axis(part, best, axis=0)[0] for part in (mu, sigma))
    half = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * spread
    found = zip(*learner.wide.pairs.T.tolist(), mean.tolist(), half.tolist(), strict=True)
    return sorted(found, key=lambda pair: -abs(pair[2]))


def kind_of(learner: Learner) -> str:
    """What the answer is made of: "linear", "curves" or "pairs"."""
    return learner.kind if isinstance(learner, RelationsLearner) else "linear"


def curved(learner: Learner, n_features: int) -> Mask:
    """Which features have a curve."""
    found = np.zeros(n_features, dtype=np.bool_)
    if isinstance(learner, RelationsLearner) and learner.kind != "linear":
        assert learner.wide is not None
        found[learner.wide.terms.curved] = True
    return found


def unsigned(learner: Learner, n_features: int) -> np.ndarray:
    """Which importances have no sign: a standard deviation, which is not negative."""
    if kind_of(learner) == "linear":
        return np.zeros(n_features, dtype=np.bool_)
    assert isinstance(learner, RelationsLearner)
    assert learner.wide is not None
    return learner.wide.turns()
