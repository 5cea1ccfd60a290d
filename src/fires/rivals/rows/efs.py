"""EFS: features ranked by the weights of a balanced Winnow."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.settings import number
from fires.core.types import Floats, Mask, Places
from fires.kernels import online, top_k
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


@settings
class EFS(RowByRowSelector):
    r"""Extremal feature selection with the modified balanced Winnow (Carvalho and Cohen, 2006).

    Two models with positive weights, u for and v against the positive class, see each row with a
    bias feature added and divided by its L1 norm, :math:`x \leftarrow [x, 1] / \lVert [x, 1]
    \rVert_1`. If :math:`y\,(u^\top x - v^\top x - \theta) \le M`, then for every feature with
    :math:`x_j \ne 0`

    .. math::
        u_j \leftarrow u_j\, \alpha (1 + x_j), \quad v_j \leftarrow v_j\, \beta (1 - x_j)
        \qquad (y = 1)

    and the other way round for y = -1. Features are ranked by :math:`|u_j - v_j|`. A feature that
    no step has moved yet (u = 2, v = 1) has weight 0 and comes last.

    The authors stop raising weights above :math:`2^{200}` and lowering them below
    :math:`2^{-200}`. Here weights always stay within that range. Otherwise a factor
    :math:`1 - x_j` that is rounded to 0 would remove a feature for good.

    Made for sparse features that are not negative, such as counts of words: rescale others to
    [0, 1]. A negative entry is demoted where a positive one would be promoted, and a missing one
    counts as 0. Two steps for opposite classes multiply a weight by :math:`\alpha \beta (1 -
    x_j^2)`. So features that are not 0 in any row sink to the lower bound together, and can hardly
    be told apart there. The paper's voted form, which averages u and v over time, is not
    implemented.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    promotion : float, default=1.5
        :math:`\alpha`, at least 1.
    demotion : float, default=0.5
        :math:`\beta`, in (0, 1].
    threshold : float, default=1.0
        :math:`\theta`.
    margin : float, default=1.0
        M: rows that are right by no more than this still count as mistakes.
    bottom_fraction : float, default=0.0
        The share of the selected features, rounded, that are taken from the other end of the
        ranking: the least weights among the features that were moved. The paper found that 0.1
        helps; later papers compare without it, as the default does. ``ranking_`` ignores it.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|u - v|`, u - v and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    V. R. Carvalho, W. W. Cohen, "Single-Pass Online Learning: Performance, Voting Schemes and
    Online Feature Selection", KDD 2006.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6]])
    >>> selector = EFS(2).partial_fit(X, [1, -1, -1])
    >>> selector.weights_.round(3)
    array([1.339, 0.852, 3.527, 0.456])
    >>> selector.get_support(indices=True)
    array([0, 2])
    """

    promotion: float = number(1.5, 1.0, ends="[)")
    demotion: float = number(0.5, high=1.0, ends="(]")
    threshold: float = number(1.0, -np.inf)
    margin: float = number(1.0, -np.inf)
    bottom_fraction: float = number(0.0, high=1.0, ends="[]")

    _learnt: ClassVar[Declared] = {"theta": Array("M", "J", low=0.0), "bias": Array("M")}

    _starts = (2.0, 1.0)  # of u and v, the authors' choice

    # --- learning ---------------------------------------------------------------------------

    def _first(self) -> Floats:
        # The two sides of a Winnow are not mirror images. While only one class is known, it may
        # still become either side. So two pairs of models learn, one for each case.
        return np.tile(self._starts, self._sizes()["M"] // 2)

    def _start(self, batch: CheckedBatch) -> None:
        self._take_labels(batch)
        super()._start(batch)
        self._bias_ = self._first()

    def _take_sides(self, turned: bool) -> None:
        if len(self._theta_) == 4 and len(self.classes_) == 2:
            pair = slice(2, 4) if turned else slice(0, 2)
            self._theta_, self._bias_ = self._theta_[pair].copy(), self._bias_[pair]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        numbers = (self.promotion, self.demotion, self.threshold, self.margin)
        options = tuple(map(float, numbers))
        self._bias_ = self._bias_.copy()
        for first in range(0, len(self._theta_), 2):
            pair, towards = slice(first, first + 2), signs if first == 0 else -signs
            online.winnow(rows, towards, *self._theta_[pair], self._bias_[pair], options)
        return True

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"M": 4 if len(self._label_index_) == 1 else 2}

    # --- what was learnt --------------------------------------------------------------------

    def _coefficients(self) -> Floats:
        return np.asarray(self._theta_[0] - self._theta_[1])

    def _moved(self) -> Mask:
        u, v = self._theta_[:2]
        return np.asarray((u != self._starts[0]) | (v != self._starts[1]))

    def _weights(self) -> Floats:
        return np.where(self._moved(), np.abs(self._coefficients()), 0.0)

    def _selected(self) -> Places:
        k = self._resolve_k()
        n_bottom = round(self.bottom_fraction * k)
        if n_bottom == 0:
            return super()._selected()
        return self._computed(f"selected {k} {n_bottom}", lambda: self._extremes(k, n_bottom))

    def _extremes(self, k: int, n_bottom: int) -> Places:
        top = top_k(self.weights_, k - n_bottom)
        others = np.setdiff1d(np.arange(self.n_features_in_), top, assume_unique=True)
        low = np.where(self._moved(), -self.weights_, -np.inf)[others]
        return np.sort(np.concatenate([top, others[top_k(low, n_bottom)]]))
