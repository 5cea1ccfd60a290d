"""How a page says things: numbers of few digits, and one sentence about a run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats

# Text, and between it ``{"feature": name}``.
Sentence: TypeAlias = list[str | dict[str, str]]

_MOST_NAMES = 2
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


@dataclass(frozen=True)
class Change:
    """Since when the selected set is what it is."""

    row: int
    came: Sequence[str] = ()
    left: Sequence[str] = ()
    n_same: int = 0
    carry: bool = False


def sentence(
    counts: dict[str, Any], change: Change | None, stability: float | None, *, has_ended: bool
) -> Sentence:
    """What matters now, and since when."""
    if not counts["batches"]:
        return ["No row has been read yet."]
    n_features, n_selected = counts["features"], counts["selected"]
    parts: Sentence = [_carrying(n_features, n_selected, counts["above_noise"], has_ended)]
    if counts["batches"] == 1:
        parts.append(" after one batch")
    elif n_selected < n_features:
        parts += ["; ", *_since(change, counts["above_noise"], has_ended)]
    if stability is not None:
        parts.append(f"; stability {stability:.2f}")
    return _joined([*parts, "."])


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


def _since(change: Change | None, n_above: int | None, has_ended: bool) -> Sentence:
    """Since when the set is what it is."""
    if change is None:
        return [f"the selected set {'changed until the end' if has_ended else 'still changes'}"]
    since = f"since row {row_text(change.row)}"
    if not change.came and not change.left:
        if change.carry:
            return [f"{_some(change.n_same, n_above)} been selected {since}"]
        same = "feature has" if change.n_same == 1 else f"{change.n_same:,} features have"
        return [f"the same {same} been selected {since}"]
    if not change.left:
        return [f"{since} ", *_named(change.came), f" {_is(change.came)} among the selected"]
    if not change.came:
        return [f"{since} ", *_named(change.left), f" {_is(change.left)} not selected any more"]
    have = "has" if len(change.came) == 1 else "have"
    return [f"{since} ", *_named(change.came), f" {have} replaced ", *_named(change.left)]


def _some(n_same: int, n_above: int | None) -> str:
    """How many of those that carry the target."""
    if n_same == n_above:
        return "it has" if n_same == 1 else "all of them have"
    return f"{n_same:,} of them {'has' if n_same == 1 else 'have'}"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _named(names: Sequence[str]) -> Sentence:
    first, *second = ({"feature": name} for name in names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        return [first, ", ", *second, f" and {len(names) - _MOST_NAMES:,} more"]
    return [first, " and ", *second] if second else [first]


def _joined(parts: Sentence) -> Sentence:
    """The same with texts that follow each other made one."""
    joined: Sentence = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    return joined
