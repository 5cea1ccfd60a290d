"""What a selection is worth, in words: above noise or not, better than a baseline or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.core.types import Json
    from fires.run.totals import RunTotals

_UNEVEN = 0.6  # the share of the most common class from which on shares are told
_MOST_CLASSES = 4


def noise_lines(chosen: Sequence[Mapping[str, Json]], n_features: int) -> Iterator[str]:
    """How many of the selected features stand above noise."""
    known = [row["above_noise"] for row in chosen]
    if None in known or not known:
        return
    n, n_above = len(known), sum(map(bool, known))
    of = "it" if n == 1 else f"all {n}" if n_above == n else f"{n_above or 'none'} of the {n}"
    are = "are" if n_above > 1 else "is"
    yield (
        f"{of} {are}{'' if n > 1 or n_above else ' not'} significant after correcting for "
        f"{n_features:,} feature{'' if n_features == 1 else 's'}"
    )


def score_rows(
    totals: RunTotals, n_selected: int, n_features: int
) -> list[tuple[str, Mapping[str, float]]]:
    """The scores on the selected features, and those of the baselines."""
    scores = totals.scores
    if all(value != value for value in scores.values()):
        return []
    names = {"all": f"all {n_features:,} features"} | _BLIND
    own = "the selected feature" if n_selected == 1 else f"the {n_selected:,} selected features"
    beside = [(names[name], one.scores.total) for name, one in reversed(totals.baselines.items())]
    return [(own, scores), *beside]


_BLIND = {"majority": "always the most common class", "mean": "always the mean so far"}


def share_lines(totals: RunTotals) -> Iterator[str]:
    """The share of each class, if one of them makes up most rows."""
    shares = sorted(totals.class_shares.items(), key=lambda one: -one[1])
    if len(shares) < 2 or shares[0][1] <= _UNEVEN:
        return
    (first, share), *others = [(printable(str(label)), share) for label, share in shares]
    told = others if len(others) < _MOST_CLASSES else others[-1:]
    rest = ", ".join(f'"{label}" {share:.1%}' for label, share in told)
    between = ", " if told == others else f"; the rarest of {len(shares):,} classes is "
    yield f'"{first}" makes up {share:.1%} of the rows{between}{rest}'


def verdict_lines(totals: RunTotals) -> Iterator[str]:
    """Whether the selected features tell more than can be said without any."""
    for name, beaten in totals.beaten.items():
        if name not in _BLIND or not beaten or all(beaten.values()):
            continue
        simple = "always saying the " + ("most common class" if name == "majority" else "mean")
        if not any(beaten.values()):
            yield f"the selected features do not beat {simple}"
            continue
        won, lost = ([_SCORES[s] for s, is_won in beaten.items() if is_won == w] for w in (1, 0))
        yield (
            f"by {' and '.join(lost)}, the selected features do not beat {simple}; "
            f"by {' and '.join(won)} they do"
        )


_SCORES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "r2": "R2",
    "mae": "MAE",
}
