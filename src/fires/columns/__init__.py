"""Raw columns to numbers: what the columns of a table hold, and how each is encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.columns.schema import Column, Hints

if TYPE_CHECKING:
    from fires.columns.columns import Columns

__all__ = ["Column", "Columns", "Hints"]


def __getattr__(name: str) -> Any:
    """Import polars only if it is used."""
    if name == "Columns":
        from fires.columns import columns

        return columns.Columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
