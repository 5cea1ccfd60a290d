r"""What a linear belief predicts of rows in shards, before it learns from them.

A predictor that learns row by row cannot learn in shards. But the belief itself predicts: by its
linear score :math:`\mu^\top z + \text{intercept}`, with rows :math:`z` on the scale that is known,
all features or only the selected ones, and an intercept that is the same for both.

================  ==================================================================
classes           the class with the greatest score; of two, the greater one above 0
counts            the exponential of the score
numbers           the score on their own scale. Bayes' rule learns normal scores: the
                  mean of the numbers that belong to scores about this one
================  ==================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr

from fires.core.batch import CheckedBatch
from fires.core.types import CsrRows, Floats, Places
from fires.kernels import read_only
from fires.kernels.assimilate import NOISE, NOISE_ROWS
from fires.kernels.moments import CLIP
from fires.kernels.row_scores import score_rows
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import LinearLearner
from fires.models.scale import MinMax, Standard
from fires.models.sharded_gradient import weight_of
from fires.models.sharded_scale import plan_of
from fires.models.sharded_sparse import MixedPlan, sparse_rows
from fires.models.target import ClassTarget, NormalScores, log_mean, start

_MAX_SCORE = 30.0  # of the score of a count: its exponential stays finite, and so does its square
_GRID = np.linspace(-6.0, 6.0, 241)  # scores of numbers; there is nothing beyond 4

Projection = tuple[Floats, Floats | None]  # each (2, n_parameter_rows, n_rows)


@dataclass(frozen=True, eq=False)
class RowScores:
    """The linear scores of rows by a belief; it can be pickled."""

    mu: Floats
    own: Floats
    selected: Places
    scale: _Scale
    var: Floats | None
    level: Floats
    width: float

    def __call__(self, shard: CheckedBatch) -> Floats:
        """The scores of the rows of a shard."""
        a, v = self.scale.project(shard, self.mu, self.var, self.selected)
        a += self.own[:, None]
        if v is not None:
            a += start(self.width, self.level[:, None], v)[0]
        found: Floats = a
        return found


def row_scores(
    learner: LinearLearner | BayesLearner, selected: Places, *, sparse: bool
) -> RowScores:
    """How shards score their rows by what a learner has learnt so far."""
    no_rows = np.zeros((0, learner.n_features))
    learner = learner.ready_for(sp.csr_array(no_rows) if sparse else no_rows)
    nothing = np.zeros(learner.n_rows)
    if isinstance(learner, BayesLearner):
        theta, _ = learner.coefficients()
        scale: _Scale = _MixedScale(_mixed(learner))
        if learner.sparse is None:
            scale = _dense_scale(learner)
        return RowScores(theta[:, :-1].copy(), theta[:, -1], selected, scale, None, nothing, 0.0)
    own = learner.intercept.mu if learner.fit_intercept else nothing
    level = _level(learner)
    var = learner.sigma**2 if level.any() else None
    mu, scale = learner.mu, _dense_scale(learner)
    if sparse or learner.in_sparse_terms:
        half, every = learner.scaler.sparse, np.arange(learner.n_features)
        pull = half.pull(every)
        mu = mu - pull * learner.drift[:, None]
        scale = _CentredScale(half.gain(every), half.pace * pull)
    return RowScores(mu.copy(), own.copy(), selected, scale, var, level, learner.family.start_width)


def _level(learner: LinearLearner) -> Floats:
    """Where predictions start from."""
    target = learner.target
    if not getattr(target, "levelled", False):
        return np.zeros(learner.n_rows)
    scale = getattr(target, "scale", None)
    if scale is not None:
        return log_mean(scale.shift, scale.count)
    assert isinstance(target, ClassTarget)
    return target.level_of(target.class_weight.tolist())


def _mixed(learner: BayesLearner) -> MixedPlan | None:
    if learner.scale is None:
        return None
    mixed = learner.mixed
    full = plan_of(mixed.full) if len(mixed.columns) else None
    return MixedPlan(mixed, full, is_shown=False)


def _dense_scale(learner: LinearLearner | BayesLearner) -> _DenseScale:
    half, n = learner.scaler.dense, learner.n_features
    nothing, never = np.zeros(n), np.full(n, np.inf)
    if isinstance(half, Standard):
        return _DenseScale(learner.scale, half.shift, half.gain, half.limit, nothing, CLIP)
    if isinstance(half, MinMax):
        fill = (half.mean - half.shift) * half.gain
        return _DenseScale(learner.scale, half.shift, half.gain, never, fill, np.inf)
    return _DenseScale(None, nothing, np.ones(n), never, nothing, np.inf)


# --- rows on their scale --------------------------------------------------------------------


class _DenseScale(NamedTuple):
    """See :func:`fires.kernels.row_scores.score_rows`."""

    name: str | None
    origin: Floats
    gain: Floats
    limit: Floats
    fill: Floats
    clip: float

    def project(
        self, shard: CheckedBatch, mu: Floats, var: Floats | None, selected: Places
    ) -> Projection:
        name, *scale = self
        if shard.scale is not None and shard.scale == name:
            no, yes = np.zeros_like(self.gain), np.ones_like(self.gain)
            scale = [no, yes, np.full_like(yes, np.inf), no, np.inf]
        X = shard.X.toarray() if sp.issparse(shard.X) else np.ascontiguousarray(shard.X)
        a = np.empty((2, len(mu), len(X)))
        v = np.empty((2, 0 if var is None else len(mu), len(X)))
        score_rows(*read_only(X), *scale, mu, mu if var is None else var, selected, a, v)
        return a, None if var is None else v


class _MixedScale(NamedTuple):
    """Of sparse rows, for the Bayesian update."""

    plan: MixedPlan | None

    def project(
        self, shard: CheckedBatch, mu: Floats, var: Floats | None, selected: Places
    ) -> Projection:
        rows, _ = sparse_rows(self.plan, shard, weight_of(shard))
        both = np.concatenate([_only(mu, selected), mu])
        return rows.project(both, np.zeros_like(both))[0].reshape(2, len(mu), -1), None


class _CentredScale(NamedTuple):
    """Of sparse rows, for the gradient update: not shifted, but predictions are centred."""

    gain: Floats
    centre: Floats

    def project(
        self, shard: CheckedBatch, mu: Floats, var: Floats | None, selected: Places
    ) -> Projection:
        X, both = sp.csr_array(shard.X), np.concatenate([_only(mu, selected), mu])
        middle: Floats = (both @ self.centre)[:, None]
        if shard.n_missing:  # a missing entry counts as the centre of its column
            gaps = _like(X, np.isnan(X.data).astype(np.float64))
            X = _like(X, np.nan_to_num(X.data))
            middle = middle - _product(gaps, both * self.centre)
        a = (_product(X, both * self.gain) - middle).reshape(2, len(mu), -1)
        if var is None:
            return a, None
        spread = np.concatenate([_only(var, selected), var]) * self.gain**2
        return a, _product(_like(X, X.data * X.data), spread).reshape(a.shape)


_Scale: TypeAlias = _DenseScale | _MixedScale | _CentredScale


def _product(X: CsrRows, rows: Floats) -> Floats:
    """Each row of a matrix times each of some rows."""
    product: Floats = (X @ np.ascontiguousarray(rows.T)).T
    return product


def _like(X: CsrRows, data: Floats) -> CsrRows:
    """Other entries in the same places."""
    found: CsrRows = sp.csr_array((data, X.indices, X.indptr), shape=X.shape)
    return found


def _only(values: Floats, columns: Places) -> Floats:
    """Zeros in all but some columns."""
    some = np.zeros_like(values)
    some[:, columns] = values[:, columns]
    return some


# --- from scores to predictions -------------------------------------------------------------


def codes_of(scores: Floats, n_classes: int) -> Places:
    """The class of each row by its scores.

    Examples
    --------
    >>> codes_of(np.array([[-0.5, 2.0]]), 2)
    array([0, 1])
    """
    if scores.shape[-2] > 1:
        best: Places = scores.argmax(axis=-2)
        return best
    above = scores[..., 0, :] > 0.0
    return above.astype(np.intp) if n_classes > 1 else np.zeros(above.shape, dtype=np.intp)


class Unit(NamedTuple):
    """From scores to numbers: straight lines between some points; it can be pickled."""

    at: Floats
    values: Floats
    is_log: bool = False

    def __call__(self, scores: Floats) -> Floats:
        """The numbers that belong to scores."""
        if self.is_log:
            return np.exp(np.minimum(scores, _MAX_SCORE))
        if len(self.at) > 2:
            return np.interp(scores, self.at, self.values)
        low, high = self.values.tolist()
        return np.asarray(low + scores * (high - low))


def unit_of(learner: LinearLearner | BayesLearner) -> Unit:
    """What the scores of a learner of numbers or counts mean."""
    ends, target = np.array([0.0, 1.0]), learner.target
    if learner.family.kind == "counts":
        return Unit(ends, ends, is_log=True)
    scores: NormalScores | None = getattr(target, "scores", None)
    if scores is not None and isinstance(learner, BayesLearner):
        noise = learner.facts[0, NOISE] / learner.facts[0, NOISE_ROWS]
        return Unit(_GRID, _means_about(_GRID, scores.known, float(noise)))
    scale: Standard | None = getattr(target, "scale", None)
    if scale is None:
        return Unit(ends, ends)
    gain = float(scale.gain[0])
    return Unit(ends, scale.shift[0] + ends * (1.0 / gain if gain > 0.0 else 0.0))


def _means_about(scores: Floats, known: Floats, noise: float) -> Floats:
    """The mean of the numbers whose normal scores are about some scores, with this variance."""
    points, weights = np.polynomial.hermite_e.hermegauss(21)
    shares = ndtr(scores[:, None] + np.sqrt(noise) * points)
    n = len(known)
    values = np.interp(shares, np.arange(1.0, n + 1.0) / (n + 1.0), known)
    means: Floats = values @ (weights / weights.sum())
    return means
