"""The first rows of a table, by which it is decided what its columns hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError, closest
from fires.streams import text_blocks
from fires.streams.base import Position
from fires.streams.table import LEAST_ROWS, SAMPLE_ROWS, Chunk, Fault, Table
from fires.streams.text_table import not_text

_SAMPLE_CELLS = 2_000_000
# A text of which more rows of the sample are not UTF-8 was written in another way.
_MOST_NOT_TEXT = 0.05


def choose_columns(table: Table, target: str, exclude: Collection[str]) -> list[str]:
    """Check the names of the columns."""
    for part in table.tables:
        if target not in part.column_names:
            hint = _hint(target, part.column_names)
            raise InputError(f'no column "{target}" in {part.name}', hint=hint)
    if target in exclude:
        raise InputError(f'the target column "{target}" cannot be excluded')
    left_out = set(exclude)
    used = [name for name in table.column_names if name not in left_out]
    if len(used) < 2:
        raise InputError(f'{table.name} has no column besides the target "{target}"')
    return used


def refuse_unknown(table: Table, names: Collection[str]) -> None:
    """Raise if a table does not have a column that the user named."""
    known = {name for part in table.tables for name in part.column_names}
    for name in names:
        if name not in known:
            hint = _hint(name, table.column_names)
            raise InputError(f'no column "{name}" in {table.name}', hint=hint)


def named(names: Sequence[str] | Mapping[str, str], shown: int) -> str:
    """The first names in quotes, each with what is said of it, and how many more there are.

    Examples
    --------
    >>> named(["a", "b", "c"], 2), named({"a": " (first)"}, 2)
    ('"a", "b" and 1 more', '"a" (first)')
    """
    notes = names if isinstance(names, Mapping) else dict.fromkeys(names, "")
    some = ", ".join(f'"{name}"{notes[name]}' for name in [*notes][:shown])
    return f"{some} and {len(notes) - shown:,} more" if len(notes) > shown else some


def _hint(name: str, names: Sequence[str]) -> str:
    """Name the nearest column or, if none is near, some of those that are there."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return closest(name, names, f"it has {', '.join(names[:8])}{more}", quote='"')


def read_sample(
    table: Table, names: Sequence[str], as_text: Collection[str] = (), label: str | None = None
) -> pl.DataFrame:
    """Read the first rows of a table."""
    n_rows = min(SAMPLE_ROWS, max(LEAST_ROWS, _SAMPLE_CELLS // len(names)))
    kinds: dict[str, Kind] = dict.fromkeys(names, "category")
    if len(names) > text_blocks.WIDE:
        kinds.update(dict.fromkeys(set(names).difference(as_text), "number"))
    kinds |= {name: "label" for name in names if name == label}
    frames: list[pl.DataFrame] = []
    faults: list[Fault] = []
    met_as_text: set[str] = set()
    n_read = 0
    try:
        for chunk in table.chunks(kinds, Position(), n_rows=n_rows):
            last_lines = chunk.lines[n_rows - n_read - 1 :][:1]
            faults += [fault for fault in chunk.faults if not (last_lines < fault.line).any()]
            frames.append(_with_numbers(chunk, met_as_text))
            n_read += len(chunk.lines)
            if n_read >= (LEAST_ROWS if chunk.short else n_rows):
                break
    except InputError:
        if n_read == 0:
            raise
        # What was read before the damage is read again, and then the error is met again.
    no_text = [fault.line for fault in faults if fault.reason == text_blocks.NOT_UTF8]
    if table.head and len(no_text) > _MOST_NOT_TEXT * (len(no_text) + min(n_read, n_rows)):
        raise not_text(table.name, no_text[0], table.head)
    if n_read == 0 and faults:
        raise table.unreadable(*faults[0][:2])
    if n_read == 0:
        raise InputError(f"{table.name} has a header but no rows")
    return _joined(frames).head(n_rows)


def _with_numbers(chunk: Chunk, as_text: set[str]) -> pl.DataFrame:
    """The rows as a frame, with those numbers that are text in rows before, which it adds to."""
    if chunk.numbers is None:
        return chunk.frame
    names, X = chunk.numbers
    late = as_text.difference(chunk.frame.columns)
    as_text.update(chunk.frame.columns)
    return chunk.frame.with_columns(
        pl.Series(name, X[:, names.index(name)]).fill_nan(None).cast(pl.String) for name in late
    )


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows under one another; where files give a column different types, as text or nested."""
    if len(frames) == 1:
        return frames[0]
    types: dict[str, pl.DataType] = {}
    for frame in frames:
        for name, kind in frame.schema.items():
            if types.setdefault(name, kind) != kind:
                nested = next((t for t in (types[name], kind) if t.is_nested()), None)
                types[name] = nested or pl.String()
    cast = (
        frame.with_columns(
            pl.lit(None, types[name]).alias(name)
            if types[name].is_nested()
            else pl.col(name).cast(types[name], strict=False)
            for name, kind in frame.schema.items()
            if kind != types[name]
        )
        for frame in frames
    )
    # Of very many columns, rows lack those that hold numbers.
    names = sorted(types) if any(len(frame.schema) < len(types) for frame in frames) else [*types]
    return pl.concat(cast, how="diagonal").select(names)
