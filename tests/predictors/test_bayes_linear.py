"""The belief as a predictor, on the features that are shown."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss

import fires
from fires import FIRES, FSDS, OnlinePipeline
from fires.core.batch import CheckedBatch
from fires.models import NeuralNet
from fires.predictors import BayesLinear


def correlated(n, seed=0):
    """Eight columns, each correlated with the one before, and a linear signal of four of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8))
    for j in range(1, 8):
        X[:, j] = 0.9 * X[:, j - 1] + 0.44 * X[:, j]
    signal = X @ [1.0, -1.0, 0.0, 0.0, 1.0, 0.0, -1.0, 0.0]
    return X, signal, rng.normal(size=n)


def learnt(model, X, y, size=100, **options):
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        model.learn(CheckedBatch(X[part], y[part], **options))
    return model


@pytest.mark.parametrize("model", ["probit", "logistic"])
def test_probabilities_are_those_of_logistic_regression(model):
    X, signal, noise = correlated(6_000)
    y = (signal + 0.5 * noise > 0.3).astype(int)
    ours = learnt(BayesLinear(model), X[:4_000], y[:4_000])
    theirs = LogisticRegression().fit(X[:4_000], y[:4_000])
    ours, theirs = (one.predict_proba(X[4_000:]) for one in (ours, theirs))
    truth = y[4_000:]
    assert log_loss(truth, ours) < log_loss(truth, theirs) + 0.01
    right = [(one.argmax(axis=1) == truth).mean() for one in (ours, theirs)]
    assert right[0] > right[1] - 0.01


def test_three_classes_have_probabilities_too():
    X, signal, noise = correlated(6_000)
    y = np.array(["a", "b", "c"])[np.argmax([0.0 * noise, signal + noise, X[:, 2] - noise], axis=0)]
    model = learnt(BayesLinear(), X, y)
    P = model.predict_proba(X)
    assert model.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    shares = [(y == label).mean() for label in model.classes_]
    np.testing.assert_allclose(P.mean(axis=0), shares, atol=0.05)
    for column, label in enumerate(model.classes_):
        sure = P[:, column] > 0.6
        assert (y[sure] == label).mean() > 0.6


def test_numbers_come_back_in_their_unit():
    X, signal, noise = correlated(6_000)
    y = 1e6 + 1e4 * (signal + 0.5 * noise)
    model = learnt(BayesLinear(), X[:4_000], y[:4_000])
    theirs = Ridge().fit(X[:4_000], y[:4_000])
    errors = [np.abs(one.predict(X[4_000:]) - y[4_000:]).mean() for one in (model, theirs)]
    assert errors[0] < 1.05 * errors[1]
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "classes_")


def test_wild_numbers_do_not_spoil_what_is_expected():
    X, signal, _ = correlated(6_000)
    y = signal + 0.3 * np.random.default_rng(0).standard_t(1.5, size=6_000)
    model = learnt(BayesLinear(), X, y)
    assert np.abs(model.predict(X) - signal).mean() < 0.15


def test_counts_are_expected_counts():
    X, signal, _ = correlated(6_000)
    rate = np.exp(0.3 * signal + 1.0)
    y = np.random.default_rng(1).poisson(rate)
    model = learnt(BayesLinear("poisson"), X, y)
    assert np.corrcoef(model.predict(X), rate)[0, 1] > 0.98
    assert model.predict(X).mean() == pytest.approx(y.mean(), rel=0.05)
    with pytest.raises(ValueError, match="must not be negative"):
        model.check(CheckedBatch(X[:2], np.array([1, -1])))


def test_a_feature_that_was_not_shown_is_at_the_prior():
    X, signal, _ = correlated(2_000)
    y = (signal > 0.0).astype(int)
    shown = X.copy()
    shown[:, 4:] = np.nan
    model = learnt(BayesLinear(), shown, y, scale="standard")
    assert model.columns.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(model.predict_proba(X), model.predict_proba(shown))
    shown[:, 4] = X[:, 4]
    model.learn(CheckedBatch(shown[:1], y[:1], scale="standard"))
    assert model.columns.tolist() == [0, 1, 2, 3, 4]
    learner = model.learner
    assert abs(learner.mu[0, 4]) < learner.prior
    assert learner.var[0, 4] > 0.5 * learner.prior
    assert learner.prior == pytest.approx(0.3)


def test_it_makes_no_difference_whether_columns_are_away_or_not_there():
    X, signal, _ = correlated(3_000)
    y = (signal > 0.0).astype(int)
    wide = np.full((3_000, 50), np.nan)
    wide[:, 10:18] = X
    one, other = (learnt(BayesLinear(), rows, y) for rows in (X, wide))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(wide))


def test_rows_of_any_unit_are_standardised_unless_they_are():
    X, signal, _ = correlated(3_000)
    y = (signal > 0.0).astype(int)
    units = 10.0 ** np.arange(-4, 4)
    one, other = learnt(BayesLinear(), X, y), learnt(BayesLinear(), 5.0 + X * units, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(5.0 + X * units))


def test_nothing_shown_is_the_level():
    y = np.array([0, 0, 0, 1] * 200)
    model = learnt(BayesLinear(), np.full((800, 3), np.nan), y, scale="standard")
    assert model.predict_proba(np.full((1, 3), np.nan))[0, 1] == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(("width", "least"), [(40, 0.9), (3_000, 0.7)])
def test_sparse_rows(width, least):
    rng = np.random.default_rng(0)
    X = sp.csr_array(sp.random(4_000, width, 20 / width, random_state=0, data_rvs=np.ones))
    weights = np.where(np.arange(width) < width // 2, 3.0, -3.0)
    y = (X @ weights + rng.normal(size=4_000) > 0.0).astype(int)
    scale = 1.0 / np.sqrt(20 / width)  # as a pipeline would
    model = learnt(BayesLinear(), (scale * X).tocsr()[:3_500], y[:3_500])
    assert (model.predict((scale * X).tocsr()[3_500:]) == y[3_500:]).mean() > least
    again = BayesLinear().restore(*model.state())
    np.testing.assert_array_equal(again.predict_proba(X[:9]), model.predict_proba(X[:9]))


def test_a_constant_weight_changes_nothing():
    X, signal, _ = correlated(1_000)
    y = (signal > 0.0).astype(int)
    one, other = BayesLinear().partial_fit(X, y), BayesLinear()
    other.partial_fit(X, y, sample_weight=np.full(1_000, 7.0))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def test_the_learner_follows_a_concept_drift():
    X, signal, _ = correlated(9_000)
    y = np.where(np.arange(9_000) < 6_000, signal > 0.0, signal < 0.0).astype(int)
    model = learnt(BayesLinear(), X, y)
    assert (model.predict(X[8_000:]) == y[8_000:]).mean() > 0.9


# --- in a pipeline ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "model", "memory"),
    [
        (FIRES(2), "auto", 10_000.0),
        (FIRES(2, model="poisson", memory=500), "poisson", 500.0),
        (FIRES(2, memory="7d", time="when"), "auto", 10_000.0),
        (FIRES(2, model=NeuralNet(task="numbers")), "gaussian", 10_000.0),
        (FSDS(2), "auto", 10_000.0),
    ],
    ids=str,
)
def test_the_usual_predictor_has_the_settings_of_the_selector(selector, model, memory):
    predictor = OnlinePipeline(selector).wrapped_predictor
    assert (type(predictor), predictor.model, predictor.memory) == (BayesLinear, model, memory)


def test_the_usual_predictor_learns_where_there_is_a_target():
    X, _, _ = correlated(300)
    pipeline = OnlinePipeline(FSDS(2)).partial_fit(X)
    with pytest.raises(ValueError, match="has not learnt anything to predict"):
        pipeline.predict(X)
    assert pipeline.partial_fit(X, X[:, 0] > 0.0).predict(X).shape == (300,)


def test_a_word_that_is_no_predictor_is_refused():
    with pytest.raises(
        ValueError, match="predictor must be 'auto', None or a predictor; got 'svm'"
    ):
        OnlinePipeline(FIRES(2), "svm").partial_fit(np.eye(2), [0, 1])


@pytest.mark.parametrize("preprocess", ["standard", "minmax", None])
def test_a_row_is_predicted_alike_alone_and_among_others(preprocess):
    X, signal, _ = correlated(2_000)
    X = 50.0 + 3.0 * X
    y = (signal > 0.0).astype(int)
    pipeline = OnlinePipeline(FIRES(4), preprocess=preprocess).fit(X, y)
    together = pipeline.predict_proba(X[:20])
    alone = np.concatenate([pipeline.predict_proba(X[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(together, alone, rtol=1e-12)
    assert (pipeline.predict(X) == y).mean() > 0.7


def test_a_loaded_pipeline_goes_on_alike(tmp_path):
    X, signal, _ = correlated(2_000)
    y = (signal > 0.0).astype(int)
    pipeline = OnlinePipeline(FIRES("auto")).fit(X[:1_000], y[:1_000])
    pipeline.save(tmp_path / "model")
    again = fires.load(tmp_path / "model")
    for one in (pipeline, again):
        one.partial_fit(X[1_000:], y[1_000:])
    np.testing.assert_array_equal(pipeline.predict_proba(X), again.predict_proba(X))


def test_open_columns_that_come_and_go():
    X, signal, _ = correlated(4_000)
    y = (signal > 0.0).astype(int)
    pipeline, right = OnlinePipeline(FIRES(4, columns="open"), slots=4), []
    for start in range(0, 4_000, 100):
        rows, names = slice(start, start + 100), range(8) if start < 2_000 else range(1, 8)
        batch = [{f"x{j}": float(x[j]) for j in names} for x in X[rows]]
        if start:
            right.append((pipeline.predict(batch) == y[rows]).mean())
        pipeline.partial_fit(batch, y[rows])
    assert np.mean(right[10:20]) > 0.8
    assert np.mean(right[30:]) > 0.7
