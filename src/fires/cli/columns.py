"""``fires columns``: how a table is understood, before anything is learnt from it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import click

from fires.cli import options
from fires.cli.reading import OF_SOURCES, Reading
from fires.cli.text import printable
from fires.core.errors import InputError, closest

_LONGEST = 16  # letters of an example


@options.command("columns", options.debug)
def command(
    reading: Reading = options.part(Reading, without=OF_SOURCES),
    target: str | None = options.target(),
    as_json: bool = options.AS_JSON,
) -> None:
    """Show how the columns of FILE are interpreted.

    The first rows, 10,000 at most, determine the kind of each column: numbers, dates, categories.
    The table shows the kind, the share of missing values, the number of distinct values, an
    example, and how the column is used. Use the options to correct a wrong interpretation; fires
    select and fires compare have the same ones.

    Examples
    --------
    fires columns events.csv
    fires columns export.csv --sep ";" --decimal "," --target amount
    """
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


def _print_table(rows: Sequence[Mapping[str, object]]) -> None:
    from fires.cli.tables import print_table

    def cells(text: str, name: str) -> list[str]:
        return ["" if row[name] is None else printable(text.format(row[name])) for row in rows]

    columns = {
        "name": cells("{}", "name"),
        "kind": cells("{}", "kind"),
        "missing": cells("{:.1%}", "missing"),
        "distinct": cells("{:,}", "distinct"),
        "example": [
            text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            for text in cells("{}", "example")
        ],
        "what is done": cells("{}", "done"),
    }
    wrapped = ("name", "example", "what is done")
    print_table(
        columns.items(),
        left=("kind", *wrapped),
        wrapped=wrapped,
        spare={"example": (), "distinct": (), "missing": ()},
        names=[a + b for a, b in zip(columns["name"], columns["what is done"], strict=True)],
        vertical="top",
    )
