"""The rows that a query finds in a database of DuckDB or SQLite."""

from __future__ import annotations

import ctypes
import os
import re
import sqlite3
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
import polars as pl

from fires.columns.target import Target
from fires.core.errors import InputError
from fires.core.optional import require
from fires.core.types import Json
from fires.streams.base import Position
from fires.streams.table import Chunk, Chunks, Kinds, Table
from fires.streams.table_stream import TableStream, no_column, stream_of

Pointers: TypeAlias = "ctypes.Array[ctypes.c_void_p]"
_Rows = Generator[tuple[pl.DataFrame, list[Json]]]  # and the position of each row

_API = ctypes.pythonapi
_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
_N_SCHEMA, _N_ARRAY = 9, 10  # pointers and counts of eight bytes that the two structures hold
_RELEASE = 8  # which of an array's is nothing behind the last one

_CHUNK_CELLS = 1_000_000  # handed out at once
_PATIENCE = 5.0  # seconds to wait for another program that writes to a database of SQLite
_MEMORY = "1GB"  # that DuckDB may use; it puts what is more into temporary files
_PLACE = "the place of each row"  # what the position column is called among the others
_IN_USE = re.compile("lock on file|different configuration|locked")


class _Batch:
    """One array of the stream, for polars to take."""

    def __init__(self, schema: Pointers, array: Pointers) -> None:
        self._schema, self._array = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return (
            _API.PyCapsule_New(ctypes.c_void_p(ctypes.addressof(self._schema)), b"arrow_schema", 0),
            _API.PyCapsule_New(ctypes.c_void_p(ctypes.addressof(self._array)), b"arrow_array", 0),
        )


def frames_of(source: Any) -> Generator[pl.DataFrame]:
    """Take the rows of an Arrow stream, as they come.

    Examples
    --------
    >>> [frame.rows() for frame in frames_of(pl.DataFrame({"x": [1, 2], "y": ["a", "b"]}))]
    [[(1, 'a'), (2, 'b')]]
    """
    _API.PyCapsule_New.restype = ctypes.py_object
    _API.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule = ctypes.py_object(source.__arrow_c_stream__())
    address = _API.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    get_schema, get_next, get_last_error = (ctypes.c_size_t * 3).from_address(address)

    def get(function: int, size: int) -> Pointers:
        found = (ctypes.c_void_p * size)()
        if _GET(function)(address, ctypes.addressof(found)):
            message = _LAST_ERROR(get_last_error)(address) or b"it does not say why"
            raise ValueError(message.decode(errors="replace"))
        return found

    while True:
        array = get(get_next, _N_ARRAY)
        if not array[_RELEASE]:
            return
        yield pl.DataFrame(_Batch(get(get_schema, _N_SCHEMA), array))


def from_sql(
    uri: str,
    target: str | Target | None = None,
    *,
    position: str | None = None,
    exclude: Sequence[str] = (),
    **options: Any,
) -> TableStream:
    """Make a stream of the result of a query. The database is only read.

    Parameters
    ----------
    uri : str
        ``duckdb:PATH?QUERY`` or ``sqlite:PATH?QUERY``, where the query is one that only reads.
    target : str, or Target
        The column to predict; as in :func:`fires.streams.from_file`.
    position : str, optional
        A column of the query with unique values, such as a key or a time: rows come in its order,
        and reading can continue after any of them. It is not a feature. Without it, rows come in
        the order in which the database returns them, and there is no bookmark.
    exclude : sequence of str
        Columns to leave out.
    **options
        The other column options of :func:`fires.streams.from_file`; and ``after``, the
        ``bookmark()`` of an earlier stream of this query: reading continues after its last batch,
        with the same kinds of columns, whatever the other options are.

    Returns
    -------
    TableStream
        The stream. It ends where the query does.

    Raises
    ------
    InputError
        With one line about the database, the query or the columns. Two rows with the same
        position are detected while reading.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = folder + "/shop.db"
    ...     with closing(sqlite3.connect(path)) as database:
    ...         _ = database.execute("create table sales (id, price, paid)")
    ...         _ = database.execute("insert into sales values (2, 1.5, 'no'), (1, 3, 'yes')")
    ...         database.commit()
    ...     stream = from_sql(f"sqlite:{path}?select * from sales", "paid", position="id")
    ...     [(batch.X.tolist(), batch.y.tolist()) for batch in stream.batches(10)]
    [([[3.0], [1.5]], ['yes', 'no'])]
    """
    table = SqlTable(uri, position)
    exclude = [exclude] if isinstance(exclude, str) else exclude
    if position is not None and position == target:
        raise InputError(f'"{position}" cannot be the position and the target')
    exclude = [name for name in exclude if name != position]
    return stream_of(table, target, exclude=exclude, **options)


class SqlTable(Table):
    """What a query finds; see :func:`from_sql`."""

    unit = "row"

    def __init__(self, uri: str, position: str | None = None) -> None:
        kind, path, query = _parts(uri)
        self.name = f"{kind}:{path}"
        self._database = _DATABASES[kind](path, self.name)
        self._query = f"(\n{query}\n) as query"
        self._types = self._database.columns(self._query)
        self._position = position
        if position is not None and position not in self._types:
            raise no_column(position, list(self._types), self.name)
        self.column_names = tuple(name for name in self._types if name != position)
        if position is None:
            self.no_bookmark = (
                f"{self.name} is read in the order in which the database returns its rows; to "
                "resume later, name a column that is unique in each row: --position COL"
            )

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the rows in order; see :meth:`Table.chunks`."""
        names = [name for name in self.column_names if name in kinds]
        size = max(1, _CHUNK_CELLS // max(len(names), 1))
        n_read, last, has_last = start.offset, start.mark, start.mark is not None
        with closing(self._rows(names, last, size, n_rows)) as found:
            for frame, marks in found:
                skip = int(has_last and marks[:1] == [last])  # the row that was the last one
                has_last = False
                tie = self._tie([last, *marks], skip)
                for at in range(skip, tie, size):
                    rows = slice(at, min(at + size, tie))
                    numbers = np.arange(n_read + rows.start, n_read + rows.stop) - skip + 1
                    end = partial(_end, int(numbers[0]), marks[rows])
                    yield Chunk(frame[rows], numbers, end)
                if tie < len(marks):
                    raise InputError(
                        f'{self.name}: two rows have the position "{self._position}" = '
                        f"{marks[tie]!r}, so their order is undefined",
                        hint="name a column that is unique in each row",
                    )
                n_read, last = n_read + len(marks) - skip, marks[-1] if marks else last

    def _tie(self, marks: Sequence[Json], first: int) -> int:
        """The row whose mark is that of the row before; marks begin with that before them all."""
        last = len(marks) - 1
        pairs = enumerate(pairwise(marks)) if self._position is not None else ()
        # NaN is like any NaN
        return next((i for i, (a, b) in pairs if i >= first and (a == b or b != b)), last)

    def _rows(self, names: list[str], last: Json, size: int, n_rows: int | None) -> _Rows:
        """Run the query. The row that was the last one comes too: another may be like it."""
        database, values = self._database, []
        columns = [database.read_as(name, self._types[name]) for name in names]
        order = limit = where = ""
        place = "null"
        if self._position is not None:
            self._refuse_null(self._position)
            by, place, value = database.place(self._position, self._types[self._position])
            order = f"order by {by}"
            if last is not None:
                where, values = f"where {by} >= {value}", [last]
        if n_rows is not None:
            limit = f"limit {n_rows + 1}"
        columns.append(f"{place} as {quoted(_PLACE)}")
        sql = f"select {', '.join(columns)} from {self._query} {where} {order} {limit}"
        yield from database.rows(sql, values, size)

    def _refuse_null(self, position: str) -> None:
        """Such rows are neither before nor behind any other."""
        sql = f"select 1 as {quoted(_PLACE)} from {self._query} where {quoted(position)} is null"
        if any(marks for _, marks in self._database.rows(f"{sql} limit 1", [], 1)):
            raise InputError(
                f'{self.name}: the position "{position}" is NULL in some rows',
                hint="leave them out in the query, or name another column",
            )


def _end(first: int, marks: Sequence[Json], row: int) -> Position:
    """Where a row ends; the first has this number."""
    return Position(offset=first + row, line=first + row, mark=marks[row])


def _parts(uri: str) -> tuple[str, Path, str]:
    """The kind of the database, its file, and the query."""
    found = re.fullmatch(r"(duckdb|sqlite):([^?]+)\?(.*)", uri, re.DOTALL)
    query = found[3].strip().rstrip(";").strip() if found else ""
    if found is None or not query:
        raise InputError(
            f'"{uri}" names no query',
            hint='write "duckdb:FILE?select * from TABLE", or sqlite: instead of duckdb:',
        )
    path = Path(found[2])
    if not path.is_file():  # it would be made
        raise InputError(f"cannot read {path}: there is no such file")
    return found[1], path, query


def quoted(name: str) -> str:
    """A name as it stands in a query."""
    return '"' + name.replace('"', '""') + '"'


class _Database:
    """What both databases do."""

    def __init__(self, name: str, *errors: type[Exception]) -> None:
        self._name, self._errors = name, errors

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            raise error.at(self._name) from None
        except self._errors as error:
            reason = str(error).partition("\n")[0]
            if _IN_USE.search(reason):
                raise InputError(
                    f"{self._name} is in use by another program, which writes to it",
                    hint="wait until it is done, or read a copy",
                ) from None
            raise InputError(reason, self._name) from None


class _DuckDB(_Database):
    _PLAIN_NUMBER = r"U?(TINYINT|SMALLINT|INTEGER|BIGINT)|DOUBLE"
    _READ_AS = (
        ("(DATE|TIMESTAMP).*", "case when isfinite({0}) then {0} end"),  # these may be infinite
        (rf"{_PLAIN_NUMBER}|FLOAT|BOOLEAN|VARCHAR|BLOB|TIME|DECIMAL\(\d+,\s*\d+\)", "{0}"),
        ("U?HUGEINT", "cast({0} as double)"),
        ("INTERVAL", "epoch({0})"),
        (r".*\]|(STRUCT|MAP|UNION)\(.*", "[cast({0} as varchar)]"),
        (".*", "cast({0} as varchar)"),
    )

    def __init__(self, path: Path, name: str) -> None:
        library = require("duckdb", "a database of DuckDB", "sql")
        super().__init__(name, library.Error, ValueError)
        with self._plain_errors():
            # It stays open as long as anything is read: a second opening would wait for that.
            self._connection = library.connect(str(path), read_only=True)
            # By itself it would take four fifths of the memory, and put what a great sort does not
            # hold there beside the database.
            self._connection.execute(f"set memory_limit = '{_MEMORY}'")
            spill = os.path.join(tempfile.gettempdir(), f"fires-duckdb-{os.getpid()}")
            self._connection.execute("set temp_directory = $1", [spill])

    def columns(self, query: str) -> dict[str, str]:
        """The names of the columns that a query gives, and their types."""
        with self._plain_errors(), closing(self._connection.cursor()) as cursor:
            relation = cursor.sql(f"select * from {query}")
            return dict(zip(relation.columns, map(str, relation.types), strict=True))

    def read_as(self, name: str, kind: str) -> str:
        """What to select, so that a column comes in a type that polars has."""
        forms = (form for types, form in self._READ_AS if re.fullmatch(types, kind, re.DOTALL))
        return f"{next(forms).format(quoted(name))} as {quoted(name)}"

    def place(self, name: str, kind: str) -> tuple[str, str, str]:
        """What to order by; its value as number or text; what stands for a value in a query."""
        by = quoted(name)
        is_number = re.fullmatch(self._PLAIN_NUMBER, kind)
        return by, by if is_number else f"cast({by} as varchar)", f"cast($1 as {kind})"

    def rows(self, sql: str, values: Sequence[Json], size: int) -> _Rows:
        """Run a query; rows come as the database likes, or about so many at once."""
        with (
            self._plain_errors(),
            closing(self._connection.cursor()) as cursor,
            closing(frames_of(cursor.sql(sql, params=list(values)))) as frames,
        ):
            for frame in frames:
                yield frame.drop(_PLACE), frame[_PLACE].to_list()


class _SQLite(_Database):
    def __init__(self, path: Path, name: str) -> None:
        super().__init__(name, sqlite3.Error, sqlite3.Warning)
        with self._plain_errors():
            address = f"file:{quote(str(path))}?mode=ro"
            self._connection = sqlite3.connect(
                address, uri=True, timeout=_PATIENCE, check_same_thread=False
            )
            self._connection.text_factory = _escaped

    def columns(self, query: str) -> dict[str, str]:
        with self._plain_errors():
            cursor = self._connection.execute(f"select * from {query} limit 0")
            return {column[0]: "" for column in cursor.description}

    def read_as(self, name: str, kind: str) -> str:
        return quoted(name)

    def place(self, name: str, kind: str) -> tuple[str, str, str]:
        # Another collation may take two texts for the same, and their order is open then.
        return f"{quoted(name)} collate binary", quoted(name), "?"

    def rows(self, sql: str, values: Sequence[Json], size: int) -> _Rows:
        with self._plain_errors(), closing(self._connection.execute(sql, values)) as cursor:
            names = [column[0] for column in cursor.description]
            while rows := cursor.fetchmany(size):
                *columns, marks = zip(*rows, strict=True)
                if any(isinstance(mark, bytes) for mark in marks):
                    raise InputError("bytes cannot be a position")
                yield pl.DataFrame(list(map(_series, names, columns))), list(marks)


_DATABASES: Mapping[str, type[_DuckDB | _SQLite]] = {"duckdb": _DuckDB, "sqlite": _SQLite}


def _escaped(data: bytes) -> str:
    """Text of SQLite, which may be any bytes."""
    return data.decode("utf-8", "backslashreplace")


def _series(name: str, values: Sequence[float | str | bytes | None]) -> pl.Series:
    """A column of SQLite, each of whose values has a type of its own: mixed ones become text."""
    series = pl.Series(name, values, strict=False)
    if series.dtype in (pl.Object, pl.Binary) and {type(v) for v in values} - {bytes, type(None)}:
        texts = [_escaped(value) if isinstance(value, bytes) else value for value in values]
        return pl.Series(name, texts, strict=False)
    return series
