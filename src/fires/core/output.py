"""Text for people and other programs: lists in messages, CSV for spreadsheets.

Names of columns and values come from anywhere. In CSV of ours, a cell of text that begins with
``=``, ``+``, ``-``, ``@``, a tab or a line end gets an apostrophe in front, and so does one that
begins with apostrophes before those: a spreadsheet would take it for a formula. What is read back
is what was written. Numbers stay as they are, also as text and with a unit: -5, -1,5, -$3.20.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core.files import damaged, open_saved

if TYPE_CHECKING:
    import polars as pl

    from fires.core.types import Label

# As polars reads them too.
_FORMULA = r"^'*[=+\-@\t\r\n]"
_UNIT = r"[^\s0-9|(!=+@-]{0,9}"
_NUMBER = (
    r"^'*[+-]?(?:(?i:inf|infinity|nan)?|"
    rf"\s?{_UNIT}\s?[.,]?[0-9][0-9.,'’\s]*(?:[eE][+-]?[0-9]+)?{_UNIT})\s*$"
)


def enumeration(words: Iterable[Label], last: str = "and") -> str:
    """The words with commas, and "and" or another word before the last.

    Examples
    --------
    >>> enumeration([3, 8, 9]), enumeration(["CSV", "Parquet"], "or"), enumeration(["one"])
    ('3, 8 and 9', 'CSV or Parquet', 'one')
    """
    *most, end = map(str, words)
    return f"{', '.join(most)} {last} {end}" if most else end


def named(names: Sequence[str] | Mapping[str, str], shown: int) -> str:
    """The first names in quotes, each with what is said of it, and how many more there are.

    Examples
    --------
    >>> named(["a", "b", "c"], 2), named({"a": " (first)"}, 2)
    ('"a", "b" and 1 more', '"a" (first)')
    """
    notes = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    some = ", ".join(f'"{name}"{notes[name]}' for name in [*notes][:shown])
    return f"{some} and {len(notes) - shown:,} more" if len(notes) > shown else some


def columns_named(names: Sequence[str], shown: int) -> str:
    """Which columns are meant: ``column "a"``, or ``columns "a", "b"``."""
    return f"column{'s' * (len(names) > 1)} {named(names, shown)}"


def csv_text(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in chain([header], rows):
        writer.writerow(
            [
                _marked(cell) if isinstance(cell, str) and not cell[:1].isalnum() else cell
                for cell in row
            ]
        )
    return text.getvalue()


def csv_rows(path: Path) -> Iterator[dict[str, str]]:
    """The rows of a CSV file that :func:`csv_text` made, by the titles of their columns."""
    with damaged(path), open_saved(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        for row in csv.DictReader(text, strict=True):
            if None in row or None in row.values():
                raise ValueError("it has rows of several lengths")
            yield {title: _unmarked(cell) for title, cell in row.items()}


def frame_as_text(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame that can be written as CSV: names and texts that look like a formula are marked."""
    import polars as pl
    import polars.selectors as cs

    texts = (cs.string() | cs.categorical() | cs.enum()).as_expr().cast(pl.String)
    marked = pl.when(_is_formula(texts)).then(texts.str.replace("^", "'")).otherwise(texts)
    return frame.with_columns(marked).rename({name: _marked(name) for name in frame.columns})


def frame_as_written(frame: pl.DataFrame) -> pl.DataFrame:
    """The texts of a frame that was read from CSV of ours, without the marks."""
    import polars as pl

    texts = pl.col(pl.String)
    is_marked = texts.str.starts_with("'") & _is_formula(texts)
    return frame.with_columns(pl.when(is_marked).then(texts.str.slice(1)).otherwise(texts))


def _is_formula(texts: pl.Expr) -> pl.Expr:
    return texts.str.contains(_FORMULA) & ~texts.str.contains(_NUMBER)


def _marked(text: str) -> str:
    return f"'{text}" if re.match(_FORMULA, text) and not re.match(_NUMBER, text) else text


def _unmarked(text: str) -> str:
    return text[1:] if text[:1] == "'" and _marked(text) != text else text
