"""The one gate: what a user may pass, and what all code behind the gate can rely on.

Behind the gate, X is a two-dimensional float32 or float64 array in any memory order, or a CSR
matrix without duplicates. It has at least one row, no infinite entry, and the expected columns in
the expected order. The caller's data is never changed; a float array is not copied. scikit-learn's
``validate_data`` promises the same but takes as long as several steps of FIRES. It is used for rare
kinds of input only.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Number, Real
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeGuard, cast, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.errors import InputError, TargetError
from fires.core.named import NamedRows
from fires.core.types import CsrRows, Floats, GivenClasses, Labels, Mask, Matrix, Places, RowsLike

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Names = npt.NDArray[np.object_]
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_NOT_THE_CALLER = ("fires.", "sklearn.")
# The largest value a step bears: its square can still be summed.
LARGEST = 1e150


# --- features -----------------------------------------------------------------------------------


def as_matrix(X: RowsLike | NamedRows, owner: str, *, least: int = 1) -> Any:
    """X as a float array or a CSR matrix, without a copy where possible."""
    matrix: Any
    if type(X) is np.ndarray and X.ndim == 2 and X.dtype in _FLOATS and X.size:  # the usual case
        return X
    matrix = X
    is_array = type(X) is np.ndarray or (sp.issparse(X) and matrix.format == "csr")
    if isinstance(X, np.ma.MaskedArray):
        return as_matrix(np.ma.asarray(X, dtype=np.float64).filled(np.nan), owner)
    if is_frame(X, "pandas"):
        matrix = _pandas_values(X, owner)
    elif is_frame(X, "polars"):
        matrix = _polars_values(X)
    elif isinstance(X, NamedRows):
        raise InputError(f"{owner} does not take NamedRows", hint="use FIRES(columns='open').")
    elif not is_array or matrix.ndim != 2 or matrix.dtype not in _FLOATS:
        matrix = _by_scikit_learn(X, owner)
    if matrix.shape[0] < 1 or matrix.shape[1] < least:
        axis, what = (0, "sample") if matrix.shape[0] == 0 else (1, "feature")
        raise ValueError(
            f"Found array with {matrix.shape[axis]} {what}(s) (shape={matrix.shape}) while a "
            f"minimum of 1 is required by {owner}."
        )
    if sp.issparse(matrix):
        _check_structure(matrix)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
    return matrix


def _by_scikit_learn(X: RowsLike, owner: str) -> Matrix:
    from sklearn.utils.validation import check_array  # loads pandas and more

    try:
        matrix: Matrix = check_array(
            X,
            accept_sparse="csr",
            dtype=_FLOATS,
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
            estimator=owner,
        )
    except ValueError as error:
        text = str(error).partition("could not convert string to float: ")[2]
        if not text:
            raise
        hint = "pass a pandas or polars frame: its text columns are target-encoded."
        raise InputError(f"X is an array with text in it, such as {text}", hint=hint) from None
    return matrix


def _check_structure(X: CsrRows) -> None:
    """Refuse a CSR matrix with indices out of range: compiled loops would follow them."""
    starts, columns = X.indptr, X.indices
    if not (
        len(starts) == X.shape[0] + 1
        and starts[0] == 0
        and starts[-1] <= min(len(columns), len(X.data))
        and (starts[1:] >= starts[:-1]).all()
        and (len(columns) == 0 or 0 <= columns.min() <= columns.max() < X.shape[1])
    ):
        raise ValueError("The sparse matrix X points outside itself: it is not a valid CSR matrix.")


def column_names(X: RowsLike) -> Names | None:
    """The column names of a frame, if they are text."""
    if type(X) is np.ndarray or not (is_frame(X, "pandas") or is_frame(X, "polars")):
        return None
    names = np.asarray(list(X.columns), dtype=object)
    textual = [isinstance(name, str) for name in names]
    if not any(textual):
        return None
    if not all(textual):
        raise TypeError(
            "Feature names are only supported if all input features have string names, but your "
            "input has column names of several types; make them all strings."
        )
    check_names(names)
    return names


def check_names(names: Names) -> None:
    """Raise an error unless all names are text and different."""
    plain = names.tolist()  # of which Python makes a set much sooner than of an array
    if not all(issubclass(kind, str) for kind in set(map(type, plain))):
        raise TypeError("Feature names must be text.")
    if len(set(plain)) < len(plain):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ValueError(f"Column names must be unique; {twice!r} occurs more than once.")


def match_columns(
    names: Names | None, n_columns: int, known: Names | None, n_known: int, owner: str
) -> Places | None:
    """How to reorder columns into the order learnt from; None if they are in order."""
    if names is not None and known is not None:
        if len(names) == len(known) and (names == known).all():
            return None
        here, before = set(names), set(known)
        missing = [name for name in known if name not in here]
        new = [name for name in names if name not in before]
        if missing or new:
            refuse_names(missing, new)
        place = {name: i for i, name in enumerate(names)}
        return np.array([place[name] for name in known], dtype=np.intp)
    if n_columns != n_known:
        raise ValueError(
            f"X has {n_columns} features, but {owner} is expecting {n_known} features as input."
        )
    if known is not None or names is not None:
        has, was = ("has", "without") if known is None else ("does not have valid", "with")
        message = f"X {has} feature names, but {owner} was fitted {was} feature names"
        warnings.warn(message, UserWarning, stacklevel=frames_of_ours())
    return None


def refuse_names(missing: Sequence[str], new: Sequence[str]) -> NoReturn:
    """Raise the error that columns are missing or new."""
    parts = [f"missing {_listed(missing)}"] * bool(missing)
    parts += [f"new {_listed(new)}"] * bool(new)
    raise ValueError(
        f"The feature names should match those that were passed during fit: {'; '.join(parts)}."
    )


def frames_of_ours() -> int:
    """How far up the stack the caller's own code is, for a warning to point at."""
    depth, frame = 1, cast("FrameType | None", sys._getframe(1))
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_NOT_THE_CALLER):
        depth, frame = depth + 1, frame.f_back
    return depth


def refuse(
    matrix: Matrix,
    counts: tuple[int, int, int],
    names: Names | Sequence[str] | None,
    *,
    missing: str,
    owner: str,
) -> None:
    """Raise an error for infinite or huge entries, and for missing ones unless allowed."""
    n_missing, n_infinite, n_huge = counts
    if n_infinite:
        what = f"contains infinity or a value too large for {matrix.dtype!r}"
        raise ValueError(f"Input X {what} ({_place(matrix, np.isinf, names)}).")
    if n_huge:
        where = _place(matrix, lambda values: np.abs(values) > LARGEST, names)
        what = "holds values so large that a step would overflow"
        raise ValueError(f"Input X {what} ({where}); rescale them.")
    if n_missing and missing == "error":
        why = f"{owner} refuses missing values unless missing='ignore'"
        raise ValueError(f"Input X contains NaN ({_place(matrix, np.isnan, names)}); {why}.")


def _place(matrix: Any, test: Callable[[Floats], Mask], names: Names | Sequence[str] | None) -> str:
    if sp.issparse(matrix):
        rows, columns = matrix.tocoo().coords
        first = int(np.flatnonzero(test(matrix.data))[0])
        row, column = int(rows[first]), int(columns[first])
    else:
        row, column = (int(i) for i in np.argwhere(test(matrix))[0])
    name = f"{names[column]!r}" if names is not None else f"{column}"
    return f"first in row {row}, column {name}"


@overload
def is_frame(X: RowsLike | NamedRows, library: Literal["pandas"]) -> TypeGuard[pd.DataFrame]: ...
@overload
def is_frame(X: RowsLike | NamedRows, library: Literal["polars"]) -> TypeGuard[pl.DataFrame]: ...
def is_frame(X: RowsLike | NamedRows, library: str) -> bool:
    """Whether X is a frame of that library, without importing the library."""
    module = sys.modules.get(library)
    return module is not None and isinstance(X, module.DataFrame)


def _pandas_values(X: pd.DataFrame, owner: str) -> Any:
    if any(str(dtype).startswith("Sparse") for dtype in X.dtypes):
        return _by_scikit_learn(X, owner)
    kinds = set(X.dtypes)
    if len(kinds) == 1 and next(iter(kinds)) in _FLOATS:
        return X.to_numpy()
    _refuse_raw(X)
    return X.to_numpy(dtype=np.float64, na_value=np.nan)


def _polars_values(X: pl.DataFrame) -> Floats:
    polars = sys.modules["polars"]
    _refuse_raw(X)
    if set(X.dtypes) == {polars.Float32}:
        return X.fill_null(np.nan).to_numpy()
    return X.cast(polars.Float64).fill_null(np.nan).to_numpy()


def is_table(X: RowsLike) -> bool:
    """Whether X is a frame or a list of dicts."""
    records = isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping)
    return records or is_frame(X, "pandas") or is_frame(X, "polars")


def is_raw(X: RowsLike) -> bool:
    """Whether X is a table with columns that are not simply numbers."""
    return is_table(X) and next(raw_columns(X), None) is not None


def raw_columns(X: Any) -> Iterator[tuple[Any, Any]]:
    """The columns of a table that are not simply numbers, such as text and dates."""
    if is_frame(X, "polars"):
        polars = sys.modules["polars"]
        for name, dtype in X.schema.items():
            if not (dtype.is_numeric() or dtype in (polars.Boolean, polars.Null)):
                yield name, dtype
    elif is_frame(X, "pandas"):
        for place, dtype in enumerate(X.dtypes):
            if not _is_numeric(X, place, dtype):
                yield X.columns[place], dtype
    else:
        yield from ((name, "a dict") for name in X[0])


def _is_numeric(X: pd.DataFrame, place: int, dtype: Any) -> bool:
    """Whether a column of pandas holds numbers; flags count as numbers."""
    is_numeric = sys.modules["pandas"].api.types.is_numeric_dtype(dtype)
    if dtype.kind == "O" and not is_numeric:
        # An object column may hold numbers; text that looks like numbers is still text.
        values = X.iloc[:, place].to_numpy(dtype=object, na_value=None)
        return all(value is None or isinstance(value, Number) for value in values)
    return bool(is_numeric and dtype.kind != "c")


def _refuse_raw(X: pd.DataFrame | pl.DataFrame) -> None:
    for name, dtype in raw_columns(X):
        raise ValueError(
            f"Column {name!r} does not hold numbers but {dtype}, in contrast to earlier batches."
        )


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")


# --- targets and weights ------------------------------------------------------------------------


def as_target(y: npt.ArrayLike | None, n_rows: int, owner: str) -> Labels:
    """Labels or numbers as a one-dimensional array; missing entries are refused."""
    if type(y) is np.ndarray and y.shape == (n_rows,) and y.dtype.kind in "biu":
        return y  # the usual case
    if y is None:
        raise ValueError(f"{owner} requires y to be passed, but the target y is None.")
    given = unmixed(y)
    plain = type(given) is np.ndarray and given.ndim == 1
    target: Labels = given if plain else _as_column(given, warn=True)
    _same_length("y", target, n_rows)
    if target.dtype.kind == "f" and not np.isfinite(target).all():
        what = "NaN" if np.isnan(target).any() else "infinity"
        raise ValueError(f"Input y contains {what}.")
    if target.dtype.kind == "c":
        raise ValueError("Complex data not supported: y holds complex numbers.")
    if target.dtype.kind == "O":
        gaps = [i for i, label in enumerate(target) if is_missing(label)]
        if gaps:
            raise ValueError(f"Input y contains NaN or None (first in row {gaps[0]}).")
    return plain_labels(target)


def _as_column(values: npt.ArrayLike, *, warn: bool = False) -> Any:
    from sklearn.utils.validation import column_or_1d  # loads pandas and more

    return column_or_1d(values, warn=warn)


def as_classes(classes: GivenClasses) -> Labels:
    """The labels a caller announces, as an array in the order given."""
    known = _as_column(unmixed(classes))
    if known.dtype.kind in "Of" and any(is_missing(label) for label in known):
        raise ValueError("classes must not hold a missing label.")
    return plain_labels(known)


def unmixed(labels: Any) -> Any:
    """Labels in a form in which NumPy does not turn numbers into text."""
    if hasattr(labels, "to_numpy"):
        return labels.to_numpy()
    if isinstance(labels, (list, tuple)) and any(isinstance(label, str) for label in labels):
        mixed = not all(isinstance(label, str) for label in labels)
        return np.array(labels, dtype=object if mixed else None)
    return labels


def plain_labels(labels: Labels) -> Labels:
    """Labels as an array; if all of them are numbers, as an array of numbers."""
    if labels.dtype.kind == "O" and all(isinstance(label, Real | Decimal) for label in labels):
        plain = [float(one) if isinstance(one, Decimal) else one for one in labels.tolist()]
        return np.array(plain)
    return labels


def is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or a missing value of pandas."""
    # Comparing pandas.NA with itself raises an error.
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(label, Real) and label != label


def as_numbers(y: Labels, what: str) -> Floats:
    """A numeric target as float64; an error if it holds labels, infinite or huge values."""
    if y.dtype.kind not in "biuf":
        raise TargetError(f"{what} needs numbers in {{y}}; got labels such as {y[0]!r}.")
    numbers = y.astype(np.float64)
    if np.isinf(numbers).any():
        raise ValueError("Input y contains infinity.")
    if (np.abs(numbers) > LARGEST).any():
        raise TargetError(
            "{y} holds values so large that a step would overflow", hint="rescale them."
        )
    return numbers


def as_weights(sample_weight: npt.ArrayLike | None, n_rows: int) -> Floats | None:
    """Row weights as float64. An error if they make no sense, or are 0 for every row."""
    if sample_weight is None:
        return None
    weight = _not_negative(sample_weight, n_rows)
    with np.errstate(over="ignore"):
        total = weight.sum()
    if total == 0 and n_rows:
        raise ValueError("sample_weight is zero for every row: there is nothing to learn from.")
    if not 1e-30 <= total <= 1e30:
        raise ValueError(f"sample_weight adds up to {total:.3g}: too small or too large a sum.")
    return weight


def _not_negative(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
    weight = np.asarray(sample_weight, dtype=np.float64)
    weight = np.full(n_rows, weight) if weight.ndim == 0 else _as_column(weight)
    _same_length("sample_weight", weight, n_rows)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError("sample_weight must hold finite numbers that are not negative.")
    # Of read-only weights, such as pandas gives, kernels would be compiled once more.
    return weight if weight.flags.writeable else weight.copy()


def weighted_rows(X: Any, y: Any, sample_weight: Any, owner: str) -> tuple[Any, Any, Any]:
    """The rows whose weight is above 0, their target and weights; a row of weight 0 is absent."""
    if sample_weight is None:
        return X, y, None
    X, n_rows = as_rows(X, owner)
    weight = _not_negative(sample_weight, n_rows)
    if weight.all():
        return X, y, weight
    rows = np.flatnonzero(weight)
    target = None if y is None else as_target(y, n_rows, owner)[rows]
    return take_rows(X, rows), target, weight[rows]


def as_rows(X: Any, owner: str) -> tuple[Any, int]:
    """X in a form that :func:`take_rows` takes, and how many rows there are."""
    if isinstance(X, NamedRows):
        matrix, n_rows = as_rows(X.matrix, owner)
        return X._replace(matrix=matrix), n_rows
    if isinstance(X, Mapping):  # one row of open columns
        return [X], 1
    if isinstance(X, (list, tuple)):
        return X, len(X)
    if not (is_table(X) or (isinstance(X, np.ndarray) and X.ndim)):
        X = as_matrix(X, owner)
    return X, int(X.shape[0])


def take_rows(X: Any, rows: Any) -> Any:
    """Some of the rows, by a slice or by their numbers, in the form in which they are."""
    if isinstance(X, NamedRows):
        return X._replace(matrix=take_rows(X.matrix, rows))
    if isinstance(X, (list, tuple)):
        return X[rows] if isinstance(rows, slice) else [X[row] for row in rows]
    return (X.iloc if is_frame(X, "pandas") else X)[rows]


def _same_length(name: str, values: Labels, n_rows: int) -> None:
    if len(values) != n_rows:
        raise ValueError(
            "Found input variables with inconsistent numbers of samples: X has "
            f"{n_rows} rows, {name} has {len(values)}."
        )


def repeated(X: Any, y: Any, weight: Floats | None, owner: str) -> tuple[Any, Any]:
    """Repeat each row as often as its weight says, for methods that learn row by row."""
    if weight is None or (weight == 1.0).all():
        return X, y
    times = weight.astype(np.intp)
    if (times != weight).any():
        raise ValueError(
            f"{owner} learns row by row: sample_weight says how often a row is seen and must "
            "hold whole numbers."
        )
    rows = np.repeat(np.arange(len(weight)), times)
    return X[rows], None if y is None else y[rows]


def as_columns(
    columns: Iterable[str | int], n_features: int, names: Iterable[str] | None, owner: str
) -> Places:
    """Columns that a user means, as ascending indices; ValueError if there is no such column.

    Examples
    --------
    >>> as_columns(["size", 0], 3, np.array(["age", "size", "price"]), "FIRES")
    array([0, 1])
    """
    if isinstance(columns, (str, int, np.integer)):
        raise ValueError(f"columns must be a list of indices or names; got {columns!r}.")
    place = {} if names is None else {name: j for j, name in enumerate(names)}
    found = set()
    for column in columns:
        if isinstance(column, str):
            if column not in place:
                raise ValueError(f"This {owner} has no column {column!r}.")
            found.add(place[column])
        elif isinstance(column, (bool, np.bool_)) or not isinstance(column, (int, np.integer)):
            raise ValueError(f"columns must hold indices or names; got {column!r}.")
        elif not 0 <= column < n_features:
            raise ValueError(f"There is no column {column}: this {owner} has {n_features} columns.")
        else:
            found.add(int(column))
    return np.array(sorted(found), dtype=np.intp)
