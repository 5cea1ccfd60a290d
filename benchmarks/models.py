"""A Monte Carlo step against its own parts: as many plain passes of the net, and the draws.

What cannot be avoided are n_draws passes forward and backward and n_draws times K normal numbers.
The net is written as anybody would, and differentiated as anybody would.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import torch

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.core.batch import CheckedBatch
from fires.models import NeuralNet, SoftTree
from fires.models.base import Rates
from fires.models.model_learner import MonteCarloLearner
from fires.models.monte_carlo import MonteCarlo

WIDTHS, N_ROWS, N_DRAWS, ASKED, ROUNDS = (57, 562, 5000), 100, 5, 1.5, 60


class PlainTree(torch.nn.Module):
    """A soft decision tree of depth 3, with the penalty that its objective has."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(n_features, 7, bias=False)
        self.leaves = torch.nn.Parameter(torch.rand(8, 2) - 0.5)

    def forward(self, X: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Log probabilities of the classes, and the penalty."""
        p = torch.sigmoid(self.inner(X))
        reached, penalty = torch.ones(len(X), 1), torch.zeros(())
        for depth in range(3):
            first = p[:, 2**depth - 1 : 2 ** (depth + 1) - 1]
            share = (reached * first).sum(0) / reached.sum(0)
            penalty = penalty - 2.0**-depth * 0.5 * (share.log() + (1.0 - share).log()).sum()
            both = torch.stack([first, 1.0 - first], dim=2)
            reached = (reached.unsqueeze(2) * both).flatten(1)
        return torch.log_softmax(reached @ self.leaves, 1), 0.01 * penalty


def plain_net(n_features: int) -> torch.nn.Module:
    layers: list[torch.nn.Module] = []
    nodes = (n_features, 100, 100, 100, 2)
    for n_in, n_out in pairwise(nodes):
        layers += [torch.nn.Linear(n_in, n_out, bias=False), torch.nn.Softplus()]
    return torch.nn.Sequential(*layers[:-1], torch.nn.LogSoftmax(1))


def passes(module: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> Callable[[int], object]:
    def run(_: int) -> None:
        for _ in range(N_DRAWS):
            module.zero_grad()
            out = module(X)
            scores, penalty = out if isinstance(out, tuple) else (out, 0.0)
            (torch.nn.functional.nll_loss(scores, y) + penalty).backward()

    return run


def measure(
    name: str, model: MonteCarlo, plain: Callable[[int], Any], n_features: int
) -> list[Row]:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((N_ROWS, n_features)), rng.integers(0, 2, N_ROWS)
    module = plain(n_features)
    n_random = sum(p.numel() for n, p in module.named_parameters() if n != "leaves")
    generator = torch.Generator().manual_seed(0)
    learner = MonteCarloLearner(model, n_features, 2, scale=None, rng=rng)
    selector = FIRES(10, model=model, random_state=0)
    times = take_turns(
        {
            "passes": passes(module, torch.tensor(X, dtype=torch.float32), torch.tensor(y)),
            "draws": lambda _: torch.randn(N_DRAWS * n_random, generator=generator),
            "step": lambda _: learner.step(CheckedBatch(X), y, Rates(0.01, 0.01)),
            "partial_fit": lambda _: selector.partial_fit(X, y).get_support(),
        },
        ROUNDS if n_features < 1000 else ROUNDS // 3,
        clock=process_time,
    )
    size, unavoidable = f"J = {n_features:,}", times["passes"] + times["draws"]
    step = Ratio.of(times["step"], unavoidable)
    whole = Ratio.of(times["partial_fit"], unavoidable)
    return [
        Row(f"{N_DRAWS} plain passes", size, shown(times["passes"].min())),
        Row(f"{N_DRAWS} K normal numbers", size, shown(times["draws"].min())),
        Row(f"{name} step", size, shown(times["step"].min()), step, "<= 1.5", step.value <= ASKED),
        Row("partial_fit and get_support", size, shown(times["partial_fit"].min()), whole),
    ]


def main() -> list[Row]:
    torch.set_num_threads(1)  # the clock is that of one thread
    rows = []
    for n_features in WIDTHS:
        rows += measure("NeuralNet", NeuralNet(), plain_net, n_features)
        rows += measure("SoftTree", SoftTree(depth=3), PlainTree, n_features)
    return show("models: a step of 5 draws, batches of 100, against its own parts", rows)
