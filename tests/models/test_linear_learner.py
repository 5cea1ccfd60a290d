"""Learning in place equals a plain loop that keeps everything and hurries nothing."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logit, ndtri

from fires.core.batch import CheckedBatch
from fires.kernels.moments import CLIP, MEMORY
from fires.models.base import Rates
from fires.models.families import FAMILIES
from fires.models.linear_learner import LinearLearner
from fires.models.target import signed, start

RATES = Rates(0.3, 0.2)  # large, so that 12 batches move everything


def batches(seed, family, n_classes, *, n_batches=12, n_features=5, density=1.0, missing=0.0):
    rng = np.random.default_rng(seed)
    offset, width = rng.normal(size=n_features) * 3, 0.5 + rng.random(n_features) * 4
    for _ in range(n_batches):
        X = offset + width * rng.normal(size=(rng.integers(2, 9), n_features))
        X[rng.random(X.shape) >= density] = 0.0
        X[rng.random(X.shape) < missing] = np.nan
        if FAMILIES[family].kind == "classes":
            y = rng.integers(0, n_classes, len(X))
        else:
            y = rng.poisson(3.0, len(X)).astype(float)
        yield X, y, rng.random(len(X)) + 0.1


class Plain:
    """The step of :class:`LinearLearner` on explicitly scaled data, one formula after the other."""

    def __init__(self, family, n_features, n_rows, scale):
        self.family, self.scale = family, scale
        self.mu, self.sigma = np.zeros((n_rows, n_features)), np.ones((n_rows, n_features))
        self.mu0, self.sigma0 = np.zeros(n_rows), np.ones(n_rows)
        self.noise = 1.0 if family == "gaussian" else 0.0
        self.n_capped = 0

    def step(self, T, y, w, centre=0.0, level=None):
        n_rows, share = len(self.mu), 1.0 / w.sum()
        D, T = np.nan_to_num(T - centre), np.nan_to_num(T)
        a = self.mu @ D.T + self.mu0[:, None]
        v = self.sigma**2 @ (T**2).T + self.sigma0[:, None] ** 2 + self.noise
        begin, start_slope = (0.0, 0.0)
        if level is not None:
            begin, start_slope = start(FAMILIES[self.family].start_width, level, v)
        a = a + begin
        kind = FAMILIES[self.family].kind
        goal = signed(y, n_rows) if kind == "classes" else y[None, :]
        _, g_a, g_v = FAMILIES[self.family].scores(a, v, goal)
        if self.scale is None:
            lowest, highest = (-1.0, np.inf) if kind == "classes" else (-0.5, 1.0)
            cap = np.ones_like(g_a)
        else:
            bend = np.maximum(g_a**2 - 2 * g_v, 0.0)
            overshoot = RATES.mu * bend * ((T**2).sum(axis=1) + 1.0)
            lowest, highest, cap = -0.5, 1.0, 1.0 / np.maximum(overshoot, 1.0)
            self.n_capped += (cap < 1.0).sum()
        c, d = g_a * cap * w, (g_v + g_a * start_slope) * cap * w
        change = np.clip(2 * RATES.sigma * share * (d @ T**2), lowest, highest)
        change0 = np.clip(2 * RATES.sigma * share * d.sum(axis=1), lowest, highest)
        self.mu = self.mu + RATES.mu * share * (c @ D)
        self.sigma = self.sigma * (1 + change)
        self.mu0 = self.mu0 + RATES.mu * share * c.sum(axis=1)
        self.sigma0 = self.sigma0 * (1 + change0)
        if self.noise:
            self.noise *= np.exp(np.clip(RATES.mu * share * self.noise * d.sum(), -1, 1))


def faded(X, w, sizes):
    """The weight that each entry still has, after the batches that followed its own."""
    there = w[:, None] * ~np.isnan(X)
    per_batch = np.add.reduceat(there, np.cumsum([0, *sizes[:-1]]), axis=0)
    later = per_batch[::-1].cumsum(axis=0)[::-1] - per_batch
    return there * np.repeat((1.0 - 1.0 / MEMORY) ** later, sizes, axis=0)


def weighted_moments(X, w, sizes):
    weight = faded(X, w, sizes)
    mean = (weight * np.nan_to_num(X)).sum(axis=0) / weight.sum(axis=0)
    square = (weight * np.nan_to_num(X - mean) ** 2).sum(axis=0) / weight.sum(axis=0)
    return mean, np.sqrt(square)


def against_the_past(family, scale, y, past_y, past_w, n_classes, sizes):
    """A numeric target is standardised; classes and counts are measured against their mean."""
    if scale is None:
        return y, None
    if FAMILIES[family].kind == "classes":
        labels = [1] if n_classes == 2 else range(n_classes)
        weight = np.array([[past_w[past_y == label].sum()] for label in labels])
        share = (weight + 0.5) / (past_w.sum() + 1)
        return y, ndtri(share) if family == "probit" else logit(share)
    (mean,), (spread,) = weighted_moments(past_y[:, None], past_w, sizes)
    if family == "gaussian":
        return ((y - mean) * (1.0 / spread if spread > 1e-12 else 0.0)).clip(-CLIP, CLIP), None
    return y, np.log([[max(mean, 0.5 / faded(past_y[:, None], past_w, sizes).sum())]])


SETTINGS = [("probit", 2), ("probit", 3), ("logistic", 2), ("gaussian", 2), ("poisson", 2)]


def learner(family, n_classes, scale, n_features=5):
    return LinearLearner(family, n_features, n_classes, fit_intercept=True, scale=scale)


def learn(model, X, y, weight=None, rates=RATES):
    values = X.data if sp.issparse(X) else X
    model.step(CheckedBatch(X, y, weight, n_missing=int(np.isnan(values).sum())), y, rates)


@pytest.mark.parametrize(("family", "n_classes"), SETTINGS)
@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@given(seed=st.integers(0, 2**16), missing=st.sampled_from([0.0, 0.15]))
@settings(max_examples=10)
def test_dense_learning_equals_the_plain_loop(scale, family, n_classes, missing, seed):
    model = learner(family, n_classes, scale)
    plain = Plain(family, 5, model.n_rows, scale)
    seen_X, seen_y, seen_w, sizes = np.empty((0, 5)), np.empty(0), np.empty(0), []
    for X, y, w in batches(seed, family, n_classes, missing=missing):
        first = not len(seen_X)
        past = X if first else seen_X
        past_y, past_w = (y, w) if first else (seen_y, seen_w)
        if np.isnan(past).all(axis=0).any():
            return  # a column never seen has no scale to compare with
        if scale == "standard":
            shift, width = weighted_moments(past, past_w, sizes or [len(X)])
        elif scale == "minmax":
            shift = np.nanmin(past, axis=0)
            width = np.nanmax(past, axis=0) - shift
        else:
            shift, width = np.zeros(5), np.ones(5)
        if (width < 1e-12).any():
            return  # a column without spread sits out; tested on its own
        goal, level = against_the_past(
            family, scale, y, past_y, past_w, n_classes, sizes or [len(y)]
        )
        rows = (X - shift) / width
        if scale == "standard":
            rows = rows.clip(-CLIP, CLIP)
        elif scale == "minmax":  # a gap becomes the mean of its column
            there = past_w[:, None] * ~np.isnan(past)
            mean = (there * np.nan_to_num(past)).sum(axis=0) / there.sum(axis=0)
            rows = np.where(np.isnan(rows), (mean - shift) / width, rows)
        plain.step(rows, goal, w, level=level)
        learn(model, X, y, w)
        sizes.append(len(y))
        seen_X, seen_y, seen_w = np.vstack([seen_X, X]), np.append(seen_y, y), np.append(seen_w, w)
    assert_allclose(model.mu, plain.mu, rtol=1e-8, atol=1e-10)
    assert_allclose(model.sigma, plain.sigma, rtol=1e-8)
    assert_allclose(model.intercept_mean, plain.mu0, rtol=1e-8, atol=1e-10)
    assert_allclose(model.noise, plain.noise, rtol=1e-8)


@pytest.mark.parametrize(("family", "n_classes"), SETTINGS)
@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@given(seed=st.integers(0, 2**16), missing=st.sampled_from([0.0, 0.1]))
@settings(max_examples=10)
def test_lazy_sparse_learning_equals_eager(scale, family, n_classes, missing, seed):
    n_features = 12
    model = learner(family, n_classes, scale, n_features)
    plain = Plain(family, n_features, model.n_rows, scale)
    n, total, squares = 0.0, np.zeros(n_features), np.zeros(n_features)
    absent, share = np.zeros(n_features), np.ones(n_features)
    low, high = np.zeros(n_features), np.zeros(n_features)
    past_y, past_w, sizes = np.empty(0), np.empty(0), []

    def absorb(X, w):
        nonlocal n, total, squares, absent, low, high
        n += w.sum()
        total, squares = total + w @ np.nan_to_num(X), squares + w @ np.nan_to_num(X) ** 2
        absent = absent + w @ np.isnan(X)
        touched = (X != 0).any(axis=0)
        share[touched] = np.maximum(1 - absent[touched] / n, np.finfo(float).eps)
        low = np.minimum(low, np.nan_to_num(X).min(axis=0))
        high = np.maximum(high, np.nan_to_num(X).max(axis=0))

    stream = batches(seed, family, n_classes, n_features=n_features, density=0.2, missing=missing)
    for X, y, w in stream:
        X = np.where(np.isnan(X) & (np.arange(n_features) % 2 == 0), 0.0, X)
        first = n == 0
        if first:
            absorb(X, w)
        if scale == "standard":
            root = np.sqrt(np.where(squares > 0, squares, np.inf) / (n * share))
            centre = total / (n * share) / root
        elif scale == "minmax":
            root = np.where(high > low, high - low, np.inf)
            centre = low / root
        else:
            root, centre = np.ones(n_features), 0.0
        past = (y, w) if first else (past_y, past_w)
        goal, level = against_the_past(family, scale, y, *past, n_classes, sizes or [len(y)])
        plain.step(X / root, goal, w, centre, level)
        if not first:
            absorb(X, w)
        past_y, past_w = np.append(past_y, y), np.append(past_w, w)
        sizes.append(len(y))
        batch = sp.csr_array(X)
        model = model.ready_for_sparse()
        learn(model, batch, y, w)
        if model.n_rows == 1:  # up to date in every column, at every moment
            assert_allclose(model.features().mu, plain.mu[0], rtol=1e-8, atol=1e-10)
    drift = 0.0 if scale is None else model.scaler.sparse.pulls * model.drift[:, None]
    assert_allclose(model.mu - drift, plain.mu, rtol=1e-8, atol=1e-10)
    assert_allclose(model.sigma, plain.sigma, rtol=1e-8)


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_the_step_cap_does_nothing_to_ordinary_data_at_the_paper_s_rates(scale):
    rng = np.random.default_rng(0)
    capped, free = learner("probit", 2, scale, 30), learner("probit", 2, scale, 30)
    free._sigma_change, free.least_sigma = (-1.0, np.inf), np.inf
    for _ in range(300):
        X = rng.normal(5.0, 3.0, size=(50, 30))
        y = (X[:, 0] > 5.0).astype(int)
        for model in (capped, free):
            learn(model, X, y, rates=Rates(0.01, 0.01))
        free.least_sigma = np.inf  # which bounds every norm by 0: the cap never looks
    assert_array_equal(capped.mu, free.mu)
    assert_array_equal(capped.sigma, free.sigma)


def test_the_step_cap_keeps_an_outlier_from_throwing_the_belief_away():
    rng = np.random.default_rng(1)
    model = learner("probit", 2, "standard", 3)
    for _ in range(2000):
        X = rng.normal(size=(20, 3))
        learn(model, X, (X[:, 0] > 0).astype(int), rates=Rates(0.1, 0.1))
    before = model.mu[0].copy()
    X[0] = [1e3, 0.0, 0.0]
    y = (X[:, 0] > 0).astype(int)
    y[0] = 0  # mislabelled, far out
    learn(model, X, y, rates=Rates(0.1, 0.1))
    assert abs(model.mu[0, 0] - before[0]) < 0.2 * before[0]
    assert (model.sigma > 0.0).all()


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_a_column_without_spread_sits_out_until_it_varies(scale):
    model = learner("probit", 2, scale, 2)
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.normal(size=20), np.full(20, 7.7)])
    y = (X[:, 0] > 0).astype(int)
    for _ in range(3):
        learn(model, X, y)
    assert model.mu[0, 1] == 0.0
    assert model.sigma[0, 1] == 1.0
    X[:, 1] = y
    learn(model, X, y)
    learn(model, X, y)
    assert model.mu[0, 1] > 0.0


def test_rounding_is_not_spread():
    model = learner("probit", 2, "standard", 1)
    X = np.full((50, 1), 0.1) + np.tile([0.0, np.spacing(0.1)], 25)[:, None]
    learn(model, X, np.tile([0, 1], 25))
    assert model.scaler.dense.gain[0] == 0.0


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_the_first_batch_decides_between_dense_and_sparse_rows(scale):
    *known, last = [(X, y) for X, y, _ in batches(5, "probit", 2, n_features=4)]
    for form in (np.asarray, sp.csr_array):
        one, other = (learner("probit", 2, scale, 4) for _ in range(2))
        if form is sp.csr_array:
            one, other = one.ready_for_sparse(), other.ready_for_sparse()
        for X, y in known:
            for model in (one, other):
                learn(model, form(X), y)
        (X, y), form = last, sp.csr_array if form is np.asarray else np.asarray
        assert one.ready_for_sparse() is one
        learn(one, form(X), y)
        learn(other, X if not one.in_sparse_terms else sp.csr_array(X), y)
        assert_array_equal(one.mu, other.mu)


def test_a_sparse_step_allocates_nothing_of_the_width_of_x():
    n_features = 2_000_000
    model = learner("probit", 2, "standard", n_features)
    rng = np.random.default_rng(4)
    entries = rng.integers(0, n_features, size=2000)
    X = sp.csr_array((np.ones(2000), entries, np.arange(0, 2001, 100)), shape=(20, n_features))
    X.sum_duplicates()
    y = rng.integers(0, 2, 20)
    model = model.ready_for_sparse()
    learn(model, X, y)
    tracemalloc.start()
    learn(model, X, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n_features
