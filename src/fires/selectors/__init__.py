"""Selectors: thin stateful shells that turn batches into weights and a support."""

from __future__ import annotations

import importlib
from typing import Any

from fires.core.errors import StateError
from fires.core.state import Arrays

# Every method that can be made, saved and loaded by its name, and the file that tells its story.
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
}


def __getattr__(name: str) -> Any:
    if name not in REGISTRY:
        raise AttributeError(f"module 'fires.selectors' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fires.selectors.{REGISTRY[name]}"), name)


def from_state(header: dict[str, Any], arrays: Arrays, model: Any = None) -> Any:
    """A selector that goes on from what it has ``saved``.

    Parameters
    ----------
    header, arrays : dict
        What was read.
    model : object, optional
        What the user passed to :func:`fires.load`.

    Returns
    -------
    Selector
    """
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in REGISTRY:
        raise StateError(f"{kind!r} is no selector")
    return __getattr__(kind)().restore(header, arrays, model)


def __dir__() -> list[str]:
    return list(REGISTRY)
