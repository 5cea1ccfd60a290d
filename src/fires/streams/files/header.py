"""The first line of a text: the names of the columns, and what separates them."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from fires.core.errors import InputError
from fires.streams.files.records import MAX_LINE, NOT_UTF8, is_utf8, long_fields
from fires.streams.files.text_blocks import PIECE, Read, Ready, always, fill

_HEAD_LINES = 100
"""Lines by which the delimiter is found."""


@dataclass(frozen=True)
class Header:
    """The first record of a text that is not blank.

    Parameters
    ----------
    names : tuple of str
        The names of the columns.
    delimiter : str
        What separates them.
    n_bytes, n_lines : int
        How much of the text lies before the second record.
    """

    names: tuple[str, ...]
    delimiter: str
    n_bytes: int
    n_lines: int


def read_header(
    read: Read, source: str, delimiter: str | None = None, ready: Ready = always
) -> Header:
    r"""Read the names of the columns, and find out what separates them.

    Blanks around a name do not count; a column without a name is called after its number.

    Parameters
    ----------
    read : callable
        ``read(n)`` returns at most n bytes of the text, and none at its end.
    source : str
        What messages call the text.
    delimiter : str, optional
        What separates the fields, where it should not be guessed.
    ready : callable
        ``ready(seconds)`` tells whether ``read`` would return within so many seconds.

    Returns
    -------
    Header
        What the first line says.

    Examples
    --------
    >>> read_header(io.BytesIO(b"id; size;\n1;2;3\n").read, "x.csv")
    Header(names=('id', 'size', 'column_3'), delimiter=';', n_bytes=10, n_lines=1)
    """
    pieces, ended = fill(read, ready, PIECE, n_lines=_HEAD_LINES + 1)
    head = b"".join(pieces)
    while not ended and b"\n" not in head and len(head) <= MAX_LINE:
        pieces, ended = fill(read, ready, PIECE)
        head = b"".join([head, *pieces])
    mark = head[: 3 * head.startswith(b"\xef\xbb\xbf")]
    lines = list(io.StringIO(head[len(mark) :].decode("utf-8", "surrogateescape"), newline="\n"))
    if not ended and not lines[-1].endswith("\n"):
        lines.pop()
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter > "~"):
        raise InputError(f"{delimiter!r} cannot separate fields: one ASCII character can")
    delimiter = delimiter or sniff(lines[:_HEAD_LINES], source)
    with long_fields():
        reader = csv.reader(lines, delimiter=delimiter or ",")
        try:
            names = next((row for row in reader if any(map(str.strip, row))), None)
        except csv.Error:
            raise InputError(f"{source} has a carriage return within its first line") from None
    if names is None:
        raise InputError(f"{source} is empty")
    text = "".join(lines[: reader.line_num])
    if not is_utf8(text):
        raise InputError(f"{source} is {NOT_UTF8}: line {reader.line_num}")
    if delimiter is None or "\0" in text:
        raise InputError(
            f"cannot find columns in {source}: no comma, semicolon, tab or bar in line "
            f"{reader.line_num}; CSV, TSV (also .gz) and Parquet can be read"
        )
    stripped = (name.strip() or f"column_{i}" for i, name in enumerate(names, start=1))
    return Header(tuple(stripped), delimiter, len(mark) + len(text.encode()), reader.line_num)


def sniff(lines: list[str], source: str = "") -> str | None:
    """Find the delimiter that cuts most lines into as many fields as the first, and into most.

    Parameters
    ----------
    lines : list of str
        The first lines of a text.
    source : str
        The name of the file, whose ending may tell.

    Returns
    -------
    str or None
        A comma, semicolon, tab or bar; None if no line has any of them.

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
