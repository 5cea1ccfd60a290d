"""How the values of a column are read, given its kind.

Text that looks like numbers counts as numbers, in whatever file it stands, so that the same table
gives the same batches from CSV and from Parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from fires.columns.schema import Kind

MISSING = ("", "?", "NA", "N/A", "NaN", "nan", "null", "NULL")
"""What a missing value may be written as."""

_DATE_FORMATS = (
    "%Y-%m-%d",
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%d %H:%M:%S%.f%#z",
    "%Y-%m-%d %H:%M",
)
_TYPES: Mapping[Kind, type[pl.DataType]] = {"integer": pl.Int64, "flag": pl.Boolean}


def read_values(series: pl.Series, kind: Kind) -> tuple[pl.Series, pl.Series]:
    """Read a column of text, or of values in any other type.

    Parameters
    ----------
    series : polars.Series
        The column as it stands in its file.
    kind : str
        The kind of the column.

    Returns
    -------
    values : polars.Series
        The values, in the type of their kind; null where one is missing or does not fit.
    source : polars.Series
        What they were read from; null only where a value is missing.

    Examples
    --------
    >>> values, _ = read_values(pl.Series(["1.5", "?", "old"]), "number")
    >>> values.to_list()
    [1.5, None, None]
    """
    if series.dtype != pl.String:
        values = _cast(series, kind)
        return values, values
    if kind != "category":
        values = parse(series, kind)
        if values.null_count() == series.null_count():  # There is nothing to tidy up.
            return values, series
    text = tidy(series)
    return parse(text, kind), text


def tidy(text: pl.Series) -> pl.Series:
    """Take away blanks around values, and whatever stands for a missing one.

    Parameters
    ----------
    text : polars.Series
        Strings.

    Returns
    -------
    polars.Series
        Strings; null where a value is missing.

    Examples
    --------
    >>> tidy(pl.Series([" 1 ", "NA"])).to_list()
    ['1', None]
    """
    text = text.str.strip_chars()
    return text.set(text.is_in(MISSING), None)


def parse(text: pl.Series, kind: Kind) -> pl.Series:
    """Read text as values of a kind.

    Parameters
    ----------
    text : polars.Series
        Strings.
    kind : str
        The kind.

    Returns
    -------
    polars.Series
        The values; null where the text does not fit.

    Examples
    --------
    >>> parse(pl.Series(["TRUE", "no"]), "flag").to_list()
    [True, None]
    """
    return _PARSERS[kind](text)


def _parse_flags(text: pl.Series) -> pl.Series:
    lower = text.str.to_lowercase()
    return (lower == "true").set(~lower.is_in(["true", "false"]), None)


def _parse_dates(text: pl.Series) -> pl.Series:
    """Seconds since 1970; a time without a zone is taken as UTC."""
    text = text.set(~text.str.contains(r"^\d{4}-\d\d-\d\d"), None).str.replace("T", " ")
    seconds = pl.Series(text.name, [None], dtype=pl.Float64).extend_constant(None, len(text))[1:]
    for form in _DATE_FORMATS:
        if seconds.null_count() == text.null_count():
            break
        found = text.str.to_datetime(form, time_unit="us", strict=False)
        seconds = seconds.zip_with(seconds.is_not_null(), _cast(found, "date"))
    return seconds


_PARSERS: Mapping[Kind, Callable[[pl.Series], pl.Series]] = {
    "number": lambda text: text.cast(pl.Float64, strict=False),
    "integer": lambda text: text.cast(pl.Int64, strict=False),
    "flag": _parse_flags,
    "date": _parse_dates,
    "category": lambda text: text,
}


def _cast(values: pl.Series, kind: Kind) -> pl.Series:
    """Values that are not text, in the type of their kind."""
    if kind == "date":
        return values.dt.epoch("us") / 1e6
    return values.cast(_TYPES.get(kind, pl.Float64), strict=False)
