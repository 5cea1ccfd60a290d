"""``fires transform``: new rows, reduced to the columns that a saved run has selected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.applying import write_rows
from fires.cli.reading import Reading
from fires.cli.row_output import open_output
from fires.cli.startup import quick_imports

if TYPE_CHECKING:
    import polars as pl

    from fires.columns import Column, Hints
    from fires.streams.rows import Rows

_EXAMPLES = """\b
Examples:
  fires transform run/ new.csv --out reduced.parquet
  fires transform run/ "new/*.csv" --keep customer,label > reduced.csv
"""


@click.command("transform", epilog=_EXAMPLES)
@options.new_rows
@options.columns("--keep", "Columns to keep besides, such as an id or the target")
@options.out_file("the rows go")
@options.overwrite
@options.quiet
@options.debug
def command(
    run: Path, keep: tuple[str, ...], out: Path | None, overwrite: bool, quiet: bool, **how: Any
) -> None:
    """Reduce the rows in FILE to the columns that RUN has selected.

    RUN is a folder that fires select --out has made. FILE is anything that fires select reads.
    The values stay as they are in FILE: text is not encoded, nothing is scaled. But where text
    goes to Parquet or Arrow, columns of plain numbers become numbers. Columns to keep come first.
    After fires select --columns open, selected columns may be absent: then they are empty.

    Rows that cannot be read are counted, shown and left out. Whatever ends the command early: the
    rows before are written, and whole.
    """
    reading = Reading(**how)
    with quick_imports():
        from fires.run.saved import SavedRun
    saved = SavedRun(run)
    with open_output(out, overwrite=overwrite) as output:
        names = [column.name for column in saved.selected]
        reader = reading.rows(dict.fromkeys(names, "category"), keep, may_lack=saved.is_open)
        kept = [name for name in reader.names if name not in names]
        numbers = [column for column in saved.selected if column.is_plain and output.is_typed]
        reduce = Reduce([*kept, *names], numbers, saved.columns.hints)
        write_rows(
            reader,
            reduce,
            output,
            width=len(names),
            quiet=quiet,
            tell=lambda: [*filter(None, [reader.absent()]), *reduce.lines()],
        )


class Reduce:
    """Makes the table of the selected columns."""

    def __init__(self, names: list[str], numbers: list[Column], hints: Hints) -> None:
        self._names, self._numbers, self._hints = names, numbers, hints
        self._n_lost = dict.fromkeys((column.name for column in numbers), 0)

    def __call__(self, rows: Rows) -> pl.DataFrame:
        """Reduce some rows."""
        import polars as pl

        from fires.columns.cells import read_cells

        lacking = [name for name in self._names if name not in rows.frame.columns]
        frame = rows.frame.with_columns(pl.lit(None, pl.String).alias(name) for name in lacking)
        frame = frame.select(self._names)
        found = []
        for column in self._numbers:
            if frame[column.name].dtype == pl.String:
                cells = read_cells(frame[column.name], column, self._hints)
                self._n_lost[column.name] += cells.n_unreadable
                found.append(cells.values)
        return frame.with_columns(found)

    def lines(self) -> list[str]:
        """What the user should know of cells that are no numbers."""
        return [
            f'column "{name}": {n_lost:,} cell{"s" * (n_lost > 1)} of text among its numbers '
            f"{'are' if n_lost > 1 else 'is'} empty here"
            for name, n_lost in self._n_lost.items()
            if n_lost
        ]
