"""The text in a file or a pipe: unpacked, decoded to UTF-8, cut into blocks, and parsed."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.columns import NumberColumns
from fires.core.errors import InputError
from fires.streams import byte_sources
from fires.streams.base import Position
from fires.streams.cutting import read_ahead
from fires.streams.following import Follow
from fires.streams.table import Chunk, Chunks, Fault, Kinds, Table
from fires.streams.text_blocks import PIECE, Block, Ints, Lines, Read, fill

_HEAD = 4096
_MARK = "fires-mark"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
Places = npt.NDArray[Any]
Parsed = tuple[pl.DataFrame, NumberColumns | None]  # with many columns, numbers stand apart


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """Put a byte that is not UTF-8 where there was no text: its record is set aside for it."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return b"\xff", error.end


codecs.register_error(_MARK, _mark)


def utf16(sample: bytes) -> str | None:
    """Tell UTF-16 without a mark by its zeros: every second byte, for letters of the Latin script.

    Examples
    --------
    >>> utf16("a,b".encode("utf-16-be")), utf16(b"a,b")
    ('utf-16-be', None)
    """
    even, odd = (sample[start::2].count(0) / max(len(sample) // 2, 1) for start in (0, 1))
    if max(even, odd) < 0.4 or min(even, odd) > 0.1:
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


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
        kind = byte_sources.kind_of(source.magic)
        self._packing = kind if kind in byte_sources.PACKINGS else None
        head = b""
        with source.open(again=True) as file:
            for piece in self._unpacked(file):
                head += piece
                if len(head) >= byte_sources.N_MAGIC:
                    break
        self.head, self._top, self._is_all = head[:_HEAD], b"", False
        inner = "tar" if head[257:262] == b"ustar" else byte_sources.kind_of(head)
        if inner in byte_sources.ADVICE:
            raise InputError(f"{name} {byte_sources.ADVICE[inner]}")
        if inner != "text":
            raise InputError(f"{name} holds a file of type {inner}; unpack it first")
        marked = (found for mark, found in _MARKS.items() if head.startswith(mark))
        self.encoding = encoding or next(marked, "utf-8")
        self._plain = codecs.lookup(self.encoding).name == "utf-8"

    def _unpacked(self, file: byte_sources.Bytes) -> Iterator[bytes]:
        if self._packing is None:
            return iter(partial(file.read, byte_sources.STEP), b"")
        return byte_sources.unpacked(file, self._packing)

    @property
    def is_direct(self) -> bool:
        """Whether the bytes of the source are those of the text."""
        return self._packing is None and self._plain

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
            pieces = self._unpacked(file)
            text = Pieces(pieces if self._plain else decoded(pieces, self.encoding), file.tell)
            byte_sources.skip(text.read, offset)
            yield text.read, text.used

    def blocks(
        self, cut: Lines, start: Position, *, again: bool
    ) -> Generator[tuple[Block, Ints], None, None]:
        """Cut the text into blocks, each with the places at which its records end."""
        line = start.line
        try:
            with self.open(again=again, offset=start.offset) as (read, used):
                for block in cut.blocks(read, self.source.ready, start.offset, line):
                    line = int(block.lines[-1]) - 1
                    ends = block.ends
                    yield block, np.column_stack([used(ends), ends, block.lines[1:] - 1])
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
        self.name, self.n_bytes, self.head = text.name, source.n_bytes, text.head
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
            for block, places in blocks:
                yield from self._parsed(self._as_parsed(block), kinds, places)

    def _followed(self, kinds: Kinds, start: Position, file: Follow) -> Chunks:
        """Read a file that grows, and those that come behind it; there is no end."""
        if start.mark is None:
            start = replace(start, bytes=start.offset, mark=file.mark())
        while True:
            n_before = start.bytes - start.offset
            for chunk in self._read(kinds, start, again=False):
                places = np.zeros((len(chunk.places), 5), dtype=object)
                places[:, :3], places[:, 4] = chunk.places, file.mark()
                places[:, 0] += n_before
                yield replace(chunk, places=places, start=start)
                if len(places):
                    start = self.position(0, places[-1])
            with byte_sources.plain_errors(self.name):
                start = file.go_on(n_before)

    def _parsed(self, block: Block, kinds: Kinds, places: Places) -> Iterator[Chunk]:
        """Parse a block whole; if that fails, in pieces; and a small piece record by record."""
        wanted = self._wanted(block, kinds)
        found = self._fast(block, wanted) if len(block.ends) else None
        if found is not None:
            lines, short, ragged = block.lines[:-1], block.short, self.is_open
            frame, numbers = found
            yield Chunk(frame, lines, places, (), short, numbers, block.text, ragged=ragged)
        elif len(block.data) <= PIECE or len(block.ends) <= 1:
            yield self._slow(block, wanted, places)
        else:
            at = 0
            for piece in block.pieces(self._looks_regular):
                yield from self._parsed(piece, kinds, places[at : at + len(piece.ends)])
                at += len(piece.ends)

    def _slow(self, block: Block, kinds: Kinds, places: Places) -> Chunk:
        """Read a block record by record."""
        rows, good, faults = [], [], []
        for i, row in enumerate(self._records(block, kinds)):
            if isinstance(row, str):
                faults.append(Fault(int(block.lines[i]), row, block.text(i)))
            elif row is not None:
                rows.append(row)
                good.append(i)
        keep = np.array(good, dtype=np.int64)
        return Chunk(
            self._frame(rows, kinds),
            block.lines[keep],
            places[keep],
            faults,
            block.short,
            raw=lambda row: block.text(good[row]),
            ragged=self.is_open,
        )
