"""Options that several commands have, spelt once."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from fires.cli.config import read_config

Command = TypeVar("Command", bound=Callable[..., Any])


class Top(click.ParamType[int | float | str]):
    """A number of features, a fraction of them, or "auto"."""

    name = "K"

    def convert(
        self, value: float | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float | str:
        """The number that a text stands for."""
        if not isinstance(value, str) or value == "auto":
            return value
        try:
            top = int(value) if value.isdigit() else float(value)
        except ValueError:
            top = -1
        if not (0 < top < 1 if isinstance(top, float) else top >= 1):
            wanted = "neither a number of features nor a fraction below 1, nor 'auto'"
            self.fail(f"{value!r} is {wanted}.", param)
        return top


class Renamed(click.Option):
    """An option whose older spelling works too, and is not shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help of the first spelling alone."""
        shown = copy.copy(self)
        shown.opts = self.opts[:1]
        return click.Option.get_help_record(shown, ctx)


top = click.option(
    "--top",
    "-k",
    type=Top(),
    default=10,
    show_default=True,
    help="How many features to select: a number, a fraction such as 0.1, or auto: as many as are "
    "significantly non-zero.",
)


class Shape(click.ParamType[str]):
    """The height and width of a picture."""

    name = "HxW"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, once it is known to be two numbers."""
        found = re.fullmatch(r"0*([1-9]\d{0,6})x0*([1-9]\d{0,6})", str(value).lower(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is no height and width such as 28x28.", param)
        return f"{found[1]}x{found[2]}"


shape = click.option(
    "--shape",
    type=Shape(),
    metavar="HxW",
    help="The features are the pixels of a picture, row by row: its height and width.",
)
runs = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)

_SEPARATORS = {"\\t": "\t", "tab": "\t", "space": " "}  # what shells swallow


def columns(name: str, what: str) -> Callable[[Command], Command]:
    """An option that names columns; it can be given several times."""
    help_ = f"{what}; several with commas or one by one."
    return click.option(name, metavar="COL", multiple=True, help=help_)


_FILE = click.argument("file", metavar="FILE...", nargs=-1, required=True)
_TEXT = [
    click.option(
        "--sep",
        metavar="CHAR",
        callback=lambda ctx, option, value: _SEPARATORS.get(value, value),
        help='What separates the fields: ";", tab, space, ...  [default: found]',
    ),
    click.option("--encoding", metavar="NAME", help="The encoding of text, such as latin-1."),
    click.option(
        "--no-header",
        is_flag=True,
        help="The first line is a row; the columns are called column_1, column_2, ...",
    ),
    click.option("--comment", metavar="CHAR", help="Lines that begin with it are left out."),
]
_CELLS = [
    columns("--exclude", "Columns to leave out"),
    click.option(
        "--keep-suspicious",
        "--keep-doubtful",  # what it was called before
        "keep_doubtful",
        cls=Renamed,
        is_flag=True,
        help="Use ids, clocks and copies of other columns too, without warnings.",
    ),
    columns("--categorical", "Columns that hold categories, even if they look like numbers"),
    columns("--numeric", "Columns that hold numbers; what is none counts as missing"),
    click.option(
        "--na-values",
        metavar="WORD",
        multiple=True,
        help="Words that stand for a missing value, besides the usual ones; several with commas "
        "or one by one.",
    ),
    click.option("--decimal", type=click.Choice([".", ","]), help="What begins the decimals."),
    click.option("--thousands", metavar="CHAR", help="What stands between thousands."),
    click.option(
        "--dates",
        type=click.Choice(["day-first", "month-first"]),
        help="How to read 01/02/2024 where the rows do not settle it.",
    ),
]


def reading(command: Command) -> Command:
    """FILE and how to read it: what :class:`fires.cli.reading.Reading` takes."""
    for option in reversed([_FILE, *_CELLS, *_TEXT]):
        command = option(command)
    return command


def new_rows(command: Command) -> Command:
    """RUN, and FILE with new rows for it: the run knows what the columns hold."""
    folder = click.Path(path_type=Path)
    for option in reversed([click.argument("run", type=folder), _FILE, *_TEXT]):
        command = option(command)
    return command


def out_file(what: str) -> Callable[[Command], Command]:
    """The file that a command writes to, and what goes into it."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help=f"Where {what}: a name that ends with .csv, .parquet or .arrow.  "
        "[default: standard output, as CSV]",
    )


config = click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="TOML",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, option, path: read_config(ctx, path),
    help="Take FILE and options from a file as --out writes it; those given here win.",
)


def target(what: str = "") -> Callable[[Command], Command]:
    """The column to predict, and what it has to hold."""
    return click.option("--target", "-t", metavar="COL", help=f"The column to predict{what}.")


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


overwrite = click.option(
    "--overwrite", is_flag=True, help="Replace what --out names, if an earlier run has written it."
)
quiet = click.option(
    "--quiet", "-q", is_flag=True, help="Nothing but the result and errors: no bar, no notices."
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

_SERVICE = [
    click.option(
        "--rate",
        type=click.FloatRange(min=0.0, min_open=True),
        metavar="ROWS",
        help="Learn from no more rows a second than this.",
    ),
    click.option(
        "--emit",
        metavar="WHERE",
        help="Tell which features are selected whenever that changes, as JSON lines: to a file, - "
        "for standard output, redis://... or kafka://...",
    ),
    choice("--emit-every", ("change", "batch"), "When --emit tells it."),
    click.option(
        "--metrics",
        metavar="[HOST:]PORT",
        help="Answer Prometheus on this port, by default to this machine alone.",
    ),
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        help="Write events of this level and above to standard error, with the time.",
    ),
]


_SOURCES = [
    click.option(
        "--follow",
        is_flag=True,
        help="FILE grows: go on when it does, also in the file that takes its place.",
    ),
    click.option(
        "--position",
        metavar="COL",
        help="The column of a query that its rows are ordered by, all different, so that a later "
        "--resume can go on.",
    ),
    click.option(
        "--until-end",
        is_flag=True,
        help="End where a topic or a stream of Redis ends now; otherwise more is waited for.",
    ),
]


_SHOWING = [
    click.option(
        "--report",
        is_flag=True,
        help="At the end, also write report.html to --out: a page that opens in any browser.",
    ),
    click.option(
        "--live",
        is_flag=True,
        help="Show the same page while the run goes on; its address is on standard error.",
    ),
    shape,
]


def showing(command: Command) -> Command:
    """How to show a run in a browser."""
    for option in reversed(_SHOWING):
        command = option(command)
    return command


def sources(command: Command) -> Command:
    """How to read what has no end, or no order of its own."""
    for option in reversed(_SOURCES):
        command = option(command)
    return command


def service(command: Command) -> Command:
    """What a run that lasts for long is told to do besides."""
    for option in reversed(_SERVICE):
        command = option(command)
    return command
