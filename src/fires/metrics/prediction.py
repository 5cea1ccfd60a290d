"""How well is a stream predicted? Running scores, from one confusion matrix or from sums."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.classes import (
    NO_CLASSES,
    Classes,
    Codes,
    KnowsClasses,
    encode,
    grown,
    has_fractions,
)
from fires.core.errors import TargetError
from fires.core.state import Arrays
from fires.core.types import GivenClasses, Labels, Numbers

if TYPE_CHECKING:
    from sklearn.utils import Tags


Counts = npt.NDArray[np.int64]
Metric = str | Callable[..., float]
# Of labels, predicted labels, and the probabilities of the classes named last.
Scorer = Callable[[Labels, Labels, Floats | None, Labels | None], float]

# The scores of numbers that are built in.
NUMBER_SCORES = ("r2", "mae")

_LOG_LOSS = "log_loss"
_EPSILON = float(np.finfo(np.float64).eps)


class Scores(KnowsClasses):
    r"""Scores of each batch, and of all batches so far.

    With the rows :math:`n_{kl}` of class k that were taken for class l, the sums
    :math:`t_k = \sum_l n_{kl}` (rows of class k) and :math:`p_k = \sum_l n_{lk}` (rows taken for
    class k), and K classes known:

    .. math::
        \text{accuracy} &= \frac{\sum_k n_{kk}}{\sum_k t_k} \\
        \text{balanced accuracy} &= \operatorname*{mean}_{k:\, t_k > 0} \frac{n_{kk}}{t_k} \\
        \text{f1} &= \frac{2 n_{++}}{t_+ + p_+} \text{ for } K = 2, \qquad
            \operatorname*{mean}_{k:\, t_k + p_k > 0} \frac{2 n_{kk}}{t_k + p_k}
            \text{ for } K > 2 \\
        \text{log loss} &= -\operatorname*{mean}_i \log
            \min(\max(q_{i y_i}, \epsilon), 1 - \epsilon)

    where + is the greater of two classes, :math:`q_{ik}` the probability that row i is of class k
    (0 for a class that the predictor does not know) and :math:`\epsilon` the rounding of float64.
    They equal scikit-learn's, with ``average="macro"`` for more than two classes. What is undefined
    is NaN: every score of no rows, f1 where the positive class neither occurs nor is predicted, and
    f1 while only one class is known, since nobody knows yet which side that is.

    Where the target holds numbers, there are ``"r2"`` and ``"mae"``, see
    :class:`NumberMoments`. A score of classes refuses numbers that are not
    whole, and these two refuse labels.

    Parameters
    ----------
    names : iterable of str or callable
        ``"accuracy"``, ``"balanced_accuracy"``, ``"f1"``, ``"log_loss"``, ``"r2"``, ``"mae"``; the
        name of any other scikit-learn scorer (``"matthews_corrcoef"``, ``"roc_auc"``) or one from
        ``make_scorer``; or a function ``(y_true, y_pred) -> float``. What is not built in is
        called with every batch, and costs what it costs.
    classes : sequence, optional
        All labels that can occur; another one is an error. Without it, labels are added as they
        arrive, and the matrix grows.

    Attributes
    ----------
    names : tuple of str
        What the scores are called; a function goes by its own name.
    classes_ : ndarray or None
        The labels, sorted: those that occurred or were predicted, or those given.
    only_counts : bool
        Whether all scores are matters of counting labels.
    matrix : ndarray of int, shape (n_classes, n_classes)
        How often a row of one class was taken for another: :math:`n_{kl}`.
    needs_probabilities : bool
        Whether a score is of probabilities.

    Examples
    --------
    >>> scores = Scores(("accuracy", "f1"))
    >>> scores.update(np.array(["ham", "spam", "spam"]), np.array(["ham", "ham", "spam"]))
    {'accuracy': 0.6666666666666666, 'f1': 0.6666666666666666}
    >>> scores.update(np.array(["ham"]), np.array(["ham"]))
    {'accuracy': 1.0, 'f1': nan}
    >>> scores.total
    {'accuracy': 0.75, 'f1': 0.6666666666666666}
    >>> scores.matrix
    array([[2, 0],
           [1, 1]])
    """

    def __init__(
        self, names: Iterable[Metric] = ("accuracy",), classes: GivenClasses | None = None
    ) -> None:
        if isinstance(names, str):
            raise TypeError(f"Scores come as a sequence; a single one is ({names!r},).")
        given = [(_name(metric), metric) for metric in names]
        metrics = dict(given)
        if len(metrics) < len(given):
            names = ", ".join(name for name, _ in given)
            raise ValueError(f"Two scores have the same name: {names}.")
        built_in = (*_FROM_COUNTS, *NUMBER_SCORES)
        taken = [name for name, m in given if name in built_in and not isinstance(m, str)]
        if taken:
            raise ValueError(f"{taken[0]!r} is a built-in score: give your function another name.")
        self.names = tuple(metrics)
        self._scorers = {
            name: _scorer(metric) for name, metric in metrics.items() if name not in built_in
        }
        self._numbers = NumberMoments() if metrics.keys() & set(NUMBER_SCORES) else None
        self.needs_probabilities = any(needed for _, needed in self._scorers.values())
        # Numbers to be predicted are no classes, each of which would have its place in the matrix.
        self._counts = self.needs_probabilities or bool(metrics.keys() & _FROM_COUNTS.keys())
        self.only_counts = not self._scorers and self._numbers is None
        # A sum over rows and their number, of what is no matter of counts.
        self._sums = np.zeros((len(self._scorers), 2))
        self._label_index_ = NO_CLASSES if classes is None else NO_CLASSES.fixed_to(classes)
        self.matrix: Counts = np.zeros([len(self._label_index_)] * 2, dtype=np.int64)

    @property
    def classes_(self) -> Any:
        """The labels, sorted; None as long as there are none."""
        return self._label_index_.labels if len(self._label_index_) else None

    def update(
        self,
        y: npt.ArrayLike,
        predicted: npt.ArrayLike,
        probabilities: npt.ArrayLike | None = None,
        columns: GivenClasses | None = None,
        times: Counts | None = None,
    ) -> dict[str, float]:
        """Count a batch in, and score it by itself.

        Parameters
        ----------
        y, predicted : array-like of shape (n_rows,)
            The labels, and what the rows were taken for.
        probabilities : array-like of shape (n_rows, n_columns), optional
            Of every class, for the scores that need them.
        columns : sequence, optional
            The classes whose probabilities the columns are: ``classes_`` of the predictor.
            Default: the classes known here.
        times : ndarray of int (n_rows,), optional
            How many rows each of these stands for, where all scores are counts.

        Returns
        -------
        dict of str to float
            The scores of this batch alone.
        """
        if times is not None and not self.only_counts:
            raise ValueError(f"{', '.join(self.names)}: these are not all counts, so no times.")
        y, predicted = np.asarray(y), np.asarray(predicted)
        if y.ndim != 1 or y.shape != predicted.shape:
            raise ValueError(
                "y and predicted must be two rows of labels of one length; their shapes are "
                f"{y.shape} and {predicted.shape}."
            )
        self.check_target(y)
        self.check_target(predicted, "predicted")
        label_index, truth, taken = self._label_index_, None, None
        if self._counts:
            label_index, truth = _places_in(label_index, y, "y")
            merged, taken = _places_in(label_index, predicted, "predicted")
            if merged is not label_index:  # a place may have moved
                label_index, truth = _places_in(merged, y, "y")
        classes = label_index.labels if len(label_index) else None
        columns = classes if columns is None else np.asarray(columns)
        P = _checked(probabilities, len(y), columns)
        others = {
            name: float(score(y, predicted, P, columns)) if len(y) else math.nan
            for name, (score, _) in self._scorers.items()
        }

        # Nothing has changed up to here, where nothing can fail any more.
        if self._numbers is not None:
            batch = NumberMoments.of(y, predicted).after(self._numbers)
            others, self._numbers = others | batch.scores, self._numbers.joined(batch)
        values = np.array([others[name] for name in self._scorers], dtype=np.float64)
        known = ~np.isnan(values)
        self._sums[known, 0] += values[known] * len(y)
        self._sums[known, 1] += len(y)
        if truth is None or taken is None:
            return self._named(None, others)
        return self.count(label_index, truth, taken, times, others)

    def add(self, batch: NumberMoments) -> dict[str, float]:
        """Count a batch of numbers in of which sums are known; no other scores are asked for."""
        if self._numbers is None:
            raise ValueError(f"{', '.join(self.names)}: these are not scores of numbers.")
        batch = batch.after(self._numbers)
        self._numbers = self._numbers.joined(batch)
        return self._named(None, batch.scores)

    def count(
        self,
        label_index: Classes,
        truth: Codes,
        taken: Codes,
        times: Counts | None = None,
        others: Mapping[str, float] | None = None,
    ) -> dict[str, float]:
        """Count a batch in whose labels have been looked up; other scores are known."""
        if label_index is not self._label_index_:
            self._grow(label_index)
        n_classes = len(self.matrix)
        cells = np.bincount(truth * n_classes + taken, times, n_classes * n_classes)
        counted = cells.reshape(n_classes, n_classes).astype(np.int64, copy=False)
        self.matrix += counted
        return self._named(counted, others or {})

    @property
    def total(self) -> dict[str, float]:
        """Each score over all rows so far.

        What is not built in is the mean of its values, weighted by rows, as nothing is kept of
        the rows themselves; batches in which it was NaN are left out.
        """
        sums = zip(self._scorers, self._sums.tolist(), strict=True)
        others = {name: total / n if n else math.nan for name, (total, n) in sums}
        numbers = {} if self._numbers is None else self._numbers.scores
        return self._named(self.matrix, others | numbers)

    def state(self) -> Arrays:
        """Everything there is to save, as arrays; :meth:`from_state` takes it back.

        Returns
        -------
        dict of str to ndarray

        Examples
        --------
        >>> scores = Scores(("accuracy", "f1"))
        >>> _ = scores.update(["no", "yes"], ["no", "no"])
        >>> Scores.from_state(scores.state(), ("accuracy", "f1")).total
        {'accuracy': 0.5, 'f1': 0.0}
        """
        header, arrays = self._classes_state()
        text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        arrays |= {"matrix": self.matrix.copy(), "header": text, "sums": self._sums.copy()}
        return arrays | ({} if self._numbers is None else {"numbers": np.array(self._numbers)})

    @classmethod
    def from_state(cls, state: Arrays, names: Iterable[Metric] = ("accuracy",)) -> Scores:
        """Rebuild the scores that gave this :meth:`state`."""
        scores = cls(names)
        scores._restore_classes(json.loads(state["header"].tobytes()), dict(state))
        matrix, sums = state["matrix"].astype(np.int64, order="C"), state["sums"]
        n_classes = len(scores._label_index_)
        if matrix.shape != (n_classes, n_classes) or sums.shape != scores._sums.shape:
            raise ValueError(
                f"Not the state of the scores {', '.join(scores.names)}: it has {len(sums)} sums "
                f"and a matrix of shape {matrix.shape} for {n_classes} classes."
            )
        scores.matrix, scores._sums = matrix, sums.astype(np.float64)
        if scores._numbers is not None:
            scores._numbers = NumberMoments(*state["numbers"].tolist())
        return scores

    def check_target(self, y: Labels, name: str = "{y}") -> None:
        """Raise an error if a score is not for a target of this kind."""
        # Fractions may be labels that were announced. Later on the labels are settled: a selector
        # that learns classes knows best what to say.
        broken = []
        if self._counts and not len(self._label_index_) and has_fractions(y):
            broken = y[(y != np.floor(y)) & ~np.isnan(y)].tolist()
        if broken:
            of_classes = next(one for one in self.names if one not in NUMBER_SCORES)
            raise TargetError(
                f"{name} holds numbers such as {broken[0]!r}, and {of_classes} is "
                "a score of classes",
                hint=f"for numbers there are {' and '.join(NUMBER_SCORES)}.",
            )
        if self._numbers is not None:
            check_numbers(y, name)

    def knows_no_other(self, label_index: Classes) -> bool:
        """Whether all labels known here are in the book."""
        known = self._label_index_
        same_size = not known.given or len(label_index) == len(known)
        in_it = label_index is known or encode(known.labels, label_index.labels) is not None
        return same_size and in_it

    def _grow(self, label_index: Classes) -> None:
        """Let the matrix have a row and a column for each of the classes."""
        known = self._label_index_.labels, label_index.labels
        self._label_index_, self.matrix = label_index, grown(grown(self.matrix, *known).T, *known).T

    def _named(self, matrix: Counts | None, others: Mapping[str, float]) -> dict[str, float]:
        """All scores by name: those of a confusion matrix, and others."""
        if matrix is None:
            return {name: others[name] for name in self.names}
        sums = matrix.diagonal(), matrix.sum(axis=1), matrix.sum(axis=0)
        counts = [each.tolist() for each in sums]
        return {
            name: others[name] if name in others else _FROM_COUNTS[name](*counts)
            for name in self.names
        }


def _places_in(label_index: Classes, labels: Labels, name: str) -> tuple[Classes, Codes]:
    """The labels known once these were seen, and the place of each."""
    if not len(labels):
        return label_index, np.empty(0, dtype=np.intp)
    if labels.dtype.kind in "fO":
        from fires.core.validation import is_missing  # loads scikit-learn

        if any(is_missing(label) for label in labels.tolist()):
            raise ValueError(f"{name} holds a missing label: leave out the rows without one.")
    return label_index.take(labels, what=name)


# --- numbers: R2 and the mean absolute error, from running sums ----------------------------------


class NumberMoments(NamedTuple):
    r"""R2 and the mean absolute error of a batch, or of all rows so far, from sums.

    With numbers :math:`y_i`, predictions :math:`\hat y_i` and the mean :math:`m_i` of all numbers
    in the batches before that of row i (for the first batch, its own mean):

    .. math::
        R^2 = 1 - \frac{\sum_i (y_i - \hat y_i)^2}{\sum_i (y_i - m_i)^2}, \qquad
        \text{MAE} = \operatorname*{mean}_i |y_i - \hat y_i|

    The sums run over the rows of a batch, or over all rows so far: the R2 of a stream is not a mean
    over batches. :math:`m_i` is what one can know before a batch without any feature, so an R2
    above 0 says that the features help. For the first batch alone it is scikit-learn's
    ``r2_score``. What is undefined is NaN: both scores of no rows, and R2 if no :math:`y_i` differs
    from :math:`m_i`.
    """

    n: float = 0
    mean: float = 0.0
    error: float = 0.0  # the sum of absolute errors
    squares: float = 0.0  # of errors
    spread: float = 0.0  # the sum of squares of numbers about the mean

    @classmethod
    def of(cls, y: Numbers, predicted: Numbers) -> Self:
        """Those of a batch."""
        if not len(y):
            return cls()
        error, mean = np.subtract(y, predicted, dtype=np.float64), y.mean(dtype=np.float64)
        with np.errstate(over="ignore"):
            spread = ((y - mean) ** 2).sum()
            return cls(len(y), float(mean), np.abs(error).sum(), (error**2).sum(), spread)

    def after(self, before: NumberMoments) -> Self:
        """Those of a batch that follows other rows: the spread is about the mean of these."""
        off = np.float64(self.mean - before.mean if before.n else 0.0)
        with np.errstate(over="ignore"):
            return self._replace(spread=self.spread + self.n * off**2)

    def joined(self, batch: NumberMoments) -> Self:
        """With those of a batch that comes after."""
        n, error, squares = self.n + batch.n, self.error + batch.error, self.squares + batch.squares
        mean = self.mean + batch.n * (batch.mean - self.mean) / max(n, 1)
        return type(self)(n, mean, error, squares, self.spread + batch.spread)

    @property
    def scores(self) -> dict[str, float]:
        """Both scores; NaN where they are undefined."""
        return {
            "r2": float(1.0 - self.squares / self.spread) if self.spread > 0.0 else math.nan,
            "mae": float(self.error / self.n) if self.n else math.nan,
        }


def check_numbers(values: npt.NDArray[np.generic], name: str) -> None:
    """Raise an error unless these are finite numbers."""
    if values.dtype.kind not in "fiub":
        given = f" such as {values.tolist()[0]!r}" if len(values) else ""
        raise TargetError(f"{name} holds labels{given}, and r2 and mae are scores of numbers.")
    if not np.isfinite(values).all():
        raise TargetError(f"{name} holds a number that is not finite: there is no r2 and no mae.")


# --- the built-in scores, from the counts n_kk, t_k and p_k -------------------------------------


def _accuracy(right: list[int], true: list[int], taken: list[int]) -> float:
    rows = sum(true)
    return sum(right) / rows if rows else math.nan


def _balanced_accuracy(right: list[int], true: list[int], taken: list[int]) -> float:
    shares = [r / t for r, t in zip(right, true, strict=True) if t]
    return sum(shares) / len(shares) if shares else math.nan


def _f1(right: list[int], true: list[int], taken: list[int]) -> float:
    if len(true) < 2:
        return math.nan
    classes = list(zip(right, true, taken, strict=True))
    if len(classes) == 2:
        del classes[0]  # of two, the greater one is the positive one
    shares = [2 * r / (t + p) for r, t, p in classes if t + p]
    return sum(shares) / len(shares) if shares else math.nan


_FROM_COUNTS = {"accuracy": _accuracy, "balanced_accuracy": _balanced_accuracy, "f1": _f1}


def _log_loss(y: Labels, predicted: Labels, P: Floats | None, columns: Labels | None) -> float:
    if P is None or columns is None:
        raise ValueError("log_loss needs probabilities, of a predictor that has predict_proba.")
    place = {label: column for column, label in enumerate(columns.tolist())}
    at = np.array([place.get(label, -1) for label in y.tolist()])
    q = np.where(at < 0, 0.0, P[np.arange(len(y)), at])
    return float(-np.log(np.clip(q, _EPSILON, 1.0 - _EPSILON)).mean())


def _checked(
    probabilities: npt.ArrayLike | None, n_rows: int, columns: GivenClasses | None
) -> Floats | None:
    if probabilities is None:
        return None
    P = np.asarray(probabilities, dtype=np.float64)
    n_columns = 0 if columns is None else len(columns)
    if P.shape != (n_rows, n_columns):
        raise ValueError(
            f"probabilities of {n_rows} rows and {n_columns} classes have the shape {P.shape}: "
            "pass the classes of the predictor as columns."
        )
    if not ((P > -1e-6) & (P < 1.0 + 1e-6)).all():  # rounding is no one's fault
        raise ValueError("probabilities must lie between 0 and 1; some do not.")
    return P


# --- scikit-learn's -----------------------------------------------------------------------------


def _name(metric: Metric) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", repr(metric))


def _scorer(metric: Metric) -> tuple[Scorer, bool]:
    """A score that is no matter of counts, and whether it needs probabilities."""
    if metric == _LOG_LOSS:
        return _log_loss, True
    from sklearn.base import BaseEstimator
    from sklearn.exceptions import UndefinedMetricWarning
    from sklearn.metrics import get_scorer, get_scorer_names

    if isinstance(metric, str) and metric not in get_scorer_names():
        raise ValueError(
            f"There is no score {metric!r}: there are "
            f"{', '.join((*_FROM_COUNTS, _LOG_LOSS, *NUMBER_SCORES))}, "
            "those that sklearn.metrics.get_scorer_names() lists, and functions (y_true, y_pred)."
        )
    scorer: Any = get_scorer(metric) if isinstance(metric, str) else metric
    if not isinstance(scorer, type(get_scorer("accuracy"))):
        return lambda y, predicted, P, columns: scorer(y, predicted), False

    class FixedAnswers(BaseEstimator):  # type: ignore[misc]
        """An estimator that says what it was told, since a scorer wants to ask one itself."""

        asked = False

        def __init__(self, predicted: Labels, P: Floats | None, columns: Labels | None) -> None:
            self.predicted, self.P, self.classes_ = predicted, P, columns

        def __sklearn_tags__(self) -> Tags:
            tags = super().__sklearn_tags__()
            tags.estimator_type = "regressor" if self.classes_ is None else "classifier"
            return tags

        def predict(self, X: Labels) -> Labels:
            return self.predicted

        def predict_proba(self, X: Labels) -> Floats:
            FixedAnswers.asked = True
            if self.P is None:
                raise ValueError(f"{_name(metric)} needs probabilities, of predict_proba.")
            return self.P

    def score(y: Labels, predicted: Labels, P: Floats | None, columns: Labels | None) -> float:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UndefinedMetricWarning)
                return float(scorer(FixedAnswers(predicted, P, columns), y, y))
        except ValueError:
            if len(y) == 0 or (y[1:] != y[0]).any():
                raise
            return math.nan  # of one class alone, many scores are not defined

    # Which answer a scorer wants is nowhere to be read: it is asked for a score and watched.
    half = np.full((4, 2), 0.5)
    score(np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0]), half, np.array([0, 1]))
    return score, FixedAnswers.asked
