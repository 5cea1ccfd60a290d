"""Missing, infinite and huge entries, found in one pass."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.validation import LARGEST
from fires.kernels.compiling import compiled, load_compiled


@compiled
def _count_strange(values: npt.NDArray[np.floating]) -> float:
    """How many values are missing, infinite or larger than LARGEST."""
    strange = 0.0
    for i in range(len(values)):
        strange += 0.0 if abs(values[i]) <= LARGEST else 1.0  # also counts NaN
    return strange


_EMPTY = np.zeros(0)
_EMPTY.flags.writeable = False
load_compiled(_count_strange, _EMPTY)


def scan(values: npt.NDArray[np.floating]) -> tuple[int, int, int]:
    """How many entries are missing (NaN), how many infinite, how many huge.

    Examples
    --------
    >>> scan(np.array([[1.0, np.nan], [np.inf, 1e200], [0.0, np.nan]]))
    (2, 1, 1)
    """
    if values.flags.c_contiguous or values.flags.f_contiguous:
        flat = values.ravel(order="K").view()
        flat.setflags(write=False)
        if _count_strange(flat) == 0.0:
            return 0, 0, 0
    n_infinite = int(np.isinf(values).sum())
    n_large = int((np.abs(values) > np.float64(LARGEST)).sum())
    return int(np.isnan(values).sum()), n_infinite, n_large - n_infinite
