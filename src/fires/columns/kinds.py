"""What the columns of a table hold, found out from its first rows.

The kind of a column is fixed by a sample from the start of the table: numbers, true and false,
dates, or categories. A value that does not fit its column's kind makes its row unusable.
"""

from __future__ import annotations

import shlex

import polars as pl

from fires.columns.schema import Column, Kind
from fires.columns.values import parse, tidy
from fires.core.errors import InputError

_KINDS_OF_TYPES: dict[type[pl.DataType], Kind] = {
    pl.Boolean: "flag",
    pl.Date: "date",
    pl.Datetime: "date",
}


def find_kinds(
    sample: pl.DataFrame, target: str, *, numeric_target: bool = False
) -> tuple[Column, ...]:
    """Fix the kind of each column of a sample.

    A column is of a kind if four in five of its values are, or all but one. A target with at
    most 50 different values is a set of labels: they are numbers only if all of them are.
    A column without any value counts as numbers.

    Parameters
    ----------
    sample : polars.DataFrame
        The first rows of a table, with columns of text or of any other type.
    target : str
        The column to predict.
    numeric_target : bool
        The target holds numbers, even if all those in the sample are whole.

    Returns
    -------
    tuple of Column
        In the order of the sample, but the target comes last.

    Raises
    ------
    InputError
        If columns hold free text: on average more than 50 characters, or more than 20 where
        nine in ten of at least 1,000 values are different. Likewise if they hold lists,
        decimal commas, or anything else that is neither a number nor a category.

    Examples
    --------
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


def _kind(series: pl.Series, n_labels: int = 0) -> Kind:
    """Find the kind of most values; of all, if at most ``n_labels`` of them are different."""
    if series.dtype != pl.String:
        return _KINDS_OF_TYPES.get(series.dtype.base_type(), "number")
    if parse(series, "number").null_count() == series.null_count():
        return "number"
    values = tidy(series).drop_nulls()
    n_misfits = max(1, len(values) // 5)
    if n_labels and values.n_unique() <= n_labels:
        n_misfits = 0
    kinds: tuple[Kind, ...] = ("number", "flag", "date")
    for kind in kinds:
        n_bad = parse(values, kind).null_count()
        if n_bad == 0 or (n_bad <= n_misfits and 2 * n_bad < len(values)):
            return kind
    return "category"


def _target_kind(series: pl.Series) -> Kind:
    """As for any column, but numbers that are all whole are labels."""
    kind = _kind(series, n_labels=50)
    if kind != "number" or series.dtype.is_float():
        return kind
    if series.dtype != pl.String:
        return "integer"
    values = tidy(series).drop_nulls()
    n_fractions = parse(values, "integer").null_count() - parse(values, "number").null_count()
    return "number" if n_fractions or len(values) == 0 else "integer"


def _why_refused(series: pl.Series, kind: Kind) -> str | None:
    """Say what makes a column unfit to be a feature, if anything does."""
    plain = (pl.String, pl.Boolean, pl.Date, pl.Datetime, pl.Null)
    if series.dtype not in plain and not series.dtype.is_numeric():
        return f"values of type {series.dtype}"
    if kind != "category":
        return None
    values = tidy(series).drop_nulls()
    length = float(values.str.len_chars().to_numpy().mean())
    distinct = len(values) >= 1000 and values.n_unique() >= 0.9 * len(values)
    if length > 50 or (length > 20 and distinct):
        return f"free text ({length:.0f} characters on average)"
    if values.str.contains(r"^[+-]?\d+,\d+$").to_numpy().mean() >= 0.8:
        return f'numbers with a decimal comma ("{values[0]}"), which should be a point'
    return None
