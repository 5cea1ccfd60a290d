"""Rows and tables as the rivals need them: dense or CSR, forgetting, one row for each class."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fires.core.classes import encode
from fires.core.types import Codes, CsrRows, Floats, Labels, Matrix

# --- dense or CSR -------------------------------------------------------------------------------


def entries(X: Matrix) -> Floats:
    """What is stored of X: an array itself, or the data of CSR."""
    return X if isinstance(X, np.ndarray) else X.data


def with_entries(X: Matrix, stored: Floats) -> Matrix:
    """X with other numbers in place of :func:`entries`."""
    if isinstance(X, np.ndarray):
        return stored
    rows: CsrRows = sp.csr_array((stored, X.indices, X.indptr), shape=X.shape)
    return rows


def filled(stored: Floats, missing: bool) -> Floats:
    """Entries in float64, with zeros for what is missing; the same array if nothing changes."""
    values: Floats = stored.astype(np.float64, copy=missing)
    if missing:
        values[np.isnan(values)] = 0.0
    return values


def as_dense(X: Matrix) -> Floats:
    """X as an array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


# --- forgetting, and one row for each class -----------------------------------------------------


def decay(weight: Floats | None, n_rows: int, forgetting: float) -> tuple[Floats, float]:
    """How much each row of a batch counts after its last row, and how much older rows still count.

    Every row multiplies all rows before it by ``1 - forgetting``. A row of weight w does so w
    times, and counts as w rows in turn; w may be a fraction.
    """
    weight = np.ones(n_rows) if weight is None else weight
    if not forgetting:
        return weight, 1.0
    rate = np.log1p(-forgetting)
    after = np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0)
    mass = np.exp(rate * after) * np.expm1(rate * weight) / -forgetting
    return mass, float(np.exp(rate * weight.sum()))


def grown(table: Floats, before: Labels | None, after: Labels) -> Floats:
    """A table with one row per class, with rows of zeros added for new classes."""
    new = np.zeros((len(after), *table.shape[1:]))
    if before is not None:
        new[encode(before, after)] = table
    return new


def rows_by_class(codes: Codes, n_classes: int, mass: Floats) -> CsrRows:
    """A matrix whose product with a batch is the sum of the rows of each class."""
    places = (codes, np.arange(len(codes)))
    rows: CsrRows = sp.csr_array((mass, places), shape=(n_classes, len(codes)))
    return rows
