"""What to keep in mind when reading the numbers of a comparison."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fires.evaluation.comparison import BASELINES, FEWEST, Outcome

if TYPE_CHECKING:
    from fires.core.types import Label


def about_labels(classes: Counter[Label], n_stretches: int) -> Iterator[str]:
    """A caution if one can repeat the last label and be right, whatever the features say."""
    n_rows = classes.total()
    if n_rows == 0:  # numbers
        return
    by_chance = n_rows - sum(count**2 for count in classes.values()) / n_rows
    if by_chance > 10 * n_stretches:
        yield (
            f"Caution: labels come in runs of {n_rows / n_stretches:,.0f} rows on average; by "
            f"chance it would be {n_rows / by_chance:,.1f}. To repeat the last label is enough "
            "here, and scores say little about features: if the rows are sorted by class, shuffle "
            "them."
        )


def about_reference(first: str, reference: str) -> Iterator[str]:
    """A caution if the reference is not the selector that was named first."""
    if reference != first:
        yield (
            f"Caution: {first}, named first, is left out; what the others are tested against is "
            f"{reference} instead."
        )


def about_outcomes(
    outcomes: Mapping[str, Outcome], n_pieces: int, score: str, sign: float
) -> Iterator[str]:
    """Cautions about too few runs or pieces, and about baselines that no selector beats."""
    n_runs = max(len(one.runs) for one in outcomes.values())
    if n_runs < FEWEST:
        yield (
            f"Caution: differences are not tested, which takes {FEWEST} runs or more, and there "
            f"{'is one' if n_runs == 1 else f'are {n_runs}'}."
        )
    elif n_pieces < FEWEST:
        yield (
            f"Caution: differences are not tested, which takes {FEWEST} pieces of the stream, and "
            f"there {'is one' if n_pieces == 1 else f'are {n_pieces}'}; take a longer stream or "
            "smaller batches."
        )
    if all(math.isnan(one.stability) for one in outcomes.values()):
        yield "Caution: every selector takes all features; ask for fewer of them."
        return
    best = max(outcomes.values(), key=lambda one: sign * one.score).name
    if best in BASELINES and not outcomes.keys() <= BASELINES.keys():
        named = score.replace("_", " ")
        have = "have" if best in ("all", "random") else "has"
        yield (
            f"Caution: {BASELINES[best]} {have} the best {named}; a selection may not be worth it."
        )
    if "random" in outcomes:
        yield "random keeps its set for a whole run: its stability is 1 whatever the stream is."
