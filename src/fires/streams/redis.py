"""Streams of Redis as streams of rows, and as a place to write records to."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from fires.columns.target import Target
from fires.core.errors import InputError, StateError
from fires.core.optional import require
from fires.core.types import Json
from fires.streams.base import Position
from fires.streams.messages import (
    ASK,
    FIRST,
    FLUSH,
    NOTHING,
    START,
    WAIT,
    Address,
    Messages,
    MessageTable,
    portion,
    read_address,
    stream_from,
)
from fires.streams.registry import REDIS_PASSWORD, REDIS_USERNAME
from fires.streams.table_stream import TableStream

_PAGE = 10_000
_FORM = "redis://host:port/key"

_Id = tuple[int, int]


def from_redis(
    uri: str, target: str | Target | None = None, *, until_end: bool = False, **options: Any
) -> TableStream:
    """Make a stream of a Redis Stream.

    Each entry is a row. Its fields are the columns, as of ``XADD events * amount 3 label x``; or it
    has a single field, of any name, that holds a JSON object, whose keys are the columns.

    Entries are read from the first on, or from behind a bookmark. A server that goes away is waited
    for. Entries that are deleted before they are read are an error: see ``after``.

    A user and a password are taken from the environment variables ``FIRES_REDIS_USERNAME`` and
    ``FIRES_REDIS_PASSWORD``.

    Parameters
    ----------
    uri : str
        ``redis://host:port/key``, or ``rediss://`` for TLS. The port may be left out: it is 6379.
        Another database than 0 is named before the key, ``redis://host/1/key``, or behind it,
        ``redis://host/key?db=1``; so a key that begins like ``1/`` needs the second form.
    target : str, or Target
        The column to predict, as in :func:`fires.streams.from_file`.
    until_end : bool
        Whether the stream ends with the entries that are there when reading begins. By default it
        waits for more for ever.
    **options
        What :func:`fires.streams.from_file` takes that is about columns: ``exclude``, ``holds``,
        ``columns``, ``categorical`` and so on; and ``after``, the ``bookmark()`` of an earlier
        stream of this key: reading goes on behind its last batch. If entries behind it were trimmed
        or deleted, or the server has lost them, an error names the ids.

    Returns
    -------
    TableStream
        The stream.

    Raises
    ------
    InputError
        With one line that says what is wrong.
    """
    return stream_from(RedisStream(uri, until_end=until_end), target, **options)


class RedisStream(MessageTable):
    """The entries of a stream.

    The ``mark`` of a position is the id of the last entry, and how many entries had been added to
    the stream with it. By the second it is found out whether later ones were deleted. Entries that
    are to be read again are known again by a checksum.
    """

    unit = "entry"

    def __init__(self, uri: str, *, until_end: bool = False) -> None:
        self._redis = require("redis", "redis://", "redis")
        self._address, self._db, self._key = _address(uri)
        self.name = _name(self._address, self._db, self._key)
        self._until_end = until_end
        self._added: int | None = None  # entries that had been added with the last one read

    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """The last id, and the number of entries added up to it."""
        line, at, number, added = place.tolist()
        return Position(rows, line=line, mark={"id": f"{at}-{number}", "added": added or None})

    def lag(self) -> int | None:
        """How many entries are there that were not read yet."""
        added = self._added
        with suppress(self._redis.RedisError, KeyError):
            with closing(_client(self._redis, self._address, self._db, ASK)) as client:
                reply = client.xinfo_stream(self._key)["entries-added"]
            return None if added is None else int(reply) - added
        return None

    def read(self, start: Position, sample: bool = False) -> Generator[Messages, None, None]:
        """Read the entries in order."""
        client = _client(self._redis, self._address, self._db)
        reader = _Reader(self._redis, client, self.name, self._key, start)
        with closing(client):
            for messages in reader.messages(self._until_end):
                self._added = reader.added
                yield messages


_Entry = tuple[bytes, dict[bytes, bytes]]


class _State(NamedTuple):
    """What a server says of a stream."""

    length: int
    first: _Id | None
    last: _Id  # the last that was ever added
    deleted: _Id  # the last that was ever deleted; trimming does not count
    added: int | None  # how many were ever added; old servers do not know


class _Reader:
    """Reads a stream, once."""

    def __init__(
        self, redis: ModuleType, client: Any, name: str, key: str, start: Position
    ) -> None:
        self._redis, self._client, self._name, self._key = redis, client, name, key
        self._line = start.line
        self._at: _Id = (0, 0)  # the last id that was read
        self.added: int | None = None  # entries that had been added with it
        self._n_removed: int | None = None  # entries removed from the stream when it was looked at
        self._fresh = start.mark is None
        self._before: tuple[_Id, int] | None = None  # up to where entries were read before
        if start.mark is not None:
            try:
                self._at, added = _id(start.mark["id"].encode()), start.mark["added"]
                self.added = None if added is None else int(added)
                if "to" in start.mark:
                    self._before = _id(start.mark["to"].encode()), int(start.mark["crc"])
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise StateError(f"the bookmark of {name} is damaged ({error!r})") from None

    def messages(self, until_end: bool) -> Generator[Messages, None, None]:
        """Read from the position on."""
        state, entries = self._met(FIRST)
        end = state.last if until_end else None
        n = FIRST
        while True:
            if end is not None:
                entries = [entry for entry in entries if _id(entry[0]) <= end]
            if entries:
                values = [_value(fields) for _, fields in entries]
                messages = self._together(entries, values, len(entries) < n)
                n = portion(len(values), sum(map(len, values)))
                yield messages
            elif end is not None:
                return
            else:
                self._wait()
                yield NOTHING
            state, entries = yield from self._looked(n)

    def _looked(self, n: int) -> Generator[Messages, None, tuple[_State, list[_Entry]]]:
        """The state of the stream and its next entries; while there is no server, wait."""
        while True:
            try:
                return self._look(n)
            except (self._redis.ConnectionError, self._redis.TimeoutError):
                time.sleep(WAIT)
                yield NOTHING

    def _met(self, n: int) -> tuple[_State, list[_Entry]]:
        """The same; a server that does not answer at all is an error."""
        deadline = time.monotonic() + START
        while True:
            try:
                return self._look(n)
            except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise InputError(f"no server answers ({error})", self._name) from None
                time.sleep(WAIT)

    def _look(self, n: int) -> tuple[_State, list[_Entry]]:
        """The state of the stream and its next entries, at one moment."""
        asked = self._client.pipeline(transaction=True)
        asked.xinfo_stream(self._key)
        asked.xread({self._key: _shown(self._at)}, count=n)
        with _plain_errors(self._redis, self._name):
            reply, found = asked.execute(raise_on_error=False)
            if isinstance(reply, self._redis.ResponseError):
                raise self._no_stream(str(reply))
            if isinstance(found, Exception):
                raise found
            first = reply["first-entry"]
            state = _State(
                reply["length"],
                None if first is None else _id(first[0]),
                _id(reply["last-generated-id"]),
                _id(reply.get("max-deleted-entry-id", b"0-0")),
                reply.get("entries-added"),
            )
            if self._fresh:
                self._begin(state)
            self._check(state)
            self._check_before()
        return state, found[0][1] if found else []

    def _begin(self, state: _State) -> None:
        """Begin with the first entry."""
        self._fresh = False
        if state.added is not None:
            self.added = state.added - state.length
        elif state.first is not None:
            self._at = _neighbour(state.first, -1)

    def _wait(self) -> None:
        """Wait until there may be a new entry."""
        try:
            with _plain_errors(self._redis, self._name):
                last = {self._key: _shown(self._at)}
                self._client.xread(last, count=1, block=int(1000 * WAIT))
        except (self._redis.ConnectionError, self._redis.TimeoutError):
            time.sleep(WAIT)

    def _check(self, state: _State) -> None:
        """Raise if entries were removed that were not read."""
        if state.last < self._at:
            what = f"its last id is {_shown(state.last)}, and it was read up to {_shown(self._at)}"
            raise self._lost(f"{what}: the server has lost entries, or the key was made anew")
        if self.added is None or state.added is None:
            self._check_first(state.first)
        elif self._n_removed != state.added - state.length:
            n_present = self._n_behind(state)
            n_lost = state.added - self.added - n_present
            if n_lost > 0:
                what = "1 entry" if n_lost == 1 else f"{n_lost:,} entries"
                what += f" after id {_shown(self._at)}"
                if n_present and n_present == state.length:
                    what += f" and before {_shown(state.first or self._at)}"
                is_gone = "is gone, and was" if n_lost == 1 else "are gone, and were"
                raise self._lost(f"{what} {is_gone} not read")
            if n_lost < 0:
                what = f"it has had {state.added:,} entries in all, and {self.added:,} were read"
                raise self._lost(f"{what}: the server has lost entries, or the key was made anew")
            self._n_removed = state.added - state.length

    def _check_before(self) -> None:
        """Raise if entries that were read before, and are read again, are not what they were."""
        if self._before is not None:
            to, crc = self._before
            found = self._client.xrange(self._key, "(" + _shown(self._at), _shown(to))
            if _crc(found) != crc:
                what = f"entries after id {_shown(self._at)} up to {_shown(to)} were read"
                raise self._lost(f"{what}, and some are gone, or the key was made anew")
            self._before = None

    def _check_first(self, first: _Id | None) -> None:
        """The same, of a server before version 7, which does not count what was added."""
        if self._at > (0, 0) and first is not None and first > _neighbour(self._at, 1):
            what = f"it begins at id {_shown(first)}, and was read up to {_shown(self._at)}"
            raise self._lost(f"{what}: entries between may be gone")

    def _n_behind(self, state: _State) -> int:
        """How many entries are there that were not read yet."""
        if state.first is None or state.first > self._at:
            return state.length
        if state.deleted <= self._at:  # trimming takes the first; so nothing behind is gone
            return (state.added or 0) - (self.added or 0)
        n_found, at = 0, self._at
        while page := self._client.xrange(self._key, "(" + _shown(at), count=_PAGE):
            n_found, at = n_found + sum(_id(i) <= state.last for i, _ in page), _id(page[-1][0])
        return n_found

    def _together(self, entries: list[_Entry], values: list[bytes], short: bool) -> Messages:
        """Entries, with the places where they end."""
        n, line, begin, added = len(entries), self._line, self._at, self.added
        lines = np.arange(line + 1, line + n + 1)
        places = np.zeros((n, 4), dtype=np.uint64)
        places[:, 0] = lines
        places[:, 1:3] = [_id(at) for at, _ in entries]
        if added is not None:
            places[:, 3] = np.arange(added + 1, added + n + 1)
            self.added = added + n
        self._at, self._line = _id(entries[-1][0]), line + n

        def where(at: int) -> dict[str, str]:
            return {"id": entries[at][0].decode()}

        def start(at: int) -> Position:
            last = entries[at - 1][0].decode() if at else _shown(begin)
            mark = {"id": last, "added": None if added is None else added + at}
            mark |= {"to": entries[-1][0].decode(), "crc": _crc(entries[at:])}
            return Position(line=line + at, mark=mark)

        return Messages(values, lines, places, where, start, short)

    def _no_stream(self, reason: str) -> InputError:
        if "no such key" in reason and self._at > (0, 0):
            return self._lost(f"it is gone, and was read up to id {_shown(self._at)}")
        if "no such key" in reason:
            return InputError(f'there is no key "{self._key}"', self._name)
        if "WRONGTYPE" in reason:
            return InputError(f'the key "{self._key}" does not hold a stream', self._name)
        return InputError(reason, self._name)

    def _lost(self, what: str) -> InputError:
        return InputError(f'stream "{self._key}": {what}', self._name, "begin a new run")


class RedisSink:
    """Writes records to a stream, each with the fields ``id`` and ``data``, a JSON object."""

    def __init__(self, uri: str) -> None:
        self._redis = require("redis", "redis://", "redis")
        address, db, self._key = _address(uri)
        self._name = _name(address, db, self._key)
        self._client = _client(self._redis, address, db)
        self._records: list[dict[str, str]] = []
        self._try(self._client.ping, START)

    def write(self, record: Mapping[str, Json]) -> None:
        """Hand over a record; it may be on its way until :meth:`flush` returns."""
        data = json.dumps(record, ensure_ascii=False)
        self._records.append({"id": str(record["id"]), "data": data})
        if len(self._records) >= _PAGE:
            self.flush()

    def flush(self) -> None:
        """Wait until the server has all records."""
        if self._records:
            self._try(self._send, FLUSH)
            self._records = []

    def close(self) -> None:
        """Leave the server."""
        self._client.close()

    def _send(self) -> None:
        """Write all records; if the server goes away meanwhile, some may be written again."""
        adding = self._client.pipeline(transaction=False)
        for record in self._records:
            adding.xadd(self._key, record)
        adding.execute()

    def _try(self, action: Callable[[], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                with _plain_errors(self._redis, self._name):
                    action()
                return
            except (self._redis.ConnectionError, self._redis.TimeoutError) as error:
                if time.monotonic() > deadline:
                    raise InputError(f"no server answers ({error})", self._name) from None
                time.sleep(WAIT)


def _value(fields: Mapping[bytes, bytes]) -> bytes:
    """The JSON object in an entry: the value of its only field, or its fields."""
    if len(fields) == 1:
        (value,) = fields.values()
        if value.lstrip().startswith(b"{"):
            return value
    if not fields:  # redis-py gives none of an entry that was deleted while it was read
        return b"{}"
    text = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in fields.items()
    }
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _crc(entries: Sequence[tuple[bytes, Mapping[bytes, bytes]]]) -> int:
    """By which the same entries are known again."""
    crc = 0
    for name, fields in entries:
        crc = crc32(b"\0".join([name, *chain.from_iterable(fields.items())]), crc)
    return crc


def _id(text: bytes) -> _Id:
    at, _, number = text.partition(b"-")
    return int(at), int(number)


def _shown(entry: _Id) -> str:
    return f"{entry[0]}-{entry[1]}"


def _neighbour(entry: _Id, step: int) -> _Id:
    """The next id that could be, or with -1 the one before."""
    return divmod((entry[0] << 64) + entry[1] + step, 1 << 64)


def _address(uri: str) -> tuple[Address, int, str]:
    """The server, the number of the database, and the key."""
    address = read_address(uri, _FORM, 6379, ("db",))
    db, key = address.options.get("db"), address.path
    if db is None and (found := re.fullmatch(r"(\d+)/(.+)", key, re.DOTALL)):
        db, key = found.groups()
    if db is not None and not db.isdecimal():
        raise InputError(f'"{db}" is no number of a database', str(address))
    return address, int(db or 0), key


def _name(address: Address, db: int, key: str) -> str:
    return str(address._replace(path=key)) + (f"?db={db}" if db else "")


def _client(redis: ModuleType, address: Address, db: int, seconds: float = START) -> Any:
    if len(address.hosts) > 1:
        raise InputError("a stream of Redis is on one server", str(address), f"use {_FORM}")
    host, port = address.hosts[0]
    return redis.Redis(
        host,
        port,
        db,
        username=os.environ.get(REDIS_USERNAME),
        password=os.environ.get(REDIS_PASSWORD),
        ssl=address.scheme == "rediss",
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
        protocol=2,
    )


@contextmanager
def _plain_errors(redis: ModuleType, name: str) -> Iterator[None]:
    """Raise what a server refuses in one line; that there is none is left to the caller."""
    try:
        yield
    except (redis.AuthenticationError, redis.ResponseError) as error:
        is_about_rights = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
        who = f"{REDIS_USERNAME} and {REDIS_PASSWORD} say who asks"
        hint = who if isinstance(error, is_about_rights) else ""
        raise InputError(str(error), name, hint) from None
