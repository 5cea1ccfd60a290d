"""OFS and two relatives: linear learners with at most k coefficients that are not zero."""

from __future__ import annotations

import math
from typing import ClassVar

from fires.core.declared import Array, Declared
from fires.core.settings import check_choice, check_number
from fires.core.types import Floats
from fires.kernels import sequential
from fires.rivals.rows.base import RowArrays, RowByRowSelector

_DRAWS = 1 << 20  # random numbers held at once


class Truncated(RowByRowSelector):
    """A coefficient per feature, and the list of the features whose coefficient is not zero."""

    _loops = (sequential.ofs_rows, sequential.ofs_csr)
    _learnt: ClassVar[Declared] = {**RowByRowSelector._learnt, "theta": Array(1, "J")}

    _starts = (0.0,)

    def _perceive(
        self,
        rows: RowArrays,
        signs: Floats,
        rate: float,
        keep: float,
        radius: float,
        threshold: float,
    ) -> bool:
        place, before = self._room(rows)
        settings = (self._resolve_k(), (rate, keep, radius, threshold))
        n: int = self._loop(rows)(*rows, signs, *self._theta_, place, before, *settings)
        self._kept_ = place[: max(n, 0)].copy()
        return n >= 0


class OFS(Truncated):
    r"""Online feature selection by sparse projection (Wang et al., 2014).

    A row with label y = ±1 and margin :math:`y\, w^\top x \le 1` moves the coefficients,

    .. math::
        w \leftarrow w + \eta y x, \qquad
        w \leftarrow w \min\!\left(1, \frac{1}{\sqrt{\lambda} \lVert w \rVert_2}\right), \qquad
        w \leftarrow \text{the k greatest of } |w_j| \text{, else } 0

    and other rows change nothing. Features are ranked by :math:`|w_j|`. While fewer than k
    coefficients differ from zero, the selection is filled up with the first columns.

    This is the step of the authors' own program, which most comparisons use. ``shrink=True`` gives
    the paper's step, in which every row first multiplies w by :math:`1 - \lambda \eta`.

    X is not scaled: bring the columns to one scale, and centre them, since there is no
    intercept. A missing entry counts as 0. A sparse row with m entries costs O(m + k).

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    learning_rate : float, default=0.2
        :math:`\eta`.
    regularization : float, default=0.01
        :math:`\lambda`: the coefficients stay within a ball of radius :math:`1/\sqrt{\lambda}`.
    shrink : bool, default=False
        Follow the paper instead of the authors' program.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|w|`, w and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    J. Wang, P. Zhao, S. C. H. Hoi, R. Jin, "Online Feature Selection and Its Applications", IEEE
    Transactions on Knowledge and Data Engineering 26(3), 698-710, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = OFS(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        learning_rate: float = 0.2,
        regularization: float = 0.01,
        shrink: bool = False,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.learning_rate = learning_rate
        self.regularization = regularization
        self.shrink = shrink

    def _check_parameters(self) -> None:
        check_number("learning_rate", self.learning_rate)
        check_number("regularization", self.regularization)
        check_choice("shrink", self.shrink, (False, True))
        if self.shrink and not self.learning_rate * self.regularization < 1.0:
            raise ValueError(
                "learning_rate times regularization must be below 1 where every row shrinks the "
                f"coefficients; got {self.learning_rate!r} times {self.regularization!r}."
            )

    def _run(self, rows: RowArrays, signs: Floats) -> bool:
        rate, strength = float(self.learning_rate), float(self.regularization)
        keep = 1.0 - strength * rate if self.shrink else 1.0
        return self._perceive(rows, signs, rate, keep, 1.0 / math.sqrt(strength), threshold=1.0)
