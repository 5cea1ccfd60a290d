"""What selectors share that learn two classes row by row."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cache
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import ClassifierTags

from fires.core.belief import Floats
from fires.kernels import read_only
from fires.selectors.base import OnlineSelector, repeated

Rows = tuple[npt.NDArray[Any], ...]
"""A batch as compiled loops take it: one dense array, or data, indices and indptr."""


class RowByRowSelector(OnlineSelector):
    """A linear learner of two classes, with some numbers for every feature.

    A method writes :meth:`_check`, :meth:`_start` and :meth:`_run`. However the rows of a stream
    are cut into batches, what is learnt is the same to the last bit. A missing entry counts as 0.
    """

    _theta_: Floats
    _kept_: npt.NDArray[np.int64]

    @abstractmethod
    def _check(self) -> None:
        """Raise if a setting makes no sense."""

    @abstractmethod
    def _start(self) -> Floats:
        """What is known before the first row: some numbers per feature, the coefficient first."""

    @abstractmethod
    def _run(self, rows: Rows, signs: Floats) -> bool:
        """Learn from every row, in place in ``_theta_``; whether all went well.

        Entries outside the batch change only where ``_kept_`` lists them. Other attributes get
        new values, and never change in place.
        """

    @property
    def importances_(self) -> Floats:
        """The coefficient of every feature, for the greater label; read-only, yours to keep."""
        importances: Floats = self._computed("importances", self._coefficients)
        return importances

    def _coefficients(self) -> Floats:
        coefficients: Floats = self._theta_[0].copy()
        return coefficients

    def _weights(self) -> Floats:
        return np.abs(self._coefficients())

    def _learn(self, X: Any, y: Any, classes: Any, weight: Floats | None, n_missing: int) -> None:
        settings = [getattr(self, name) for name in _names_of_settings(type(self))]
        if getattr(self, "_checked_", None) != settings:
            self._check()
            self._checked_ = settings
        signs, turned = self._take_signs(y, classes)
        X, signs = repeated(X, signs, weight, type(self).__name__)
        rows = _as_rows(X, n_missing > 0)
        if not hasattr(self, "_theta_"):
            self._theta_, self._kept_ = self._start(), np.zeros(0, dtype=np.int64)
        else:
            self._take_sides(turned)
        theta = self._theta_
        where: Any = ... if len(rows) == 1 else (slice(None), np.append(rows[1], self._kept_))
        before = theta[where].copy()
        # Squares are what weights and norms are made of: not finite if one of them is not.
        if not (self._run(rows, signs) and math.isfinite(_squares(theta[where]))):
            theta[where] = before
            raise ValueError("X holds values so large that a step would overflow; rescale them.")

    def _take_sides(self, turned: bool) -> None:
        """What was learnt of a first class as the positive one, when it turns out not to be."""
        if turned:
            self._theta_ = self._theta_.copy()
            self._theta_[0] *= -1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        return {}, {"theta": self._theta_, "kept": self._kept_}

    def _restore(
        self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], model: Any
    ) -> None:
        self._theta_, self._kept_ = arrays["theta"], arrays["kept"]


@cache
def _names_of_settings(kind: type[RowByRowSelector]) -> list[str]:
    names: list[str] = kind._get_param_names()
    return names


def _as_rows(X: Any, missing: bool) -> Rows:
    """X in the one type that the loops are compiled for, with zeros for what is missing."""
    values = X.data if sp.issparse(X) else X
    if missing:
        values = np.where(np.isnan(values), 0.0, values)
    values = np.ascontiguousarray(values, dtype=np.float64)
    if not sp.issparse(X):
        return tuple(read_only(values))
    return tuple(read_only(values, X.indices.astype(np.int64), X.indptr.astype(np.int64)))


def _squares(values: Floats) -> float:
    return float(np.vdot(values, values))


def check_number(
    name: str, value: Any, low: float = 0.0, high: float = np.inf, *, ends: str = "()"
) -> None:
    """Raise unless the value is a number between the two; ``ends`` says which belong to it."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if (
        not number
        or not low <= value <= high
        or (value == low and ends[0] == "(")
        or (value == high and ends[1] == ")")
    ):
        raise ValueError(
            f"{name} must be a number in {ends[0]}{low:g}, {high:g}{ends[1]}; got {value!r}."
        )


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise unless the value is one of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
