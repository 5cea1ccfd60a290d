"""A selector that learns from shards is the selector that learns from all rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import fires
from fires import AROW, FIRES, OnlinePipeline, Sharded
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError, TargetError
from fires.core.sharding import Shards
from fires.models import NeuralNet
from fires.predictors import Perceptron
from fires.selectors.sharded import partial_fit_sharded


def gradient(**setting):
    return FIRES(2, update="gradient", **setting)


def learn(selector, X, y, n_shards=3, weight=None, **options):
    """Learn from shards; y is cut as it is."""
    missing = int(np.isnan(X.data if sp.issparse(X) else X).sum())
    shards = Shards.cut(CheckedBatch(X, np.asarray(y), weight, missing), n_shards)
    n_features = X.shape[1]
    return partial_fit_sharded(selector, shards.evaluate, n_features=n_features, **options)


def assert_same(one, many):
    header, arrays = one.saved()
    other_header, other_arrays = many.saved()
    assert header == other_header
    assert arrays.keys() == other_arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_allclose(other_arrays[name], values, rtol=1e-10, atol=1e-10, err_msg=name)


def rows(rng, n=30, n_features=4):
    return rng.normal(size=(n, n_features))


@pytest.mark.parametrize("labels", [[3, 5, 4, 1], ["b", "d", "c", "a"], [1.0, 2.0, 1.5 + 0.5, 0.0]])
def test_new_labels_may_appear_in_any_shard(labels):
    rng = np.random.default_rng(0)
    one, many = gradient(), gradient()
    for n_known in (1, 2, 2, 3, 4, 4):
        X = rows(rng)
        y = np.array(labels[:n_known])[rng.integers(0, n_known, len(X))]
        y[-n_known:] = labels[:n_known]  # the new one is in the last shard
        one.partial_fit(X, y)
        learn(many, X, y)
        assert_same(one, many)


def test_weights_count_as_many_rows_as_in_one_process():
    rng = np.random.default_rng(0)
    one, many = FIRES(2), FIRES(2)
    for _ in range(2):
        X, y, weight = rows(rng), rng.integers(0, 2, 30), rng.integers(1, 4, 30).astype(float)
        one.partial_fit(X, y, sample_weight=weight)
        learn(many, X, y, weight=weight)
        np.testing.assert_allclose(many.weight_sums_, one.weight_sums_)


def test_what_the_target_is_follows_from_all_shards():
    rng = np.random.default_rng(1)
    X, y = rows(rng), rng.integers(0, 2, 30).astype(float)
    y[-1] = 0.5  # only the last shard shows that these are numbers
    one, many = gradient().partial_fit(X, y), learn(gradient(), X, y)
    assert many.model_ == "gaussian"
    assert_same(one, many)
    with pytest.raises(TargetError, match="30 distinct whole numbers in 30 rows"):
        learn(gradient(), X, np.arange(30))
    with pytest.raises(TargetError, match="not whole"):
        learn(gradient(model="probit"), X, y)


def test_announced_classes_are_known_from_the_start_and_no_others_are_allowed():
    rng = np.random.default_rng(2)
    X, y = rows(rng), rng.integers(0, 2, 30)
    one = gradient().partial_fit(X, y, classes=[0, 1, 2])
    many = learn(gradient(), X, y, classes=[0, 1, 2])
    assert_same(one, many)
    with pytest.raises(ValueError, match="holds the label 7"):
        learn(many, X, np.where(np.arange(30) == 29, 7, y))
    assert_same(one, many)


@pytest.mark.parametrize("family", ["probit", "gaussian", "poisson"])
def test_surprises_raise_the_same_alarms(family):
    rng = np.random.default_rng(3)
    setting = {"model": family, "drift": "alarm", "learning_rate": 0.1}
    one, many = gradient(**setting), gradient(**setting)
    for number in range(210):
        X = rows(rng, 100)
        score = X[:, 0] * (2.0 if number < 200 else -2.0)
        counts = rng.poisson(np.exp(np.minimum(score, 4.0))).astype(float)
        y = {"probit": score > 0, "gaussian": score, "poisson": counts}[family]
        one.partial_fit(X, y)
        learn(many, X, y)
    assert one.alarms_
    assert len(one.alarms_) == len(many.alarms_)
    assert_same(one, many)


class Always:
    """A detector of the user's."""

    drift_detected = True

    def __init__(self):
        self.told = []

    def update(self, x):
        self.told.append(x)


def test_a_detector_is_told_the_same():
    rng = np.random.default_rng(4)
    detector = Always()
    one, many = gradient(drift=detector), gradient(drift=detector)
    for _ in range(3):
        X = rows(rng)
        one.partial_fit(X, X[:, 0] > 0)
        learn(many, X, X[:, 0] > 0)
    assert detector.told == []  # each has its own
    np.testing.assert_allclose(
        many._monitor_.detector.told, one._monitor_.detector.told, rtol=1e-10, atol=1e-10
    )
    assert len(many.alarms_) == 3
    assert_same(one, many)


@pytest.mark.parametrize("setting", [{}, {"drift": "alarm"}, {"drift": Always()}])
def test_when_the_last_round_fails_nothing_has_changed(setting):
    rng = np.random.default_rng(5)
    selector = gradient(**setting)
    for _ in range(3):
        X = rows(rng)
        learn(selector, X, X[:, 0] > 0)
    before = selector.saved()[1]
    before = {name: values.copy() for name, values in before.items()}
    X = rows(rng) * 5.0  # entries beyond the reach: there is more than one round
    shards, rounds = Shards.cut(CheckedBatch(X, X[:, 0] > 0), 2), []

    def fails(task):
        rounds.append(task)
        if len(rounds) == 2:
            raise RuntimeError("the worker is gone")
        return shards.evaluate(task)

    with pytest.raises(RuntimeError, match="is gone"):
        partial_fit_sharded(selector, fails, n_features=4)
    assert selector.n_samples_seen_ == 90
    for name, values in selector.saved()[1].items():
        np.testing.assert_array_equal(values, before[name], err_msg=name)


def test_shards_and_batches_without_rows_say_nothing():
    rng = np.random.default_rng(6)
    many = learn(gradient(), np.zeros((0, 4)), np.zeros(0))
    assert not hasattr(many, "n_samples_seen_")
    X = rows(rng, 2)
    one = gradient().partial_fit(X, [0, 1])
    learn(many, X, [0, 1], n_shards=8)
    learn(many, np.zeros((0, 4)), np.zeros(0))
    assert_same(one, many)


def test_sparse_rows_after_dense_ones_are_made_dense_but_in_shards():
    rng = np.random.default_rng(7)
    one, dense = gradient(), gradient()
    for number in range(6):
        X = rows(rng) * (rng.random((30, 4)) < 0.5)
        y = (X[:, 0] > 0).astype(int)
        one.partial_fit(sp.csr_array(X) if number % 3 == 1 else X, y)
        dense.partial_fit(X, y)
        assert_same(one, dense)
    with pytest.raises(InputError, match="rows are sparse, and those learnt from"):
        learn(one, sp.csr_array(X), y, sparse=True)
    assert_same(one, dense)


@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_rows_that_have_the_scale_are_not_scaled_again(scale):
    rng = np.random.default_rng(9)
    one, many = gradient(scale=scale), gradient(scale=scale)
    for _ in range(3):
        batch = CheckedBatch(rows(rng), rng.integers(0, 2, 30), scale=scale)
        one.learn(batch)
        partial_fit_sharded(many, Shards.cut(batch, 3).evaluate, n_features=4)
        assert_same(one, many)


def test_a_run_goes_on_in_shards_and_back(tmp_path):
    rng = np.random.default_rng(10)
    one, many = gradient(), gradient()
    for number in range(6):
        X = rows(rng)
        one.partial_fit(X, X[:, 0] > 0)
        many = many.partial_fit(X, X[:, 0] > 0) if number % 2 else learn(many, X, X[:, 0] > 0)
        many.save(tmp_path / "state")
        many = fires.load(tmp_path / "state")
    assert_same(one, many)


def test_columns_are_those_learnt_from():
    rng = np.random.default_rng(11)
    X = rows(rng)
    many = learn(gradient(), X, X[:, 0] > 0, names=["a", "b", "c", "d"])
    assert many.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    learn(many, X, X[:, 0] > 0, names=["a", "b", "c", "d"])
    with pytest.raises(InputError, match="another order"):
        learn(many, X, X[:, 0] > 0, names=["b", "a", "c", "d"])
    with pytest.raises(ValueError, match="expecting 4 features"):
        learn(many, X[:, :3], X[:, 0] > 0)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN \(1 entries\)"):
        learn(gradient(missing="error"), X, X[:, 0] > 0)


@pytest.mark.parametrize("update", ["gradient", "bayes"])
def test_what_comes_back_in_a_round_is_64_bytes_a_feature_whatever_the_cut(update):
    rng, n_features, sizes = np.random.default_rng(13), 20_000, []
    selector = FIRES(2, update=update)
    for _ in range(2):
        X = rng.normal(size=(24, n_features))
        shards = Shards.cut(CheckedBatch(X, X[:, 0] > 0), 12)

        def evaluate(task, shards=shards):
            sums = shards.evaluate(task)
            sizes.append(len(pickle.dumps(sums, 5)))
            return sums

        partial_fit_sharded(selector, evaluate, n_features=n_features)
    assert max(sizes) < 64 * n_features


def test_models_that_cannot_say_so():
    rng = np.random.default_rng(12)
    X = rows(rng)
    with pytest.raises(InputError, match="NeuralNet cannot learn from shards; use a linear model"):
        learn(FIRES(2, model=NeuralNet()), X, X[:, 0] > 0)
    with pytest.raises(InputError, match="AROW cannot learn from shards"):
        Sharded(AROW(2)).partial_fit(X, X[:, 0] > 0)


# --- on several cores -------------------------------------------------------------------------


@pytest.mark.parametrize(("n_jobs", "sparse"), [(2, True), (3, False)])
def test_several_cores_learn_what_one_learns(n_jobs, sparse):
    rng = np.random.default_rng(13)
    one, many = gradient(), Sharded(gradient(), n_jobs)
    for _ in range(2):
        X = rng.normal(size=(5_300, 600))  # three times a million entries
        y = X[:, 0] - X[:, 5] > 0
        stored = sp.csr_array(X) if sparse else X
        one.partial_fit(stored, y)
        assert many.partial_fit(stored, y) is many
    assert_same(one, many.selector)
    np.testing.assert_array_equal(many.get_support(), one.get_support())
    np.testing.assert_allclose(many.weights_, one.weights_, rtol=1e-10)
    assert many.transform(X).shape == (5_300, 2)
    assert many.n_samples_seen_ == 10_600


def test_it_is_saved_as_its_selector_and_fits_in_batches(tmp_path):
    rng = np.random.default_rng(14)
    X = rows(rng, 250)
    one, many = gradient().fit(X, X[:, 1] > 0), Sharded(gradient(), 2).fit(X, X[:, 1] > 0)
    assert_same(one, many.selector)
    many.save(tmp_path / "state")
    assert_same(one, fires.load(tmp_path / "state"))
    before = many.importances_
    with pytest.raises(ValueError, match="features"):
        many.partial_fit(X[:, :3], X[:, 1] > 0)
    np.testing.assert_array_equal(many.importances_, before)


def test_the_bayesian_update_does_not_depend_on_the_number_of_cores():
    rng = np.random.default_rng(15)
    one, two = Sharded(FIRES(2), 1), Sharded(FIRES(2), 2)
    for number in range(6):
        X = rng.normal(size=(3_000, 700))
        y = X[:, 0] - X[:, 5] > 0 if number < 4 else X[:, 7] > 0
        one.partial_fit(X, y)
        two.partial_fit(X, y)
    assert one.alarms_
    assert [alarm.row for alarm in one.alarms_] == [alarm.row for alarm in two.alarms_]
    np.testing.assert_allclose(two.importances_, one.importances_, atol=1e-8)
    np.testing.assert_allclose(two.uncertainties_, one.uncertainties_, rtol=1e-8)
    np.testing.assert_array_equal(two.get_support(), one.get_support())
    assert 7 in one.get_support(indices=True)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_pipeline_takes_it_as_it_takes_its_selector(tmp_path, sparse):
    rng = np.random.default_rng(12)
    plain = OnlinePipeline(gradient(), Perceptron())
    wrapped = OnlinePipeline(Sharded(gradient(), n_jobs=2), Perceptron())
    for _ in range(3):
        X = 50.0 * rows(rng, 40) * (rng.random((40, 4)) < (0.3 if sparse else 1.0))
        y = np.where(X[:, 1] > 0, "b", "a")
        for pipeline in (plain, wrapped):
            pipeline.partial_fit(sp.csr_array(X) if sparse else X, y)
    assert_same(plain.selector, wrapped.selector.selector)
    assert (plain.predict(X) == wrapped.predict(X)).all()
    assert wrapped.label_index.labels.tolist() == ["a", "b"]
    wrapped.save(tmp_path / "pipeline")
    again = fires.load(tmp_path / "pipeline")
    assert isinstance(again.selector, FIRES)
    assert_same(plain.selector, again.selector)


def test_columns_that_go_with_the_target_lead_from_the_first_batch_on():
    rng, relevant = np.random.default_rng(0), np.arange(5200, 5205)
    selector = FIRES(5)
    for _ in range(3):
        X = rng.normal(size=(200, 5205))
        y = X[:, relevant].sum(axis=1) + rng.logistic(size=200) > 0
        learn(selector, X, y)
    assert selector.get_support()[relevant].sum() >= 4
