"""Raw columns to numbers: what the columns of a table hold, and how each is encoded."""

from __future__ import annotations

from typing import Any

from fires.columns.schema import Column, Hints

__all__ = ["Column", "Columns", "Hints"]


def __getattr__(name: str) -> Any:
    """Import polars only if it is used."""
    if name == "Columns":
        from fires.columns.columns import Columns

        return Columns
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
