"""Curves and pairs of a run, as plain values: in ``run.json``, and with each snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core.types import Header

if TYPE_CHECKING:
    from fires.pipeline import OnlinePipeline

_POINTS = 21
_CURVE: dict[str, Any] = {key: [(int, float)] for key in ("values", "effect", "low", "high")}
_PAIR: dict[str, Any] = dict.fromkeys(("importance", "low", "high"), (int, float))
_ENDS = "first", "second"
# The form of :func:`relations_of`.
RELATIONS: dict[str, Any] = {
    "kind": str,
    "curves": [_CURVE | {"feature": str, "class?": str}],
    "pairs": [_PAIR | dict.fromkeys(_ENDS, str)],
    "unsigned": [str],
}


def relations_of(pipeline: OnlinePipeline, features: Iterable[int] | None = None) -> Header | None:
    """Curves of the selected features, or of some, and all pairs; None if lines were asked for.

    ``unsigned`` has those of the features whose importance has no sign.
    """
    selector = pipeline.selector
    if getattr(selector, "relations", "linear") == "linear":
        return None
    if features is None:
        chosen = selector.get_support(indices=True)
        features = chosen[np.argsort(selector.ranking_[chosen])].tolist()
    curved, unsigned, some = selector.curved_, selector.unsigned_, list(features)
    known = selector.known_names
    names = {j: f"x{j}" if known is None else str(known[j]) for j in some}
    pairs = [pair._asdict() for pair in selector.pairs_]
    for pair in pairs:
        ends = {end: pair[end] if known is not None else f"x{pair[end]}" for end in _ENDS}
        pair |= ends | {name: _short(pair[name]) for name in _PAIR}
    return {
        "kind": selector.relations_,
        "curves": [{"feature": names[j]} | _curve(pipeline, j) for j in some if curved[j]],
        "pairs": pairs,
        "unsigned": [names[j] for j in some if unsigned[j]],
    }


def _curve(pipeline: OnlinePipeline, place: int) -> Header:
    """A curve; of several classes, that of the class for which the feature matters most."""
    label, told, selector = None, {}, pipeline.selector
    if len(selector.label_index) >= 3:
        best = int(np.abs(selector.class_importances_[:, place]).argmax())
        label = selector.classes_.tolist()[best]
        told = {"class": str(label)}
    curve = pipeline.curve(place, label, n_points=_POINTS)._asdict()
    return told | {name: [_short(one) for one in of.tolist()] for name, of in curve.items()}


def _short(value: float) -> float:
    return float(f"{value:.5g}")
