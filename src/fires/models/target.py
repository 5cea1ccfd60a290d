"""The target of a stream as a linear model wants it, and what is known of its level."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.declared import Array, collect, restore
from fires.core.state import Arrays, part_of, under
from fires.kernels import accumulate
from fires.models.families import FAMILIES
from fires.scaling.dense import Standard


class Target:
    """Labels as signs, numbers standardised, and the level that predictions start from.

    Parameters
    ----------
    family : str
        Whose target it is.
    n_rows : int
        Rows of parameters: one, or one per class.
    scaled : bool
        Whether numbers are standardised by what the batches before have shown.
    levelled : bool
        Whether predictions start from the running share of the classes, or mean of the counts.
    """

    def __init__(self, family: str, n_rows: int, *, scaled: bool, levelled: bool) -> None:
        self.family = FAMILIES[family]
        self.kind = self.family.kind
        self.n_rows, self.levelled = n_rows, levelled
        self.class_weight = np.zeros(max(n_rows, 2))  # one row counts its negatives first
        self.scale = Standard(1) if scaled and self.kind != "classes" else None

    def look(self, y: npt.NDArray[Any], weight: Floats) -> tuple[Floats, Floats | None]:
        """The target in one row per row of parameters, and the level to start from, if any.

        The level comes from the batches before, and for the first batch from itself; it is in
        units of the prediction's own spread, see :func:`start`.
        """
        if self.kind == "classes":
            return signed(y, self.n_rows), self._level(y, weight) if self.levelled else None
        target = np.asarray(y, dtype=np.float64)[None, :]
        if self.scale is None:
            return target, None
        scale = self.scale if self.scale.ready else self._begun(y, weight)
        if self.kind == "numbers":
            return (target - scale.shift) * scale.gain, None
        level = np.log(np.maximum(scale.shift, 0.5 / scale.count))
        return target, level if self.levelled else None

    def _level(self, y: npt.NDArray[Any], weight: Floats) -> Floats:
        """Where predictions start from, by the shares of the classes."""
        seen = self.class_weight.tolist()
        if not any(seen):
            seen = self._per_class(y, weight).tolist()
        if self.n_rows == 1:
            return np.array([self.family.level_of_share(*seen)])
        total = sum(seen)
        return np.array([self.family.level_of_share(total - one, one) for one in seen])

    def count(self, y: npt.NDArray[Any], weight: Floats) -> None:
        """Learn from a batch, once it has been looked at."""
        if self.kind == "classes":
            self.class_weight += self._per_class(y, weight)
        elif self.scale is not None and self.scale.ready:
            column = np.asarray(y, dtype=np.float64)[:, None]
            sums = accumulate(column, weight, weight, self.scale.shift)
            self.scale.absorb(column, *sums, weight, missing=False)
        elif self.scale is not None:
            self.scale = self._begun(y, weight)

    def with_rows(self, sources: list[tuple[int, float] | None]) -> Target:
        """A copy for rows that are old rows times a sign, or fresh where there is no source."""
        other = object.__new__(Target)
        vars(other).update(vars(self))
        other.n_rows, other.class_weight = len(sources), np.zeros(max(len(sources), 2))
        if len(sources) == 1:
            flipped = sources[0] is not None and sources[0][1] < 0.0
            other.class_weight[:] = self.class_weight[::-1] if flipped else self.class_weight
            return other
        for row, source in enumerate(sources):
            if source is not None:
                old, sign = source
                counted = old if self.n_rows > 1 else int(sign > 0.0)
                other.class_weight[row] = self.class_weight[counted]
        return other

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        scale = {} if self.scale is None else collect(self.scale, Standard.learnt)[1]
        return {"class_weight": self.class_weight} | under("scale", scale)

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError unless the arrays fit together."""
        restore(self, {"class_weight": Array(max(self.n_rows, 2), low=0.0)}, {}, arrays, {})
        if self.scale is not None:
            restore(self.scale, Standard.learnt, {}, part_of("scale", arrays), {"J": 1})
            self.scale.refresh()

    def _per_class(self, y: npt.NDArray[Any], weight: Floats) -> Floats:
        return np.asarray(np.bincount(y, weight, len(self.class_weight)), dtype=np.float64)

    def _begun(self, y: npt.NDArray[Any], weight: Floats) -> Standard:
        scale = Standard(1)
        scale.begin(np.asarray(y, dtype=np.float64)[:, None], weight, missing=False)
        return scale


_SIGNS: Floats = np.array([-1.0, 1.0])


def signed(codes: npt.NDArray[Any], n_rows: int) -> Floats:
    """Class codes as -1 and +1: code 1 against 0 in one row, or each class against the rest.

    Examples
    --------
    >>> signed(np.array([0, 1]), 1)
    array([[-1.,  1.]])
    >>> signed(np.array([0, 2]), 3)
    array([[ 1., -1.],
           [-1., -1.],
           [-1.,  1.]])
    """
    if n_rows == 1:
        signs: Floats = _SIGNS[codes]
        return signs[None]
    return np.where(codes == np.arange(n_rows)[:, None], 1.0, -1.0)


def start(width: float, level: Floats, v: Floats) -> tuple[Floats, Floats]:
    r"""What to predict when only the level of the target is known, and its slope in v.

    For the probit :math:`a_0 = \Phi^{-1}(\text{share}) \sqrt{1 + v}`, since then
    :math:`\mathbb{E}\, \Phi(\theta) = \text{share}` exactly; for the logistic nearly so, by
    MacKay's approximation; for counts the logarithm of their mean. The definition of what
    :func:`fires.kernels.rows.pull_rows_plain` adds.
    """
    root = np.sqrt(1.0 + width * v)
    return level * root, level * (0.5 * width / root)
