"""Small helpers to build messages."""

from __future__ import annotations

from collections.abc import Iterable

from fires.core.types import Label


def enumeration(words: Iterable[Label], last: str = "and") -> str:
    """The words with commas, and "and" or another word before the last.

    Examples
    --------
    >>> enumeration([3, 8, 9]), enumeration(["CSV", "Parquet"], "or"), enumeration(["one"])
    ('3, 8 and 9', 'CSV or Parquet', 'one')
    """
    *most, end = map(str, words)
    return f"{', '.join(most)} {last} {end}" if most else end
