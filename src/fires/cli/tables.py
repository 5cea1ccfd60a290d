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
    >>> table = feature_table(selector, ["age", "size"], np.array([1.0, 0.0]), n_rows=2)
    >>> Console(width=80).print(table)  # doctest: +SKIP
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rank", justify="right", no_wrap=True)
    table.add_column("feature", overflow="fold")
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("importance ± uncertainty", justify="right", no_wrap=True)
    table.add_column("selected in", justify="right", no_wrap=True)
    if relevant is not None:
        table.add_column("truly relevant")
    n_selected = int(selector.get_support().sum())
    for row, column in enumerate(np.argsort(selector.ranking_)[:n_rows].tolist(), start=1):
        mu, sigma = selector.importances_[column], selector.uncertainties_[column]
        cells = [
            str(row),
            Text(names[column]),  # as it is: a name may hold what rich takes for markup
            f"{selector.weights_[column]:.4g}",
            f"{mu:.4f} ± {sigma:.4f}",
            f"{share[column]:.1%}",
        ]
        if relevant is not None:
            cells.append(relevant.get(column, ""))
        table.add_row(*cells, end_section=row == n_selected)
    return table
