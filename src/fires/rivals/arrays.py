"""Rows and tables as the rivals need them: dense or CSR, forgetting, by class, kept and saved."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fires.core.declared import Array, Sizes
from fires.core.errors import StateError, undamaged
from fires.core.state import Arrays, part_of, under
from fires.core.types import Codes, CsrRows, Floats, Header, JsonObject, Matrix

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


def without_gaps(X: Matrix, missing: bool) -> Matrix:
    """X in float64, with zeros for what is missing."""
    return with_entries(X, filled(entries(X), missing))


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


def rows_by_class(codes: Codes, n_classes: int, mass: Floats) -> CsrRows:
    """A matrix whose product with a batch is the sum of the rows of each class."""
    places = (codes, np.arange(len(codes)))
    rows: CsrRows = sp.csr_array((mass, places), shape=(n_classes, len(codes)))
    return rows


# --- rows that a selector keeps ------------------------------------------------------------------

_CSR = {"data": "float64", "indices": "int32", "indptr": "int32"}


class KeptRows:
    """Kept rows as a part of a declared state, see :mod:`fires.core.declared`.

    There are W rows of J features. A missing entry is NaN.
    """

    def write(self, name: str, value: Matrix, header: Header, arrays: Arrays) -> None:
        """Add the rows to the arrays. See :class:`fires.core.declared.Part`."""
        if isinstance(value, np.ndarray):
            arrays[name] = value.copy()
        else:
            arrays |= under(name, {part: getattr(value, part).copy() for part in _CSR})

    def read(self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes) -> Matrix:
        """The rows; StateError if they are not what they should be.

        See :class:`fires.core.declared.Part`.
        """
        found, n_features = part_of(name, arrays), sizes["J"]
        if not found:
            dense: Floats = Array("W", "J", missing=True).read(name, header, arrays, sizes)
            return dense
        with undamaged(f"{name} is"):
            data, indices, indptr = (
                Array("*", dtype=dtype, missing=dtype == "float64").read(part, {}, found, {})
                for part, dtype in _CSR.items()
            )
            n_rows = sizes.setdefault("W", len(indptr) - 1)
            rows = sp.csr_array((data, indices, indptr), shape=(n_rows, n_features))
            rows.check_format(full_check=True)
            if not rows.has_canonical_format:
                raise StateError("columns are there twice, or not in order")
        csr: CsrRows = rows
        return csr


def kept(X: Matrix) -> Matrix:
    """A copy of the rows of a batch, of one type, which does not hold on to the caller's memory."""
    if isinstance(X, np.ndarray):
        return np.array(X, dtype=np.float64, order="C")
    entries = X.data.astype(np.float64), X.indices.astype(np.int32), X.indptr.astype(np.int32)
    rows = sp.csr_array(entries, shape=X.shape)
    rows.sum_duplicates()
    found: CsrRows = rows
    return found


def stacked(one: Matrix, other: Matrix) -> Matrix:
    """The rows of both: CSR if both are, otherwise dense."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.vstack([as_dense(one), as_dense(other)])
    together: CsrRows = sp.vstack([one, other], format="csr")
    return kept(together)
