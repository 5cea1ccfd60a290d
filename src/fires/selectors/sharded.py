"""FIRES on a batch in several shards, and on several cores."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, get_tags

from fires.core.batch import CheckedBatch, WeightSums
from fires.core.classes import encode, has_fractions, merge_classes
from fires.core.errors import InputError
from fires.core.sharding import Evaluate, Shards, Sums, Task, add_up, counting, weight_of
from fires.core.types import Labels, Matrix, OptionalArray, OptionalClasses, RowsLike
from fires.core.validation import as_numbers, match_columns
from fires.models.sharded_bayes import take_step
from fires.selectors.fires import FIRES


def partial_fit_sharded(
    selector: FIRES,
    evaluate: Evaluate,
    *,
    n_features: int,
    names: Sequence[str] | npt.NDArray[np.object_] | None = None,
    classes: OptionalClasses = None,
    sparse: bool = False,
) -> FIRES:
    """Learn from one batch that lies in several shards, wherever these are.

    The selector is the same as after ``partial_fit`` with all rows, up to rounding, and its state
    is an ordinary one. On an error nothing has changed. A batch without rows says nothing.

    A batch takes the rounds of its learner. The first one takes a round more, to see what the
    target is; a batch with new labels does too, and then begins again.

    Examples
    --------
    >>> from fires.core.sharding import Shards
    >>> rng = np.random.default_rng(0)
    >>> selector = FIRES(1, update="gradient")
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 3))
    ...     shards = Shards.cut(CheckedBatch(X, (X[:, 1] > 0).astype(int)), 4)
    ...     selector = partial_fit_sharded(selector, shards.evaluate, n_features=3)
    >>> selector.get_support(indices=True)
    array([1])
    """
    batch = _Batch(selector, evaluate, classes, sparse)
    selector.all_or_nothing(batch.learn, n_features, names)
    return selector


class Sharded(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """FIRES on several cores: each batch is cut into shards, which are processed in parallel.

    With the gradient update, the result equals that of the selector alone, up to rounding. The
    Bayesian update uses the form for shards, see :mod:`fires.models.sharded_bayes`.

    It pays for large batches, of several million entries. Below a million, it is slower than the
    selector's own ``partial_fit``, by a few tenths of a millisecond; and the Bayesian update, which
    goes through the rows several times here, gains only where cores are free.

    Parameters
    ----------
    selector : FIRES
        With a linear model. It learns itself, as the steps of a pipeline do. All that it has learnt
        and all its methods are also those of this object, and its file is an ordinary one: load it
        with :func:`fires.load`, and wrap it again.
    n_jobs : int, default=-1
        How many shards are worked on at a time, in threads; -1: one per core. Threads share the
        rows, and the compiled loops let each other run. Processes of joblib were ten times slower:
        all rows have to be copied to them.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 3))
    >>> sharded = Sharded(FIRES(1, update="gradient"), n_jobs=2).partial_fit(X, X[:, 2] > 0)
    >>> sharded.get_support(indices=True), sharded.n_samples_seen_
    (array([2]), 1000)
    """

    wraps_selector: ClassVar[bool] = True  # for a pipeline, which saves the selector itself

    def __init__(self, selector: FIRES, n_jobs: int = -1) -> None:
        self.selector = selector
        self.n_jobs = n_jobs

    def partial_fit(
        self,
        X: RowsLike,
        y: OptionalArray = None,
        classes: OptionalClasses = None,
        sample_weight: OptionalArray = None,
    ) -> Self:
        """Learn from one batch of the stream, on several cores.

        Parameters
        ----------
        X, y, classes, sample_weight
            As in :meth:`fires.FIRES.partial_fit`.

        Returns
        -------
        self
        """
        return self._learn(lambda one: [one.admitted(X, y, classes, sample_weight)])

    def learn(self, batch: CheckedBatch) -> Self:
        """Learn from a batch that was checked elsewhere, as a pipeline does for its selector.

        Parameters
        ----------
        batch : CheckedBatch
            Rows with the columns learnt from, and their target.

        Returns
        -------
        self
        """
        return self._learn(lambda one: [one.known(batch.with_gaps())])

    def fit(
        self, X: RowsLike, y: OptionalArray = None, sample_weight: OptionalArray = None
    ) -> Self:
        """Forget everything, then learn from X in batches of the selector's ``batch_size``.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fires.FIRES.fit`.

        Returns
        -------
        self
        """
        return self._learn(lambda one: one.admitted_anew(X, y, sample_weight))

    def transform(self, X: RowsLike) -> Matrix:
        """X reduced to the selected columns.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            As in :meth:`fires.FIRES.transform`.

        Returns
        -------
        array or CSR matrix (n_samples, n_selected)
        """
        return self.selector.transform(X)

    def __getattr__(self, name: str) -> Any:
        # All that the selector has learnt, and can do, is this object's too.
        if name.startswith("_") or "selector" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.selector, name)

    def __sklearn_is_fitted__(self) -> bool:
        return self.selector.is_fitted

    def __sklearn_tags__(self) -> Tags:
        return get_tags(self.selector)

    def _learn(self, admitted: Callable[[FIRES], Iterable[CheckedBatch]]) -> Self:
        selector = self.selector
        if not isinstance(selector, FIRES):
            kind = type(selector).__name__
            raise InputError(f"{kind} cannot learn from shards", hint="only FIRES can.")

        def take() -> None:
            for batch in admitted(selector):
                self._take(batch)

        selector.all_or_nothing(take)
        return self

    def _take(self, batch: CheckedBatch) -> None:
        n_features, sparse = batch.X.shape[1], sp.issparse(batch.X)
        n_entries = batch.X.nnz if sparse else batch.X.size
        n_shards = min(effective_n_jobs(self.n_jobs), max(n_entries // _LEAST, 1))
        shards = Shards.cut(batch, n_shards) if n_shards > 1 else Shards([batch])
        known = {"n_features": n_features, "classes": batch.classes, "sparse": sparse}
        with ThreadPoolExecutor(n_shards) as threads:  # it starts them when there is work
            each = threads.map if n_shards > 1 else map
            partial_fit_sharded(self.selector, lambda task: add_up(each(task, shards)), **known)


_LEAST = 1 << 20  # entries that are worth a thread


class _Again(Exception):  # noqa: N818 - it is no error
    """A round has shown what must be known before a step: labels, what weights count, no rows."""


class _Batch:
    """One batch on the driver: what FIRES does around the step of its learner."""

    def __init__(
        self, selector: FIRES, evaluate: Evaluate, classes: OptionalClasses, sparse: bool
    ) -> None:
        self.selector, self.evaluate = selector, evaluate
        self.classes, self.sparse = classes, sparse
        self.n_rows, self.n_missing, self.weight = 0, 0, 0.0
        # Weights in units, and what one unit counts in rows: 1 until this batch was counted.
        self.units, self.ratio, self.weighed = selector.weight_sums_, 1.0, False

    def learn(self, n_features: int, names: Sequence[str] | npt.NDArray[np.object_] | None) -> None:
        selector = self.selector
        if selector.columns == "open":
            raise InputError("columns='open' cannot learn from shards", hint="use columns='fixed'.")
        selector.begin_shards(n_features, names)
        known = selector.known_names if names is not None else None
        own = np.asarray(names, dtype=object) if known is not None else None
        if match_columns(own, n_features, known, selector.n_features_in_, "FIRES") is not None:
            what = "the columns of the shards are in another order than those learnt from"
            raise InputError(what)
        if selector.learner is not None:
            is_classes = selector.target_kind_ == "classes"
            self._meet({"set labels": selector.classes_ if is_classes else np.zeros(1)})
        else:
            looked = self._asked(labels_of)
            if not self.weight > 0.0:  # there are no rows
                return
            self._meet(looked)
        self._refuse()
        watch = self._hear if selector.watches_loss else None
        while True:
            try:
                learner: Any = selector.learner
                take_step(learner, self._known, selector.rates_, watch, sparse=self.sparse)
            except _Again:
                if not self.weight > 0.0:
                    return
            else:
                break
        selector.end_shards(self.n_rows, self.n_missing, self.weight, self.units)

    def _known(self, task: Task) -> Sums:
        """What shards say, once all labels, and what weights count, are known."""
        selector, before = self.selector, (self.units.unit, self.ratio)
        labels = selector.classes_ if selector.target_kind_ == "classes" else None
        sums = self._asked(task, selector.model_name, labels)
        is_new = any(name in sums for name in _FOUND)
        if is_new:
            self._meet(sums)
        if is_new or not self.weight > 0.0 or before != (self.units.unit, self.ratio):
            raise _Again
        return sums

    def _refuse(self) -> None:
        """Raise an error for what cannot be learnt from sums; know what weights count in it."""
        selector, stay = self.selector, "and these stay in their shards"
        learner: Any = selector.learner
        is_told = not (selector.drift is None or isinstance(selector.drift, str))
        if not learner.takes_shards:
            what = f"the model {selector.model_name}"
            what = "update='variational'" if selector.update == "variational" else what
            hint = "use a linear model and update='bayes' or 'gradient'."
            raise InputError(f"{what} cannot learn from shards", hint=hint)
        if selector.time is not None:
            what = f"memory as a time goes by rows, {stay}"
            raise InputError(what, hint="give memory a number of rows.")
        if is_told and learner.joint_posterior is not None:
            what = f"a drift detector needs the loss of every row, {stay}"
            raise InputError(what, hint="use drift='auto' or None.")
        if learner.joint_posterior is None:  # it divides by the sum of the weights
            self.units, self.weighed = WeightSums(1.0), True

    def _hear(self, surprise: float, variance: float) -> bool:
        return self.selector.check_loss_drift(surprise, variance, self.n_rows)

    def _asked(self, task: Task, model: str | None = None, labels: Labels | None = None) -> Sums:
        """What shards say; the batch is counted, too."""
        sums = self.evaluate(partial(_counted, task, model, labels, self.units.unit, self.ratio))
        self.n_rows, self.n_missing = int(sums["batch rows"]), int(sums["batch missing"])
        self.weight = float(sums["batch weight"])
        if not self.units.unit:
            self.units = self.units._replace(unit=float(sums["max weight"]))
        elif not self.weighed and self.weight > 0.0:
            squares, memory = float(sums["batch squares"]), self.selector.memory_rows
            self.units = self.units.after(self.weight, squares, self.n_rows, memory)
            self.ratio, self.weighed = self.units.ratio, True
        if self.n_missing and self.selector.missing == "error":
            raise ValueError(
                f"Input X contains NaN ({self.n_missing} entries); FIRES refuses missing values "
                "unless missing='ignore'."
            )
        return sums

    def _meet(self, found: Sums) -> None:
        """Get to know a target: the model, its kind, labels. Starts the learner, or adds classes.

        FIRES looks at a target for that, so it is shown one with the same values, and no rows.
        """
        y = np.concatenate([found[name] for name in _FOUND if name in found])
        empty = np.zeros((0, self.selector.n_features_in_))
        shown = CheckedBatch(sp.csr_array(empty) if self.sparse else empty)
        shown.y, shown.classes = np.resize(y, max(self.n_rows, len(y))), self.classes
        self.selector.meet_target(shown)


_FOUND = ("set labels", "list fractions")


def _counted(
    task: Task,
    model: str | None,  # None if the target is to be taken as it is
    labels: Labels | None,  # the classes; None for numbers
    unit: float,
    ratio: float,
    shard: CheckedBatch,
) -> Sums:
    """A task of a learner, for shards with rows and known labels; and what there is of them all."""
    shard = counting(shard)
    weight = weight_of(shard)
    if unit not in (0.0, 1.0) or ratio != 1.0:
        weight = weight / unit * ratio
        shard = shard.weighted(weight)
    counted = {
        "batch rows": np.array(shard.n_rows),
        "batch weight": np.array(weight.sum()),
        "batch squares": np.array(weight @ weight),
        "max weight": np.array(weight.max(initial=0.0)),
        "batch missing": np.array(shard.n_missing),
    }
    if shard.n_rows and model is not None:
        assert shard.y is not None
        if labels is None:
            y: Labels = as_numbers(shard.y, model)
        elif (codes := encode(shard.y, labels)) is None:
            return counted | labels_of(shard)
        else:  # while only one class is known, it is the positive one
            y = codes + (len(labels) == 1)
        shard = copy.copy(shard)
        shard.y = y
    return counted | (task(shard) if shard.n_rows else {})


def labels_of(shard: CheckedBatch) -> Sums:
    """The values of the target, or one that is not whole."""
    y = shard.y
    assert y is not None
    if has_fractions(y):
        return {"list fractions": y[y != np.floor(y)][:1]}
    return {"set labels": merge_classes(None, y)}
