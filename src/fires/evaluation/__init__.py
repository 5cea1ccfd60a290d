"""How good a selection is, honestly: test on a batch first, then learn from it.

Every public name is loaded when it is first used: who reads the folder of a run needs no model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.core.moved import imported

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


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'fires.evaluation' has no attribute {name!r}")
    return imported(_MODULES[name], name)


def __dir__() -> list[str]:
    return __all__
