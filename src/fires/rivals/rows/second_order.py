"""AROW and SCW: linear learners that know how sure they are of each coefficient."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

import numpy as np

from fires.core.settings import check_choice, check_number
from fires.core.types import Floats
from fires.kernels import second_order
from fires.rivals.rows.base import RowArrays, RowByRowSelector

_KEPT = {
    None: second_order.ALL,
    "confidence": second_order.CONFIDENT,
    "weight": second_order.GREATEST,
}


class SecondOrder(RowByRowSelector):
    """A mean and a variance per coefficient."""

    _loops = (second_order.second_order_rows, second_order.second_order_csr)

    _starts = (0.0, 1.0)

    uncertainty_penalty: float
    truncate: str | None
    diagonal: str

    @abstractmethod
    def _rule(self) -> tuple[int, float, float]:
        """Which rule of the kernel, and its two numbers."""

    @property
    def uncertainties_(self) -> Floats:
        """The standard deviation of every coefficient; read-only, and yours to keep."""
        uncertainties: Floats = self._computed("uncertainties", lambda: np.sqrt(self._theta_[1]))
        return uncertainties

    def _weighting(self) -> tuple[Hashable, ...]:
        return (self.uncertainty_penalty,)

    def _weights(self) -> Floats:
        mu, var = self._theta_
        weights: Floats = mu**2 - self.uncertainty_penalty * var
        return weights

    def _check_parameters(self) -> None:
        check_number("uncertainty_penalty", self.uncertainty_penalty, ends="[)")
        check_choice("truncate", self.truncate, tuple(_KEPT))
        check_choice("diagonal", self.diagonal, ("drop", "inverse"))

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if self.truncate is None:
            if len(self._kept_):
                self._kept_ = self._kept_[:0]
        elif len(self._kept_) == 0:  # truncation may have been switched on between two batches
            self._kept_ = np.flatnonzero(self._theta_[0])

    def _run(self, rows: RowArrays, signs: Floats) -> bool:
        kept = _KEPT[self.truncate]
        place, before = (self._kept_, 0) if kept == second_order.ALL else self._room(rows)
        settings = (self._resolve_k(), kept, self._rule(), self.diagonal == "inverse")
        n: int = self._loop(rows)(*rows, signs, *self._theta_, place, before, *settings)
        self._kept_ = place[: max(n, 0)].copy()
        return n >= 0
