"""SAOLA and Group-SAOLA: relevance and redundancy from comparisons of two columns at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.classes import NO_CLASSES
from fires.core.declared import Declared, Value
from fires.core.settings import check_choice, check_number
from fires.core.state import Arrays, State
from fires.core.types import Estimator, Floats, Header, Labels, Mask
from fires.kernels.contingency import uncertainties
from fires.kernels.correlation import correlations
from fires.rivals.arriving.base import (
    ArrivingColumns,
    ArrivingFeatures,
    as_numbers,
    scaled,
)
from fires.rivals.arriving.independence import (
    CODES,
    NUMBERS,
    as_codes,
    fisher_z,
    surprise_of_z,
)

if TYPE_CHECKING:
    from fires.models.base import BaseModel


Column = npt.NDArray[Any]  # float64, or codes in int16: as the target is


@dataclass
class Pool:
    """Competing columns by index: the relevance of each, and its values."""

    worth: dict[int, float] = field(default_factory=dict)
    columns: dict[int, Column] = field(default_factory=dict)

    def add(self, j: int, worth: float, column: Column) -> None:
        """Let a column compete."""
        self.worth[j], self.columns[j] = worth, column

    def remove(self, j: int) -> None:
        """A column has lost."""
        del self.worth[j], self.columns[j]


class SAOLA(ArrivingFeatures):
    r"""Scalable and accurate online feature selection.

    Let :math:`I` measure how much two columns tell about each other. A new feature :math:`X` is
    dropped unless :math:`I(X; T)` with the target :math:`T` is above the threshold. Otherwise it is
    compared with each selected :math:`Y` that is related to it (:math:`I(X; Y)` above the
    threshold), one after the other:

    - :math:`X` is dropped, and the comparison ends, if :math:`I(Y; T) \ge I(X; T)` and
      :math:`I(X; Y) \ge I(X; T)`;
    - :math:`Y` is dropped if :math:`I(X; T) > I(Y; T)` and :math:`I(X; Y) \ge I(Y; T)`. It stays
      dropped even if :math:`X` is dropped later in the round.

    A feature costs :math:`O(n |S|)`. The columns of the selected features are stored.

    The scale of a column does not matter. Missing entries are left out: two columns are compared on
    the rows in which both have entries.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the greatest :math:`I(X; T)`. A
        fraction is a share of all columns seen.
    measure : {"correlation", "su"}, default="correlation"
        :math:`|r|` for columns of numbers and a target of numbers or two classes, or symmetrical
        uncertainty for columns of few different values and a target of classes.
    alpha : float, default=0.01
        With ``"correlation"``: a correlation is above the threshold if Fisher's z is significant
        at this level.
    threshold : float, default=0.0
        With ``"su"``: the threshold.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`I(X; T)` of each selected column; 0 for all others.

    References
    ----------
    K. Yu, X. Wu, W. Ding, J. Pei: "Towards scalable and accurate online feature selection for big
    data". IEEE International Conference on Data Mining, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> X[:, 7] = X[:, 2] + 0.1 * rng.normal(size=200)
    >>> y = X[:, 2] + X[:, 5] + rng.normal(size=200)
    >>> SAOLA().partial_fit_features(X, y).get_support(indices=True)
    array([2, 5])
    """

    _learnt: ClassVar[Declared] = {"numbers": Value(bool)}

    _numbers_: bool
    _target_: Column
    _columns_: dict[int, Column]

    def __init__(
        self,
        n_features_to_select: int | float | None = None,
        *,
        measure: str = "correlation",
        alpha: float = 0.01,
        threshold: float = 0.0,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.measure = measure
        self.alpha = alpha
        self.threshold = threshold

    def _check_parameters(self) -> None:
        check_choice("measure", self.measure, ("correlation", "su"))
        check_number("alpha", self.alpha, high=1.0)
        check_number("threshold", self.threshold, high=1.0, ends="[)")

    def _start(self, y: Labels | None) -> None:
        assert y is not None
        self._numbers_ = self.measure == "correlation"
        self._columns_ = {}
        self._target_ = (
            scaled(as_numbers(y, type(self).__name__))
            if self._numbers_
            else as_codes(NO_CLASSES.take(y)[1], "y")
        )

    def _arrive(self, columns: ArrivingColumns) -> None:
        pool = Pool(self._chosen_, dict(self._columns_))
        for j, x in columns:
            self._take(pool, j, x)
        self._columns_ = pool.columns

    def _take(self, pool: Pool, j: int, x: Column) -> None:
        """Add a column to the pool if it is relevant and not redundant there."""
        column = scaled(x) if self._numbers_ else as_codes(x, f"Column {j} of X")
        worth, relevant = self._related(column, [self._target_])
        if relevant[0] and self._stands(pool, float(worth[0]), column):
            pool.add(j, float(worth[0]), column)

    def _stands(self, pool: Pool, worth: float, column: Column) -> bool:
        """Whether a column is not redundant; columns that it makes redundant leave the pool."""
        rivals = list(pool.worth)
        if not rivals:
            return True
        shared, related = self._related(column, list(pool.columns.values()))
        for place, j in enumerate(rivals):
            if not related[place]:
                continue
            if pool.worth[j] >= worth:
                if shared[place] >= worth:
                    return False
            elif shared[place] >= pool.worth[j]:
                pool.remove(j)
        return True

    def _related(self, column: Column, others: list[Column]) -> tuple[Floats, Mask]:
        """The measure of the column with each of the others, and which are above the threshold."""
        if self._numbers_:
            r, n = correlations(column, np.stack(others))
            return np.abs(r), surprise_of_z(fisher_z(r, n)) >= -np.log(self.alpha)
        shared = uncertainties(column, np.stack(others))
        return shared, shared > self.threshold

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        columns = [self._target_, *self._columns_.values()]
        return super()._state()[0], {"columns": np.stack(columns)}

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        super()._restore(header, arrays, model)
        kind = NUMBERS if self._numbers_ else CODES
        self._target_, *columns = kind.read("columns", header, arrays, self._sizes())
        self._columns_ = dict(zip(self._chosen_, columns, strict=True))
