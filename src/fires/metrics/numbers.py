"""How well are numbers predicted? R2 and the mean absolute error, from running sums."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.errors import TargetError
from fires.core.types import Numbers

NUMBER_SCORES = ("r2", "mae")
"""The scores of numbers that are built in."""


class NumberMoments(NamedTuple):
    """What is known of a batch of numbers and of their predictions."""

    n: int
    mean: float
    spread: float
    error: float
    squares: float


class NumberSums:
    r"""R2 and the mean absolute error of each batch, and of all rows so far.

    With numbers :math:`y_i`, predictions :math:`\hat y_i` and the mean :math:`m_i` of all numbers
    in the batches before that of row i (for the first batch, its own mean):

    .. math::
        R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - m_i)^2}, \qquad
        \text{MAE} = \operatorname*{mean}_i |y_i - \hat y_i|

    The sums run over the rows of a batch, or over all rows so far: the R2 of a stream is not a mean
    over batches. :math:`m_i` is what one can know before a batch without any feature, so an R2
    above 0 says that the features help. For the first batch alone it is scikit-learn's
    ``r2_score``. What is undefined is NaN: both scores of no rows, and R2 if no :math:`y_i` differs
    from :math:`m_i`.
    """

    def __init__(self) -> None:
        # Rows, their mean, and the sums of errors, squared errors and squares about the mean.
        self.sums: Floats = np.zeros(5)

    def update(self, y: Numbers, predicted: Numbers) -> dict[str, float]:
        """Add a batch, and score it by itself."""
        n = len(y)
        if n == 0:
            return _scores(np.zeros(5))
        own, error = y.astype(np.float64), np.subtract(y, predicted, dtype=np.float64)
        with np.errstate(over="ignore"):
            sums = (
                np.abs(error).sum(),
                (error**2).sum(),
                ((own - self._known(own.mean())) ** 2).sum(),
            )
        return self._add(n, float(own.mean()), *sums)

    def add(self, batch: NumberMoments) -> dict[str, float]:
        """Add a batch of which sums are known, and score it by itself."""
        n, mean, spread, error, squares = batch
        if n == 0:
            return _scores(np.zeros(5))
        with np.errstate(over="ignore"):
            about = spread + n * (np.float64(mean) - self._known(mean)) ** 2
        return self._add(n, mean, error, squares, about)

    def _known(self, mean: float) -> float:
        """The mean of all numbers before; that of the batch, if it is the first."""
        return float(self.sums[1]) if self.sums[0] else mean

    def _add(self, n: int, mean: float, *sums: float) -> dict[str, float]:
        rows, before = self.sums[:2].tolist()
        added = np.array([n, 0.0, *sums])
        self.sums = self.sums + added
        self.sums[1] = before + n * (mean - before) / (rows + n)
        return _scores(added)

    @property
    def total(self) -> dict[str, float]:
        """Both scores over all rows so far."""
        return _scores(self.sums)


def _scores(sums: Floats) -> dict[str, float]:
    rows, _, error, squares, about_mean = sums.tolist()
    return {
        "r2": 1.0 - squares / about_mean if about_mean > 0.0 else math.nan,
        "mae": error / rows if rows else math.nan,
    }


def check_numbers(values: npt.NDArray[np.generic], name: str) -> None:
    """Raise an error unless these are finite numbers."""
    if values.dtype.kind not in "fiub":
        given = f" such as {values.tolist()[0]!r}" if len(values) else ""
        raise TargetError(f"{name} holds labels{given}, and r2 and mae are scores of numbers.")
    if not np.isfinite(values).all():
        raise TargetError(f"{name} holds a number that is not finite: there is no r2 and no mae.")
