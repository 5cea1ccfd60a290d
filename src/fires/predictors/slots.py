"""The predictor of a pipeline, and its places for columns that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes
from fires.core.errors import InputError, StateError
from fires.core.settings import check_count
from fires.core.types import Header, Matrix, Places
from fires.kernels.select import placed
from fires.predictors.base import Predictor, can

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
        if wanted is not None and wanted > n_slots:
            raise InputError(
                f"{wanted} columns are to be selected, and the predictor has {n_slots} slots",
                hint=f"give slots={wanted} or more",
            )
        return cls(n_slots)

    def __len__(self) -> int:
        return len(self.names)

    def take(self, names: Sequence[str]) -> tuple[Places, Places]:
        """The slots of the columns that are selected now."""
        if len(names) > len(self):
            raise InputError(
                f"{len(names)} columns are selected, and the predictor has {len(self)} slots",
                hint=f"give slots={len(names)} or more",
            )
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

    def as_json(self) -> Header:
        """Everything there is to save, as JSON values; :meth:`from_json` takes it back."""
        return {"names": list(self.names), "last": self._last.tolist(), "now": self._now}

    @classmethod
    def from_json(cls, saved: Any) -> Slots:
        """What :meth:`as_json` wrote down."""
        try:
            names, last = list(saved["names"]), np.array(saved["last"], dtype=np.int64)
            slots = cls(len(names))
            slots.names, slots._last, slots._now = names, last, int(saved["now"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise StateError(f"the slots are not what they should be: {error!r}") from None
        taken = [name for name in names if name is not None]
        slots._places = {name: place for place, name in enumerate(names) if name is not None}
        fits = all(isinstance(name, str) for name in taken) and last.shape == (len(names),)
        if not fits or len(slots._places) != len(taken) or not names:
            raise StateError("the slots are not what they should be")
        return slots


class PredictorStep:
    """The last step of a pipeline: a predictor or None, and slots if its columns are open.

    A pipeline that refuses a batch puts its attributes back, so those of a step never change.
    """

    def __init__(self, predictor: Any = None, slots: Slots | None = None) -> None:
        self.predictor, self.slots = predictor, slots
        self._ours = predictor if isinstance(predictor, Predictor) else None
        # An overridden partial_fit is not passed by.
        self.takes_batches = (
            self._ours is not None and type(predictor).partial_fit is Predictor.partial_fit
        )

    @property
    def inner(self) -> Any:
        """The object that the user passed."""
        return self.predictor if self._ours is None else self._ours.inner

    @property
    def fill(self) -> float:
        """What the predictor is shown in features that are not selected."""
        return 0.0 if self._ours is None else self._ours.fill

    @property
    def knows_labels(self) -> bool:
        """Whether the predictor is known to have labels of its own."""
        return self._ours is not None and self._ours.label_index is not NO_CLASSES

    def check(self, batch: CheckedBatch, expected: Classes) -> None:
        """Raise an error if the predictor would refuse the batch."""
        if self.slots is not None:
            batch = batch.with_rows(np.broadcast_to(0.0, (batch.n_rows, len(self.slots))))
        if self._ours is not None:
            self._ours.check(batch, expected)

    def train(self, batch: CheckedBatch, rows: Matrix, expected: Classes) -> None:
        """Let the predictor learn from the rows that it is shown; these labels are expected."""
        if self.takes_batches:
            self.predictor.learn(batch.with_rows(rows), expected)
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

    def restart_features(self, columns: Places, names: Iterable[str]) -> None:
        """Forget what was learnt about some features, as far as the predictor can."""
        if self.slots is not None:
            places = self.slots.places(names)
            columns = places[places >= 0]
        if can(self.predictor, "restart_features"):
            self.predictor.restart_features(columns)
