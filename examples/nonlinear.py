"""Where nets and trees end: the table of docs/models.md on targets that no line shows.

python examples/nonlinear.py
"""

from __future__ import annotations

import numpy as np
import torch

from fires import FIRES
from fires.models import NeuralNet, SoftTree

SEEDS = range(5)
N_BATCHES = 200
KINDS = {"product of signs": 2, "squares": 3, "sine": 1}


def target(kind: str, X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels by the first features, as many as KINDS says."""
    if kind == "product of signs":
        return X[:, 0] * X[:, 1] > 0
    if kind == "squares":
        return (X[:, :3] ** 2).sum(1) > 2.366
    return np.sin(3.0 * X[:, 0]) + 0.3 * rng.normal(size=len(X)) > 0


def found(model: NeuralNet | SoftTree, kind: str, n_features: int, seed: int) -> np.ndarray:
    """The share of the relevant features that is selected, after each batch of 100."""
    rng, n_relevant, shares = np.random.default_rng(seed + 1000), KINDS[kind], []
    selector = FIRES(n_relevant, model=model, random_state=seed)
    for _ in range(N_BATCHES):
        X = rng.normal(size=(100, n_features))
        selector.partial_fit(X, target(kind, X, rng))
        shares.append(np.mean(selector.get_support(indices=True) < n_relevant))
    return np.array(shares)


def main() -> None:
    """Print the shares after 5,000, 10,000 and 20,000 rows, mean over the seeds."""
    torch.set_num_threads(1)
    for model in (NeuralNet(), SoftTree()):
        for kind in KINDS:
            for n_features in (10, 20, 50, 200):
                shares = np.mean([found(model, kind, n_features, s) for s in SEEDS], axis=0)
                at = [round(float(shares[i - 1]), 2) for i in (50, 100, 200)]
                print(type(model).__name__, kind, n_features, at, flush=True)


if __name__ == "__main__":
    main()
