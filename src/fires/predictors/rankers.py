"""A model of River that knows which features matter, as ``FromModel`` takes it.

That of CapyMOA is not here: its trees can be neither saved nor copied without a change, so a
selector could not go on from a file, nor keep what it had when a batch is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from fires.core.optional import require
from fires.core.types import Labels, Matrix


class AdPredictor(BaseEstimator):  # type: ignore[misc]
    """River's ``linear_model.AdPredictor``: a Bayesian probit of indicators, from 0.26 on.

    A feature is there or not: a row shows those whose entry is not 0, and how great it is does not
    matter. So it is for words, categories and other columns that are mostly 0; on columns of
    numbers it ranks nothing. Each row is learnt in turn, by :mod:`river`.

    Parameters
    ----------
    beta, prior_probability, epsilon : float
        As in River: the noise, the share of positives before the first row, and how fast a weight
        that is seen goes back to the prior.

    Attributes
    ----------
    coef_ : ndarray (1, n_features)
        The mean of each weight.
    variances_ : ndarray (n_features,)
        Its variance; 1 at the start.
    intercept_, intercept_variance_ : float
        Those of the bias.
    classes_, n_features_in_
        Two labels, of which the greater is the positive one, and the number of columns.

    References
    ----------
    T. Graepel, J. Quinonero Candela, T. Borchert, R. Herbrich, "Web-Scale Bayesian Click-Through
    Rate Prediction for Sponsored Search Advertising in Microsoft's Bing Search Engine", ICML 2010.

    Examples
    --------
    >>> from fires import FromModel
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.random((2000, 20)) < 0.1).astype(float)
    >>> y = X[:, 3] - X[:, 7] + 0.5 * rng.normal(size=2000) > 0
    >>> FromModel(2, estimator=AdPredictor()).fit(X, y).get_support(indices=True)
    array([3, 7])
    """

    intercept_: float
    intercept_variance_: float

    def __init__(
        self, beta: float = 0.1, prior_probability: float = 0.5, epsilon: float = 0.05
    ) -> None:
        self.beta, self.prior_probability, self.epsilon = beta, prior_probability, epsilon

    def partial_fit(self, X: Matrix, y: Labels, classes: Labels | None = None) -> Self:
        """Learn from some rows. The first call says all classes, or shows them."""
        n_features = X.shape[1]
        if not hasattr(self, "classes_"):
            self.classes_ = np.unique(y if classes is None else classes)
            if len(self.classes_) > 2:
                raise ValueError(f"AdPredictor tells two classes apart, not {self.classes_}.")
            self.n_features_in_ = n_features
            self.coef_, self.variances_ = np.zeros((1, n_features)), np.ones(n_features)
        river = require("river.linear_model", "AdPredictor")
        model = river.AdPredictor(self.beta, self.prior_probability, self.epsilon)
        model.predict_proba_one(dict.fromkeys(next(_active(X), ()), 1))  # the bias before any row
        (bias,) = model.means
        if hasattr(self, "intercept_"):
            model.means[bias], model.variances[bias] = self.intercept_, self.intercept_variance_
        columns = range(n_features)
        model.means |= zip(columns, self.coef_[0].tolist(), strict=True)
        model.variances |= zip(columns, self.variances_.tolist(), strict=True)
        for active, positive in zip(_active(X), (y == self.classes_[1]).tolist(), strict=True):
            model.learn_one(dict.fromkeys(active, 1), positive)
        self.intercept_, self.intercept_variance_ = model.means.pop(bias), model.variances.pop(bias)
        self.coef_ = np.array([[model.means[j] for j in columns]])
        self.variances_ = np.array([model.variances[j] for j in columns])
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type, tags.input_tags.sparse = "classifier", True
        return tags


def _active(X: Matrix) -> Iterator[list[int]]:
    """The columns of each row whose entry is not 0."""
    rows = sp.csr_array(X, copy=True)
    rows.eliminate_zeros()
    for start, stop in pairwise(rows.indptr.tolist()):
        yield rows.indices[start:stop].tolist()
