"""Blocks of rows are read ahead, and cut into batches of one length."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from scipy import sparse

from fires.core.errors import InputError
from fires.core.types import Labels
from fires.streams.table import Fault

if TYPE_CHECKING:
    from fires.columns.columns import Columns


Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Let a thread make the next item while this one is used.

    This pays because polars and NumPy work without the interpreter. Each stage of reading has a
    thread of its own: a stage that waits for the interpreter, which a busy consumer holds, then
    keeps no other one waiting.

    Examples
    --------
    >>> list(read_ahead(letter for letter in "abc"))
    ['a', 'b', 'c']
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="fires-reader") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


_MOST_FAULTS = 10_000
"""Faults that wait for the end of their batch; more are handed on before it."""


class PlacedRows(NamedTuple):
    """Rows as a matrix, their labels, and the place in the source at which each of them ends."""

    X: Any  # a Matrix, or None if there are only faults
    y: Labels
    places: Labels
    columns: Columns | None = None
    faults: Sequence[tuple[int, Fault]] = ()
    start: Any = None
    n_used: int = 0
    waited: bool = False
    names: tuple[str, ...] | None = None


def cut(
    blocks: Iterable[PlacedRows],
    size: int,
    *,
    skip: int = 0,
    n_told: int = 0,
    max_wait: float | None = None,
) -> Iterator[PlacedRows]:
    """Cut blocks into batches; only those across a seam are copied.

    Examples
    --------
    >>> blocks = [PlacedRows(np.zeros((n, 1)), np.arange(n), np.arange(n)) for n in (3, 4)]
    >>> [batch.y.tolist() for batch in cut(blocks, 2)]
    [[0, 1], [2, 0], [1, 2], [3]]
    """
    held = _Held()
    broken: InputError | None = None
    rest = iter(blocks)
    while True:
        try:
            block = next(rest)
        except StopIteration:
            break
        except InputError as error:  # the rows before the damage come first
            broken = error
            break
        n_rows, start = len(block.y), min(skip, len(block.y))
        skip -= start
        faults, at = block.faults, _n_before(block.faults, start)
        n_again = len(faults) - at if skip else min(n_told, len(faults) - at)
        at, n_told = at + n_again, n_told - (0 if skip else n_again)
        if held.n_rows and start < n_rows and held.names != block.names:
            yield held.handed_out()
        for stop in (*range(start + size - held.n_rows, n_rows, size), n_rows):
            if start < stop:
                before = _n_before(faults, stop)
                held.take(_part(block, start, stop), faults[at:before])
                start, at = stop, max(at, before)
            if held.n_rows == size:
                yield held.handed_out()
        held.behind += faults[at:]
        if held.n_rows and max_wait is not None and time.monotonic() - held.since >= max_wait:
            yield held.handed_out()._replace(waited=True)
        yield from held.too_many_faults()
    if held.n_rows:
        yield held.handed_out()
    if held.behind:
        yield no_rows(held.behind)
    if broken is not None:
        raise broken


class _Held:
    """Rows that are too few for a batch, and the faults before the last of them, and behind it."""

    def __init__(self) -> None:
        self.n_rows, self.since = 0, 0.0
        self.faults: list[tuple[int, Fault]] = []
        self.behind: list[tuple[int, Fault]] = []
        self._parts: list[PlacedRows] = []

    @property
    def names(self) -> tuple[str, ...] | None:
        """The columns that the rows have, if they may change."""
        return self._parts[-1].names

    def take(self, part: PlacedRows, faults: Sequence[tuple[int, Fault]]) -> None:
        """Add rows, and the faults among them."""
        if not self.n_rows:
            self.since = time.monotonic()
        self._parts.append(part)
        self.n_rows += len(part.y)
        self.faults += [*self.behind, *faults]
        self.behind = []

    def too_many_faults(self) -> Iterator[PlacedRows]:
        """All faults, if they are too many to wait."""
        if len(self.faults) + len(self.behind) > _MOST_FAULTS:
            yield no_rows(self.faults + self.behind)
            self.faults, self.behind = [], []

    def handed_out(self) -> PlacedRows:
        """All of it but the faults behind."""
        whole, parts = self._parts[-1], self._parts
        if len(parts) > 1:
            X = stacked([part.X for part in parts])
            y, places = (np.concatenate([part[i] for part in parts]) for i in (1, 2))
            whole = whole._replace(X=X, y=y, places=places)
        whole = whole._replace(faults=self.faults)
        self._parts, self.faults, self.n_rows = [], [], 0
        return whole


def _n_before(faults: Sequence[tuple[int, Fault]], row: int) -> int:
    """How many of the faults come before a row; those right behind the row before it do not."""
    return bisect_left(faults, row, key=lambda fault: fault[0]) if faults else 0


def _part(block: PlacedRows, start: int, stop: int) -> PlacedRows:
    X, y, places = (part[start:stop] for part in (block.X, block.y, block.places))
    names = block.names
    return PlacedRows(X, y, places, block.columns, (), block.start, stop, names=names)


def no_rows(faults: Sequence[tuple[int, Fault]]) -> PlacedRows:
    """Faults alone."""
    return PlacedRows(None, np.empty(0), np.empty((0, 0)), faults=faults)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows under one another, dense or sparse; always a copy."""
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    width = parts[-1].shape[1]
    if any(part.shape[1] < width for part in parts):
        gaps = [np.full((len(part), width - part.shape[1]), np.nan) for part in parts]
        parts = [np.hstack(pair) for pair in zip(parts, gaps, strict=True)]
    return np.concatenate(parts)
