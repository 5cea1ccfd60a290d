"""The likelihoods of linear models. Each is one file in this folder, and one line below."""

from importlib import import_module

from fires.models.families.base import Family

__all__ = ["FAMILIES", "Family"]

# One file per family; each holds a ``FAMILY``.
_FILES = (
    "probit",
    "logistic",
    "gaussian",
    "poisson",
)

FAMILIES: dict[str, Family] = {name: import_module(f"{__name__}.{name}").FAMILY for name in _FILES}
"""Every family, by the name that ``FIRES(model=...)`` calls it."""
