"""Passes over one stream: its labels counted beforehand, and one row in ten left out of each."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fires.core.randomness import generator
from fires.core.types import Label
from fires.core.validation import is_missing
from fires.metrics.numbers import check_numbers
from fires.streams.base import Batch, Schema, Stream
from fires.streams.cutting import PlacedRows, cut


@dataclass(frozen=True)
class LabelCounts:
    """What one pass over the labels of a stream tells."""

    schema: Schema
    counts: Counter[Label]
    n_rows: int
    n_stretches: int


def count_labels(stream: Stream, batch_size: int) -> LabelCounts:
    """Read the labels once: predictors must know all of them, and not every target has some."""
    counts: Counter[Label] = Counter()
    n_rows = n_stretches = 0
    last = None
    target = f'the target "{stream.schema.target}"'
    for batch in stream.batches(max(batch_size, 1_000)):
        labels = batch.y.tolist()
        if batch.y.dtype.kind in "fO":  # in others, none can be missing
            labels = [label for label in labels if not is_missing(label)]
        counts.update(labels)
        n_rows += batch.n_rows
        n_stretches += sum(now != before for before, now in pairwise([last, *labels]))
        last = [last, *labels][-1]
        _check_that_classes(target, counts, n_rows)
    if len(counts) < 2:
        only = f"one value only, {next(iter(counts))!r}" if counts else "no label at all"
        raise ValueError(f"{target} holds {only}: there is nothing to tell apart")
    try:
        known = Counter({label: counts[label] for label in sorted(counts)})
    except TypeError:
        raise ValueError(
            f"{target} mixes labels that have no order, such as text and numbers"
        ) from None
    schema = replace(stream.schema, classes=tuple(known))
    return LabelCounts(schema, known, n_rows, n_stretches)


def count_numbers(stream: Stream, batch_size: int) -> LabelCounts:
    """Read a target of numbers once: the rows are counted, and what is no number is found."""
    n_rows, least, most = 0, math.inf, -math.inf
    target = f'the target "{stream.schema.target}"'
    for batch in stream.batches(max(batch_size, 1_000)):
        n_rows += batch.n_rows
        check_numbers(batch.y[~np.isnan(batch.y)] if batch.y.dtype.kind == "f" else batch.y, target)
        if present := [y for y in batch.y.tolist() if y == y]:
            least, most = min(least, *present), max(most, *present)
    if least == most:
        raise ValueError(f"{target} holds one value only, {least!r}: there is nothing to tell")
    if n_rows == 0 or least > most:
        raise ValueError(f"{target} holds no number at all: there is nothing to tell")
    return LabelCounts(replace(stream.schema, classes=None), Counter(), n_rows, 0)


def _check_that_classes(target: str, counts: Counter[Label], n_rows: int) -> None:
    """Raise if what was seen so far are numbers and not classes."""
    broken = (label for label in counts if isinstance(label, float) and label % 1.0)
    if (number := next(broken, None)) is not None:
        raise ValueError(
            f"{target} holds numbers such as {number!r}, which are no classes: compare by r2 or mae"
        )
    if len(counts) > max(20, n_rows / 2):
        raise ValueError(
            f"{target} has {len(counts):,} different values in {n_rows:,} rows: these are no "
            "classes to tell apart; if they are numbers, compare by r2 or mae"
        )


class OnePass:
    """A stream whose labels are known, with one row in ten left out if there is a seed.

    Examples
    --------
    >>> from fires.streams import from_arrays
    >>> stream = from_arrays(np.zeros((20, 1)), np.arange(20))
    >>> (batch,) = OnePass(stream, stream.schema, seed=0).batches(20)
    >>> batch.y
    array([ 0,  1,  2,  3,  4,  5,  6,  7,  8, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    """

    def __init__(self, stream: Stream, schema: Schema, seed: int | None) -> None:
        self._stream, self.schema, self._seed = stream, schema, seed

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows that are kept, in their order."""
        if self._seed is None:
            yield from self._stream.batches(batch_size)
            return
        restarted: list[int | str] = []
        for rows in cut(self._kept(batch_size, restarted), batch_size):
            yield Batch(rows.X, rows.y, rows.places[-1], tuple(restarted), rows.columns)
            restarted.clear()

    def _kept(self, batch_size: int, restarted: list[int | str]) -> Iterator[PlacedRows]:
        """Nine of every ten rows, as they are read; also notes the features that start anew."""
        rng = generator(self._seed, "compare")
        for batch in self._stream.batches(10 * math.ceil(batch_size / 9)):  # whole tens
            tens = 10 * np.arange(batch.n_rows // 10)
            kept = np.delete(np.arange(batch.n_rows), tens + rng.integers(10, size=len(tens)))
            places = np.full(len(kept), batch.position, dtype=object)
            restarted += batch.restarted
            yield PlacedRows(batch.X[kept], batch.y[kept], places, batch.columns)
