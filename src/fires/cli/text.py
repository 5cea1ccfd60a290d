"""Texts for a terminal: safe to show, and in the words of the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import click

from fires.core.errors import COMMAND, InputError, MissingExtra, UserError, Wording
from fires.core.events import event_rows

_MOST_ALARMS = 10
# Errors that are told in one line. Others are ours to mend, and show where they arose.
EXPECTED = (OSError, ValueError, MemoryError, MissingExtra)


# What scores are called.
SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "r2": "R2",
    "mae": "MAE",
}


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


def twin_lines(twins: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for the selected features that make the same others redundant."""
    standing: dict[tuple[str, ...], list[str]] = {}
    for one, others in twins.items():
        standing.setdefault(tuple(others), []).append(one)
    return [f"redundant given {listed(a)}: {listed(b)}" for b, a in standing.items()]


def relation_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Which features have a curve, and which pairs there are."""
    if curves := [one["feature"] for one in found.get("curves", ())]:
        yield f"nonlinear effect{'s' * (len(curves) > 1)}: {listed(curves)}"
    if pairs := [f"{one['first']} x {one['second']}" for one in found.get("pairs", ())]:
        yield f"interaction{'s' * (len(pairs) > 1)}: {listed(pairs)}"


def alarm_lines(alarms: Sequence[Mapping[str, Any]]) -> list[str]:
    """A few lines per event, the strongest first; weak ones that changed nothing are counted."""
    found = event_rows(alarms)
    told = [one for one in found if one["severity"] == "strong" or any(map(one.get, _MOVED))]
    shown = (told or found[:1])[:_MOST_ALARMS]
    lines: list[str] = []
    for one in shown:
        at = f"alarm at row {one['row']:,} (batch {one['batch']:,})"
        what = listed(one["features"]) or "all features"
        more = f", {one['n_alarms']} alarms up to row {one['last_row']:,}" * (one["n_alarms"] > 1)
        lines.append(f"{at}: concept drift, {what} ({one['severity']}{more})")
        lines += [f"  {line}" for line in _change(one)]
    if n_more := len(found) - len(shown):
        same = " that did not change the set" * (len(shown) >= len(told))
        lines.append(f"and {n_more:,} more event{'s' * (n_more > 1)}{same}")
    return lines


_MOVED = {"left": "dropped", "came": "added", "flipped": "changed sign"}


def _change(alarm: Mapping[str, Any]) -> list[str]:
    """What an event was followed by, in a few words."""
    moved = [f"{word}: {listed(alarm[key])}" for key, word in _MOVED.items() if alarm.get(key)]
    lines = ["; ".join(moved) or "the selected features did not change"]
    before, after = dict(alarm.get("before") or {}), dict(alarm.get("after") or {})
    n_before, n_after = before.pop("batches", 0), after.pop("batches", 0)
    batches = "batch" if n_before == 1 else f"{n_before} batches"
    for name in before.keys() & after.keys():
        then, now = score_text(name, before[name]), score_text(name, after[name])
        lines.append(
            f"{SCORES.get(name, name)} {then} in the {batches} before, {now} in the {n_after} after"
        )
    return lines


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - most
    shown = ", ".join(printable(name) for name in names[:most])
    return shown if more <= 0 else f"{shown} and {more:,} more"
