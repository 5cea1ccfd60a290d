"""A long series in few spans: least, greatest and mean of each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

_NOTHING = np.array([0.0, 0.0, np.inf, -np.inf])[:, None]  # sum, weight, least, greatest


def width_of(n_batches: int, most: int) -> int:
    """How many batches a span has, so that there are not too many spans."""
    return 1 << (max(-(-n_batches // most), 1) - 1).bit_length()


class Spans:
    """Means, least and greatest values of some series of numbers, one for each batch."""

    def __init__(self, most: int) -> None:
        self.n_batches, self.width, self._most = 0, 1, most
        self._rows = np.zeros(most, dtype=np.int64)
        self._series: dict[str, Numbers] = {}

    def add(self, rows: Whole, series: Mapping[str, Numbers], weight: Numbers) -> None:
        """Add the next batches."""
        first, self.n_batches = self.n_batches, self.n_batches + len(rows)
        while self.width < width_of(self.n_batches, self._most):
            self._join()
        spans = np.arange(first, self.n_batches) // self.width
        starts = np.flatnonzero(np.diff(spans, prepend=-1))
        ends = np.append(starts[1:], len(rows)) - 1
        places = spans[starts]
        self._rows[places] = rows[ends]
        for name, values in series.items():
            table = self._series.setdefault(name, np.repeat(_NOTHING, self._most, axis=1))
            known = ~np.isnan(values)
            counted = np.where(known, weight, 0.0)
            sums = np.where(known, values, 0.0) * counted
            table[0, places] += np.add.reduceat(sums, starts)
            table[1, places] += np.add.reduceat(counted, starts)
            # fmin and fmax leave out NaN.
            table[2, places] = np.fmin(table[2, places], np.fmin.reduceat(values, starts))
            table[3, places] = np.fmax(table[3, places], np.fmax.reduceat(values, starts))

    def _join(self) -> None:
        self.width *= 2
        half = self._most // 2
        self._rows = np.append(self._rows.reshape(half, 2).max(axis=1), np.zeros(half, np.int64))
        for name, table in self._series.items():
            pairs = table.reshape(4, half, 2)
            joined = [
                *pairs[:2].sum(axis=2),
                pairs[2].min(axis=1),
                pairs[3].max(axis=1),
            ]
            self._series[name] = np.hstack([joined, np.repeat(_NOTHING, half, axis=1)])

    @property
    def n_spans(self) -> int:
        """How many spans there are."""
        return -(-self.n_batches // self.width)

    @property
    def rows(self) -> Whole:
        """The rows up to the end of each span."""
        return self._rows[: self.n_spans]

    @property
    def n_rows(self) -> Whole:
        """The rows of each span."""
        return np.diff(self.rows, prepend=0)

    def mean(self, name: str) -> Numbers:
        """The mean of a series in each span."""
        sums, weights = self._series[name][:2, : self.n_spans]
        means = np.full(len(sums), np.nan)
        np.divide(sums, weights, out=means, where=weights > 0.0)
        return means

    def total(self, name: str) -> float:
        """The mean of a series over all batches."""
        sums, weights = self._series[name][:2].sum(axis=1).tolist()
        return sums / weights if weights else float("nan")

    def least(self, name: str) -> Numbers:
        """The least number of a series in each span."""
        return self._series[name][2, : self.n_spans]

    def greatest(self, name: str) -> Numbers:
        """The greatest number of a series in each span."""
        return self._series[name][3, : self.n_spans]

    def __contains__(self, name: str) -> bool:
        return name in self._series
