"""``fires columns``: how a table is understood, before anything is learnt from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.reading import Reading
from fires.cli.text import printable
from fires.core.errors import InputError, closest

if TYPE_CHECKING:
    from fires.columns.warnings import ColumnFacts

_EXAMPLES = """\b
Examples:
  fires columns events.csv
  fires columns export.csv --sep ";" --decimal "," --target amount
"""


@click.command("columns", epilog=_EXAMPLES)
@options.reading
@options.target()
@options.as_json
@options.debug
def command(target: str | None, as_json: bool, **how: Any) -> None:
    """Show how the columns of FILE are understood.

    The first rows, 10,000 at most, decide what a column holds: numbers, dates, categories. Shown
    are its kind, the share of missing values, how many values differ, an example, and what
    becomes of it. What is wrong can be set right with the options, which fires select and fires
    compare have too.
    """
    reading = Reading(**how)
    stream = reading.look(target)
    rows, surprises = stream.describe(), stream.surprises()
    names = [row["name"] for row in rows]
    if target is not None and target not in names:
        hint = closest(target, names, f"it has {', '.join(names[:8])}", quote='"')
        raise InputError(f'no column "{target}" in {reading.name}', hint=hint)
    left_out = {doubt.column for doubt in stream.doubts if doubt.is_no_feature}
    for row in rows:
        if row["name"] == target:
            row["done"], row["doubt"] = "the target", ""
        elif row["doubt"] and not reading.keep_doubtful:
            done = "left out" if row["name"] in left_out else row["done"]
            row["done"] = f"{done}; {row['doubt']}"
    if as_json:
        document = {"target": target, "columns": rows, "surprises": surprises}
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    _print_table(rows)
    for line in surprises:
        click.echo(printable(line), err=True)


def _print_table(rows: list[ColumnFacts]) -> None:
    from rich.console import Console

    from fires.cli.tables import column_table

    console = Console()
    console.print(column_table(rows, console.width))
