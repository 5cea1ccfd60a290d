"""What the columns of a table hold, and how their values become numbers.

The kind of a column is fixed by a sample from the start of the table: numbers, true and false,
dates, or categories. A value that does not fit its column's kind makes its row unusable. Text
that looks like numbers counts as numbers, in whatever file it stands, so that the same table
gives the same batches from CSV and from Parquet.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from fires.core.errors import InputError
from fires.kernels.finite import scan

if TYPE_CHECKING:
    import polars as pl

Kind = Literal["number", "integer", "flag", "date", "category"]

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""What a missing value may be written as."""

N_EXAMPLES = 10
"""How many unusable rows are shown to the user."""

_FITTING = {
    "number": "a number",
    "integer": "a whole number",
    "flag": "true or false",
    "date": "a date (YYYY-MM-DD, with or without a time)",
}
_DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M",
)


@dataclass(frozen=True)
class Column:
    """A column, its kind and, in order of their codes, the categories met so far.

    The kinds ``number``, ``flag`` (true is 1) and ``date`` (seconds since 1970 in UTC) become
    numbers; ``category`` becomes 0, 1, 2, ... in order of first appearance. Only a target can
    be ``integer``; its integers, flags and categories stay the labels they are.
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Encoded:
    """The usable rows of a frame as arrays, which rows those are, and what ails the others."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]
    usable: npt.NDArray[np.bool_]
    reasons: Mapping[int, str]


def find_kinds(
    sample: pl.DataFrame, target: str, *, numeric_target: bool = False
) -> tuple[Column, ...]:
    """Fix the kind of each column of a sample; the target comes last.

    A column is of a kind if four in five of its values are, or all but one. A target with at
    most 50 different values is a set of labels: they are numbers only if all of them are.
    A column without any value counts as numbers.

    Raises
    ------
    InputError
        If columns hold free text: on average more than 50 characters, or more than 20 where
        nine in ten of at least 1,000 values are different. Likewise if they hold lists,
        decimal commas, or anything else that is neither a number nor a category.

    Examples
    --------
    >>> import polars as pl
    >>> sample = pl.DataFrame({"age": ["31", "?"], "town": ["Bonn", "Ulm"], "bought": ["1", "0"]})
    >>> [(column.name, column.kind) for column in find_kinds(sample, "bought")]
    [('age', 'number'), ('town', 'category'), ('bought', 'integer')]
    """
    kinds = {series.name: _kind(series) for series in sample if series.name != target}
    refused = {
        name: why for name, kind in kinds.items() if (why := _why_refused(sample[name], kind))
    }
    if refused:
        name, why = next(iter(refused.items()))
        names = shlex.quote(",".join(refused))
        raise InputError(f'column "{name}" holds {why}; leave it out with --exclude {names}')
    target_kind: Kind = "number" if numeric_target else _target_kind(sample[target])
    return (*(Column(name, kind) for name, kind in kinds.items()), Column(target, target_kind))


class Encoder:
    """Turns frames with the columns it was made for into arrays, and remembers categories.

    A frame's columns hold text, or already the numbers of their kind.

    Examples
    --------
    >>> import polars as pl
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

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns as they are known by now."""
        return tuple(
            Column(name, kind, tuple(self._categories.get(name, ())))
            for name, kind in self._kinds.items()
        )

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """Convert all usable rows."""
        return self._encode_whole(frame) or self._encode_columns(frame)

    def _encode_whole(self, frame: pl.DataFrame) -> Encoded | None:
        """Convert a frame of nothing but good numbers at once; None if it is any other.

        Each call into polars waits for the interpreter when it returns, and while a batch is
        learnt from that takes long: column by column, reading ahead would be no gain.
        """
        import polars as pl

        features = [name for name in self._kinds if name != self._target]
        types = frame.schema
        if any(types[name] != pl.Float64 for name in features) or self._categories:
            return None
        target = frame[self._target]
        wanted = {"number": pl.Float64, "integer": pl.Int64}.get(self._kinds[self._target])
        if target.dtype != wanted or target.null_count():
            return None
        X, y = frame.select(features).to_numpy(order="c"), target.to_numpy()
        if scan(X)[1] or any(scan(y.astype(np.float64))[:2]):
            return None
        return Encoded(X, y, np.ones(len(frame), dtype=np.bool_), {})

    def _encode_columns(self, frame: pl.DataFrame) -> Encoded:
        """Convert column by column, and say what is wrong with rows that cannot be used."""
        import polars as pl

        usable = np.ones(len(frame), dtype=np.bool_)
        reasons: dict[int, str] = {}

        def reject(rows: npt.NDArray[Any], reason: str, text: pl.Series | None = None) -> None:
            usable[rows] = False
            for row in rows[:N_EXAMPLES].tolist():
                value = "" if text is None else f'"{_short(text[row])}" in '
                reasons.setdefault(row, value + reason)

        values = {}
        for name, kind in self._kinds.items():
            series, text = _values(frame[name], kind)
            if series.null_count() > text.null_count():
                unfit = (series.is_null() & text.is_not_null()).arg_true().to_numpy()
                reject(unfit, f'column "{name}" is not {_FITTING[kind]}', text)
            # One addition tells that nothing is infinite, which is the rule.
            if series.dtype == pl.Float64 and not math.isfinite(series.sum()):
                reject(series.is_infinite().arg_true().to_numpy(), f'column "{name}" is infinite')
            is_feature = name != self._target
            values[name] = series.cast(pl.Float64) if kind == "flag" and is_feature else series
        target = values.pop(self._target)
        missing = target.fill_nan(None).is_null() if target.dtype.is_float() else target.is_null()
        reject(missing.arg_true().to_numpy(), f'no value in the target column "{self._target}"')

        if not usable.all():
            mask = pl.Series(usable)
            target = target.filter(mask)
            values = {name: series.filter(mask) for name, series in values.items()}
        for name in self._categories:
            values[name] = self._code(name, values[name])
        X = pl.DataFrame(values).to_numpy(order="c") if len(target) else np.empty((0, len(values)))
        y = target.to_numpy()
        return Encoded(X, y.astype(np.str_) if y.dtype == object else y, usable, reasons)

    def _code(self, name: str, text: pl.Series) -> pl.Series:
        """Numbers for categories; when all codes are taken, the next one means any other."""
        import polars as pl

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


def _kind(series: pl.Series, n_labels: int = 0) -> Kind:
    """Find the kind of most values; of all, if at most ``n_labels`` of them are different."""
    import polars as pl

    if series.dtype == pl.Boolean:
        return "flag"
    if series.dtype in (pl.Date, pl.Datetime):
        return "date"
    if series.dtype != pl.String or _parse(series, "number").null_count() == series.null_count():
        return "number"
    values = _tidy(series).drop_nulls()
    n_misfits = max(1, len(values) // 5)
    if n_labels and values.n_unique() <= n_labels:
        n_misfits = 0
    kinds: tuple[Kind, ...] = ("number", "flag", "date")
    for kind in kinds:
        n_bad = _parse(values, kind).null_count()
        if n_bad == 0 or (n_bad <= n_misfits and 2 * n_bad < len(values)):
            return kind
    return "category"


def _target_kind(series: pl.Series) -> Kind:
    """As for any column, but numbers that are all whole are labels."""
    import polars as pl

    kind = _kind(series, n_labels=50)
    if kind != "number" or series.dtype.is_float():
        return kind
    if series.dtype != pl.String:
        return "integer"
    values = _tidy(series).drop_nulls()
    n_fractions = _parse(values, "integer").null_count() - _parse(values, "number").null_count()
    return "number" if n_fractions or len(values) == 0 else "integer"


def _why_refused(series: pl.Series, kind: Kind) -> str | None:
    """Say what makes a column unfit to be a feature, if anything does."""
    import polars as pl

    plain = (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Null)
    if series.dtype not in plain and not series.dtype.is_numeric():
        return f"values of type {series.dtype}"
    if kind != "category":
        return None
    values = _tidy(series).drop_nulls()
    length = float(values.str.len_chars().to_numpy().mean())
    distinct = len(values) >= 1000 and values.n_unique() >= 0.9 * len(values)
    if length > 50 or (length > 20 and distinct):
        return f"free text ({length:.0f} characters on average)"
    if values.str.contains(r"^[+-]?\d+,\d+$").to_numpy().mean() >= 0.8:
        return f'numbers with a decimal comma ("{values[0]}"), which should be a point'
    return None


def _values(series: pl.Series, kind: Kind) -> tuple[pl.Series, pl.Series]:
    """The values of a column, and its text or whatever else they were made of."""
    import polars as pl

    if series.dtype != pl.String:
        values = _cast(series, kind)
        return values, values
    if kind != "category":
        values = _parse(series, kind)
        if values.null_count() == series.null_count():  # There is nothing to tidy up.
            return values, series
    text = _tidy(series)
    return _parse(text, kind), text


def _tidy(text: pl.Series) -> pl.Series:
    """Without blanks around the values, and with nothing where a value is missing."""
    text = text.str.strip_chars()
    return text.set(text.is_in(MISSING), None)


def _parse(text: pl.Series, kind: Kind) -> pl.Series:
    """Text as values of a kind; null where it does not fit."""
    import polars as pl

    if kind == "category":
        return text
    if kind == "flag":
        lower = text.str.to_lowercase()
        return (lower == "true").set(~lower.is_in(["true", "false"]), None)
    if kind == "date":
        return _parse_dates(text)
    return text.cast(pl.Int64 if kind == "integer" else pl.Float64, strict=False)


def _parse_dates(text: pl.Series) -> pl.Series:
    """Seconds since 1970; a time without a zone is taken as UTC."""
    import polars as pl

    text = text.set(~text.str.contains(r"^\d{4}-\d\d-\d\d"), None).str.replace("T", " ")
    seconds = pl.Series(text.name, [None], dtype=pl.Float64).extend_constant(None, len(text))[1:]
    for form in _DATE_FORMATS:
        if seconds.null_count() == text.null_count():
            break
        found = text.str.to_datetime(form, time_unit="us", strict=False)
        seconds = seconds.zip_with(seconds.is_not_null(), _cast(found, "date"))
    return seconds


def _cast(values: pl.Series, kind: Kind) -> pl.Series:
    """Values that are not text, in the type of their kind."""
    import polars as pl

    if kind == "date":
        return values.dt.epoch("us") / 1e6
    types = {"integer": pl.Int64, "flag": pl.Boolean}
    return values.cast(types.get(kind, pl.Float64), strict=False)


def _short(value: str) -> str:
    """Make a value fit into a message of one line."""
    value = " ".join(value.split())
    return value if len(value) <= 40 else value[:37] + "..."
