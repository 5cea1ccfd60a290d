"""Raw columns to numbers: what the columns of a table hold, and how each is encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fires.columns.schema import Column, Doubt, Hints
from fires.core.moved import lazy

if TYPE_CHECKING:
    from fires.columns.columns import Columns
    from fires.columns.warnings import find_doubts

__all__ = ["Column", "Columns", "Doubt", "Hints", "find_doubts"]
# These import polars.
__getattr__ = lazy(__name__, {"Columns": ".columns", "find_doubts": ".warnings"})
