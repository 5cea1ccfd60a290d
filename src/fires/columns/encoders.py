"""How the rows of a table become arrays, and which rows cannot."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.schema import N_EXAMPLES, Column
from fires.columns.values import read_values
from fires.kernels.finite import scan

_FITTING = {
    "number": "a number",
    "integer": "a whole number",
    "flag": "true or false",
    "date": "a date (YYYY-MM-DD, with or without a time)",
}


@dataclass(frozen=True, eq=False)
class Encoded:
    """The usable rows of a frame as arrays.

    Parameters
    ----------
    X : ndarray of float64
        The features; NaN is a missing value.
    y : ndarray
        The target.
    usable : ndarray of bool
        Which rows of the frame these are.
    reasons : mapping of int to str
        What is wrong with the first of the other rows, by their number.
    """

    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    usable: npt.NDArray[np.bool_]
    reasons: Mapping[int, str]


class Encoder:
    """Turns frames with the columns it was made for into arrays, and remembers categories.

    A frame's columns hold text, or already the numbers of their kind.

    Parameters
    ----------
    columns : sequence of Column
        The columns, with the categories that have a code already.
    target : str
        Which of them is the target.
    max_categories : int
        How many categories of a column get a code of their own. All later ones share the next.

    Examples
    --------
    >>> encoder = Encoder((Column("town", "category"), Column("age", "number")), "age")
    >>> frame = pl.DataFrame({"town": ["Bonn", "Ulm", "Ulm"], "age": ["1", "x", "3"]})
    >>> encoded = encoder.encode(frame)
    >>> encoded.X.ravel(), encoded.y, encoded.reasons
    (array([0., 1.]), array([1., 3.]), {1: '"x" in column "age" is not a number'})
    """

    def __init__(
        self, columns: Sequence[Column], target: str, *, max_categories: int = 1000
    ) -> None:
        self._kinds = {column.name: column.kind for column in columns}
        self._categories = {
            column.name: list(column.categories)
            for column in columns
            if column.kind == "category" and column.name != target
        }
        self._target = target
        self._max_categories = max_categories
        self._features = [name for name in self._kinds if name != target]
        target_types = {"number": pl.Float64, "integer": pl.Int64}
        self._plain_types = dict.fromkeys(self._features, pl.Float64) | {
            target: target_types.get(self._kinds[target])
        }

    @property
    def columns(self) -> tuple[Column, ...]:
        """Describe the columns as they are known by now.

        Returns
        -------
        tuple of Column
            With all categories met so far.
        """
        return tuple(
            Column(name, kind, tuple(self._categories.get(name, ())))
            for name, kind in self._kinds.items()
        )

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Convert all usable rows.

        Parameters
        ----------
        frame : polars.DataFrame
            Rows of the table.

        Returns
        -------
        Encoded
            The usable ones, and what is wrong with others.
        """
        return self._encode_whole(frame) or self._encode_columns(frame)

    def _encode_whole(self, frame: pl.DataFrame) -> Encoded | None:
        """Convert a frame of nothing but good numbers at once; None if it is any other.

        Each call into polars waits for the interpreter when it returns, and while a batch is
        learnt from that takes long: column by column, reading ahead would be no gain.
        """
        target = frame[self._target]
        if frame.schema.items() != self._plain_types.items() or target.null_count():
            return None
        X = frame.select(self._features).to_numpy(order="c")
        y = target.to_numpy()
        if scan(X)[1] or (y.dtype == np.float64 and any(scan(y)[:2])):
            return None
        return Encoded(X, y, np.ones(len(frame), dtype=np.bool_), {})

    def _encode_columns(self, frame: pl.DataFrame) -> Encoded:
        """Convert column by column, and say what is wrong with rows that cannot be used."""
        faults = _Faults(len(frame))
        values = {}
        for name, kind in self._kinds.items():
            series, source = read_values(frame[name], kind)
            if series.null_count() > source.null_count():
                misfits = series.is_null() & source.is_not_null()
                faults.add(misfits, f'column "{name}" is not {_FITTING[kind]}', source)
            # One addition tells that nothing is infinite, which is the rule.
            if series.dtype == pl.Float64 and not math.isfinite(series.sum()):
                faults.add(series.is_infinite(), f'column "{name}" is infinite')
            values[name] = series
        target = values.pop(self._target)
        if target.dtype.is_float():
            target = target.fill_nan(None)
        faults.add(target.is_null(), f'no value in the target column "{self._target}"')

        if faults.reasons:
            mask = pl.Series(faults.usable)
            target = target.filter(mask)
            values = {name: series.filter(mask) for name, series in values.items()}
        for name in self._categories:
            values[name] = self._code(name, values[name])
        X = pl.DataFrame(values).cast(pl.Float64).to_numpy(order="c")
        y = target.to_numpy()
        return Encoded(
            X, y.astype(np.str_) if y.dtype == object else y, faults.usable, faults.reasons
        )

    def _code(self, name: str, text: pl.Series) -> pl.Series:
        """Numbers for categories; when all codes are taken, the next one means any other."""
        known = self._categories[name]
        room = self._max_categories - len(known)
        if room > 0:
            met = text.drop_nulls().unique(maintain_order=True)
            known.extend(met.filter(~met.is_in(known)).head(room))
        codes = [float(code) for code in range(len(known))]
        return text.replace_strict(
            [*known, None],
            [*codes, None],
            default=float(self._max_categories),
            return_dtype=pl.Float64,
        )


class _Faults:
    """Which rows of a frame can be used, and what is wrong with some of the others."""

    def __init__(self, n_rows: int) -> None:
        self.usable = np.ones(n_rows, dtype=np.bool_)
        self.reasons: dict[int, str] = {}

    def add(self, bad: pl.Series, reason: str, source: pl.Series | None = None) -> None:
        """Note rows that are bad, and where there is a source the value found in it."""
        rows = bad.arg_true().to_numpy()
        self.usable[rows] = False
        for row in rows[:N_EXAMPLES].tolist():
            value = "" if source is None else f'"{_short(source[row])}" in '
            self.reasons.setdefault(row, value + reason)


def _short(value: str) -> str:
    """Make a value fit into a message of one line."""
    value = " ".join(value.split())
    return value if len(value) <= 40 else value[:37] + "..."
