"""Options in a file, and as facts of a run: every run writes them down."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from fires.core.errors import InputError, closest
from fires.core.version import first_facts

if TYPE_CHECKING:
    from fires.core.types import Json
    from fires.streams.table_stream import TableStream


_NOT_OF_THE_RUN = ("overwrite", "out", "resume", "accept-loss", "live")


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
            raise TypeError(f"true or false is wanted, and not {value!r}")
        return value
    if option.nargs == -1 or option.multiple:
        return [_text(item) for item in (value if isinstance(value, list) else [value])]
    return _text(value)


def _text(value: Json) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"a text or a number is wanted, and not {value!r}")
    return str(value)


def as_toml(ctx: click.Context, **known: Any) -> str:
    """The options of the command that runs, for :func:`read_config`."""
    head = f"# fires {ctx.info_name} --config FILE, with this file, runs this again."
    lines = [f"{head} Options of the command line win.", ""]
    values = ctx.params | known
    for option in _options(ctx):
        value, key = values.get(str(option.name)), _key(option)
        if key in _NOT_OF_THE_RUN:
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


_NO_SETTINGS = {"out", "overwrite", "resume", "accept_loss", "live"}
_NO_SETTINGS |= {"as_json", "quiet", "log_level"}


def settings_facts(**known: Any) -> dict[str, Any]:
    """With what settings and versions a command is run, and when it began."""
    context = click.get_current_context()
    values = context.params | known
    names = (
        str(option.name)
        for option in context.command.params
        if option.expose_value and option.name not in _NO_SETTINGS
    )
    return first_facts({name: values[name] for name in names}, "polars")


def stream_facts(stream: TableStream, seconds: float) -> dict[str, Any]:
    """How long a command took, and which rows and columns it could not use."""
    return {
        "seconds": round(seconds, 3),
        "rejected_rows": stream.rejected.count,
        "doubts": [vars(doubt) for doubt in stream.doubts],
        "rejected_examples": [list(example) for example in stream.rejected.examples],
    }
