r"""Is a difference between two selectors more than chance?

The runs of a comparison have their own random numbers and leave out other rows, but share most of
them. So chance enters in three ways, and the variance of the mean difference has three parts. Let
:math:`a_r` and :math:`b_r` be the scores of two selectors in run r of R, :math:`a_i` and
:math:`b_i` those in piece i of P (means over the runs), :math:`s^2` the sample variance, and
:math:`g` the agreement of a selector's runs on their last set, between 0 and 1:

.. math::
    V = \underbrace{\tfrac{1}{R}\, s^2_r(a - b)}_{\text{random numbers}}
      + \underbrace{s^2_r(\sqrt{g_a}\, a - \sqrt{g_b}\, b)}_{\text{rows learnt from}}
      + \underbrace{\tfrac{1}{P}\, s^2_i(a - b)}_{\text{rows tested}}, \qquad
    t = \frac{\bar a - \bar b}{\sqrt V}

t is compared with Student's distribution, with the degrees of freedom of Satterthwaite. The first
part alone is the usual t-test over runs. It is right for sets drawn at random, since every run
draws its own. A selector without random numbers chooses much the same set in all runs, because
they share rows: luck with these rows does not average out, and the spread over its runs counts in
full. The agreement moves between these two cases.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats
from fires.evaluation.comparison import FEWEST, Outcome


def paired(outcomes: dict[str, Outcome], sign: float = 1.0) -> dict[str, Outcome]:
    """Test all outcomes but the first against the first."""
    # In a piece without the positive class, f1 is undefined.
    defined = ~np.isnan([one.pieces for one in outcomes.values()]).any(axis=0)
    compared = {name: replace(one, pieces=one.pieces[defined]) for name, one in outcomes.items()}
    (first, reference), *others = compared.items()
    single = [p_value(one, reference) for _, one in others]
    p_values, factors = holm(single), _factors(single)
    found = {first: reference}
    for (name, one), p, factor in zip(others, p_values.tolist(), factors.tolist(), strict=True):
        by_piece = sign * (one.pieces - reference.pieces)
        low, high = interval(one, reference, 0.05 / factor)
        found[name] = replace(
            one,
            difference=one.score - reference.score,
            low=low,
            high=high,
            won=int((by_piece > 0).sum()),
            lost=int((by_piece < 0).sum()),
            p_value=p,
        )
    return found


def beaten_baselines(
    outcomes: dict[str, Outcome], baselines: Collection[str], rivals: Collection[str], sign: float
) -> dict[str, list[str]]:
    """Which selections beat what they should, at the 5 % level.

    The p-values of all these comparisons together are corrected as Holm did. With fewer than three
    runs or pieces, a better score is enough.
    """
    selections = [name for name in outcomes if name not in baselines]
    pairs = [
        (name, other)
        for other in (*baselines, *rivals)
        if other in outcomes
        for name in selections
        if name != other
    ]
    p_values = [p_value(outcomes[name], outcomes[other]) for name, other in pairs]
    found: dict[str, list[str]] = {other: [] for _, other in pairs}
    for (name, other), p in zip(pairs, holm(p_values).tolist(), strict=True):
        is_better = sign * (outcomes[name].score - outcomes[other].score) > 0.0
        if is_better and (math.isnan(p) or p < 0.05):
            found[other].append(name)
    return found


def p_value(one: Outcome, other: Outcome) -> float:
    """How often chance alone makes a difference as great as that of two selectors, or greater."""
    difference, error, freedom = _t_test(one, other)
    if math.isnan(error):
        return math.nan
    if error == 0.0:
        return 0.0 if (one.runs != other.runs).any() else 1.0
    from scipy.stats import t

    return float(2.0 * t.sf(abs(difference) / error, freedom))


def interval(one: Outcome, other: Outcome, alpha: float = 0.05) -> tuple[float, float]:
    """The differences of two selectors that the test of :func:`p_value` does not reject."""
    from scipy.stats import t

    difference, error, freedom = _t_test(one, other)
    half_width = error * float(t.isf(alpha / 2.0, freedom)) if error else error
    return difference - half_width, difference + half_width


def _t_test(one: Outcome, other: Outcome) -> tuple[float, float, float]:
    """The mean difference, its standard error (NaN if not known) and the degrees of freedom."""
    by_run, by_piece = one.runs - other.runs, one.pieces - other.pieces
    n_runs, n_pieces = len(by_run), len(by_piece)
    if min(n_runs, n_pieces) < FEWEST:
        return math.nan, math.nan, math.nan
    shared = math.sqrt(_shared(one)) * one.runs - math.sqrt(_shared(other)) * other.runs
    over_runs = by_run.var(ddof=1) / n_runs + shared.var(ddof=1)
    over_pieces = by_piece.var(ddof=1) / n_pieces
    variance = float(over_runs + over_pieces)
    parts = float(over_runs**2 / (n_runs - 1) + over_pieces**2 / (n_pieces - 1))
    freedom = variance**2 / parts if parts else math.inf
    return float(by_run.mean()), math.sqrt(variance), freedom


def _shared(one: Outcome) -> float:
    """The share of a choice that all runs have in common; to take all features is no choice."""
    return 1.0 if math.isnan(one.agreement) else min(max(one.agreement, 0.0), 1.0)


def holm(p_values: npt.ArrayLike) -> Floats:
    """The p-values of several tests, corrected for their number as Holm did (1979).

    If no difference is real, one of them is below alpha with a probability of alpha at most.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    return np.minimum(1.0, _factors(p_values) * np.asarray(p_values, dtype=np.float64))


def _factors(p_values: npt.ArrayLike) -> Floats:
    """By how much Holm's correction multiplies each p-value: by their number, or by less."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    steps = np.arange(len(p), 0, -1)
    corrected = np.maximum.accumulate(steps * p[order])
    factors = np.empty_like(p)
    factors[order] = np.divide(corrected, p[order], out=steps.astype(float), where=p[order] > 0.0)
    return factors
