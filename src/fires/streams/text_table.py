"""Tables in text: CSV, TSV and the like; and ARFF, whose header says what each column holds."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from pathlib import Path

import numpy as np
import polars as pl

from fires.columns.cells import MISSING, tidy
from fires.core.errors import InputError
from fires.core.types import NamedRows
from fires.core.validation import LARGEST
from fires.kernels import scan
from fires.streams import text_blocks
from fires.streams.base import Position
from fires.streams.table import Chunks, Kinds
from fires.streams.text_blocks import Block, BlockTable, Lines, Parsed, Records, TextSource


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
    block_size: int = text_blocks.BLOCK

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
    with text_blocks.long_fields():
        reader = csv.reader(lines[n_before:], delimiter=delimiter or ",")
        try:
            names = next((row for row in reader if any(map(str.strip, row))), None)
        except csv.Error:
            raise InputError(f"{source} has a carriage return within its first line") from None
    if names is None:
        raise InputError(f"{source} is empty")
    n_lines = n_before + reader.line_num
    text = "".join(lines[:n_lines]).encode(errors="surrogateescape")
    if not text_blocks.is_utf8(text) or b"\0" in text:
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
    least = text_blocks.PIECE if n_lines else text_blocks.MAX_LINE
    return n_lines > _HEAD_LINES or len(head) >= least


def not_text(source: str, line: int) -> InputError:
    """Make the error that a text is not UTF-8."""
    hint = "if it is text, give its encoding: --encoding cp1252 or utf-16-le, for instance"
    return InputError(f"{source} is {text_blocks.NOT_UTF8}: line {line}", hint=hint)


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
    with text_blocks.long_fields():
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
        self.column_names, self.renamed = header.names, header.renamed
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
        if not block.regular or not text_blocks.is_utf8(block.data):
            return None
        found = self._turned(block, kinds) if len(self.column_names) > text_blocks.WIDE else None
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
        if any(scan(values)[1:]):  # no good numbers after all
            as_text |= (np.abs(values) > LARGEST).any(axis=0)
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
            if n_rows is not None:  # their text does not tell what they hold
                chunk = replace(chunk, frame=self._typed(chunk.frame))
            yield chunk

    def _typed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Columns as the header declares them, if they can be read so."""
        found = []
        for column in frame:
            declared = self._declared[column.name]
            if declared == "nominal":
                found.append(tidy(column).cast(pl.Categorical))
            elif declared == "numeric" and column.dtype == pl.String:
                text = tidy(column)
                numbers = text.cast(pl.Float64, strict=False)
                found += [numbers] if numbers.null_count() == text.null_count() else []
        return frame.with_columns(found)

    def _as_parsed(self, block: Block) -> Block:
        """The block with the quotes of CSV, which it is otherwise."""
        data = block.data
        if not data:
            return block
        if _SPARSE.search(data):
            raise InputError(f"{self.name} has sparse rows", hint="write it as svmlight")
        ends = block.ends
        if b"'" in data or b"\\" in data:
            data = _UNCLOSED.sub(rb'\1"', _QUOTED.sub(_requoted, data))
            lengths = map(len, data.removesuffix(b"\n").split(b"\n"))
            ends = np.cumsum(np.fromiter(lengths, np.int64, len(ends)) + 1)
            ends[-1] = len(data)
        regular = self._looks_regular(data, len(ends))
        return replace(block, data=data, ends=ends, regular=regular)


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
        raise InputError(f"{source} is {text_blocks.NOT_UTF8}: its header") from None
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
    if found is None:
        raise InputError(f"{where} is not an attribute: {line.strip()}")
    name, word = found[1], found[2]
    if name[0] in "'\"":
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    if word == "{" and "}" not in found[3]:
        raise InputError(f'{where}: the values of the attribute "{name}" do not end with }}')
    if word.lower() not in _KINDS:
        kind = word or "none"
        raise InputError(f'{where}: attribute "{name}" has the unsupported type {kind}')
    return name, _KINDS[word.lower()]
