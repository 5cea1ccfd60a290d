"""Rows that a selector keeps: dense or CSR, stacked, saved and loaded."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import scipy.sparse as sp

from fires.core.declared import Array
from fires.core.errors import StateError
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Header, Json, Matrix, Places
from fires.kernels.select import keep_columns
from fires.rivals.arrays import as_dense

_DENSE = Array("W", "J", missing=True)
_CSR = {
    "data": Array("N", missing=True),
    "indices": Array("N", dtype="int32", low=0, high="J"),
    "indptr": Array("*", dtype="int32", low=0),
}


class KeptRows:
    """Kept rows as a part of a declared state, see :mod:`fires.core.declared`.

    There are W rows of J features. A missing entry is NaN.
    """

    def write(self, name: str, value: Matrix, header: Header, arrays: Arrays) -> None:
        """Add the rows to the arrays. See :class:`fires.core.declared.Part`."""
        if isinstance(value, np.ndarray):
            arrays[name] = value.copy()
        else:
            parts = value.data, value.indices, value.indptr
            arrays |= under(name, {k: part.copy() for k, part in zip(_CSR, parts, strict=True)})

    def read(
        self, name: str, header: Mapping[str, Json], arrays: Arrays, sizes: dict[str, int]
    ) -> Matrix:
        """The rows; StateError if they are not what they should be.

        See :class:`fires.core.declared.Part`.
        """
        found = part_of(name, arrays)
        if not found:
            dense: Floats = _DENSE.read(name, header, arrays, sizes)
            return dense
        read = {part: each.read(part, {}, found, sizes) for part, each in _CSR.items()}
        n_rows = len(read["indptr"]) - 1
        if sizes.setdefault("W", n_rows) != n_rows:
            raise StateError(f"{name} has {n_rows} rows, not {sizes['W']}")
        try:
            rows = sp.csr_array(tuple(read.values()), shape=(n_rows, sizes["J"]))
            rows.check_format(full_check=True)
        except ValueError as error:
            raise StateError(f"{name} is no CSR matrix ({error})") from None
        if not rows.has_canonical_format:
            raise StateError(f"{name} has columns twice, or not in order")
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


def without(rows: Matrix, columns: Places, instead: float) -> Matrix:
    """The rows without their entries in some columns."""
    rest: Matrix = keep_columns(rows, np.setdiff1d(np.arange(rows.shape[1]), columns))
    if isinstance(rest, np.ndarray):
        rest[:, columns] = instead
    return rest
