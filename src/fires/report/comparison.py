"""A comparison of selectors as the numbers that its page shows."""

from __future__ import annotations

from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from fires.core.errors import InputError
from fires.core.files import damaged, read_json
from fires.core.output import enumeration
from fires.core.types import Header
from fires.evaluation.comparison import BASELINES, Comparison, Outcome, sign_of
from fires.report.wording import rounded

FILE = "compare.json"
SCORES = {
    "balanced_accuracy": "balanced accuracy",
    "r2": "R²",
    "mae": "mean absolute error",
    "f1": "F1",
}
"""What scores are called, where it is not their name."""

_NUMBERS = (
    *("score", "spread", "stability", "stability_spread", "agreement"),
    *("difference", "low", "high", "p_value", "milliseconds"),
)
_FACTS = ("fires", "started", "seconds", "versions", "settings", "rejected_rows")


def comparison_summary(facts: dict[str, Any], name: str | None = None) -> Header:
    """What a page shows of a comparison."""
    found = Comparison.from_dict(facts)
    outcomes = found.outcomes
    settings = facts.get("settings") or {}
    files = [str(file) for file in settings.get("file") or ()]
    columns = {key: rounded(list(map(attrgetter(key), outcomes))) for key in _NUMBERS}
    columns["microseconds_per_row"] = rounded(
        [1e3 * one.milliseconds / found.batch_size for one in outcomes]
    )
    return {
        "name": name or (", ".join(Path(file).name for file in files) or "comparison"),
        "sentence": _sentence(found),
        "score": found.score,
        "more_is_better": sign_of(found.score) > 0,
        "reference": found.reference,
        "rows": found.n_rows,
        "features": found.n_features,
        "classes": len(found.classes),
        "runs": found.seeds,
        "batch_size": found.batch_size,
        "n_pieces": found.n_pieces,
        "selectors": {
            "name": [one.name for one in outcomes],
            "is_baseline": [one.name in BASELINES for one in outcomes],
            "won": [one.won for one in outcomes],
            "lost": [one.lost for one in outcomes],
        }
        | columns,
        "pieces": [rounded(one.pieces) for one in outcomes],
        "beaten": _beaten(found),
        "cautions": list(found.cautions),
        "notes": [note for note in found.notes() if note not in found.cautions],
        "sources": files,
        "target": settings.get("target"),
    } | {key: facts[key] for key in _FACTS if key in facts}


def holds_comparison(folder: Path) -> bool:
    """Whether a folder holds a comparison, and no run."""
    return (folder / FILE).is_file() and not (folder / "run.json").is_file()


def read_comparison(folder: Path) -> Header:
    """The summary of a comparison that was saved."""
    path = folder / FILE
    try:
        with damaged(path):
            return comparison_summary(read_json(path), folder.resolve().name)
    except InputError as error:
        why = "it is damaged, or of another version of fires"
        raise InputError(f"{path} cannot be used: {why}") from error


def _sentence(found: Comparison) -> str:
    """What came out, in one sentence or two."""
    chosen = [one for one in found.outcomes if one.name not in BASELINES]
    if not chosen:
        return f"Nothing but {enumeration([_label(one.name) for one in found.outcomes])} took part."
    best, first, score = chosen[0], found.outcomes[0], SCORES.get(found.score, found.score)
    sentence = f"{best.name} predicts best ({score} {_three(best.score)})"
    if best is not first:
        sentence = (
            f"No selection predicts better than {_label(first.name)} ({score} "
            f"{_three(first.score)}); the best of them is {best.name} ({_three(best.score)})"
        )
    verdicts = _verdicts(found, best)
    beaten, perhaps = (
        [_label(other) for other, verdict in verdicts.items() if verdict == word]
        for word in ("better", "perhaps")
    )
    if beaten:
        sentence += f"{' and' if best is first else ', which'} beats {enumeration(beaten)}"
    if perhaps:
        sentence += f"; its lead over {enumeration(perhaps)} may be chance"
    return f"{sentence}. {_nearest(found, chosen)}".rstrip()


def _nearest(found: Comparison, chosen: list[Outcome]) -> str:
    """How far the best selection is from the one it was tested against, and whether that counts."""
    best, *others = chosen
    if not others:
        return ""
    is_reference = best.name == found.reference
    tested, other = (others[0], others[0].name) if is_reference else (best, found.reference)
    if other in BASELINES or other in found.beaten:  # that it beats it, or not, has been said
        return ""
    gap = f"{_label(other)} is {abs(tested.difference):.2g} behind"
    if np.isnan(tested.p_value):
        return f"{gap}; whether that is chance was not tested, which takes three runs."
    return f"{gap}, which {'is more than' if tested.p_value < 0.05 else 'may be'} chance."


def _verdicts(found: Comparison, one: Outcome) -> dict[str, str]:
    """Whether a selection is better than each thing that it should beat."""
    sign = sign_of(found.score)
    return {
        other: "better"
        if one.name in names
        else ("perhaps" if sign * one.score > sign * found[other].score else "no")
        for other, names in found.beaten.items()
        if other != one.name
    }


def _beaten(found: Comparison) -> Header:
    """A table: for each selection, a word about each thing that it should beat."""
    chosen = [one for one in found.outcomes if one.name not in BASELINES]
    verdicts = [_verdicts(found, one) for one in chosen]
    return {
        "others": [{"name": other, "label": _label(other)} for other in found.beaten],
        "selectors": [one.name for one in chosen],
        "words": [[words.get(other) for other in found.beaten] for words in verdicts],
        "tested": any(not np.isnan(one.p_value) for one in found.outcomes),
    }


def _label(name: str) -> str:
    return BASELINES.get(name, name)


def _three(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1.0 else f"{value:.4g}"
