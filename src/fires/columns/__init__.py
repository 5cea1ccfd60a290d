"""Raw columns to numbers: what the columns of a table hold, and how each is encoded."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fires.columns.schema import Column, Doubt, Hints

if TYPE_CHECKING:
    from fires.columns.columns import Columns
    from fires.columns.warnings import find_doubts

__all__ = ["Column", "Columns", "Doubt", "Hints", "find_doubts"]
_HOMES = {"Columns": "fires.columns.columns", "find_doubts": "fires.columns.warnings"}


def __getattr__(name: str) -> Any:
    """Import polars only if it is used."""
    if name in _HOMES:
        return vars(importlib.import_module(_HOMES[name]))[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
