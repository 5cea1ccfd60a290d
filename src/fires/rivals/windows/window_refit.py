"""WindowRefit: an estimator that is fitted to the last rows again and again."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import has_fit_parameter

from fires.core.batch import CheckedBatch
from fires.core.classes import encode
from fires.core.declared import Array, Declared, Value
from fires.core.errors import StateError
from fires.core.estimators import seeded_clone
from fires.core.optional import require
from fires.core.randomness import generator, random_state
from fires.core.settings import count
from fires.core.sharding import weight_of
from fires.core.types import CsrRows, Floats, Labels, Matrix, Seed
from fires.core.validation import repeated
from fires.kernels.select import keep_columns, placed
from fires.predictors.base import can
from fires.rivals.arrays import KeptRows, kept, stacked
from fires.rivals.base import TargetSelector, settings
from fires.rivals.from_model import TakesEstimator, weights_of

# Sparse columns with at least this share of entries are centred.
_FULL = 0.2


@settings
class WindowRefit(TakesEstimator, TargetSelector):
    r"""Features ranked by an estimator that is fitted anew to the last rows, every so often.

    What many do by hand: the last ``window`` rows are kept and standardised, an estimator is
    fitted to them, and the features are ranked by

    .. math::
        \omega_j = \sum_c |\theta_{cj}| \quad \text{or} \quad \omega_j = \text{importance}_j

    from its ``coef_`` or ``feature_importances_``. Between two fits the weights stay as they are.
    At first a fit follows whenever the number of rows has doubled, later every ``every`` rows; it
    always comes at the end of a batch.

    Columns may have any scale: each is centred and divided by its standard deviation in the
    window. Sparse rows stay sparse: a column with entries in less than a fifth of the rows is not
    centred; the intercept of a linear model makes up for it. A missing entry counts as the mean of
    its column. While y does not vary in the window, nothing is fitted and the weights stay as they
    were.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    estimator : None, "lightgbm" or estimator
        None is scikit-learn's ``LogisticRegression()``, and ``Ridge()`` for numbers. "lightgbm"
        is gradient boosting, ranked by gain; it needs ``pip install '.[lightgbm]'``. Any other
        estimator of scikit-learn is cloned and never changed. Once fitted it must have ``coef_``
        or ``feature_importances_``. If its ``fit`` takes no ``sample_weight``, weights must be
        whole numbers, and a row of weight w is passed w times.
    window : int, default=2000
        How many rows are kept. A row of any weight above 0 is one row.
    every : int, default=500
        How many new rows have to come before the next fit.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes. An
        estimator that is a classifier or a regressor decides it by itself.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as the mean of its column, or is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        Seeds the estimator, the same way in every fit, if its own ``random_state`` is None.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        omega and the rank (1 is best) of every feature. A read-only copy.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    A fit costs what the estimator costs on ``window`` rows. The rows are kept as they come, in
    double precision: 2,000 rows of 5,000 dense columns are 80 MB, in memory and in a file. An
    estimator of yours is not in the file: ``fires.load(path, model=...)`` needs it again.

    References
    ----------
    Windows and refits: J. Gama, I. Žliobaitė, A. Bifet, M. Pechenizkiy, A. Bouchachia, "A survey
    on concept drift adaptation", ACM Computing Surveys 46(4), 2014. LightGBM: G. Ke et al., NIPS
    2017.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = WindowRefit(2, window=500, every=100)
    >>> for batch in range(20):
    ...     X = rng.normal(size=(100, 6))
    ...     y = X[:, 1] > X[:, 4] if batch < 10 else X[:, 0] > X[:, 5]
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([0, 5])
    """

    estimator: Any = None
    window: int = count(2000)
    every: int = count(500)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {
        "rows": KeptRows(),
        "y": Array("W"),  # numbers, or the codes of classes
        "weight": Array("W", low=0.0),
        "weights": Array("J", low=0.0),
        "seed": Value(int, low=0, high=2**31),
        "n_taken": Value(int, low=0, high=2**53),
        "n_at_fit": Value(int, low=0, high=2**53),
    }

    def _weights(self) -> Floats:
        return self._weights_.copy()

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._rows_ = kept(batch.X[:0])
        self._y_: Floats = np.zeros(0)
        self._weight_: Floats = np.zeros(0)
        self._weights_ = np.zeros(self.n_features_in_)
        self._n_taken_ = self._n_at_fit_ = 0
        self._seed_ = int(generator(self.random_state, "window refit").integers(2**31))

    def _step(self, batch: CheckedBatch) -> None:
        y, before = self._goal(batch)
        if before is not None:  # old codes make room for new classes
            places = encode(before, self.classes_)
            assert places is not None
            self._y_ = places[self._y_.astype(np.intp)].astype(np.float64)
        weight = weight_of(batch)
        counts = np.flatnonzero(weight > 0.0)[-int(self.window) :]
        self._check_weights(weight)
        last = slice(-int(self.window), None)
        self._rows_ = stacked(self._rows_, kept(batch.X[counts]))[last]
        self._y_ = np.append(self._y_, y[counts])[last]
        self._weight_ = np.append(self._weight_, weight[counts])[last]
        self._n_taken_ += int((weight > 0.0).sum())
        if self._n_taken_ - self._n_at_fit_ >= min(int(self.every), self._n_at_fit_):
            self._fit_if_possible()

    def _check_weights(self, weight: Floats) -> None:
        """Raise now, and not at the next fit, if the estimator cannot take these weights."""
        estimator = self.estimator
        if can(estimator, "fit") and not has_fit_parameter(estimator, "sample_weight"):
            repeated(weight, None, weight, type(estimator).__name__)

    def _fit_if_possible(self) -> None:
        y: Labels = self._y_
        if len(np.unique(y)) < 2:
            return
        if not self._numeric_:
            y = self.classes_[y.astype(np.intp)]
        estimator = seeded_clone(self._chosen(), np.random.default_rng(self._seed_))
        X = standardised(self._rows_, self._weight_)
        options = {}
        if not has_fit_parameter(estimator, "sample_weight"):
            X, y = repeated(X, y, self._weight_, type(estimator).__name__)
        elif (self._weight_ != 1.0).any():
            options["sample_weight"] = self._weight_
        with np.errstate(over="ignore", invalid="ignore"):
            estimator.fit(X, y, **options)
        weights = weights_of(estimator, self.n_features_in_)
        self._weights_, self._n_at_fit_ = weights, self._n_taken_

    def _chosen(self) -> Any:
        """The estimator of the user, or the one that the setting names."""
        if self.estimator is None:
            from sklearn.linear_model import LogisticRegression, Ridge

            return Ridge() if self._numeric_ else LogisticRegression(max_iter=1000)
        if isinstance(self.estimator, str):
            lightgbm = require("lightgbm", "WindowRefit(estimator='lightgbm')")
            kind = lightgbm.LGBMRegressor if self._numeric_ else lightgbm.LGBMClassifier
            # One thread and one way to sum, so that a stream has one result everywhere.
            fixed = {"n_jobs": 1, "deterministic": True, "force_row_wise": True}
            return kind(importance_type="gain", verbosity=-1, **fixed)
        return self.estimator

    def _check_parameters(self) -> None:
        super()._check_parameters()
        estimator = self.estimator
        if isinstance(estimator, str) and estimator == "lightgbm":
            require("lightgbm", "WindowRefit(estimator='lightgbm')")
            return
        complete = can(estimator, "get_params", "fit") and not isinstance(estimator, type)
        if estimator is not None and not complete:
            raise ValueError(
                "estimator must be None, 'lightgbm', or a scikit-learn estimator such as "
                f"RandomForestClassifier(); got {estimator!r}."
            )

    def _check_learnt(self) -> None:
        codes = np.arange(len(self._label_index_))
        if not self._numeric_ and not np.isin(self._y_, codes).all():
            raise StateError(f"y holds codes that are not those of {len(codes)} classes")


def standardised(X: Matrix, weight: Floats) -> Matrix:
    """Columns with mean 0 and standard deviation 1; what is missing is the mean.

    Sparse rows stay sparse: columns with few entries keep their zeros and are not centred.
    """
    from sklearn.preprocessing import StandardScaler

    sparse = sp.issparse(X)
    scaler = StandardScaler(with_mean=not sparse)
    with np.errstate(invalid="ignore"):  # a column may be missing altogether
        Z = scaler.fit(X, sample_weight=weight).transform(X)
    values = Z.data if sparse else Z
    gaps = np.isnan(values)
    if gaps.any():
        means = np.nan_to_num(scaler.mean_ / scaler.scale_) if sparse else None
        values[gaps] = 0.0 if means is None else means[Z.indices[gaps]]
    return Z if isinstance(X, np.ndarray) else _with_full_columns_centred(Z, X, weight)


def _with_full_columns_centred(Z: CsrRows, X: CsrRows, weight: Floats) -> Matrix:
    """Z with its full columns centred, which makes it at most five times as large.

    Linear models do not converge on columns whose mean is many standard deviations from 0.
    """
    n_rows, n_features = X.shape
    full = np.bincount(X.indices, minlength=n_features) >= _FULL * n_rows
    if not full.any():
        return Z
    columns = np.flatnonzero(full)
    centred = sp.csr_array(standardised(X[:, columns].toarray(), weight))
    others = keep_columns(Z, np.flatnonzero(~full))
    wide: CsrRows = others + placed(centred, columns, n_features)
    return kept(wide)
