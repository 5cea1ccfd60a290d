"""Doubts that only a whole run can settle: leaks, constants, clocks, and rows sorted by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from fires.columns import Doubt
from fires.columns.ids_and_clocks import few_values
from fires.columns.seen import LEAST
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Header, Label, Labels
from fires.evaluation.cautions import about_labels
from fires.metrics.prediction import Scores
from fires.pipeline import OnlinePipeline
from fires.predictors import LinearRegressor, Perceptron
from fires.rivals.baselines import AllFeatures
from fires.streams.base import Batch

_MOST_COLUMNS = 2000  # for more, a second predictor would take too long
_FIRST_ROWS, _LAST_ROWS = 500, 5000  # that have to be tested, and after which it is settled
_GOOD = {"accuracy": 0.8, "r2": 0.9}  # what a leak makes of the way from knowing nothing to all
_MANY_ROWS = 1000  # in which a column that only grows does not do so by chance
_MUCH_BETTER = 0.5  # of the errors of all other columns together


class LeakWatch:
    """Sees the batches of a run before they are learnt from, and what the pipeline made of them.

    The column that ranks first is tested alone, and all others together: on every batch, before it
    is learnt from. Only the first 5,000 rows since the column ranks first are tested.

    Examples
    --------
    >>> import fires
    >>> rng = np.random.default_rng(0)
    >>> pipeline = fires.OnlinePipeline(fires.FIRES(1), Perceptron())
    >>> watch = LeakWatch(pipeline)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 3))
    ...     X[:, 2] = 7.0
    ...     watch.see(Batch(X, X[:, 1] > 0))
    ...     pipeline = pipeline.partial_fit(X, X[:, 1] > 0)
    >>> for doubt in watch.settled(["a", "b", "c"], []):
    ...     print(doubt.column, doubt.kind)
    b leak
    c constant
    """

    def __init__(self, pipeline: OnlinePipeline) -> None:
        self._pipeline = pipeline
        self._rivals: _Rivals | None = None
        self._values: Floats | None = None
        self._constant = np.empty(0, dtype=np.intp)
        self._n_rows = 0
        self._labels: tuple[int, int, Any] = (0, 0, None)  # labels, runs of equal ones, the last
        self._growing: Floats | None = None  # columns, last values, how many

    def see(self, batch: Batch) -> None:
        """Test what was learnt before this batch, and learn from it."""
        X, y = batch.X, batch.y
        n, n_runs, last = self._labels
        n_new = int(np.count_nonzero(y[1:] != y[:-1])) + int(n == 0 or y[0] != last)
        self._labels = n + len(y), n_runs + n_new, y[-1:].tolist()[0]
        # Sparse rows come without a look at their columns, and so do columns that come and go.
        if not isinstance(X, np.ndarray) or batch.names is not None:
            return
        self._look_for_change(X)
        if self._growing is None or self._growing.size:
            self._look_for_growth(X)
        self._n_rows += len(X)
        selector = self._pipeline.selector
        if not self._pipeline.has_learnt or not 2 <= X.shape[1] <= _MOST_COLUMNS:
            return
        first = int(np.argmax(selector.weights_))  # of a column in several features, the first
        if self._rivals is None or self._rivals.column != first or batch.restarted:
            self._rivals = _Rivals(first, self._pipeline)
        if self._rivals.n_tested < _LAST_ROWS:
            self._rivals.take(X, batch.y)

    def _look_for_change(self, X: Floats) -> None:
        """Keep those columns that have had one value so far."""
        if self._values is None:
            self._values = np.full(X.shape[1], np.nan)
            self._constant = np.arange(X.shape[1])
        if not len(self._constant):
            return
        now = X[:, self._constant]
        low, high = np.fmin.reduce(now, axis=0), np.fmax.reduce(now, axis=0)
        known = self._values[self._constant]
        known = np.where(np.isnan(known), low, known)
        self._values[self._constant] = known
        changed = (low != known) | (high != known)
        self._constant = self._constant[~(changed & ~np.isnan(low))]

    def _look_for_growth(self, X: Floats) -> None:
        """Keep those columns that have few values, and have only grown so far."""
        if self._growing is None:
            self._growing = np.array([np.arange(X.shape[1]), X[0], np.ones(X.shape[1])])
        now = X[:, self._growing[0].astype(np.intp)]
        steps = np.diff(np.vstack([self._growing[1], now]), axis=0)
        self._growing[1:] = now[-1], self._growing[2] + (steps > 0.0).sum(axis=0)
        self._growing = self._growing[:, (steps >= 0.0).all(axis=0) & (self._growing[2] < LEAST)]

    def cautions(self, shares: Mapping[Label, float]) -> list[str]:
        """What to keep in mind of the order of the rows; ``shares`` are those of the classes."""
        n, n_runs, _ = self._labels
        counts = Counter({label: round(n * share) for label, share in shares.items()})
        return list(about_labels(counts, n_runs))

    def saved(self) -> State:
        """Everything there is to save."""
        header: Header = {"n_rows": self._n_rows, "rivals": None, "labels": self._labels}
        arrays: Arrays = {"constant": self._constant}
        if self._growing is not None:
            arrays["growing"] = self._growing
        if self._values is not None:
            arrays["values"] = self._values
        if self._rivals is not None:
            header["rivals"], learnt = self._rivals.saved()
            arrays |= under("rivals", learnt)
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Go on from :meth:`saved`."""
        self._n_rows = int(header["n_rows"])
        self._constant, self._values = arrays["constant"], arrays.get("values")
        # A run of an earlier version has not looked, and cannot know what the rows before were.
        self._growing = arrays.get("growing", np.empty((3, 0)))
        self._labels = tuple(header.get("labels", self._labels))
        if header["rivals"] is not None:
            self._rivals = _Rivals(int(header["rivals"]["column"]), self._pipeline)
            self._rivals.restore(header["rivals"], part_of("rivals", arrays))

    def settled(self, names: Sequence[str], doubts: Sequence[Doubt]) -> list[Doubt]:
        """What is doubtful after the run."""
        if self._values is None:
            return list(doubts)
        held = {names[j] for j in self._constant.tolist() if not np.isnan(self._values[j])}
        still = set(self._constant.tolist())
        # A column may become several features: it is constant if all of them are.
        constant = held - {name for j, name in enumerate(names) if j not in still}
        rows = f"has one value only, in all {self._n_rows:,} rows"
        kept = [doubt for doubt in doubts if doubt.kind != "constant" or doubt.column in constant]
        kept = [replace(one, why=rows) if one.kind == "constant" else one for one in kept]
        known = {doubt.column for doubt in kept}
        why = "" if self._rivals is None else self._rivals.verdict()
        if self._rivals is not None and why and names[self._rivals.column] not in known:
            kept.append(Doubt(names[self._rivals.column], "leak", why))
        new = dict.fromkeys(name for name in names if name in constant - known)
        kept += [Doubt(name, "constant", rows) for name in new]
        for column, _, n in [] if self._growing is None else self._growing.T.tolist():
            if n >= 3 and self._n_rows >= _MANY_ROWS:  # chance does that to 2 in 1e6 columns
                kept.append(Doubt(names[int(column)], "clock", few_values(int(n))))
        return kept


class _Rivals:
    """One column, and all others, each with predictors of its own, of which the better one counts.

    Of classes, the question is whether a row has the one that is the commonest in the first batch.
    A regression answers it more steadily than a Perceptron, which is better at rare classes.
    """

    def __init__(self, column: int, pipeline: OnlinePipeline) -> None:
        self.column, self.n_tested = column, 0
        self._asks_class = isinstance(pipeline.predictor, Perceptron)
        self._class: Any = None
        self._metric = "accuracy" if self._asks_class else "r2"
        kinds = (LinearRegressor, Perceptron) if self._asks_class else (LinearRegressor,)
        self._sides = [
            [
                (
                    OnlinePipeline(AllFeatures(), kind(), pipeline.preprocess),
                    Scores((self._metric,)),
                )
                for kind in kinds
            ]
            for _ in ("alone", "others")
        ]

    def take(self, X: Floats, y: Labels) -> None:
        """Test both sides on a batch, then let them learn from it."""
        if self._asks_class:
            if self._class is None:
                labels, counts = np.unique(y, return_counts=True)
                self._class = labels[counts.argmax()]
            y = (y == self._class).astype(np.int64)
        parts = X[:, [self.column]], np.delete(X, self.column, axis=1)
        for side, part in zip(self._sides, parts, strict=True):
            for pipeline, scores in side:
                if pipeline.has_learnt:
                    told = pipeline.predict(part)
                    scores.update(
                        y,
                        (told.astype(np.float64) > 0.5).astype(np.int64)
                        if self._asks_class
                        else told,
                    )
                pipeline.partial_fit(part, y)
        self.n_tested += len(y)

    def saved(self) -> State:
        """Everything there is to save."""
        label = self._class.item() if isinstance(self._class, np.generic) else self._class
        pipelines: list[Header | None] = []
        header: Header = {
            "column": self.column,
            "n_tested": self.n_tested,
            "class": label,
            "pipelines": pipelines,
        }
        arrays: Arrays = {}
        for i, (pipeline, scores) in enumerate(chain(*self._sides)):
            learnt = pipeline.saved() if pipeline.has_learnt else (None, {})
            pipelines.append(learnt[0])
            arrays |= under(f"pipeline {i}", learnt[1]) | under(f"scores {i}", scores.state())
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Go on from :meth:`saved`."""
        self.n_tested, self._class = int(header["n_tested"]), header["class"]
        saved = enumerate(header["pipelines"])
        for side in self._sides:
            for place, (pipeline, scores) in enumerate(side):
                i, learnt = next(saved)
                if learnt is not None:
                    part = part_of(f"pipeline {i}", arrays)
                    pipeline = OnlinePipeline.from_state(learnt, part, None, None, "the run")
                names = scores.names
                side[place] = pipeline, Scores.from_state(part_of(f"scores {i}", arrays), names)

    def verdict(self) -> str:
        """Why the column is taken for a leak; nothing if it is not."""
        if self.n_tested < _FIRST_ROWS:
            return ""
        alone, others = (
            max(scores.total[self._metric] for _, scores in side) for side in self._sides
        )
        known = 0.0
        if self._asks_class:  # always to say the commonest is to know nothing
            counts = self._sides[0][0][1].matrix.sum(axis=1)
            known = float(counts.max() / counts.sum()) if len(counts) else 1.0
        far = alone >= known + _GOOD[self._metric] * (1.0 - known)
        if known == 1.0 or not far or 1.0 - alone > _MUCH_BETTER * (1.0 - others):
            return ""
        name = "accuracy" if self._asks_class else "R2"
        return (
            "alone predicts the target better than all others together "
            f"({name} {alone:.3f}, they {others:.3f})"
        )
