"""The likelihoods of linear models: one file each, and one line here."""

from __future__ import annotations

import importlib

from fires.models.families.base import Family

__all__ = ["FAMILIES", "Family"]

# The name of each family, which is that of its file, and its class.
_CLASSES = {
    "probit": "Probit",
    "logistic": "Logistic",
    "gaussian": "Gaussian",
    "poisson": "Poisson",
}


def _family(name: str) -> Family:
    family: Family = getattr(importlib.import_module(f"{__name__}.{name}"), _CLASSES[name])()
    return family


FAMILIES: dict[str, Family] = {name: _family(name) for name in _CLASSES}
