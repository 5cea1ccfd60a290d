"""Rows that come in blocks of any length are cut into batches of one length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fires.core.errors import InputError


class PlacedRows(NamedTuple):
    """Rows as a matrix, their labels, and the place in the source at which each of them ends.

    ``columns`` is what they were encoded with, if anything.
    """

    X: Any
    y: npt.NDArray[Any]
    places: npt.NDArray[Any]
    columns: Any = None


def cut(blocks: Iterable[PlacedRows], size: int) -> Iterator[PlacedRows]:
    """Cut blocks into batches; only those across a seam are copied.

    Parameters
    ----------
    blocks : iterable of PlacedRows
        Of any length.
    size : int
        Rows of a batch.

    Yields
    ------
    PlacedRows
        As many rows; the last may have fewer.

    Raises
    ------
    InputError
        What the blocks raise, after the rows before it.

    Examples
    --------
    >>> blocks = [PlacedRows(np.zeros((n, 1)), np.arange(n), np.arange(n)) for n in (3, 4)]
    >>> [batch.y.tolist() for batch in cut(blocks, 2)]
    [[0, 1], [2, 0], [1, 2], [3]]
    """
    held: list[PlacedRows] = []  # rows that are too few for a batch
    n_held = 0
    broken: InputError | None = None
    rest = iter(blocks)
    while True:
        try:
            X, y, places, columns = next(rest)
        except StopIteration:
            break
        except InputError as error:  # the rows before the damage come first
            broken = error
            break
        start = 0
        for stop in range(size - n_held, len(y) + 1, size):
            held.append(PlacedRows(X[start:stop], y[start:stop], places[start:stop], columns))
            yield _joined(held)
            held, n_held, start = [], 0, stop
        if start < len(y):
            held.append(PlacedRows(X[start:], y[start:], places[start:], columns))
            n_held += len(y) - start
    if held:
        yield _joined(held)
    if broken is not None:
        raise broken


def _joined(parts: list[PlacedRows]) -> PlacedRows:
    if len(parts) == 1:
        return parts[0]
    Xs, ys, places, columns = zip(*parts, strict=True)
    return PlacedRows(stacked(Xs), np.concatenate(ys), np.concatenate(places), columns[-1])


def stacked(parts: Sequence[Any]) -> Any:
    """Rows under one another, dense or sparse; always a copy.

    Parameters
    ----------
    parts : sequence of matrices
        All dense, or all sparse.

    Returns
    -------
    ndarray or CSR
        One matrix.
    """
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
