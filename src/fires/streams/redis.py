"""Streams of Redis as streams of rows, and as a place to write records to."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import chain
from typing import Any
from zlib import crc32

from fires.columns.target import Target
from fires.core.errors import InputError, undamaged
from fires.core.optional import require
from fires.core.types import Json, JsonObject
from fires.streams import json_table as common
from fires.streams.base import Position
from fires.streams.json_table import NOTHING, as_block, portion, read_address, stream_from
from fires.streams.registry import REDIS_PASSWORD, REDIS_USERNAME
from fires.streams.table_stream import TableStream
from fires.streams.text import Block

_FORM = "redis://host:port/key"

_Id = tuple[int, int]
_Entry = tuple[bytes, dict[bytes, bytes]]


def from_redis(
    uri: str, target: str | Target | None = None, *, until_end: bool = False, **options: Any
) -> TableStream:
    """Make a stream of a Redis Stream.

    Each entry is a row. Its fields are the columns, as in ``XADD events * amount 3 label x``; or it
    has a single field, of any name, with a JSON object, whose keys are the columns.

    Entries are read from the first one, or from a bookmark. If the server goes down, the stream
    waits for it. Entries that are deleted before they are read are an error: see ``after``.

    User and password are taken from the environment variables ``FIRES_REDIS_USERNAME`` and
    ``FIRES_REDIS_PASSWORD``.

    Parameters
    ----------
    uri : str
        ``redis://host:port/key``, or ``rediss://`` for TLS. The default port is 6379.
        A database other than 0 is named before the key, ``redis://host/1/key``, or after it,
        ``redis://host/key?db=1``; so a key that begins like ``1/`` needs the second form.
    target : str, or Target
        The column to predict, as in :func:`fires.streams.from_file`.
    until_end : bool
        Whether the stream ends with the last entry that exists when reading begins. By default it
        waits for more indefinitely.
    **options
        The column options of :func:`fires.streams.from_file`: ``exclude``, ``holds``, ``columns``,
        ``categorical`` and so on; and ``after``, the ``bookmark()`` of an earlier stream of this
        key: reading continues after its last batch. If later entries were trimmed or deleted, or
        the server has lost them, an error names the ids.

    Returns
    -------
    TableStream
        The stream.

    Raises
    ------
    InputError
        With one line that says what is wrong.
    """
    return stream_from(partial(RedisReader, uri), target, until_end=until_end, **options)


class _Client:
    """Whoever asks for a stream."""

    def __init__(self, uri: str) -> None:
        self._redis = require("redis", "redis://", "redis")
        address = read_address(uri, _FORM, 6379, ("db",))
        db, key = address.options.get("db"), address.path
        if db is None and (found := re.fullmatch(r"(\d+)/(.+)", key, re.DOTALL)):
            db, key = found.groups()
        if db is not None and not db.isdecimal():
            raise InputError(f'"{db}" is not the number of a database', str(address))
        if len(address.hosts) > 1:
            raise InputError("a stream of Redis is on one server", str(address), f"use {_FORM}")
        self._address, self._db, self._key = address, int(db or 0), key
        self.name = str(address._replace(path=key)) + (f"?db={self._db}" if self._db else "")
        self._is_away = (self._redis.ConnectionError, self._redis.TimeoutError)

    def _connect(self, seconds: float) -> Any:
        """A connection that is given up after some seconds without an answer."""
        host, port = self._address.hosts[0]
        return self._redis.Redis(
            host,
            port,
            self._db,
            username=os.environ.get(REDIS_USERNAME),
            password=os.environ.get(REDIS_PASSWORD),
            ssl=self._address.scheme == "rediss",
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=self._redis.retry.Retry(self._redis.backoff.NoBackoff(), 0),
            protocol=2,
        )

    def _wait(self, deadline: float, error: Exception) -> None:
        """Wait for a server that is away, up to a moment."""
        if time.monotonic() > deadline:
            raise InputError(f"no server answers ({error})", self.name) from None
        time.sleep(common.WAIT)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Raise what a server refuses in one line; that there is none is left to the caller."""
        redis = self._redis
        try:
            yield
        except (redis.AuthenticationError, redis.ResponseError) as error:
            is_about_rights = (redis.AuthenticationError, redis.exceptions.NoPermissionError)
            who = f"set {REDIS_USERNAME} and {REDIS_PASSWORD}"
            hint = who if isinstance(error, is_about_rights) else ""
            raise InputError(str(error), self.name, hint) from None


class RedisReader(_Client):
    """Reads the entries of a stream in order.

    The ``mark`` of a position is the id of the last entry, and how many entries had been added to
    the stream with it. By the second it is found out whether later ones were deleted. Entries that
    are to be read again are known again by a checksum.
    """

    unit = "entry"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._line = 0
        self._at: _Id = (0, 0)  # the last id that was read
        self._added = 0  # entries that had been added with it
        self._n_removed: int | None = None  # entries removed from the stream when it was looked at
        self._fresh = True  # the stream was not looked at yet
        self._before: tuple[_Id, int] | None = None  # up to where entries were read before
        self._client: Any = None

    def lag(self) -> int | None:
        """How many entries are there that were not read yet."""
        with suppress(self._redis.RedisError), closing(self._connect(common.ASK)) as client:
            added = int(client.xinfo_stream(self._key)["entries-added"])
            return None if self._fresh else added - self._added
        return None

    def _begin(self, start: Position) -> None:
        self._line, self._fresh = start.line, start.mark is None
        if start.mark is not None:
            with undamaged(f"the bookmark of {self.name} is"):
                self._at, self._added = _id(start.mark["id"].encode()), int(start.mark["added"])
                if "to" in start.mark:
                    self._before = _id(start.mark["to"].encode()), int(start.mark["crc"])

    def messages(self, start: Position, until_end: bool, sample: bool) -> Generator[Block]:
        """Read from a position on; a server that was there once is waited for."""
        self._begin(start)
        n, deadline = common.FIRST, time.monotonic() + common.START
        end: _Id | None = None
        with closing(self._connect(common.START)) as self._client:
            while True:
                try:
                    with self._plain_errors():
                        newest, entries = self._look(n)
                        if not entries and not until_end:  # wait until there may be one
                            last = {self._key: _shown(self._at)}
                            self._client.xread(last, count=1, block=int(1000 * common.WAIT))
                except self._is_away as error:
                    self._wait(deadline, error)
                    yield NOTHING
                    continue
                deadline = math.inf
                if until_end:
                    end = end or newest
                    entries = [entry for entry in entries if _id(entry[0]) <= end]
                    if not entries:
                        return
                if entries:
                    values = [_value(fields) for _, fields in entries]
                    messages = self._together(entries, values, len(entries) < n)
                    n = portion(len(values), sum(map(len, values)))
                    yield messages
                else:
                    yield NOTHING

    def _look(self, n: int) -> tuple[_Id, list[_Entry]]:
        """The last id that was ever added, and the next entries, at one moment."""
        asked = self._client.pipeline(transaction=True)
        asked.xinfo_stream(self._key)
        asked.xread({self._key: _shown(self._at)}, count=n)
        reply, found = asked.execute(raise_on_error=False)
        if isinstance(reply, self._redis.ResponseError):
            raise self._no_stream(str(reply))
        if isinstance(found, Exception):
            raise found
        if "entries-added" not in reply:
            raise InputError("the server is older than Redis 7", self.name)
        if self._fresh:
            self._fresh, self._added = False, reply["entries-added"] - reply["length"]
        self._check(reply)
        self._check_before()
        return _id(reply["last-generated-id"]), found[0][1] if found else []

    def _check(self, reply: Mapping[str, Any]) -> None:
        """Raise if entries were removed that were not read."""
        length, added, at = reply["length"], reply["entries-added"], self._at
        last, first = _id(reply["last-generated-id"]), reply["first-entry"] or [b"0-0"]
        if last < at:
            what = f"its last id is {_shown(last)}, and it was read up to {_shown(at)}"
            raise self._lost(f"{what}: the server has lost entries, or the key was recreated")
        if self._n_removed == added - length:
            return
        n_present = length
        if length and _id(first[0]) <= at:
            n_present = added - self._added  # trimming takes the first; so nothing behind is gone
            if _id(reply["max-deleted-entry-id"]) > at:
                n_present = self._n_up_to(last)
        n_lost = added - self._added - n_present
        if n_lost > 0:
            what = "1 entry" if n_lost == 1 else f"{n_lost:,} entries"
            what += f" after id {_shown(at)}"
            if n_present and n_present == length:
                what += f" and before {first[0].decode()}"
            is_gone = "is gone, and was" if n_lost == 1 else "are gone, and were"
            raise self._lost(f"{what} {is_gone} not read")
        if n_lost < 0:
            what = f"it has had {added:,} entries in all, and {self._added:,} were read"
            raise self._lost(f"{what}: the server has lost entries, or the key was recreated")
        self._n_removed = added - length

    def _check_before(self) -> None:
        """Raise if entries that were read before, and are read again, are not what they were."""
        if self._before is not None:
            to, crc = self._before
            found = self._client.xrange(self._key, "(" + _shown(self._at), _shown(to))
            if _crc(found) != crc:
                what = f"entries after id {_shown(self._at)} up to {_shown(to)} were read"
                raise self._lost(f"{what}, and some are gone, or the key was recreated")
            self._before = None

    def _n_up_to(self, last: _Id) -> int:
        """How many entries are there that were not read yet, counted one by one."""
        n_found, at = 0, self._at
        while page := self._client.xrange(self._key, "(" + _shown(at), count=common.MOST):
            n_found, at = n_found + sum(_id(i) <= last for i, _ in page), _id(page[-1][0])
        return n_found

    def _together(self, entries: list[_Entry], values: list[bytes], short: bool) -> Block:
        """Entries, with the places where they end."""
        n, line, begin, added = len(entries), self._line, self._at, self._added
        self._at, self._line, self._added = _id(entries[-1][0]), line + n, added + n

        def where(at: int) -> dict[str, Json]:
            return {"id": entries[at][0].decode()}

        def mark(at: int) -> dict[str, Json]:
            last = entries[at][0].decode() if at >= 0 else _shown(begin)
            return {"id": last, "added": added + at + 1}

        def again(at: int) -> dict[str, Json]:
            return mark(at - 1) | {"to": entries[-1][0].decode(), "crc": _crc(entries[at:])}

        return as_block(values, line + 1, where, mark, again, short)

    def _no_stream(self, reason: str) -> InputError:
        if "no such key" in reason and self._at > (0, 0):
            return self._lost(f"it is gone, and was read up to id {_shown(self._at)}")
        if "no such key" in reason:
            reason = f'there is no key "{self._key}"'
        if "WRONGTYPE" in reason:
            reason = f'the key "{self._key}" does not hold a stream'
        return InputError(reason, self.name)

    def _lost(self, what: str) -> InputError:
        return InputError(f'stream "{self._key}": {what}', self.name, "start a new run")


class RedisSink(_Client):
    """Writes records to a stream, each with the fields ``id`` and ``data``, a JSON object."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._client = self._connect(common.START)
        self._records: list[dict[str, str]] = []
        self._try(self._client.ping, common.START)

    def write(self, record: JsonObject) -> None:
        """Hand over a record; it may be on its way until :meth:`flush` returns."""
        data = json.dumps(record, ensure_ascii=False)
        self._records.append({"id": str(record["id"]), "data": data})
        if len(self._records) >= common.MOST:
            self.flush()

    def flush(self) -> None:
        """Wait until the server has all records."""
        if self._records:
            self._try(self._send, common.FLUSH)
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
                with self._plain_errors():
                    action()
                return
            except self._is_away as error:
                self._wait(deadline, error)


def _value(fields: Mapping[bytes, bytes]) -> bytes:
    """The JSON object in an entry: the value of its only field, or its fields."""
    if len(fields) == 1:
        (value,) = fields.values()
        if value.lstrip().startswith(b"{"):
            return value
    # redis-py gives no fields of an entry that was deleted while it was read.
    text = {
        name.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for name, value in fields.items()
    }
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _crc(entries: Sequence[_Entry]) -> int:
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
