"""Text is unpacked, decoded to UTF-8, cut into blocks that end where a record ends, and parsed.

A record usually is a line, but a quoted field may hold line ends. Where quotes stand as they
should, the parity of their count tells which line ends count, and NumPy finds them; a piece
where they do not is walked record by record with the csv module, whose reading of odd quotes
is the reference. Both give the same records, whatever the size of the blocks.

The tables are CSV, TSV and the like; and ARFF, whose header says what each column holds.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from abc import abstractmethod
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, count
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.kinds import MISSING, tidy
from fires.core.errors import InputError
from fires.core.types import Ints as Ints
from fires.core.types import NamedRows
from fires.core.validation import LARGEST
from fires.streams import byte_sources
from fires.streams.base import Position
from fires.streams.byte_sources import Damaged, Follow
from fires.streams.table import Chunk, Chunks, Fault, Kinds, Table, moved, of_rows, read_ahead

MAX_LINE = 64 << 20  # a longer line is no table
MAX_RECORD = 1 << 20  # a record of several lines that is longer has a quote that nobody closed
BLOCK = 8 << 20  # bytes parsed at once: smaller blocks cost speed, greater ones only memory
PIECE = BLOCK // 16  # bytes read row by row at once, where that is necessary
WIDE = 5000  # tables of more columns come in blocks of one size: each costs something per column
_WIDE_BLOCK = BLOCK // 4
PATIENCE = 0.1  # seconds that lines are held back in all, while more may come to be parsed too

NOT_UTF8 = "not UTF-8 text"
UNCLOSED = "a quote is opened and not closed"
UNQUOTED = "there is text between a closing quote and the end of its field"
RETURN = "a carriage return within the line"
_CSV_ERRORS = {"new-line character": RETURN, "unexpected end of data": UNCLOSED}

_QUOTE, _NEWLINE, _RETURN = b'"\n\r'
_CSV_LIMIT = Lock()  # the csv module has one limit for all threads

Read: TypeAlias = Callable[[int], bytes | None]
Ready: TypeAlias = Callable[[float], bool]


@contextmanager
def long_fields() -> Iterator[None]:
    """Let the csv module read fields of any length."""
    with _CSV_LIMIT:
        former = csv.field_size_limit(MAX_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(former)


def is_utf8(data: bytes) -> bool:
    r"""Whether bytes are UTF-8 text.

    Examples
    --------
    >>> is_utf8("größer".encode()), is_utf8(b"gr\xf6\xdfer")
    (True, False)
    """
    try:
        _ = data.isascii() or data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Block:
    """Whole records of a text."""

    data: bytes
    ends: Ints
    lines: Ints
    regular: bool
    short: bool = False
    end: Callable[[int], Position] = lambda number: Position()  # behind a record, in the source
    shown: Callable[[int], Fault] | None = None  # what is told of a record, if not what it says
    again: Callable[[int], Position] | None = None  # from where a record is read again

    def record(self, number: int) -> bytes:
        """One record as it stands in the source."""
        offset = int(self.ends[-1]) - len(self.data)
        start = int(self.ends[number - 1]) - offset if number else 0
        return self.data[start : int(self.ends[number]) - offset]

    def fault(self, number: int, reason: str = "") -> Fault:
        """A record that cannot be used."""
        if self.shown is not None:
            return self.shown(number)._replace(reason=reason)
        text = self.record(number).decode("utf-8", "backslashreplace").rstrip("\r\n")
        return Fault(int(self.lines[number]), reason, text)

    def halves(self) -> Iterator[Block]:
        """The block in two."""
        n, middle, start = len(self.ends), len(self.ends) // 2, 0
        for rows in (range(middle), range(middle, n)):
            size = int(self.ends[rows[-1]] - self.ends[-1]) + len(self.data) - start
            data, start = self.data[start : start + size], start + size
            ends, lines = self.ends[rows[0] : rows[-1] + 1], self.lines[rows[0] : rows[-1] + 2]
            end, shown = of_rows(self.end, rows), of_rows(self.fault, rows)
            again = self.again and of_rows(self.again, rows)
            yield Block(data, ends, lines, False, self.short, end, shown, again)


def always(seconds: float) -> bool:
    """Tell that a source never keeps the reader waiting."""
    return True


def fill(read: Read, ready: Ready, size: int) -> tuple[list[bytes], bool]:
    r"""Read ``size`` bytes in pieces; fewer at the end, or where more would not come soon.

    Examples
    --------
    >>> text = io.BytesIO(b"1,2\n3,4\n")
    >>> fill(text.read, always, 5), fill(text.read, always, 5)
    (([b'1,2\n3'], False), ([b',4\n'], True))
    """
    pieces: list[bytes] = []
    timeout, has_line = PATIENCE, False
    while size > 0:
        try:
            data = read(size)
        except (Damaged, OSError):  # the next call meets it again
            if not pieces:
                raise
            break
        if data is None:
            break
        if not data:
            return pieces, True
        pieces.append(data)
        size -= len(data)
        has_line = has_line or b"\n" in data
        if size > 0 and has_line:
            began = monotonic()
            if not ready(timeout):
                break
            timeout = max(timeout + began - monotonic(), 0.0)
    return pieces, False


class Lines:
    r"""A text whose records are lines, cut into blocks of at most about ``size`` bytes.

    Examples
    --------
    >>> text = io.BytesIO(b"one\ntwo\nthree")
    >>> [(block.data, block.lines) for block in Lines(9).blocks(text.read)]
    [(b'one\ntwo\n', array([1, 2, 3])), (b'three', array([3, 4]))]
    """

    def __init__(self, size: int = BLOCK, first: int = PIECE) -> None:
        self._size, self._first = size, min(first, size)

    def ends(self, buffer: bytes, newlines: Ints, final: bool) -> tuple[Ints, bool]:
        """Where records end, and whether a parser may perhaps take them whole."""
        return newlines + 1, True

    def blocks(
        self, read: Read, ready: Ready = always, offset: int = 0, line: int = 0
    ) -> Iterator[Block]:
        """Cut what ``read`` gives where records end."""
        rest, final, size = b"", False, self._first
        while not final or rest:
            pieces, short = [rest], False
            if not final:
                wanted = size - len(rest)
                more, final = fill(read, ready, wanted)
                if not more and not final and wanted > 0:  # nothing for now: the caller's turn
                    nothing = np.empty(0, np.int64)
                    yield Block(b"", nothing, np.array([line + 1]), regular=False, short=True)
                    continue
                pieces += more
                short = not final and sum(map(len, pieces)) < size
            buffer, rest = (b"".join(pieces), b"") if final else _whole_lines(pieces)
            if not buffer and len(rest) > MAX_LINE:
                raise InputError(f"line {line + 1} is longer than {MAX_LINE >> 20} MB: not a table")
            newlines = _line_ends(buffer)
            ends, regular = self.ends(buffer, newlines, final)
            if len(ends) == 0:  # the buffer ends within its first record
                rest = buffer + rest
                size = len(rest) + self._size
                continue
            # A block with a fault costs little if it is small; then the blocks grow again.
            size = min(2 * size if regular else PIECE, self._size)
            stop = int(ends[-1])
            lines = line + 1 + np.searchsorted(newlines, np.concatenate([[0], ends]))
            yield Block(buffer[:stop], offset + ends, lines, regular, short)
            line = int(lines[-1]) - 1
            offset += stop
            rest = buffer[stop:] + rest


class Records(Lines):
    r"""A text whose records are fields, which may be quoted and hold line ends then.

    Examples
    --------
    >>> text = io.BytesIO(b'1,"two\nlines"\n3,four')
    >>> [(block.data, block.lines) for block in Records(",", 2, size=16).blocks(text.read)]
    [(b'1,"two\nlines"\n', array([1, 3])), (b'3,four', array([3, 4]))]
    """

    def __init__(
        self, delimiter: str, width: int, comment: str | None = None, size: int = BLOCK
    ) -> None:
        wide = width > WIDE
        super().__init__(min(size, _WIDE_BLOCK) if wide else size, _WIDE_BLOCK if wide else PIECE)
        self._delimiter, self._width, self._comment = delimiter, width, comment

    def ends(self, buffer: bytes, newlines: Ints, final: bool) -> tuple[Ints, bool]:
        """Where records end: by the parity of quotes or, where that fails, by the csv module."""
        ends, regular = self._regular_ends(buffer, newlines)
        if ends is None or (len(ends) == 0 and (final or len(buffer) > MAX_RECORD)):
            found = self.walk(buffer[: newlines[-1] + 1], final=final) if len(newlines) else []
            last_lines = np.cumsum([n_lines for n_lines, _ in found], dtype=np.int64) - 1
            ends = newlines[last_lines] + 1
        return ends, regular

    def looks_regular(self, data: bytes, n_records: int) -> bool:
        """Tell whether a parser may perhaps take a piece of a text whole."""
        ends, regular = self._regular_ends(data, _line_ends(data))
        return regular and ends is not None and len(ends) == n_records

    def _regular_ends(self, buffer: bytes, newlines: Ints) -> tuple[Ints | None, bool]:
        """Where records end, by the parity of quotes, and whether the records look regular.

        None if the quotes are not in order, so that their parity says nothing, or there may be
        comments, which may hold quotes or stand within them.
        """
        mark = (self._comment or "").encode()
        if mark and (b"\n" + mark in buffer or buffer.startswith(mark)):
            return None, False
        text = np.frombuffer(buffer, np.uint8)
        separator, width = ord(self._delimiter), self._width
        quoted = b'"' in buffer
        stop = int(newlines[-1]) + 1 if len(newlines) else 0
        if b"\r" in buffer:
            returns = _find(text[: stop - 1], _RETURN) if stop else newlines
            if (text[returns + 1] != _NEWLINE).any():
                return (None if quoted else newlines + 1), False
        if not quoted:
            n_separators = int(np.count_nonzero(text[:stop] == separator))
            # A parser may take a last, empty field for none, if there is no newline behind it.
            ended = stop == 0 or text[stop - 1] != separator
            return newlines + 1, ended and n_separators == len(newlines) * (width - 1)
        quotes = _find(text, _QUOTE)
        ends = newlines[np.searchsorted(quotes, newlines, side="right") % 2 == 0] + 1
        if len(ends) == 0:
            return ends, False
        stop = int(ends[-1])
        quotes = quotes[: np.searchsorted(quotes, stop)]
        opening, closing = quotes[0::2], quotes[1::2]
        # The first byte starts a record, and a quote that is the last byte ends one.
        before = np.where(opening > 0, text[opening - 1], _NEWLINE)
        after = text[np.minimum(closing + 1, stop - 1)]
        marks = [_QUOTE, _NEWLINE, separator]
        if not (np.isin(before, marks).all() and np.isin(after, [*marks, _RETURN]).all()):
            return None, False
        separators = _find(text[:stop], separator)
        separators = separators[np.searchsorted(quotes, separators) % 2 == 0]
        regular = bool((np.diff(np.searchsorted(separators, ends), prepend=0) == width - 1).all())
        several_lines = len(ends) < np.searchsorted(newlines, stop)
        if several_lines and (not regular or np.diff(ends, prepend=0).max() > MAX_RECORD):
            return None, False
        return ends, regular

    @long_fields()
    def walk(self, data: bytes, *, final: bool = True) -> list[tuple[int, list[str] | str]]:
        r"""Read whole lines record by record: how many lines each has, and its fields or its fault.

        A record of several lines that is wrong is not lost whole: its first line is, and reading
        goes on with the second, since a quote too many is the likely reason.

        Examples
        --------
        >>> Records(",", 2).walk(b'1,2\n3,"4\n5,6\n7\n')
        [(1, ['1', '2']), (1, 'a quote is opened and not closed'), (1, ['5', '6']),
         (1, '1 field, the header has 2')]
        """
        lines = list(io.StringIO(data.decode("utf-8", "surrogateescape"), newline="\n"))
        decoded = is_utf8(data)
        records: list[tuple[int, list[str] | str]] = []
        at = 0
        while at < len(lines):
            if self._is_comment(lines, at):
                records.append((1, []))
                at += 1
                continue
            start, feed = at, map(lines.__getitem__, range(at, len(lines)))
            reader = csv.reader(feed, delimiter=self._delimiter, strict=True)
            while not self._is_comment(lines, at):
                try:
                    row, fault = next(reader), ""
                    if len(row) == 1 and not row[0].strip():  # blank
                        row.clear()
                    if row and len(row) != self._width:
                        fields = f"{len(row)} field{'s' * (len(row) > 1)}"
                        fault = f"{fields}, the header has {self._width}"
                except StopIteration:
                    return records
                except csv.Error as error:
                    whys = (why for words, why in _CSV_ERRORS.items() if words in str(error))
                    row, fault = [], next(whys, UNQUOTED)
                n_lines = start + reader.line_num - at
                if n_lines > 1 or fault == UNCLOSED:
                    text = "".join(lines[at : at + n_lines])
                    too_long = len(text.encode("utf-8", "surrogateescape")) > MAX_RECORD
                    if fault == UNCLOSED and not final and not too_long:
                        return records
                    if fault or too_long:
                        records.append((1, UNCLOSED))
                        at += 1
                        break
                if not decoded and not is_utf8("".join(row).encode("utf-8", "surrogateescape")):
                    fault = NOT_UTF8
                records.append((n_lines, fault or row))
                at += n_lines
        return records

    def _is_comment(self, lines: list[str], at: int) -> bool:
        comment = self._comment
        return comment is not None and at < len(lines) and lines[at].startswith(comment)


def _whole_lines(pieces: list[bytes]) -> tuple[bytes, bytes]:
    """Join pieces of a text, and cut it behind its last newline; nothing is copied twice."""
    for i in reversed(range(len(pieces))):
        if stop := pieces[i].rfind(b"\n") + 1:
            last = memoryview(pieces[i])
            return b"".join([*pieces[:i], last[:stop]]), b"".join([last[stop:], *pieces[i + 1 :]])
    return b"", b"".join(pieces)


def _line_ends(data: bytes) -> Ints:
    """Where lines end; the end of the data ends the last one, with or without a newline."""
    newlines = _find(np.frombuffer(data, np.uint8), _NEWLINE)
    if data and not data.endswith(b"\n"):
        newlines = np.append(newlines, len(data) - 1)
    return newlines


def _find(text: npt.NDArray[np.uint8], byte: int) -> Ints:
    """All places of a byte."""
    return np.flatnonzero(text == byte)


_MARK = "fires-mark"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
Parsed = tuple[pl.DataFrame, NamedRows | None]  # with many columns, numbers stand apart


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """Put a byte that is not UTF-8 where there was no text: its record is set aside for it."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return b"\xff", error.end


codecs.register_error(_MARK, _mark)


def decoded(pieces: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """A text in UTF-8, whatever it was written in.

    Examples
    --------
    >>> b"".join(decoded(["süß".encode("latin-1")], "latin-1")).decode()
    'süß'
    """
    decoder = codecs.getincrementaldecoder(encoding)(errors=_MARK)
    for piece in pieces:
        yield decoder.decode(piece).encode("utf-8", _MARK)
    yield decoder.decode(b"", final=True).encode("utf-8", _MARK)


class Pieces:
    """A text that is made from a source in steps, wherever and however it is read.

    So how much of the source a place in the text needs does not depend on where reading began.
    """

    def __init__(self, pieces: Iterator[bytes], tell: Callable[[], int]) -> None:
        self._pieces, self._tell = pieces, tell
        self._rest = memoryview(b"")  # a piece may be large, and is not copied each time
        self._broken: Exception | None = None
        self._ends, self._used = [0], [0]

    def read(self, n: int) -> bytes:
        """Read on; at most n bytes, and none at the end. What is broken stays so."""
        if self._broken is not None:
            raise self._broken
        while not self._rest:
            self._rest = memoryview(b"")  # the last piece is not needed any more
            try:
                piece = next(self._pieces, None)
            except Exception as error:
                self._broken = error
                raise
            if piece is None:
                return b""
            self._rest = memoryview(piece)
            self._ends.append(self._ends[-1] + len(piece))
            self._used.append(self._tell())
        data, self._rest = self._rest[:n], self._rest[n:]
        return bytes(data)

    def used(self, ends: Ints) -> Ints:
        """How many bytes of the source the text up to some places needs. These must ascend."""
        first = bisect_left(self._ends, int(ends[0]))
        del self._ends[:first], self._used[:first]
        return np.array(self._used, np.int64)[np.searchsorted(self._ends, ends)]


class TextSource:
    """The text in a file or a pipe, from any place on."""

    def __init__(
        self, name: str, source: byte_sources.ByteSource, encoding: str | None = None
    ) -> None:
        self.name, self.source = name, source
        self._packing = byte_sources.kind_of(source.magic)
        self._plain, self._top, self._is_all = True, b"", False
        head, _ = self.top(lambda head: len(head) >= byte_sources.N_MAGIC)
        self._top, self._is_all = b"", False
        inner = "tar" if head[257:262] == b"ustar" else byte_sources.kind_of(head)
        if inner in byte_sources.ADVICE:
            raise InputError(f"{name} {byte_sources.ADVICE[inner]}")
        if inner != "text":
            raise InputError(f"{name} holds a file of type {inner}; unpack it first")
        marked = (found for mark, found in _MARKS.items() if head.startswith(mark))
        self.encoding = encoding or next(marked, "utf-8")
        self._plain = codecs.lookup(self.encoding).name == "utf-8"

    @property
    def is_direct(self) -> bool:
        """Whether the bytes of the source are those of the text."""
        return self._packing not in byte_sources.PACKINGS and self._plain

    @contextmanager
    def open(
        self, *, again: bool, offset: int = 0
    ) -> Iterator[tuple[Read, Callable[[Ints], Ints]]]:
        """Open the text; what comes besides says how many bytes of the source its places need."""
        with self.source.open(again) as file:
            if self.is_direct:
                file.seek(offset)
                yield file.read, lambda ends: ends
                return
            pieces = byte_sources.unpacked(file, self._packing)
            text = Pieces(pieces if self._plain else decoded(pieces, self.encoding), file.tell)
            byte_sources.skip(text.read, offset)
            yield text.read, text.used

    def blocks(self, cut: Lines, start: Position, *, again: bool) -> Generator[Block]:
        """Cut the text into blocks."""
        line = start.line
        try:
            with self.open(again=again, offset=start.offset) as (read, used):
                for block in cut.blocks(read, self.source.ready, start.offset, line):
                    line = int(block.lines[-1]) - 1
                    yield replace(block, end=partial(_position, block, used(block.ends)))
        except byte_sources.Damaged as error:
            raise InputError(f"{self.name} is damaged after line {line}: {error}") from error
        except OSError as error:
            why = error.strerror or error
            raise InputError(f"cannot read {self.name} after line {line}: {why}") from error

    def top(self, enough: Callable[[bytes], bool]) -> tuple[bytes, bool]:
        """The first bytes of the text, until they are enough; and whether they are all of it."""
        if not self._is_all and not enough(self._top):
            self._top = b""
            with self.open(again=True) as (read, _):
                while not self._is_all and not enough(self._top):
                    pieces, self._is_all = fill(read, self.source.ready, PIECE)
                    self._top = b"".join([self._top, *pieces])
        return self._top, self._is_all

    def first_line(self, comment: str) -> bytes:
        """The first line that is neither blank nor a comment."""

        def first(head: bytes) -> bytes:
            lines = head.removeprefix(codecs.BOM_UTF8).split(b"\n")
            found = (line for line in lines if line.strip() and not line.startswith(mark))
            return next(found, b"")

        def has_line(head: bytes) -> bool:
            return len(head) > PIECE or first(head[: head.rfind(b"\n") + 1]) != b""

        mark = comment.encode()
        return first(self.top(has_line)[0])


def _position(block: Block, used: Ints, number: int) -> Position:
    """Behind a record of a block; of the source, the records need so many bytes."""
    line = int(block.lines[number + 1]) - 1
    return Position(0, int(used[number]), int(block.ends[number]), line)


class BlockTable(Table):
    """A table in text: blocks are parsed whole or, where they are irregular, line by line."""

    is_open = False  # whether chunks have the columns that are there
    delimiter: str | None = None
    body = Position()  # where the first record begins

    def _read_from(self, text: TextSource, cut: Lines) -> None:
        """Say which text it is, and how it is cut."""
        self._text, self._cut = text, cut
        source = text.source
        self._follow = source if isinstance(source, Follow) else None
        self.name, self.n_bytes = text.name, source.n_bytes
        self.looks_after_marks = self._follow is not None
        self.files = None if self._follow else [source.identity]

    @abstractmethod
    def _fast(self, block: Block, kinds: Kinds) -> Parsed | None:
        """Parse a block whole; None if that cannot be done."""

    @abstractmethod
    def _records(self, block: Block, kinds: Kinds) -> Iterable[Any]:
        """Read a block record by record: a row, what is wrong with it, or None for a blank."""

    @abstractmethod
    def _frame(self, rows: list[Any], kinds: Kinds) -> pl.DataFrame:
        """Rows that were read one by one; all columns are text."""

    def _wanted(self, block: Block, kinds: Kinds) -> Kinds:
        """The columns to read: others too if columns may change."""
        return kinds

    def _looks_regular(self, data: bytes, n_records: int) -> bool:
        """Whether a piece of a block can be parsed whole perhaps."""
        return True

    def _as_parsed(self, block: Block) -> Block:
        """The block as it is parsed; for formats that are another one in other words."""
        return block

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the records in order; see :meth:`Table.chunks`."""
        start = self.body if start.offset == 0 and start.mark is None else start
        if self._follow is not None:
            self._follow.start_at(start)
            if n_rows is None:
                yield from self._followed(kinds, start, self._follow)
        yield from self._read(kinds, start, again=n_rows is not None)

    def _read(self, kinds: Kinds, start: Position, *, again: bool) -> Chunks:
        blocks = self._text.blocks(self._cut, start, again=again)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with byte_sources.plain_errors(self.name), closing(blocks):
            for block in blocks:
                yield from self._parsed(self._as_parsed(block), kinds)

    def _followed(self, kinds: Kinds, start: Position, file: Follow) -> Chunks:
        """Read a file that grows, and those that come behind it; there is no end."""
        if start.mark is None:
            start = replace(start, bytes=start.offset, mark=file.mark())
        while True:
            n_before = start.bytes - start.offset
            for chunk in self._read(kinds, start, again=False):
                end = partial(moved, chunk.end, n_before, mark=file.mark())
                yield replace(chunk, end=end, start=start)
                if len(chunk.lines):
                    start = end(len(chunk.lines) - 1)
            with byte_sources.plain_errors(self.name):
                start = file.go_on(n_before)

    def _parsed(self, block: Block, kinds: Kinds) -> Iterator[Chunk]:
        """Parse a block whole; if that fails, in pieces; and a small piece record by record."""
        wanted = self._wanted(block, kinds)
        found = self._fast(block, wanted) if len(block.ends) else None
        if found is None and len(block.data) > PIECE and len(block.ends) > 1:
            for half in block.halves():
                regular = self._looks_regular(half.data, len(half.ends))
                yield from self._parsed(replace(half, regular=regular), kinds)
            return
        good, faults = np.arange(len(block.ends)), list[Fault]()
        if found is None:
            rows = list(self._records(block, wanted))
            faults = [block.fault(i, row) for i, row in enumerate(rows) if isinstance(row, str)]
            is_row = [row is not None and not isinstance(row, str) for row in rows]
            good = np.flatnonzero(is_row)
            found = self._frame([*compress(rows, is_row)], wanted), None
        frame, numbers = found
        end, shown = of_rows(block.end, good), of_rows(block.fault, good)
        about = faults, block.short, numbers, shown, block.again and block.again(0), self.is_open
        yield Chunk(frame, block.lines[good], end, *about)


# --- fields between delimiters: CSV, TSV and the like ------------------------------------------


@dataclass(frozen=True)
class TextOptions:
    """How to read a text; what is None is found out.

    Examples
    --------
    >>> TextOptions(delimiter=";", encoding="latin-1").header
    True
    >>> TextOptions(encoding="klingon")
    Traceback (most recent call last):
    fires.core.errors.InputError: there is no encoding "klingon"; utf-8, utf-16 and cp1252 are some
    """

    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True
    comment: str | None = None
    block_size: int = BLOCK

    def __post_init__(self) -> None:
        delimiter, comment = self.delimiter, self.comment
        if delimiter is not None and (
            len(delimiter) != 1 or delimiter in '"\r\n\0' or delimiter > "~"
        ):
            raise InputError(f"{delimiter!r} cannot separate fields: one ASCII character can")
        if comment is not None and (not comment or set(comment) & set('"\r\n')):
            raise InputError(f"{comment!r} cannot begin a comment: a sign such as # can")
        if self.encoding is not None:
            try:
                codecs.getincrementaldecoder(self.encoding)
                b"a".decode(self.encoding, "replace")  # refuses what makes no text, such as hex
            except (LookupError, ValueError):
                message = f'there is no encoding "{self.encoding}"'
                raise InputError(message, hint="utf-8, utf-16 and cp1252 are some") from None


FOUND_OUT = TextOptions()  # the user says nothing
_HEAD_LINES = 100  # lines by which the delimiter is found


@dataclass(frozen=True)
class Header:
    """What the first lines of a text tell."""

    names: tuple[str, ...]
    delimiter: str
    n_bytes: int
    n_lines: int
    renamed: tuple[tuple[str, str], ...] = ()


def read_header(
    head: bytes, source: str, options: TextOptions = FOUND_OUT, *, is_all: bool = True
) -> Header:
    r"""Read the names of the columns, and find out what separates them.

    Blanks around a name do not count; a column without a name is called after its number, and a
    name that stands there again gets a number. The line ``sep=;`` of a spreadsheet before the
    header tells the delimiter.

    Examples
    --------
    >>> read_header(b"id; size;\n1;2;3\n", "x.csv")
    Header(names=('id', 'size', 'column_3'), delimiter=';', n_bytes=10, n_lines=1, renamed=())
    """
    mark = head[: 3 * head.startswith(b"\xef\xbb\xbf")]
    lines = list(io.StringIO(head[len(mark) :].decode("utf-8", "surrogateescape"), newline="\n"))
    if not is_all and not lines[-1].endswith("\n"):
        lines.pop()
    n_before, comment = 0, options.comment or "\n"
    if found := re.fullmatch(r"sep=(.)[;,\t|]*\r?\n?", lines[0] if lines else "", re.IGNORECASE):
        options = replace(options, delimiter=options.delimiter or found[1])
        n_before = 1
    for line in lines[n_before:]:
        if line.strip() and not line.startswith(comment):
            break
        n_before += 1
    shown = [line for line in lines[n_before:][:_HEAD_LINES] if not line.startswith(comment)]
    delimiter = options.delimiter or sniff(shown, source)
    with long_fields():
        reader = csv.reader(lines[n_before:], delimiter=delimiter or ",")
        try:
            names = next((row for row in reader if any(map(str.strip, row))), None)
        except csv.Error:
            raise InputError(f"{source} has a carriage return within its first line") from None
    if names is None:
        raise InputError(f"{source} is empty")
    n_lines = n_before + reader.line_num
    text = "".join(lines[:n_lines]).encode(errors="surrogateescape")
    if not is_utf8(text) or b"\0" in text:
        raise not_text(source, n_lines)
    if delimiter is None:
        raise InputError(
            f"cannot find columns in {source}: no comma, semicolon, tab or bar in line "
            f"{n_lines}; CSV, TSV, NDJSON (also compressed), Parquet and Arrow can be read"
        )
    if options.header:
        given, renamed = unique_names(names)
    else:
        given, renamed = tuple(f"column_{i}" for i in range(1, len(names) + 1)), ()
        n_lines, text = n_before, "".join(lines[:n_before]).encode()
    return Header(given, delimiter, len(mark) + len(text), n_lines, renamed)


def _has_header(head: bytes) -> bool:
    """Whether there are lines enough to find a header and the delimiter."""
    n_lines = head.count(b"\n")
    least = PIECE if n_lines else MAX_LINE
    return n_lines > _HEAD_LINES or len(head) >= least


def not_text(source: str, line: int) -> InputError:
    """Make the error that a text is not UTF-8."""
    hint = "if it is text, give its encoding: --encoding cp1252 or utf-16-le, for instance"
    return InputError(f"{source} is {NOT_UTF8}: line {line}", hint=hint)


def unique_names(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Give each column a name of its own.

    Examples
    --------
    >>> unique_names(["x", "y", "x", ""])
    (('x', 'y', 'x_2', 'column_4'), (('x', 'x_2'),))
    """
    names = [name.strip() for name in names]
    taken, met = set(names), set[str]()
    numbers: defaultdict[str, Iterator[int]] = defaultdict(lambda: count(2))
    given, renamed = [], []
    for i, name in enumerate(names, start=1):
        wanted = name or f"column_{i}"
        if (name in met) if name else (wanted in taken):
            others = (f"{wanted}_{number}" for number in numbers[wanted])
            wanted = next(other for other in others if other not in taken)
            if name:
                renamed.append((name, wanted))
        met.add(name)
        taken.add(wanted)
        given.append(wanted)
    return tuple(given), tuple(renamed)


def sniff(lines: list[str], source: str = "") -> str | None:
    """Find the delimiter that cuts most lines into as many fields as the first, and into most.

    Examples
    --------
    >>> sniff(["height, cm;name;age", "1,85;Ann;31"])
    ';'
    """
    lines = [line.replace("\r", "") for line in lines if line.strip()]
    if not lines:
        return None
    if "\t" in lines[0] and {".tsv", ".tab"} & set(Path(source.lower()).suffixes):
        return "\t"
    scores = {"": 0}
    with long_fields():
        for delimiter in (",", ";", "\t", "|"):
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
            scores[delimiter] = widths.count(widths[0]) * (widths[0] - 1)
    return max(scores, key=lambda delimiter: scores[delimiter]) or None


_TYPES: Mapping[str, type[pl.DataType]] = {"number": pl.Float64, "integer": pl.Int64}


class TextTable(BlockTable):
    """Text whose records are lines, or several where a field is quoted."""

    def __init__(
        self, text: TextSource, options: TextOptions, header: Header | None = None
    ) -> None:
        if header is None:
            head, is_all = text.top(_has_header)
            header = read_header(head, text.name, options, is_all=is_all)
        self.column_names = header.names
        self.notes = [
            f'there is more than one column "{name}": another is called "{given}" here'
            for name, given in header.renamed
        ]
        self.body = Position(offset=header.n_bytes, line=header.n_lines)
        self.delimiter: str = header.delimiter
        width, size = len(header.names), options.block_size
        self._form = Records(header.delimiter, width, options.comment, size)
        self._has_missing = False
        self._read_from(text, self._form)

    def _looks_regular(self, data: bytes, n_records: int) -> bool:
        return self._form.looks_regular(data, n_records)

    def _fast(self, block: Block, kinds: Kinds) -> Parsed | None:
        """Parse a regular block: as numbers, or as text if one is none; None if neither works."""
        if not block.regular or not is_utf8(block.data):
            return None
        found = self._turned(block, kinds) if len(self.column_names) > WIDE else None
        if found is not None:
            return found
        frame = self._csv(block, kinds)
        if frame is None:
            frame = self._csv(block, dict.fromkeys(kinds, "category"))
        return None if frame is None else (frame, None)

    def _csv(self, block: Block, kinds: Kinds) -> pl.DataFrame | None:
        """Parse a block; None if a value is not of its column's kind."""
        schema = {name: _TYPES.get(kinds.get(name, ""), pl.String) for name in self.column_names}
        wanted = [i for i, name in enumerate(self.column_names) if name in kinds]
        # Looking for missing values costs a sixth of the speed: only once there are some.
        for missing in [list(MISSING)] if self._has_missing else [None, list(MISSING)]:
            try:
                frame = pl.read_csv(
                    block.data,
                    has_header=False,
                    separator=self.delimiter,
                    schema=schema,
                    columns=wanted,
                    null_values=missing,
                )
            except pl.exceptions.PolarsError:
                continue
            self._has_missing |= missing is not None
            return frame if len(frame) == len(block.ends) else None
        return None

    def _turned(self, block: Block, kinds: Kinds) -> Parsed | None:
        """Parse a block of very many columns: as one column, of which numbers make an array.

        A frame has much to do for each column however few the rows are. None if a line has not as
        many fields as it should, or there is more than fields.
        """
        width, n_rows = len(self.column_names), len(block.ends)
        at = np.flatnonzero(np.frombuffer(block.data, np.uint8) == ord(self.delimiter))
        stops = block.ends - (block.ends[-1] - len(block.data))
        n_each = np.diff(np.searchsorted(at, stops), prepend=0)
        if b'"' in block.data or b"\r" in block.data or (n_each != width - 1).any():
            return None
        text = block.data.replace(self.delimiter.encode(), b"\n")
        cells = pl.read_csv(text, has_header=False, schema={"": pl.String}).to_series()
        if len(cells) != width * n_rows:
            return None
        found = cells.cast(pl.Float64, strict=False)
        no_number = (found.is_null() & cells.is_not_null()).arg_true()
        odd = no_number.filter(~cells.gather(no_number).is_in(MISSING))
        as_text = np.zeros(width, dtype=bool)
        as_text[odd.to_numpy() % width] = True
        values = found.to_numpy().reshape(n_rows, width)
        as_text |= (np.abs(values) > LARGEST).any(axis=0)  # no good numbers after all
        wanted = list(map(kinds.get, self.column_names))
        is_number = np.array([kind == "number" for kind in wanted]) & ~as_text
        is_text = np.array([kind is not None for kind in wanted]) & ~is_number
        frame = pl.DataFrame(
            [
                cells.gather_every(width, i).alias(self.column_names[i])
                for i in np.flatnonzero(is_text).tolist()
            ]
        )
        names = tuple(compress(self.column_names, is_number.tolist()))
        return frame, NamedRows(values[:, is_number], names)

    def _records(self, block: Block, kinds: Kinds) -> Iterable[list[str] | str | None]:
        return (row or None for _, row in self._form.walk(block.data))

    def _frame(self, rows: list[list[str]], kinds: Kinds) -> pl.DataFrame:
        columns = dict(zip(self.column_names, zip(*rows, strict=True), strict=bool(rows)))
        names = [name for name in self.column_names if name in kinds]
        return pl.DataFrame([pl.Series(n, columns.get(n, ()), dtype=pl.String) for n in names])


# --- ARFF, the format of Weka: rows behind a header that says what each column holds -----------

_LONGEST_HEADER = 256 << 20
_DATA = re.compile(rb"(?:^|\n)[ \t]*@data\b[^\n]*(\n|$)", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\s*@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{'"]\S*)\s*(\{|\w*)(.*?)\s*""",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED = re.compile(
    rb"""(^|,)[ \t]*(?:'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)")[ \t]*(?=,|\r?$)""", re.MULTILINE
)
_UNCLOSED = re.compile(rb"(^|,)[ \t]*'", re.MULTILINE)
_KINDS = {"{": "nominal", "string": "string", "date": "string"}
_KINDS |= dict.fromkeys(("numeric", "real", "integer"), "numeric")
_SPARSE = re.compile(rb"^[ \t]*\{", re.MULTILINE)


def looks_like_arff(line: bytes) -> bool:
    """Tell ARFF by its first line.

    Examples
    --------
    >>> looks_like_arff(b"@RELATION iris"), looks_like_arff(b"a,b")
    (True, False)
    """
    return re.match(rb"\s*@(relation|attribute)\b", line, re.IGNORECASE) is not None


class ArffTable(TextTable):
    """The rows of an ARFF file. Numeric columns are numbers, and nominal ones are categories."""

    def __init__(self, text: TextSource, options: TextOptions) -> None:
        header, self._declared = read_arff_header(text.top(_has_data)[0], text.name)
        super().__init__(text, TextOptions(comment="%", block_size=options.block_size), header)
        self._cut = Lines(options.block_size)

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the records in order; see :meth:`Table.chunks`."""
        for chunk in super().chunks(kinds, start, n_rows=n_rows):
            # The text of a sample does not tell what its columns hold.
            typed = map(self._typed, chunk.frame) if n_rows is not None else ()
            yield replace(chunk, frame=chunk.frame.with_columns(typed))

    def _typed(self, column: pl.Series) -> pl.Series:
        """A column as the header declares it, if it can be read so."""
        declared = self._declared[column.name]
        if declared == "string" or column.dtype != pl.String:
            return column
        text = tidy(column)
        found = text.cast(pl.Categorical if declared == "nominal" else pl.Float64, strict=False)
        return found if found.null_count() == text.null_count() else column

    def _as_parsed(self, block: Block) -> Block:
        """The block with the quotes of CSV, which it is otherwise."""
        data = block.data
        if not data:
            return block
        if _SPARSE.search(data):
            raise InputError(f"{self.name} has sparse rows", hint="write it as svmlight")
        ends, shown = block.ends, block.fault
        if b"'" in data or b"\\" in data:
            data = _UNCLOSED.sub(rb'\1"', _QUOTED.sub(_requoted, data))
            lengths = map(len, data.removesuffix(b"\n").split(b"\n"))
            ends = np.cumsum(np.fromiter(lengths, np.int64, len(ends)) + 1)
            ends[-1] = len(data)
        regular = self._looks_regular(data, len(ends))
        return replace(block, data=data, ends=ends, regular=regular, shown=shown)


def _requoted(found: re.Match[bytes]) -> bytes:
    r"""A quoted value with the quotes of CSV.

    Examples
    --------
    >>> _QUOTED.sub(_requoted, rb"1, 'it\'s', 'a, b', ?")
    b'1,"it\'s","a, b", ?'
    """
    text = found[2] if found[2] is not None else found[3]
    text = re.sub(rb"\\(.)", lambda one: b" " if one[1] in b"ntr" else one[1], text)
    return found[1] + b'"' + text.replace(b'"', b'""') + b'"'


def _has_data(head: bytes) -> bool:
    """Whether the line of @data has ended."""
    found = _DATA.search(head)
    return len(head) > _LONGEST_HEADER or (found is not None and found[1] != b"")


def read_arff_header(head: bytes, source: str) -> tuple[Header, dict[str, str]]:
    """Read what stands before the rows, and what each column is declared as."""
    found = _DATA.search(head)
    if found is None:
        raise InputError(f"{source} has no line @data: not an ARFF file")
    try:
        lines = head[: found.start() + 1].decode("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{source} is {NOT_UTF8}: its header") from None
    declared = [
        _attribute(line, f"{source}: line {number}")
        for number, line in enumerate(lines, start=1)
        if line.lstrip()[:10].lower() == "@attribute"
    ]
    if not declared:
        raise InputError(f"{source} has no @attribute before @data")
    names, renamed = unique_names([name for name, _ in declared])
    n_lines = head[: found.end()].count(b"\n")
    kinds = dict(zip(names, (kind for _, kind in declared), strict=True))
    return Header(names, ",", found.end(), n_lines, renamed), kinds


def _attribute(line: str, where: str) -> tuple[str, str]:
    """The name of a column, and what it is declared as."""
    found = _ATTRIBUTE.fullmatch(line)
    kind = _KINDS.get(found[2].lower()) if found else None
    if found is None or kind is None or (kind == "nominal" and "}" not in found[3]):
        raise InputError(f"{where} is not an attribute of a known type: {line.strip()}")
    name = found[1]
    if name[0] in "'\"":
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    return name, kind
