"""Selectors: thin stateful shells that turn batches into weights and a support."""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from fires.core.errors import StateError

if TYPE_CHECKING:
    from fires.core.state import Arrays
    from fires.core.types import Estimator, Header
    from fires.models.base import BaseModel

# Every method, by name, and the module it is in. Only these can be saved and loaded.
REGISTRY = {
    "FIRES": "fires",
    "AlphaInvesting": "arriving.alpha_investing",
    "FastOSFS": "arriving.osfs",
    "Grafting": "arriving.grafting",
    "GroupSAOLA": "arriving.saola",
    "LeverageScores": "arriving.leverage",
    "OSFS": "arriving.osfs",
    "SAOLA": "arriving.saola",
    "AROW": "rows.second_order",
    "EFS": "rows.efs",
    "FTRL": "rows.ftrl",
    "OFS": "rows.ofs",
    "OFSPartial": "rows.ofs",
    "PEtrun": "rows.ofs",
    "SCW": "rows.second_order",
    "AllFeatures": "baselines",
    "FixedFeatures": "baselines",
    "RandomFeatures": "baselines",
    "CancelOut": "cancelout",
    "ChiSquared": "chi_squared",
    "FromModel": "from_model",
    "FSDS": "fsds",
    "Screening": "screening",
    "IncrementalPermutation": "windows.incremental_permutation",
    "WindowRefit": "windows.window_refit",
}


def __getattr__(name: str) -> Any:
    if name not in REGISTRY:
        raise AttributeError(f"module 'fires.selectors' has no attribute {name!r}")
    _register()
    return getattr(importlib.import_module(f"fires.selectors.{REGISTRY[name]}"), name)


@cache
def _register() -> None:
    """Register our selectors with scikit-learn: ``isinstance(selector, SelectorMixin)`` is True.

    They do not inherit from the mixin, because its module takes as long to load as all of ours. The
    command imports selectors from their own files and does not need it.
    """
    from sklearn.feature_selection import SelectorMixin

    from fires.selectors.base import OnlineSelector

    SelectorMixin.register(OnlineSelector)


def is_registered(kind: type) -> bool:
    """Whether a class is one of ours, which a file names and ``fires.load`` finds again.

    To ask for the class itself would load a large part of scikit-learn.

    Examples
    --------
    >>> from fires import AROW
    >>> is_registered(AROW), is_registered(type("AROW", (AROW,), {}))
    (True, False)
    """
    return kind.__module__ == f"fires.selectors.{REGISTRY.get(kind.__name__)}"


def from_state(header: Header, arrays: Arrays, model: BaseModel | Estimator | None = None) -> Any:
    """Make a selector from what :meth:`Selector.saved` gave."""
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in REGISTRY:
        raise StateError(f"{kind!r} is no selector")
    return getattr(importlib.import_module(f"fires.selectors.{REGISTRY[kind]}"), kind)().restore(
        header, arrays, model
    )


def __dir__() -> list[str]:
    return list(REGISTRY)
