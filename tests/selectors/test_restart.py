"""Features that start anew: what was learnt of them is forgotten, and of nothing else."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import RidgeClassifier

import fires
from fires import FIRES, FSDS, CancelOut, IncrementalPermutation, Screening, WindowRefit
from fires.models import NeuralNet, SoftTree
from fires.models.scale import Scaler

CHANGED = 3
OTHERS = np.delete(np.arange(8), CHANGED)


def before(rng, n_rows=100):
    """Column 3 holds numbers from 0 to 1 that speak for the class, column 5 is one more."""
    X = rng.normal(size=(n_rows, 8))
    X[:, CHANGED] = rng.random(n_rows)
    return X, _label(rng, 2.0 * np.sqrt(12.0) * (X[:, CHANGED] - 0.5) + X[:, 5])


def after(rng, n_rows=100):
    """Column 3 holds codes of a greater unit, which speak against the class."""
    X = rng.normal(size=(n_rows, 8))
    codes = rng.integers(0, 5, size=n_rows)
    X[:, CHANGED] = 1000.0 * codes
    return X, _label(rng, -2.0 * (codes - 2.0) / np.sqrt(2.0) + X[:, 5])


def _label(rng, signal):
    return (signal + rng.logistic(size=len(signal)) > 0.0).astype(int)


def learnt(selector, rng, n_batches=50, form=np.asarray, make=before):
    for _ in range(n_batches):
        X, y = make(rng)
        selector.partial_fit(form(X), y)
    return selector


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_fires_learns_the_new_meaning_within_20_batches(form):
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        selector = learnt(FIRES(2, model="logistic"), rng, form=form)
        learnt(selector.restart_features([CHANGED]), rng, 20, form, after)
        low, high = selector.interval(0.99)
        covered.append(low[CHANGED] <= -2.0 <= high[CHANGED])
        assert selector.get_support(indices=True).tolist() == [CHANGED, 5]
        assert selector.alarms_ == []
    assert sum(covered) >= 7


def test_the_first_batch_after_it_gives_the_scale():
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2), rng).restart_features([CHANGED])
    X, y = after(rng)
    scale = selector.partial_fit(X, y)._learner_.scaler.dense
    assert_allclose(scale.shift[CHANGED], X[:, CHANGED].mean())
    assert_allclose(1.0 / scale.gain[CHANGED], X[:, CHANGED].std())


def test_what_is_known_of_other_features_stays():
    """The changed column is correlated with another one: rows have spoken of both together."""
    rng = np.random.default_rng(0)
    selector = FIRES(3, model="gaussian")
    for _ in range(30):
        X = rng.normal(size=(100, 8))
        X[:, 4] += 2.0 * X[:, CHANGED]
        selector.partial_fit(X, X[:, CHANGED] + X[:, 4] + rng.normal(size=100))
    mu, sigma, weights = selector.importances_, selector.uncertainties_, selector.weights_
    selector.restart_features([CHANGED])
    assert_allclose(selector.importances_[OTHERS], mu[OTHERS], rtol=1e-9)
    assert_allclose(selector.uncertainties_[OTHERS], sigma[OTHERS], rtol=1e-9)
    assert_allclose(selector.weights_[OTHERS], weights[OTHERS], rtol=1e-9)
    fresh = FIRES(3, model="gaussian").partial_fit(np.zeros((2, 8)), [0.5, 1.5])
    assert selector.importances_[CHANGED] == selector.weights_[CHANGED] == 0.0
    assert selector.uncertainties_[CHANGED] == fresh.uncertainties_[CHANGED]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("scale", ["minmax", None])
def test_a_feature_is_found_again_on_any_scale(form, scale):
    """Its numbers have the same unit before and after, so that no scale is needed."""

    def turned(rng):
        X, y = before(rng)
        return X, 1 - y

    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2, scale=scale), rng, form=form)
    assert selector.importances_[CHANGED] > 0.5
    learnt(selector.restart_features([CHANGED, 5]), rng, 20, form, turned)
    assert selector.importances_[CHANGED] < -0.5
    assert CHANGED in selector.get_support(indices=True)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_gradient_update_starts_where_its_settings_say(form):
    mu, sigma = np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 2.0, 8)
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2, update="gradient", mu_init=mu, sigma_init=sigma), rng, form=form)
    old = selector.importances_
    selector.restart_features([CHANGED, 6])
    assert_array_equal(selector.importances_[[CHANGED, 6]], mu[[CHANGED, 6]])
    assert_array_equal(selector.uncertainties_[[CHANGED, 6]], sigma[[CHANGED, 6]])
    rest = np.setdiff1d(OTHERS, [6])
    assert_allclose(selector.importances_[rest], old[rest], rtol=1e-12)
    learnt(selector, rng, 200, form, after)
    assert selector.importances_[CHANGED] < mu[CHANGED]


def test_features_of_wide_rows_that_do_not_lead_start_anew_too():
    rng = np.random.default_rng(0)
    selector = FIRES(5)
    for _ in range(30):
        X = rng.normal(size=(100, 150))
        selector.partial_fit(X, X[:, 140] > X[:, 7])
    selector.restart_features([7, 140, 149])
    assert_array_equal(selector.importances_[[7, 140, 149]], 0.0)
    for _ in range(20):
        X = rng.normal(size=(100, 150)) * np.where(np.arange(150) == 140, 1e6, 1.0)
        selector.partial_fit(X, X[:, 140] < 0)
    assert selector.importances_[140] < -0.5
    assert selector.ranking_[140] == 1


def test_all_features_may_start_anew():
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2), rng).restart_features(range(8))
    assert_array_equal(selector.weights_, 0.0)
    learnt(selector, rng, 20, make=after)
    assert_array_equal(selector.get_support(indices=True), [CHANGED, 5])


def test_a_restart_is_no_alarm_and_silences_no_other():
    """At the next look, the feature has moved; so has another one, by itself."""
    rng = np.random.default_rng(0)
    selector = FIRES(2, memory=2000)
    for i in range(60):
        if i == 30:
            selector.restart_features([CHANGED])
        X = rng.normal(size=(100, 8))
        sign = 1.0 if i < 30 else -1.0
        y = sign * X[:, CHANGED] + X[:, 5] + (0.0 if i < 30 else 1.5) * X[:, 6]
        selector.partial_fit(X, _label(rng, 2.0 * y))
    assert {alarm.feature for alarm in selector.alarms_} == {6}


@pytest.mark.parametrize("model", [NeuralNet(hidden=(5,)), SoftTree()], ids=["net", "tree"])
def test_nets_and_trees_draw_the_weights_of_the_feature_anew(model):
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2, model=model, random_state=0), rng, 20)
    old = selector._learner_.parameters.mu["input weights"].clone()
    selector.restart_features([CHANGED])
    new = selector._learner_.parameters
    assert (new.mu["input weights"][OTHERS] == old[OTHERS]).all()
    assert (new.mu["input weights"][CHANGED] != old[CHANGED]).all()
    assert len(np.unique(new.sigma["input weights"][CHANGED])) == 1
    assert len(np.unique(new.sigma["input weights"][5])) > 1
    learnt(selector, rng, 5, make=after)


def test_a_model_of_your_own_keeps_its_belief():
    from fires.models import Linear

    class Own:
        def __init__(self):
            self.inner = Linear("probit", fit_intercept=False)

        def init(self, *size):
            return self.inner.init(*size)

        def gradient(self, *batch):
            return self.inner.gradient(*batch)

        def to_features(self, belief):
            return self.inner.to_features(belief)

    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2, model=Own()), rng, 5)
    old = selector.importances_
    assert_array_equal(selector.restart_features([CHANGED]).importances_, old)
    X, y = after(rng)
    scale = selector.partial_fit(X, y)._learner_.scaler.dense
    assert_allclose(1.0 / scale.gain[CHANGED], X[:, CHANGED].std())


def test_a_window_does_not_know_the_old_values():
    rng = np.random.default_rng(0)
    for form in (np.asarray, sp.csr_array):
        selector = learnt(
            WindowRefit(2, estimator=RidgeClassifier(), window=2000, every=100), rng, form=form
        )
        selector.restart_features([CHANGED])
        assert selector.weights_[CHANGED] == 0.0
        learnt(selector, rng, 20, form, after)
        assert selector.ranking_[CHANGED] == 1


def test_a_sketch_has_no_old_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 8)) * [1, 1, 1, 9, 1, 5, 1, 1]
    selector = FSDS(2, sketch_size=6).partial_fit(X).restart_features([CHANGED])
    X[:, CHANGED] = 0.0
    without = FSDS(2, sketch_size=6).partial_fit(X)  # it has room for all rows
    assert_allclose(selector.singular_values_, without.singular_values_)
    assert_allclose(selector.weights_, without.weights_, atol=1e-12)
    assert selector.weights_[CHANGED] == 0.0


def test_a_permutation_knows_nothing_of_the_old_values():
    rng = np.random.default_rng(0)
    selector = learnt(IncrementalPermutation(2, random_state=0), rng).restart_features([CHANGED])
    assert selector.weights_[CHANGED] == 0.0
    learnt(selector, rng, 30, make=after)
    assert_array_equal(selector.get_support(indices=True), [CHANGED, 5])


def test_a_gate_is_as_open_as_at_the_start():
    pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    selector = learnt(CancelOut(2, random_state=0), rng, 20)
    old = selector.weights_
    selector.restart_features([CHANGED])
    assert_allclose(selector.weights_[CHANGED], 1.0 / (1.0 + np.exp(-1.0)))
    assert_array_equal(selector.weights_[OTHERS], old[OTHERS])
    learnt(selector, rng, 5)


@pytest.mark.parametrize("measure", ["correlation", "f"])
def test_screening_counts_the_rows_of_each_feature(measure):
    rng = np.random.default_rng(0)
    selector = learnt(Screening(2, measure=measure), rng).restart_features([CHANGED])
    fresh = Screening(2, measure=measure)
    for _ in range(20):
        X, y = after(rng)
        selector.partial_fit(X, y)
        fresh.partial_fit(X, y)
    assert_allclose(selector.weights_[CHANGED], fresh.weights_[CHANGED], rtol=1e-9)


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_column_is_scaled_as_if_it_began_with_the_restart(scale, form):
    rng = np.random.default_rng(0)
    whole, late = Scaler(scale, 2), Scaler(scale, 2)
    ones = np.ones(50)
    for i in range(20):
        X = rng.normal(size=(50, 2)) + 5.0
        X[::5, 1] = 0.0
        if i == 10:
            whole.restart(np.array([0]))
        if i >= 10:
            X[:, 0] = 1000.0 + 50.0 * X[:, 0]
            late.scaled(form(X), ones, False)[1]()
        whole.scaled(form(X), ones, False)[1]()
    half = "dense" if form is np.asarray else "sparse"
    gains = [getattr(scaler, half).gain for scaler in (whole, late)]
    if half == "sparse":
        gains = [gain(np.arange(2)) for gain in gains]
    assert_allclose(gains[0][0], gains[1][0], rtol=1e-9)
    rows = form(np.array([[np.nan, 1.0], [1100.0, 2.0]]))
    applied = [scaler.applied(rows) for scaler in (whole, late)]
    applied = [rows.toarray() if half == "sparse" else rows for rows in applied]
    assert_allclose(applied[0][:, 0], applied[1][:, 0], rtol=1e-9)


def test_a_sparse_column_may_become_full():
    """A column with few entries is not centred; when most rows have one, it is."""
    rng = np.random.default_rng(0)
    selector = FIRES(1)
    for i in range(30):
        X = rng.normal(size=(100, 4))
        if i < 20:
            X[:, 1] = np.where(rng.random(100) < 0.01, 1.0, 0.0)
        if i == 20:
            selector.restart_features([1])
        selector.partial_fit(sp.csr_array(X), X[:, 1] > 0.0)
    assert 1 in selector._learner_.mixed.columns
    assert_array_equal(selector.get_support(indices=True), [1])


def test_a_restart_goes_into_the_file(tmp_path):
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2), rng).restart_features([CHANGED])
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    for one in (selector, again):
        learnt(one, np.random.default_rng(1), 5, make=after)
    assert_array_equal(again.importances_, selector.importances_)
