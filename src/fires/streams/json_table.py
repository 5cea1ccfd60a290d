"""Tables of JSON objects, one a line, whose keys are columns: NDJSON, and messages of brokers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import closing

import polars as pl

from fires.core.errors import InputError
from fires.core.types import Json
from fires.streams import text as texts
from fires.streams.base import Position
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS, Kinds, unreadable
from fires.streams.text import Block, BlockTable, Lines, Parsed, TextSource

NOT_AN_OBJECT = "not a JSON object"
NOT_UNICODE = r"a lone surrogate such as \ud800, which is not text"
# Half of a pair of escapes; also a text that looks like one, behind a backslash.
_LONE = re.compile(
    rb"\\u[dD](?:[89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..\\u[dD])[c-fC-F])"
)
_NESTED = r"(?s)^(\{.*\}|\[.*\])$"
_LOOK_EVERY = 100  # in one line of so many the reader looks for keys that are new
_SAMPLE_BYTES = 2 * texts.BLOCK
_INFINITE = {"Infinity": "inf", "-Infinity": "-inf"}
_Row = dict[str, Json] | str | None


class JsonRows(BlockTable):
    """Lines with a JSON object each, as many columns as the first objects have keys.

    Columns come as text: numbers as they would be printed, true and false by these words. Columns
    that hold objects or lists come as lists of text.
    """

    def _find_columns(self, blocks: Iterable[Block]) -> None:
        """Let the first objects decide which columns there are."""
        self.new_fields: dict[str, int] = {}
        self._typed = True
        self._nested: set[str] = set()
        names: dict[str, None] = {}
        for row in self._first_objects(blocks):
            names.update(dict.fromkeys(row))
            self._nested.update(name for name, v in row.items() if isinstance(v, (dict, list)))
        self.column_names = self._met = tuple(names)
        self._known = frozenset(names)
        if not names:
            raise InputError(f"{self.name} has no columns: its objects are empty")

    def _first_objects(self, blocks: Iterable[Block]) -> Iterator[dict[str, Json]]:
        """As many objects as decide which columns there are."""
        n_objects, n_bytes = 0, 0
        fault: tuple[int, str] | None = None
        for block in blocks:
            ends = n_bytes + block.ends - (block.ends[-1:] - len(block.data))
            for i, row in enumerate(json_rows(block.data) if len(ends) else ()):
                if isinstance(row, dict):
                    n_objects += 1
                    yield row
                elif row is not None:
                    fault = fault or (int(block.lines[i]), row)
                # Not whole blocks: which columns there are must not depend on their size.
                if n_objects >= SAMPLE_ROWS or (n_objects and ends[i] >= _SAMPLE_BYTES):
                    return
            n_bytes += len(block.data)
            if block.short and n_objects >= LEAST_ROWS:
                return
        if n_objects == 0:
            if fault is None:
                raise InputError(f"{self.name} is empty")
            raise unreadable(self.name, self.unit, *fault)

    def let_columns_change(self) -> None:
        """See :meth:`fires.streams.table.Table.let_columns_change`: later keys are columns too."""
        self.is_open = True

    def _wanted(self, block: Block, kinds: Kinds) -> Kinds:
        """Look for keys that the first objects did not have: in a few lines, or, if open, in all.

        The few are the same ones, however the text is cut into blocks. Keys of other blocks are not
        columns of this one: what is told of a block depends on it alone.
        """
        first, step = int(block.lines[0]), 1 if self.is_open else _LOOK_EVERY
        new: dict[str, int] = {}
        for i in range((1 - first) % step, len(block.ends), step):
            row = json_row(block.record(i))
            if isinstance(row, dict) and not self._known.issuperset(row):
                late = [name for name in row if name not in self._known and name not in new]
                new |= dict.fromkeys(late, first + i)
                self._nested.update(name for name in late if isinstance(row[name], (dict, list)))
        if not self.is_open:
            self.new_fields = self.new_fields | {**new, **self.new_fields}
            new = {}
        self._met = tuple(dict.fromkeys([*self._met, *new]))
        names = [name for name in self._met if name in kinds or name in new]
        return {name: kinds.get(name, "category") for name in names}

    def _fast(self, block: Block, kinds: Kinds) -> Parsed | None:
        """Parse lines that are all as they should be; None if one is not."""
        if not texts.is_utf8(block.data) or _LONE.search(block.data):
            return None
        for typed in (True, False) if self._typed else (False,):
            types = {"number": pl.Float64, "integer": pl.Int64} if typed else {}
            schema = {name: types.get(kind, pl.String) for name, kind in kinds.items()}
            try:
                frame = pl.read_ndjson(block.data, schema=schema)
            except pl.exceptions.PolarsError:
                continue
            self._typed = typed
            labels = [frame[name] for name, kind in kinds.items() if kind == "label"]
            is_nested = any(label.str.contains(_NESTED).any() for label in labels)
            fits = len(frame) == len(block.ends) and not is_nested
            return (self._in_lists(frame, kinds), None) if fits else None
        return None

    def _in_lists(self, frame: pl.DataFrame, kinds: Kinds) -> pl.DataFrame:
        """Columns in which some of the first objects held objects or lists, as lists of text."""
        nested = [pl.col(name) for name in self._nested if kinds.get(name) == "category"]
        return frame.with_columns(pl.when(c.is_not_null()).then(pl.concat_list(c)) for c in nested)

    def _records(self, block: Block, kinds: Kinds) -> Iterator[_Row]:
        labels = [name for name, kind in kinds.items() if kind == "label"]
        for row in json_rows(block.data):
            fields = row if isinstance(row, dict) else {}
            nested = [name for name in labels if isinstance(fields.get(name), (dict, list))]
            yield f'an object or a list in the target column "{nested[0]}"' if nested else row

    def _frame(self, rows: list[dict[str, Json]], kinds: Kinds) -> pl.DataFrame:
        lines = "\n".join(_line({name: row.get(name) for name in kinds}) for row in rows)
        schema = dict.fromkeys(kinds, pl.String)
        frame = (
            pl.read_ndjson(lines.encode(), schema=schema) if rows else pl.DataFrame(schema=schema)
        )
        return self._in_lists(frame, kinds)


def json_rows(data: bytes) -> Iterator[_Row]:
    """Read lines one by one."""
    return map(json_row, data.removesuffix(b"\n").split(b"\n"))


def json_row(line: bytes) -> _Row:
    """The object in a line."""
    if not line.strip():
        return None
    try:
        row = json.loads(line.decode("utf-8-sig"))
        if _LONE.search(line):
            json.dumps(row, ensure_ascii=False).encode()
    except UnicodeDecodeError:
        return texts.NOT_UTF8
    except UnicodeEncodeError:
        return NOT_UNICODE
    except (ValueError, RecursionError):
        return NOT_AN_OBJECT
    return row if isinstance(row, dict) else NOT_AN_OBJECT


def _line(row: dict[str, Json]) -> str:
    """An object for polars, which knows neither NaN, which is missing, nor infinite numbers."""
    text = json.dumps(row)
    if "NaN" in text or "Infinity" in text:
        text = json.dumps(json.loads(text, parse_constant=_INFINITE.get))
    return text


class JsonTable(JsonRows):
    """A text of JSON objects, one a line."""

    def __init__(self, text: TextSource, block_size: int) -> None:
        self._read_from(text, Lines(block_size))
        with closing(text.blocks(self._cut, Position(), again=True)) as blocks:
            self._find_columns(blocks)
