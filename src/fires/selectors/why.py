"""Why so many features are selected, in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist

import numpy as np

from fires.core.belief import Belief
from fires.core.types import Mask, Places
from fires.selectors.confident import LEVEL, Distances, best_of_the_rest


def above_noise(belief: Belief, n_classes: int = 1) -> Mask:
    """Which importances chance alone would hardly move so far, for any of all features.

    With 500 features of noise, the 95 % interval leaves out 0 for some 25 of them, and these are
    among the first. So the interval that is asked is one of 1 - 0.05 / n, with n features, times
    the classes.

    Parameters
    ----------
    belief : Belief
        The mean and the standard deviation of each importance.
    n_classes : int
        How many classes each importance is the greatest of.

    Returns
    -------
    ndarray of bool

    Examples
    --------
    >>> above_noise(Belief(np.array([0.3, -0.5]), np.array([0.2, 0.2])))
    array([False,  True])
    """
    tail = 0.5 * 0.05 / max(len(belief.mu) * n_classes, 1)
    half_width = -NormalDist().inv_cdf(tail)
    return np.asarray(np.abs(belief.mu) > half_width * belief.sigma)


def found(known: Distances, chosen: Places, n: int, what: str, names: Callable[[int], str]) -> str:
    """The sentence where as many are selected as are significantly non-zero.

    Examples
    --------
    >>> known = Distances(np.arange(4), np.array([[9.0, 5.0, 3.1, 1.0]]), n=100)
    >>> found(known, np.array([0, 1]), 100, "features", "x{}".format)
    '2 of 100 features are significantly non-zero: the expected share of false ones is at most
     0.05; with the next, x2, it could be 0.065'
    """
    n_chosen, following = len(chosen), best_of_the_rest(known, chosen)
    is_ = "is" if n_chosen == 1 else "are"
    begin = f"{n_chosen:,} of {n:,} {what} {is_} significantly non-zero: "
    bound = f"the expected share of false ones is at most {LEVEL:g}; "
    if following is None:
        rest = "there is no other" if n_chosen == n else f"more than {n_chosen} are not looked at"
        return begin + bound + rest
    name, share = names(following.column), following.share
    if not n_chosen:
        return (
            begin + f"with the first, {name}, the expected share of false ones could be {share:.2g}"
        )
    if share <= LEVEL:
        return begin + bound + f"the next, {name}, is not yet sure enough to come in"
    return begin + bound + f"with the next, {name}, it could be {share:.2g}"


def asked_for(n_chosen: int, n: int, what: str, n_above: int | None) -> str:
    """The sentence where the user has said how many.

    Examples
    --------
    >>> asked_for(20, 200, "features", 7)
    '20 of 200 features, as asked for: 7 of them are significant'
    """
    begin = f"{n_chosen:,} of {n:,} {what}, as asked for: "
    if n_above is None:
        return (
            begin + "how many of them matter is known with a linear model and update='bayes' only"
        )
    number = "none" if not n_above else "all" if n_above == n_chosen else f"{n_above:,}"
    return begin + f"{number} of them {'is' if n_above <= 1 else 'are'} significant"
