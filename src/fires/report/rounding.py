"""Numbers as a page shows them: four digits, and nothing where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_DIGITS = 4
_SMALL = 1e-15


def rounded(values: npt.ArrayLike | None, digits: int = _DIGITS) -> Any:
    """Numbers with few significant digits, as JSON has them.

    A number half-way between two goes away from zero, also if it misses the middle by the last bits
    of a sum: so what is shown does not depend on the order in which numbers were added.
    """
    table = np.asarray(values, dtype=np.float64)  # None is NaN
    given = table.ravel()
    size = np.abs(given)
    is_everyday = (size > _SMALL) & (size < 1.0 / _SMALL)
    size = np.where(is_everyday, size, 1.0)
    places = digits - 1 - np.floor(np.log10(size))
    # Times and by powers above 1 only: these are exact, for numbers of everyday.
    up, down = 10.0 ** np.maximum(places, 0.0), 10.0 ** np.maximum(-places, 0.0)
    whole = np.floor(size / down * up * (1.0 + 1e-11) + 0.5)
    result = np.copysign(whole / up * down, given).astype(object)
    result[given == 0.0] = 0.0
    result[~np.isfinite(given)] = None
    for place in np.flatnonzero(~is_everyday & (given != 0.0) & np.isfinite(given)).tolist():
        result[place] = float(f"{given[place]:.{digits}g}")
    return result.reshape(table.shape).tolist()
