"""The first line of a text: the names of the columns, and what separates them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fires.core.errors import InputError
from fires.streams.files.decoding import hint, utf16
from fires.streams.files.options import FOUND_OUT, TextOptions
from fires.streams.files.records import MAX_LINE, NOT_UTF8, is_utf8, long_fields
from fires.streams.files.text_blocks import PIECE, Read, Ready, always, fill

_HEAD_LINES = 100
"""Lines by which the delimiter is found."""


@dataclass(frozen=True)
class Header:
    """What the first lines of a text tell."""

    names: tuple[str, ...]
    delimiter: str
    n_bytes: int
    n_lines: int
    renamed: tuple[tuple[str, str], ...] = ()


def read_header(
    read: Read, source: str, options: TextOptions = FOUND_OUT, ready: Ready = always
) -> Header:
    r"""Read the names of the columns, and find out what separates them.

    Blanks around a name do not count; a column without a name is called after its number, and a
    name that stands there again gets a number. The line ``sep=;`` of a spreadsheet before the
    header tells the delimiter.

    Examples
    --------
    >>> read_header(io.BytesIO(b"id; size;\n1;2;3\n").read, "x.csv")
    Header(names=('id', 'size', 'column_3'), delimiter=';', n_bytes=10, n_lines=1, renamed=())
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
    n_before = 0
    if found := re.fullmatch(r"sep=(.)[;,\t|]*\r?\n?", lines[0] if lines else "", re.IGNORECASE):
        options = replace(options, delimiter=options.delimiter or found[1])
        n_before = 1
    while lines[n_before:] and (
        not lines[n_before].strip() or lines[n_before].startswith(options.comment or "\n")
    ):
        n_before += 1
    delimiter, names, n_lines = _first_record(lines[n_before:], source, options)
    n_lines += n_before
    text = "".join(lines[:n_lines])
    if not is_utf8(text):
        raise not_text(source, n_lines, head)
    if delimiter is None or "\0" in text:
        if name := utf16(head):
            raise InputError(f"{source} looks like UTF-16; try --encoding {name}")
        raise InputError(
            f"cannot find columns in {source}: no comma, semicolon, tab or bar in line "
            f"{n_lines}; CSV, TSV, NDJSON (also packed), Parquet and Arrow can be read"
        )
    if options.header:
        given, renamed = unique_names(names)
    else:
        given, renamed = tuple(f"column_{i}" for i in range(1, len(names) + 1)), ()
        n_lines, text = n_before, "".join(lines[:n_before])
    n_bytes = len(mark) + len(text.encode(errors="surrogateescape"))
    return Header(given, delimiter, n_bytes, n_lines, renamed)


def _first_record(
    lines: list[str], source: str, options: TextOptions
) -> tuple[str | None, list[str], int]:
    """The delimiter, the first record that is not blank, and the number of its last line."""
    delimiter = options.delimiter or sniff(
        [line for line in lines[:_HEAD_LINES] if not line.startswith(options.comment or "\n")],
        source,
    )
    with long_fields():
        reader = csv.reader(lines, delimiter=delimiter or ",")
        try:
            for row in reader:
                if any(map(str.strip, row)):
                    return delimiter, row, reader.line_num
        except csv.Error:
            raise InputError(f"{source} has a carriage return within its first line") from None
    raise InputError(f"{source} is empty")


def not_text(source: str, line: int, sample: bytes) -> InputError:
    """Make the error that a text is not UTF-8."""
    return InputError(f"{source} is {NOT_UTF8}: line {line}", hint=hint(sample))


def unique_names(names: Sequence[str]) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Give each column a name of its own.

    Examples
    --------
    >>> unique_names(["x", "y", "x", ""])
    (('x', 'y', 'x_2', 'column_4'), (('x', 'x_2'),))
    """
    names = [name.strip() for name in names]
    taken, met = set(names), set[str]()
    numbers: dict[str, int] = {}
    given, renamed = [], []
    for i, name in enumerate(names, start=1):
        wanted = name or f"column_{i}"
        if (name in met) if name else (wanted in taken):
            number = numbers.get(wanted, 1) + 1
            while f"{wanted}_{number}" in taken:
                number += 1
            numbers[wanted] = number
            wanted = f"{wanted}_{number}"
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
