"""The text in a file or a pipe: unpacked, and decoded to UTF-8."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.byte_sources import (
    ADVICE,
    N_MAGIC,
    PACKINGS,
    ByteSource,
    Damaged,
    Readable,
    Unpacked,
    changed,
    kind_of,
    plain_errors,
    skip,
)
from fires.streams.cutting import read_ahead
from fires.streams.table import Chunk, Fault, Table
from fires.streams.text_blocks import PIECE, Block, Ints, Read, fill, places_of

if TYPE_CHECKING:
    from fires.streams.byte_sources import Bytes


_AT_ONCE = 1 << 18
"""Bytes to decode at once."""
_MARK = "fires-mark"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """Put a byte that is not UTF-8 where there was no text: its record is set aside for it."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return b"\xff", error.end


codecs.register_error(_MARK, _mark)


def encoding_of(head: bytes) -> str:
    r"""Find the encoding that a byte order mark tells.

    Examples
    --------
    >>> encoding_of(b"\xff\xfex\0"), encoding_of(b"x,y\n")
    ('utf-16', 'utf-8')
    """
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")


def hint(sample: bytes) -> str:
    r"""Say which encoding a text that is not UTF-8 may have.

    Examples
    --------
    >>> hint("größer".encode("utf-16-le"))
    'it looks like UTF-16: try --encoding utf-16-le'
    """
    if name := utf16(sample):
        return f"it looks like UTF-16: try --encoding {name}"
    return "if it is text, say how it was written: --encoding cp1252, for instance"


def utf16(sample: bytes) -> str | None:
    """Tell UTF-16 without a mark by its zeros: every second byte, for letters of the Latin script.

    Examples
    --------
    >>> utf16("a,b".encode("utf-16-be")), utf16(b"a,b")
    ('utf-16-be', None)
    """
    half = max(len(sample) // 2, 1)
    even, odd = (sample[start::2].count(0) / half for start in (0, 1))
    if max(even, odd) < 0.4 or min(even, odd) > 0.1:
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


class Decoded:
    """A text in UTF-8, whatever it was written in.

    Examples
    --------
    >>> import io
    >>> Decoded(io.BytesIO("süß".encode("latin-1")), "latin-1").read(100).decode()
    'süß'
    """

    def __init__(self, file: Readable, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=_MARK)
        self._text = b""

    def read(self, n: int) -> bytes:
        """Read on."""
        ended = False
        while not self._text and not ended:
            data = self._file.read(min(n, _AT_ONCE))
            ended = not data
            self._text = self._decoder.decode(data, final=ended).encode("utf-8", _MARK)
        text, self._text = self._text[:n], self._text[n:]
        return text


Cut = Callable[..., Iterator[Block]]
Places = npt.NDArray[Any]
_HEAD = 4096
_STEP = 1 << 18
"""Bytes of packed or encoded text that are made at once."""


class TextSource:
    """The text in a file or a pipe, from any place on."""

    def __init__(self, name: str, source: ByteSource, encoding: str | None = None) -> None:
        self.name = name
        self.n_bytes = source.n_bytes
        self.identity = source.identity
        self.ready = source.ready
        self._source = source
        kind = kind_of(source.magic)
        self._packing = kind if kind in PACKINGS else None
        with source.open(again=True) as file:
            self.head = _head(self._unpacked(file).read)
        inner = "tar" if self.head[257:262] == b"ustar" else kind_of(self.head)
        if inner in ADVICE:
            raise InputError(f"{name} {ADVICE[inner]}")
        if inner != "text":
            raise InputError(f"{name} holds a file of type {inner}; unpack it first")
        self.encoding = encoding or encoding_of(self.head)
        self._plain = codecs.lookup(self.encoding).name == "utf-8"

    @contextmanager
    def open(
        self, *, again: bool, offset: int = 0
    ) -> Iterator[tuple[Read, Callable[[Ints], Ints | None]]]:
        """Open the text."""
        with self._source.open(again) as file:
            if self.is_direct:
                self._go_to(file, offset)
                yield file.read, lambda ends: None
                return
            unpacked = self._unpacked(file)
            decoded = unpacked if self._plain else Decoded(unpacked, self.encoding)
            text = _InSteps(decoded, file.tell)
            if not skip(text, offset):
                raise self._shorter()
            yield text.read, text.used

    def _go_to(self, file: Bytes, offset: int) -> None:
        """Begin where a record begins. The last one may have had no line end when it was read."""
        if offset and self.n_bytes is not None:
            if offset > self.n_bytes:
                raise self._shorter()
            file.seek(offset - 1)
            around = file.read(2)
            if around[:1] != b"\n" and around[1:] not in (b"", b"\n", b"\r"):
                raise changed(self.name)
        file.seek(offset)

    def _shorter(self) -> InputError:
        return InputError(f"{self.name} is shorter than it was when it was read before")

    def first_line(self, comment: str) -> bytes:
        """Read the first line that is neither blank nor a comment."""
        rest, ended = b"", False
        with self.open(again=True) as (read, _):
            while not ended and len(rest) <= PIECE:
                pieces, ended = fill(read, self.ready, _HEAD)
                rest = b"".join([rest, *pieces]).removeprefix(codecs.BOM_UTF8)
                *lines, rest = rest.split(b"\n")
                for line in [*lines, rest] if ended else lines:
                    if line.strip() and not line.startswith(comment.encode()):
                        return line
        return rest

    def blocks(
        self, cut: Cut, start: Position, *, again: bool
    ) -> Generator[tuple[Block, Ints | None], None, None]:
        """Cut the text into blocks."""
        line = start.line
        try:
            with self.open(again=again, offset=start.offset) as (read, used):
                for block in cut(read, offset=start.offset, line=line, ready=self.ready):
                    line = int(block.lines[-1]) - 1
                    yield block, used(block.ends)
        except Damaged as error:
            raise InputError(f"{self.name} is damaged after line {line}: {error}") from error
        except OSError as error:
            raise InputError(
                f"cannot read {self.name} after line {line}: {error.strerror or error}"
            ) from error

    @property
    def is_direct(self) -> bool:
        """Whether the bytes of the source are those of the text."""
        return self._packing is None and self._plain

    def _unpacked(self, file: Bytes) -> Readable:
        return file if self._packing is None else Unpacked(file, self._packing)


class _InSteps:
    """A text that is made from a source in steps of one size, wherever and however it is read.

    So how much of the source a place in the text needs does not depend on where reading began.
    """

    def __init__(self, text: Readable, tell: Callable[[], int]) -> None:
        self._text, self._tell = text, tell
        self._rest = b""
        self._ends, self._used = [0], [0]

    def read(self, n: int) -> bytes:
        """Read on; at most n bytes, and none at the end."""
        if not self._rest:
            self._rest = self._text.read(_STEP)
            self._ends.append(self._ends[-1] + len(self._rest))
            self._used.append(self._tell())
        data, self._rest = self._rest[:n], self._rest[n:]
        return data

    def used(self, ends: Ints) -> Ints:
        """How many bytes of the source the text up to some places needs. These must ascend."""
        first = bisect_left(self._ends, int(ends[0]))
        del self._ends[:first], self._used[:first]
        return np.array(self._used, np.int64)[np.searchsorted(self._ends, ends)]


def _head(read: Read) -> bytes:
    """The first bytes, as many as tell what it is."""
    head = b""
    while len(head) < N_MAGIC and (data := read(_HEAD)):
        head += data
    return head


class BlockTable(Table):
    """A table in text: blocks are parsed whole or, where they are irregular, line by line."""

    is_open = False
    """Whether chunks have the columns that are there."""

    @abstractmethod
    def _fast(self, block: Block, kinds: Mapping[str, Kind], places: Places) -> Chunk | None:
        """Parse a block whole; None if that cannot be done."""

    @abstractmethod
    def _records(self, block: Block, kinds: Mapping[str, Kind]) -> Iterable[Any]:
        """Read a block record by record: a row, what is wrong with it, or None for a blank."""

    @abstractmethod
    def _frame(self, rows: list[Any], kinds: Mapping[str, Kind]) -> pl.DataFrame:
        """Rows that were read one by one; all columns are text."""

    def _wanted(self, block: Block, kinds: Mapping[str, Kind]) -> Mapping[str, Kind]:
        """The columns to read: others too if columns may change."""
        return kinds

    def _looks_regular(self, data: bytes, n_records: int) -> bool:
        """Whether a piece of a block can be parsed whole perhaps."""
        return True

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], places: Places) -> Iterator[Chunk]:
        """Parse a block whole; if that fails, in pieces; and a small piece record by record."""
        wanted = self._wanted(block, kinds)
        chunk = self._fast(block, wanted, places) if len(block.ends) else None
        if chunk is None and (len(block.data) <= PIECE or len(block.ends) <= 1):
            chunk = self._slow(block, wanted, places)
        if chunk is not None:
            yield chunk
            return
        at = 0
        for piece in block.pieces(self._looks_regular):
            yield from self._parsed(piece, kinds, places[at : at + len(piece.ends)])
            at += len(piece.ends)

    def _blocks(
        self, text: TextSource, cut: Cut, start: Position, *, again: bool
    ) -> Generator[tuple[Block, Ints], None, None]:
        """The blocks of a text, and where their records end."""
        blocks = text.blocks(cut, start, again=again)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with plain_errors(self.name), closing(blocks):
            for block, used in blocks:
                yield block, places_of(block, used)

    def _slow(self, block: Block, kinds: Mapping[str, Kind], places: Places) -> Chunk:
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
