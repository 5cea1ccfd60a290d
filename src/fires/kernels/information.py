"""Sums of what rows say about several coefficients together: see :mod:`fires.models.covariance`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled


@compiled
def add_information(
    Z: Floats,
    precision: Floats,
    value: Floats,
    weight: Floats,
    gamma: float,
    information: Floats,
    pull: Floats,
) -> None:
    """Let the sums fade by the weight of a batch, then add its rows; the last column is 1."""
    n_rows, size = Z.shape
    last, kept, whole = size + 1, np.empty(n_rows), 1.0
    for b in range(n_rows - 1, -1, -1):
        kept[b] = whole * precision[b]
        whole *= gamma if weight[b] == 1.0 else gamma ** weight[b]
    # Columns: those of Z, the intercept, the value. Rows of zeros fill them up to fours.
    rows = np.zeros(((n_rows + 3) // 4 * 4, size + 2))
    weighted = np.zeros(rows.shape)
    for b in range(n_rows):
        for j in range(size):
            rows[b, j] = Z[b, j]
            weighted[b, j] = Z[b, j] * kept[b]
        rows[b, size] = 1.0
        weighted[b, size], weighted[b, last] = kept[b], kept[b] * value[b]
    for i in range(size + 1):
        pull[i] *= whole
        for j in range(i + 1):
            information[i, j] *= whole
    for b in range(0, len(rows), 4):
        x0, x1, x2, x3 = rows[b], rows[b + 1], rows[b + 2], rows[b + 3]
        for i in range(size + 1):
            w0, w1, w2, w3 = (
                weighted[b, i],
                weighted[b + 1, i],
                weighted[b + 2, i],
                weighted[b + 3, i],
            )
            line = information[i]
            for j in range(i + 1):
                line[j] += w0 * x0[j] + w1 * x1[j] + w2 * x2[j] + w3 * x3[j]
            pull[i] += (
                weighted[b, last] * x0[i]
                + weighted[b + 1, last] * x1[i]
                + weighted[b + 2, last] * x2[i]
                + weighted[b + 3, last] * x3[i]
            )
    for i in range(size + 1):
        for j in range(i):
            information[j, i] = information[i, j]


@compiled
def some_repeat_level(information: Floats, share: float) -> bool:
    """Whether there is any column of which :func:`repeats_level` is true."""
    n_rows, last = len(information), information.shape[1] - 1
    for k in range(n_rows):
        total = information[k, last, last]
        for j in range(last):
            if information[k, last, j] ** 2 > share * total * max(information[k, j, j], total):
                return True
    return False


def repeats_level(information: Floats, share: float) -> npt.NDArray[np.bool_]:
    """Of which columns the squared mean exceeds this share of the mean square, and of 1."""
    squares = np.diagonal(information, axis1=1, axis2=2)
    total = squares[:, -1:]
    least = share * total * np.maximum(squares[:, :-1], total)
    return np.asarray(information[:, -1, :-1] ** 2 > least)
