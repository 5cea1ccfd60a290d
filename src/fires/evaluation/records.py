"""What is known of each evaluated batch: one frozen record, which everything later reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Header, Places

if TYPE_CHECKING:
    from fires.drift import Alarm
    from fires.streams.base import Position


@dataclass(frozen=True, eq=False)
class Step:
    """One batch: tested with what was learnt before it, then learnt from.

    Parameters
    ----------
    index : int
        0 for the first batch.
    position : Position
        Where the batch ends in its source.
    n_rows : int
        Rows of the batch.
    scores : dict of str to float
        How well the batch was predicted before it was learnt from; NaN for the first.
    selected : ndarray of int
        The features selected after the batch, ascending.
    stability : float
        Of the selected sets in the window that ends here; NaN for the first.
    seconds_select, seconds_train : float
        What the selector and the predictor took to learn.
    weights : ndarray, optional
        The weight of every feature after the batch, if they were asked for.
    alarms : tuple of Alarm
        What the selector noticed while it learnt from the batch.
    baselines : dict of str to dict
        How well each baseline predicted the batch.
    waited : bool
        The batch has fewer rows than it should, since no more came for a while.
    n_present : int, optional
        Where columns come and go: how many were there in the window of the stability.

    Notes
    -----
    Where columns come and go, features are places in all names that the run has met: see
    :class:`fires.core.named.RunNames`.
    """

    index: int
    position: Position
    n_rows: int
    scores: dict[str, float]
    selected: Places
    stability: float
    seconds_select: float
    seconds_train: float
    weights: Floats | None = None
    alarms: tuple[Alarm, ...] = ()
    baselines: dict[str, dict[str, float]] = field(default_factory=dict)
    waited: bool = False
    n_present: int | None = None

    def as_row(self) -> Header:
        """The record as JSON values; NaN and infinities are None."""
        row: Header = {
            "index": self.index,
            "rows": self.position.rows,
            "n_rows": self.n_rows,
            "scores": plain(self.scores),
            "selected": self.selected.tolist(),
            "stability": number_or_none(self.stability),
            "seconds_select": self.seconds_select,
            "seconds_train": self.seconds_train,
        }
        if self.baselines:
            row["baselines"] = plain(self.baselines)
        if self.waited:
            row["waited"] = True
        if self.n_present is not None:
            row["present"] = self.n_present
        if self.weights is not None:
            row["weights"] = [number_or_none(weight) for weight in self.weights.tolist()]
        if self.alarms:
            row["alarms"] = [plain(alarm._asdict()) for alarm in self.alarms]
        return row


def defined_mean(values: npt.ArrayLike) -> float:
    """The mean of the values that are defined; NaN if none is.

    Examples
    --------
    >>> defined_mean([1.0, math.nan, 2.0]), defined_mean([])
    (1.5, nan)
    """
    given = np.asarray(values, dtype=np.float64)
    defined = given[~np.isnan(given)]
    return float(defined.mean()) if len(defined) else math.nan


def number_or_none(value: float) -> float | None:
    """A number as JSON has it: NaN and infinities are None.

    Examples
    --------
    >>> number_or_none(0.5), number_or_none(float("nan"))
    (0.5, None)
    """
    return float(value) if math.isfinite(value) else None


def plain(facts: Mapping[str, object]) -> dict[str, Any]:
    """Numbers and arrays as JSON values; NaN and infinities are None."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, float):
            found[name] = value if math.isfinite(value) else None
        elif isinstance(value, Mapping):
            found[name] = plain(value)
        else:
            found[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return found
