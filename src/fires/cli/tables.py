"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from rich import box
from rich.table import Table
from rich.text import Text

from fires.cli.text import printable


def feature_table(
    rows: Sequence[Mapping[str, Any]], relevant: Mapping[str, str] | None = None
) -> Table:
    """The best features in order, with a gap below the last one that is selected.

    Parameters
    ----------
    rows : sequence of mapping
        Of :func:`fires.evaluation.run_folder.feature_rows`.
    relevant : mapping of str to str, optional
        What is truly known about some features, by their names: one more column.

    Examples
    --------
    >>> from rich.console import Console
    >>> size = dict(rank=1, feature="size", weight=12.0, importance=-0.5, uncertainty=0.5)
    >>> age = dict(rank=2, feature="age", weight=-0.25, importance=0.05, uncertainty=0.75)
    >>> size |= {"selected": True, "share_selected": 0.875}
    >>> age |= {"selected": False, "share_selected": 0.125}
    >>> Console(width=80, color_system=None).print(feature_table([size, age]))
                                     importance    batches
    rank   feature    weight      ± uncertainty   selected
    ──────────────────────────────────────────────────────
       1   size        12.00   -0.5000 ± 0.5000      87.5%
    <BLANKLINE>
       2   age       -0.2500    0.0500 ± 0.7500      12.5%
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("rank", justify="right", vertical="bottom", no_wrap=True)
    table.add_column("feature", vertical="bottom", overflow="fold")
    for title in ("weight", "importance\n± uncertainty", "batches\nselected"):
        table.add_column(title, justify="right", vertical="bottom", no_wrap=True)
    if relevant is not None:
        table.add_column("relevant", vertical="bottom")
    n_selected = sum(row["selected"] for row in rows)
    for row in rows:
        cells: list[str | Text] = [
            str(row["rank"]),
            Text(printable(row["feature"])),  # a name may hold what rich takes for markup
            f"{row['weight']:#.4g}",
            f"{row['importance']:.4f} ± {row['uncertainty']:.4f}",
            f"{row['share_selected']:.1%}",
        ]
        if relevant is not None:
            cells.append(relevant.get(row["feature"], ""))
        style = "" if row["rank"] <= n_selected else "dim"
        table.add_row(*cells, end_section=row["rank"] == n_selected, style=style)
    return table


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
