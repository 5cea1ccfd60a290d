"""Missing and infinite entries, counted in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.kernels._compile import compiled


@compiled
def _taint(values: npt.NDArray[np.floating[Any]]) -> float:
    """Zero if every value is finite, NaN otherwise: ``x * 0`` tells, and adds up fast."""
    total = 0.0
    for i in range(len(values)):
        total += values[i] * 0.0
    return total


def scan(values: npt.NDArray[np.floating[Any]]) -> tuple[int, int]:
    """How many entries are missing (NaN) and how many infinite.

    Examples
    --------
    >>> scan(np.array([[1.0, np.nan], [np.inf, np.nan]]))
    (2, 1)
    """
    if values.flags.c_contiguous or values.flags.f_contiguous:
        flat = values.ravel(order="K").view()
        flat.flags.writeable = False
        if _taint(flat) == 0.0:
            return 0, 0
    return int(np.isnan(values).sum()), int(np.isinf(values).sum())
