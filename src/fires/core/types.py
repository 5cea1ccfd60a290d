"""The types of what travels between the parts: arrays by meaning, CSR rows, frames, JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Places: TypeAlias = npt.NDArray[np.intp]
"""Places of columns or rows, as an index."""
Mask: TypeAlias = npt.NDArray[np.bool_]
Labels: TypeAlias = npt.NDArray[np.generic]
"""Labels of any type, as the user gave them."""
Codes: TypeAlias = npt.NDArray[np.intp]
"""Labels as places in the sorted classes."""
Numbers: TypeAlias = npt.NDArray[np.number]
"""Numbers before they are float64."""

RowIndex: TypeAlias = slice | Ints | Places | Mask | Sequence[int]

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
Header: TypeAlias = "dict[str, Json]"


class CsrRows(Protocol):
    """What we use of a SciPy CSR matrix or array: SciPy has no types of its own."""

    data: Floats
    indices: npt.NDArray[np.signedinteger]
    indptr: npt.NDArray[np.signedinteger]
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
    def __matmul__(self, other: Floats) -> Floats: ...
    def toarray(self) -> Floats: ...
    def copy(self) -> CsrRows: ...
    def multiply(self, other: Floats | CsrRows) -> CsrRows: ...


Matrix: TypeAlias = Floats | CsrRows
"""Rows of features: dense, or CSR."""

Label: TypeAlias = bool | int | float | str | np.generic
GivenClasses: TypeAlias = Sequence[Label] | Labels
"""Labels that a user names beforehand."""
Seed: TypeAlias = int | np.integer | np.random.Generator | np.random.RandomState | None
"""What a user may pass as random_state."""

Features: TypeAlias = "npt.ArrayLike | CsrRows | pl.DataFrame | pd.DataFrame | Records"
"""Rows as a user passes them."""
Records: TypeAlias = Sequence[Mapping[str, bool | int | float | str | None]]
