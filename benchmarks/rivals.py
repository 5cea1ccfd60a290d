"""Rows a second of the methods that go row by row, against the same loop in plain NumPy.

A compiled loop is measured against the definition beside it, both on arrays that are ready and
labels that are signs; both are checked to learn the same coefficients. Beside it stands the whole
of ``partial_fit``: gate, labels, a copy to go back to.

A tenth of the features decide the class and a tenth of the labels are wrong, always others, so that
nothing can be learnt by heart. The share of rows that move something is shown, since a row that
moves nothing is cheap for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests import naive

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import AROW, EFS, FTRL, OFS, SCW, OFSPartial, PEtrun
from fires.core.randomness import generator
from fires.kernels import online, second_order, sequential
from fires.kernels.linear import as_rows
from fires.kernels.sequential import ALL

N_ROWS, N_FEATURES, K, ASKED = 100, 500, 10, 20
JUDGED = ("OFS", "EFS", "AROW")
LOOPS = {
    OFS: (sequential, "ofs"),
    PEtrun: (sequential, "ofs"),
    OFSPartial: (sequential, "ofs_partial"),
    EFS: (online, "winnow"),
    AROW: (second_order, "second_order"),
    SCW: (second_order, "second_order"),
    FTRL: (online, "ftrl"),
}
N_ARRAYS, N_BATCHES, ROUNDS, CALLS = 4, 16, 40, 4

Batch = tuple[Any, Any]
Plain = Callable[[Any, Any], object]  # learns from rows and signs


def batches() -> list[Batch]:
    """Uniform features, which every method here can bear, in few batches that get new labels."""
    rng = np.random.default_rng(N_FEATURES)
    theta = rng.normal(size=N_FEATURES) * (rng.random(N_FEATURES) < 0.1)
    rows = rng.random((N_ARRAYS, N_ROWS, N_FEATURES))
    out = []
    for i in range(N_BATCHES):
        X = rows[i % N_ARRAYS]
        wrong = rng.random(N_ROWS) < 0.1
        out.append((X, (((X - 0.5) @ theta > 0) != wrong).astype(np.int64)))
    return out


class Truncated:
    """Plain OFS and its kin: the coefficients."""

    def __init__(self, learn: Callable[..., Any], *settings: Any) -> None:
        self.learn, self.settings, self.w = learn, settings, np.zeros(N_FEATURES)

    def __call__(self, X: Any, y: Any) -> Any:
        """Learn from rows and signs."""
        self.w = self.learn(X, y, self.w, *self.settings)
        return self.w


class Partial(Truncated):
    """Plain OFS with partial information: random numbers too."""

    def __init__(self, *settings: Any) -> None:
        super().__init__(naive.partial_plain, *settings)
        self.rng = generator(0, "ofs partial")

    def __call__(self, X: Any, y: Any) -> Any:
        """Learn from rows and signs."""
        draws = self.rng.random((len(y), 1 + K))
        self.w = self.learn(X, y, draws, self.w, *self.settings)
        return self.w


class Pair:
    """Two arrays that a plain loop takes and gives back, and the coefficients they stand for."""

    def __init__(
        self, learn: Callable[..., Any], start: Any, read: Callable[[Any], Any], *settings: Any
    ) -> None:
        self.learn, self.pair, self.read, self.settings = learn, start, read, settings

    def __call__(self, X: Any, y: Any) -> Any:
        """Learn from rows and signs."""
        self.pair = self.learn(X, y, *self.pair, *self.settings)
        return self.read(self.pair)


def methods() -> dict[str, tuple[Callable[[], Any], Callable[[], Plain]]]:
    """Every method twice, freshly made: a selector, and its plain loop."""
    n, phi = N_FEATURES, 0.6744897501960817
    belief, mean = (np.zeros(n), np.ones(n)), (lambda pair: pair[0])
    steps = (0.1, 1.0, 1.0, 0.0)
    arow, scw = (second_order.AROW, 1.0, 0.0), (second_order.SCW_1, phi, 1.0)
    return {
        "OFS": (
            lambda: OFS(K),
            lambda: Truncated(naive.ofs_plain, K, (0.2, 1.0, 10.0, 1.0)),
        ),
        "OFSPartial": (
            lambda: OFSPartial(K, random_state=0),
            lambda: Partial(K, (0.2, 0.2, 10.0, 0.0)),
        ),
        "PEtrun": (
            lambda: PEtrun(K),
            lambda: Truncated(naive.ofs_plain, K, (1.0, 1.0, np.inf, 0.0)),
        ),
        "EFS": (
            lambda: EFS(K),
            lambda: Pair(
                naive.winnow_plain,
                (np.full(n + 1, 2.0), np.ones(n + 1)),
                lambda pair: (pair[0] - pair[1])[:-1],
                (1.5, 0.5, 1.0, 1.0),
            ),
        ),
        "AROW": (
            lambda: AROW(K),
            lambda: Pair(naive.second_order_plain, belief, mean, K, ALL, arow, False),
        ),
        "SCW": (
            lambda: SCW(K),
            lambda: Pair(naive.second_order_plain, belief, mean, K, ALL, scw, False),
        ),
        "AROW, truncated": (
            lambda: AROW(K, truncate="confidence"),
            lambda: Pair(
                naive.second_order_plain,
                belief,
                mean,
                K,
                sequential.CONFIDENT,
                arow,
                False,
            ),
        ),
        "FTRL": (
            lambda: FTRL(K),
            lambda: Pair(
                naive.ftrl_plain,
                (np.zeros(n + 1), np.zeros(n + 1)),
                lambda pair: online.coefficients_plain(*pair, 1.0, steps)[:-1],
                True,
                steps,
            ),
        ),
    }


def check_equals(selector: Any, plain: Plain, data: list[Batch]) -> float:
    """The two agree after every batch, so that equals are compared; the share of moving rows."""
    moving = 0
    for X, y in data:
        coefficients = plain(X, 2.0 * y - 1.0)
        selector.partial_fit(X, y)
        np.testing.assert_allclose(selector.importances_, coefficients, rtol=1e-6, atol=1e-9)
    # Row by row, since no loop counts for us.
    for x, label in zip(*data[-1], strict=True):
        before = selector.importances_
        selector.partial_fit(x[None, :], [label])
        moving += bool((selector.importances_ != before).any())
    return moving / N_ROWS


def measure(name: str, make: Callable[[], Any], make_plain: Callable[[], Plain]) -> list[Row]:
    data = batches()
    signed = [(X, 2.0 * y - 1.0) for X, y in data]
    moving = check_equals(make(), make_plain(), data)
    selectors, plain = (make(), make()), make_plain()
    for (X, y), (_, signs) in zip(data, signed, strict=True):
        plain(X, signs)
        for selector in selectors:
            selector.partial_fit(X, y)
    things: dict[str, Callable[[int], object]] = {
        "plain NumPy per row": lambda i: plain(*signed[i % N_BATCHES]),
        "compiled loop": loop_alone(selectors[0], signed),
        "whole partial_fit": lambda i: selectors[1].partial_fit(*data[i % N_BATCHES]),
    }
    times = take_turns(things, ROUNDS, CALLS)
    theirs = times.pop("plain NumPy per row")
    size = f"{moving:.0%} of rows move"
    rows = [Row(f"{name}, plain NumPy per row", size, shown(theirs), "1")]
    for what, ours in times.items():
        ratio = Ratio.of(theirs, ours)
        judged = name in JUDGED and what == "compiled loop"
        figure = (f">= {ASKED}", ratio.value >= ASKED) if judged else ()
        speed = f"{N_ROWS / ours.min():,.0f} rows/s"
        rows.append(Row(f"{name}, {what}", speed, shown(ours), ratio, *figure))
    return rows


def loop_alone(selector: Any, signed: list[Batch]) -> Callable[[int], object]:
    """The compiled loop as the selector calls it: on rows and signs, as the plain one is called."""
    ready = [(as_rows(X), signs) for X, signs in signed]
    module, name = LOOPS[type(selector)]
    kernel, calls = getattr(module, name), []

    def recorded(*arguments: Any) -> Any:
        calls.append(arguments)
        return kernel(*arguments)

    setattr(module, name, recorded)
    try:
        selector._run(*ready[0])
    finally:
        setattr(module, name, kernel)
    rest = calls[0][2:]  # what was learnt, which the loop goes on with in place, and settings
    return lambda i: kernel(*ready[i % N_BATCHES], *rest)


def main() -> list[Row]:
    rows = [row for name, pair in methods().items() for row in measure(name, *pair)]
    return show(
        f"rivals: a plain loop's time over ours, batch 100, J = {N_FEATURES}, float64", rows
    )
