"""Text of a cell: what stands for a missing value, and blanks that do not count."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "\\N", "<NA>", "NaT")
"""What a missing value may be written as, in any column."""

_AMONG_NUMBERS = (
    *("-", "--", ".", "?", "na", "n/a", "n.a.", "n/d", "nd", "nan", "-nan", "nat", "<na>", "\\n"),
    *("null", "nil", "none", "missing", "unknown", "undefined"),
    *("#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!"),
)
"""What else cannot be meant as a value among numbers, dates or flags; in lower case."""


def tidy(text: pl.Series, more: Sequence[str] = ()) -> pl.Series:
    """Take away blanks around values, and whatever stands for a missing one.

    Examples
    --------
    >>> tidy(pl.Series([" 1 ", "NA"])).to_list()
    ['1', None]
    """
    text = text.str.strip_chars()
    return text.set(text.is_in([*MISSING, *more]), None)


def drop_words(tidied: pl.Series) -> pl.Series:
    """Take away what means "missing" among numbers, dates and flags, where it is no category.

    Examples
    --------
    >>> drop_words(pl.Series(["1", "-", "#DIV/0!"])).to_list()
    ['1', None, None]
    """
    return tidied.set(tidied.str.to_lowercase().is_in(_AMONG_NUMBERS), None)
