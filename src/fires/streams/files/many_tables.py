"""Several files that hold one table, one behind the other, such as one for each day."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.table import Chunk, Table, position_in_file


class ManyTables:
    """Tables in order. The first says which columns there are.

    A later one may have them in another order. What it lacks is missing in its rows; what only it
    has is not used. After :meth:`let_columns_change`, the rows of each have its own columns.
    """

    position = staticmethod(position_in_file)

    def __init__(self, tables: Sequence[Table]) -> None:
        first, *later = self.tables = tuple(tables)
        n_more = f" and {len(later)} more file{'s' if len(later) > 1 else ''}" if later else ""
        self.name = first.name + n_more
        units = {table.unit for table in tables}
        self.unit = units.pop() if len(units) == 1 else "record"
        self.column_names = first.column_names
        self.head = first.head
        self.files = [one for table in tables for one in getattr(table, "files", [None])]
        self.renamed = tuple(dict.fromkeys(pair for table in tables for pair in table.renamed))
        sizes = [table.n_bytes for table in tables]
        self.n_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        self._before = np.cumsum([0, *(size or 0 for size in sizes)]).tolist()
        for table in later:
            if set(first.column_names).isdisjoint(table.column_names):
                raise InputError(f"{table.name} has no column of those in {first.name}")
        self.differences = _differences(first, later)
        self._is_open = False

    def let_columns_change(self) -> None:
        """See :class:`fires.streams.table.Table`; ``column_names`` are those of all tables."""
        self._is_open, self.differences = True, []
        for table in self.tables:
            if hasattr(table, "let_columns_change"):
                table.let_columns_change()
        names = (name for table in self.tables for name in table.column_names)
        self.column_names = tuple(dict.fromkeys(names))

    @property
    def new_fields(self) -> dict[str, int]:
        """Keys of NDJSON that came after the sample; see :class:`JsonTable`."""
        found: dict[str, int] = {}
        for table in self.tables:
            found |= {
                name: line
                for name, line in getattr(table, "new_fields", {}).items()
                if name not in found
            }
        return found

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the tables in order; see :meth:`Table.chunks`."""
        names = [name for name in self.column_names if name in kinds]
        for index, table in enumerate(self.tables):
            if index < start.file:
                continue
            present = set(table.column_names)
            absent = [name for name in names if name not in present and not self._is_open]
            lacking = [pl.lit(None, pl.String).alias(name) for name in absent]
            wanted = {name: kinds[name] for name in names if name in present}
            begin = start if index == start.file else Position()
            for chunk in table.chunks(wanted, begin, n_rows=n_rows):
                places = np.column_stack([chunk.places, np.full(len(chunk.places), index)])
                places[:, 0] += self._before[index]
                frame = chunk.frame.with_columns(lacking)
                yield replace(chunk, frame=frame, places=places, source=table.name)
                wanted.update({name: kinds[name] for name in wanted})  # it may have changed


def _differences(first: Table, later: Iterable[Table]) -> list[str]:
    """Say once for all files that differ in the same way how they do."""
    known = set(first.column_names)
    files: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for table in later:
        present = set(table.column_names)
        lacking = tuple(name for name in first.column_names if name not in present)
        besides = tuple(name for name in table.column_names if name not in known)
        for kind, names in (("lacking", lacking), ("besides", besides)):
            if names:
                files.setdefault((kind, names), []).append(table.name)
    lines = []
    for (kind, names), where in files.items():
        n_more = len(where) - 1
        who = where[0] + (f" and {n_more} more file{'s' if n_more > 1 else ''}" if n_more else "")
        one, verb = len(names) == 1, ("lack" if n_more else "lacks")
        what = f"{'column' if one else 'columns'} {_shown(names)}"
        if kind == "lacking":
            lines.append(f"{who} {verb} the {what}: missing there")
        else:
            lines.append(f"{what} only in {who}: not used")
    return lines


def _shown(names: Sequence[str]) -> str:
    some = ", ".join(f'"{name}"' for name in names[:5])
    return f"{some} and {len(names) - 5} more" if len(names) > 5 else some
