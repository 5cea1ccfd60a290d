"""Texts for a terminal: safe to show, and in the words of the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from fires.core.errors import COMMAND, InputError, MissingExtra, UserError, Wording

EXPECTED = (OSError, ValueError, MemoryError, MissingExtra)
"""Errors that are told in one line. Others are ours to mend, and show where they arose."""


SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "r2": "R2",
    "mae": "MAE",
}
"""What scores are called."""


def score_text(name: str, value: float) -> str:
    """A score as it is shown: mae has the unit of the target, the others are shares."""
    return f"{value:.4g}" if name == "mae" else f"{value:.3f}"


def if_known(text: str, value: float | None) -> list[str]:
    """The text with the value in it, or nothing where it is not defined."""
    return [] if value is None or value != value else [text.format(value)]


class Counted(Protocol):
    """What knows how many rows have been dealt with."""

    @property
    def n_rows(self) -> int:
        """So many rows."""


def printable(text: str) -> str:
    r"""The text with control characters spelt out: names from a file must not steer a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def say(line: str) -> None:
    """Tell the user something besides the result: on standard error."""
    click.echo(printable(line), err=True)


def one_line(error: BaseException, wording: Wording = COMMAND) -> str:
    """What went wrong, in one line and in the words of the command."""
    text = error.worded(wording) if isinstance(error, UserError) else str(error)
    return printable(" ".join(text.split()))


def message(error: BaseException) -> str:
    """What went wrong, as a user of the command would say it."""
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        return printable(f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return "not enough memory for a batch of this size; try a smaller --batch-size"
    return one_line(error)


def tried(write: Callable[[], object]) -> OSError | None:
    """What went wrong when something was written, if anything did."""
    try:
        write()
    except OSError as error:
        return error
    return None


@contextmanager
def saying_where(file: str, target: str, done: Counted | None = None) -> Iterator[None]:
    """Let errors of the learning name the file and the target, which the library does not know."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        where = f"{file}, after {done.n_rows:,} rows" if done and done.n_rows else file
        wording = COMMAND._replace(y=f'the target "{target}"')
        raise InputError(one_line(error, wording), where) from error
