"""Every method, FIRES and its rivals, by name; here are all but FIRES, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.core.errors import StateError
from fires.core.moved import imported, lazy

# For type checkers only, which find them here and in fires.
if TYPE_CHECKING:
    from fires.core.state import Arrays
    from fires.rivals.arriving.groups import GFSFS as GFSFS
    from fires.rivals.arriving.groups import OGFS as OGFS
    from fires.rivals.arriving.independence import OSFS as OSFS
    from fires.rivals.arriving.independence import FastOSFS as FastOSFS
    from fires.rivals.arriving.linear import AlphaInvesting as AlphaInvesting
    from fires.rivals.arriving.linear import Grafting as Grafting
    from fires.rivals.arriving.linear import LeverageScores as LeverageScores
    from fires.rivals.arriving.saola import SAOLA as SAOLA
    from fires.rivals.arriving.saola import GroupSAOLA as GroupSAOLA
    from fires.rivals.baselines import AllFeatures as AllFeatures
    from fires.rivals.baselines import FixedFeatures as FixedFeatures
    from fires.rivals.baselines import RandomFeatures as RandomFeatures
    from fires.rivals.cancelout import CancelOut as CancelOut
    from fires.rivals.from_model import FromModel as FromModel
    from fires.rivals.fsds import FSDS as FSDS
    from fires.rivals.rows.ofs import OFS as OFS
    from fires.rivals.rows.ofs import OFSPartial as OFSPartial
    from fires.rivals.rows.ofs import PEtrun as PEtrun
    from fires.rivals.rows.online import EFS as EFS
    from fires.rivals.rows.online import FTRL as FTRL
    from fires.rivals.rows.online import OLI2DS as OLI2DS
    from fires.rivals.rows.second_order import AROW as AROW
    from fires.rivals.rows.second_order import ASCW as ASCW
    from fires.rivals.rows.second_order import SCW as SCW
    from fires.rivals.screening import ChiSquared as ChiSquared
    from fires.rivals.screening import Screening as Screening
    from fires.rivals.windows.chunks import HEFT as HEFT
    from fires.rivals.windows.chunks import DXMiner as DXMiner
    from fires.rivals.windows.explained import LICON as LICON
    from fires.rivals.windows.explained import IncrementalPermutation as IncrementalPermutation
    from fires.rivals.windows.window_refit import WindowRefit as WindowRefit
    from fires.selectors.fires import FIRES as FIRES

_MODULES = {
    "selectors.fires": ("FIRES",),
    "rivals.arriving.groups": ("GFSFS", "OGFS"),
    "rivals.arriving.linear": ("AlphaInvesting", "Grafting", "LeverageScores"),
    "rivals.arriving.independence": ("FastOSFS", "OSFS"),
    "rivals.arriving.saola": ("GroupSAOLA", "SAOLA"),
    "rivals.rows.second_order": ("AROW", "ASCW", "SCW"),
    "rivals.rows.online": ("EFS", "FTRL", "OLI2DS"),
    "rivals.rows.ofs": ("OFS", "OFSPartial", "PEtrun"),
    "rivals.baselines": ("AllFeatures", "FixedFeatures", "RandomFeatures"),
    "rivals.cancelout": ("CancelOut",),
    "rivals.from_model": ("FromModel",),
    "rivals.fsds": ("FSDS",),
    "rivals.screening": ("ChiSquared", "Screening"),
    "rivals.windows.chunks": ("DXMiner", "HEFT"),
    "rivals.windows.explained": ("IncrementalPermutation", "LICON"),
    "rivals.windows.window_refit": ("WindowRefit",),
}
# Every method, by name, and the module it is in. Only these can be saved and loaded.
REGISTRY = {name: f"fires.{module}" for module, names in _MODULES.items() for name in names}


__getattr__ = lazy(__name__, REGISTRY)


def is_registered(kind: type) -> bool:
    """Whether a class is one of ours, which a file names and ``fires.load`` finds again.

    To ask for the class itself would load a large part of scikit-learn.
    """
    return kind.__module__ == REGISTRY.get(kind.__name__)


def from_state(header: dict[str, Any], arrays: Arrays, model: Any = None) -> Any:
    """Make a selector from what :meth:`Selector.saved` gave."""
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in REGISTRY:
        raise StateError(f"{kind!r} is no selector")
    return imported(REGISTRY[kind], kind)().restore(header, arrays, model)


def __dir__() -> list[str]:
    return list(REGISTRY)
