"""Is a difference between selectors more than chance? A paired test over pieces of a stream."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.evaluation.comparison import Outcome


def paired(outcomes: dict[str, Outcome]) -> dict[str, Outcome]:
    """Test all outcomes but the first against the first.

    Parameters
    ----------
    outcomes : dict of str to Outcome
        Of each selector; the first is the reference.

    Returns
    -------
    dict of str to Outcome
        The same, with the results of the test, and only those pieces that have a score for all.
    """
    # In a piece without the positive class, f1 is undefined.
    defined = ~np.isnan([one.pieces for one in outcomes.values()]).any(axis=0)
    compared = {name: replace(one, pieces=one.pieces[defined]) for name, one in outcomes.items()}
    (first, reference), *others = compared.items()
    p_values = holm([_signed_rank(one.pieces - reference.pieces) for _, one in others])
    found = {first: reference}
    for (name, one), p in zip(others, p_values.tolist(), strict=True):
        difference = one.pieces - reference.pieces
        found[name] = replace(
            one,
            difference=float(difference.mean()) if len(difference) else math.nan,
            won=int((difference > 0).sum()),
            lost=int((difference < 0).sum()),
            p_value=p,
        )
    return found


def holm(p_values: npt.ArrayLike) -> Floats:
    """The p-values of several tests, corrected for their number as Holm did (1979).

    If no difference is real, one of them is below alpha with a probability of alpha at most.

    Parameters
    ----------
    p_values : array-like
        In any order.

    Returns
    -------
    ndarray
        In the same order.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    factors = np.arange(len(p), 0, -1)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected


def _signed_rank(difference: Floats) -> float:
    if not difference.any():
        return 1.0  # there is nothing to rank
    from scipy.stats import wilcoxon

    return float(wilcoxon(difference).pvalue)
