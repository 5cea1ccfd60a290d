"""What every stream hands out: batches, the names of their columns, and where each one ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fires.core.errors import InputError as InputError


@dataclass(frozen=True)
class Position:
    """Where in its source a batch ends; reading can go on from here.

    Parameters
    ----------
    rows : int
        Rows handed out so far; rejected ones do not count.
    bytes : int
        Bytes of the source used so far, to be held against the stream's ``n_bytes``.
    offset : int
        Where the next record starts: a byte of the (unpacked) text, or a row of an array or
        a Parquet file.
    line : int
        Lines of text, or rows of a Parquet file, that lie before the next record.

    Examples
    --------
    >>> Position()
    Position(rows=0, bytes=0, offset=0, line=0)
    """

    rows: int = 0
    bytes: int = 0
    offset: int = 0
    line: int = 0


class Rows(NamedTuple):
    """Consecutive rows of a stream that lie together in memory, and that nobody changes."""

    X: npt.NDArray[np.float64]
    y: npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive rows of a stream.

    Parameters
    ----------
    X : ndarray of float64, shape (n_rows, n_features), or a CSR matrix
        C-ordered; NaN is a missing value.
    y : ndarray, shape (n_rows,)
        Labels as the source has them (text, integers, booleans), or float64 numbers.
    position : Position
        Where the batch ends in the source.
    block : Rows, optional
        What the batch was cut from. The rows behind it come next in the stream, in batches of
        the same length, as long as they last.
    start : int
        Where in the block it begins.

    Examples
    --------
    >>> Batch(np.zeros((2, 3)), np.array(["ham", "spam"])).n_rows
    2
    """

    X: Any
    y: npt.NDArray[Any]
    position: Position = field(default_factory=Position)
    block: Rows | None = None
    start: int = 0

    @property
    def n_rows(self) -> int:
        """How many rows the batch has."""
        return len(self.y)


@dataclass(frozen=True)
class Schema:
    """What the columns of a stream are called.

    Parameters
    ----------
    feature_names : tuple of str
        One name for each column of X, in order.
    target : str
        The name of y.
    classes : tuple, optional
        All labels that can occur, where the source knows them beforehand.

    Examples
    --------
    >>> Schema(("age", "income"), target="bought").n_features
    2
    """

    feature_names: tuple[str, ...]
    target: str = "target"
    classes: tuple[Any, ...] | None = None

    @property
    def n_features(self) -> int:
        """How many columns X has."""
        return len(self.feature_names)


class Stream(Protocol):
    """A source of batches. Each call of ``batches`` starts again from the beginning."""

    @property
    def schema(self) -> Schema:
        """The names of the columns."""

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order, ``batch_size`` at a time; the last batch may be shorter."""


def check_batch_size(batch_size: int) -> int:
    """Return the batch size, or raise if it is not a whole number above zero.

    Examples
    --------
    >>> check_batch_size(100)
    100
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)):
        raise TypeError(f"batch_size must be a whole number, not {batch_size!r}.")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, not {batch_size}.")
    return int(batch_size)
