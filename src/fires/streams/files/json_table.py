"""Tables in NDJSON: each line is a JSON object, whose keys are columns."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import partial

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.core.types import Json
from fires.streams.base import Position
from fires.streams.files.byte_sources import plain_errors
from fires.streams.files.json_rows import JsonRows, json_rows
from fires.streams.files.text_blocks import BLOCK, cut_into_lines, places_of
from fires.streams.files.text_source import TextSource
from fires.streams.read_ahead import read_ahead
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS, Chunk, position_in_file, unreadable

_SAMPLE_BYTES = 2 * BLOCK


class JsonTable:
    """Lines with a JSON object each, as many columns as the first of them have keys.

    What the columns hold comes as :class:`JsonRows` says.
    """

    unit = "line"
    renamed: tuple[tuple[str, str], ...] = ()
    position = staticmethod(position_in_file)

    def __init__(self, text: TextSource, block_size: int) -> None:
        self.name = text.name
        self.n_bytes = text.n_bytes
        self.head = text.head
        self.files = [text.identity]
        self._text = text
        self._cut = partial(cut_into_lines, block_size=block_size)
        self._rows = JsonRows(self._first_objects())
        self.column_names, self.new_fields = self._rows.column_names, self._rows.new_fields
        if not self.column_names:
            raise InputError(f"{self.name} has no columns: its objects are empty")

    def let_columns_change(self) -> None:
        """See :class:`fires.streams.table.Table`: later keys are columns too."""
        self._rows.is_open = True

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the lines in order; see :meth:`Table.chunks`."""
        blocks = self._text.blocks(self._cut, start, again=n_rows is not None)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with plain_errors(self.name), closing(blocks):
            for block, used in blocks:
                yield from self._rows.parsed(block, kinds, places_of(block, used))

    def _first_objects(self) -> Iterator[dict[str, Json]]:
        """As many objects as decide which columns there are."""
        n_objects = 0
        fault: tuple[int, str] | None = None
        with closing(self._text.blocks(self._cut, Position(), again=True)) as blocks:
            for block, _ in blocks:
                for i, row in enumerate(json_rows(block.data)):
                    if isinstance(row, dict):
                        n_objects += 1
                        yield row
                    elif row is not None:
                        fault = fault or (int(block.lines[i]), row)
                    # Not whole blocks: which columns there are must not depend on their size.
                    if n_objects >= SAMPLE_ROWS or (n_objects and block.ends[i] >= _SAMPLE_BYTES):
                        return
                if block.short and n_objects >= LEAST_ROWS:
                    return
        if n_objects == 0:
            raise unreadable(self, *fault) if fault else InputError(f"{self.name} is empty")
