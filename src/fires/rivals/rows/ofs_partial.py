"""OFS with partial input: only some features of each row are looked at."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.declared import Declared, Random
from fires.core.randomness import check_seed, generator
from fires.core.settings import check_number
from fires.core.types import Floats, Ints, Seed
from fires.kernels import sequential
from fires.rivals.rows.base import RowArrays
from fires.rivals.rows.ofs import Truncated

_DRAWS = 1 << 20  # random numbers held at once


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

    _loops = (sequential.partial_rows, sequential.partial_csr)
    _learnt: ClassVar[Declared] = {**Truncated._learnt, "rng": Random()}

    _rng_: np.random.Generator

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        learning_rate: float = 0.2,
        exploration: float = 0.2,
        radius: float = 10.0,
        threshold: float = 0.0,
        random_state: Seed = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.learning_rate = learning_rate
        self.exploration = exploration
        self.radius = radius
        self.threshold = threshold
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_number("learning_rate", self.learning_rate)
        check_number("exploration", self.exploration, high=1.0, ends="(]")
        check_number("radius", self.radius, ends="(]")
        check_number("threshold", self.threshold, low=-np.inf)
        check_seed(self.random_state)

    def _start(self) -> Floats:
        self._rng_ = generator(self.random_state, "ofs partial")
        return super()._start()

    def _run(self, rows: RowArrays, signs: Floats) -> bool:
        rng, k = self._rng_, self._resolve_k()
        before = rng.bit_generator.state
        place, n = self._room(rows)
        numbers = (self.learning_rate, self.exploration, self.radius, self.threshold)
        settings = tuple(map(float, numbers))
        many, learn = max(1, _DRAWS // (1 + k)), self._loop(rows)
        for start in range(0, len(signs), many):
            part = slice(start, start + many)
            draws = rng.random((len(signs[part]), 1 + k))
            n = learn(*_part(rows, part), signs[part], draws, *self._theta_, place, n, k, settings)
            if n < 0:
                rng.bit_generator.state = before
                return False
        self._kept_ = place[:n].copy()
        return True

    def _room(self, rows: RowArrays) -> tuple[Ints, int]:
        place, n = super()._room(rows)
        # A dense row may add k drawn features to the k kept ones.
        return np.concatenate([place, np.empty(self._resolve_k(), dtype=np.int64)]), n


def _part(rows: RowArrays, part: slice) -> RowArrays:
    """Some of the rows, without a copy of their entries."""
    if len(rows) == 1:
        return (rows[0][part],)
    return rows[0], rows[1], rows[2][part.start : part.stop + 1]
