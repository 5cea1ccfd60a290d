"""PEtrun: a perceptron whose weights are truncated after every mistake."""

from __future__ import annotations

import numpy as np

from fires.core.types import Floats
from fires.rivals.rows.base import RowArrays
from fires.rivals.rows.ofs import Truncated


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

    def __init__(self, n_features_to_select: int | float = 10) -> None:
        self.n_features_to_select = n_features_to_select

    def _run(self, rows: RowArrays, signs: Floats) -> bool:
        return self._perceive(rows, signs, rate=1.0, keep=1.0, radius=np.inf, threshold=0.0)
