"""Options, each declared once: as the default of a parameter of a command, or of a field.

What it does is said with it, or by the docstring of the command or record, under Parameters. They
can be given in a file as well, and are facts of a run: every run writes them down.

``command`` gives them to a command; ``record`` makes a dataclass of several, and ``part`` lets a
command, or another record, take such a one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import cleandoc, signature
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, dataclass_transform

import click
from click.core import ParameterSource

from fires.core.duration import seconds_of
from fires.core.errors import InputError, closest
from fires.core.version import first_facts

if TYPE_CHECKING:
    from fires.core.types import Json
    from fires.streams.table_stream import TableStream

Kind = TypeVar("Kind")
PATH = click.Path(path_type=Path)
SHARE = click.FloatRange(0.0, 1.0, min_open=True, max_open=True)
ABOVE_ZERO = click.FloatRange(min=0.0, min_open=True)


class _Given(NamedTuple):
    """An option or an argument, whatever it is called."""

    add: Callable[[str, str], Callable[[Callable[..., None]], object]]
    default: object = None
    what: str = ""


class _Part(NamedTuple):
    """A record that is made of several of them."""

    kind: type
    declared: Mapping[str, _Given | _Part]
    default: object = None


def option(metavar: str | None = None, what: str = "", *names: str, **settings: Any) -> Any:
    """An option with a value, and a default that the help shows; named as what it is given to."""
    settings |= {"show_default": True} if "default" in settings else {}

    def add(name: str, what: str) -> Callable[[Callable[..., None]], object]:
        spelt = (f"--{name.replace('_', '-')}",) * (not any(one[:2] == "--" for one in names))
        return click.option(*spelt, *names, name, metavar=metavar, help=what, **settings)

    return _Given(add, () if settings.get("multiple") else settings.get("default"), what)


def flag(what: str = "", *names: str, **settings: Any) -> Any:
    """An option without a value."""
    return option(None, what, *names, is_flag=True, **settings)._replace(default=False)


def argument(**settings: Any) -> Any:
    """What is given without a name."""
    return _Given(lambda name, what: click.argument(name, **settings))


def _told(documented: object) -> dict[str, str]:
    """What a docstring says of each parameter."""
    _, _, told = cleandoc(documented.__doc__ or "").partition("\n\nParameters\n----------\n")
    blocks = re.split(r"\n(?=\S)", told.partition("\n\nExamples\n")[0])
    pairs = (block.partition("\n") for block in blocks)
    return {name: " ".join(map(str.strip, what.splitlines())) for name, _, what in pairs}


@dataclass_transform(frozen_default=True)
def record(kind: type[Kind]) -> type[Kind]:
    """A frozen dataclass whose fields are options."""
    told = _told(kind)
    for name, one in list(vars(kind).items()):
        if isinstance(one, _Given):
            one = one._replace(what=one.what or told.get(name, ""))
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


def command(
    name: str, *more: Any, group: click.Group | None = None
) -> Callable[[Callable[..., None]], click.Command]:
    """Make a command of a function, with the options that its parameters declare.

    Its docstring is the help, which examples end.
    """

    def make(run: Callable[..., None]) -> click.Command:
        text, _, examples = cleandoc(run.__doc__ or "").partition("\n\nExamples\n--------\n")
        text = text.partition("\n\nParameters\n")[0]
        declared = {name: one.default for name, one in signature(run).parameters.items()}
        told = _told(run)

        @wraps(run)
        def started(**given: Any) -> None:
            run(**_values(declared, given))

        for add in more:
            add(started)
        for option, one in reversed(list(_flat(declared))):
            one.add(option, one.what or told.get(option, ""))(started)
        epilog = f"\b\nExamples:\n{indent(examples, '  ')}" if examples else None
        made = (group or click).command(name, _Command, help=text, epilog=epilog)(started)
        if len(made.params) > _MANY:
            made.params.append(_HELP_ALL)
        return made

    return make


class _Command(click.Command):
    """A command whose many options are shown in groups; ``--help`` shows the usual ones alone."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the usual options first; the others if they are few or asked for."""
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        left = {_key(one): one for one in options}
        if "help-all" not in left:
            return super().format_options(ctx, formatter)
        for title, names in (*GROUPS.items(), ("Other options", left)):
            group = [left.pop(name) for name in list(names) if name in left]
            shown = [line for one in group if (line := one.get_help_record(ctx))]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
            if not ctx.meta.get("fires.help_all"):
                return None
        return None


def _show_all(ctx: click.Context, option: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta["fires.help_all"] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_MANY = 25  # options that are too many for one list
_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    help="Show every option and exit.",
    callback=_show_all,
)
# How the help groups the options of commands that have many; the first group is shown by --help.
GROUPS: Mapping[str, Sequence[str]] = {
    title: names.split()
    for title, names in {
        "Usual options": "target top model relations selectors exclude out resume report live "
        "json help-all help",
        "What to select": "batch-size memory time drift groups redundancy columns absent "
        "forget-after seed seeds as-published predictor score scale",
        "How to read FILE": "categorical numeric max-categories keep-suspicious na-values decimal "
        "thousands dates sep encoding no-header comment",
        "Stream sources": "follow position until-end max-wait rate engine master",
        "Run and resume": "overwrite checkpoint max-bad config debug log-level quiet",
        "Output": "transform emit emit-every metrics shape",
    }.items()
}


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


def count(default: int, what: str = "", least: int = 1) -> Any:
    """A whole number, with a default."""
    return option("N", what, type=click.IntRange(min=least), default=default)


def choice(values: Sequence[str]) -> Any:
    """One of several words; by default the first."""
    return option(type=click.Choice(values), default=values[0])


def columns() -> Any:
    """Names of columns; it can be given several times."""
    return option("COL", multiple=True)


def target() -> Any:
    """The column to predict."""
    return option("COL", "The column to predict.", "-t")


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


def number_or_share(least: int, otherwise: str, *words: str) -> Any:
    """What makes a number of things, a share of them below 1, or one of some words, of a text."""

    def convert(value: float | str) -> float | str:
        if not isinstance(value, str) or value in words:
            return value
        try:
            number = int(value) if value.isdigit() else float(value)
        except ValueError:
            number = -1
        is_share = isinstance(number, float) and 0 <= number < 1 and (number or not least)
        if not (is_share or (isinstance(number, int) and number >= least)):
            raise click.BadParameter(f"{value!r} is neither {otherwise}.")
        return number

    return convert


class Memory(click.FloatRange):
    """A number of rows above 1, or a time."""

    name = "number of rows, nor a time such as 7d"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or the text of a time."""
        return value if seconds_of(value) else super().convert(value, param, ctx)


def as_height_and_width(value: str) -> str:
    """The height and width of a picture, once they are known to be numbers."""
    found = re.fullmatch(r"0*([1-9]\d{0,6})x0*([1-9]\d{0,6})", str(value).lower(), re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a height and width such as 28x28.")
    return f"{found[1]}x{found[2]}"


# --- in a file, and as facts ----------------------------------------------------------------------

# Options that say where a run goes, not what it is.
_OF_THE_FOLDER = ("overwrite", "out", "resume", "live")


def read_config(ctx: click.Context, path: Path | None) -> None:
    """Take options from a file; those of the command line win."""
    if path is None:
        return
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # what TOML is not, or what text is not
        raise InputError(f"{path} is not a TOML file: {error}") from None
    known = {_key(option): option for option in _options(ctx)}
    older = {name.lstrip("-"): _key(option) for option in known.values() for name in option.opts}
    ctx.default_map = {}
    for name, value in given.items():
        key = older.get(name, name)
        if key not in known:
            hint = closest(key, known, f"{ctx.info_name} has {', '.join(known)}")
            raise InputError(f'{path}: there is no option "{key}"', hint=hint)
        try:
            text = _as_typed(known[key], value)
            known[key].type_cast_value(ctx, text)
        except (click.BadParameter, TypeError) as error:
            why = error.message if isinstance(error, click.BadParameter) else str(error)
            raise InputError(f'{path}: "{key}": {why}') from None
        ctx.default_map[str(known[key].name)] = text


def _as_typed(option: click.Parameter, value: Json) -> bool | str | list[str]:
    """A value as it would be typed, so that the option checks it as if it were."""
    if isinstance(option, click.Option) and option.is_flag:
        if not isinstance(value, bool):
            raise TypeError(f"expected true or false, not {value!r}")
        return value
    if option.nargs == -1 or option.multiple:
        return [_text(item) for item in (value if isinstance(value, list) else [value])]
    return _text(value)


def _text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"expected text or a number, not {value!r}")
    return str(value)


def as_toml(ctx: click.Context, **known: Any) -> str:
    """The options of the command that runs, for :func:`read_config`."""
    head = f"# fires {ctx.info_name} --config FILE, with this file, runs this again."
    lines = [f"{head} Options of the command line win.", ""]
    values = ctx.params | known
    for option in _options(ctx):
        value, key = values.get(str(option.name)), _key(option)
        if option.name in _OF_THE_FOLDER:
            continue
        off = "# " * (value is None or value == ())
        if isinstance(value, tuple) and not (option.nargs == -1 or option.multiple):
            value = ",".join(value)
        is_long = isinstance(value, tuple) and sum(map(len, value)) > 60
        how: dict[str, Any] = {"ensure_ascii": False, "default": str, "indent": 4 * is_long or None}
        lines.append(f"{off}{key} = {json.dumps('' if value is None else value, **how)}")
    # What JSON leaves as it is, TOML does too, but for one control character.
    text = "\n".join([*lines, ""]).replace("\x7f", "\\u007f")
    return text.encode(errors="replace").decode()


def _options(ctx: click.Context) -> list[click.Parameter]:
    """What a file can hold: the arguments, and the options by their order in the help."""
    known = [one for one in ctx.command.params if one.expose_value]
    arguments = [one for one in known if isinstance(one, click.Argument)]
    return arguments + [one for one in known if one not in arguments]


def typed_options(ctx: click.Context) -> list[click.Parameter]:
    """What the command line says, by its order in the help."""
    typed = ParameterSource.COMMANDLINE
    return [one for one in ctx.command.params if ctx.get_parameter_source(str(one.name)) is typed]


def _key(option: click.Parameter) -> str:
    """What an option is called in a file: as on the command line, without dashes before it."""
    return max(option.opts, key=len).lstrip("-")


def settings_facts(**known: Any) -> dict[str, Any]:
    """With what settings and versions a command is run, and when it began."""
    context = click.get_current_context()
    values, told = context.params | known, {*_OF_THE_FOLDER, "as_json", "quiet", "log_level"}
    names = [str(option.name) for option in context.command.params if option.name not in told]
    return first_facts({name: values[name] for name in names if name in values}, "polars")


def stream_facts(stream: TableStream, seconds: float) -> dict[str, Any]:
    """How long a command took, and which rows and columns it could not use."""
    return {
        "seconds": round(seconds, 3),
        "rejected_rows": stream.rejected.count,
        "doubts": [vars(doubt) for doubt in stream.doubts],
        "rejected_examples": [list(example) for example in stream.rejected.examples],
    }


# --- options of several commands -----------------------------------------------------------------

_K = number_or_share(1, "a number of features nor a fraction below 1, nor 'auto'", "auto")
TOP = option(
    "K",
    "Features to select: a number, a fraction such as 0.1, or auto: all that are significant.",
    "-k",
    type=_K,
    default=10,
)
RUN = argument(type=PATH)
RUNS = argument(metavar="RUN...", nargs=-1, required=True, type=PATH)
OVERWRITE = flag("Replace an earlier run in --out.")
QUIET = flag("Print only the result and errors.", "-q")
AS_JSON = flag("Print the result as JSON.", "--json")
debug = click.option(
    "--debug",
    is_flag=True,
    help="Show the traceback of an error.",
    expose_value=False,
    callback=lambda ctx, option, value: ctx.meta.update({"fires.debug": value}),
)
config = click.option(
    "--config",
    metavar="TOML",
    help="Read FILE and options from a TOML file, as --out writes it; the command line wins.",
    type=PATH,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, option, path: read_config(ctx, path),
)


def refuse_there(path: Path, *, overwrite: bool) -> None:
    """Raise an error if a file is there that may not be replaced."""
    if path.exists() and not overwrite:
        raise InputError(
            f"{path} already exists", hint="give --overwrite to replace it, or another name"
        )
