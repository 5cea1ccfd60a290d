"""Numbers as a page shows them: four digits, and nothing where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_DIGITS = 4


def rounded(values: npt.ArrayLike, digits: int = _DIGITS) -> Any:
    """Numbers with few significant digits, as JSON has them.

    A number half-way between two goes away from zero, also if it misses the middle by the last bits
    of a sum: so what is shown does not depend on the order in which numbers were added.

    Parameters
    ----------
    values : array-like of float
        Numbers of any shape.
    digits : int
        How many digits stay.

    Returns
    -------
    float, list or None
        Of the same shape; None for NaN and infinities.

    Examples
    --------
    >>> rounded([0.123456, 71.125, float("nan"), -98765.4, 0.0])
    [0.1235, 71.13, None, -98770.0, 0.0]
    >>> rounded(2 / 3)
    0.6667
    """
    given = np.asarray(values, dtype=np.float64)
    is_number = np.isfinite(given)
    size = np.abs(np.where(is_number, given, 0.0))
    with np.errstate(divide="ignore"):
        places = digits - 1 - np.floor(np.log10(size))
    places = np.clip(np.where(size > 0.0, places, 0.0), -300, 300)
    # Times and by powers above 1 only: those are exact, as far as numbers of everyday go.
    up, down = 10.0 ** np.maximum(places, 0.0), 10.0 ** np.maximum(-places, 0.0)
    whole = np.floor(size / down * up * (1.0 + 1e-11) + 0.5)
    result = np.copysign(whole / up * down, given)
    return np.where(is_number, result + 0.0, None).tolist()
