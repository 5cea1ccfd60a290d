"""What the topics of Kafka and the streams of Redis have in common: a JSON object per message."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np

from fires.columns.target import Target
from fires.core.errors import InputError, undamaged
from fires.core.types import Json, JsonObject
from fires.streams.base import Bookmark, Position
from fires.streams.json_table import JsonRows
from fires.streams.registry import refuse_secrets
from fires.streams.table import Chunks, Kinds
from fires.streams.table_stream import TableStream, stream_of
from fires.streams.text import BLOCK, Block

WAIT = 0.2  # seconds to wait for messages at a time
START = 5.0  # seconds to wait for a broker that was not reached before
ASK = 2.0  # seconds to wait for an answer about the lag
FLUSH = 30.0  # seconds within which a broker has to take what is written
FIRST = 1_000  # messages taken at once before their size is known
MOST = 10_000  # messages taken at once, at most


# None: the broker has no more for now.
NOTHING = Block(b"", np.empty(0, np.int64), np.ones(1, np.int64), regular=True, short=True)


def as_block(
    values: Sequence[bytes],
    first: int,
    where: Callable[[int], JsonObject],
    mark: Callable[[int], Json],
    again: Callable[[int], Json],
    short: bool,
) -> Block:
    """Messages that came together, with a line for each.

    ``first`` is the number of the first, from 1 on, and ``mark`` says where each of them ends.
    ``again`` is the mark where those from one of them on are read again.
    """
    lines = values
    data = b"\n".join(lines) + b"\n"
    if data.count(b"\n") > len(values) or any(not v or v.isspace() for v in values):
        # Line ends mean nothing in JSON; and an empty text is no object.
        lines = [v.replace(b"\n", b" ") if v.strip() else b"null" for v in values]
        data = b"\n".join(lines) + b"\n"
    return Block(
        data,
        np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)) + 1),
        np.arange(first, first + len(values) + 1),
        regular=True,
        short=short,
        end=lambda at: Position(line=first + at, mark=mark(at)),
        raw=lambda at: values[at].decode("utf-8", "backslashreplace"),
        where=where,
        again=lambda at: Position(line=first - 1 + at, mark=again(at)),
    )


class Reader(Protocol):
    """Reads the messages at an address, once."""

    unit: str
    name: str

    def messages(self, start: Position, until_end: bool, sample: bool) -> Generator[Block]:
        """Read from a position on, waiting for more at most a fifth of a second at a time."""

    def lag(self) -> int | None:
        """How many messages are there that were not read yet, asked for now and by any thread."""


class MessageTable(JsonRows):
    """Messages with a JSON object each."""

    looks_after_marks = True  # by a checksum of the block

    def __init__(self, connect: Callable[[], Reader], until_end: bool) -> None:
        self._connect, self._until_end = connect, until_end
        self._reader = connect()
        self.name, self.unit = self._reader.name, self._reader.unit

    def lag(self) -> int | None:
        """See :class:`Reader`, as of what was read last."""
        return self._reader.lag()

    def _portions(self, start: Position, sample: bool) -> Generator[Block]:
        self._reader = self._connect()
        return self._reader.messages(start, self._until_end, sample)

    def find_columns(self, names: Iterable[str] | None) -> None:
        """The columns are those of the first messages, unless they are known."""
        if names is not None:
            line = json.dumps(dict.fromkeys(names)).encode()
            self._find_columns([Block(line, np.array([len(line)]), np.array([1, 2]), regular=True)])
            return
        with closing(self._portions(Position(), True)) as portions:
            self._find_columns(portions)

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the messages as they come; see :meth:`fires.streams.table.Table.chunks`."""
        with closing(self._portions(start, n_rows is not None)) as portions:
            for block in portions:
                yield from self._parsed(block, kinds)


def stream_from(
    connect: Callable[[], Reader],
    target: str | Target | None,
    *,
    until_end: bool = False,
    exclude: Sequence[str] = (),
    after: Bookmark | None = None,
    **options: Any,
) -> TableStream:
    """The stream of what a reader reads; the other arguments are those of ``stream_of``."""
    table = MessageTable(connect, until_end)
    names: list[str] | None = None
    if after is not None:
        with undamaged("the bookmark is"):
            names = [column[0] for column in (*after["columns"]["columns"], after["target"])]
        names += [exclude] if isinstance(exclude, str) else exclude
    table.find_columns(names)
    return stream_of(table, target, exclude=exclude, after=after, **options)


def portion(n_messages: int, n_bytes: int) -> int:
    """How many messages to take at once, so that they can be parsed as one block."""
    return max(1, min(MOST, BLOCK * n_messages // max(n_bytes, 1)))


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
    """Take the URI of a broker apart."""
    refuse_secrets(uri)
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    servers, _, path = rest.partition("/")
    found_options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(found_options) - set(options)):
        raise InputError(f'{scheme}://{servers}/{path}: there is no option "{unknown[0]}"')
    try:
        parts = [urlsplit(f"//{server}") for server in servers.split(",")]
        hosts = tuple((part.hostname or "", part.port or port) for part in parts)
        if not all(host for host, _ in hosts):
            raise ValueError(servers)
    except ValueError:
        raise InputError(f"{scheme}://{servers}: no host and port", hint=f"use {form}") from None
    if not path:
        raise InputError(f"{uri} names no {form.rpartition('/')[2]}", hint=f"use {form}")
    return Address(scheme, hosts, unquote(path), found_options)
