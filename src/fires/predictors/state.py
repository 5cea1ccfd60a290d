"""Save and load predictors. A file holds what they have learnt, and never their code.

The built-in ones are made anew. Every other predictor is passed in again,
with its settings. It is an estimator of scikit-learn, whose learnt arrays are put back, or an
object with ``state()``, which returns JSON values and arrays, and ``restore(header, arrays)``,
which takes them.
"""

from __future__ import annotations

from typing import Any

from fires.core.errors import NotPassedAgain, StateError
from fires.core.state import Arrays, State
from fires.predictors.base import Predictor, can
from fires.predictors.bayes_linear import BayesLinear
from fires.predictors.built_in import BuiltIn, LinearRegressor, Majority, Mean, Perceptron
from fires.predictors.river import RiverPredictor
from fires.predictors.scikit_learn import SklearnPredictor
from fires.predictors.slots import PredictorStep, Slots

_OURS = {
    f"fires.predictors.{kind.__name__}": kind
    for kind in (BayesLinear, Perceptron, LinearRegressor, Majority, Mean)
}


def predictor_state(predictor: Any) -> State:
    """The name of a predictor and what it has learnt; an error if that cannot be saved."""
    name, learner = _name(predictor), _inner(predictor)
    if isinstance(predictor, RiverPredictor):
        raise ValueError(
            f"{name} cannot be saved, as River's models are objects that only pickle would write: "
            "save the selector alone, pipeline.selector.save(path), or predict with BayesLinear or "
            "an estimator of scikit-learn."
        )
    is_estimator = isinstance(predictor, SklearnPredictor) and can(learner, "get_params")
    if not can(learner, "state", "restore") and not is_estimator:
        raise ValueError(
            f"{name} cannot be saved: it is no estimator of scikit-learn and has no state() and "
            "restore(header, arrays); write these, or save the selector alone, "
            "pipeline.selector.save(path)."
        )
    header, arrays = predictor.state()
    return {"class": name, "state": header}, arrays


def predictor_from_state(header: dict[str, Any], arrays: Arrays, given: Any, where: str) -> Any:
    """The predictor that :func:`predictor_state` described."""
    wanted = header["class"].replace("fires.evaluation.", "fires.predictors.")  # in older files
    ours = _OURS.get(wanted)
    if ours is not None and (given is None or type(given) is ours):
        given = ours()
    if given is None:
        raise NotPassedAgain(
            f"The predictor in {where} is {wanted}, whose code and settings are not in the file: "
            "pass it again, fires.load(path, predictor=...)."
        )
    found = _name(given)
    if found != wanted:
        raise ValueError(f"The predictor in {where} is {wanted}; the one passed is {found}.")
    given.restore(header["state"], arrays)
    return given


def step_state(step: PredictorStep) -> State:
    """What the last step of a pipeline holds: its predictor, if there is one, and its slots."""
    saved, arrays = (None, {}) if step.predictor is None else predictor_state(step.predictor)
    slots = None if step.slots is None else step.slots.as_json()
    return {"predictor": saved, "slots": slots}, arrays


def step_from_state(
    header: dict[str, Any], arrays: Arrays, given: Any, n_features: int, where: str
) -> PredictorStep:
    """The step that :func:`step_state` described, for so many features."""
    predictor, saved = given, header["predictor"]
    if saved is not None:
        predictor = predictor_from_state(saved, arrays, given, where)
    elif given is not None:
        raise ValueError(f"The pipeline in {where} was saved without a predictor: pass none.")
    slots = None if header.get("slots") is None else Slots.from_json(header["slots"])
    wanted = n_features if slots is None else len(slots)
    width = predictor.width if isinstance(predictor, BuiltIn) else None
    if width not in (None, wanted):
        raise StateError(f"a predictor of {width} features for {wanted} features")
    return PredictorStep(predictor, slots)


def _name(predictor: Any) -> str:
    """The name of the predictor as a user knows it."""
    name = f"fires.predictors.{type(predictor).__name__}"  # scikit-learn has a Perceptron too
    if type(predictor) is _OURS.get(name):
        return name
    of = " of River" if isinstance(predictor, RiverPredictor) else ""
    return type(_inner(predictor)).__qualname__ + of


def _inner(predictor: Any) -> Any:
    return predictor.inner if isinstance(predictor, Predictor) else predictor
