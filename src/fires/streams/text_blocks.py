"""Text is cut into blocks that end where a record ends.

A record usually is a line, but a quoted field may hold line ends. Where quotes stand as they
should, the parity of their count tells which line ends count, and NumPy finds them; a piece
where they do not is walked record by record with the csv module, whose reading of odd quotes
is the reference. Both give the same records, whatever the size of the blocks.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from threading import Lock
from time import monotonic
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.errors import InputError
from fires.core.types import Ints as Ints
from fires.streams.byte_sources import Damaged

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

    def record(self, number: int) -> bytes:
        """One record as it stands in the source."""
        offset = int(self.ends[-1]) - len(self.data)
        start = int(self.ends[number - 1]) - offset if number else 0
        return self.data[start : int(self.ends[number]) - offset]

    def text(self, number: int) -> str:
        """One record for a person to read."""
        return self.record(number).decode("utf-8", "backslashreplace").rstrip("\r\n")

    def pieces(self, is_regular: Callable[[bytes, int], bool]) -> Iterator[Block]:
        """Cut the block further."""
        offset = int(self.ends[-1]) - len(self.data)
        first, start = 0, offset
        while first < len(self.ends):
            last = max(int(np.searchsorted(self.ends, start + PIECE, side="right")), first + 1)
            stop = int(self.ends[last - 1])
            data = self.data[start - offset : stop - offset]
            ends, lines = self.ends[first:last], self.lines[first : last + 1]
            yield Block(data, ends, lines, is_regular(data, last - first), self.short)
            first, start = last, stop


def always(seconds: float) -> bool:
    """Tell that a source never keeps the reader waiting."""
    return True


def fill(read: Read, ready: Ready, size: int, *, n_lines: int = 1) -> tuple[list[bytes], bool]:
    r"""Read ``size`` bytes in pieces; fewer at the end, or where more would not come soon.

    Examples
    --------
    >>> text = io.BytesIO(b"1,2\n3,4\n")
    >>> fill(text.read, always, 5), fill(text.read, always, 5)
    (([b'1,2\n3'], False), ([b',4\n'], True))
    """
    pieces: list[bytes] = []
    timeout = PATIENCE
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
        if size > 0 and n_lines > 0:
            n_lines -= data.count(b"\n")
        if size > 0 and n_lines <= 0:
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
        if width > WIDE:
            super().__init__(min(size, _WIDE_BLOCK), _WIDE_BLOCK)
        else:
            super().__init__(size)
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
            start, dry = at, list[bool]()
            feed = chain(map(lines.__getitem__, range(at, len(lines))), _once_dry(dry))
            reader = csv.reader(feed, delimiter=self._delimiter, strict=True)
            while not self._is_comment(lines, at):
                try:
                    row = next(reader)
                    fault = self._fault(row)
                except StopIteration:
                    return records
                except csv.Error as error:
                    row, fault = [], RETURN if "new-line" in str(error) else UNQUOTED
                n_lines = start + reader.line_num - at
                if n_lines > 1 or dry:
                    text = "".join(lines[at : at + n_lines])
                    too_long = len(text.encode("utf-8", "surrogateescape")) > MAX_RECORD
                    if dry and not final and not too_long:
                        return records
                    if dry or fault or too_long:
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

    def _fault(self, row: list[str]) -> str:
        """Say what is wrong with a row, if anything is; a blank one has no fields."""
        if len(row) == 1 and not row[0].strip():
            row.clear()
        if row and len(row) != self._width:
            return f"{len(row)} field{'s' * (len(row) > 1)}, the header has {self._width}"
        return ""


def _once_dry(dry: list[bool]) -> Iterator[str]:
    """No lines, but a note that more were wanted: within a record, its quote is still open."""
    dry.append(True)
    yield from ()


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
