"""Tables in ARFF, the format of Weka: a header that says what each column holds, then rows.

A row is a line of values, or a sparse one: ``{1 3.5, 4 yes}`` has the values of columns 1 and 4,
counted from 0, and in all others 0 or the first of the nominal values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl

from fires.columns.columns import NumberColumns
from fires.columns.schema import Kind
from fires.columns.text import MISSING, tidy
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.header import Header, unique_names
from fires.streams.files.options import TextOptions
from fires.streams.files.records import NOT_UTF8, is_utf8
from fires.streams.files.text_blocks import (
    PIECE,
    WIDE,
    Block,
    Ints,
    Read,
    Ready,
    cut_into_lines,
    fill,
    looks_regular,
)
from fires.streams.files.text_source import TextSource
from fires.streams.files.text_table import TextTable
from fires.streams.table import Chunk, Fault

WEIGHTED = "a row with a weight cannot be used"
MOST_SPARSE = 100_000
"""Columns of a sparse table: each row of it is handed out as so many numbers."""
_CELLS = 4_000_000
"""How many of them are handed out at once."""
_LONGEST_HEADER = 256 << 20

_DATA = re.compile(rb"(?:^|\n)[ \t]*@data\b[^\n]*(\n|$)", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"""\s*@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{'"]\S*)\s*(.*?)\s*""",
    re.IGNORECASE | re.DOTALL,
)
_VALUE = re.compile(
    r"""\s*(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|([^,'"][^,]*?|))\s*(,|$)""", re.DOTALL
)
_ENTRY = re.compile(r"\s*(\d+)\s+(.*)", re.DOTALL)
_ODD_LINE = re.compile(rb"[{}]|^[ \t]*%", re.MULTILINE)
_WEIGHT = re.compile(r",\s*\{[^{}]*\}$")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_OF_JAVA = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>(?P<one>[A-Za-z])(?P=one)*)|.")
_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSS": "%3f",
    "Z": "%z",
}
"""The letters of dates in Java, and what they are here."""


class Attribute(NamedTuple):
    """A column, as the header describes it."""

    name: str
    kind: str
    values: tuple[str, ...] = ()
    form: str | None = None


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

    def __init__(self, text: TextSource, block_size: int) -> None:
        with text.open(again=True) as (read, _):
            header, attributes = read_arff_header(read, text.name, text.ready)
        super().__init__(text, TextOptions(comment="%"), block_size, header)
        self._cut = partial(cut_into_lines, block_size=block_size)
        self.attributes = {a.name: a for a in attributes}
        self._of_kind = {
            kind: [a.name for a in attributes if a.kind == kind]
            for kind in ("numeric", "nominal", "date")
        }

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the records in order; see :meth:`Table.chunks`."""
        wanted = dict(kinds)
        if n_rows is not None:  # what they hold is still open, and their text does not tell it
            numeric = self._of_kind["numeric"]
            wanted |= dict.fromkeys((name for name in numeric if name in kinds), "number")
        for chunk in super().chunks(wanted, start, n_rows=n_rows):
            yield replace(chunk, frame=self._typed(chunk.frame, sample=n_rows is not None))

    def _typed(self, frame: pl.DataFrame, *, sample: bool) -> pl.DataFrame:
        """Give dates their type; in the sample, also others, so that their kinds are found."""
        found = []
        for name in self._of_kind["date"]:
            form = self.attributes[name].form
            if name in frame.columns and form:
                text = tidy(frame[name])
                dates = text.str.to_datetime(form, strict=False)
                if dates.null_count() == text.null_count():
                    found.append(dates)
        if sample:
            present = set(frame.columns)
            nominal = [name for name in self._of_kind["nominal"] if name in present]
            found += [tidy(frame[name]).cast(pl.Categorical) for name in nominal]
            for name in self._of_kind["numeric"]:
                if name in present and frame.schema[name] == pl.String:
                    text = tidy(frame[name])
                    numbers = text.cast(pl.Float64, strict=False)
                    found += [numbers] if numbers.null_count() == text.null_count() else []
        return frame.with_columns(found)

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> Iterator[Chunk]:
        """Parse the block as CSV, or as sparse rows; if that fails, in pieces, and line by line."""
        chunks: Sequence[Chunk] | None = None
        if len(block.ends) and b"\\" not in block.data and is_text(block.data):
            if not _ODD_LINE.search(block.data):
                chunks = self._dense(block, kinds, places)
            elif b"'" not in block.data and b'"' not in block.data:
                chunks = self._sparse(block, kinds, places)
        if chunks is not None:
            yield from chunks
        elif len(block.data) > PIECE and len(block.ends) > 1:
            at = 0
            for piece in block.pieces(lambda data, n_records: True):
                yield from self._parsed(piece, kinds, places[at : at + len(piece.ends)])
                at += len(piece.ends)
        else:
            yield self._slow(block, kinds, places)

    def _dense(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> list[Chunk] | None:
        """Rows that are CSV, but for the kind of quotes."""
        data = block.data
        if b"'" in data:
            if b'"' in data:
                return None
            data = data.replace(b"'", b'"')
        if not looks_regular(data, len(block.ends), ",", len(self.column_names), None):
            return None
        plain = replace(block, data=data)
        if len(self.column_names) > WIDE and self._is_plain(plain):
            chunk = self._turned(plain, kinds, places)
            if chunk is not None:
                return [replace(chunk, raw=block.text)]
        frame: pl.DataFrame | None
        written: Callable[[str], pl.Series] | None
        frame, written = self._fast(plain, kinds), partial(self._written, plain)
        if frame is None:
            frame, written = self._fast(plain, dict.fromkeys(kinds, "category")), None
        if frame is None:
            return None
        lines = block.lines[:-1]
        return [Chunk(frame, lines, places, short=block.short, raw=block.text, written=written)]

    # --- sparse rows ------------------------------------------------------------------------

    def _sparse(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> list[Chunk] | None:
        """Rows that are sparse, all of them, and without anything unusual."""
        if len(self.column_names) > MOST_SPARSE:
            raise InputError(
                f"{self.name} has {len(self.column_names):,} columns in sparse rows; at most "
                f"{MOST_SPARSE:,} can be read",
                hint="write it as svmlight",
            )
        lines = pl.Series(block.data.decode().removesuffix("\n").split("\n")).str.strip_chars()
        if not (lines.str.starts_with("{") & lines.str.ends_with("}")).all():
            return None
        inner = lines.str.slice(1).str.head(-1).str.strip_chars()
        cells = inner.set(inner == "", None).str.split(",")
        n_each = cells.list.len().fill_null(0).to_numpy()
        parts = cells.drop_nulls().explode().str.extract_groups(r"^\s*(\d{1,9})\s+(\S+)\s*$")
        found, texts = parts.struct.unnest().get_columns()
        if found.null_count() or block.data.count(b"{") > len(lines):
            return None
        columns = found.cast(pl.Int64).to_numpy()
        if len(columns) and columns.max() >= len(self.column_names):
            return None
        values = texts.cast(pl.Float64, strict=False)
        is_number = np.array([self.attributes[n].kind == "numeric" for n in self.column_names])
        odd = values.is_null() & ~texts.is_in(MISSING)
        if (odd.to_numpy() & is_number[columns]).any():
            return None
        rows = np.repeat(np.arange(len(lines)), n_each)
        entries = _Entries(rows, columns, values.to_numpy(), texts)
        step = max(1, _CELLS // max(len(kinds), 1))
        chunks = []
        for first in range(0, len(lines), step):
            last = min(first + step, len(lines))
            frame, numbers = self._spread(entries.rows_between(first, last), last - first, kinds)
            raw = partial(_text_of, block, first)
            where = slice(first, last)
            chunk = Chunk(frame, block.lines[:-1][where], places[where], short=block.short, raw=raw)
            chunks.append(replace(chunk, numbers=numbers))
        return chunks

    def _spread(
        self, entries: _Entries, n_rows: int, kinds: Mapping[str, Kind]
    ) -> tuple[pl.DataFrame, NumberColumns | None]:
        """Put entries among the values that are not said."""
        names = [name for name in self.column_names if name in kinds]
        numeric = [name for name in names if self.attributes[name].kind == "numeric"]
        place = np.full(len(self.column_names), -1)
        at = {name: i for i, name in enumerate(self.column_names)}
        place[[at[name] for name in numeric]] = np.arange(len(numeric))
        X = np.zeros((n_rows, len(numeric)))
        known = place[entries.columns] >= 0
        X[entries.rows[known], place[entries.columns[known]]] = entries.values[known]
        series = {}
        for name in names:
            if name not in numeric:
                mine = entries.columns == at[name]
                values = self.attributes[name].values[:1]
                default = pl.Series(name, values or [None], dtype=pl.String)
                column = default.new_from_index(0, n_rows)
                if mine.any():
                    column = column.scatter(entries.rows[mine], entries.texts.filter(mine))
                series[name] = column
        if len(self.column_names) > WIDE:
            plain = [i for i, name in enumerate(numeric) if kinds[name] == "number"]
            numbers = NumberColumns(
                tuple(numeric[i] for i in plain), np.ascontiguousarray(X[:, plain])
            )
            others = set(plain)
            series |= {
                name: pl.Series(name, X[:, i]) for i, name in enumerate(numeric) if i not in others
            }
            return pl.DataFrame([series[name] for name in names if name in series]), numbers
        numbers_frame = pl.DataFrame(X, schema=numeric, orient="row").fill_nan(None)
        return numbers_frame.with_columns(series.values()).select(names), None

    # --- line by line -----------------------------------------------------------------------

    def _slow(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> Chunk:
        """Read a block line by line; all columns stay text."""
        rows, good, faults = [], [], []
        lines = block.data.removesuffix(b"\n").split(b"\n") if block.data else []
        for i, line in enumerate(lines):
            row = self._row(line)
            if isinstance(row, str):
                faults.append(Fault(int(block.lines[i]), row, block.text(i)))
            elif row:
                rows.append(row)
                good.append(i)
        columns = dict(zip(self.column_names, zip(*rows, strict=True), strict=bool(rows)))
        names = [name for name in self.column_names if name in kinds]
        frame = pl.DataFrame([pl.Series(n, columns.get(n, ()), dtype=pl.String) for n in names])
        keep = np.array(good, dtype=np.int64)
        return Chunk(
            frame,
            block.lines[keep],
            places[keep],
            faults,
            block.short,
            raw=lambda row: block.text(good[row]),
        )

    def _row(self, line: bytes) -> Sequence[str | None] | str:
        """The values in a line, or what is wrong with it; nothing in a blank line or a comment."""
        text = line.decode("utf-8", "surrogateescape").strip()
        if not text or text.startswith("%"):
            return []
        if not is_utf8(text):
            return NOT_UTF8
        if text.startswith("{"):
            return self._sparse_row(text)
        values = values_in(text)
        if isinstance(values, str):
            return values
        width = len(self.column_names)
        if len(values) == width + 1 and _WEIGHT.search(text):
            return WEIGHTED
        if len(values) != width:
            some = f"{len(values)} value{'s' if len(values) > 1 else ''}"
            return f"{some}, the header has {width} attributes"
        return values

    def _sparse_row(self, text: str) -> Sequence[str | None] | str:
        if not text.endswith("}"):
            return "a sparse row does not end with }"
        if _WEIGHT.search(text):
            return WEIGHTED
        row: list[str | None] = [_absent(self.attributes[name]) for name in self.column_names]
        inner = text[1:-1].strip()
        at = 0
        while at < len(inner):
            index = _ENTRY.match(inner, at)
            value = _VALUE.match(inner, index.start(2)) if index else None
            if index is None or value is None:
                return "not a sparse row"
            if int(index[1]) >= len(row):
                return f"index {index[1]}, the header has {len(row)} attributes"
            row[int(index[1])] = _unquoted(value)
            at = value.end()
        return row


class _Entries(NamedTuple):
    """What sparse rows say, in order of the rows."""

    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    columns: np.ndarray[tuple[int], np.dtype[np.int64]]
    values: np.ndarray[tuple[int], np.dtype[np.float64]]
    texts: pl.Series

    def rows_between(self, first: int, last: int) -> _Entries:
        """Those of some rows, counted from the first of them."""
        start, stop = np.searchsorted(self.rows, [first, last]).tolist()
        part = slice(start, stop)
        return _Entries(
            self.rows[part] - first, self.columns[part], self.values[part], self.texts[part]
        )


def _text_of(block: Block, first: int, row: int) -> str:
    return block.text(first + row)


def _absent(attribute: Attribute) -> str | None:
    """What a sparse row holds where it says nothing."""
    if attribute.kind == "numeric":
        return "0"
    return attribute.values[0] if attribute.values else None


def is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8."""
    return data.isascii() or is_utf8(data.decode("utf-8", "surrogateescape"))


def values_in(text: str) -> list[str] | str:
    r"""The values between commas, which may be quoted.

    Examples
    --------
    >>> values_in("1, 'it\\'s', \"a, b\", ?")
    ['1', "it's", 'a, b', '?']
    """
    values, at = [], 0
    while True:
        found = _VALUE.match(text, at)
        if found is None:
            return "a quote is opened and not closed, or there is text behind it"
        values.append(_unquoted(found))
        at = found.end()
        if not found[4]:
            return values


def _unquoted(found: re.Match[str]) -> str:
    if found[3] is not None:
        return found[3]
    quoted = found[1] if found[1] is not None else found[2]
    return re.sub(r"\\(.)", lambda escaped: _ESCAPES.get(escaped[1], escaped[1]), quoted)


def read_arff_header(read: Read, source: str, ready: Ready) -> tuple[Header, list[Attribute]]:
    """Read what stands before the rows."""
    head, ended = b"", False
    while (found := _DATA.search(head)) is None or not (found[1] or ended):
        if ended or len(head) > _LONGEST_HEADER:
            raise InputError(f"{source} has no line @data: not an ARFF file")
        pieces, ended = fill(read, ready, PIECE)
        head = b"".join([head, *pieces])
    text = head[: found.start() + 1]
    if not is_text(text):
        raise InputError(f"{source} is {NOT_UTF8}: its header")
    attributes = [
        _attribute(line, number, source)
        for number, line in enumerate(text.decode("utf-8-sig").split("\n"), start=1)
        if line.lstrip()[:10].lower() == "@attribute"
    ]
    if not attributes:
        raise InputError(f"{source} has no @attribute before @data")
    names, renamed = unique_names([attribute.name for attribute in attributes])
    attributes = [a._replace(name=name) for a, name in zip(attributes, names, strict=True)]
    n_lines = head[: found.end()].count(b"\n")
    return Header(names, ",", found.end(), n_lines, renamed), attributes


def _attribute(line: str, number: int, source: str) -> Attribute:
    """What a line of the header says of a column."""
    found = _ATTRIBUTE.fullmatch(line)
    where = f"{source}: line {number}"
    if found is None:
        raise InputError(f"{where} is no attribute: {line.strip()}")
    names = values_in(found[1])
    name, kind = (names[0] if isinstance(names, list) else found[1]), found[2]
    if kind.startswith("{"):
        values = values_in(kind[1:].rpartition("}")[0])
        if isinstance(values, str):
            raise InputError(f"{where}: {values}")
        return Attribute(name, "nominal", tuple(values))
    word, _, rest = kind.partition(" ")
    if word.lower() in ("numeric", "real", "integer"):
        return Attribute(name, "numeric")
    if word.lower() == "string":
        return Attribute(name, "string")
    if word.lower() == "date":
        return Attribute(name, "date", form=date_form(rest.strip().strip("\"'")))
    raise InputError(f'{where}: the attribute "{name}" is of type {word or "none"}, not known here')


def date_form(java: str) -> str | None:
    """How dates are written, in the letters of Python.

    Examples
    --------
    >>> date_form("yyyy-MM-dd'T'HH:mm:ss"), date_form("EEE, d MMM")
    ('%Y-%m-%dT%H:%M:%S', None)
    """
    form = ""
    for found in _OF_JAVA.finditer(java or "yyyy-MM-dd'T'HH:mm:ss"):
        if found["letters"] and found["letters"] not in _LETTERS:
            return None
        form += _LETTERS.get(found["letters"], (found["quoted"] or found[0]).replace("%", "%%"))
    return form
