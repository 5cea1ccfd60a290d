"""Text is read record by record, by the csv module; what is wrong with a record is said.

This is slow, and used only where the text is irregular. The csv module's reading of odd quotes is
the reference for everything else.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from threading import Lock

MAX_LINE = 64 << 20
"""A longer line is no table."""
MAX_RECORD = 1 << 20
"""A record of several lines that is longer than this has a quote that nobody closed."""

NOT_UTF8 = "not UTF-8 text"
UNCLOSED = "a quote is opened and not closed"
UNQUOTED = "there is text between a closing quote and the end of its field"
RETURN = "a carriage return within the line"

_CSV_LIMIT = Lock()  # The csv module has one limit for all threads.


@contextmanager
def long_fields() -> Iterator[None]:
    """Let the csv module read fields of any length."""
    with _CSV_LIMIT:
        former = csv.field_size_limit(MAX_LINE)
        try:
            yield
        finally:
            csv.field_size_limit(former)


@long_fields()
def walk(
    data: bytes, delimiter: str, width: int, *, comment: str | None = None, final: bool = True
) -> list[tuple[int, list[str] | str]]:
    r"""Read whole lines record by record.

    A record of several lines that is wrong is not lost whole: its first line is, and reading goes
    on with the second, since a quote too many is the likely reason.

    Examples
    --------
    >>> walk(b'1,2\n3,"4\n5,6\n7\n', ",", 2)
    [(1, ['1', '2']), (1, 'a quote is opened and not closed'), (1, ['5', '6']),
     (1, '1 field, the header has 2')]
    """
    text = data.decode("utf-8", "surrogateescape")
    lines = list(io.StringIO(text, newline="\n"))
    decoded = is_utf8(text)
    records: list[tuple[int, list[str] | str]] = []
    at = 0
    while at < len(lines):
        if _is_comment(lines, at, comment):
            records.append((1, []))
            at += 1
            continue
        start, dry = at, list[bool]()
        feed = chain(map(lines.__getitem__, range(at, len(lines))), _once_dry(dry))
        reader = csv.reader(feed, delimiter=delimiter, strict=True)
        while not _is_comment(lines, at, comment):
            try:
                row = next(reader)
                fault = _fault(row, width)
            except StopIteration:
                return records
            except csv.Error as error:
                row, fault = [], RETURN if "new-line" in str(error) else UNQUOTED
            n_lines = start + reader.line_num - at
            if n_lines > 1 or dry:
                too_long = _n_bytes(lines[at : at + n_lines]) > MAX_RECORD
                if dry and not final and not too_long:
                    return records
                if dry or fault or too_long:
                    records.append((1, UNCLOSED))
                    at += 1
                    break
            if not decoded and not is_utf8("".join(row)):
                fault = NOT_UTF8
            records.append((n_lines, fault or row))
            at += n_lines
    return records


def _is_comment(lines: list[str], at: int, comment: str | None) -> bool:
    return comment is not None and at < len(lines) and lines[at].startswith(comment)


def _once_dry(dry: list[bool]) -> Iterator[str]:
    """No lines, but a note that more were wanted: within a record, its quote is still open."""
    dry.append(True)
    yield from ()


def _n_bytes(lines: list[str]) -> int:
    return len("".join(lines).encode("utf-8", "surrogateescape"))


def _fault(row: list[str], width: int) -> str | None:
    """Say what is wrong with a row, if anything is."""
    if len(row) == 1 and not row[0].strip():
        row.clear()
    if row and len(row) != width:
        return f"{len(row)} field{'s' if len(row) > 1 else ''}, the header has {width}"
    return None


def is_utf8(text: str) -> bool:
    r"""Whether a text that was decoded with ``surrogateescape`` was UTF-8 throughout.

    Examples
    --------
    >>> is_utf8("größer"), is_utf8(b"gr\xf6\xdfer".decode("utf-8", "surrogateescape"))
    (True, False)
    """
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
