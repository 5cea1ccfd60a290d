"""Which features were selected when, in few spans of batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fires.report.spans import Numbers, Whole, width_of
from fires.report.steps import StepBlock

_MOST_FEATURES = 2_000


@dataclass(frozen=True, eq=False)
class Span:
    """Batches that follow each other."""

    n_batches: int
    row: int
    places: Whole
    count: Whole
    total: Numbers
    n_known: Whole

    def then(self, later: Span) -> Span:
        """One span of this one and the next."""
        return _span(
            self.n_batches + later.n_batches,
            later.row,
            np.append(self.places, later.places),
            np.append(self.count, later.count),
            np.append(self.total, later.total),
            np.append(self.n_known, later.n_known),
        )


class Members:
    """The selected set over time."""

    def __init__(self, most: int) -> None:
        self._most, self._width, self._n_batches = most, 1, 0
        self.spans: list[Span] = []

    def add(self, block: StepBlock) -> None:
        """Add the next batches."""
        first, self._n_batches = self._n_batches, self._n_batches + len(block)
        while self._width < width_of(self._n_batches, self._most):
            self._join()
        borders = np.arange(-first % self._width, len(block), self._width)
        cuts = np.unique(np.concatenate([[0], borders, [len(block)]]))
        for begin, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
            piece = _piece(block, begin, end)
            if (first + begin) % self._width:
                self.spans[-1] = self.spans[-1].then(piece)
            else:
                self.spans.append(piece)

    def _join(self) -> None:
        self._width *= 2
        pairs = zip(self.spans[::2], [*self.spans[1::2], None], strict=False)
        self.spans = [one if two is None else one.then(two) for one, two in pairs]

    def shares(self, places: Whole) -> tuple[Numbers, Numbers]:
        """How the selection of some features went."""
        share = np.zeros((len(places), len(self.spans)))
        importance = np.full(share.shape, np.nan)
        for j, span in enumerate(self.spans):
            _, mine, its = np.intersect1d(places, span.places, True, return_indices=True)
            share[mine, j] = span.count[its] / span.n_batches
            known = span.n_known[its] > 0
            importance[mine[known], j] = span.total[its][known] / span.n_known[its][known]
        return share, importance


def _span(
    n_batches: int, row: int, places: Whole, count: Whole, total: Numbers, n_known: Whole
) -> Span:
    """A span of features that may be named several times: that adds up."""
    each, which = np.unique(places, return_inverse=True)
    count, n_known = (_sums(which, of, len(each)).astype(np.int64) for of in (count, n_known))
    total = _sums(which, total, len(each))
    if len(each) > _MOST_FEATURES:
        most = np.sort(np.argsort(-count, kind="stable")[:_MOST_FEATURES])
        each, count, total, n_known = each[most], count[most], total[most], n_known[most]
    return Span(n_batches, row, each, count, total, n_known)


def _sums(which: Whole, values: Whole | Numbers, n: int) -> Numbers:
    return np.bincount(which, values, n).astype(np.float64)


def _piece(block: StepBlock, begin: int, end: int) -> Span:
    """Some batches of a block, from one to before another."""
    first = int(np.searchsorted(block.starts, begin, "right")) - 1
    some = slice(first, int(np.searchsorted(block.starts, end)))
    here = block.sets[some]
    lasts = np.diff(np.clip(np.append(block.starts[some], end), begin, end))
    count = np.repeat(lasts, [len(one) for one in here])
    known = slice(*np.searchsorted(block.known.batches, [begin, end]).tolist())
    importance = block.known.importance[known]
    is_known = ~np.isnan(importance)
    return _span(
        end - begin,
        int(block.rows[end - 1]),
        np.concatenate([*here, block.known.places[known]]),
        np.append(count, np.zeros(len(importance), dtype=np.int64)),
        np.append(np.zeros(len(count)), np.where(is_known, importance, 0.0)),
        np.append(np.zeros(len(count), dtype=np.int64), is_known),
    )
