"""Frames of pandas and polars, and lists of dicts, as one kind of frame."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from numbers import Number, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fires.core.validation import is_frame, is_missing

if TYPE_CHECKING:
    import pandas as pd


def as_polars(X: Any) -> pl.DataFrame:
    """A frame or a list of dicts as a frame of polars.

    Examples
    --------
    >>> as_polars([{"age": 3, "town": "Ulm"}, {"age": 4.5}]).rows()
    [(3.0, 'Ulm'), (4.5, None)]
    """
    if is_frame(X, "polars"):
        return X
    if is_frame(X, "pandas"):
        names = map(str, X.columns)
        return pl.DataFrame(
            {name: _from_pandas(name, X.iloc[:, i]) for i, name in enumerate(names)}
        )
    keys: dict[str, None] = {}
    for row in X:
        if not isinstance(row, Mapping):
            raise TypeError(f"Rows must all be dicts; one is a {type(row).__name__}.")
        keys.update(dict.fromkeys(map(str, row)))
    return pl.DataFrame({key: _from_objects(key, [row.get(key) for row in X]) for key in keys})


def _from_pandas(name: str, series: pd.Series) -> pl.Series:
    """One column of pandas."""
    api = sys.modules["pandas"].api.types
    dtype = series.dtype
    if isinstance(dtype, sys.modules["pandas"].CategoricalDtype):
        texts = np.array([*map(str, dtype.categories), None], dtype=object)
        return pl.Series(name, texts[series.cat.codes.to_numpy()].tolist(), dtype=pl.String)
    if api.is_bool_dtype(dtype) and not series.hasnans:
        return pl.Series(name, series.to_numpy(dtype=bool))
    if api.is_numeric_dtype(dtype):
        if dtype.kind in "iu" and not series.hasnans:
            return pl.Series(name, series.to_numpy(dtype=dtype.kind + "8"))
        return pl.Series(name, series.to_numpy(dtype=np.float64, na_value=np.nan)).fill_nan(None)
    if dtype.kind == "M":
        if getattr(dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series(name, series.to_numpy().astype("datetime64[us]"))
    if dtype.kind == "m":
        return pl.Series(name, series.to_numpy().astype("timedelta64[us]"))
    return _from_objects(name, series.astype(object).tolist())


def _from_objects(name: str, values: Sequence[Any]) -> pl.Series:
    """Values of any type; those of several types become text."""
    values = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pl.Series(name, values, dtype=pl.String)
    if kinds <= {bool, np.bool_}:
        return pl.Series(name, values, dtype=pl.Boolean)
    if all(issubclass(kind, (Real, Decimal)) for kind in kinds):
        return pl.Series(name, [None if v is None else float(v) for v in values], dtype=pl.Float64)
    if any(issubclass(kind, (Mapping, list, tuple, set, bytes, np.ndarray)) for kind in kinds):
        return pl.Series(name, values, dtype=pl.Object)
    if len(kinds) == 1 and not any(issubclass(kind, Number) for kind in kinds):
        return pl.Series(name, values, strict=False)  # dates and times of the standard library
    return pl.Series(name, [None if v is None else str(v) for v in values], dtype=pl.String)
