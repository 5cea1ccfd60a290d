"""The base class of predictors that keep working when the selected set changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Codes, KnowsClasses, Labels
from fires.core.types import GivenClasses, Matrix, Places
from fires.core.validation import as_weights


def can(model: Any, *methods: str) -> bool:
    """Whether an object, ours or of others, has all these methods."""
    return all(callable(getattr(model, name, None)) for name in methods)


class Predictor(KnowsClasses, ABC):
    """Learns from rows of full width, with ``fill`` in the features that are not selected.

    A subclass writes :meth:`learn` and :meth:`predict`, and :meth:`check` if it refuses some
    batches.
    """

    fill: ClassVar[float] = 0.0

    def partial_fit(
        self,
        X: Matrix,
        y: Labels,
        classes: GivenClasses | None = None,
        sample_weight: npt.ArrayLike | None = None,
    ) -> Self:
        """Learn from a batch."""
        batch = CheckedBatch(X, y, as_weights(sample_weight, len(y)), classes=classes)
        self.check(batch)
        self.learn(batch)
        return self

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.inner is self else repr(self.inner)})"

    @property
    def inner(self) -> Any:
        """The object the user passed, where this one wraps it; otherwise this one."""
        return self

    @property
    def name(self) -> str:
        """What errors call it."""
        return type(self.inner).__name__

    @abstractmethod
    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from a batch that :meth:`check` does not refuse, every row in order."""

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        batch.labels(self._known(expected))

    def restart_features(self, columns: Places) -> None:
        """Forget what was learnt about some features, where the predictor can tell it apart.

        Nothing is forgotten here: estimators of others stay as they are.
        """

    def _known(self, expected: Classes) -> Classes:
        """The labels known before a batch."""
        return expected if self._label_index_ is NO_CLASSES else self._label_index_

    def fresh(self) -> Predictor:
        """A predictor with the same settings that has learnt nothing."""
        return type(self)()

    def __sklearn_clone__(self) -> Predictor:
        return self.fresh()

    def predict_codes(self, X: Matrix) -> Codes:
        """The index of each row's label in ``classes_``."""
        return self._label_index_.take(self.predict(X), what="predicted")[1]

    @abstractmethod
    def predict(self, X: Matrix) -> Labels:
        """The label of each row."""


def unwrapped(model: Any) -> Any:
    """What fires has wrapped as a predictor, or the object itself."""
    return model.inner if isinstance(model, Predictor) else model
