"""Topics of Kafka as streams of rows, and as a place to write records to."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from fires.columns.target import Target
from fires.core.errors import InputError, undamaged
from fires.core.optional import require
from fires.core.types import Json, JsonObject
from fires.streams import json_table as common
from fires.streams.base import Position
from fires.streams.json_table import NOTHING, as_block, portion, read_address, stream_from
from fires.streams.registry import KAFKA_CONFIG
from fires.streams.table_stream import TableStream
from fires.streams.text import Block

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, TopicPartition

_Settings = dict[str, Any]
_Row = tuple[int, int, bytes]  # partition, offset, value

_PATIENCE = 0.01  # seconds to wait for more, once there is one
_COMMIT_EVERY = 5.0
_MOST_PLACES = 1_000_000

_DEFAULTS: _Settings = {
    "group.id": "fires",
    "topic.metadata.refresh.interval.ms": 5_000,  # how soon a new partition is noticed
    "statistics.interval.ms": 5_000,
    "max.poll.interval.ms": 86_400_000,
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 10,
    "reconnect.backoff.max.ms": 1_000,
}
_FIXED: _Settings = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "allow.auto.create.topics": False,
}

_GONE = "start a new run, or keep messages for longer than a run may be stopped"
_ANEW = "start a new run; was the topic recreated, or compacted?"
_NEW = "its messages from offset 0 on were not read; start a new run to read all partitions"
_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # librdkafka tells of each attempt to reach a broker


def from_kafka(
    uri: str, target: str | Target | None = None, *, until_end: bool = False, **options: Any
) -> TableStream:
    """Make a stream of a Kafka topic, with a JSON object in each message.

    All partitions are read, from their first message or from a bookmark; uncommitted messages are
    not read. No consumer group is joined, since one state needs all messages. A tombstone (a key
    without a value) is neither a row nor an error. A message that is not a JSON object is rejected.

    Messages of one partition come in order, those of several as they arrive, each once. If a broker
    goes down, the stream waits for it. Lost messages are an error: see ``after``.

    Security, passwords and other librdkafka properties go into a file with one ``key=value`` per
    line, named by the environment variable ``FIRES_KAFKA_CONFIG``. With a ``group.id`` in it,
    offsets are committed regularly, for tools that show the lag.

    Parameters
    ----------
    uri : str
        ``kafka://host:port/topic``; separate several brokers by commas. The default port is 9092.
    target : str, or Target
        The column to predict, as in :func:`fires.streams.from_file`.
    until_end : bool
        Whether the stream ends with the last message that exists when reading begins. By default it
        waits for more indefinitely.
    **options
        The column options of :func:`fires.streams.from_file`: ``exclude``, ``holds``, ``columns``,
        ``categorical`` and so on; and ``after``, the ``bookmark()`` of an earlier stream of this
        topic: reading continues after its last batch. If that is impossible without a loss, because
        messages are gone or there is a new partition, an error names the partition and the
        offsets.

    Returns
    -------
    TableStream
        The stream.

    Raises
    ------
    InputError
        With one line that says what is wrong.
    """
    return stream_from(partial(KafkaReader, uri), target, until_end=until_end, **options)


class _Client:
    """Whoever asks for a topic, and what the brokers have complained of last."""

    def __init__(self, uri: str) -> None:
        self._kafka = require("confluent_kafka", "kafka://", "kafka")
        address = read_address(uri, "kafka://host:port/topic", 9092)
        self.name, self._topic, self._servers = str(address), address.path, address.servers
        self._trouble = ""

    def _connect(self, kind: str, defaults: _Settings, fixed: _Settings) -> Any:
        """Make a ``Consumer`` or ``Producer``, with the properties that the user has set."""
        fixed = {"bootstrap.servers": self._servers, "error_cb": self._note} | fixed
        try:
            return vars(self._kafka)[kind](defaults | _properties() | fixed, logger=_log)
        except self._kafka.KafkaException as error:
            hint = f"see the file that {KAFKA_CONFIG} names" if os.environ.get(KAFKA_CONFIG) else ""
            raise InputError(error.args[0].str(), self.name, hint) from None

    def _note(self, error: KafkaError) -> None:
        self._trouble = error.str()

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except self._kafka.KafkaException as error:
            reason = self._trouble or error.args[0].str()
            raise InputError(f"no broker answers ({reason})", self.name) from None


class KafkaReader(_Client):
    """Reads all partitions of a topic.

    The ``mark`` of a position is the next offset of each partition. What is read at once comes
    partition by partition; the position from which it is read again says also up to which offset,
    and has a checksum. So the same messages come again, in the same order.
    """

    unit = "message"

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._next: list[int] = []  # the offset of each partition that comes next
        self._line = 0  # messages before the next
        self._committed = time.monotonic()
        self._n_present = 0  # partitions that the brokers know of
        self._broken: InputError | None = None
        self._consumer: Any = None
        self._asker: Any = None
        self._asking = threading.Lock()

    def lag(self) -> int | None:
        """How many messages are there that were not read yet."""
        at = tuple(self._next)
        ends = [self._partition(p, self._kafka.OFFSET_END) for p in range(len(at))]
        with self._asking, suppress(InputError, self._kafka.KafkaException):
            if self._asker is None:  # a client of its own: the reader's may be closed meanwhile
                silent = {"log_level": 0, "statistics.interval.ms": 0}  # nobody hears it
                self._asker = self._connect("Consumer", _DEFAULTS, _FIXED | silent)
            found: list[int] = [
                part.offset for part in self._asker.offsets_for_times(ends, common.ASK)
            ]
            if min(found, default=-1) >= 0:
                return sum(max(end - next_, 0) for end, next_ in zip(found, at, strict=True))
        return None

    def messages(self, start: Position, until_end: bool, sample: bool) -> Generator[Block]:
        """Read from a position on."""
        fixed = _FIXED | {"stats_cb": self._count_partitions}
        with closing(self._connect("Consumer", _DEFAULTS, fixed)) as self._consumer:
            bounds = self._bounds()
            marks = self._checked(start.mark, bounds)
            self._next, self._line = [at for at, *_ in marks], start.line
            self._assign()
            if len(marks[0]) == 3:  # these were handed out before, in part
                yield from self._again([end for _, end, _ in marks], [crc for *_, crc in marks])
            n, most = common.FIRST, max(1, _MOST_PLACES // len(bounds))
            before: list[int] = []
            highs = [high for _, high in bounds]
            while sample and self._next not in (before, highs):  # a transaction may be open
                before = self._next.copy()  # as many offsets of each partition, whatever arrives
                share = n // len(bounds) + 1
                ends = [min(high, at + share) for at, high in zip(before, highs, strict=True)]
                is_last = ends == highs
                for block in self._again(ends):
                    if n_values := len(block.ends):
                        n = portion(n_values, len(block.data))
                    yield replace(block, short=is_last and n_values > 0)
            while not until_end or self._is_before(highs):
                begin = self._next.copy()
                rows = self._take(min(n, most), highs if until_end else None)
                if rows:
                    short = len(rows) < min(n, most)
                    n = portion(len(rows), sum(len(value) for *_, value in rows))
                    yield self._together(rows, begin, short)
                else:
                    yield NOTHING
                if self._broken is not None:
                    raise self._broken
                if self._n_present > len(bounds):
                    raise self._lost(len(bounds), "is new", _NEW)
                self._commit()

    def _is_before(self, ends: list[int]) -> bool:
        return any(at < end for at, end in zip(self._next, ends, strict=True))

    def _bounds(self) -> list[tuple[int, int]]:
        """The first offset of each partition, and the one behind its last."""
        with self._reached():
            topic = self._consumer.list_topics(self._topic, common.START).topics[self._topic]
            if topic.error is None:
                return [self._bounds_of(p) for p in sorted(topic.partitions)]
        unknown = topic.error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
        reason = f'there is no topic "{self._topic}"' if unknown else topic.error.str()
        raise InputError(reason, self.name)

    def _bounds_of(self, p: int) -> tuple[int, int]:
        low, high = self._consumer.get_watermark_offsets(self._partition(p), common.START)
        return low, high

    def _checked(self, mark: Any, bounds: list[tuple[int, int]]) -> list[list[int]]:
        """Where to begin in each partition and, if these were read before, where that ended."""
        if mark is None:
            return [[low] for low, _ in bounds]
        with undamaged(f"the bookmark of {self.name} is"):
            marks = {int(p): list(at) if isinstance(at, list) else [at] for p, at in mark.items()}
            if not all(type(offset) is int for at in marks.values() for offset in at):
                raise TypeError(mark)
        for p in range(len(bounds)):
            if p not in marks:
                raise self._lost(p, "is new", _NEW)
        for p, (at, *rest) in sorted(marks.items()):
            if p >= len(bounds):
                raise self._lost(p, f"is gone; {at:,} was its next offset", _ANEW)
            for offset in (at, *rest[:1]):
                self._check_offset(p, offset, *bounds[p])
        return [marks[p] for p in range(len(bounds))]

    def _check_offset(self, p: int, at: int, low: int, high: int) -> None:
        if at < low:
            what = f"offsets {at:,} to {low - 1:,} are gone; it begins at {low:,} now"
            raise self._lost(p, what)
        if at > high:
            what = f"ends before offset {high:,}, and was read up to offset {at - 1:,}"
            raise self._lost(p, what, _ANEW)

    def _lost(self, p: int, what: str, hint: str = _GONE) -> InputError:
        return InputError(f'partition {p} of topic "{self._topic}": {what}', self.name, hint)

    def _again(self, ends: list[int], crcs: Sequence[int] | None = None) -> Generator[Block]:
        """Read up to some offsets, partition by partition; if known, by these checksums."""
        begin, ends = self._next.copy(), ends.copy()
        rows: list[_Row] = []
        while self._is_before(ends):
            taken = self._take(common.MOST, ends)
            rows += taken
            if self._broken is not None:
                raise self._broken
            if not taken:
                yield NOTHING
        rows.sort(key=itemgetter(0))
        for p, found in enumerate(_crcs(rows, len(ends)) if crcs is not None else ()):
            if crcs is not None and crcs[p] != found:
                what = f"offsets {begin[p]:,} to {ends[p] - 1:,} were read, and are not what they"
                raise self._lost(p, f"{what} were: messages are gone", _ANEW)
        if rows:
            yield self._together(rows, begin, True)
        self._next = ends
        self._assign()

    def _take(self, n: int, ends: list[int] | None) -> list[_Row]:
        """Messages that are there, without those at or behind ``ends``, partition by partition."""
        first = self._consumer.poll(common.WAIT)
        if first is None:
            return []
        rows = []
        more = self._consumer.consume(n - 1, _PATIENCE) if n > 1 else []
        for message in [first, *more]:
            if message.error() is not None:
                self._heed(message, ends)
                continue
            p, offset, value = message.partition(), message.offset(), message.value()
            if ends is not None and offset >= ends[p]:
                self._next[p] = ends[p]
                continue
            self._next[p] = offset + 1
            if value is not None:
                rows.append((p, offset, value))
        rows.sort(key=itemgetter(0))
        return rows

    def _heed(self, message: Any, ends: list[int] | None) -> None:
        """What is no message: the end of a partition for now, or an error."""
        error, p, offset = message.error(), message.partition(), message.offset()
        if error.code() == self._kafka.KafkaError._PARTITION_EOF:
            # What lies between, such as the marks of transactions, is never handed out.
            self._next[p] = max(self._next[p], offset)
            if ends is not None:
                ends[p] = min(ends[p], offset)
        elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
            self._broken = self._lost(p, f"offset {self._next[p]:,} cannot be read: {error.str()}")
            try:
                self._check_offset(p, self._next[p], *self._bounds_of(p))
            except InputError as gap:
                self._broken = gap
            except self._kafka.KafkaException:
                pass
        elif not error.retriable():
            self._broken = self._lost(p, error.str())

    def _together(self, rows: list[_Row], begin: list[int], short: bool) -> Block:
        """Messages, partition by partition, with the places where they end."""
        n_rows, n_partitions = len(rows), len(begin)
        partitions, offsets = (
            np.fromiter(map(itemgetter(i), rows), np.int64, n_rows) for i in (0, 1)
        )
        nexts = np.empty((n_rows + 1, n_partitions), dtype=np.int64)  # of each partition
        nexts[0], first = begin, self._line + 1
        self._line += n_rows
        for p, at in enumerate(begin):
            nexts[1:, p] = np.maximum.accumulate(np.where(partitions == p, offsets + 1, at))

        def where(at: int) -> dict[str, Json]:
            return {"partition": rows[at][0], "offset": rows[at][1]}

        def mark(at: int) -> dict[str, Json]:
            return {str(p): offset for p, offset in enumerate(nexts[at + 1].tolist())}

        def again(at: int) -> dict[str, Json]:
            crcs = _crcs(rows[at:], n_partitions)
            marks = zip(nexts[at].tolist(), nexts[-1].tolist(), crcs, strict=True)
            return {str(p): list(mark) for p, mark in enumerate(marks)}

        return as_block([row[2] for row in rows], first, where, mark, again, short)

    def _assign(self) -> None:
        self._consumer.assign([self._partition(p, at) for p, at in enumerate(self._next)])

    def _partition(self, p: int, *offset: int) -> TopicPartition:
        partition: TopicPartition = self._kafka.TopicPartition(self._topic, p, *offset)
        return partition

    def _commit(self) -> None:
        """Let others know how far we are, now and then."""
        if time.monotonic() - self._committed >= _COMMIT_EVERY:
            self._committed = time.monotonic()
            if "group.id" in _properties():
                offsets = [self._partition(p, at) for p, at in enumerate(self._next)]
                self._consumer.commit(offsets=offsets, asynchronous=True)

    def _count_partitions(self, statistics: str) -> None:
        """Called from time to time with what librdkafka knows, also of what is not read."""
        topic = json.loads(statistics).get("topics", {}).get(self._topic, {})
        self._n_present = sum(int(p) >= 0 for p in topic.get("partitions", ()))


class KafkaSink(_Client):
    """Writes records to a topic, each as a JSON object under its ``id`` as a key."""

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self._refused = ""
        defaults = {"message.timeout.ms": int(common.FLUSH * 1000)}
        self._producer = self._connect("Producer", defaults, {"enable.idempotence": True})
        with self._reached():
            self._producer.list_topics(self._topic, common.START)

    def write(self, record: JsonObject) -> None:
        """Hand over a record; it may be on its way until :meth:`flush` returns."""
        value, key = json.dumps(record, ensure_ascii=False).encode(), str(record["id"])
        deadline = time.monotonic() + common.FLUSH
        while True:
            try:
                self._producer.produce(self._topic, value, key, on_delivery=self._delivered)
                self._producer.poll(0)
                return
            except BufferError:  # too many are on their way
                self._producer.poll(common.WAIT)
                if time.monotonic() > deadline:
                    raise InputError("the broker takes no more records", self.name) from None

    def flush(self) -> None:
        """Wait until the broker has all records."""
        n_left = self._producer.flush(common.FLUSH)
        if self._refused or n_left:
            reason, self._refused = self._refused or self._trouble or "no answer", ""
            raise InputError(f"records could not be written: {reason}", self.name)

    def close(self) -> None:
        """Leave the broker."""
        self._producer.flush(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = error.str()


def _crcs(rows: Sequence[_Row], n_partitions: int) -> list[int]:
    """By which the messages of each partition are known again."""
    crcs = [0] * n_partitions
    for p, _, value in rows:
        crcs[p] = crc32(value, crcs[p])
    return crcs


def _properties() -> _Settings:
    """What the file says that the environment names; no message quotes it, for the secrets."""
    path = os.environ.get(KAFKA_CONFIG)
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text"
        raise InputError(f"{KAFKA_CONFIG} names {path}, which cannot be read: {reason}") from None
    found = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if line and line[0] not in "#!":
            key, equals, value = line.partition("=")
            if not equals:
                raise InputError("not of the form key=value", f"{path}, line {number}")
            found[key.strip()] = value.strip()
    return found
