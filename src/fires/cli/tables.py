"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich import box
from rich.table import Table
from rich.text import Text

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
    >>> from fires import FIRES
    >>> from rich.console import Console
    >>> selector = FIRES(1).partial_fit([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]], [0, 0, 1])
    >>> table = feature_table(selector, ["age", "size"], np.array([0.0, 1.0]), n_rows=2)
    >>> Console(width=80, color_system=None).print(table)
                                     importance    batches
    rank   feature    weight      ± uncertainty   selected
    ──────────────────────────────────────────────────────
       1   size      -0.4993   -0.0037 ± 1.0000     100.0%
    <BLANKLINE>
       2   age       -0.4995    0.0030 ± 1.0000       0.0%
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
            Text(names[column]),  # as it is: a name may hold what rich takes for markup
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
