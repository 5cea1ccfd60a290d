"""The data that selectors are checked with, in all its forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.types import Floats, Labels, RowIndex, RowsLike
from fires.core.validation import unmixed

if TYPE_CHECKING:
    import pandas as pd

XY = tuple[Any, Any]
Form = Callable[[Any], RowsLike]
Wrong = dict[str, tuple[Callable[[Any, Any], tuple[Any, Any, Any]], str]]

N_FEATURES = 8
NAMES = ("a", "größe", "日本", "d", "e f", "g", "h", "i")

# How y is made from the signal in columns 1 and 4.
TARGETS: dict[str, Callable[[Floats], Labels | None]] = {
    "many classes": lambda signal: np.digitize(signal, [-0.3, 0.3]),
    "two classes": lambda signal: (signal > 0).astype(int),
    "numbers": lambda signal: signal,
    "counts": lambda signal: np.floor(np.exp(2.0 * signal)),
    "none": lambda signal: None,
}
CLASSES = {"many classes": np.arange(3), "two classes": np.arange(2)}

# Labels as people have them, in ascending order.
LABELS = (
    np.array(["nein", "vielleicht", "ÿes"]),
    np.array(["nein", "vielleicht", "ÿes"], dtype=object),
    np.array([-7, 3, 11]),
    np.array([3, 200, 250], dtype=np.uint8),
    np.array([-1.0, 2.0, 3.0]),
    np.array([False, True]),
    np.array([1, 2, 30], dtype=object),
)


def make_batches(target: str, n_batches: int = 4, n_rows: int = 25, seed: int = 0) -> Iterator[XY]:
    """Batches to learn from: columns 1 and 4 decide the target.

    Entries lie between 0 and 1, many are 0, and all are exact in single precision.
    """
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.integers(1, 17, size=(n_rows, N_FEATURES)) / 16.0
        X[rng.random(X.shape) < 0.4] = 0.0
        yield X, TARGETS[target](X[:, 1] - X[:, 4] + 0.2 * rng.normal(size=n_rows))


def take_rows(y: Labels | None, rows: RowIndex) -> Labels | None:
    """Some rows of a target; None stays None."""
    return None if y is None else y[rows]


def joined(batches: Iterator[XY]) -> XY:
    """Several batches as one."""
    parts = list(batches)
    y = None if parts[0][1] is None else np.concatenate([y for _, y in parts])
    return np.concatenate([X for X, _ in parts]), y


def with_long_indices(X: sp.csr_array) -> sp.csr_array:
    """CSR with 64-bit indices."""
    parts = (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64))
    return sp.csr_array(parts, shape=X.shape)


def with_duplicates(X: sp.csr_array) -> sp.csr_array:
    """CSR in which every entry is stored as two halves."""
    parts = (np.repeat(X.data / 2.0, 2), np.repeat(X.indices, 2), 2 * X.indptr)
    return sp.csr_array(parts, shape=X.shape)


def as_frame(library: ModuleType, order: Iterable[int] | None = None) -> Form:
    """A function that turns an array into a frame with named columns."""
    columns = range(N_FEATURES) if order is None else order
    return lambda X: library.DataFrame({NAMES[j]: X[:, j] for j in columns})


def with_text(library: ModuleType, X: Floats) -> pd.DataFrame:
    """A frame in which text stands for the values of one column."""
    text = np.array(["little", "much"])[(X[:, 1] > 0.5).astype(int)]
    columns: dict[str, Floats | list[str]] = {NAMES[j]: X[:, j] for j in range(N_FEATURES)}
    return library.DataFrame(columns | {NAMES[1]: text.tolist()})


def as_plain(X: Any) -> npt.NDArray[np.generic]:
    """X in whatever form as a dense array."""
    if sp.issparse(X):
        return np.asarray(X.toarray())
    return np.asarray(unmixed(X))


def content(X: Any) -> tuple[type | bytes, ...]:
    """All that X holds, to be compared, including stored zeros and duplicates."""
    stored = (X.data, X.indices, X.indptr) if sp.issparse(X) else ()
    return type(X), *(part.tobytes() for part in (as_plain(X), *stored))


# Frames are checked where their library is installed.
LIBRARIES = {name: import_module(name) for name in ("pandas", "polars") if find_spec(name)}
FRAMES: dict[str, Form] = {name: as_frame(library) for name, library in LIBRARIES.items()}
DENSE_FORMS: dict[str, Form] = {
    "array": np.asarray,
    "Fortran order": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "single precision": lambda X: X.astype(np.float32),
    "lists": lambda X: X.tolist(),
    **FRAMES,
}
SPARSE_FORMS: dict[str, Form] = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "sparse single precision": lambda X: sp.csr_array(X.astype(np.float32)),
    "64-bit indices": lambda X: with_long_indices(sp.csr_array(X)),
    "duplicates": lambda X: with_duplicates(sp.csr_array(X)),
}
FORMS = DENSE_FORMS | SPARSE_FORMS


def with_entry(X: Floats, value: float) -> Floats:
    """A copy of X with another value in row 4, column 3."""
    X = X.copy()
    X[4, 3] = value
    return X


# Batches to be refused: how X, y and sample_weight are spoilt, and words the error must hold.
WRONG_ROWS: Wrong = {
    "infinity": (lambda X, y: (with_entry(X, np.inf), y, None), "infinity.*row 4, column 3"),
    "a huge value": (lambda X, y: (with_entry(X, -1e200), y, None), "so large.*row 4, column 3"),
    "no rows": (lambda X, y: (X[:0], take_rows(y, slice(0)), None), r"0 sample\(s\)"),
    "negative weights": (lambda X, y: (X, y, -np.ones(len(X))), "not negative"),
    "few weights": (lambda X, y: (X, y, [1.0]), "sample_weight has 1"),
}
WRONG_WIDTHS: Wrong = {
    "one column less": (lambda X, y: (X[:, :-1], y, None), "X has 7 features, but .* expecting 8"),
    "one column more": (lambda X, y: (np.c_[X, X[:, 0]], y, None), "X has 9 features"),
}
WRONG_TARGETS: Wrong = {
    "no target": (lambda X, y: (X, None, None), "requires y to be passed, but the target y is"),
    "few targets": (lambda X, y: (X, y[1:], None), "X has 25 rows, y has 24"),
    "a missing target": (lambda X, y: (X, [None, *y[1:]], None), "NaN or None.*row 0"),
    "two targets a row": (lambda X, y: (X, np.c_[y, y], None), "1d array"),
}
