"""The learner by Bayes' rule: how scale, target, loops, alarm and covariance meet."""

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from tests.naive import add_information_plain
from tests.pairs import pairwise

from fires.core.batch import CheckedBatch
from fires.kernels.assimilate import ALONG, ROWS
from fires.models.bayes_learner import BayesLearner
from fires.models.families import FAMILIES

CASES = [("probit", 2), ("probit", 4), ("logistic", 2), ("gaussian", 0), ("poisson", 0)]


def learner(family="probit", n_classes=2, n_features=6, **changes):
    settings = {"fit_intercept": True, "scale": "standard", "memory": 10_000.0, "watches": True}
    return BayesLearner(family, n_features, n_classes, **(settings | changes))


def batches(seed, family, n_classes, *, n=8, n_features=6, n_rows=60, fill=1.0, offset=2.0):
    """Rows, targets that depend on the first two columns, weights."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(offset, 1.5, (n_rows, n_features))
        X *= rng.random(X.shape) < fill
        signal = X[:, 0] - X[:, 1] + rng.normal(size=n_rows)
        if FAMILIES[family].kind == "classes":
            y = np.digitize(signal, np.linspace(-1.5, 1.5, n_classes - 1)).astype(int)
        elif family == "poisson":
            y = rng.poisson(np.exp(np.clip(0.5 * signal, -3, 3))).astype(float)
        else:
            y = 10.0 + 3.0 * signal
        yield X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n_rows)


def learn(one, X, y, weight=None, form=np.asarray):
    """Learn as FIRES does; the learner may be replaced."""
    rows = form(X)
    one = one if form is np.asarray else one.ready_for_sparse()
    n_missing = int(np.isnan(X).sum())
    one.step(CheckedBatch(rows, weight=weight, n_missing=n_missing), y)
    return one


def beliefs(one):
    mu, sigma = one.by_class()
    return one._means(), one._variances(), mu, sigma


def assert_same_state(one, other):
    a, b = one.state(), other.state()
    assert sorted(a) == sorted(b)
    for name in a:
        assert_array_equal(a[name], b[name], strict=True, err_msg=name)


# --- The start ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "n_classes", "c"),
    [("probit", 2, 3.0), ("logistic", 3, 3.0), ("poisson", 0, 3.0), ("gaussian", 0, 1.0)],
)
def test_all_coefficients_together_explain_about_as_much_as_there_is(family, n_classes, c):
    for n_features in (1, 10, 200):
        one = learner(family, n_classes, n_features)
        assert_allclose(one.var, c / max(n_features, 10))
        assert not one.mu.any()
        assert one.intercept_var == pytest.approx(1.0)


def test_the_intercept_starts_at_the_level_of_the_first_batch():
    """With rows that say nothing, 10 % positives are told as 10 % from the first batch on."""
    one = learner(n_features=3)
    y = (np.arange(200) % 10 == 0).astype(int)
    one = learn(one, np.ones((200, 3)), y)
    assert not one.mu.any()
    assert_allclose(
        one.intercept_mean[0] / math.sqrt(1.0 + one.intercept_var[0]), ndtri(0.1), atol=0.15
    )


def test_without_an_intercept_there_is_none():
    one = learner(n_features=3, fit_intercept=False)
    for X, y, _ in batches(0, "probit", 2, n_features=3):
        one = learn(one, X, y)
    assert one.intercept_mean[0] == 0.0
    assert one.intercept_var[0] == 0.0


# --- Dense and sparse --------------------------------------------------------------------------


@pytest.mark.parametrize(("family", "n_classes"), CASES)
@pytest.mark.parametrize("weighted", [False, True])
def test_full_sparse_rows_teach_what_dense_rows_teach(family, n_classes, weighted):
    dense, sparse = learner(family, n_classes), learner(family, n_classes)
    for X, y, weight in batches(1, family, n_classes):
        weight = weight if weighted else None
        dense = learn(dense, X, y, weight)
        sparse = learn(sparse, X, y, weight, sp.csr_array)
    assert sparse.sparse is not None
    assert dense.sparse is None
    for found, expected in zip(beliefs(sparse), beliefs(dense), strict=True):
        assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert_allclose(sparse._means(), dense._means(), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("fill", [1.0, 0.3, 0.15])
@pytest.mark.parametrize("family", ["probit", "gaussian"])
def test_what_is_known_of_columns_together_is_in_the_units_of_now(form, fill, family):
    """As if all rows had been on the last scale: slow columns take long to show theirs."""
    rng, told = np.random.default_rng(5), []
    one = learner(family, n_features=3, watches=False)
    X = 0.1 * rng.normal(size=(900, 3)).cumsum(axis=0) + rng.uniform(-1.0, 1.0, (900, 3))
    X[:, 2] = (rng.random(900) < fill) * rng.uniform(0.5, 1.0, 900)
    y = X[:, 0] - X[:, 1] + rng.normal(size=900)
    y = y if family == "gaussian" else (y > 0.0).astype(int)
    for i in range(0, 900, 90):
        one = learn(one, X[i : i + 90], y[i : i + 90], form=form)
        told.append(one.row_stats[0])
    _, _, precision, distance, *_ = told = np.concatenate(told, axis=1)
    scale = one.scaler.dense
    shift, gain = (scale.shift, scale.gain) if form is np.asarray else one.mixed.units(np.arange(3))
    Z, value, even = (X - shift) * gain, told[0] + distance, np.ones(900)
    assert abs(Z).max() < 5.0
    start = np.zeros((5, 4))
    expected = add_information_plain(Z, precision, value, even, one.gamma, start)
    assert_allclose(one.leading.information[0], expected[:-1], rtol=1e-9, atol=1e-9)
    assert_allclose(one.leading.pull[0], expected[-1], rtol=1e-9, atol=1e-9)


def test_a_column_in_other_units_keeps_what_is_known_of_it():
    one, rng = learner(n_features=3, watches=False), np.random.default_rng(6)
    for i in range(40):
        X = rng.normal(size=(100, 3))
        y = (X[:, 0] + rng.normal(size=100) > 0.0).astype(int)
        if i >= 30:
            X[:, 0] = 1000.0 * X[:, 0] + 7.0
        one = learn(one, X, y)
    assert 0.9 < one.by_class()[0][0, 0] < 1.1
    assert one.by_class()[1][0, 0] < 0.04


def test_other_columns_are_taken_off_rows_as_far_as_they_are_more_than_chance():
    rng = np.random.default_rng(7)
    some, many = (np.where(np.arange(300) < n, 0.3, 0.0) for n in (5, 250))
    trust = []
    for theta in (some, many):
        one = learner("gaussian", n_features=300)
        for _ in range(40):
            X = rng.normal(size=(100, 300))
            one = learn(one, X, X @ theta + rng.normal(size=100))
        trust.append(one.leading.trust[0])
    assert trust[0] == 0.0
    assert trust[1] > 0.8


@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@pytest.mark.parametrize(
    ("first", "later"), [(np.asarray, sp.csr_array), (sp.csr_array, np.asarray)]
)
def test_the_first_batch_decides_between_dense_and_sparse(first, later, scale):
    one, same = learner(scale=scale), learner(scale=scale)
    for i, (X, y, _) in enumerate(batches(2, "probit", 2, n=4, fill=0.5)):
        one = learn(one, X, y, form=later if i else first)
        same = learn(same, X, y, form=first)
    assert (one.sparse is not None) == (first is sp.csr_array)
    assert_same_state(one, same)


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_wide_rows_are_scaled_on_the_way_to_the_same_result(family, n_classes):
    """Rows in the order of Fortran are scaled beforehand, a copy of the batch."""
    wide = {"n": 20, "n_features": 130, "n_rows": 120, "offset": 0.2}
    one, other = learner(family, n_classes, 130), learner(family, n_classes, 130)
    for X, y, weight in batches(17, family, n_classes, **wide):
        X[np.random.default_rng(len(X)).random(X.shape) < 0.1] = np.nan
        one, other = learn(one, X, y, weight), learn(other, X, y, weight, np.asfortranarray)
    assert_allclose(one._means(), other._means(), rtol=1e-8, atol=1e-10)
    assert_allclose(one._variances(), other._variances(), rtol=1e-8)
    assert_array_equal(one.leading.columns, other.leading.columns)
    for found, expected in zip(one.by_class(), other.by_class(), strict=True):
        assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_unit_of_sparse_coefficients_is_renewed_before_it_runs_out():
    one = learner()
    for X, y, _ in batches(3, "probit", 2):
        one = learn(one, X, y, form=sp.csr_array)
    other = copy.deepcopy(one)
    unit = other.unit
    other.mu *= 1e120
    other.intercept_mean *= 1e120
    unit /= 1e120
    for X, y, _ in batches(4, "probit", 2, n=2):
        one, other = learn(one, X, y, form=sp.csr_array), learn(other, X, y, form=sp.csr_array)
    assert 0.1 < other.unit[0] < 10.0
    for found, expected in zip(beliefs(other), beliefs(one), strict=True):
        assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_missing_entries_say_nothing(form):
    rng, one = np.random.default_rng(5), learner("gaussian", 0, 2)
    for _ in range(30):
        X = rng.normal(5.0, 1.0, (100, 2))
        y = X[:, 0] + 0.5 * rng.normal(size=100)
        X[rng.random(X.shape) < 0.3] = np.nan
        X[:, 1] = np.where(y > np.median(y), np.nan, X[:, 1])  # gaps that know the target
        one = learn(one, X, y, form=form)
    mu, sigma = one.by_class()
    assert mu[0, 0] > 0.5
    assert abs(mu[0, 1]) < 0.2
    assert np.isfinite(sigma).all()


# --- Forgetting --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_to_forget_is_to_take_the_likelihood_to_a_power(form):
    one = learner(n_classes=3)
    for X, y, _ in batches(6, "probit", 3, fill=0.5):
        one = learn(one, X, y, form=form)
    mu, var = one._means().copy(), one._variances().copy()
    own, rows = one.intercept_mean.copy(), one.evidence_rows.copy()
    one.forget(0.2, 1)
    precision = 1.0 / var[1] - 1.0 / one.prior
    assert_allclose(1.0 / one._variances()[1], 0.2 * precision + 1.0 / one.prior)
    assert_allclose(one._means()[1] / one._variances()[1], 0.2 * mu[1] / var[1])
    assert_allclose(one._means()[[0, 2]], mu[[0, 2]])
    assert_allclose(one._variances()[[0, 2]], var[[0, 2]])
    assert_array_equal(one.intercept_mean, own)
    assert_allclose(one.evidence_rows, rows * [1.0, 0.2, 1.0])
    assert not one.facts[1, [ALONG, ROWS]].any()  # the stretch starts again
    assert one.facts[[0, 2]][:, [ALONG, ROWS]].all()


@pytest.mark.parametrize("memory", [200.0, 1e6])
def test_the_memory_bounds_how_sure_it_can_be(memory):
    one = learner("gaussian", 0, memory=memory)
    for X, y, _ in batches(7, "gaussian", 0, n=60):
        one = learn(one, X, y)
    noise = one.facts[0, 2] / one.facts[0, 3]
    assert_allclose(one._variances()[0, 2:], noise / min(memory, 3600.0), rtol=0.35)


# --- Alarms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_an_alarm_pulls_the_evidence_back_and_keeps_the_intercept(form):
    rng, one, raised = np.random.default_rng(8), learner(n_features=4), []
    for i in range(60):
        X = rng.normal(1.0, 1.0, (100, 4))
        signal = X[:, 0] if i < 40 else X[:, 2]
        y = (signal + 0.3 * rng.normal(size=100) > 2.0).astype(int)
        rows, own = one.evidence_rows[0] + 100.0, one.intercept_mean.copy()
        one = learn(one, X, y, form=form)
        if one.strengths:
            raised.append(i)
            assert one.strengths[0] > one.changes.alarm.limit
            assert_allclose(one.evidence_rows[0], 50.0)
            assert rows > 3000.0
            assert abs(one.intercept_mean[0] - own[0]) < 0.5 * abs(own[0])
    assert len(raised) >= 1
    assert 40 <= raised[0] <= 43
    assert np.abs(one._means())[0].argmax() == 2


def test_without_watching_there_is_no_alarm():
    rng, one = np.random.default_rng(8), learner(n_features=4, watches=False)
    for i in range(60):
        X = rng.normal(size=(100, 4))
        one = learn(one, X, (X[:, 0 if i < 40 else 2] > 0.0).astype(int))
        assert one.strengths == []
    assert one.evidence_rows[0] == 6000.0


# --- The belief --------------------------------------------------------------------------------


def test_for_numbers_the_belief_is_that_of_least_squares():
    """Scores of normal numbers are standardised numbers, with known coefficients and errors."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(6000, 3)) @ np.array([[1.0, 0.7, 0.0], [0.0, 0.7, 0.0], [0.0, 0.0, 1.0]])
    X /= X.std(axis=0)
    y = X @ [1.0, -0.5, 0.0] + rng.normal(size=6000)
    one = learner("gaussian", 0, 3, memory=1e9, watches=False)
    for i in range(0, 6000, 100):
        one = learn(one, X[i : i + 100], y[i : i + 100])
    (mu,), (sigma,) = one.by_class()
    z = y / y.std()
    expected, residual, *_ = np.linalg.lstsq(X, z, rcond=None)
    errors = np.sqrt(residual / 6000 * np.diag(np.linalg.inv(X.T @ X)))
    assert_allclose(mu, expected, atol=4.0 * errors.max())
    assert_allclose(sigma, errors, rtol=0.15)


@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_a_feature_is_ranked_by_its_mean_and_many_classes_by_what_is_beyond_chance(
    family, n_classes
):
    one = learner(family, n_classes)
    for X, y, _ in batches(10, family, n_classes, n=20):
        one = learn(one, X, y)
    mu, var = np.abs(one._means()), one._variances()
    spread = np.sqrt(var * (1.0 - var / one.prior))
    expected = mu[0] if len(mu) == 1 else np.maximum(mu - spread, 0.0).max(axis=0)
    assert_allclose(one.scores(), expected)
    leader = (mu - spread).argmax(axis=0) if len(mu) > 1 else np.zeros(6, int)
    belief, (all_mu, all_sigma) = one.features(), one.by_class()
    assert_array_equal(belief.mu, all_mu[leader, np.arange(6)])
    assert_array_equal(belief.sigma, all_sigma[leader, np.arange(6)])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_features", [6, 130])
def test_to_ask_changes_nothing(form, n_features):
    one, asked = learner(n_features=n_features), learner(n_features=n_features)
    for X, y, _ in batches(11, "probit", 2, n=25, n_features=n_features):
        one, asked = learn(one, X, y, form=form), learn(asked, X, y, form=form)
        asked.features(), asked.by_class(), asked.scores()
        asked.leading_systems(), asked.leading_posterior()
        asked.ranked(np.arange(n_features))
    for found, expected in zip(beliefs(asked), beliefs(one), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize("n_features", [6, 130])
def test_to_save_changes_nothing(n_features):
    """Whoever saves every batch gets the answer of who never saves."""
    one, saved = learner(n_features=n_features), learner(n_features=n_features)
    for X, y, _ in batches(12, "probit", 2, n=25, n_features=n_features):
        one, saved = learn(one, X, y), learn(saved, X, y)
        saved.state()
    assert_array_equal(saved.leading.columns, one.leading.columns)
    for found, expected in zip(beliefs(saved), beliefs(one), strict=True):
        assert_array_equal(found, expected)


# --- Classes that come later -------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_third_class_leaves_what_was_learnt_of_the_two(form):
    one = learner()
    for X, y, _ in batches(13, "probit", 2, fill=0.6):
        one = learn(one, X, y, form=form)
    mu, var = one._means()[0], one._variances()[0]
    more = one.with_classes(np.array(["a", "c"]), np.array(["a", "b", "c"]))
    assert_allclose(more._means()[2], mu)
    assert_allclose(more._means()[0], -mu)
    assert not more._means()[1].any()
    assert_allclose(more._variances()[[0, 2]], [var, var])
    assert_allclose(more._variances()[1], more.prior)
    assert_allclose(more.intercept_mean[2], -more.intercept_mean[0])
    found, sigma = more.by_class()
    assert_allclose(found[2], -found[0])
    assert_allclose(sigma[2], sigma[0])
    assert_allclose(one._means()[0], mu)  # the copy shares nothing that learning changes
    for X, y, _ in batches(14, "probit", 3, fill=0.6):
        more = learn(more, X, y, form=form)
    assert_allclose(one._means()[0], mu)
    assert more._means()[1].any()


# --- Errors and storage ------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@pytest.mark.parametrize("family", ["gaussian", "probit"])
@pytest.mark.parametrize("n_features", [6, 130])
def test_rows_that_overflow_are_refused_and_change_nothing(form, scale, family, n_features):
    n_classes = 0 if family == "gaussian" else 2
    one = learner(family, n_classes, n_features, scale=scale)
    for X, y, _ in batches(15, family, n_classes, n=3, n_features=n_features):
        one = learn(one, X, y, form=form)
    before = copy.deepcopy(one)
    bad = np.full((20, n_features), 1e200)
    if scale == "minmax":  # another range is no overflow; but what is learnt stays finite
        try:
            learn(one, bad, y[:20], form=form)
        except ValueError:
            assert_same_state(one, before)
        assert all(np.isfinite(part).all() for part in beliefs(one))
        return
    with pytest.raises(ValueError, match="large"):
        learn(one, bad, y[:20], form=form)
    assert_same_state(one, before)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n_features", [6, 130])
@pytest.mark.parametrize("size", [1e20, 1e100, 1e300])
def test_counts_that_overflow_are_borne_or_refused(form, n_features, size):
    one = learner("poisson", 0, n_features)
    for X, y, _ in batches(18, "poisson", 0, n=3, n_features=n_features):
        one = learn(one, X, y, form=form)
    before = copy.deepcopy(one)
    try:
        one = learn(one, X, size * y, form=form)
    except ValueError:
        assert_same_state(one, before)
    one = learn(one, X, y, form=form)
    assert all(np.isfinite(part).all() for part in beliefs(one))


@pairwise(
    of={f"{family}-{n_classes}": (family, n_classes) for family, n_classes in CASES},
    form={"dense": np.asarray, "CSR": sp.csr_array},
    n_features=[6, 130],
    scale=["standard", "minmax", None],
)
def test_what_was_saved_goes_on_bit_for_bit(of, form, n_features, scale):
    family, n_classes = of
    settings = {"n_features": n_features, "scale": scale}
    one, other = learner(family, n_classes, **settings), learner(family, n_classes, **settings)
    rows = list(
        batches(
            16, family, n_classes, n=12, n_features=n_features, n_rows=220, fill=0.3, offset=0.3
        )
    )
    for X, y, weight in rows[:6]:
        one = learn(one, X, y, weight, form)
    other.restore(copy.deepcopy(one.state()))
    assert_same_state(other, one)
    for X, y, weight in rows[6:]:
        one, other = learn(one, X, y, weight, form), learn(other, X, y, weight, form)
    assert_same_state(other, one)
    for found, expected in zip(beliefs(other), beliefs(one), strict=True):
        assert_array_equal(found, expected)
    assert_array_equal(other.scores(), one.scores())


def test_columns_that_are_correlated_are_known_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    X[:, 1] = 0.95 * X[:, 0] + 0.31 * X[:, 1]
    y = (X[:, 0] + 0.5 * rng.normal(size=4000) > 0).astype(int)
    learner = BayesLearner("probit", 3, 2, fit_intercept=True, scale=None, memory=1e4)
    learner.step(CheckedBatch(X, y), y)
    apart, together = learner.scores(), np.abs(learner.leading.means()[0])
    assert apart[1] > 0.2 * apart[0]
    assert together[1] < 0.1 * together[0]


@pytest.mark.parametrize("n_features", [6, 130])
@pytest.mark.parametrize(("family", "n_classes"), CASES)
def test_features_are_ranked_by_their_importance(family, n_classes, n_features):
    one = learner(family, n_classes, n_features=n_features)
    for X, y, _ in batches(10, family, n_classes, n=20, n_features=n_features):
        one = learn(one, X, y)
    belief = one.features()
    for columns in (np.arange(n_features), np.array([1, 4, n_features - 1])):
        worth, deviations = one.ranked(columns)
        assert_allclose(worth, belief.mu[columns], rtol=1e-9)
        assert (deviations >= 0.0).all()


def test_a_class_is_settled_and_another_must_matter_more_for_sure():
    one = learner("probit", 4)
    for X, y, _ in batches(10, "probit", 4, n=20):
        one = learn(one, X, y)
    assert (one.leading.classes == -1).all()
    one.settle_classes()
    settled, spread = one.leading.classes.copy(), one._spread()
    assert_array_equal(settled, one._leader())
    old = int(settled[2])
    other = (old + 1) % 4
    one.mu[:, 2] = 0.0
    one.mu[old, 2] = 1.0
    for ahead, expected in ((0.5, old), (6.0, other)):
        one.mu[other, 2] = -1.0 - ahead * max(spread[old, 2], spread[other, 2])
        one.settle_classes()
        assert one.leading.classes[2] == one._leader()[2] == expected
