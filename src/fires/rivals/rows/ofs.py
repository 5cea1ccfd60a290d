"""OFS and two relatives: linear learners with at most k coefficients that are not zero."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import field
from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared, Random
from fires.core.randomness import generator, random_state
from fires.core.settings import flag, number
from fires.core.types import Floats, Seed
from fires.kernels import sequential
from fires.kernels.linear import Rows
from fires.kernels.online import Four
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


class Truncated(RowByRowSelector):
    """A coefficient per feature, and the list of the features whose coefficient is not zero."""

    _learnt: ClassVar[Declared] = {"theta": Array(1, "J")}

    _starts = (0.0,)

    @abstractmethod
    def _numbers(self) -> Four:
        """The rate, what is kept of a coefficient, the radius and the threshold."""

    def _run(self, rows: Rows, signs: Floats) -> bool:
        place, n = self._room(rows)
        options = (self._resolve_k(), self._numbers())
        return self._list(place, sequential.ofs(rows, signs, *self._theta_, place, n, *options))


@settings
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

    learning_rate: float = number(0.2)
    regularization: float = number(0.01)
    shrink: bool = flag(False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.shrink and not self.learning_rate * self.regularization < 1.0:
            raise ValueError(
                "learning_rate times regularization must be below 1 where every row shrinks the "
                f"coefficients; got {self.learning_rate!r} times {self.regularization!r}."
            )

    def _numbers(self) -> Four:
        rate, strength = float(self.learning_rate), float(self.regularization)
        keep = 1.0 - strength * rate if self.shrink else 1.0
        return rate, keep, 1.0 / math.sqrt(strength), 1.0


class PEtrun(Truncated):
    r"""The perceptron with truncation (Wang et al., 2014).

    A row that is misclassified, :math:`y\, w^\top x \le 0`, moves the coefficients by
    :math:`y x`. Then all but the k greatest :math:`|w_j|` become zero. Features are ranked by
    :math:`|w_j|`. It is the baseline of the paper that introduced :class:`OFS`. Its attributes,
    and what it needs of X, are the same.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).

    References
    ----------
    J. Wang, P. Zhao, S. C. H. Hoi, R. Jin, "Online Feature Selection and Its Applications", IEEE
    Transactions on Knowledge and Data Engineering 26(3), 698-710, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6], [0.9, 0, 0.1, 1]])
    >>> PEtrun(2).partial_fit(X, [1, -1, -1, 1]).importances_
    array([ 0.7,  0. , -0.8,  0. ])
    """

    def _numbers(self) -> Four:
        return 1.0, 1.0, np.inf, 0.0


@settings
class OFSPartial(Truncated):
    r"""Online feature selection that may look at k entries of a row only (Wang et al., 2014).

    With probability :math:`\varepsilon` the k features to look at are drawn at random. Otherwise
    they are those whose coefficient is not zero. Let x̃ be the part of the row that was looked at.
    A margin :math:`y\, w^\top \tilde x` up to ``threshold`` moves the coefficients along an
    unbiased estimate of the whole row,

    .. math::
        w \leftarrow w + \eta y \hat x, \qquad
        \hat x_j = \frac{\tilde x_j}{\varepsilon k / J + (1 - \varepsilon) [w_j \ne 0]}

    followed by the projection and the truncation of :class:`OFS`. While every coefficient is zero,
    the features are always drawn. The paper's text does not say whether the margin is compared
    with 0, as here, or with 1, as in :class:`OFS`.

    An entry seen by chance counts :math:`J / (\varepsilon k)` times. If few of many features are
    looked at, that factor is large, and such entries overwrite what was learnt. In a test with
    100 standardised features, 2 of them informative, k = 10 found both at a rate of 0.02 on ten of
    ten streams of 10,000 rows, and hardly ever at the paper's 0.2.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    learning_rate : float, default=0.2
        :math:`\eta`.
    exploration : float, default=0.2
        :math:`\varepsilon`, in (0, 1].
    radius : float, default=10.0
        The greatest length of w.
    threshold : float, default=0.0
        The greatest margin at which a row still moves the coefficients.
    random_state : int, Generator, RandomState or None
        For the features that are drawn.

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
    >>> selector = OFSPartial(3, learning_rate=0.02, random_state=0)
    >>> for _ in range(100):
    ...     X = rng.normal(size=(100, 20))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support()[[3, 5]]
    array([ True,  True])
    """

    learning_rate: float = number(0.2)
    exploration: float = number(0.2, high=1.0, ends="(]")
    radius: float = number(10.0, ends="(]")
    threshold: float = number(0.0, -np.inf)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {"rng": Random()}

    _rng_: np.random.Generator = field(init=False)

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._rng_ = generator(self.random_state, "ofs partial")

    def _numbers(self) -> Four:
        rate, radius = float(self.learning_rate), float(self.radius)
        return rate, float(self.exploration), radius, float(self.threshold)

    def _run(self, rows: Rows, signs: Floats) -> bool:
        k, options = self._resolve_k(), self._numbers()
        place, n = self._room(rows)
        draws = self._rng_.random((len(signs), 1 + k))
        n = sequential.ofs_partial(rows, signs, draws, *self._theta_, place, n, k, options)
        return self._list(place, n)
