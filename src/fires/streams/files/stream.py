"""A stream over the table in a file, or in several."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, cast

import numpy as np

from fires.columns.schema import NO_HINTS, Column, Hints
from fires.core.errors import InputError
from fires.streams.base import Bookmark
from fires.streams.files.text_blocks import BLOCK
from fires.streams.table_stream import TableStream, doubts_of, start_of, stream_of

if TYPE_CHECKING:
    from fires.columns.target import Target
    from fires.streams.files.opening import Source
    from fires.streams.files.options import TextOptions
    from fires.streams.table import Table


def from_file(
    path: Source | Sequence[Source],
    target: str | Target | None = None,
    *,
    exclude: Sequence[str] = (),
    holds: Literal["auto", "classes", "numbers"] = "auto",
    max_categories: int = 1000,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    na_values: Sequence[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
    dates: Literal["day-first", "month-first"] | None = None,
    categories: Literal["target", "codes"] = "target",
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    comment: str | None = None,
    keep_doubtful: bool = True,
    follow: bool = False,
    after: Bookmark | None = None,
    block_size: int = BLOCK,
    columns: Literal["fixed", "open"] = "fixed",
) -> TableStream:
    r"""Make a stream of a table in a file, in bounded memory however long the file is.

    What each column holds is found out from the first rows, 10,000 at most; see
    :class:`fires.columns.Columns`. A pipe is read as it fills: its rows are handed out as soon as
    there are enough for a batch, and 100 of them are looked at if no more come within a tenth of a
    second. A cell that cannot be read is a missing value, counted for its column. A row is left out
    only if its target cannot be read, if it has too many or too few fields, or bytes that are no
    text; such rows are counted and shown.

    Parameters
    ----------
    path : path, "-" for standard input, or binary file; or a sequence of them
        What it holds is found out from its first bytes: Parquet, Arrow, svmlight, a JSON object in
        each line, or text with a header, its fields separated by a comma, semicolon, tab or bar.
        Text may be packed with gzip, zstd, bz2, xz or zip. Several files hold one table, in order;
        their columns are those of the first.
    target : str, or Target, optional
        The column to predict. Its labels stay what they are: whole numbers, true and false,
        text; other numbers, and dates, are float64. The ``target`` of another stream is read as
        it is there. Only svmlight needs none: it has its own.
    exclude : sequence of str
        Columns to leave out.
    holds : {"auto", "classes", "numbers"}
        What the target holds. "auto": text, whole numbers, true and false are classes; all else is
        numbers.
    max_categories : int
        How many categories of a column get a code of their own. All later ones share the next.
    categorical, numeric : sequence of str
        Columns that hold categories, and columns that hold numbers, whatever they look like.
    na_values : sequence of str
        More words for a missing value.
    decimal, thousands : str, optional
        What stands before decimals, and between groups of three digits, where it should not be
        found out.
    dates : {"day-first", "month-first"}, optional
        How 02/01/2024 is read, where the sample does not tell.
    categories : {"target", "codes"}
        How categories become numbers: by the target of the rows before
        (:mod:`fires.columns.statistics`), or as 0, 1, 2, ... in order of appearance.
    delimiter : str, optional
        What separates the fields, where it should not be guessed.
    encoding : str, optional
        How the text was written, where neither a byte order mark tells nor it is UTF-8.
    header : bool
        The first record holds the names of the columns.
    comment : str, optional
        Lines that begin with it are skipped.
    keep_doubtful : bool
        Whether ids, clocks and copies of other columns are features all the same. What is doubted
        is in ``doubts``; see :func:`fires.columns.find_doubts`.
    follow : bool
        The file grows: the stream has no end, and waits for more lines. It goes on with the next
        file where this one is rotated, that is renamed or made empty; see
        :mod:`fires.streams.files.following`.
    after : dict, optional
        The ``bookmark()`` of an earlier stream of this table: reading goes on behind its last
        batch, and what the columns hold is as it was there, whatever else is said here.
    block_size : int
        Bytes of text to parse at once. The batches do not depend on it.
    columns : {"fixed", "open"}
        ``"fixed"``: the columns of all files are those of the first. What a later one lacks is
        missing, what only it has is not used. ``"open"``: each file has its own columns, and each
        JSON object its own keys. The ``names`` of a batch say which its columns are. No batch lies
        across two files with different columns. Of JSON, a batch has the keys of its objects. What
        a new column holds is found out from the first block of rows that has it.

    Returns
    -------
    TableStream
        The stream.

    Raises
    ------
    InputError
        With one line that says what is wrong with the file or the names of the columns.

    Examples
    --------
    >>> import io
    >>> text = b"age,town,paid\n31,Bonn,yes\n52,Ulm,no\nold,Ulm,no\n45,Ulm\n?,Ulm,yes\n27,Ulm,no\n"
    >>> stream = from_file(io.BytesIO(text), "paid", categories="codes")
    >>> [(batch.X.tolist(), batch.y.tolist()) for batch in stream.batches(3)]
    [([[31.0, 0.0], [52.0, 1.0], [nan, 1.0]], ['yes', 'no', 'no']),
     ([[nan, 1.0], [27.0, 1.0]], ['yes', 'no'])]
    >>> stream.rejected.examples
    ((5, '2 fields, the header has 3'),)
    >>> [(column["name"], column["unreadable"]) for column in stream.columns.describe()]
    [('age', 1), ('town', 0)]
    """
    from fires.streams.files.opening import (  # polars takes a while to load
        open_followed,
        open_table,
    )
    from fires.streams.files.options import TextOptions
    from fires.streams.files.svmlight import SvmlightFile, SvmlightStream

    hints = Hints(
        categorical, numeric, na_values, decimal, thousands, dates, max_categories, categories
    )
    options = TextOptions(delimiter, encoding, header, comment)
    counted = None if after is None else after.get("svmlight")
    table: Table | SvmlightFile
    if follow:
        table = open_followed(path, options, block_size, None if after is None else start_of(after))
    else:
        table = open_table(path, options, block_size, counted)
    if isinstance(table, SvmlightFile):
        if columns == "open":
            raise InputError(f"{table.text.name} is svmlight, which has no names for open columns")
        return cast("TableStream", SvmlightStream(table, after))  # it can do the same
    return stream_of(
        table,
        target,
        exclude=exclude,
        holds=holds,
        hints=hints,
        keep_doubtful=keep_doubtful,
        after=after,
        columns=columns,
    )


def look_at(
    path: Source | Sequence[Source],
    target: str | None = None,
    *,
    exclude: Sequence[str] = (),
    hints: Hints = NO_HINTS,
    options: TextOptions | None = None,
) -> TableStream:
    r"""Find out what the columns of a table hold, by its first rows. Nothing is to be predicted.

    Examples
    --------
    >>> import io
    >>> look = look_at(io.BytesIO(b"price,town\n$3,Ulm\n$4.50,Bonn\n"))
    >>> [(column["name"], column["kind"]) for column in look.columns.describe()]
    [('price', 'number'), ('town', 'category')]
    """
    from fires.columns import Columns, find_doubts
    from fires.columns.target import Target
    from fires.streams.files.opening import open_table
    from fires.streams.files.options import TextOptions
    from fires.streams.files.svmlight import SvmlightFile
    from fires.streams.sampling import exclude_columns, read_sample

    table = open_table(path, options or TextOptions())
    if isinstance(table, SvmlightFile):
        raise InputError(f"{table.text.name} is svmlight: {table.n_features:,} columns of numbers")
    used = exclude_columns(table, exclude)
    sample = read_sample(table, used, used, target)
    # Whoever learns from the table has a target, and encodes categories by it.
    learnt = Columns.learn(sample, hints, y=np.zeros(1))
    doubts = tuple(find_doubts(sample, columns=learnt))
    if target is not None and target in sample.columns:
        with suppress(InputError):  # a target that cannot be predicted is no matter here
            labels = Target.learn(sample[target], hints, "classes")
            doubts = doubts_of(sample, learnt, labels)
    _, columns = learnt.encode(sample)
    return TableStream(table, columns, Target(Column("", "empty")), doubts)
