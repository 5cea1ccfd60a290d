"""How a page says things: numbers of few digits, and one sentence about a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats

_MILLION = 1_000_000


def rounded(values: npt.ArrayLike | None, digits: int = 4) -> Any:
    """Numbers with few significant digits, as JSON has them.

    In two steps: so a number half-way between two is shown as the same one if it misses the middle
    by the last bits of a sum, which depend on the order in which numbers were added.
    """
    table = np.asarray(values, dtype=np.float64)  # None is NaN
    short = [
        float(f"{float(f'{value:.12g}'):.{digits}g}") + 0.0 if math.isfinite(value) else None
        for value in table.ravel().tolist()
    ]
    return np.array(short, dtype=object).reshape(table.shape).tolist()


def whole(values: Floats) -> list[int | None]:
    """Whole numbers; None for NaN."""
    return [None if value != value else int(value) for value in values.tolist()]


def sentence(
    counts: dict[str, Any], since: int | None, stability: float | None, *, has_ended: bool
) -> list[str]:
    """What matters now, and since when all of it is selected."""
    n_features, n_selected = counts["features"], counts["selected"]
    if not counts["batches"]:
        return ["No row has been read yet."]
    parts = [_carrying(n_features, n_selected, counts["above_noise"], has_ended)]
    if counts["batches"] == 1:
        parts = [f"{parts[0]} after one batch"]
    elif since is not None and n_selected < n_features:
        parts.append(f"selected since row {row_text(since)}")
    if stability is not None:
        parts.append(f"stability {stability:.2f}")
    return [f"{'; '.join(parts)}."]


def row_text(row: int) -> str:
    """The number of a row, as one says it."""
    if row < _MILLION:
        return f"{row:,}"
    millions = row / _MILLION
    return f"{millions:,.0f} M" if millions >= 100 else f"{millions:.3g} M"


def _carrying(n_features: int, n_selected: int, n_above: int | None, has_ended: bool) -> str:
    """How many features matter."""
    yet = "" if has_ended else " yet"
    if n_features == 1:
        if n_above is None:
            return "There is one feature"
        return "The one feature " + (
            "carries the target" if n_above else f"does not stand out from noise{yet}"
        )
    of_all = f"of {n_features:,} features"
    if n_above is None:
        return f"{n_selected:,} {of_all} {'is' if n_selected == 1 else 'are'} selected"
    if n_above == 0:
        return f"None {of_all} stands out from noise{yet}"
    if n_above == n_features:
        return f"All {n_features:,} features carry the target"
    return f"{n_above:,} {of_all} {'carries' if n_above == 1 else 'carry'} the target"
