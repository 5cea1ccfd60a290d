"""Options, each declared once: as the default of a parameter of a command, or of a field.

``takes`` lets a command have them; ``record`` makes a dataclass of several, and ``part`` lets a
command, or another record, take such a one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import click

from fires.cli.config import read_config
from fires.core.duration import seconds_of

Kind = TypeVar("Kind")
PATH = click.Path(path_type=Path)
SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
ABOVE_ZERO = click.FloatRange(min=0.0, min_open=True)


class _Given(NamedTuple):
    """An option or an argument, whatever it is called."""

    add: Callable[[str], Callable[[Callable[..., None]], object]]
    default: object = None


class _Part(NamedTuple):
    """A record that is made of several of them."""

    kind: type
    declared: Mapping[str, _Given | _Part]
    default: object = None


def option(metavar: str | None, what: str, *names: str, **settings: Any) -> Any:
    """An option with a value, and a default that the help shows; named as what it is given to."""
    settings |= {"show_default": True} if "default" in settings else {}

    def add(name: str) -> Callable[[Callable[..., None]], object]:
        spelt = (f"--{name.replace('_', '-')}",) * (not any(one[:2] == "--" for one in names))
        return click.option(*spelt, *names, name, metavar=metavar, help=what, **settings)

    return _Given(add, () if settings.get("multiple") else settings.get("default"))


def flag(what: str, *names: str, **settings: Any) -> Any:
    """An option without a value."""
    return option(None, what, *names, is_flag=True, **settings)._replace(default=False)


def argument(**settings: Any) -> Any:
    """What is given without a name."""
    return _Given(lambda name: click.argument(name, **settings))


@dataclass_transform(frozen_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """A frozen dataclass whose fields are options."""
    for name, one in list(vars(kind).items()):
        if isinstance(one, _Given | _Part):
            setattr(kind, name, field(default=one.default, metadata={"given": one}))
    return dataclass(frozen=True)(kind)


def part(kind: type, *, only: Sequence[str] = (), without: Sequence[str] = ()) -> Any:
    """The options of a record, or some of them."""
    declared = {
        one.name: one.metadata["given"]
        for one in fields(kind)
        if one.name not in without and (not only or one.name in only)
    }
    return _Part(kind, declared)


def takes(run: Callable[..., None]) -> Callable[..., None]:
    """Let a command have the options that its parameters declare."""
    declared = {name: one.default for name, one in signature(run).parameters.items()}

    @wraps(run)
    def command(**given: Any) -> None:
        run(**_values(declared, given))

    for name, one in reversed(list(_flat(declared))):
        one.add(name)(command)
    return command


def _flat(declared: Mapping[str, _Given | _Part]) -> Iterator[tuple[str, _Given]]:
    for name, one in declared.items():
        if isinstance(one, _Part):
            yield from _flat(one.declared)
        else:
            yield name, one


def _values(declared: Mapping[str, _Given | _Part], given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: one.kind(**_values(one.declared, given)) if isinstance(one, _Part) else given[name]
        for name, one in declared.items()
    }


# --- kinds of options ----------------------------------------------------------------------------


def count(default: int, what: str, least: int = 1) -> Any:
    """A whole number, with a default."""
    return option("N", what, type=click.IntRange(min=least), default=default)


def choice(values: Sequence[str], what: str, default: str | None = None) -> Any:
    """One of several words; by default the first."""
    return option(None, what, type=click.Choice(values), default=default or values[0])


def columns(what: str) -> Any:
    """Names of columns; it can be given several times."""
    return option("COL", f"{what}; several with commas or one by one.", multiple=True)


def target(what: str = "") -> Any:
    """The column to predict, and what that means."""
    return option("COL", f"The column to predict{what}.", "-t")


def batch_size(what: str = "learn from") -> Any:
    """How many rows a command takes at once, and what it does with them."""
    return count(100, f"Rows to {what} at once.")


def out(what: str, *, file_okay: bool = True, **settings: Any) -> Any:
    """The folder that a command writes to, and what goes into it."""
    folder = click.Path(path_type=Path, file_okay=file_okay)
    return option("DIR", f"Folder for {what}", type=folder, **settings)


def out_file(what: str) -> Any:
    """The file that a command writes to, and what goes into it."""
    ends = "a name that ends with .csv, .parquet or .arrow.  [default: standard output, as CSV]"
    return option("FILE", f"Where {what}: {ends}", type=PATH)


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


class Memory(click.FloatRange):
    """A number of rows above 1, or a time."""

    name = "number of rows, nor a time such as 7d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the text of a time."""
        return value if seconds_of(value) else super().convert(value, param, ctx)


class Shape(click.ParamType[str]):
    """The height and width of a picture."""

    name = "HxW"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The text, once it is known to be two numbers."""
        found = re.fullmatch(r"0*([1-9]\d{0,6})x0*([1-9]\d{0,6})", str(value).lower(), re.ASCII)
        if found is None:
            self.fail(f"{value!r} is no height and width such as 28x28.", param)
        return f"{found[1]}x{found[2]}"


class Renamed(click.Option):
    """An option whose older spelling works too, and is not shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help of the first spelling alone."""
        shown = copy.copy(self)
        shown.opts = self.opts[:1]
        return click.Option.get_help_record(shown, ctx)


# --- options of several commands -----------------------------------------------------------------

_K = NumberOrShare("K", 1, "a number of features nor a fraction below 1, nor 'auto'", "auto")
TOP = option(
    None,
    "How many features to select: a number, a fraction such as 0.1, or auto: as many as are "
    "significantly non-zero.",
    "-k",
    type=_K,
    default=10,
)
SHAPE = option(
    "HxW",
    "The features are the pixels of a picture, row by row: its height and width.",
    type=Shape(),
)
RUN = argument(type=PATH)
RUNS = argument(metavar="RUN...", nargs=-1, required=True, type=PATH)
OVERWRITE = flag("Replace what --out names, if an earlier run has written it.")
QUIET = flag("Nothing but the result and errors: no bar, no notices.", "-q")
AS_JSON = flag("Print the result as JSON, not as a table.", "--json")
debug = click.option(
    "--debug",
    is_flag=True,
    help="Show where in the program an error arose.",
    expose_value=False,
    callback=lambda ctx, option, value: ctx.meta.update({"fires.debug": value}),
)
config = click.option(
    "--config",
    metavar="TOML",
    help="Take FILE and options from a file as --out writes it; those given here win.",
    type=PATH,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, option, path: read_config(ctx, path),
)
