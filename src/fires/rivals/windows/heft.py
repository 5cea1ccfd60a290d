"""HEFT: the features that a fast correlation-based filter keeps of each chunk."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared, Value
from fires.core.settings import number
from fires.core.types import Floats, Places
from fires.rivals.base import settings
from fires.rivals.discrete import ChunkSelector, predominant


@settings
class HEFT(ChunkSelector):
    r"""The selector of HEFT-Stream (Nguyen et al., PAKDD 2012): FCBF on every chunk.

    How much feature and class share is their symmetrical uncertainty, from 0 to 1:

    .. math::
        SU(x, y) = 2\, \frac{H(x) + H(y) - H(x, y)}{H(x) + H(y)}

    with the entropies H in the chunk. FCBF drops features with :math:`SU(x, y) < \delta`; then,
    from the greatest on, each feature p drops every later feature q with
    :math:`SU(p, q) \ge SU(q, y)`. What is left are the predominant features. If they are others
    than those of the chunk before, there is a feature drift.

    Features are ranked by SU, the predominant ones before all others. So if there are fewer than
    ``n_features_to_select`` of them, the best of the others fill up.

    The paper's ensemble of classifiers, which adds a member at each feature drift, is no part of a
    selector. Its thresholds and its intervals are not certain. Here every batch is a chunk: batches
    should have some hundred rows. A column of numbers is cut into intervals of equally many rows,
    so its scale does not matter. A missing entry is left out of its column. A batch of one class
    changes nothing. Of sparse rows, columns with entries are made dense, one batch at a time.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    threshold : float, default=0.0
        :math:`\delta`, in [0, 1). A feature with SU 0 is never predominant.
    n_bins : int, default=5
        How many intervals a column with more different values is cut into.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=200
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        SU with the class in the last chunk, plus 1 for predominant features; and the rank (1 is
        best). Read-only.
    predominant_ : ndarray
        The indices of the predominant features, however many.
    n_drifts_ : int
        How many chunks had other predominant features than the chunk before.
    last_drift_ : int or None
        How many rows had been seen before the last of these chunks.
    classes_ : ndarray
        The labels seen, sorted.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    References
    ----------
    H.-L. Nguyen, Y.-K. Woon, W.-K. Ng, L. Wan, "Heterogeneous Ensemble for Feature Drifts in Data
    Streams", PAKDD 2012. FCBF: L. Yu, H. Liu, "Feature Selection for High-Dimensional Data: A Fast
    Correlation-Based Filter Solution", ICML 2003.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 6))
    >>> X[:, 5] = X[:, 1]
    >>> HEFT(2).fit(X, X[:, 1] > X[:, 4]).get_support(indices=True)
    array([1, 4])
    """

    threshold: float = number(0.0, high=1.0, ends="[)")

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {
        "shared": Array("J", low=0.0, high=1.0),
        "predominant": Array("J", dtype="bool"),
        "n_drifts": Value(int, low=0, high=2**53),
        "last_drift": Value(int, low=0, high=2**53, optional=True),
    }

    _last_drift_: int | None = field(init=False, default=None)

    def _weights(self) -> Floats:
        return self._shared_ + self._predominant_

    @property
    def predominant_(self) -> Places:
        """The predominant features of the last chunk."""
        self._check_fitted()
        return np.flatnonzero(self._predominant_)

    @property
    def n_drifts_(self) -> int:
        """How many chunks had other predominant features than the chunk before."""
        self._check_fitted()
        return self._n_drifts_

    @property
    def last_drift_(self) -> int | None:
        """How many rows had been seen before the last feature drift."""
        self._check_fitted()
        return self._last_drift_

    def _start(self, batch: CheckedBatch) -> None:
        self._shared_ = np.zeros(self.n_features_in_)
        self._predominant_ = np.zeros(self.n_features_in_, dtype=bool)
        self._n_drifts_ = 0

    def _step(self, batch: CheckedBatch) -> None:
        found = self._chunk(batch)
        if found is None:
            return
        places, codes, (_, worth), weight = found
        shared, chosen = np.zeros(self.n_features_in_), np.zeros(self.n_features_in_, dtype=bool)
        shared[places] = worth
        chosen[places[predominant(codes, worth, float(self.threshold), weight)]] = True
        if self._predominant_.any() and (chosen != self._predominant_).any():
            self._n_drifts_, self._last_drift_ = self._n_drifts_ + 1, self.n_samples_seen_
        self._shared_, self._predominant_ = shared, chosen
