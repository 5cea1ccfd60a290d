"""What the rivals share: settings, a start and a step, and a target of classes or numbers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags

from fires.core.batch import CheckedBatch
from fires.core.classes import are_numbers
from fires.core.declared import Declared, Value
from fires.core.randomness import rewound
from fires.core.settings import choice
from fires.core.state import Arrays
from fires.core.types import Header, Labels
from fires.core.validation import as_numbers
from fires.predictors.base import can
from fires.selectors.base import OnlineSelector
from fires.selectors.selector import settings as settings


class Rival(OnlineSelector):
    """A selector beside FIRES: the first batch starts it, then it learns from every batch.

    A subclass writes ``_start``, ``_step`` and ``_weights``.
    """

    _rng_: np.random.Generator | None = None  # put back if a step fails

    def _start(self, batch: CheckedBatch) -> None:
        """Set up what is learnt, before the first batch is."""

    @abstractmethod
    def _step(self, batch: CheckedBatch) -> None:
        """Learn from one batch, as :meth:`OnlineSelector._learn` does."""

    def _theirs(self) -> Any:
        """The estimator or model of the user among the settings, if there is one."""
        return None

    def _learn(self, batch: CheckedBatch) -> None:
        if not self.is_fitted:
            self._start(batch)
        if self._rng_ is None:  # the usual case, fast
            self._step(batch)
            return
        with rewound(self._rng_):
            self._step(batch)


@settings
class BatchSelector(Rival):
    """A rival with the settings that most have."""

    n_features_to_select: int | float = field(default=10, kw_only=False)
    missing: str = "ignore"
    batch_size: int = 100


@settings
class TargetSelector(BatchSelector):
    """A rival that learns classes or numbers, as its first batch shows or ``target`` says."""

    target: str = choice("auto", "classes", "numbers")

    _learnt: ClassVar[Declared] = {"numeric": Value(bool)}
    _for_numbers = "pass target='numbers'."
    _numeric_ = False

    def _start(self, batch: CheckedBatch) -> None:
        self._numeric_ = self._is_numeric(batch)

    def _is_numeric(self, batch: CheckedBatch) -> bool:
        """Whether y holds numbers: a classifier or regressor of the user's decides it."""
        assert batch.y is not None
        estimator, kind = self._theirs(), None
        if can(estimator, "__sklearn_tags__"):
            kind = get_tags(estimator).estimator_type
        target = {"classifier": "classes", "regressor": "numbers"}.get(kind or "", self.target)
        return are_numbers(batch.y, batch.classes, target)

    def _goal(self, batch: CheckedBatch) -> tuple[npt.NDArray[Any], Labels | None]:
        """Numbers; or codes, and where the batch has new labels, the classes before it."""
        assert batch.y is not None
        if not self._numeric_:
            codes, before = self._take_whole_labels(batch)
            more = before is not None and len(before) < len(self.classes_)
            return codes, before if more else None
        if batch.classes is not None:
            raise ValueError("classes is for class labels; this selector learns numbers.")
        return as_numbers(batch.y, type(self).__name__), None

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        self._numeric_ = Value(bool).read("numeric", header, arrays, {})
        super()._restore(header, arrays, model)

    def _sizes(self) -> dict[str, int]:
        sizes = super()._sizes()
        return sizes | {"T": 1 if self._numeric_ else sizes["K"]}
