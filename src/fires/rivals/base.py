"""What the rivals share: declared settings, a start, and a target of classes or numbers."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.utils import get_tags

from fires.core.batch import CheckedBatch
from fires.core.classes import are_numbers
from fires.core.declared import Declared, Value
from fires.core.settings import check_choice
from fires.core.state import Arrays
from fires.core.types import Codes, Floats, Header, Labels, Matrix
from fires.core.validation import as_numbers
from fires.selectors.base import OnlineSelector
from fires.selectors.selector import settings as settings

if TYPE_CHECKING:
    from sklearn.utils import Tags


class Rival(OnlineSelector):
    """A selector beside FIRES: the first batch starts it, then it learns from every batch."""

    _started_ = False

    def _start(self, batch: CheckedBatch) -> None:
        """Set up what is learnt, before the first batch is."""

    def _learn(self, batch: CheckedBatch) -> None:
        """Start with the first batch; a method goes on from here."""
        if not self._started_:
            self._start(batch)
            self._started_ = True

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        self._started_ = True

    def _take_more_labels(self, batch: CheckedBatch) -> tuple[Codes, Labels | None]:
        """Codes of the labels; and, where the batch has new ones, the classes before it."""
        codes, before = self._take_whole_labels(batch)
        more = before is not None and len(before) < len(self.classes_)
        return codes, before if more else None


@settings
class BatchSelector(Rival):
    """A rival with the settings that most have."""

    n_features_to_select: int | float = field(default=10, kw_only=False)
    missing: str = "ignore"
    batch_size: int = 100


@settings
class TargetSelector(BatchSelector):
    """A rival that learns classes or numbers, as its first batch shows or ``target`` says."""

    target: str = "auto"

    _learnt: ClassVar[Declared] = {"numeric": Value(bool)}
    _for_numbers = "say target='numbers'."
    _numeric_ = False

    def _start(self, batch: CheckedBatch) -> None:
        self._numeric_ = self._is_numeric(batch)

    def _is_numeric(self, batch: CheckedBatch) -> bool:
        assert batch.y is not None
        return are_numbers(batch.y, batch.classes, self.target)

    def _goal(self, batch: CheckedBatch) -> tuple[npt.NDArray[Any], Labels | None]:
        """Numbers, or as :meth:`_take_more_labels`."""
        assert batch.y is not None
        if not self._numeric_:
            return self._take_more_labels(batch)
        if batch.classes is not None:
            raise ValueError("classes is for class labels; this selector learns numbers.")
        return as_numbers(batch.y, type(self).__name__), None

    def _check_parameters(self) -> None:
        check_choice("target", self.target, ("auto", "classes", "numbers"))

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        self._numeric_ = Value(bool).read("numeric", header, arrays, {})
        super()._restore(header, arrays, model)

    def _sizes(self) -> dict[str, int]:
        sizes = super()._sizes()
        return sizes | {"T": 1 if self._numeric_ else sizes["K"]}


@runtime_checkable
class Tagged(Protocol):
    """An estimator of scikit-learn's kind, which says what it takes."""

    def __sklearn_tags__(self) -> Tags: ...


@runtime_checkable
class Configurable(Protocol):
    """An estimator of scikit-learn's kind, which can be cloned."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its settings."""
        ...


@runtime_checkable
class Fittable(Configurable, Protocol):
    """An estimator that learns from a window of rows at once."""

    def fit(self, X: Matrix, y: Labels) -> Any:
        """Learn from all rows."""
        ...


def estimator_target(estimator: Any, target: str) -> str:
    """What a target is: a classifier or regressor of scikit-learn decides it by itself."""
    kind = get_tags(estimator).estimator_type if isinstance(estimator, Tagged) else None
    return {"classifier": "classes", "regressor": "numbers"}.get(kind or "", target)


def weights_or_ones(batch: CheckedBatch) -> Floats:
    """How much each row counts."""
    return np.ones(batch.n_rows) if batch.weight is None else batch.weight
