"""Was the right thing selected? Against features that are known to matter."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fires.metrics.stability import as_indices


class Truth(Protocol):
    """What is known of a stream, such as those of :mod:`fires.streams.synthetic`."""

    @property
    def n_samples(self) -> int:
        """How many rows there are."""

    @property
    def drifts(self) -> tuple[int, ...]:
        """The rows from which on other features begin to matter, ascending."""

    def relevant_at(self, row: int) -> npt.NDArray[np.intp]:
        """The features that matter in this row."""


class Recovery(NamedTuple):
    """How long it took to follow a drift.

    Parameters
    ----------
    row : int
        The first row of the drift.
    batches : int or None
        Batches until recovery; None if it did not come.
    """

    row: int
    batches: int | None


def precision(selected: npt.ArrayLike, relevant: npt.ArrayLike) -> float:
    r"""The share of the selected features that are relevant, :math:`|S \cap R| / |S|`.

    Parameters
    ----------
    selected, relevant : array-like of int, or of bool
        Indices of features, each once, or masks.

    Returns
    -------
    float
        NaN if nothing is selected.

    Examples
    --------
    >>> precision([0, 1, 4, 7], relevant=[4, 7, 9])
    0.5
    """
    indices = as_indices(selected)
    if not len(indices):
        return math.nan
    return int(np.isin(indices, as_indices(relevant)).sum()) / len(indices)


def recall(selected: npt.ArrayLike, relevant: npt.ArrayLike) -> float:
    r"""The share of the relevant features that are selected, :math:`|S \cap R| / |R|`.

    Parameters
    ----------
    selected, relevant : array-like of int, or of bool
        Indices of features, each once, or masks.

    Returns
    -------
    float
        NaN if nothing is relevant.

    Examples
    --------
    >>> recall([0, 1, 4, 7], relevant=[4, 7, 9])
    0.6666666666666666
    """
    return precision(relevant, selected)


def recoveries(
    steps: Iterable[Any],
    truth: Truth,
    *,
    batch_size: int | None = None,
    threshold: float = 1.0,
    patience: int = 1,
) -> list[Recovery]:
    """How many batches it took, after each drift, to select what matters from then on.

    The features to be found are those relevant in the last row before the next drift: when a
    gradual drift has ended. Batches count from 1, the first one that holds a row of the drift.
    Recovered is the first batch from which on the recall of these features, in the sets selected
    after each batch, is at least ``threshold`` for ``patience`` batches in a row. These have to
    come before the first batch that holds a row of the next drift.

    Parameters
    ----------
    steps : iterable of Step, or of arrays
        The records of a run of :func:`fires.evaluation.prequential`, from its beginning; or the
        selected features after each batch, as indices or masks, of batches that had
        ``batch_size`` rows.
    truth : Truth
        The stream that was selected from.
    batch_size : int, optional
        For plain sets; records know where they end.
    threshold : float
        The recall that will do, in (0, 1].
    patience : int
        For how many batches it has to last.

    Returns
    -------
    list of Recovery
        One for each drift of the stream that the steps reach.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> truth = SimpleNamespace(
    ...     n_samples=500, drifts=(200,), relevant_at=lambda row: [2, 3] if row >= 200 else [0, 1]
    ... )
    >>> recoveries([[0, 1], [0, 1], [0, 1], [0, 2], [2, 3]], truth, batch_size=100)
    [Recovery(row=200, batches=3)]
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError(f"threshold must lie in (0, 1], not {threshold}.")
    if patience < 1:
        raise ValueError(f"patience must be at least 1, not {patience}.")
    starts = list(truth.drifts)
    wanted = [truth.relevant_at(end - 1) for end in [*starts, truth.n_samples][1:]]
    found: list[Recovery] = []
    current, since, lasting = -1, 0, 0  # which drift, its batches, and how many were good in a row
    stop = 0
    for step in steps:
        if hasattr(step, "selected"):  # a record
            chosen, stop = step.selected, int(step.position.rows)
        elif batch_size is None or batch_size < 1:
            raise ValueError("Sets of features do not know their rows: pass batch_size.")
        else:
            chosen, stop = step, stop + batch_size
        while current + 1 < len(starts) and starts[current + 1] < stop:
            current, since, lasting = current + 1, 0, 0
            found.append(Recovery(starts[current], None))
        if current < 0 or found[current].batches is not None:
            continue
        since += 1
        good = recall(chosen, wanted[current]) >= threshold
        lasting = lasting + 1 if good else 0
        if lasting == patience:
            found[current] = Recovery(starts[current], since - patience + 1)
    return found
