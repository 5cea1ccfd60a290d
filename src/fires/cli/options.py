"""Options that several commands have, spelt once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])


class Top(click.ParamType[int | float]):
    """A number of features, or a fraction of them.

    Examples
    --------
    >>> Top().convert("20", None, None), Top().convert("0.1", None, None)
    (20, 0.1)
    """

    name = "K"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | float:
        """The number that a text stands for."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            top = int(value) if value.isdigit() else float(value)
        except ValueError:
            top = -1
        if not (0 < top < 1 if isinstance(top, float) else top >= 1):
            self.fail(f"{value!r} is neither a number of features nor a fraction below 1.", param)
        return top


top = click.option(
    "--top",
    "-k",
    type=Top(),
    default=10,
    show_default=True,
    help="How many features to select: a number, or a fraction such as 0.1.",
)


def target(what: str = "") -> Callable[[Command], Command]:
    """The column to predict, and what it has to hold."""
    return click.option(
        "--target", "-t", required=True, metavar="COL", help=f"The column to predict{what}."
    )


def count(name: str, default: int, what: str, least: int = 1) -> Callable[[Command], Command]:
    """An option that is a whole number, with a default that the help shows."""
    numbers = click.IntRange(min=least)
    return click.option(
        name, type=numbers, default=default, show_default=True, metavar="N", help=what
    )


def choice(
    name: str, values: Sequence[str], what: str, default: str | None = None
) -> Callable[[Command], Command]:
    """An option that is one of several words; by default the first."""
    return click.option(
        name,
        type=click.Choice(values),
        default=default or values[0],
        show_default=True,
        help=what,
    )


def batch_size(what: str = "learn from") -> Callable[[Command], Command]:
    """How many rows a command takes at once, and what it does with them."""
    return count("--batch-size", 100, f"Rows to {what} at once.")


def out(what: str, *, file_okay: bool = True, **settings: Any) -> Callable[[Command], Command]:
    """The folder that a command writes to, and what goes into it."""
    folder = click.Path(path_type=Path, file_okay=file_okay)
    return click.option("--out", type=folder, metavar="DIR", help=f"Folder for {what}", **settings)


exclude = click.option(
    "--exclude", metavar="COL,...", help="Columns to leave out, separated by commas.", default=""
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as JSON, not as a table."
)
debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, option, value: ctx.meta.update({"fires.debug": value}),
    help="Show where in the program an error arose.",
)
