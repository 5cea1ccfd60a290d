"""Comparing selectors: honest scores, stability, and whether a difference is more than chance.

python examples/comparing.py
"""

from __future__ import annotations

from fires import FIRES, OFS, Screening
from fires.evaluation.compare import compare
from fires.streams import KnownTruth


def main() -> None:
    """Compare three selectors on a stream whose relevant features are known."""
    found = compare(
        lambda: KnownTruth(6_000, n_features=30, n_relevant=5, random_state=0),
        {
            "fires": lambda seed: FIRES(5),
            "ofs": lambda seed: OFS(5),
            "screening": lambda seed: Screening(5),
        },
        seeds=3,
    )
    for one in found.outcomes:
        difference = "" if one.difference != one.difference else f", {one.difference:+.3f}"
        significant = " (significant)" if one.p_value < 0.05 else ""
        scores = f"accuracy {one.score:.3f}, stability {one.stability:.2f}"
        print(f"{one.name:10} {scores}{difference}{significant}")


if __name__ == "__main__":
    main()
