"""Options that several commands have, spelt once."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from fires.cli.config import read_config
from fires.cli.progress import LEVELS

Command = TypeVar("Command", bound=Callable[..., Any])


def option(
    name: str, metavar: str | None, what: str, *names: str, **settings: Any
) -> Callable[[Command], Command]:
    """An option with a value, and a default that the help shows."""
    settings |= {"show_default": True} if "default" in settings else {}
    return click.option(name, *names, metavar=metavar, help=what, **settings)


def flag(name: str, what: str, *names: str, **settings: Any) -> Callable[[Command], Command]:
    """An option without a value."""
    return click.option(name, *names, is_flag=True, help=what, **settings)


def _together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options, or arguments, in this order."""

    def add(command: Command) -> Command:
        for one in reversed(options):
            command = one(command)
        return command

    return add


class NumberOrShare(click.ParamType[int | float | str]):
    """A number of things, a share of them below 1, or one of some words."""

    def __init__(self, name: str, least: int, otherwise: str, *words: str) -> None:
        self.name, self._least, self._otherwise, self._words = name, least, otherwise, words

    def convert(
        self, value: float | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float | str:
        """The number that a text stands for."""
        if not isinstance(value, str) or value in self._words:
            return value
        try:
            number = int(value) if value.isdigit() else float(value)
        except ValueError:
            number = -1
        is_share = isinstance(number, float) and 0 <= number < 1 and (number or not self._least)
        if not (is_share or (isinstance(number, int) and number >= self._least)):
            self.fail(f"{value!r} is neither {self._otherwise}.", param)
        return number


class Renamed(click.Option):
    """An option whose older spelling works too, and is not shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help of the first spelling alone."""
        shown = copy.copy(self)
        shown.opts = self.opts[:1]
        return click.Option.get_help_record(shown, ctx)


top = option(
    "--top",
    None,
    "How many features to select: a number, a fraction such as 0.1, or auto: as many as are "
    "significantly non-zero.",
    "-k",
    type=NumberOrShare("K", 1, "a number of features nor a fraction below 1, nor 'auto'", "auto"),
    default=10,
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


shape = option(
    "--shape",
    "HxW",
    "The features are the pixels of a picture, row by row: its height and width.",
    type=Shape(),
)
runs = click.argument(
    "runs", metavar="RUN...", nargs=-1, required=True, type=click.Path(path_type=Path)
)

_SEPARATORS = {"\\t": "\t", "tab": "\t", "space": " "}  # what shells swallow


def columns(name: str, what: str) -> Callable[[Command], Command]:
    """An option that names columns; it can be given several times."""
    return option(name, "COL", f"{what}; several with commas or one by one.", multiple=True)


_FILE = click.argument("file", metavar="FILE...", nargs=-1, required=True)
_TEXT = [
    option(
        "--sep",
        "CHAR",
        'What separates the fields: ";", tab, space, ...  [default: found]',
        callback=lambda ctx, option, value: _SEPARATORS.get(value, value),
    ),
    option("--encoding", "NAME", "The encoding of text, such as latin-1."),
    flag("--no-header", "The first line is a row; the columns are called column_1, column_2, ..."),
    option("--comment", "CHAR", "Lines that begin with it are left out."),
]
_CELLS = [
    columns("--exclude", "Columns to leave out"),
    flag(
        "--keep-suspicious",
        "Use ids, clocks and copies of other columns too, without warnings.",
        "--keep-doubtful",  # what it was called before
        "keep_doubtful",
        cls=Renamed,
    ),
    columns("--categorical", "Columns that hold categories, even if they look like numbers"),
    columns("--numeric", "Columns that hold numbers; what is none counts as missing"),
    option(
        "--na-values",
        "WORD",
        "Words that stand for a missing value, besides the usual ones; several with commas "
        "or one by one.",
        multiple=True,
    ),
    option("--decimal", None, "What begins the decimals.", type=click.Choice([".", ","])),
    option("--thousands", "CHAR", "What stands between thousands."),
    option(
        "--dates",
        None,
        "How to read 01/02/2024 where the rows do not settle it.",
        type=click.Choice(["day-first", "month-first"]),
    ),
]

reading = _together(_FILE, *_CELLS, *_TEXT)
"""FILE and how to read it: what :class:`fires.cli.reading.Reading` takes."""
new_rows = _together(click.argument("run", type=click.Path(path_type=Path)), _FILE, *_TEXT)
"""RUN, and FILE with new rows for it: the run knows what the columns hold."""


def out_file(what: str) -> Callable[[Command], Command]:
    """The file that a command writes to, and what goes into it."""
    return option(
        "--out",
        "FILE",
        f"Where {what}: a name that ends with .csv, .parquet or .arrow.  "
        "[default: standard output, as CSV]",
        type=click.Path(path_type=Path),
    )


config = option(
    "--config",
    "TOML",
    "Take FILE and options from a file as --out writes it; those given here win.",
    type=click.Path(path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, option, path: read_config(ctx, path),
)


def target(what: str = "") -> Callable[[Command], Command]:
    """The column to predict, and what it has to hold."""
    return option("--target", "COL", f"The column to predict{what}.", "-t")


def count(name: str, default: int, what: str, least: int = 1) -> Callable[[Command], Command]:
    """An option that is a whole number, with a default that the help shows."""
    return option(name, "N", what, type=click.IntRange(min=least), default=default)


def choice(
    name: str, values: Sequence[str], what: str, default: str | None = None
) -> Callable[[Command], Command]:
    """An option that is one of several words; by default the first."""
    return option(name, None, what, type=click.Choice(values), default=default or values[0])


def batch_size(what: str = "learn from") -> Callable[[Command], Command]:
    """How many rows a command takes at once, and what it does with them."""
    return count("--batch-size", 100, f"Rows to {what} at once.")


def out(what: str, *, file_okay: bool = True, **settings: Any) -> Callable[[Command], Command]:
    """The folder that a command writes to, and what goes into it."""
    folder = click.Path(path_type=Path, file_okay=file_okay)
    return option("--out", "DIR", f"Folder for {what}", type=folder, **settings)


overwrite = flag("--overwrite", "Replace what --out names, if an earlier run has written it.")
quiet = flag("--quiet", "Nothing but the result and errors: no bar, no notices.", "-q")
as_json = flag("--json", "Print the result as JSON, not as a table.", "as_json")
debug = flag(
    "--debug",
    "Show where in the program an error arose.",
    expose_value=False,
    callback=lambda ctx, option, value: ctx.meta.update({"fires.debug": value}),
)

service = _together(
    option(
        "--rate",
        "ROWS",
        "Learn from no more rows a second than this.",
        type=click.FloatRange(min=0.0, min_open=True),
    ),
    option(
        "--emit",
        "WHERE",
        "Tell which features are selected whenever that changes, as JSON lines: to a file, - "
        "for standard output, redis://... or kafka://...",
    ),
    choice("--emit-every", ("change", "batch"), "When --emit tells it."),
    option(
        "--metrics",
        "[HOST:]PORT",
        "Answer Prometheus on this port, by default to this machine alone.",
    ),
    option(
        "--log-level",
        None,
        "Write events of this level and above to standard error, with the time.",
        type=click.Choice(LEVELS),
    ),
)


sources = _together(
    flag("--follow", "FILE grows: go on when it does, also in the file that takes its place."),
    option(
        "--position",
        "COL",
        "The column of a query that its rows are ordered by, all different, so that a later "
        "--resume can go on.",
    ),
    flag(
        "--until-end",
        "End where a topic or a stream of Redis ends now; otherwise more is waited for.",
    ),
)


showing = _together(
    flag(
        "--report", "At the end, also write report.html to --out: a page that opens in any browser."
    ),
    flag("--live", "Show the same page while the run goes on; its address is on standard error."),
    shape,
)
