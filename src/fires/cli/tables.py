"""The tables that commands print."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from fires.cli.text import SCORES, printable, score_text

if TYPE_CHECKING:
    from fires.columns.warnings import ColumnFacts

_MOST_ALARMS = 10
_MOST_TWINS = 5
_SHARE = "batches\nselected"
_WORDS = ("feature", "class", "relevant")
_FOLDED = 12  # letters of a name in one line
_ANY_WIDTH = 10_000


def feature_table(
    rows: Sequence[Mapping[str, Any]],
    relevant: Mapping[str, str] | None = None,
    width: int | None = None,
) -> Table:
    """Features in order: significant ones that are selected bright, with a gap below the last."""
    importance, importances = _importances(rows)
    columns: dict[str, list[str]] = {
        "rank": [str(row["rank"]) for row in rows],
        "feature": [printable(row["feature"]) for row in rows],
        "weight": [f"{row['weight']:#.3g}" for row in rows],
        importance: importances,
        "importance": [text.split()[0] for text in importances],
        _SHARE: [f"{row['share_selected']:.1%}" for row in rows],
    }
    if any(row.get("class") is not None for row in rows):
        columns["class"] = [printable(str(row["class"])) for row in rows]
    if relevant is not None:
        columns["relevant"] = [relevant.get(row["feature"], "") for row in rows]
    # Where there is no interval, noise is not known, and does not count.
    bright = [row["selected"] and row.get("above_noise") is not False for row in rows]
    last = max((place for place, is_bright in enumerate(bright) if is_bright), default=-1)

    def make(left_out: Sequence[str]) -> Table:
        short = "importance" if importance not in left_out else importance
        titles = [title for title in columns if title not in (*left_out, short)]
        table = text_table(titles, left=_WORDS, wrapped=_WORDS)
        for place in range(len(rows)):
            # A name may hold what rich takes for markup.
            cells = [Text(columns[title][place]) for title in titles]
            style = "" if bright[place] else "dim"
            table.add_row(*cells, end_section=place == last, style=style)
        return table

    return narrowed(make, ["weight", _SHARE, importance, "rank"], width, columns["feature"])


def narrowed(
    make: Callable[[Sequence[str]], Table],
    spare: Sequence[str],
    width: int | None,
    names: Sequence[str] = (),
) -> Table:
    """The table with as many of its columns as have room."""
    from rich.console import Console
    from rich.measure import Measurement

    table = make(())
    if width is None:
        return table
    console = Console(width=_ANY_WIDTH)
    longest = max(map(len, names), default=0)
    for n_left_out in range(1, len(spare) + 1):
        wanted = Measurement.get(console, console.options, table).maximum
        if wanted - max(longest - _FOLDED, 0) <= width:
            break
        table = make(spare[:n_left_out])
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


def twin_lines(twins: Mapping[str, Sequence[str]]) -> list[str]:
    """A line for each selected feature that stands for others."""
    lines = []
    for one, others in twins.items():
        named = ", ".join(map(printable, others[:_MOST_TWINS]))
        more = len(others) - _MOST_TWINS
        lines.append(f"{printable(one)} stands for {named}" + f" and {more} more" * (more > 0))
    return lines


def alarm_lines(alarms: Sequence[Mapping[str, Any]]) -> list[str]:
    r"""A few lines per alarm, the last ten alarms at most."""
    told: dict[str, list[str]] = {}  # several classes may notice the same change
    for alarm in alarms:
        name = alarm["feature"]
        of = "all features" if name is None else printable(name)
        at = f"alarm at row {alarm['row']:,} (batch {alarm['batch']:,})"
        told[f"{at}: concept drift, {of}"] = _change(alarm) if "left" in alarm else []
    more = len(told) - _MOST_ALARMS
    lines = [] if more <= 0 else [f"{more:,} earlier alarms, and:"]
    for line, change in list(told.items())[max(more, 0) :]:
        lines += [line, *(f"  {more}" for more in change)]
    return lines


def _change(alarm: Mapping[str, Any]) -> list[str]:
    """What an alarm was followed by, in a few words."""
    words = {"left": "dropped", "came": "added"}
    moved = [f"{words[key]}: {_listed(alarm[key])}" for key in words if alarm.get(key)]
    lines = ["; ".join(moved) or "the same features stay selected"]
    before, after = dict(alarm.get("before") or {}), dict(alarm.get("after") or {})
    n_before, n_after = before.pop("batches", 0), after.pop("batches", 0)
    batches = "batch" if n_before == 1 else f"{n_before} batches"
    for name in before.keys() & after.keys():
        then, now = score_text(name, before[name]), score_text(name, after[name])
        lines.append(
            f"{SCORES.get(name, name)} {then} in the {batches} before, {now} in the {n_after} after"
        )
    return lines


def _listed(names: Sequence[str], most: int = 5) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - most
    shown = ", ".join(printable(name) for name in names[:most])
    return shown if more <= 0 else f"{shown} and {more:,} more"


def score_table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> Table:
    """Scores side by side."""
    names = list(rows[0][1])
    titles = [SCORES.get(name, name).replace(" ", "\n") for name in names]
    table = text_table(["", *titles], left=[""], wrapped=[""])
    for what, scores in rows:
        cells = ["-" if (s := scores[name]) != s else score_text(name, s) for name in names]
        table.add_row(Text(what), *cells)
    return table


def text_table(
    titles: Sequence[str],
    *,
    left: Collection[str] = (),
    wrapped: Collection[str] = (),
    vertical: Literal["top", "bottom"] = "bottom",
    **options: Any,
) -> Table:
    """An empty table in the look of all commands: a line below the head, and no other."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, **options)
    for title in titles:
        table.add_column(
            title,
            justify="left" if title in left else "right",
            vertical=vertical,
            no_wrap=title not in wrapped,
            overflow="fold",
        )
    return table


def column_table(rows: Sequence[ColumnFacts], width: int | None = None) -> Table:
    """The columns of a file, and how they are understood."""
    columns = {
        "name": [printable(str(row["name"])) for row in rows],
        "kind": [str(row["kind"]) for row in rows],
        "missing": [_if_known("{:.1%}", row["missing"]) for row in rows],
        "distinct": [_if_known("{:,}", row["distinct"]) for row in rows],
        "example": [_short(_if_known("{}", row["example"])) for row in rows],
        "what is done": [printable(str(row["done"])) for row in rows],
    }
    words = ("name", "kind", "example", "what is done")

    def make(left_out: Sequence[str]) -> Table:
        titles = [title for title in columns if title not in left_out]
        table = text_table(
            titles, left=words, wrapped=("name", "example", "what is done"), vertical="top"
        )
        for place in range(len(rows)):
            table.add_row(*(Text(columns[title][place]) for title in titles))
        return table

    texts = [a + b for a, b in zip(columns["name"], columns["what is done"], strict=True)]
    return narrowed(make, ["example", "distinct", "missing"], width, texts)


def _if_known(text: str, value: float | str | None) -> str:
    """The text with the value in it, safe to show."""
    return "" if value is None else printable(text.format(value))


def _short(text: str, most: int = 16) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
