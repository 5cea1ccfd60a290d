"""Tables of JSON objects whose keys are columns: NDJSON, one a line, and messages of brokers.

The topics of Kafka and the streams of Redis have an object in each message.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import polars as pl

from fires.columns.target import Target
from fires.core.errors import InputError, undamaged
from fires.core.types import Json, JsonObject
from fires.streams import text as texts
from fires.streams.base import Bookmark, Position
from fires.streams.registry import refuse_secrets
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS, Chunks, Fault, Kinds, unreadable
from fires.streams.table_stream import TableStream, stream_of
from fires.streams.text import BLOCK, Block, BlockTable, Lines, Parsed, TextSource

NOT_AN_OBJECT = "not a JSON object"
NOT_UNICODE = r"a lone surrogate such as \ud800, which is not text"
# Half of a pair of escapes; also a text that looks like one, behind a backslash.
_LONE = re.compile(
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])"
)
_NESTED = r"(?s)^(\{.*\}|\[.*\])$"
_LOOK_EVERY = 100  # in one line of so many the reader looks for keys that are new
_SAMPLE_BYTES = 2 * texts.BLOCK
_INFINITE = {"Infinity": "inf", "-Infinity": "-inf"}
_Row = dict[str, Json] | str | None


class JsonRows(BlockTable):
    """Lines with a JSON object each, as many columns as the first objects have keys.

    Columns come as text: numbers as they would be printed, true and false by these words. Columns
    that hold objects or lists come as lists of text.
    """

    def _find_columns(self, blocks: Iterable[Block]) -> None:
        """Let the first objects decide which columns there are."""
        self.new_fields: dict[str, int] = {}
        self._typed = True
        self._nested: set[str] = set()
        names: dict[str, None] = {}
        for row in self._first_objects(blocks):
            names.update(dict.fromkeys(row))
            self._nested.update(name for name, v in row.items() if isinstance(v, (dict, list)))
        self.column_names = self._met = tuple(names)
        self._known = frozenset(names)
        if not names:
            raise InputError(f"{self.name} has no columns: its objects are empty")

    def _first_objects(self, blocks: Iterable[Block]) -> Iterator[dict[str, Json]]:
        """As many objects as decide which columns there are."""
        n_objects, n_bytes = 0, 0
        fault: tuple[int, str] | None = None
        for block in blocks:
            ends = n_bytes + block.ends - (block.ends[-1:] - len(block.data))
            for i, row in enumerate(json_rows(block.data) if len(ends) else ()):
                if isinstance(row, dict):
                    n_objects += 1
                    yield row
                elif row is not None:
                    fault = fault or (int(block.lines[i]), row)
                # Not whole blocks: which columns there are must not depend on their size.
                if n_objects >= SAMPLE_ROWS or (n_objects and ends[i] >= _SAMPLE_BYTES):
                    return
            n_bytes += len(block.data)
            if block.short and n_objects >= LEAST_ROWS:
                return
        if n_objects == 0:
            if fault is None:
                raise InputError(f"{self.name} is empty")
            raise unreadable(self.name, self.unit, *fault)

    def let_columns_change(self) -> None:
        """See :meth:`fires.streams.table.Table.let_columns_change`: later keys are columns too."""
        self.is_open = True

    def _wanted(self, block: Block, kinds: Kinds) -> Kinds:
        """Look for keys that the first objects did not have: in a few lines, or, if open, in all.

        The few are the same ones, however the text is cut into blocks. Keys of other blocks are not
        columns of this one: what is told of a block depends on it alone.
        """
        first, step = int(block.lines[0]), 1 if self.is_open else _LOOK_EVERY
        new: dict[str, int] = {}
        for i in range((1 - first) % step, len(block.ends), step):
            row = json_row(block.record(i))
            if isinstance(row, dict) and not self._known.issuperset(row):
                late = [name for name in row if name not in self._known and name not in new]
                new |= dict.fromkeys(late, first + i)
                self._nested.update(name for name in late if isinstance(row[name], (dict, list)))
        if not self.is_open:
            self.new_fields = self.new_fields | {**new, **self.new_fields}
            new = {}
        self._met = tuple(dict.fromkeys([*self._met, *new]))
        names = [name for name in self._met if name in kinds or name in new]
        return {name: kinds.get(name, "category") for name in names}

    def _fast(self, block: Block, kinds: Kinds) -> Parsed | None:
        """Parse lines that are all as they should be; None if one is not."""
        if not texts.is_utf8(block.data) or _LONE.search(block.data):
            return None
        for typed in (True, False) if self._typed else (False,):
            types = {"number": pl.Float64, "integer": pl.Int64} if typed else {}
            schema = {name: types.get(kind, pl.String) for name, kind in kinds.items()}
            try:
                frame = pl.read_ndjson(block.data, schema=schema)
            except pl.exceptions.PolarsError:
                continue
            self._typed = typed
            labels = [frame[name] for name, kind in kinds.items() if kind == "label"]
            is_nested = any(label.str.contains(_NESTED).any() for label in labels)
            fits = len(frame) == len(block.ends) and not is_nested
            return (self._in_lists(frame, kinds), None) if fits else None
        return None

    def _in_lists(self, frame: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
        """Columns in which some of the first objects held objects or lists, as lists of text."""
        nested = [pl.col(name) for name in self._nested if kinds.get(name) == "category"]
        return frame.with_columns(pl.when(c.is_not_null()).then(pl.concat_list(c)) for c in nested)

    def _records(self, block: Block, kinds: Kinds) -> Iterator[_Row]:
        labels = [name for name, kind in kinds.items() if kind == "label"]
        for row in json_rows(block.data):
            fields = row if isinstance(row, dict) else {}
            nested = [name for name in labels if isinstance(fields.get(name), (dict, list))]
            yield f'an object or a list in the target column "{nested[0]}"' if nested else row

    def _frame(self, rows: list[dict[str, Json]], kinds: Kinds) -> pl.DataFrame:
        lines = "\n".join(_line({name: row.get(name) for name in kinds}) for row in rows)
        schema = dict.fromkeys(kinds, pl.String)
        frame = (
            pl.read_ndjson(lines.encode(), schema=schema) if rows else pl.DataFrame(schema=schema)
        )
        return self._in_lists(frame, kinds)


def json_rows(data: bytes) -> Iterator[_Row]:
    """Read lines one by one."""
    return map(json_row, data.removesuffix(b"\n").split(b"\n"))


def json_row(line: bytes) -> _Row:
    """The object in a line."""
    if not line.strip():
        return None
    try:
        row = json.loads(line.decode("utf-8-sig"))
        if _LONE.search(line):
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return texts.NOT_UTF8
    except UnicodeEncodeError:
        return NOT_UNICODE
    except (ValueError, RecursionError):
        return NOT_AN_OBJECT
    return row if isinstance(row, dict) else NOT_AN_OBJECT


def _line(row: dict[str, Json]) -> str:
    """An object for polars, which knows neither NaN, which is missing, nor infinite numbers."""
    text = json.dumps(row)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=_INFINITE.get))
    return text


class JsonTable(JsonRows):
    """A text of JSON objects, one a line."""

    def __init__(self, text: TextSource, block_size: int) -> None:
        self._read_from(text, Lines(block_size))
        with closing(text.blocks(self._cut, Position(), again=True)) as blocks:
            self._find_columns(blocks)


# --- messages of brokers --------------------------------------------------------------------------

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
        shown=lambda at: Fault(
            first + at, "", values[at].decode("utf-8", "backslashreplace"), where(at)
        ),
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
