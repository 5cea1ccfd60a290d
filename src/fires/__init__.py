"""Which features of a data stream matter now, how sure are we, and is that answer stable?

Every public name is loaded when it is first used: ``import fires`` itself loads no other library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from fires.core.moved import install as _install
from fires.core.version import __version__ as __version__
from fires.rivals import REGISTRY as _SELECTORS

# For type checkers only. To them, a public name that is missing here is Any.
if TYPE_CHECKING:
    from fires.loading import load as load
    from fires.metrics.stability import stability as stability
    from fires.pipeline import OnlinePipeline as OnlinePipeline
    from fires.rivals.arriving.alpha_investing import AlphaInvesting as AlphaInvesting
    from fires.rivals.arriving.fast_osfs import FastOSFS as FastOSFS
    from fires.rivals.arriving.grafting import Grafting as Grafting
    from fires.rivals.arriving.group_saola import GroupSAOLA as GroupSAOLA
    from fires.rivals.arriving.leverage import LeverageScores as LeverageScores
    from fires.rivals.arriving.osfs import OSFS as OSFS
    from fires.rivals.arriving.saola import SAOLA as SAOLA
    from fires.rivals.baselines import AllFeatures as AllFeatures
    from fires.rivals.baselines import FixedFeatures as FixedFeatures
    from fires.rivals.baselines import RandomFeatures as RandomFeatures
    from fires.rivals.cancelout import CancelOut as CancelOut
    from fires.rivals.chi_squared import ChiSquared as ChiSquared
    from fires.rivals.from_model import FromModel as FromModel
    from fires.rivals.fsds import FSDS as FSDS
    from fires.rivals.rows.arow import AROW as AROW
    from fires.rivals.rows.efs import EFS as EFS
    from fires.rivals.rows.ftrl import FTRL as FTRL
    from fires.rivals.rows.ofs import OFS as OFS
    from fires.rivals.rows.ofs_partial import OFSPartial as OFSPartial
    from fires.rivals.rows.petrun import PEtrun as PEtrun
    from fires.rivals.rows.scw import SCW as SCW
    from fires.rivals.screening import Screening as Screening
    from fires.rivals.windows.incremental_permutation import (
        IncrementalPermutation as IncrementalPermutation,
    )
    from fires.rivals.windows.window_refit import WindowRefit as WindowRefit
    from fires.selectors.fires import FIRES as FIRES
    from fires.selectors.sharded import Sharded as Sharded

_MODULES = {
    "load": "fires.loading",
    "stability": "fires.metrics.stability",
    "OnlinePipeline": "fires.pipeline",
    "Sharded": "fires.selectors.sharded",
} | dict.fromkeys(_SELECTORS, "fires.rivals")

_PARTS = (
    "checks",
    "evaluation",
    "metrics",
    "models",
    "predictors",
    "report",
    "rivals",
    "selectors",
    "streams",
)

_install()

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
