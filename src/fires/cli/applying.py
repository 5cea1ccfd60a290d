"""New rows go through a saved run, and what comes of them is written: what commands share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from fires.cli.interrupts import EndsEarly, let_signals_through
from fires.cli.progress import one_bar
from fires.cli.reading import Notices, rejected_lines
from fires.cli.row_output import STANDARD
from fires.cli.text import EXPECTED, message, printable
from fires.core.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from fires.cli.row_output import RowOutput
    from fires.streams.rows import RowReader, Rows

_CELLS = 1_000_000  # of rows that are dealt with at once


def write_rows(
    reader: RowReader,
    make: Callable[[Rows], pl.DataFrame],
    output: RowOutput,
    *,
    width: int,
    quiet: bool,
    tell: Callable[[], list[str]],
) -> None:
    """Read all rows, and write what is made of them; whatever ends it early, they are whole."""
    let_signals_through()
    notices = Notices(reader, quiet)
    source = EndsEarly(reader.batches(max(1, _CELLS // max(width, 1))), output)
    # A bar would be drawn across the rows.
    hidden = quiet or (output.name == STANDARD and sys.stdout.isatty())
    began = time.perf_counter()
    with (
        source,
        one_bar("0 rows", "{task.fields[now]}", total=reader.n_bytes, hidden=hidden) as show,
    ):
        for rows in source:
            output.write(make(rows))
            show(partial(_seen, rows.n_bytes, output, began))
    if source.signal is not None and not output.n_rows:
        raise KeyboardInterrupt
    if isinstance(source.error, BrokenPipeError):  # whoever read the output has seen enough
        raise source.error
    notices.tell()
    unsaved = None
    try:
        output.publish()
    except OSError as error:
        unsaved = error
    for line in (*rejected_lines(reader.rejected), *(() if quiet else tell())):
        click.echo(printable(line), err=True)
    _end(source, output, unsaved)
    if output.name != STANDARD and not quiet:
        click.echo(printable(f"{output.n_rows:,} rows written to {output.name}"))


def _seen(n_bytes: int, output: RowOutput, began: float) -> dict[str, object]:
    """How far it is, and how fast."""
    speed = output.n_rows / (time.perf_counter() - began)
    return {
        "description": f"{output.n_rows:,} rows",
        "completed": n_bytes,
        "now": f"{speed:,.0f} rows/s",
    }


def _end(source: EndsEarly[Rows], output: RowOutput, unsaved: OSError | None) -> None:
    """Say what ended it early, or why nothing could be saved, with a code for scripts."""
    if source.reason is None and unsaved is None:
        return
    done = f"{output.n_rows:,} rows are written to {output.name}"
    if unsaved is not None:
        done = f"nothing is saved: {message(unsaved)}"
    if source.signal is not None:
        click.echo(printable(f"Interrupted; {done}."), err=True)
        sys.exit(128 + source.signal)
    if source.error is None:
        raise InputError(done) from unsaved
    if not isinstance(source.error, EXPECTED):
        raise source.error
    raise InputError(f"{source.reason}; {done}") from source.error
