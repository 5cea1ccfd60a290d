"""What methods share that count rows, class by class: forgetting, new classes, sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.core.classes import encode
from fires.core.settings import check_number


def faded(weight: Floats | None, n_rows: int, forgetting: float) -> tuple[Floats, float]:
    """What each row of a batch counts once its last was seen, and what is left of all before.

    A row of weight w is w rows in turn: together they count the sum of w powers of what one row
    leaves of another, and w may be a fraction all the same.

    Examples
    --------
    >>> mass, keep = faded(None, 3, 0.5)
    >>> mass, round(keep, 12)
    (array([0.25, 0.5 , 1.  ]), 0.125)
    >>> faded(np.array([1.0, 2.0]), 2, 0.5)[0]
    array([0.25, 1.5 ])
    """
    weight = np.ones(n_rows) if weight is None else weight
    if not forgetting:
        return weight, 1.0
    rate = np.log1p(-forgetting)
    after = np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0)
    mass = np.exp(rate * after) * np.expm1(rate * weight) / -forgetting
    return mass, float(np.exp(rate * weight.sum()))


def check_forgetting(value: Any) -> None:
    """Raise if it is no share."""
    check_number("forgetting", value, high=1.0, ends="[)", wanted="a number from 0 to below 1")


def grown(table: Floats, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> Floats:
    """A table of one row per class with rows of zeros for the classes that are new.

    Examples
    --------
    >>> grown(np.array([[1.0], [2.0]]), np.array(["a", "c"]), np.array(["a", "b", "c"])).tolist()
    [[1.0], [0.0], [2.0]]
    """
    new = np.zeros((len(after), *table.shape[1:]))
    new[encode(before, after)] = table
    return new


def rows_by_class(codes: Any, n_classes: int, mass: Floats) -> Any:
    """A CSR matrix with a row per class, that sums the rows of a batch when multiplied with it."""
    places = (codes, np.arange(len(codes)))
    return sp.csr_array((mass, places), shape=(n_classes, len(codes)))
