"""NeuralNet on a GPU against the processor, in one run: ``python -m benchmarks.device``.

Prints the table of docs/device.md. A step includes what a user waits for: the batch goes to the
device, the parameters stay there.
"""

from __future__ import annotations

import time
from datetime import date
from statistics import median

import numpy as np
import scipy.sparse as sp
import torch

from fires.core.batch import CheckedBatch
from fires.models import NeuralNet
from fires.models.base import Rates
from fires.models.model_learner import MonteCarloLearner

SIZES = [(n_features, n_rows) for n_features in (5_000, 100_000) for n_rows in (100, 1_000)]
LIMIT = 5.0  # seconds for each figure


def seconds_a_step(device: str, n_features: int, n_rows: int, density: float | None) -> float:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    if density is None:
        X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
    else:
        X = sp.random(n_rows, n_features, density=density, format="csr", rng=rng)
    model = NeuralNet(device=device)
    learner = MonteCarloLearner(model, n_features, 2, scale=None, rng=rng)
    taken: list[float] = []
    while len(taken) < 4 or (sum(taken) < LIMIT and len(taken) < 200):
        begin = time.perf_counter()
        learner.step(CheckedBatch(X), y, Rates(0.01, 0.01))
        if device == "cuda":
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
    return median(taken[2:])


def main() -> None:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    print(f"{date.today()}: {gpu or 'no GPU'}; {torch.get_num_threads()} threads; ", end="")
    print(f"torch {torch.__version__}\n")
    print("| J | batch | data | processor | GPU | times faster |\n|--:|--:|---|--:|--:|--:|")
    for n_features, n_rows in SIZES:
        for density in (None, 1e-3) if n_features > 10_000 else (None,):
            cpu = seconds_a_step("cpu", n_features, n_rows, density)
            fast = seconds_a_step("cuda", n_features, n_rows, density) if gpu else float("nan")
            data = "dense" if density is None else "0.1 % non-zero"
            times = f"{1e3 * cpu:.1f} ms | {1e3 * fast:.2f} ms | {cpu / fast:.1f}"
            print(f"| {n_features:,} | {n_rows:,} | {data} | {times} |", flush=True)


if __name__ == "__main__":
    main()
