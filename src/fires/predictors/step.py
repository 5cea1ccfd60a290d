"""The last step of a pipeline: its predictor, with places for columns that come and go, and saved.

A file holds what a predictor has learnt, and never its code. The built-in ones are made anew. Every
other predictor is passed in again, with its settings. It is an estimator of scikit-learn, whose
learnt arrays are put back, or an object with ``state()``, which returns JSON values and arrays, and
``restore(header, arrays)``, which takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import Classes
from fires.core.errors import InputError, NotPassedAgain, StateError, undamaged
from fires.core.settings import check_count
from fires.core.state import Arrays, State
from fires.core.types import Floats, Header, Matrix, Places
from fires.core.validation import check_names
from fires.kernels.select import placed
from fires.predictors.adapters import RiverPredictor, SklearnPredictor
from fires.predictors.base import Predictor, can, unwrapped
from fires.predictors.bayes_linear import BayesLinear
from fires.predictors.built_in import BuiltIn, LinearRegressor, Majority, Mean, Perceptron

_OURS = {
    f"fires.predictors.{kind.__name__}": kind
    for kind in (BayesLinear, Perceptron, LinearRegressor, Majority, Mean)
}
_LEAST, _PER_FEATURE, _UNKNOWN = 64, 4, 1024


class Slots:
    """Gives each selected column a place of its own among those of a predictor.

    A predictor has a fixed width, and only the selected columns are shown to it. A column gets a
    slot when it is selected for the first time, and keeps it as long as there is room: when it is
    selected again, the predictor still knows it. If all slots are taken, a new column gets the one
    whose column has not been selected for longest. What the predictor has learnt there is of the
    other column, and has to be forgotten.
    """

    def __init__(self, n_slots: int) -> None:
        self.names: list[str | None] = [None] * n_slots
        self._places: dict[str, int] = {}
        self._last = np.zeros(n_slots, dtype=np.int64)
        self._now = 0

    @classmethod
    def for_features(cls, n_features_to_select: float | str, n_slots: int | None) -> Slots:
        """So many slots, or as many as usual; an error if they are too few."""
        wanted = None if isinstance(n_features_to_select, float | str) else n_features_to_select
        if n_slots is None:
            return cls(_UNKNOWN if wanted is None else max(_LEAST, _PER_FEATURE * int(wanted)))
        check_count("slots", n_slots)
        slots = cls(n_slots)
        slots._hold(wanted or 0, "to be selected")
        return slots

    def _hold(self, n: int, how: str) -> None:
        if n > len(self):
            raise InputError(
                f"{n} columns are {how}, and the predictor has {len(self)} slots",
                hint=f"give slots={n} or more",
            )

    def __len__(self) -> int:
        return len(self.names)

    def take(self, names: Sequence[str]) -> tuple[Places, Places]:
        """The slots of the columns that are selected now."""
        self._hold(len(names), "selected")
        places = self.places(names)
        new = np.flatnonzero(places < 0)
        self._now += 1
        self._last[places[places >= 0]] = self._now
        reassigned: Places = np.empty(0, dtype=np.intp)
        if len(new):
            # Slots without a column have 0 here, and ties go to the first.
            found = np.sort(np.argsort(self._last, kind="stable")[: len(new)])
            reassigned = found[[self.names[place] is not None for place in found.tolist()]]
            for place, at in zip(found.tolist(), new.tolist(), strict=True):
                self._places.pop(self.names[place], None)
                self.names[place] = names[at]
                self._places[names[at]] = place
            places[new] = found
            self._last[found] = self._now
        return places, reassigned

    def places(self, names: Iterable[str]) -> Places:
        """The slot of each column, as far as they have one."""
        return np.array([self._places.get(name, -1) for name in names], dtype=np.intp)

    def shown(
        self, X: Matrix, columns: Places, names: Iterable[str], absent: float = 0.0
    ) -> Matrix:
        """Rows as the predictor sees them, with those of the columns that have a slot."""
        slot_of = np.full(X.shape[1], -1)
        slot_of[columns] = self.places(names)
        return placed(X, slot_of, len(self), absent)

    def change_of(self, change: Floats, names: Sequence[str]) -> Floats:
        """By what the units of each slot have changed, by those of all columns."""
        places = self.places(names)
        moved, has_slot = np.repeat([[0.0], [1.0]], len(self), axis=1), np.flatnonzero(places >= 0)
        moved[:, places[has_slot]] = change[:, has_slot]
        return moved

    def as_json(self) -> Header:
        """Everything there is to save, as JSON values; :meth:`from_json` takes it back."""
        return {"names": list(self.names), "last": self._last.tolist(), "now": self._now}

    @classmethod
    def from_json(cls, saved: Any) -> Slots:
        """What :meth:`as_json` wrote down."""
        with undamaged("the slots are"):
            names = list(saved["names"])
            check_count("slots", len(names))
            slots = cls(len(names))
            check_names(np.array([name for name in names if name is not None], dtype=object))
            slots.names, slots._now = names, int(saved["now"])
            slots._places = {name: place for place, name in enumerate(names) if name is not None}
            slots._last = np.array(saved["last"], dtype=np.int64).reshape(len(names))
        return slots


class PredictorStep:
    """The last step of a pipeline: a predictor or None, and slots if its columns are open.

    A pipeline that refuses a batch puts its attributes back, so those of a step never change.
    """

    def __init__(self, predictor: Any = None, slots: Slots | None = None) -> None:
        self.predictor, self.slots = predictor, slots
        self._ours = predictor if isinstance(predictor, Predictor) else None
        # What the predictor is shown in features that are not selected.
        self.fill = 0.0 if self._ours is None else self._ours.fill
        # An overridden partial_fit is not passed by.
        self.takes_batches = (
            self._ours is not None and type(predictor).partial_fit is Predictor.partial_fit
        )

    @property
    def inner(self) -> Any:
        """The object that the user passed."""
        return unwrapped(self.predictor)

    def check(self, batch: CheckedBatch, expected: Classes) -> None:
        """Raise an error if the predictor would refuse the batch."""
        if self.slots is not None:
            batch = batch.with_rows(np.broadcast_to(0.0, (batch.n_rows, len(self.slots))))
        if self._ours is not None:
            self._ours.check(batch, expected)

    def train(self, batch: CheckedBatch, rows: Matrix, expected: Classes) -> None:
        """Let the predictor learn from the rows that it is shown; these labels are expected."""
        if self.takes_batches:
            shown = batch.with_rows(rows)
            shown.change = batch.change
            if self.slots is not None and batch.change is not None:
                shown.change = self.slots.change_of(batch.change, batch.known.known)
            self.predictor.learn(shown, expected)
        else:
            classes = expected.labels if batch.classes is None else batch.classes
            some = classes if len(classes) else None
            self.predictor.partial_fit(rows, batch.y, some, batch.weight)

    def give_slots(self, names: Sequence[str]) -> None:
        """Give the selected columns slots; what was learnt in those of others is forgotten."""
        if self.slots is not None:
            _, reassigned = self.slots.take(names)
            if len(reassigned) and self._ours is not None:
                self._ours.restart_features(reassigned)


# --- saved ----------------------------------------------------------------------------------------


def predictor_state(predictor: Any) -> State:
    """The name of a predictor and what it has learnt; an error if that cannot be saved."""
    name, learner = _name(predictor), unwrapped(predictor)
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
    return type(unwrapped(predictor)).__qualname__ + of
