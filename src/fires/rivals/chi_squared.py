"""Incremental chi-squared: whether a feature is present or not, against the class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import grown
from fires.core.declared import Array, Declared, Value
from fires.core.settings import choice, number
from fires.core.types import Floats, Matrix, Places
from fires.rivals.arrays import decay, entries, rows_by_class, with_entries
from fires.rivals.base import BatchSelector, settings

_LONGEST_UNIT = 1e100  # beyond it, the unit of the counts is reset to 1


@settings
class ChiSquared(BatchSelector):
    r"""Incremental chi-squared ranking (Katakis, Tsoumakas, Vlahavas, PCI 2005).

    For each feature and class, it counts the rows in which the feature is present, that is, not 0.
    Let A be the rows of the class with the feature, B other rows with it, C the rows of the class
    without it, D other rows without it, and N all rows. Then

    .. math::
        \chi^2 = \frac{N (AD - BC)^2}{(A + B)(C + D)(A + C)(B + D)}

    or 0 if a factor below the line is 0. With two classes both have the same value. With more, the
    greatest counts, or the mean weighted by the shares of the classes; the paper does not say
    which.

    Made for words in documents and other features that are mostly 0. The size of an entry does not
    matter. A feature that is never 0, such as a standardised one, scores 0. A missing entry is
    left out: it is neither present nor absent.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    aggregate : {"max", "mean"}, default="max"
        How the values of several classes are combined.
    forgetting : float, default=0.0
        In [0, 1): every new row reduces older counts by this share; 0 keeps everything. About the
        last ``1 / forgetting`` rows matter. How they are cut into batches does not.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        Chi-squared and the rank (1 is best) of every feature. A read-only copy.
    classes_ : ndarray
        The labels seen, sorted.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    References
    ----------
    I. Katakis, G. Tsoumakas, I. Vlahavas, "On the utility of incremental feature selection for
    the classification of textual data streams", PCI 2005.

    Examples
    --------
    >>> spam = np.array([[1, 0, 2], [1, 1, 0], [3, 1, 1]])
    >>> ham = np.array([[0, 1, 1], [0, 0, 0], [0, 1, 1]])
    >>> selector = ChiSquared(1).partial_fit(spam, ["spam"] * 3).partial_fit(ham, ["ham"] * 3)
    >>> selector.weights_
    array([6., 0., 0.])
    """

    aggregate: str = choice("max", "mean")
    forgetting: float = number(0.0, high=1.0, ends="[)")

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {
        "present": Array("K", "J", low=0.0),
        "missing": Array("K", "1|J", low=0.0),
        "rows": Array("K", low=0.0),
        "unit": Value(float, low=1.0, high=_LONGEST_UNIT),
    }

    def _weights(self) -> Floats:
        present = self._present_ / self._unit_
        rows = np.maximum(self._rows_[:, None] - self._missing_, 0.0) / self._unit_
        values = chi_squared(present, rows)
        if self.aggregate == "max":
            return np.asarray(values.max(axis=0))
        total = rows.sum(axis=0)
        return np.asarray((rows * values).sum(axis=0) / np.where(total > 0.0, total, 1.0))

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        self._present_ = np.zeros((0, self.n_features_in_))
        self._missing_, self._rows_, self._unit_ = np.zeros((0, 1)), np.zeros(0), 1.0

    def _step(self, batch: CheckedBatch) -> None:
        X, n_features = batch.X, self.n_features_in_
        codes, before = self._take_whole_labels(batch)
        n_classes = len(self.classes_)
        mass, keep = decay(batch.weight, X.shape[0], self.forgetting)
        if len(self._rows_) < n_classes:
            tables = self._present_, self._missing_, self._rows_
            self._present_, self._missing_, self._rows_ = (
                grown(table, before, self.classes_) for table in tables
            )
        if batch.n_missing and self._missing_.shape[1] < n_features:
            self._missing_ = np.repeat(self._missing_, n_features, axis=1)
        rows, stored = rows_by_class(codes, n_classes, mass), entries(X)
        gaps = np.isnan(stored)
        present = rows @ with_entries(X, ((stored != 0.0) & ~gaps).astype(np.float64))
        missing = rows @ with_entries(X, gaps.astype(np.float64)) if batch.n_missing else None

        # Nothing can fail from here on, so the tables are changed in place: a batch costs no more
        # than its entries. For the same reason old counts are not shrunk. New rows count in a
        # growing unit instead.
        if self._unit_ < _LONGEST_UNIT * keep:
            self._unit_ /= keep
        else:
            for table in (self._present_, self._missing_, self._rows_):
                table *= keep / self._unit_
            self._unit_ = 1.0
        self._rows_ += self._unit_ * rows.sum(axis=1)
        _add(self._present_, self._unit_, present)
        if missing is not None:
            _add(self._missing_, self._unit_, missing)

    def _restart_features(self, columns: Places) -> None:
        super()._restart_features(columns)
        self._missing_[:, columns] = self._rows_[:, None]  # as if missing in all rows so far


def chi_squared(present: Floats, rows: Floats) -> Floats:
    """Chi-squared of every class and feature."""
    n, n_present = rows.sum(axis=0), present.sum(axis=0)
    margins = n_present * np.maximum(n - n_present, 0.0) * rows * np.maximum(n - rows, 0.0)
    cross = n * present - n_present * rows  # AD - BC
    return np.where(margins > 0.0, n * cross**2, 0.0) / np.where(margins > 0, margins, 1)


def _add(table: Floats, unit: float, counts: Matrix) -> None:
    """Add counts to a table in place; only stored counts cost time."""
    if isinstance(counts, np.ndarray):
        table += unit * counts
    else:
        rows = np.repeat(np.arange(len(table)), np.diff(counts.indptr))
        table[rows, counts.indices] += unit * counts.data
