"""Which features of a data stream matter now, how sure are we, and is that answer stable?

The public names, loaded when they are first asked for: ``import fires`` itself loads none of the
libraries behind them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fires.core.version import __version__
from fires.selectors import HOME as _SELECTORS

if TYPE_CHECKING:
    from fires.metrics.stability import stability
    from fires.selectors.fires import FIRES
    from fires.selectors.load import load

_HOME = {
    "load": "fires.selectors.load",
    "stability": "fires.metrics.stability",
} | dict.fromkeys(_SELECTORS, "fires.selectors")

_PARTS = ("evaluation", "metrics", "models", "selectors", "streams")

__all__ = ["FIRES", "__version__", "load", "stability"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
    elif name in _PARTS:
        value = importlib.import_module(f"fires.{name}")
    else:
        raise AttributeError(f"module 'fires' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PARTS]
