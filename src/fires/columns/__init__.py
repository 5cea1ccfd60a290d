"""Raw columns to numbers: what the columns of a table hold, and how each is encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.columns.schema import Column, Doubt, Hints

if TYPE_CHECKING:
    from fires.columns.columns import Columns
    from fires.columns.doubts import find_doubts

__all__ = ["Column", "Columns", "Doubt", "Hints", "find_doubts"]


def __getattr__(name: str) -> Any:
    """Import polars only if it is used."""
    if name == "Columns":
        from fires.columns import columns

        return columns.Columns
    if name == "find_doubts":
        from fires.columns import doubts

        return doubts.find_doubts
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
