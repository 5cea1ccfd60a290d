"""Columns cut into intervals, and what the columns of one chunk say about its classes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.settings import checked, is_count
from fires.core.sharding import weight_of
from fires.core.types import Floats, Places
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

    def _chunk(self, batch: CheckedBatch) -> tuple[Places, Codes, Floats, Floats] | None:
        """The columns that vary, their codes, what they share with the class, and the weights.

        None if all rows are of one class: they say nothing.
        """
        labels = self._take_whole_labels(batch)[0].astype(np.int16)
        if (labels == labels[0]).all():
            return None
        X, weight = batch.X, weight_of(batch)
        places = np.unique(X.indices) if sp.issparse(X) else np.arange(X.shape[1])
        columns = as_dense(X[:, places]).T.astype(np.float64)
        codes = np.array([cut(x, int(self.n_bins), weight) for x in columns], dtype=np.int16)
        codes = codes.reshape(len(places), X.shape[0])
        return places, codes, information(labels, codes, weight), weight
