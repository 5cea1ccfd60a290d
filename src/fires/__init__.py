"""Which features of a data stream matter now, how sure are we, and is that answer stable?

The public names, loaded when they are first asked for: ``import fires`` itself loads none of the
libraries behind them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fires.core.version import __version__
from fires.selectors import REGISTRY as _SELECTORS

if TYPE_CHECKING:
    from fires.loading import load
    from fires.metrics.stability import stability
    from fires.pipeline import OnlinePipeline
    from fires.selectors.arriving.alpha_investing import AlphaInvesting
    from fires.selectors.arriving.grafting import Grafting
    from fires.selectors.arriving.leverage import LeverageScores
    from fires.selectors.arriving.osfs import OSFS, FastOSFS
    from fires.selectors.arriving.saola import SAOLA, GroupSAOLA
    from fires.selectors.baselines import AllFeatures, FixedFeatures, RandomFeatures
    from fires.selectors.cancelout import CancelOut
    from fires.selectors.chi_squared import ChiSquared
    from fires.selectors.fires import FIRES
    from fires.selectors.from_model import FromModel
    from fires.selectors.fsds import FSDS
    from fires.selectors.rows.efs import EFS
    from fires.selectors.rows.ftrl import FTRL
    from fires.selectors.rows.ofs import OFS, OFSPartial, PEtrun
    from fires.selectors.rows.second_order import AROW, SCW
    from fires.selectors.screening import Screening

_HOME = {
    "load": "fires.loading",
    "stability": "fires.metrics.stability",
    "OnlinePipeline": "fires.pipeline",
} | dict.fromkeys(_SELECTORS, "fires.selectors")

_PARTS = ("evaluation", "metrics", "models", "predictors", "selectors", "streams")

__all__ = [
    "AROW",
    "EFS",
    "FIRES",
    "FSDS",
    "FTRL",
    "OFS",
    "OSFS",
    "SAOLA",
    "SCW",
    "AllFeatures",
    "AlphaInvesting",
    "CancelOut",
    "ChiSquared",
    "FastOSFS",
    "FixedFeatures",
    "FromModel",
    "Grafting",
    "GroupSAOLA",
    "LeverageScores",
    "OFSPartial",
    "OnlinePipeline",
    "PEtrun",
    "RandomFeatures",
    "Screening",
    "__version__",
    "load",
    "stability",
]


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
