"""What a selector says of curves and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from fires.core.types import Floats, Matrix, Places
from fires.models.base import JointPosterior, Learner
from fires.models.relations import RelationsLearner
from fires.models.wide import Effects

_SPAN = 2.0  # normal scores between which a curve is shown: 95 % of the rows
_POINTS, _REACH = 241, 3.0  # of the curve that rows are looked up in; beyond its ends it is level


class FeatureCurve(NamedTuple):
    """What a feature adds to the linear predictor, at some of its values, with a band.

    The mean over the rows between the first and the last value is 0. ``low`` and ``high`` hold the
    true curve at each value with the probability that was asked for.
    """

    values: Floats
    effect: Floats
    low: Floats
    high: Floats


class Contributions(NamedTuple):
    """What each selected feature adds to the linear predictor of each row, with its interval."""

    effect: Any
    low: Any
    high: Any


class Pair(NamedTuple):
    """Two features whose product adds to the linear predictor.

    The importance is that of the standardised product of their normal scores: positive if they
    favour the greater label where both are high, or both are low. With several classes, it is
    that of the class for which the pair matters most.
    """

    first: int | str
    second: int | str
    importance: float
    low: float
    high: float


def effects_of(learner: Learner) -> Effects | None:
    """The curves and pairs of a learner; None if it has lines only."""
    return learner.effects() if isinstance(learner, RelationsLearner) else None


def curve_of(
    effects: Effects | None,
    column: int,
    row: int | None,
    confidence: float,
    n_points: int,
    span: float = _SPAN,
) -> FeatureCurve:
    """The curve of a column, for one row of parameters; None for that in which it matters most."""
    if effects is None:
        raise AttributeError("curve is for relations='curves', 'pairs' or 'auto'.")
    values, effect, deviation = effects.curve(column, np.linspace(-span, span, n_points))
    if row is None:
        row = int(np.ptp(effect, axis=1).argmax())
    half = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * deviation[row]
    return FeatureCurve(values, effect[row], effect[row] - half, effect[row] + half)


def pairs_of(effects: Effects, names: Sequence[Any]) -> list[Pair]:
    """The pairs, the strongest first, with their 95 % intervals."""
    mu, sigma = effects.pairs()
    best = (np.abs(mu) - sigma).argmax(axis=0)
    at = best, np.arange(len(best))
    half = NormalDist().inv_cdf(0.975) * sigma[at]
    found = zip(effects.terms.pairs.tolist(), mu[at].tolist(), half.tolist(), strict=True)
    return [
        Pair(names[i], names[j], mean, mean - width, mean + width)
        for (i, j), mean, width in sorted(found, key=lambda pair: -abs(pair[1]))
    ]


def contributions_of(
    learner: Learner,
    posterior: JointPosterior,
    rows: Matrix,
    columns: Places,
    row: int | None,
    confidence: float,
) -> Contributions:
    """What some columns add to the linear predictor of each row; pairs do not count.

    For one row of parameters; None stands, column by column, for that in which it matters most.
    """
    effects, width = effects_of(learner), NormalDist().inv_cdf(0.5 + 0.5 * confidence)
    lines = posterior.by_class() if effects is None else effects.lines()
    mu, sigma = (part[:, columns] for part in lines)
    best = (np.abs(mu) - sigma).argmax(axis=0) if row is None else np.full(len(columns), row)
    at = best, np.arange(len(columns))
    taken, units = _taken(rows, columns), posterior.units_of(columns)
    scaled = taken
    if units is not None:
        scaled = (taken - units[0]) * units[1]
    elif learner.scaler.dense.ready:
        scaled = _taken(learner.scaler.applied(rows), columns)
    scaled = np.nan_to_num(scaled)
    effect, half = mu[at] * scaled, width * sigma[at] * np.abs(scaled)
    low, high = effect - half, effect + half
    for i in np.flatnonzero(np.isin(columns, [] if effects is None else effects.terms.curved)):
        values, *curve = curve_of(effects, int(columns[i]), row, confidence, _POINTS, _REACH)
        for part, shape in zip((effect, low, high), curve, strict=True):
            height = np.interp(taken[:, i], values, shape)
            part[:, i] = np.where(np.isnan(taken[:, i]), 0.0, height)
    return Contributions(effect, low, high)


def _taken(rows: Matrix, columns: Places) -> Floats:
    return rows[:, columns] if isinstance(rows, np.ndarray) else rows[:, columns].toarray()
