"""Which features of a data stream matter now, how sure are we, and is that answer stable?

Every public name is loaded when it is first used: ``import fires`` itself loads no other library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fires.core.version import __version__ as __version__
from fires.selectors import REGISTRY as _SELECTORS

# For type checkers only. To them, a public name that is missing here is Any.
if TYPE_CHECKING:
    from fires.loading import load as load
    from fires.metrics.stability import stability as stability
    from fires.pipeline import OnlinePipeline as OnlinePipeline
    from fires.selectors.arriving.alpha_investing import AlphaInvesting as AlphaInvesting
    from fires.selectors.arriving.grafting import Grafting as Grafting
    from fires.selectors.arriving.leverage import LeverageScores as LeverageScores
    from fires.selectors.arriving.osfs import OSFS as OSFS
    from fires.selectors.arriving.osfs import FastOSFS as FastOSFS
    from fires.selectors.arriving.saola import SAOLA as SAOLA
    from fires.selectors.arriving.saola import GroupSAOLA as GroupSAOLA
    from fires.selectors.baselines import AllFeatures as AllFeatures
    from fires.selectors.baselines import FixedFeatures as FixedFeatures
    from fires.selectors.baselines import RandomFeatures as RandomFeatures
    from fires.selectors.cancelout import CancelOut as CancelOut
    from fires.selectors.chi_squared import ChiSquared as ChiSquared
    from fires.selectors.fires import FIRES as FIRES
    from fires.selectors.from_model import FromModel as FromModel
    from fires.selectors.fsds import FSDS as FSDS
    from fires.selectors.rows.efs import EFS as EFS
    from fires.selectors.rows.ftrl import FTRL as FTRL
    from fires.selectors.rows.ofs import OFS as OFS
    from fires.selectors.rows.ofs import OFSPartial as OFSPartial
    from fires.selectors.rows.ofs import PEtrun as PEtrun
    from fires.selectors.rows.second_order import AROW as AROW
    from fires.selectors.rows.second_order import SCW as SCW
    from fires.selectors.screening import Screening as Screening
    from fires.selectors.sharded import Sharded as Sharded
    from fires.selectors.windows.incremental_permutation import (
        IncrementalPermutation as IncrementalPermutation,
    )
    from fires.selectors.windows.window_refit import WindowRefit as WindowRefit

_MODULES = {
    "load": "fires.loading",
    "stability": "fires.metrics.stability",
    "OnlinePipeline": "fires.pipeline",
    "Sharded": "fires.selectors.sharded",
} | dict.fromkeys(_SELECTORS, "fires.selectors")

_PARTS = (
    "checks",
    "evaluation",
    "metrics",
    "models",
    "predictors",
    "report",
    "selectors",
    "streams",
)

__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(importlib.import_module(_MODULES[name]), name)
    elif name in _PARTS:
        value = importlib.import_module(f"fires.{name}")
    else:
        raise AttributeError(f"module 'fires' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_PARTS]
