"""Selectors by name: every class that is registered, and some of them in other settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fires.core.moved import imported
from fires.rivals import REGISTRY

if TYPE_CHECKING:
    from fires.selectors.base import OnlineSelector

# The class of each, and its settings beside a number of features and a seed; what stands as
# (module, class) is made anew for each selector.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "FIRES": ("FIRES", {}),
    "FIRES relations": ("FIRES", {"relations": "auto"}),
    "FIRES gradient": ("FIRES", {"update": "gradient"}),
    "FIRES as published": ("FIRES", {}),
    "FIRES net": ("FIRES", {"model": ("fires.models", "NeuralNet")}),
    "FIRES soft tree": ("FIRES", {"model": ("fires.models", "SoftTree")}),
    "FromModel": ("FromModel", {"estimator": ("sklearn.linear_model", "SGDClassifier")}),
    "WindowRefit lightgbm": ("WindowRefit", {"estimator": "lightgbm"}),
    "FIRES variational": ("FIRES", {"update": "variational"}),
    "Screening t": ("Screening", {"measure": "t", "forgetting": 0.001}),
    "AdPredictor": ("FromModel", {"estimator": ("fires.predictors", "AdPredictor")}),
}


def make(name: str, k: int | float, seed: int, *, numeric: bool = False) -> OnlineSelector:
    """A fresh selector of k features, for a target of classes or of numbers."""
    of, settings = VARIANTS.get(name, (name, {}))
    kind = imported(REGISTRY[of], of)
    given: dict[str, Any] = {"n_features_to_select": k, "random_state": seed}
    if numeric:
        given |= {"target": "numbers"} | ({"model": "gaussian"} if of == "FIRES" else {})
    for key, value in settings.items():
        given[key] = imported(*value)() if isinstance(value, tuple) else value
    given = {key: value for key, value in given.items() if key in kind._get_param_names()}
    made: OnlineSelector = (kind.as_published if name.endswith("published") else kind)(**given)
    return made
