"""The types of what travels between the parts: arrays by meaning, CSR rows, frames, JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]  # places of columns or rows, as an index
Mask: TypeAlias = npt.NDArray[np.bool_]
Labels: TypeAlias = npt.NDArray[np.generic]  # labels of any type, as the user gave them
Codes: TypeAlias = npt.NDArray[np.intp]  # labels as places in the sorted classes
Numbers: TypeAlias = npt.NDArray[np.number]  # numbers before they are float64
# Where the entries of CSR rows are, as int32 or int64.
Indices: TypeAlias = npt.NDArray[np.signedinteger]

Label: TypeAlias = str | float | bool  # a label as a Python value
# What ``random_state`` takes.
Seed: TypeAlias = int | np.random.Generator | np.random.RandomState | None

RowIndex: TypeAlias = slice | Ints | Places | Mask | Sequence[int]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Header: TypeAlias = "dict[str, Json]"
JsonObject: TypeAlias = "Mapping[str, Json]"

OptionalArray: TypeAlias = npt.ArrayLike | None  # a target, classes or weights as users pass them


class CsrRows(Protocol):
    """What we use of a SciPy CSR matrix or array: SciPy has no types of its own."""

    data: Floats
    indices: Indices
    indptr: Indices
    has_canonical_format: bool

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def nnz(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[np.generic]: ...
    @property
    def T(self) -> CsrRows: ...  # noqa: N802 - SciPy's name
    def __getitem__(self, rows: RowIndex | tuple[RowIndex, RowIndex]) -> CsrRows: ...
    @overload
    def __matmul__(self, other: Floats) -> Floats: ...
    @overload
    def __matmul__(self, other: CsrRows) -> CsrRows: ...
    def toarray(self) -> Floats: ...
    def tocsr(self) -> CsrRows: ...
    def sum(self, axis: int) -> Floats: ...
    def copy(self) -> CsrRows: ...
    def multiply(self, other: Floats | CsrRows) -> CsrRows: ...


Matrix: TypeAlias = Floats | CsrRows  # rows of features: dense, or CSR


class Estimator(Protocol):
    """What every estimator of scikit-learn or its kind has."""

    def predict(self, X: Matrix) -> Labels: ...


class Frame(Protocol):
    """What we use of a pandas or Polars frame."""

    @property
    def columns(self) -> Iterable[Hashable]: ...


class NamedRows(NamedTuple):
    """Rows whose columns have names: what an open selector and a pipeline take beside frames.

    Parameters
    ----------
    matrix : ndarray or CSR matrix (n_rows, n_columns)
        The values. NaN is a missing entry.
    names : sequence of str
        What each column is called. A ``fires.core.named.Names`` that only grows is looked up once.
    """

    matrix: Matrix
    names: Sequence[str]


# Rows of features as users pass them, before they are checked.
RowsLike: TypeAlias = npt.ArrayLike | CsrRows | Frame | NamedRows | Sequence[Mapping[str, Json]]

GivenClasses: TypeAlias = Sequence[Hashable] | Labels
OptionalClasses: TypeAlias = GivenClasses | None  # labels that a user names beforehand
