"""Which features of a data stream matter now, how sure are we, and is that answer stable?

Every public name is loaded when it is first used: ``import fires`` itself loads no other library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fires.core.moved import lazy as _lazy
from fires.core.version import __version__ as __version__
from fires.rivals import REGISTRY as _SELECTORS

# For type checkers only. To them, a public name that is missing here is Any.
if TYPE_CHECKING:
    from fires.loading import load as load
    from fires.metrics.stability import stability as stability
    from fires.pipeline import OnlinePipeline as OnlinePipeline
    from fires.rivals import *
    from fires.selectors.sharded import Sharded as Sharded

_MODULES = {
    "load": "fires.loading",
    "stability": "fires.metrics.stability",
    "OnlinePipeline": "fires.pipeline",
    "Sharded": "fires.selectors.sharded",
} | dict.fromkeys(_SELECTORS, "fires.rivals")

_PARTS = (
    *("checks", "evaluation", "metrics", "models", "predictors"),
    *("report", "rivals", "selectors", "streams"),
)

__all__ = sorted([*_MODULES, "__version__"])


__getattr__ = _lazy(__name__, _MODULES, _PARTS)


def __dir__() -> list[str]:
    return [*__all__, *_PARTS]
