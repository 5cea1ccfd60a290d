"""Look at a run: its numbers, its page, live or in a file, and its figures.

Every public name is loaded when it is first used: a page needs no matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fires.core.moved import lazy

if TYPE_CHECKING:
    from fires.report.displays import ImportanceDisplay as ImportanceDisplay
    from fires.report.displays import TimelineDisplay as TimelineDisplay
    from fires.report.page import show as show

_MODULES = {"ImportanceDisplay": ".displays", "TimelineDisplay": ".displays", "show": ".page"}

__all__ = sorted(_MODULES)
__getattr__ = lazy(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
