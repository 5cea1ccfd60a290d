"""The tables that commands print."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from fires.cli.text import printable

_MOST_ALARMS = 10


def feature_table(
    rows: Sequence[Mapping[str, Any]], relevant: Mapping[str, str] | None = None
) -> Table:
    """Features in order, the selected ones bright, with a gap below the last of them.

    Parameters
    ----------
    rows : sequence of mapping
        Of :func:`fires.evaluation.run_folder.feature_rows`.
    relevant : mapping of str to str, optional
        What is truly known about some features, by their names: one more column.

    Returns
    -------
    Table
        Importances have their interval beside them; without one, their uncertainty. With three
        classes or more, a column says for which of them a feature matters most.

    Examples
    --------
    >>> from rich.console import Console
    >>> size = dict(rank=1, feature="size", weight=0.5, importance=-0.52, uncertainty=0.1)
    >>> age = dict(rank=2, feature="age", weight=0.01, importance=0.05, uncertainty=0.1)
    >>> size |= {"low": -0.71, "high": -0.32, "selected": True, "share_selected": 0.875}
    >>> age |= {"low": -0.15, "high": 0.25, "selected": False, "share_selected": 0.125}
    >>> Console(width=80, color_system=None).print(feature_table([size, age]))
                                         importance    batches
    rank   feature   weight          [95% interval]   selected
    ──────────────────────────────────────────────────────────
       1   size       0.500   -0.52  [-0.71, -0.32]      87.5%
    <BLANKLINE>
       2   age       0.0100    0.05  [-0.15,  0.25]      12.5%
    """
    importance, importances = _importances(rows)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("rank", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("feature", vertical="bottom", overflow="fold")
    for title in ("weight", importance, "batches\nselected"):
        table.add_column(title, justify="right", vertical="bottom", no_wrap=True)
    by_class = any(row.get("class") is not None for row in rows)
    if by_class:
        table.add_column("class", vertical="bottom", overflow="fold")
    if relevant is not None:
        table.add_column("relevant", vertical="bottom")
    last = max((place for place, row in enumerate(rows) if row["selected"]), default=-1)
    for place, row in enumerate(rows):
        cells: list[str | Text] = [
            str(row["rank"]),
            Text(printable(row["feature"])),  # a name may hold what rich takes for markup
            f"{row['weight']:#.3g}",
            Text(importances[place]),
            f"{row['share_selected']:.1%}",
        ]
        if by_class:
            cells.append(Text(printable(str(row["class"]))))
        if relevant is not None:
            cells.append(relevant.get(row["feature"], ""))
        style = "" if row["selected"] else "dim"
        table.add_row(*cells, end_section=place == last, style=style)
    return table


def _importances(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The head of the column of importances, and its cells."""
    if any(row["low"] is None for row in rows):
        cells = [f"{row['importance']:.4f} ± {row['uncertainty']:.4f}" for row in rows]
        return "importance\n± uncertainty", cells
    # As many decimals as the narrowest interval tells apart, the same in all rows.
    least = min((row["high"] - row["low"] for row in rows), default=1.0)
    digits = min(max(round(1.0 - math.log10(least)), 2), 6) if least > 0.0 else 2
    ends = [[f"{row[end]:.{digits}f}" for end in ("low", "high")] for row in rows]
    width = max((len(end) for both in ends for end in both), default=0)
    return "importance\n[95% interval]", [
        f"{row['importance']:.{digits}f}  [{low:>{width}}, {high:>{width}}]"
        for row, (low, high) in zip(rows, ends, strict=True)
    ]


def alarm_lines(alarms: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line per alarm, the last ten at most.

    Parameters
    ----------
    alarms : sequence of mapping
        Of :func:`fires.evaluation.run_folder.alarm_rows`.

    Returns
    -------
    list of str

    Examples
    --------
    >>> alarm_lines([dict(row=10_100, batch=100, feature=None, strength=55.9)])
    ['alarm at row 10,100 (batch 100): what the features tell has changed']
    """
    lines = []
    for alarm in alarms:
        name = alarm["feature"]
        subject = "what the features tell" if name is None else f"what {printable(name)} tells"
        at = f"alarm at row {alarm['row']:,} (batch {alarm['batch']:,})"
        lines.append(f"{at}: {subject} has changed")
    lines = list(dict.fromkeys(lines))  # several classes may notice the same change
    more = len(lines) - _MOST_ALARMS
    return lines if more <= 0 else [f"{more:,} earlier alarms, and:", *lines[more:]]


def text_table(
    titles: Sequence[str],
    *,
    left: Collection[str] = (),
    wrapped: Collection[str] = (),
    vertical: Literal["top", "bottom"] = "bottom",
    **options: Any,
) -> Table:
    """An empty table in the look of all commands: a line below the head, and no other.

    Parameters
    ----------
    titles : sequence of str
        The head of each column.
    left, wrapped : collection of str
        The columns aligned on the left, and those whose texts may take several lines; the others
        are aligned on the right, and have one line.
    vertical : {"top", "bottom"}
        Where short cells stand beside long ones.
    **options
        Others of :class:`rich.table.Table`.

    Returns
    -------
    Table
        ``add_row`` fills it.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    for title in titles:
        table.add_column(
            title,
            justify="left" if title in left else "right",
            vertical=vertical,
            no_wrap=title not in wrapped,
        )
    return table
