"""From FILE and the options that say how to read it to a stream of rows."""

from __future__ import annotations

import glob
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.text import listed, say
from fires.core.errors import InputError, Question

if TYPE_CHECKING:
    from fires.columns.schema import Kind
    from fires.streams.files import RowReader
    from fires.streams.registry import Scheme
    from fires.streams.table import Rejected
    from fires.streams.table_stream import TableStream
    from fires.streams.text import TextOptions


# Seconds after which a user is told what is waited for.
_PATIENCE = 3.0
_SEPARATORS = {"\\t": "\t", "tab": "\t", "space": " "}  # what shells swallow
# FILE, and how it is read where it is known what its columns hold.
OF_TEXT = ("file", "sep", "encoding", "no_header", "comment")
# What is said of sources that may grow.
OF_SOURCES = ("follow", "position", "until_end")


@options.record
class Reading:
    """FILE, and what the user said of it.

    Parameters
    ----------
    exclude
        Columns to leave out, separated by commas.
    categorical
        Columns of categories, even if they look like numbers; separated by commas.
    numeric
        Columns of numbers; other values count as missing; separated by commas.
    keep_doubtful
        Use ids, clocks and copies of other columns too, without warnings.
    na_values
        More words for a missing value, separated by commas.
    decimal
        The decimal separator.
    thousands
        The thousands separator.
    dates
        How to read 01/02/2024 if the rows leave it open.
    sep
        The field separator: ";", tab, space, ...  [default: detected]
    encoding
        The encoding of text, such as latin-1.
    no_header
        The first line is a row; columns are named column_1, column_2, ...
    comment
        Lines that start with this are skipped.
    follow
        Keep reading as FILE grows, through log rotation.
    position
        A unique column of a query that its rows are ordered by: --resume needs it.
    until_end
        Stop at the current end of a topic or Redis stream instead of waiting for more.
    """

    file: tuple[str, ...] = options.argument(metavar="FILE...", nargs=-1, required=True)
    exclude: tuple[str, ...] = options.columns()
    # The second is what it was called before.
    keep_doubtful: bool = options.flag("", "--keep-suspicious", "--keep-doubtful")
    categorical: tuple[str, ...] = options.columns()
    numeric: tuple[str, ...] = options.columns()
    na_values: tuple[str, ...] = options.option("WORD", multiple=True)
    decimal: str | None = options.option(type=click.Choice([".", ","]))
    thousands: str | None = options.option("CHAR")
    dates: str | None = options.option(type=click.Choice(["day-first", "month-first"]))
    sep: str | None = options.option(
        "CHAR", callback=lambda ctx, option, value: _SEPARATORS.get(value, value)
    )
    encoding: str | None = options.option("NAME")
    no_header: bool = options.flag()
    comment: str | None = options.option("CHAR")
    follow: bool = options.flag()
    position: str | None = options.option("COL")
    until_end: bool = options.flag()

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files themselves, those of a pattern in the order of their names."""
        files = tuple(path for given in self.file for path in _matching(given))
        if "-" in files and len(files) > 1:
            raise InputError("standard input cannot be read together with files")
        if len(files) > 1 and any(map(_scheme, files)):
            raise InputError("a topic, a stream or a query cannot be read together with others")
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
        return self._scheme is None and any(
            file == "-" or Path(file).is_fifo() or Path(file).is_char_device()
            for file in self.files
        )

    @cached_property
    def _scheme(self) -> Scheme | None:
        """What is read, if it is no file."""
        return _scheme(self.files[0])

    def open(self, target: str | None, *, columns: str = "fixed", **more: Any) -> TableStream:
        """Make a stream of the rows."""
        names, scheme = self._names_with_commas(), self._scheme
        is_broker = scheme is not None and scheme.is_broker
        if self.position is not None and (scheme is None or is_broker):
            raise InputError("--position is for queries", hint="give duckdb:FILE?select ...")
        if self.follow and scheme:
            raise InputError("--follow is for files: a topic or a stream is read as it grows")
        if self.until_end and not is_broker:
            raise InputError("--until-end is for topics and streams of Redis")
        if columns == "open":
            if scheme and not is_broker:
                raise InputError(
                    "--columns open is for files and messages: a query has its columns"
                )
            more["columns"] = columns
        exclude = named_columns(self.exclude, names)
        more |= {"exclude": exclude, "keep_doubtful": self.keep_doubtful}
        more |= self._said_of_columns(names)
        with self._named_in_questions(), self._saying_that_it_waits(self.follow or is_broker):
            if scheme:
                from fires.streams.registry import opener_of

                how = {"until_end": self.until_end} if is_broker else {"position": self.position}
                stream: TableStream = opener_of(scheme)(self.files[0], target, **how, **more)
                return stream
            from fires.streams.files import from_file

            if self.follow:
                more["follow"] = True
            files = self.files[0] if self.follow else self.files
            return from_file(files, target, **vars(self._text_options()), **more)

    @contextmanager
    def _saying_that_it_waits(self, has_no_end: bool) -> Iterator[None]:
        """Tell the user, if a source without an end has too few rows to begin with."""
        if click.get_current_context().params.get("quiet") or not has_no_end:
            yield
            return
        line = (
            f"waiting for the first 100 rows of {self.name}, to determine the types of its columns"
        )
        timer = Timer(_PATIENCE, say, [line])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def look(self, target: str | None = None) -> TableStream:
        """Find out what the columns hold, from the first rows alone."""
        from fires.columns import Hints
        from fires.streams.files import look_at

        names = self._names_with_commas()
        exclude = named_columns(self.exclude, names)
        hints = Hints(**self._said_of_columns(names))
        with self._named_in_questions():
            text = self._text_options()
            return look_at(self.files, target, exclude=exclude, hints=hints, options=text)

    def rows(
        self,
        kinds: Mapping[str, Kind],
        keep: Sequence[str] = (),
        if_present: Sequence[str] = (),
        *,
        may_lack: bool = False,
    ) -> RowReader:
        """Make a reader of rows from which nothing is to be learnt."""
        from fires.streams.files import RowReader

        keep = named_columns(keep, self._names_with_commas(*keep))
        text = self._text_options()
        return RowReader(self.files, kinds, keep, if_present, text, may_lack=may_lack)

    @contextmanager
    def _named_in_questions(self) -> Iterator[None]:
        """Let questions name the file: who asks them sees nothing but columns."""
        try:
            yield
        except Question as error:
            raise error.at(self.name) from None

    def _text_options(self) -> TextOptions:
        """What was said of the text."""
        from fires.streams.text import TextOptions

        return TextOptions(self.sep, self.encoding, not self.no_header, self.comment)

    def _said_of_columns(self, names: Sequence[str]) -> dict[str, Any]:
        """What was said of the columns."""
        return {
            "categorical": named_columns(self.categorical, names),
            "numeric": named_columns(self.numeric, names),
            "na_values": named_columns(self.na_values, ()),
            "decimal": self.decimal,
            "thousands": self.thousands,
            "dates": self.dates,
        }

    def _names_with_commas(self, *more: str) -> Sequence[str]:
        """The names of the columns, if one of those given may have a comma in it.

        Of what can be read only once, they are not known.
        """
        given = (*self.exclude, *self.categorical, *self.numeric, *more)
        if self.reads_once or self._scheme or not any("," in value for value in given):
            return ()
        from fires.streams.files import open_table

        return open_table(self.files[0], self._text_options()).column_names


def _scheme(name: str) -> Scheme | None:
    """What a name stands for if it names no file."""
    if ":" not in name:
        return None
    from fires.streams.registry import scheme_of

    return scheme_of(name)


def _matching(given: str) -> list[str]:
    """The files that a name or a pattern stands for."""
    if not given:
        raise InputError("a file name is empty")
    if re.match(r"(https?|ftp|s3|gs)://", given):
        download = f"curl -L {given} | fires select - ..."
        raise InputError(f"{given} is a URL", hint=f"download it first: {download}")
    path = Path(given)
    if given == "-" or _scheme(given) or path.exists() or not glob.has_magic(given):
        if path.is_dir():
            example = os.path.join(given, "*.csv")
            raise InputError(f"{given} is a directory", hint=f'name its files: "{example}"')
        return [given]
    files = sorted(file for file in glob.glob(given, recursive=True) if not Path(file).is_dir())
    if not files:
        raise InputError(f"no file matches {given}")
    return files


def named_columns(values: Sequence[str], known: Sequence[str]) -> list[str]:
    """The names that an option was given, in one text or in several."""
    names = []
    for value in values:
        names += [value] if value in known else [part for part in value.split(",") if part]
    return list(dict.fromkeys(names))


def rejected_lines(rejected: Rejected) -> list[str]:
    """The rows that could not be used, for the user."""
    if not rejected.count:
        return []
    more = ["  ..."] if rejected.count > len(rejected.examples) else []
    shown = [f"  {rejected.unit} {line}: {why}" for line, why in rejected.examples]
    s = "s" * (rejected.count > 1)
    return [f"{rejected.count:,} row{s} could not be used:", *shown, *more]


class Notices:
    """What a user might not expect of the columns: one line each on standard error, once."""

    def __init__(self, stream: TableStream | RowReader, quiet: bool) -> None:
        self._stream, self._quiet = stream, quiet
        self._told: set[str] = set()
        self.tell()

    def tell(self, *, ended: bool = False) -> None:
        """Tell what was found since the last time."""
        for line in [*self._stream.surprises(), *doubt_lines(self._stream, ended=ended)]:
            if line not in self._told and not self._quiet:
                say(line)
            self._told.add(line)


def doubt_lines(stream: TableStream | RowReader, *, ended: bool) -> list[str]:
    """What is suspicious about the columns, and what to do: one line for each reason.

    Nothing is said of constants before the end: they may change. Nothing is said at all with
    ``--keep-suspicious``.
    """
    if click.get_current_context().params.get("keep_doubtful"):
        return []
    groups: dict[tuple[str, str, bool], list[str]] = {}
    used = {column.name for column in stream.columns.used} if stream.columns else set()
    for doubt in stream.doubts:
        is_out = doubt.is_no_feature and doubt.column not in used
        groups.setdefault((doubt.kind, doubt.why, is_out), []).append(doubt.column)
    lines = []
    for (kind, why, is_out), columns in groups.items():
        several, exclude = len(columns) > 1, f"--exclude {shlex.quote(','.join(columns[:20]))}"
        shown = listed([f'"{column}"' for column in columns])
        each = f"columns {shown}: each" if several else f"column {shown}"
        if is_out:
            cost = ", along with any trend over time" * (kind == "clock")
            keep = f"--keep-suspicious keeps {'them' if several else 'it'}"
            lines.append(f"{each} {why}: excluded ({kind}){cost}, as with {exclude}; {keep}")
        elif kind != "constant":
            unless = "if it is not known at prediction time, " if kind == "leak" else ""
            lines.append(f"CAUTION: {each} {why}: possible {kind}; {unless}{exclude}")
        elif ended:
            lines.append(f"{each} {why} (constant): no information; {exclude}")
    return lines
