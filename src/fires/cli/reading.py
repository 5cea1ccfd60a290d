"""From FILE and the options that say how to read it to a stream of rows."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli.text import printable
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.streams.files import FileStream


@dataclass(frozen=True)
class Reading:
    """What the user said of the files: the values of :func:`fires.cli.options.reading`.

    Parameters
    ----------
    file : tuple of str
        Files, patterns such as ``events/*.csv``, or ``-`` for standard input.
    exclude, categorical, numeric : tuple of str
        Names of columns; several in one text have commas between them.
    na_values : tuple of str
        Words for missing values, in the same way.
    sep, decimal, thousands, encoding, comment, dates : str or None
        How the text is written.
    no_header : bool
        Whether the first line is a row.
    """

    file: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    na_values: tuple[str, ...] = ()
    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    no_header: bool = False
    comment: str | None = None
    dates: str | None = None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files themselves, those of a pattern in the order of their names.

        Raises
        ------
        InputError
            If there is none.
        """
        files = tuple(path for given in self.file for path in _matching(given))
        if "-" in files and len(files) > 1:
            raise InputError("standard input cannot be read together with files")
        if files == ("-",) and (sys.stdin is None or sys.stdin.closed):
            raise InputError("standard input is closed", hint="pipe a table into it, or name FILE")
        return files

    @property
    def name(self) -> str:
        """What to call the files in one line."""
        first, *more = self.files
        first = "standard input" if first == "-" else first
        return f"{first} and {len(more):,} more" if more else first

    @property
    def reads_once(self) -> bool:
        """Whether a file is a pipe, or standard input: what has been read of it is gone."""
        return any(
            file == "-" or Path(file).is_fifo() or Path(file).is_char_device()
            for file in self.files
        )

    def open(self, target: str | None, **more: Any) -> FileStream:
        """Make a stream of the rows.

        Parameters
        ----------
        target : str or None
            The column to predict.
        **more
            Other arguments of :func:`fires.streams.files.from_file`.

        Returns
        -------
        FileStream
            The stream.
        """
        from fires.streams.files import from_file

        named = {"exclude": self.exclude, "categorical": self.categorical, "numeric": self.numeric}
        names = self._known_names(named.values())
        given: dict[str, Any] = {what: named_columns(named[what], names) for what in named}
        given |= self._text | {"na_values": named_columns(self.na_values, ())}
        given = {name: value for name, value in given.items() if value not in (None, [], True)}
        return from_file(self._source, target, **given, **more)

    @property
    def _source(self) -> Any:
        return self.files[0] if len(self.files) == 1 else list(self.files)

    @property
    def _text(self) -> dict[str, Any]:
        return {
            "delimiter": self.sep,
            "decimal": self.decimal,
            "thousands": self.thousands,
            "encoding": self.encoding,
            "header": not self.no_header,
            "comment": self.comment,
            "dates": self.dates,
        }

    def _known_names(self, given: Any) -> Sequence[str]:
        """The names of the columns, where one of those given may have a comma in it."""
        if self.reads_once or not any("," in value for values in given for value in values):
            return ()
        from fires.streams.files.opening import open_table
        from fires.streams.files.text_blocks import BLOCK

        return open_table(self.files[0], self.sep, BLOCK).column_names


def _matching(given: str) -> list[str]:
    """The files that a name or a pattern stands for."""
    if not given:
        raise InputError("the name of a file is empty")
    path = Path(given)
    if given == "-" or path.exists() or not glob.has_magic(given):
        if path.is_dir():
            example = os.path.join(given, "*.csv")
            raise InputError(f"{given} is a directory", hint=f'name its files: "{example}"')
        return [given]
    files = sorted(file for file in glob.glob(given, recursive=True) if not Path(file).is_dir())
    if not files:
        raise InputError(f"no file matches {given}")
    return files


def named_columns(values: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names that an option was given, in one text or in several.

    Parameters
    ----------
    values : sequence of str
        What was given. A text with commas stands for several names, unless it is one itself.
    known : sequence of str
        The names that there are.

    Returns
    -------
    list of str
        Each name once.

    Examples
    --------
    >>> named_columns(["id,time", "size, net"], ["id", "time", "size, net"])
    ['id', 'time', 'size, net']
    """
    names = []
    for value in values:
        names += [value] if value in known else [part for part in value.split(",") if part]
    return list(dict.fromkeys(names))


class Notices:
    """What a user might not expect of the columns: one line each on standard error, once.

    Parameters
    ----------
    stream : FileStream
        What is read. What its first rows show is told at once.
    quiet : bool
        Whether nothing is to be told.
    """

    def __init__(self, stream: FileStream, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._told: set[str] = set()
        self.tell()

    def tell(self) -> None:
        """Tell what was found since the last time."""
        for line in surprises(self._stream):
            if line not in self._told and not self._quiet:
                click.echo(printable(line), err=True)
            self._told.add(line)


# The two that follow are all that commands know of the columns of a stream.


def surprises(stream: FileStream) -> list[str]:
    """What a user might not expect of the columns, as far as it is known by now.

    Parameters
    ----------
    stream : FileStream
        What is read.

    Returns
    -------
    list of str
        A line each.
    """
    return stream.surprises() if hasattr(stream, "surprises") else []


def describe(stream: FileStream) -> list[dict[str, Any]]:
    """Every column of the table, and what is done with it.

    Parameters
    ----------
    stream : FileStream
        What is read.

    Returns
    -------
    list of dict
        Name, kind, share of missing values, count of those that could not be read, distinct
        values, an example, and what was done.
    """
    columns = stream.columns
    return columns.describe() if hasattr(columns, "describe") else []
