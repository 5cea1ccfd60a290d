"""How good a selection is, honestly: test on a batch first, then learn from it.

Every public name is loaded when it is first used: who reads the folder of a run needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fires.core.moved import lazy

if TYPE_CHECKING:
    from fires.evaluation.loop import prequential as prequential
    from fires.evaluation.records import Step as Step

# No module is called as one of the names is: it would hide it.
_MODULES = {
    "SavedRun": "fires.run.saved",  # where it has moved to
    "Step": "fires.evaluation.records",
    "prequential": "fires.evaluation.loop",
}

__all__ = sorted(_MODULES)
__getattr__ = lazy(__name__, _MODULES)


def __dir__() -> list[str]:
    return __all__
