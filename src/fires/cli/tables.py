"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

from fires.cli.text import printable
from fires.core.belief import Floats


def feature_table(
    selector: Any,
    names: Sequence[str],
    share: Floats,
    n_rows: int,
    *,
    relevant: Mapping[int, str] | None = None,
) -> Table:
    """The best features in order, with a gap below the last one that is selected.

    Parameters
    ----------
    selector : FIRES
        Fitted: it has the weights, the importances and the uncertainties.
    names : sequence of str
        What the features are called.
    share : ndarray (n_features,)
        The share of all batches after which each feature was selected.
    n_rows : int
        How many features to show.
    relevant : mapping of int to str, optional
        What is truly known about some features: one more column.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from rich.console import Console
    >>> fitted = SimpleNamespace(
    ...     ranking_=np.array([2, 1]),
    ...     weights_=np.array([-0.25, 12.0]),
    ...     importances_=np.array([0.05, -0.5]),
    ...     uncertainties_=np.array([0.75, 0.5]),
    ...     get_support=lambda: np.array([False, True]),
    ... )
    >>> table = feature_table(fitted, ["age", "size"], np.array([0.125, 0.875]), n_rows=2)
    >>> Console(width=80, color_system=None).print(table)
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
    n_selected = int(selector.get_support().sum())
    for row, column in enumerate(np.argsort(selector.ranking_)[:n_rows].tolist(), start=1):
        mu, sigma = selector.importances_[column], selector.uncertainties_[column]
        cells: list[str | Text] = [
            str(row),
            Text(printable(names[column])),  # as it is: a name may hold what rich takes for markup
            f"{selector.weights_[column]:#.4g}",
            f"{mu:.4f} ± {sigma:.4f}",
            f"{share[column]:.1%}",
        ]
        if relevant is not None:
            cells.append(relevant.get(column, ""))
        table.add_row(
            *cells, end_section=row == n_selected, style="" if row <= n_selected else "dim"
        )
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
