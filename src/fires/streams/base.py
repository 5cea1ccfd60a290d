"""What every stream hands out: batches, the names of their columns, and where each one ends."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from fires.core.errors import InputError as InputError
from fires.core.errors import undamaged
from fires.core.types import Floats, Label, Labels, Matrix

if TYPE_CHECKING:
    from fires.columns.columns import Columns

# Where a stream is, and what it knows, as JSON values.
Bookmark = dict[str, Any]


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
        Where the next record starts: a byte of the text, unpacked and in UTF-8, or a row of an
        array or a Parquet file.
    line : int
        Lines of text, or rows of a Parquet file, that lie before the next record.
    file : int
        Where there are several files: which of them, from 0. ``bytes`` counts over all of them,
        ``offset`` and ``line`` within this one.
    mark : JSON value, optional
        Where reading goes on in what is no file: the offset of each partition of a topic, the id of
        an entry, the greatest key of a query.

    Examples
    --------
    >>> Position(rows=100, mark="1526919030474-55").mark
    '1526919030474-55'
    """

    rows: int = 0
    bytes: int = 0
    offset: int = 0
    line: int = 0
    file: int = 0
    mark: Any = None


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
    columns : Columns, optional
        What the rows were encoded with.
    waited : bool
        The batch has fewer rows than it should, since no more came for a while.
    names : sequence of str, optional
        What the columns of X are called, where they may be others from batch to batch. Without it,
        they are those of the schema.
    times : ndarray of float64, shape (n_rows,), optional
        When each row was, in seconds since 1970; NaN where that is not known.
    end, faults, start, n_used : optional
        While a stream reads ahead: the position behind each row, the records that could not be used
        (each with the number of rows before it), what was known before the block of rows that was
        read at once, and how many of its rows are used.

    Examples
    --------
    >>> Batch(np.zeros((2, 3)), np.array(["ham", "spam"])).n_rows
    2
    """

    X: Matrix
    y: Labels
    position: Position = field(default_factory=Position)
    columns: Columns | None = None
    waited: bool = False
    names: Sequence[str] | None = None
    times: Floats | None = None
    end: Callable[[int], Position] | None = None
    faults: Sequence[tuple[int, Any]] = ()
    start: Any = None
    n_used: int = 0

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
    classes: tuple[Label, ...] | None = None

    @property
    def n_features(self) -> int:
        """How many columns X has."""
        return len(self.feature_names)


class Stream(Protocol):
    """A source of batches. Each call of ``batches`` starts again from the beginning.

    A stream that can be resumed has two more methods. ``bookmark()`` returns, as JSON values, the
    end of the last batch and the state of the reader. The stream ``after(bookmark)`` begins with
    the next batch.
    """

    @property
    def schema(self) -> Schema:
        """The names of the columns."""

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""


def check_batch_size(batch_size: int) -> int:
    """Return the batch size, or raise if it is not a whole number above zero.

    Parameters
    ----------
    batch_size : int
        What the caller asked for.

    Returns
    -------
    int
        The same number.

    Examples
    --------
    >>> check_batch_size(100)
    100
    """
    return check_count("batch_size", batch_size, 1)


def check_count(name: str, value: int, least: int) -> int:
    """Return a setting that counts something, or raise.

    Examples
    --------
    >>> check_count("n_classes", 1, 2)
    Traceback (most recent call last):
    ValueError: n_classes must be at least 2, not 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, not {value!r}.")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}.")
    return int(value)


class CountedRows:
    """Rows that can be counted beforehand, of which a stream hands out one batch after another."""

    _first = 0  # the row it begins with
    _left = 0  # the row behind the last batch

    def bookmark(self) -> Bookmark:
        """Where the last batch ends; see :class:`Stream`."""
        return {"position": asdict(Position(rows=self._left, offset=self._left))}

    def after(self, bookmark: Bookmark) -> Self:
        """The stream that goes on where this one, or one made in the same way, was."""
        with undamaged("the bookmark is"):
            row = int(Position(**bookmark["position"]).rows)
        other = copy.copy(self)
        other._first = other._left = row
        return other

    def _ranges(self, n_rows: int, batch_size: int) -> Iterator[tuple[int, int, Position]]:
        """The first row of each batch, the first row after it, and where it ends."""
        batch_size = check_batch_size(batch_size)
        self._left = self._first
        for start in range(self._first, n_rows, batch_size):
            self._left = stop = min(start + batch_size, n_rows)
            yield start, stop, Position(rows=stop, offset=stop)


def numbered_columns(n_features: int) -> tuple[str, ...]:
    """Name columns that have no names.

    Examples
    --------
    >>> numbered_columns(2)
    ('x0', 'x1')
    """
    return tuple(f"x{column}" for column in range(n_features))
