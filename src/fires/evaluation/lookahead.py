"""Learning from the batches of a block beforehand, in two calls instead of one after the other."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.evaluation.shown import Shown, known_codes
from fires.kernels import scan, top_k
from fires.kernels.features import weigh
from fires.kernels.perceptron import SHOWN
from fires.kernels.probit import STATE
from fires.models.online_linear import OnlineLinear, Rates
from fires.models.target import level_of_share
from fires.selectors.fires import FIRES
from fires.streams.base import Batch

_BATCHES, _VALUES = 256, 1 << 19  # looked ahead at most: some milliseconds, and 4 MB of history
_PAUSE = 64  # batches at most before another look, where there was nothing to be gained


class Outcome(NamedTuple):
    """What came of a batch."""

    scores: dict[str, float]
    selected: npt.NDArray[np.intp]
    seconds_select: float
    seconds_train: float


class Lookahead:
    """What FIRES and the built-in perceptron will be after each batch of a block.

    At a hundred rows a batch, most of the time of the plain loop is spent between the compiled
    calls. So, where the rows to come are known, copies of what selector and predictor have learnt
    are moved by many batches in one call each, the same call that moves them by a single one. What
    they are after each batch is kept, and only when that batch comes do selector and predictor
    become it: whoever looks at them, stops, or changes them between two batches notices nothing,
    and all results are the same to the last bit.

    All of this is for the ordinary: the default model, two classes, nothing that the gate would
    refuse. Whatever else a batch is, :meth:`outcome` leaves it to the plain loop.
    """

    def __init__(self, selector: Any) -> None:
        self._selector = selector
        self._plan: _Plan | None = None
        self._reach, self._pause, self._wait = 8, 0, 0

    def outcome(
        self, batch: Batch, selected: npt.NDArray[np.intp], shown: Shown | None
    ) -> Outcome | None:
        """Learn from the batch, if that has been or can be prepared; else do nothing."""
        if batch.block is None or type(self._selector) is not FIRES:
            return None
        if self._plan is None or not self._plan.goes_on(batch):
            if self._wait:
                self._wait -= 1
                return None
            self._plan = _plan(batch, self._selector, selected, shown, self._reach)
            if self._plan is None:
                self._pause = self._wait = min(2 * self._pause + 1, _PAUSE)
                self._reach = 2
                return None
            # As far again as it went well, and at first not far: to look in vain costs as much.
            self._pause, self._reach = 0, min(2 * self._plan.n_batches, _BATCHES)
        return self._plan.follow()


class _Plan:
    """What will be after each of the next batches, and how far it is already so."""

    def __init__(
        self,
        batch: Batch,
        selector: FIRES,
        selected: npt.NDArray[np.intp],
        shown: Shown | None,
        X: Floats,
        codes: npt.NDArray[np.intp],
        n_missing: npt.NDArray[np.intp],
    ) -> None:
        started = time.perf_counter()
        self._block, self._start, self._n_rows = batch.block, batch.start, batch.n_rows
        self._selector, self._shown = selector, shown
        self._learner: OnlineLinear = selector._learner_
        self._settings = _settings(selector)
        self._n_missing, self._at = n_missing.sum(axis=1).tolist(), 0
        # What is another once somebody else has learnt something.
        self._seen, self._model = selector._seen_, self._parameters()

        self._learn(X, codes, n_missing)
        self._select(selected)
        chosen = time.perf_counter()
        if shown is not None and self.n_batches:
            n = self.n_batches * self._n_rows
            before, after = self._sets[:-1], self._sets[1:]
            self._kept_shown = shown.packed(self.n_batches)
            right = shown.steps(X[:n], codes[:n], before, after, self._kept_shown)
            self._accuracy = (right / self._n_rows).tolist()
        trained = time.perf_counter()
        n = max(self.n_batches, 1)
        self._seconds = (chosen - started) / n, (trained - chosen) / n

    def _learn(
        self, X: Floats, codes: npt.NDArray[np.intp], n_missing: npt.NDArray[np.intp]
    ) -> None:
        """Find the state of the learner after each batch that is an ordinary one."""
        learner, n_batches = self._learner, len(n_missing)
        per_class = np.empty((n_batches + 1, 2))
        per_class[1:, 1] = codes.reshape(n_batches, -1).sum(axis=1)
        per_class[1:, 0] = self._n_rows - per_class[1:, 1]
        per_class[0] = learner.target.class_weight
        per_class = per_class.cumsum(axis=0)
        levels = np.array([level_of_share("probit", *seen) for seen in per_class[:-1].tolist()])
        counts = np.empty((n_batches + 1, len(learner.dense.count)))
        counts[1:] = self._n_rows - n_missing
        counts[0] = learner.dense.count
        counts = counts.cumsum(axis=0)
        self._kept = learner.packed(learner.dense, n_batches)
        rate, rate_sigma, *_ = self._settings
        rates = Rates(rate, rate if rate_sigma is None else rate_sigma)
        self.n_batches = learner.steps(X, codes, levels, counts[1:], rates, self._kept)
        self._counts, self._per_class = counts, per_class

    def _select(self, selected: npt.NDArray[np.intp]) -> None:
        """Find the set before the first batch, and that after each."""
        *_, penalty, scale, k = self._settings
        self._sets = np.empty((self.n_batches + 1, k), dtype=np.intp)
        self._sets[0] = selected
        weights = np.empty(self._learner.n_features)
        for i in range(1, self.n_batches + 1):
            mu, sigma, *_ = self._kept[0][i]
            weigh(mu, sigma, float(penalty), 2.0 * scale, weights)
            self._sets[i] = top_k(weights, k)

    def goes_on(self, batch: Batch) -> bool:
        """Whether this is the batch that was expected, and nobody else has touched anything."""
        return (
            self._at < self.n_batches
            and batch.block is self._block
            and batch.start == self._start + self._at * self._n_rows
            and batch.n_rows == self._n_rows
            and self._selector._learner_ is self._learner
            and self._selector._seen_ is self._seen
            and self._model == self._parameters()
            and self._settings == _settings(self._selector)
        )

    def follow(self) -> Outcome:
        """Let what was planned for the next batch become true."""
        self._at = i = self._at + 1
        (states, rests), selector = self._kept, self._selector
        self._learner.adopt(states[i], rests[i], self._counts[i], self._per_class[i])
        selector.n_samples_seen_ += self._n_rows
        selector.n_missing_ += self._n_missing[i - 1]
        selector._seen_ = self._seen = {}
        scores = {}
        if self._shown is not None:
            states, biases = self._kept_shown
            self._shown.adopt(states[i], biases[i])
            self._model = self._parameters()
            scores["accuracy"] = self._accuracy[i - 1]
        return Outcome(scores, self._sets[i], *self._seconds)

    def _parameters(self) -> bytes:
        """The predictor, to be compared with what it is later."""
        if self._shown is None:
            return b""
        model = self._shown.predictor
        parameters: bytes = model.coef_.tobytes() + model.intercept_.tobytes()
        return parameters


def _plan(
    batch: Batch,
    selector: FIRES,
    selected: npt.NDArray[np.intp],
    shown: Shown | None,
    reach: int,
) -> _Plan | None:
    """Learn from the batch and those behind it, on copies; None if it is not ordinary."""
    learner = selector._learner_
    if (
        batch.block is None
        or type(learner) is not OnlineLinear
        or not learner.ordinary(batch.X)
        or not learner.dense.ready
        or batch.X.shape[1] != learner.n_features
        or len(selector.classes_) != 2
        or len(selected) != selector._resolve_k()
        or (hasattr(selector, "feature_names_in_") and not hasattr(selector, "_named_apart_"))
        or (shown is not None and not shown.goes_fast(selector.classes_))
    ):
        return None
    X, y = batch.block
    width = (len(STATE) + len(SHOWN)) * X.shape[1]
    n_batches = min((len(y) - batch.start) // batch.n_rows, reach, _VALUES // width)
    rows = slice(batch.start, batch.start + n_batches * batch.n_rows)
    X, codes = X[rows], known_codes(y[rows], selector.classes_)
    if codes is None or n_batches == 0:
        return None
    n_missing, *refused = scan(X)
    per_batch = np.zeros((n_batches, 1), dtype=np.intp)
    if n_missing:
        per_batch = np.isnan(X).reshape(n_batches, batch.n_rows, -1).sum(axis=1)
        # The first gap gives each feature a count of its own: that is left to the plain loop.
        refused += [selector.missing != "ignore" or len(learner.dense.count) < X.shape[1]]
    if any(refused):
        return None
    plan = _Plan(batch, selector, selected, shown, X, codes, per_batch)
    return plan if plan.n_batches else None


def _settings(selector: FIRES) -> tuple[Any, ...]:
    """What learning and selecting depend on, besides what was learnt."""
    return (
        selector.learning_rate,
        selector.learning_rate_sigma,
        selector.missing,
        selector.uncertainty_penalty,
        selector.weight_penalty,
        selector._resolve_k(),
    )
