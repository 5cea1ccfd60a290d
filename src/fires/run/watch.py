"""Warnings that only the rows of a run settle: leaks, constants, clocks, rows sorted by class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fires.columns import Doubt
from fires.columns.warnings import LEAST, few_values
from fires.core.state import Arrays, State
from fires.core.types import Floats, Header, Label, Labels
from fires.evaluation.comparison import about_labels
from fires.selectors.fires import FIRES
from fires.streams.base import Batch

_MOST_COLUMNS = 2000  # for more, the regression on all others would take too long
_FEWEST_ROWS, _ENOUGH_ROWS = 500, 1000  # of the sample that leaks are looked for in
_RIDGE = (0.01, 0.1, 1.0)  # penalties of the regression on all others; the best counts
_GOOD = {"accuracy": 0.8, "R2": 0.9}  # what a leak makes of the way from knowing nothing to all
_MANY_ROWS = 1000  # in which a column that only grows does not do so by chance
_WIDE = 500  # columns, for more of which curves and pairs are not looked for
_MUCH_BETTER = 0.5  # of the errors of all other columns together


class ColumnWatch:
    """Sees the batches of a run before they are learnt from.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> watch = ColumnWatch(classes=True)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 3))
    ...     X[:, 2] = 7.0
    ...     watch.see(Batch(X, X[:, 1] > 0))
    >>> for doubt in watch.settled(["a", "b", "c"], []):
    ...     print(doubt.column, doubt.kind)
    b leak
    c constant
    """

    def __init__(self, *, classes: bool) -> None:
        self._leak = LeakCheck(classes=classes)
        self._values: Floats | None = None
        self._constant = np.empty(0, dtype=np.intp)
        self._n_rows = 0
        self._labels: tuple[int, int, Any] = (0, 0, None)  # labels, runs of equal ones, the last
        self._growing: Floats | None = None  # columns, last values, how many

    def see(self, batch: Batch) -> None:
        """Look at a batch."""
        X, y = batch.X, batch.y
        n, n_runs, last = self._labels
        n_new = int(np.count_nonzero(y[1:] != y[:-1])) + int(n == 0 or y[0] != last)
        self._labels = n + len(y), n_runs + n_new, y[-1:].tolist()[0]
        # Sparse rows come without a look at their columns, and so do columns that come and go.
        if not isinstance(X, np.ndarray) or batch.names is not None:
            return
        if len(self._constant) or self._values is None:
            self._look_for_change(X)
        if self._growing is None or self._growing.size:
            self._look_for_growth(X)
        self._n_rows += len(X)
        if self._leak.found is None:
            self._leak.see(X, y)

    def _look_for_change(self, X: Floats) -> None:
        """Keep those columns that have had one value so far."""
        if self._values is None:
            self._values = np.full(X.shape[1], np.nan)
            self._constant = np.arange(X.shape[1])
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

    def hints(self, names: Sequence[str]) -> list[str]:
        """Which effects straight lines do not show, of the first rows."""
        curves, pairs = self._leak.beyond_lines()
        lines = [f"{names[j]} has a nonlinear effect: try --relations curves" for j in curves[:1]]
        lines += [
            f"{names[i]} and {names[j]} interact: try --relations pairs" for i, j in pairs[:1]
        ]
        return lines

    def saved(self) -> State:
        """Everything there is to save."""
        leak, arrays = self._leak.saved()
        header: Header = {"n_rows": self._n_rows, "labels": self._labels, "leak": leak}
        arrays["constant"] = self._constant
        if self._growing is not None:
            arrays["growing"] = self._growing
        if self._values is not None:
            arrays["values"] = self._values
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Go on from :meth:`saved`."""
        self._n_rows = int(header["n_rows"])
        self._constant, self._values = arrays["constant"], arrays.get("values")
        # A run of an earlier version has not looked, and cannot know what the rows before were.
        self._growing = arrays.get("growing", np.empty((3, 0)))
        self._labels = tuple(header.get("labels", self._labels))
        if "leak" in header:
            self._leak.restore(header["leak"], arrays)
        else:  # what an earlier version has seen of the first rows is of another kind
            self._leak.found = 0, ""

    def settled(self, names: Sequence[str], doubts: Sequence[Doubt]) -> list[Doubt]:
        """What is doubtful after the run."""
        if self._values is None:
            return list(doubts)
        held = {names[j] for j in self._constant.tolist() if not np.isnan(self._values[j])}
        still = set(self._constant.tolist())
        # A column may become several features: it is constant if all of them are.
        constant = held - {name for j, name in enumerate(names) if j not in still}
        rows = f"has only one value, in all {self._n_rows:,} rows"
        kept = [doubt for doubt in doubts if doubt.kind != "constant" or doubt.column in constant]
        kept = [replace(one, why=rows) if one.kind == "constant" else one for one in kept]
        known = {doubt.column for doubt in kept}
        column, why = self._leak.verdict()
        if why and names[column] not in known:
            kept.append(Doubt(names[column], "leak", why))
        new = dict.fromkeys(name for name in names if name in constant - known)
        kept += [Doubt(name, "constant", rows) for name in new]
        for column, _, n in [] if self._growing is None else self._growing.T.tolist():
            if n >= 3 and self._n_rows >= _MANY_ROWS:  # chance does that to 2 in 1e6 columns
                kept.append(Doubt(names[int(column)], "clock", few_values(int(n))))
        return kept


class LeakCheck:
    """Whether one column alone predicts the target far better than all others together.

    The first 1,000 rows settle it: least squares on one half, tested on the other. Of classes, the
    question is whether a row has the one that is the commonest in the first batch.
    """

    def __init__(self, *, classes: bool) -> None:
        self._classes, self._class = classes, None
        self._rows = np.empty((0, 0))  # the columns, and the target last
        self.found: tuple[int, str] | None = None  # None while more rows may change it
        self._beyond: tuple[list[int], list[list[int]]] = [], []

    def see(self, X: Floats, y: Labels) -> None:
        """Take rows in, until there are enough of them."""
        if not 2 <= X.shape[1] <= _MOST_COLUMNS:
            self.found = 0, ""
            return
        if self._classes and self._class is None:
            labels, counts = np.unique(y, return_counts=True)
            self._class = labels[counts.argmax()].item()
        rows = np.column_stack([X, y == self._class if self._classes else y]).astype(np.float64)
        self._rows = np.concatenate([self._rows.reshape(-1, rows.shape[1]), rows])[:_ENOUGH_ROWS]
        if len(self._rows) == _ENOUGH_ROWS:
            self.found, self._beyond = self.verdict(), self.beyond_lines()
            self._rows = self._rows[:0]

    def beyond_lines(self) -> tuple[list[int], list[list[int]]]:
        """The columns that have a curve, and the pairs; nothing before there are enough rows."""
        rows = self._rows[: 0 if self._rows.shape[1] > _WIDE else None]
        rows = rows[~(np.isinf(rows).any(axis=1) | np.isnan(rows[:, -1:]).any(axis=1))]
        if len(rows) < _FEWEST_ROWS or len(np.unique(rows[:, -1])) < 2:
            return self._beyond
        model = "probit" if self._classes else "gaussian"
        selector = FIRES(1, update="bayes", relations="pairs", model=model, batch_size=len(rows))
        selector.fit(rows[:, :-1], rows[:, -1])
        pairs = [[int(end) for end in pair[:2]] for pair in selector.pairs_]
        return np.flatnonzero(selector.curved_).tolist(), pairs

    def verdict(self) -> tuple[int, str]:
        """The column that is taken for a leak, and why; nothing if none is."""
        rows, half = self._rows, len(self._rows) // 2
        if self.found is not None or len(rows) < _FEWEST_ROWS:
            return self.found or (0, "")
        train = rows[:half]
        known = ~np.isnan(train)
        n = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, train, 0.0).sum(axis=0) / n
        spread = np.sqrt(np.where(known, (train - centre) ** 2, 0.0).sum(axis=0) / n)
        Z = np.where(np.isnan(rows), 0.0, (rows - centre) / np.where(spread > 0.0, spread, 1.0))
        second, column = np.abs(Z[:half, :-1].T @ Z[:half, -1]).argsort()[-2:].tolist()
        alone, runner_up = (self._score(Z[:, [j]], Z[:, -1], _RIDGE[:1]) for j in (column, second))
        others = self._score(np.delete(Z[:, :-1], column, axis=1), Z[:, -1], _RIDGE)
        others = max(others, runner_up)  # among very many columns, it may be better than all
        share = float(np.mean(rows[half:, -1])) if self._classes else 0.0
        return column, _leak(alone, others, max(share, 1.0 - share) * self._classes, self._classes)

    def _score(self, Z: Floats, target: Floats, penalties: Sequence[float]) -> float:
        """Accuracy or R2 on the second half of the rows, with the best of some penalties."""
        half, found = len(Z) // 2, []
        train, test = target[:half], target[half:]
        left, sizes, right = np.linalg.svd(Z[:half], full_matrices=False)
        for penalty in penalties:
            shrunk = sizes / (sizes**2 + penalty * half) * (train @ left)
            told = Z @ (shrunk @ right)
            if not self._classes:
                found.append(
                    1.0 - float(((test - told[half:]) ** 2).sum() / test.var() / len(test))
                )
                continue
            order = np.argsort(told[:half])
            best = int(np.cumsum(np.where(train[order] > 0.0, -1, 1)).argmax())
            cut = told[order[best : best + 2]].mean()
            found.append(float(np.mean((told[half:] > cut) == (test > 0.0))))
        return max(found)

    def saved(self) -> State:
        """Everything there is to save."""
        arrays: Arrays = {"sample": self._rows} if len(self._rows) else {}
        return {"class": self._class, "found": self.found, "beyond lines": self._beyond}, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays) -> None:
        """Go on from :meth:`saved`."""
        self._class = header["class"]
        if header["found"] is not None:
            self.found = int(header["found"][0]), str(header["found"][1])
        self._beyond = header.get("beyond lines", self._beyond)
        self._rows = arrays.get("sample", self._rows)


def _leak(alone: float, others: float, known: float, classes: bool) -> str:
    """Why a column with such scores is taken for a leak; ``known`` is that of a constant answer."""
    name = "accuracy" if classes else "R2"
    far = alone >= known + _GOOD[name] * (1.0 - known)
    if known == 1.0 or not far or 1.0 - alone > _MUCH_BETTER * (1.0 - others):
        return ""
    return (
        "alone predicts the target better than all others combined "
        f"({name} {alone:.3f} vs {others:.3f})"
    )
