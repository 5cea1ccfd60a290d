"""``fires explain``: what a saved run says about one feature, and since when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from fires.cli import options
from fires.cli.interrupts import quick_imports
from fires.cli.text import printable

_EXAMPLES = """\b
Examples:
  fires explain run/ age
  fires explain run/ "net income" --json
"""
_MOST_STAYS = 10


@click.command("explain", epilog=_EXAMPLES)
@options.takes
@options.debug
def command(
    run: Path = options.RUN,
    feature: str = options.argument(),
    as_json: bool = options.AS_JSON,
) -> None:
    """Tell the history of FEATURE in RUN.

    RUN is a folder that fires select --out has made. Shown are how the column was read, its rank
    and importance, what the sign of it says, whether it is selected, when it came and left, and
    the alarms that concern it. Rows are those after which a choice was made.
    """
    with quick_imports():
        from fires.run.saved import SavedRun, feature_history

    known = feature_history(SavedRun(run), feature)
    if as_json:
        click.echo(json.dumps(known, ensure_ascii=False))
        return
    for line in lines_of(known):
        click.echo(printable(line))


def lines_of(known: dict[str, Any]) -> list[str]:
    """The history of a feature in some lines."""
    from fires.cli.tables import alarm_lines

    lines = [f"{known['feature']}: {_reading(known)}"]
    if known.get("doubt"):
        lines.append(f"warning: {known['doubt']}")
    if "rank" not in known:
        return lines
    lines.append(_importance(known))
    return [*lines, _selected(known), *_earlier(known["stays"]), *alarm_lines(known["alarms"])]


def _reading(known: dict[str, Any]) -> str:
    """What the column holds, and how it was read."""
    kind, done = known.get("kind"), known.get("done")
    parts = ["a number" if kind is None else kind] if kind != "left out" else []
    parts += [done] if done else []
    if known.get("missing"):
        parts.append(f"{known['missing']:.1%} missing")
    if known.get("unreadable"):
        parts.append(f"{known['unreadable']:,} cells could not be read")
    return ", ".join(parts)


def _importance(known: dict[str, Any]) -> str:
    if known["rank"] is None:
        return "absent for so long that it was forgotten"
    text = (
        f"rank {known['rank']:,} of {known['n_features']:,}, importance {known['importance']:.4g}"
    )
    low, high = known["low"], known["high"]
    if low is not None:
        text += f", 95% interval [{low:.4g}, {high:.4g}]"
    if known["meaning"]:
        text += f": {known['meaning']}"
    if low is not None and low <= 0.0 <= high:
        text += "; not distinguishable from zero"
    return f"{text}; it has not come lately" if known.get("absent") else text


def _selected(known: dict[str, Any]) -> str:
    stays, n_batches = known["stays"], known["batches"]
    share = f"in {known['share_selected']:.1%} of the batches"
    if not n_batches:
        when = "selected" if known["selected"] else "not selected"
        return f"{when}, {share}; there are no records of when"
    share += f" ({known['batches_selected']:,} of {n_batches:,})"
    if known["selected"] and stays:
        return f"selected since row {stays[-1]['from_row']:,}, {share}"
    if not stays:
        return "never selected"
    return f"not selected since row {stays[-1]['to_row']:,}, before that {share}"


def _earlier(stays: list[dict[str, Any]]) -> list[str]:
    """The stays that are over."""
    over = [stay for stay in stays if stay["to_row"] is not None]
    lines = [f"selected from row {one['from_row']:,} to row {one['to_row']:,}" for one in over]
    more = len(lines) - _MOST_STAYS
    return lines if more <= 0 else [f"{more:,} earlier stays, and:", *lines[more:]]
