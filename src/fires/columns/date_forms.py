"""Dates and durations as people write them.

Dates of three numbers are read in one order, found once in a sample: 2024-01-02, 02/01/2024 with
the day first or the month first, 01.02.2024. Month names and times of day may stand in any of them.
"""

from __future__ import annotations

import re

import polars as pl

from fires.columns.schema import DateForm, DateOrder, Hints

_NUMERIC = re.compile(
    r"^(?P<first>\d{1,4})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{1,4})(?:[T ,].*)?$"
)
_SHAPES: dict[DateOrder, str] = {
    "year-first": r"^\d{4}-\d{1,2}-\d{1,2}(?: |$)",
    "day-first": r"^\d{1,2}-\d{1,2}-\d{4}(?: |$)",
    "month-first": r"^\d{1,2}-\d{1,2}-\d{4}(?: |$)",
}
_DATES: dict[DateOrder, str] = {
    "year-first": "%Y-%m-%d",
    "day-first": "%d-%m-%Y",
    "month-first": "%m-%d-%Y",
}
_TIMES = ("", " %H:%M:%S%.f", " %H:%M", " %H:%M:%S%.f%#z", " %H:%M%#z", " %I:%M:%S %p", " %I:%M %p")
_NAMED = (
    r"(?i)^(?:[a-z]{3},? )?(?:\d{1,2}[-/ ][a-z]{3}[-/ ]\d{4}|[a-z]{3} \d{1,2},? \d{4})(?:[ :]|$)"
)
_NAMED_DATES = ("%d-%b-%Y", "%b-%d-%Y")
_DURATION = (
    r"(?i)^(?P<minus>-)?(?:(?P<days>\d+)\s*d(?:ays?)?,?\s*)?"
    r"(?P<hours>\d{1,4}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?$"
)


def read_dates(text: pl.Series, form: DateForm) -> pl.Series:
    """Read dates, with or without a time.

    Examples
    --------
    >>> text = pl.Series(["02/01/1970", "1.1.1970 00:01", "2 Jan 1970", "1970"])
    >>> read_dates(text, DateForm("day-first")).to_list()
    [86400.0, 60.0, 86400.0, None]
    """
    plain = _dashed(text)
    seconds = _none(text)
    for shape, dates in ((_SHAPES[form.order], (_DATES[form.order],)), (_NAMED, _NAMED_DATES)):
        fitting = plain.set(~plain.str.contains(shape).fill_null(False), None)
        if shape is _NAMED:
            fitting = _named(fitting)
        for form_of_day in dates:
            for form_of_time in _TIMES:
                left = fitting.set(seconds.is_not_null(), None)
                if left.null_count() == len(left):
                    break
                found = left.str.to_datetime(
                    form_of_day + form_of_time, time_unit="us", strict=False
                )
                seconds = seconds.zip_with(seconds.is_not_null(), as_seconds(found))
    return seconds.alias(text.name)


def _dashed(text: pl.Series) -> pl.Series:
    """Dates with dashes, a blank before the time, and years of four digits."""
    found = text.str.extract_groups(
        r"^(?P<a>\d{1,4})[-/.](?P<b>\d{1,2})[-/.](?P<c>\d{1,4})(?:[T ,]+(?P<rest>.*))?$"
    )
    parts = found.struct.unnest()
    last = parts["c"]
    short = (last.str.len_chars() == 2) & (parts["a"].str.len_chars() <= 2)
    # As in most libraries: 69 to 99 are of the last century.
    recent = last.cast(pl.Int32, strict=False).fill_null(0) < 69
    full = ("20" + last).zip_with(recent, "19" + last)
    last = full.zip_with(short.fill_null(False), last)
    joined = parts["a"] + "-" + parts["b"] + "-" + last
    timed = (joined + " " + parts["rest"].str.strip_chars()).fill_null(joined)
    return timed.fill_null(text)


def _named(text: pl.Series) -> pl.Series:
    """Dates with the name of a month, as 2-Jan-2024 or Jan-2-2024 and a time."""
    text = text.str.replace(r"(?i)^[a-z]{3},? (\d{1,2} [a-z])", "$1")
    text = text.str.replace(r"^(.{7,8}\d{4}):", "$1 ").str.replace(r" ([+-]\d\d:?\d\d)$", "$1")
    text = text.str.replace(r"(?i)^([a-z]{3}) (\d{1,2}),? (\d{4})", "$1-$2-$3")
    return text.str.replace(r"(?i)^(\d{1,2})[-/ ]([a-z]{3})[-/ ](\d{4})", "$1-$2-$3")


def as_seconds(values: pl.Series) -> pl.Series:
    """Dates, times and durations as numbers."""
    if values.dtype == pl.Time:
        return values.cast(pl.Int64) / 1e9
    if values.dtype == pl.Duration:
        return values.dt.total_microseconds() / 1e6
    return values.dt.epoch("us") / 1e6


def read_durations(text: pl.Series) -> pl.Series:
    """Read durations and times of day: 1:02:03, 12:30, 2 days, 03:04:05.5.

    Examples
    --------
    >>> read_durations(pl.Series(["0:01:23", "12:30", "1 day, 0:00:01.5", "x"])).to_list()
    [83.0, 45000.0, 86401.5, None]
    """
    parts = text.str.extract_groups(_DURATION).struct.unnest()
    days, hours, minutes, seconds = (
        parts[name].cast(pl.Float64, strict=False)
        for name in ("days", "hours", "minutes", "seconds")
    )
    total = 3600.0 * hours + 60.0 * minutes + seconds.fill_null(0.0) + 86400.0 * days.fill_null(0.0)
    return total.zip_with(parts["minus"].is_null(), -total).alias(text.name)


def find_date_order(values: list[str], hints: Hints) -> str | None:
    """Find what comes first in dates of three numbers.

    Examples
    --------
    >>> find_date_order(["02/01/2024", "28/01/2024"], Hints())
    'day-first'
    >>> find_date_order(["02/01/2024", "01/03/2024"], Hints())
    '02/01/2024'
    """
    found = [match for match in map(_NUMERIC.match, values) if match]
    if not found:
        named = sum(bool(re.match(_NAMED, value)) for value in values)
        return "year-first" if 2 * named > len(values) else None
    year_first = [match for match in found if len(match["first"]) == 4]
    if 2 * len(year_first) >= len(found):
        return "year-first"
    numbers = [(int(m["first"]), int(m["second"])) for m in found if len(m["first"]) <= 2]
    n_day_first = sum(first > 12 for first, _ in numbers)
    n_month_first = sum(second > 12 for _, second in numbers)
    if n_day_first or n_month_first:
        return "day-first" if n_day_first > n_month_first else "month-first"
    if hints.dates is not None:
        return hints.dates
    if all(match["mark"] == "." for match in found):  # nobody writes the month before a point
        return "day-first"
    differing = [m for m in found if m["first"].zfill(2) != m["second"].zfill(2)]
    return differing[0][0] if differing else "month-first"


def _none(text: pl.Series) -> pl.Series:
    return pl.Series(text.name, [None], dtype=pl.Float64).extend_constant(None, len(text))[1:]
