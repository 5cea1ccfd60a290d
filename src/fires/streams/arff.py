"""Tables in ARFF, the format of Weka: a header that says what each column holds, then rows."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import polars as pl

from fires.columns.cells import tidy
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.table import Chunks, Kinds
from fires.streams.text_blocks import NOT_UTF8, Block, Lines
from fires.streams.text_source import TextSource
from fires.streams.text_table import Header, TextOptions, TextTable, unique_names

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

    def __init__(self, text: TextSource, block_size: int) -> None:
        header, self._declared = read_arff_header(text.top(_has_header)[0], text.name)
        super().__init__(text, TextOptions(comment="%"), block_size, header)
        self._cut = Lines(block_size)

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


def _has_header(head: bytes) -> bool:
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
    if found is None:
        raise InputError(f"{where} is no attribute: {line.strip()}")
    name, word = found[1], found[2]
    if name[0] in "'\"":
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    if word == "{" and "}" not in found[3]:
        raise InputError(f'{where}: the values of the attribute "{name}" do not end with }}')
    if word.lower() not in _KINDS:
        kind = word or "none"
        raise InputError(f'{where}: the attribute "{name}" is of type {kind}, not known here')
    return name, _KINDS[word.lower()]
