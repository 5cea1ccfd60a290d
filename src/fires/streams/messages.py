"""What the topics of Kafka and the streams of Redis have in common: a JSON object per message."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns import Columns
from fires.columns.schema import Column, Kind
from fires.columns.target import Target
from fires.core.errors import InputError, StateError
from fires.core.types import Json
from fires.streams.base import Bookmark, Position
from fires.streams.json_table import JsonRows
from fires.streams.registry import refuse_secrets
from fires.streams.table import Chunk, Fault
from fires.streams.table_stream import TableStream, stream_of
from fires.streams.text_blocks import BLOCK, Block

WAIT = 0.2
"""Seconds to wait for messages at a time."""
START = 5.0
"""Seconds to wait for a broker that was not reached before."""
ASK = 2.0
"""Seconds to wait for an answer about the lag."""
FLUSH = 30.0
"""Seconds within which a broker has to take what is written."""
FIRST = 1_000
"""Messages taken at once before their size is known."""
MOST = 10_000
"""Messages taken at once, at most."""


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


class MessageTable(JsonRows):
    """Messages with a JSON object each. What a source of messages has to say are three methods."""

    looks_after_marks = True  # by a checksum of the block

    @abstractmethod
    def read(self, start: Position, sample: bool = False) -> Generator[Messages, None, None]:
        """Read from a position on, waiting for more at most a fifth of a second at a time."""

    @abstractmethod
    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """Where a message ends; see :meth:`fires.streams.table.Table.position`."""

    @abstractmethod
    def lag(self) -> int | None:
        """How many messages are there that were not read yet, asked for now and by any thread."""

    def find_columns(self, names: Iterable[str] | None) -> None:
        """The columns are those of the first messages, unless they are known."""
        if names is not None:
            line = json.dumps(dict.fromkeys(names)).encode()
            self._find_columns([_as_block([line], np.ones(1, np.int64), True)])
            return
        with closing(self.read(Position(), True)) as portions:
            self._find_columns(_as_block(*portion[:2], portion.short) for portion in portions)

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the messages as they come; see :meth:`fires.streams.table.Table.chunks`."""
        with closing(self.read(start, n_rows is not None)) as portions:
            for messages in portions:
                if messages.values:
                    yield from self._placed(messages, kinds)
                else:
                    short = messages.short
                    yield Chunk(pl.DataFrame(), messages.lines, messages.places, short=short)

    def _placed(self, messages: Messages, kinds: Mapping[str, Kind]) -> Iterator[Chunk]:
        """Parse messages, and say of each where it is."""
        values, lines, places, where, start, short = messages
        n_before = 0
        for chunk in self._parsed(_as_block(values, lines, short), kinds, places):
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


def stream_from(
    table: MessageTable,
    target: str | Target | None,
    *,
    exclude: Sequence[str] = (),
    after: Bookmark | None = None,
    **options: Any,
) -> TableStream:
    """The stream of a table of messages; the other arguments are those of ``stream_of``."""
    table.find_columns(None if after is None else names_in(after, exclude))
    return stream_of(table, target, exclude=exclude, after=after, **options)


def names_in(bookmark: Bookmark, exclude: Sequence[str] = ()) -> list[str]:
    """The columns of an earlier run."""
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
    if not values:
        return Block(b"", lines, np.ones(1, np.int64), True, short)
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


class Address(NamedTuple):
    """Where a broker is, and what is asked of it."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    options: dict[str, str]

    @property
    def servers(self) -> str:
        """All of them, separated by commas."""
        return ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.hosts)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.servers}/{self.path}"


def read_address(uri: str, form: str, port: int, options: tuple[str, ...] = ()) -> Address:
    """Take the URI of a broker apart.

    Examples
    --------
    >>> str(read_address("kafka://one,two:9093/events", "kafka://host:port/topic", 9092))
    'kafka://one:9092,two:9093/events'
    """
    refuse_secrets(uri)
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    servers, _, path = rest.partition("/")
    found_options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(found_options) - set(options)):
        raise InputError(f'{scheme}://{servers}/{path}: there is no option "{unknown[0]}"')
    try:
        hosts = tuple(_host(server, port) for server in servers.split(","))
    except ValueError:
        raise InputError(f"{scheme}://{servers}: no host and port", hint=f"use {form}") from None
    if not path:
        raise InputError(f"{uri} names no {form.rpartition('/')[2]}", hint=f"use {form}")
    return Address(scheme, hosts, unquote(path), found_options)


def _host(server: str, port: int) -> tuple[str, int]:
    """Host and port; the host may be an address of IPv6 in brackets."""
    host, colon, number = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, number = server, str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 < int(number) < 65536:
        raise ValueError(server)
    return host, int(number)
