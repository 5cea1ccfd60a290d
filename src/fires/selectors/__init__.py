"""Selectors: thin stateful shells that turn batches into weights and a support."""

from __future__ import annotations

import importlib
from typing import Any

# Every method that can be made, saved and loaded by its name, and the file that tells its story.
HOME = {
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
    if name not in HOME:
        raise AttributeError(f"module 'fires.selectors' has no attribute {name!r}")
    return getattr(importlib.import_module(f"fires.selectors.{HOME[name]}"), name)


def __dir__() -> list[str]:
    return list(HOME)
