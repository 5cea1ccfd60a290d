"""What the weights of a feature should come to: the tables of docs/models.md.

python examples/aggregation.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from fires import FIRES
from fires.core.belief import Belief, stable_weights
from fires.models import NeuralNet, SoftTree

SEEDS = range(5)


def batch(kind: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """100 rows of 20 features, of which the first two matter."""
    X = rng.normal(size=(100, 20))
    if kind == "linear":
        return X, X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=100) > 0
    if kind == "product of signs":
        return X, X[:, 0] * X[:, 1] > 0
    return X, np.abs(X[:, 0]) + np.abs(X[:, 1]) > 1.5


def share(belief: Belief) -> float:
    """How many of the two relevant features are the first two."""
    weights = stable_weights(belief)
    return len({0, 1} & set(np.argsort(-weights)[:2].tolist())) / 2


def main() -> None:
    """Print both tables."""
    torch.set_num_threads(1)
    for model in (NeuralNet(), SoftTree()):
        for kind in ("linear", "product of signs", "both signs"):
            found: dict[str, list[float]] = {"paper": [], "abs": [], "rms": []}
            for seed in SEEDS:
                rng = np.random.default_rng(seed)
                selector = FIRES(2, model=model, random_state=seed)
                for _ in range(150):
                    selector.partial_fit(*batch(kind, rng))
                parameters = selector._learner_.parameters
                for how, shares in found.items():
                    other = replace(model, aggregate=how)
                    shares.append(share(other.to_features(parameters.as_belief())))
            means = {how: round(float(np.mean(shares)), 2) for how, shares in found.items()}
            print(type(model).__name__, kind, means, flush=True)
    for name, make in (
        ("linear model", lambda seed: FIRES(2)),
        (
            "the paper's net",
            lambda seed: FIRES(
                2, model=NeuralNet.as_published(), fit_intercept=False, random_state=seed
            ),
        ),
        ("NeuralNet()", lambda seed: FIRES(2, model=NeuralNet(), random_state=seed)),
    ):
        firsts = []
        for seed in SEEDS:
            rng, selector = np.random.default_rng(seed), make(seed)
            first: int | str | None = None
            for index in range(300):
                try:
                    selector.partial_fit(*batch("product of signs", rng))
                except ValueError:  # its parameters are no longer finite
                    first = "diverged"
                    break
                if set(selector.get_support(indices=True)) == {0, 1}:
                    first = first or index + 1
                else:
                    first = None
            firsts.append(first)
        print(name, "has both from batch", firsts, flush=True)


if __name__ == "__main__":
    main()
