"""Look at a run: its numbers, its page, live or in a file, and its figures.

Every public name is loaded when it is first used: a page needs no matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.core.moved import imported

if TYPE_CHECKING:
    from fires.report.displays import ImportanceDisplay as ImportanceDisplay
    from fires.report.displays import TimelineDisplay as TimelineDisplay
    from fires.report.page import show as show

_MODULES = {"ImportanceDisplay": "displays", "TimelineDisplay": "displays", "show": "page"}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fires.report' has no attribute {name!r}")
    return imported(f"fires.report.{_MODULES[name]}", name)


def __dir__() -> list[str]:
    return __all__
