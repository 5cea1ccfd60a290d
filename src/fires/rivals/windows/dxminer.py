"""DXMiner: the union of the features with the greatest information gain in the last chunks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.settings import count
from fires.core.types import Floats, Places
from fires.kernels import top_k
from fires.rivals.base import settings
from fires.rivals.discrete import ChunkSelector


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

    def _step(self, batch: CheckedBatch) -> None:
        found = self._chunk(batch)
        if found is None:
            return
        places, _, (gain, _), _ = found
        best = top_k(gain, self._resolve_k())
        new = np.zeros(self.n_features_in_)
        new[places[best]] = gain[best]
        self._gains_ = np.vstack([self._gains_, new])[-int(self.n_chunks) :]
