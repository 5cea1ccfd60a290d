"""A set of features, however it is given."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def as_indices(selected: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The indices of a set of features."""
    given = np.asarray(selected)
    if given.dtype == bool:
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            "A set of features must be a list of integer indices or a mask of booleans, not "
            f"{given.dtype} of shape {given.shape}."
        )
    if len(set(given.tolist())) < given.size:
        raise ValueError("An index occurs twice in one set; a 0-1 mask must be boolean.")
    return given.astype(np.int64)
