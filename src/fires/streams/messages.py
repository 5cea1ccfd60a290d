"""What the topics of Kafka and the streams of Redis have in common: a JSON object per message."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.schema import Hints, Kind
from fires.core.errors import InputError
from fires.core.types import Json
from fires.streams.base import Position
from fires.streams.json_table import JsonRows, json_row
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS, Chunk, Fault, unreadable
from fires.streams.table_stream import TableStream, stream_of
from fires.streams.text_blocks import BLOCK, Block

if TYPE_CHECKING:
    from fires.streams.base import Bookmark

FIRST = 1_000
"""Messages taken at once before their size is known."""
MOST = 10_000
"""Messages taken at once, at most."""
_SAMPLE_BYTES = 2 * BLOCK


class Messages(NamedTuple):
    """Messages that came together; none says that there are no more for now."""

    values: Sequence[bytes] = ()
    lines: npt.NDArray[np.int64] = np.empty(0, dtype=np.int64)
    places: npt.NDArray[np.generic] = np.empty((0, 0))
    where: Callable[[int], Mapping[str, Json]] = lambda at: {}
    start: Callable[[int], Position | None] = lambda at: None
    short: bool = True


NOTHING = Messages()
"""The broker has no more for now."""


class Broker(Protocol):
    """Where messages are read from: a topic of Kafka, or a stream of Redis."""

    @property
    def name(self) -> str:
        """What errors call it."""

    @property
    def unit(self) -> str:
        """What it calls a message."""

    @property
    def notes(self) -> list[str]:
        """What a user should know of the messages that were read, in one line each."""

    def read(self, start: Position, sample: bool = False) -> Generator[Messages, None, None]:
        """Read from a position on, waiting for more at most a fifth of a second at a time."""

    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """Where a message ends; see :meth:`fires.streams.table.Table.position`."""

    def lag(self) -> int | None:
        """How many messages are there that were not read yet, asked for now and by any thread."""


class MessageTable:
    """Messages with a JSON object each, as many columns as the first of them have keys."""

    n_bytes: int | None = None
    renamed: tuple[tuple[str, str], ...] = ()
    head = b""

    looks_after_marks = True  # by a checksum of the block

    def __init__(self, broker: Broker, names: Iterable[str] | None = None) -> None:
        self.name, self.unit = broker.name, broker.unit
        self.position, self.lag = broker.position, broker.lag
        self._broker = broker
        first = self._first_objects() if names is None else [dict.fromkeys(names)]
        self._rows = JsonRows(first)
        self.column_names, self.new_fields = self._rows.column_names, self._rows.new_fields
        if not self.column_names:
            raise InputError(f"{self.name} has no columns: its objects are empty")

    @property
    def differences(self) -> list[str]:
        """What a user should know of the messages that were read, in one line each."""
        return self._broker.notes

    def let_columns_change(self) -> None:
        """See :class:`fires.streams.table.Table`: later keys are columns too."""
        self._rows.is_open = True

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the messages as they come; see :meth:`fires.streams.table.Table.chunks`."""
        with closing(self._broker.read(start, n_rows is not None)) as portions:
            for messages in portions:
                if messages.values:
                    yield from self._parsed(messages, kinds)
                else:
                    short = messages.short
                    yield Chunk(pl.DataFrame(), messages.lines, messages.places, short=short)

    def _parsed(self, messages: Messages, kinds: Mapping[str, Kind]) -> Iterator[Chunk]:
        """Parse messages, and say of each where it is."""
        values, lines, places, where, start, short = messages
        n_before = 0
        for chunk in self._rows.parsed(_as_block(values, lines, short), kinds, places):
            at = (chunk.lines - lines[0]).tolist()  # they are numbered one by one
            faults = [
                Fault(line, reason, _text(values[line - lines[0]]), where(line - lines[0]))
                for line, reason, *_ in chunk.faults
            ]
            yield replace(
                chunk,
                faults=faults,
                raw=partial(_raw, values, at),
                where=partial(_where, where, at),
                start=start(n_before),
            )
            n_before += len(at) + len(faults)

    def _first_objects(self) -> Iterator[dict[str, Json]]:
        """As many objects as decide which columns there are."""
        n_objects, n_bytes = 0, 0
        fault: tuple[int, str] | None = None
        with closing(self._broker.read(Position(), True)) as portions:
            for messages in portions:
                for line, value in zip(messages.lines.tolist(), messages.values, strict=True):
                    row = json_row(_in_one_line(value))
                    if isinstance(row, dict):
                        n_objects += 1
                        yield row
                    else:
                        fault = fault or (line, str(row))
                    n_bytes += len(value)
                enough = n_objects >= (LEAST_ROWS if messages.short else SAMPLE_ROWS)
                if enough or (n_objects and n_bytes >= _SAMPLE_BYTES):
                    return
        if n_objects == 0:
            raise unreadable(self, *fault) if fault else InputError(f"{self.name} is empty")


def stream_from(
    broker: Broker, target: Any, exclude: Sequence[str], after: Any, hints: Hints, **more: Any
) -> TableStream:
    """The stream of what a broker has; the other arguments are those of ``stream_of``."""
    table = MessageTable(broker, None if after is None else names_in(after, exclude))
    return stream_of(table, target, exclude=exclude, after=after, hints=hints, **more)


def names_in(bookmark: Bookmark, exclude: Sequence[str] = ()) -> list[str]:
    """The columns of an earlier run."""
    from fires.columns import Columns
    from fires.columns.schema import Column
    from fires.core.errors import StateError

    try:
        columns = Columns.from_json(bookmark["columns"]).all
        target = Column.from_json(bookmark["target"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"the bookmark is damaged ({error!r})") from None
    left_out = [exclude] if isinstance(exclude, str) else exclude
    return [*(column.name for column in columns), target.name, *left_out]


def portion(n_messages: int, n_bytes: int) -> int:
    """How many messages to take at once, so that they can be parsed as one block.

    Examples
    --------
    >>> portion(1_000, 200_000), portion(10, 160_000_000)
    (10000, 1)
    """
    return max(1, min(MOST, BLOCK * n_messages // max(n_bytes, 1)))


def _as_block(values: Sequence[bytes], lines: npt.NDArray[np.int64], short: bool) -> Block:
    """A line for each message."""
    data = b"\n".join(values) + b"\n"
    if data.count(b"\n") > len(values) or any(not v or v.isspace() for v in values):
        values = [_in_one_line(value) for value in values]
        data = b"\n".join(values) + b"\n"
    ends = np.cumsum(np.fromiter(map(len, values), np.int64, len(values)) + 1)
    return Block(data, ends, np.append(lines, lines[-1] + 1), True, short)


def _in_one_line(value: bytes) -> bytes:
    """A JSON text without line ends, which mean nothing there; an empty one is no object."""
    return value.replace(b"\n", b" ") if value.strip() else b"null"


def _raw(values: Sequence[bytes], at: Sequence[int], row: int) -> str:
    return _text(values[at[row]])


def _where(
    where: Callable[[int], Mapping[str, Json]], at: Sequence[int], row: int
) -> Mapping[str, Json]:
    return where(at[row])


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")
