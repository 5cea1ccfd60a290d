"""What a model of the user says of its features: IncrementalPermutation and LICON."""

from __future__ import annotations

import copy
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, nothing
from fires.core.declared import Array, Declared, Random, Value
from fires.core.errors import StateError
from fires.core.optional import require
from fires.core.randomness import generator, random_state
from fires.core.settings import choice, count, number
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Codes, Floats, Header, Labels, Matrix, Seed
from fires.core.validation import repeated
from fires.kernels.linear import as_rows
from fires.kernels.permutation import permute
from fires.models.scale import Scaler
from fires.models.target import NumberTarget, signed
from fires.predictors import LinearRegressor, Perceptron
from fires.predictors.base import can, unwrapped
from fires.predictors.built_in import with_classes
from fires.rivals.arrays import KeptRows, as_dense, decay, kept, stacked, without_gaps
from fires.rivals.base import settings
from fires.rivals.cancelout import descend, read_net, with_means
from fires.rivals.from_model import ModelSelector

# A probability of 0 would make a loss infinite.
_LEAST_PROBABILITY = 1e-6
# How many numbers the changed rows of one call of a model may hold: 32 MB.
_MOST_NUMBERS = 1 << 22


@settings
class IncrementalPermutation(ModelSelector):
    r"""Features ranked by how much a model's loss grows if they take other values (iPFI, 2023).

    Before a model learns from the row x, it predicts the row, and the row with the value of one
    feature taken from an earlier row :math:`\tilde x`. The importance of feature j is the mean, in
    which older rows fade, of the difference of the two losses:

    .. math::
        \lambda_j = \ell(y, f(x_1, \ldots, \tilde x_j, \ldots, x_J)) - \ell(y, f(x)), \qquad
        \phi_j \leftarrow (1 - \alpha) \phi_j + \alpha \lambda_j

    The mean is divided by the weight of the rows in it, so that it is not too small at first. The
    variance of :math:`\lambda_j` is tracked in the same way. A feature that the model does not use
    has importance 0, even if it predicts the target.

    Earlier rows are drawn at random from a reservoir, which every new row enters in place of a
    random one. One drawn row serves all features of a row.

    *Linear models*, the built-in one and any model with ``coef_`` and ``intercept_``, are explained
    in a compiled loop: all J features of a row cost O(J). Their loss is the squared error of a
    numeric target, the logistic loss of the score of two classes, and the cross-entropy of the
    softmax of the scores of more. *Other models* need J predictions a row. So only ``n_explained``
    rows of a batch, drawn at random, are explained; all rows are learnt. Their loss is the squared
    error, the cross-entropy if the model has ``predict_proba``, or whether the label is wrong.

    The built-in model learns row by row, each after it has been explained. Another model is
    explained on a batch before it learns from it; only its first batch is learnt before.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    model : None or predictor
        None is a linear model: logistic regression, softmax regression from the third class on,
        and least squares for numbers, learnt by gradient steps. Otherwise anything that
        :func:`fires.predictors.as_predictor` takes: an estimator of scikit-learn with
        ``partial_fit``, a classifier of River, a predictor of fires. A fresh copy learns; the
        object itself never does.
    forgetting : float, default=0.001
        :math:`\alpha`, in [0, 1): every new row reduces the weight of older rows by this share; 0
        keeps everything. About the last ``1 / forgetting`` rows matter.
    learning_rate : float, default=0.02
        The size of the steps of the built-in model.
    reservoir : int, default=100
        How many rows are kept to draw from.
    n_explained : int, default=10
        How many rows of a batch are explained if the model is not linear.
    scale : {"standard", "minmax", None}, default="standard"
        What is done to X before the model sees it, by the rows seen before. None is for a model
        that needs no scale, such as a tree.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes. A
        model that is a classifier or a regressor decides it by itself. Numbers are standardised
        by the batches seen before.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as the mean of its column, or as 0 if there is no scale and in
        sparse rows; or it is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        For the rows that are drawn, and for a model whose own ``random_state`` is None.

    Attributes
    ----------
    weights_, importances_ : ndarray (n_features,)
        :math:`\phi`: by how much the loss grows. A read-only copy.
    uncertainties_ : ndarray (n_features,)
        The standard error of :math:`\phi`: the standard deviation of :math:`\lambda`, divided by
        the root of the number of rows that the mean rests on. It says nothing about how well the
        model has been learnt.
    ranking_ : ndarray (n_features,)
        The rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    A batch of B rows costs O(BJ) for a linear model, times the number of classes if there are more
    than two; sparse rows cost what their entries and those of the drawn rows cost, and O(J) once a
    batch. For other models it costs ``J * n_explained`` predictions, and the learning.

    Weights must be whole numbers: a row of weight w is learnt w times.

    :meth:`save` works with the built-in model, and with models that a pipeline can save (see
    :mod:`fires.predictors.step`). The file holds no code of others, so
    ``fires.load(path, model=...)`` needs a model of yours again.

    The paper draws the replacement for every feature anew. That changes no mean, but would cost
    J random numbers a row.

    References
    ----------
    F. Fumagalli, M. Muschalik, E. Hüllermeier, B. Hammer, "Incremental permutation feature
    importance (iPFI): towards online explanations on data streams", Machine Learning 112, 2023.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = IncrementalPermutation(2, random_state=0)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 6))
    ...     selector = selector.partial_fit(X, X[:, 1] > X[:, 4])
    >>> selector.get_support(indices=True)
    array([1, 4])
    >>> from sklearn.naive_bayes import GaussianNB
    >>> IncrementalPermutation(2, model=GaussianNB(), random_state=0).fit(
    ...     X, X[:, 1] > X[:, 4]
    ... ).get_support(indices=True)
    array([1, 4])
    """

    model: Any = None
    forgetting: float = number(0.001, high=1.0, ends="[)")
    learning_rate: float = number(0.02)
    reservoir: int = count(100)
    n_explained: int = count(10)
    scale: str | None = choice("standard", "minmax", None)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {
        "sums": Array(2, "J"),  # of the differences of losses, and of their squares
        "mass": Array(2, low=0.0),  # the sum of the weights of rows, and of their squares
        "stored": KeptRows(),
        "coef": Array("R", "J", optional=True),
        "intercept": Array("R", optional=True),
        "rng": Random(),
    }

    _coef_: Floats | None = field(init=False, default=None)
    _intercept_: Floats | None = field(init=False, default=None)
    _rng_: np.random.Generator = field(init=False)

    # --- what was learnt --------------------------------------------------------------------

    @property
    def importances_(self) -> Floats:
        """By how much the loss grows if a feature takes other values. Read-only."""
        return self.weights_

    @property
    def uncertainties_(self) -> Floats:
        """The standard error of ``importances_``. Read-only."""
        return self._computed("uncertainties", self._standard_errors)

    def _weights(self) -> Floats:
        return np.asarray(self._sums_[0] / max(self._mass_[0], 1e-300))

    def _standard_errors(self) -> Floats:
        total, squares = np.maximum(self._mass_, 1e-300)
        variance = np.maximum(self._sums_[1] / total - self._weights() ** 2, 0.0)
        return np.asarray(np.sqrt(variance * squares) / total)

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._rng_ = generator(self.random_state, "incremental permutation")
        self._sums_, self._mass_ = np.zeros((2, self.n_features_in_)), np.zeros(2)
        self._stored_ = kept(batch.X[:0])
        self._begin_parts()

    def _begin_parts(self) -> None:
        self._scaler_ = Scaler(self.scale, self.n_features_in_)
        self._target_ = NumberTarget(scaled=True)

    def _step(self, batch: CheckedBatch) -> None:
        """Explain and learn a batch; the scales, which change in place, come last."""
        if batch.weight is not None:
            rows = repeated(batch.X, batch.y, batch.weight, type(self).__name__)
            batch = CheckedBatch(*rows, None, batch.n_missing, batch.classes, batch.scale)
        ones = np.ones(batch.n_rows)
        y, before = self._goal(batch)
        goal = self._target_.look(y, ones)[0][0] if self._numeric_ else y
        X, learn_scale = batch.X, nothing
        if batch.scale is None or batch.scale != self.scale:
            X, learn_scale = self._scaler_.scaled(batch.X, ones, batch.n_missing > 0)
        if isinstance(self._stored_, np.ndarray):  # as the rows in the reservoir are
            X = np.ascontiguousarray(as_dense(X), dtype=np.float64)
        else:
            X = kept(sp.csr_array(X))
        stored = self._stored_ if self._stored_.shape[0] else X
        if self.model is not None:
            self._learn_from_others(batch, X, stored, goal)
        elif self._numeric_ or len(self._label_index_) > 1:
            self._learn_linear(X, stored, goal, before)
        self._stored_ = self._mixed(X)
        learn_scale()
        if self._numeric_:
            self._target_.count(y, ones)

    def _mixed(self, X: Matrix) -> Matrix:
        """The reservoir after a batch: each row took the place of a random one."""
        before = stacked(self._stored_, X)
        n_all, size = before.shape[0], int(self.reservoir)
        chosen = np.arange(min(n_all, size))
        late = np.arange(max(n_all - X.shape[0], size), n_all)
        chosen[self._rng_.integers(size, size=len(late))] = late
        return before[chosen]

    # --- linear models ----------------------------------------------------------------------

    def _learn_linear(
        self, X: Matrix, stored: Matrix, goal: Floats | Codes, before: Labels | None
    ) -> None:
        """Explain and learn row by row, with the built-in model."""
        n_scores = self._sizes()["R"]
        if self._coef_ is None or self._intercept_ is None:
            coef, intercept = np.zeros((n_scores, self.n_features_in_)), np.zeros(n_scores)
        else:
            coef, intercept = self._coef_.copy(), self._intercept_.copy()
            if before is not None:
                # One score of two classes is the difference of two: each gets half of it.
                share = 0.5 if len(coef) == 1 and n_scores > 2 else 1.0
                coef, intercept = with_classes(coef, intercept, before, self.classes_, share)
        self._explain_linear(X, stored, goal, (coef, intercept), float(self.learning_rate))
        self._coef_, self._intercept_ = coef, intercept

    def _explain_linear(
        self, X: Matrix, stored: Matrix, y: Labels, linear: tuple[Floats, Floats], rate: float
    ) -> None:
        """Coefficients and intercepts are changed in place unless the rate is 0."""
        n_rows, sums = X.shape[0], np.zeros_like(self._sums_)
        mass, keep = decay(None, n_rows, float(self.forgetting))
        drawn = self._rng_.integers(stored.shape[0], size=n_rows)
        goal = y if self._numeric_ or len(linear[1]) > 1 else signed(y, 1)[0]
        rows = as_rows(X), as_rows(stored), drawn, goal.astype(np.float64), mass
        done = permute(*rows, *linear, self._numeric_, rate, sums)
        if done < 0 or not all(np.isfinite(part).all() for part in (sums, *linear)):
            raise ValueError("X holds values so large that a step would overflow; rescale them.")
        self._add(sums, mass, keep)

    def _add(self, sums: Floats, mass: Floats, keep: float) -> None:
        """Add the sums of a batch to what is left of those before."""
        self._sums_ = self._sums_ * keep + sums
        self._mass_ = self._mass_ * [keep, keep**2] + [mass.sum(), mass @ mass]

    # --- any model --------------------------------------------------------------------------

    def _learn_from_others(
        self, batch: CheckedBatch, X: Matrix, stored: Matrix, goal: Floats | Codes
    ) -> None:
        """Explain a batch with the user's model, then let a copy of it learn."""
        started = self._model_ is not None
        # If the copy fails half-way, the old one is untouched.
        model = copy.deepcopy(self._model_) if started else self._fresh_model(self._rng_)
        assert batch.y is not None
        y = goal if self._numeric_ else batch.y
        if started:
            self._explain(model, X, stored, y)
        self._teach(model, CheckedBatch(X, y, classes=batch.classes))
        if not started:
            self._explain(model, X, stored, y)
        self._model_ = model

    def _explain(self, model: Any, X: Matrix, stored: Matrix, y: Labels) -> None:
        n_scores = 1
        if not self._numeric_:
            place = {label: code for code, label in enumerate(model.classes_.tolist())}
            codes = np.array([place.get(label, -1) for label in y.tolist()])
            rows = np.flatnonzero(codes >= 0)  # a model says nothing of a class it does not know
            if len(place) < 2 or not len(rows):
                return
            X, y, n_scores = X[rows], codes[rows], len(place) if len(place) > 2 else 1
        linear = _linear_parts(model, n_scores, self.n_features_in_)
        if linear is None:
            self._explain_by_predicting(model, X, stored, y)
        else:
            self._explain_linear(X, stored, y, linear, rate=0.0)

    def _explain_by_predicting(self, model: Any, X: Matrix, stored: Matrix, y: Labels) -> None:
        n_all, n_features = X.shape
        n_rows = min(n_all, int(self.n_explained))
        rows = np.sort(self._rng_.choice(n_all, size=n_rows, replace=False))
        drawn = self._rng_.integers(stored.shape[0], size=n_rows)
        form = sp.csr_array if sp.issparse(X) else np.asarray
        x, other, goal = as_dense(X[rows]), as_dense(stored[drawn]), y[rows]
        before = _losses(model, form(x), goal, self._numeric_)
        more = np.empty((n_rows, n_features))
        width = max(1, _MOST_NUMBERS // (n_rows * n_features))
        for start in range(0, n_features, width):
            columns = np.arange(start, min(start + width, n_features))
            changed = np.repeat(x[None], len(columns), axis=0)
            changed[np.arange(len(columns)), :, columns] = other[:, columns].T
            changed, goals = changed.reshape(-1, n_features), np.tile(goal, len(columns))
            losses = _losses(model, form(changed), goals, self._numeric_)
            more[:, columns] = losses.reshape(len(columns), n_rows).T - before[:, None]
        if not np.isfinite(more).all():
            raise ValueError(f"{model!r} predicts values that are not finite; rescale X.")
        # Each explained row stands for several: as many as are learnt are forgotten.
        mass, keep = decay(np.full(n_rows, n_all / n_rows), n_rows, float(self.forgetting))
        self._add(np.array([mass @ more, mass @ more**2]), mass, keep)

    # --- settings and state -----------------------------------------------------------------

    def _state(self) -> State:
        header, arrays = super()._state()
        arrays |= under("scaler", self._scaler_.state())
        return header, arrays | under("target", self._target_.state())

    def _restore(self, header: dict[str, Any], arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        self._begin_parts()
        self._scaler_.restore(part_of("scaler", arrays))
        self._target_.restore(part_of("target", arrays))
        if (self._coef_ is None) != (self._intercept_ is None):
            raise StateError("there are coefficients or an intercept, and not both")

    def _try_model(self, model: Any) -> None:
        n_rows = 1 if self._numeric_ else len(model.classes_)
        zeros = np.zeros((n_rows, self.n_features_in_))
        _losses(model, zeros, np.arange(n_rows), self._numeric_)


def _linear_parts(model: Any, n_scores: int, n_features: int) -> tuple[Floats, Floats] | None:
    """The coefficients and intercepts of a linear model; None if it is not linear."""
    inner = unwrapped(model)
    coef, intercept = getattr(inner, "coef_", None), getattr(inner, "intercept_", None)
    if not isinstance(coef, np.ndarray) or intercept is None:
        return None
    coef, intercept = np.atleast_2d(coef).astype(np.float64), np.ravel(intercept).astype(np.float64)
    # A compiled loop would follow other shapes out of the arrays.
    fits = coef.shape == (n_scores, n_features) and len(intercept) == n_scores
    return (np.ascontiguousarray(coef), intercept) if fits else None


def _losses(model: Any, X: Matrix, y: Floats | Codes, numeric: bool) -> Floats:
    """The loss of every row; ``y`` holds numbers, or codes of the classes of the model."""
    with np.errstate(all="ignore"):  # what is not finite is found later
        if numeric:
            losses: Floats = (model.predict(X) - y) ** 2
        elif hasattr(model, "predict_proba"):
            right = model.predict_proba(X)[np.arange(len(y)), y]
            # Naive Bayes gives none to rows that no class explains: it does not know.
            right = np.where(np.isfinite(right), right, 1.0 / len(model.classes_))
            losses = -np.log(np.maximum(right, _LEAST_PROBABILITY))
        else:
            losses = (model.predict(X) != model.classes_[y]).astype(np.float64)
    return losses


@settings
class LICON(ModelSelector):
    r"""Features ranked by their linear contribution to a model (Kasneci and Gottron, CIKM 2016).

    Near a row x, a model with the outputs f is about linear. For a linear model, and for a net of
    piecewise linear units, what feature j adds to output c is then input times gradient. Features
    are ranked by the mean of its absolute value, summed over outputs:

    .. math::
        \omega_j = \frac{\sum_t \gamma^{T - t} \sum_c
        \left| x_{tj} \, \partial f_c(x_t) / \partial x_{tj} \right|}{\sum_t \gamma^{T - t}}

    where :math:`\gamma` is 1 minus ``forgetting``: about the last ``1 / forgetting`` rows matter.
    A batch is learnt first, and then explained with the model as it is.

    The paper explains trained nets and does not select. The window, the sum over outputs, and that
    the model learns on are our choice. X is not scaled: bring the columns to one scale and centre
    them, since a column far from 0 adds much to every row. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    model : None, linear predictor or torch.nn.Module
        None is a linear model: :class:`fires.predictors.Perceptron`, or
        :class:`~fires.predictors.LinearRegressor` for numbers. A predictor that
        :func:`fires.predictors.as_predictor` takes must have ``coef_`` once it has learnt. A module
        gives one number for each row of X, or one for each class, and is learnt by a gradient step
        (Adam) on the mean loss of each batch: the logistic loss, the cross-entropy, or half the
        squared error of numbers, which should be about standard normal. It runs in float64 and in
        evaluation mode. Copies learn, never the object itself.
    forgetting : float, default=0.001
        In [0, 1): every new row reduces the weight of older rows by this share; 0 keeps everything.
    learning_rate : float, default=0.01
        The size of the steps of a module.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes. A
        model that is a classifier or a regressor decides it by itself.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as 0, or is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        Seeds a model whose own ``random_state`` is None.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        omega and the rank (1 is best) of every feature. Read-only.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    Weights must be whole numbers: a row of weight w is learnt w times. A module, and a classifier
    of scikit-learn, must know all classes from its first batch on: pass ``classes`` to the first
    ``partial_fit``. For a module, sparse batches are made dense. The file of :meth:`save` holds no
    code of others, so ``fires.load(path, model=...)`` needs a model of yours again.

    References
    ----------
    G. Kasneci, T. Gottron, "LICON: A Linear Weighting Scheme for the Contribution of Input
    Variables in Deep Artificial Neural Networks", CIKM 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = LICON(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 6))
    ...     selector = selector.partial_fit(X, X[:, 1] > X[:, 4])
    >>> selector.get_support(indices=True)
    array([1, 4])
    """

    model: Any = None
    forgetting: float = number(0.001, high=1.0, ends="[)")
    learning_rate: float = number(0.01)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {"sums": Array("J", low=0.0), "mass": Value(float, low=0.0)}

    def _weights(self) -> Floats:
        return self._sums_ / max(self._mass_, 1e-300)

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._sums_, self._mass_ = np.zeros(self.n_features_in_), 0.0

    def _step(self, batch: CheckedBatch) -> None:
        X = kept(without_gaps(batch.X, batch.n_missing > 0))
        goal, before = self._goal(batch)
        name = type(self).__name__
        rows, y = repeated(X, goal if self._numeric_ else batch.y, batch.weight, name)
        model = copy.deepcopy(self._model_)  # if it fails half-way, the old one is untouched
        if model is None:
            model = self._fresh_model(generator(self.random_state, "licon"))
        elif isinstance(model, Net) and before is not None:
            raise ValueError(
                "A module must know all classes from its first batch on: pass them as classes= to "
                "the first partial_fit."
            )
        if isinstance(model, Net):
            n_classes = 0 if self._numeric_ else len(self.classes_)
            model.learn(as_dense(rows), repeated(goal, None, batch.weight, name)[0], n_classes)
        else:
            self._teach(model, CheckedBatch(rows, y, classes=batch.classes))
        mass, keep = decay(batch.weight, batch.n_rows, float(self.forgetting))
        sums = keep * self._sums_ + contributions(model, X, mass)
        if not np.isfinite(sums).all():
            raise ValueError("X holds values so large that a step would overflow; rescale them.")
        self._sums_, self._mass_ = sums, keep * self._mass_ + float(mass.sum())
        self._model_ = model

    def _fresh_model(self, rng: np.random.Generator) -> Any:
        if self.model is None:
            return LinearRegressor() if self._numeric_ else Perceptron()
        is_module = _is_module(self.model)
        return Net(self.model, self.learning_rate) if is_module else super()._fresh_model(rng)

    # --- settings and state -----------------------------------------------------------------

    def _check_model(self) -> None:
        if not _is_module(self.model):
            super()._check_model()

    def _plain(self, value: Any) -> Any:
        found = {self._given: type(value).__qualname__}
        return found if _is_module(value) else super()._plain(value)

    def _try_model(self, model: Any) -> None:
        contributions(model, np.zeros((1, self.n_features_in_)), np.ones(1))


def _is_module(model: Any) -> bool:
    """Whether it is a module of torch, which need not be installed."""
    return can(model, "forward", "named_parameters") and not isinstance(model, type)


def contributions(model: Any, X: Matrix, mass: Floats) -> Floats:
    """The absolute input times gradient of rows, by their mass, summed over rows and outputs."""
    if isinstance(model, Net):
        return model.contributions(as_dense(X), mass)
    inner = unwrapped(model)
    if not isinstance(getattr(inner, "coef_", None), np.ndarray):
        raise ValueError(
            f"LICON explains linear models, which have coef_, and modules of torch; "
            f"{type(inner).__name__} is neither."
        )
    rows: Any = X
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((mass @ abs(rows)) * np.abs(np.atleast_2d(inner.coef_)).sum(axis=0))


class Net:
    """A copy of a module, which learns by Adam."""

    def __init__(self, module: Any, rate: float) -> None:
        self.module, self.rate, self.n_steps = copy.deepcopy(module), rate, 0
        self.module.cpu().double().eval()
        self.net = with_means({n: value.detach() for n, value in self.module.named_parameters()})

    def _outputs(self, theta: Any, X: Any) -> Any:
        torch = require("torch", "LICON")
        return torch.func.functional_call(self.module, theta, (X,)).reshape(len(X), -1)

    def learn(self, X: Floats, y: Floats | Codes, n_classes: int) -> None:
        """One step on the mean loss of the rows; ``n_classes`` is 0 if y holds numbers."""
        torch = require("torch", "LICON")

        def loss(theta: Any) -> Any:
            f, goal = self._outputs(theta, torch.tensor(X)), torch.tensor(y)
            if n_classes == 0:
                return (0.5 * (f[:, 0] - goal) ** 2).mean()
            if f.shape[1] == 1 and n_classes <= 2:
                return torch.nn.functional.softplus(f[:, 0] * (1.0 - 2.0 * goal)).mean()
            if f.shape[1] < n_classes:
                raise ValueError(f"The module has {f.shape[1]} outputs for {n_classes} classes.")
            return torch.nn.functional.cross_entropy(f, goal.long())

        self.n_steps += 1
        self.net = descend(self.net, loss, self.n_steps, self.rate)

    def contributions(self, X: Floats, mass: Floats) -> Floats:
        """See :func:`contributions`."""
        torch = require("torch", "LICON")
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.tensor(X, requires_grad=True)
            parts = self._outputs(part_of("theta", self.net), x).sum(dim=0)
            found = [torch.autograd.grad(part, x, retain_graph=True)[0] for part in parts]
            total = sum((x.detach() * gradient).abs() for gradient in found)
        return np.asarray(mass @ total.numpy())

    def state(self) -> State:
        """What was learnt, as JSON values and arrays."""
        arrays = {name: value.numpy() for name, value in self.net.items()}
        return {"n_steps": self.n_steps}, under("net", arrays)

    def restore(self, header: Header, arrays: Arrays) -> Self:
        """Go on from :meth:`state`."""
        self.n_steps = Value(int, low=0, high=2**53).read("n_steps", header, {}, {})
        self.net = read_net(self.net, part_of("net", arrays))
        return self
