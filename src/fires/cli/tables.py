"""The tables that commands print."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fires.cli.text import SCORES, printable, score_text

_SHARE = "batches\nselected"
_WORDS = ("feature", "class", "relevant")
_FOLDED = 12  # letters of a name in one line
_ANY_WIDTH = 10_000
_Column = tuple[str, Sequence[str]]


def print_table(
    columns: Iterable[_Column],
    *,
    left: Collection[str] = (),
    wrapped: Collection[str] = (),
    spare: Mapping[str, Sequence[_Column]] | None = None,
    names: Sequence[str] = (),
    dim: Collection[int] = (),
    gap: int | None = None,
    vertical: Literal["top", "bottom"] = "bottom",
    **look: Any,
) -> None:
    """Print columns, each with its title: a line below the head, and no other.

    Where it is too wide, ``spare`` says what to leave out first, and what takes its place; wrapped
    ``names`` take less room than they are long.
    """
    console, wide = Console(), Console(width=_ANY_WIDTH)
    shown, folds = list(columns), max(max(map(len, names), default=0) - _FOLDED, 0)
    for title, instead in [*(spare or {}).items(), ("", ())]:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **look)
        for one, _ in shown:
            table.add_column(
                one,
                justify="left" if one in left else "right",
                vertical=vertical,
                no_wrap=one not in wrapped,
                overflow="fold",
            )
        for place, cells in enumerate(zip(*(cells for _, cells in shown), strict=True)):
            # A name may hold what rich takes for markup.
            style = "dim" if place in dim else ""
            table.add_row(*map(Text, cells), end_section=place == gap, style=style)
        if Measurement.get(wide, wide.options, table).maximum - folds <= console.width:
            break
        shown = [kept for one in shown for kept in (instead if one[0] == title else [one])]
    console.print(table)


def print_features(
    rows: Sequence[Mapping[str, Any]], relevant: Mapping[str, str] | None = None
) -> None:
    """Features in order: significant ones that are selected bright, with a gap below the last."""
    importance, importances = _importances(rows)
    columns = {
        "rank": [str(row["rank"]) for row in rows],
        "feature": [printable(row["feature"]) for row in rows],
        "weight": [f"{row['weight']:#.3g}" for row in rows],
        importance: importances,
        _SHARE: [f"{row['share_selected']:.1%}" for row in rows],
    }
    if any(row.get("class") is not None for row in rows):
        columns["class"] = [printable(str(row["class"])) for row in rows]
    if relevant is not None:
        columns["relevant"] = [relevant.get(row["feature"], "") for row in rows]
    short = ("importance", [text.split()[0] for text in importances])
    # Where there is no interval, noise is not known, and does not count.
    dim = [
        place
        for place, row in enumerate(rows)
        if not row["selected"] or row.get("above_noise") is False
    ]
    print_table(
        columns.items(),
        left=_WORDS,
        wrapped=_WORDS,
        spare={"weight": (), _SHARE: (), importance: [short], "rank": ()},
        names=columns["feature"],
        dim=dim,
        gap=max(set(range(len(rows))).difference(dim), default=-1),
    )


def _importances(rows: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The head of the column of importances, and its cells."""
    if any(row["low"] is None for row in rows):
        cells = [f"{row['importance']:.4f} ± {row['uncertainty']:.4f}" for row in rows]
        return "importance\n± uncertainty", cells
    # As many decimals as the narrowest interval tells apart, the same in all rows.
    least = min((row["high"] - row["low"] for row in rows), default=1.0)
    digits = min(max(round(1.0 - math.log10(least)), 2), 6) if least > 0.0 else 2
    ends = [[f"{row[end]:.{digits}f}" for end in ("low", "high")] for row in rows]
    width = max(map(len, chain(*ends)), default=0)
    return "importance\n[95% interval]", [
        f"{row['importance']:.{digits}f}  [{low:>{width}}, {high:>{width}}]"
        for row, (low, high) in zip(rows, ends, strict=True)
    ]


def print_scores(rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    """Scores side by side."""
    columns = [("", [what for what, _ in rows])]
    for name in rows[0][1]:
        cells = ["-" if (s := scores[name]) != s else score_text(name, s) for _, scores in rows]
        columns.append((SCORES.get(name, name).replace(" ", "\n"), cells))
    print_table(columns, left=[""], wrapped=[""])
