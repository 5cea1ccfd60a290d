"""Columns cut into intervals, and what those of one chunk say about its classes: HEFT, DXMiner."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared, Value
from fires.core.settings import checked, count, is_count, number
from fires.core.sharding import weight_of
from fires.core.types import Floats, Places
from fires.kernels import top_k
from fires.kernels.contingency import Codes, information
from fires.rivals.arrays import as_dense
from fires.rivals.base import BatchSelector, settings

_MAX_BINS = 256


def _check_bins(name: str, value: object) -> None:
    if not is_count(value) or not 2 <= value <= _MAX_BINS:  # type: ignore[operator]
        raise ValueError(f"{name} must be an integer from 2 to {_MAX_BINS}; got {value!r}.")


def bins(default: int) -> int:
    """A setting: how many intervals a column of numbers is cut into."""
    return checked(default, _check_bins)


def cut(x: Floats, n_bins: int, weight: Floats) -> Codes:
    """A column as codes from 0, with -1 for missing entries.

    At most ``n_bins`` different values stay as they are. More are cut into intervals of equally
    many rows: an entry goes by the share of rows below it and of half of those equal to it. So
    equal entries stay together, and two values that each are common never fall together.

    Examples
    --------
    >>> cut(np.array([0.0, 7.0, np.nan, 0.0]), 2, np.ones(4))
    array([ 0,  1, -1,  0], dtype=int16)
    >>> cut(np.array([0.3, 0.1, 0.2, 9.0]), 2, np.ones(4))
    array([1, 0, 0, 1], dtype=int16)
    """
    codes, present = np.full(len(x), -1, dtype=np.int16), ~np.isnan(x)
    values, places = np.unique(x[present], return_inverse=True)
    if len(values) > n_bins:
        rows = np.bincount(places, weight[present], len(values))
        below = np.cumsum(rows)
        places = (n_bins * (below - 0.5 * rows) / below[-1]).astype(np.int16)[places]
    codes[present] = places
    return codes


def predominant(columns: Codes, shared: Floats, threshold: float, weight: Floats) -> Places:
    """FCBF (Yu and Liu, ICML 2003): the relevant columns that no better one makes redundant.

    ``shared`` is the symmetrical uncertainty (SU) of each column with the class. From the greatest
    on, each relevant column drops those after it whose SU with it is no less than with the class.
    """
    order = np.argsort(-shared, kind="stable")  # ties go to the lower index
    left = order[(shared[order] >= threshold) & (shared[order] > 0.0)]
    kept = []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(best)
        left = left[information(columns[best], columns[left], weight)[1] < shared[left]]
    return np.sort(np.array(kept, dtype=np.intp))


@settings
class ChunkSelector(BatchSelector):
    """A rival that measures every column of a batch, its chunk, against the classes."""

    n_bins: int = bins(5)
    batch_size: int = 200

    @abstractmethod
    def _learn_chunk(self, places: Places, codes: Codes, shared: Floats, weight: Floats) -> None:
        """Learn from the codes of some columns, and from what these share with the class.

        ``shared`` has two rows, information gain and symmetrical uncertainty. All other columns
        hold nothing but zeros.
        """

    def _step(self, batch: CheckedBatch) -> None:
        labels = self._take_whole_labels(batch)[0].astype(np.int16)
        if (labels == labels[0]).all():  # rows of one class say nothing
            return
        X, weight = batch.X, weight_of(batch)
        places = np.unique(X.indices) if sp.issparse(X) else np.arange(X.shape[1])
        columns = as_dense(X[:, places]).T.astype(np.float64)
        codes = np.array([cut(x, int(self.n_bins), weight) for x in columns], dtype=np.int16)
        codes = codes.reshape(len(places), X.shape[0])
        self._learn_chunk(places, codes, information(labels, codes, weight), weight)


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

    def _learn_chunk(self, places: Places, codes: Codes, shared: Floats, weight: Floats) -> None:
        worth, chosen = np.zeros(self.n_features_in_), np.zeros(self.n_features_in_, dtype=bool)
        worth[places] = shared[1]
        chosen[places[predominant(codes, shared[1], float(self.threshold), weight)]] = True
        if self._predominant_.any() and (chosen != self._predominant_).any():
            self._n_drifts_, self._last_drift_ = self._n_drifts_ + 1, self.n_samples_seen_
        self._shared_, self._predominant_ = worth, chosen


@settings
class DXMiner(ChunkSelector):
    r"""The features of DXMiner (Masud et al., ECML PKDD 2010): information gain, chunk by chunk.

    Of each chunk m, a set :math:`S_m` of the k features with the greatest information gain
    :math:`IG_{mj} = H(y) - H(y \mid x_j)` is kept. A model of each of the last M chunks knows its
    own set. To bring the sets together, the paper takes their union ("lossless homogenisation"),
    in which a feature that a model does not know is 0. So features are ranked by

    .. math::
        \omega_j = \frac{1}{M} \sum_{m=1}^{M} IG_{mj} \, [j \in S_m]

    which is positive for the features of the union, and the best k of it are selected. What was
    informative in one of the last M chunks is not forgotten at once.

    The paper's weights are not certain. Novel classes, the choice of features by their frequency
    for rows without labels, and the replacement of the worst model instead of the oldest are no
    part of this selector. Here every batch is a chunk: batches should have some hundred rows. A
    column of numbers is cut into intervals of equally many rows, so its scale does not matter. A
    missing entry is left out of its column. A batch of one class changes nothing. Of sparse rows,
    columns with entries are made dense, one batch at a time.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    n_chunks : int, default=6
        M, how many chunks are remembered.
    n_bins : int, default=5
        How many intervals a column with more different values is cut into.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=200
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        omega and the rank (1 is best) of every feature. Read-only.
    union_ : ndarray
        The indices of all features in the sets of the last M chunks.
    classes_ : ndarray
        The labels seen, sorted.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    References
    ----------
    M. M. Masud, Q. Chen, J. Gao, L. Khan, J. Han, B. Thuraisingham, "Classification and Novel Class
    Detection of Data Streams in a Dynamic Feature Space", ECML PKDD 2010.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = DXMiner(4)
    >>> for chunk in range(6):  # two concepts in turn
    ...     X = rng.normal(size=(200, 8))
    ...     y = X[:, 1] > X[:, 4] if chunk % 2 else X[:, 2] > X[:, 7]
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([1, 2, 4, 7])
    """

    n_chunks: int = count(6)

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {"gains": Array("*", "J", low=0.0)}  # one row for each chunk

    def _weights(self) -> Floats:
        return np.asarray(self._gains_.sum(axis=0) / max(len(self._gains_), 1))

    @property
    def union_(self) -> Places:
        """The features in the sets of the last chunks."""
        self._check_fitted()
        return np.flatnonzero(self._gains_.any(axis=0))

    def _start(self, batch: CheckedBatch) -> None:
        self._gains_ = np.zeros((0, self.n_features_in_))

    def _learn_chunk(self, places: Places, codes: Codes, shared: Floats, weight: Floats) -> None:
        best = top_k(shared[0], self._resolve_k())
        new = np.zeros(self.n_features_in_)
        new[places[best]] = shared[0, best]
        self._gains_ = np.vstack([self._gains_, new])[-int(self.n_chunks) :]
