"""IncrementalPermutation: how much a model's loss grows without a feature, and how sure that is."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

import fires
from fires import IncrementalPermutation
from fires.metrics import recall, recoveries
from fires.predictors import Perceptron, SklearnPredictor, hoeffding_tree
from fires.predictors.built_in import with_classes
from fires.streams import KnownTruth


def stream(n_batches, kind="classes", n_features=20, seed=0, n_rows=100):
    rng = np.random.default_rng(seed)
    scale = 10.0 ** rng.uniform(-3, 3, n_features)
    for _ in range(n_batches):
        Z = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
        signal = Z[:, 1] - Z[:, 4] + 0.2 * rng.normal(size=n_rows)
        y = {
            "classes": signal > 0.0,
            "three": np.array(["a", "b", "c"])[np.digitize(signal, [-0.5, 0.5])],
            "numbers": 1e4 + 50.0 * signal,
        }[kind]
        yield Z * scale, y


class Opaque:
    """A predictor that does not show its coefficients."""

    def __init__(self, estimator):
        self.hidden = SklearnPredictor(estimator)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.hidden.partial_fit(X, y, classes, sample_weight)
        self.classes_ = self.hidden.classes_
        return self

    def predict(self, X):
        return self.hidden.predict(X)

    def predict_proba(self, X):
        return self.hidden.predict_proba(X)


def learnt(selector, batches, form=np.asarray):
    for X, y in batches:
        selector.partial_fit(form(X), y)
    return selector


# --- known truth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classes", "three", "numbers"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_the_relevant_features_are_found(kind, form):
    selector = learnt(IncrementalPermutation(2, random_state=0), stream(20, kind), form)
    assert selector.get_support(indices=True).tolist() == [1, 4]
    others = np.delete(np.arange(20), [1, 4])
    assert selector.importances_[[1, 4]].min() > 10 * np.abs(selector.importances_[others]).max()


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("positive_rate", "most"), [(0.5, 20), (0.01, 30)])
def test_a_new_set_is_found_after_a_drift(positive_rate, most, seed):
    truth = KnownTruth(8000, 50, 5, drift_at=0.5, positive_rate=positive_rate, random_state=seed)
    selector, sets = IncrementalPermutation(5, random_state=0), []
    for batch in truth.batches(100):
        sets.append(selector.partial_fit(batch.X, batch.y).get_support())
    assert recall(sets[39], truth.relevant_at(0)) >= 0.8
    (found,) = recoveries(sets, truth, batch_size=100, threshold=0.8)
    assert found.batches <= most


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (SGDClassifier(loss="log_loss"), "classes"),
        (SGDClassifier(), "three"),
        (SGDRegressor(), "numbers"),
        (Perceptron(), "three"),
        (GaussianNB(), "three"),
    ],
    ids=["SGD, two", "SGD, three", "SGD, numbers", "Perceptron", "GaussianNB"],
)
def test_any_predictor_can_be_explained(model, kind):
    selector = IncrementalPermutation(2, model=model, random_state=0)
    learnt(selector, stream(20, kind))
    assert selector.get_support(indices=True).tolist() == [1, 4]
    assert not hasattr(model, "coef_")  # a copy has learnt
    assert not hasattr(model, "classes_")


def test_a_model_that_is_not_linear_finds_what_works_only_together():
    rng = np.random.default_rng(0)
    net = MLPClassifier((20,), learning_rate_init=0.02)
    selector = IncrementalPermutation(2, model=net, forgetting=0.0, random_state=0)
    for _ in range(60):
        X = rng.normal(size=(100, 6))
        selector.partial_fit(X, X[:, 2] * X[:, 5] > 0)
    assert selector.get_support(indices=True).tolist() == [2, 5]


def test_a_tree_of_river_can_be_explained_but_not_saved(tmp_path):
    pytest.importorskip("river")
    selector = IncrementalPermutation(
        1, model=hoeffding_tree(), scale=None, n_explained=3, random_state=0
    )
    rng = np.random.default_rng(0)
    for _ in range(15):
        X = rng.random((100, 4))
        selector.partial_fit(X, X[:, 2] > 0.5)
    assert selector.get_support(indices=True).tolist() == [2]
    with pytest.raises(ValueError, match="of River cannot be saved"):
        selector.save(tmp_path / "state")


# --- what the numbers mean ------------------------------------------------------------------------


def test_the_importance_of_a_linear_model_is_what_theory_says():
    """For y = sum of b_j z_j, replacing z_j adds 2 b_j^2 to the squared error, for y of scale 1."""
    rng = np.random.default_rng(0)
    beta = np.array([0.8, -0.5, 0.0, 0.2])
    beta /= np.sqrt(beta @ beta + 0.09)
    selector = IncrementalPermutation(2, forgetting=0.0005, random_state=0)
    for _ in range(100):
        Z = rng.normal(size=(100, 4))
        selector.partial_fit(Z, Z @ beta + 0.3 / np.sqrt(1.02) * rng.normal(size=100))
    errors = np.abs(selector.importances_ - 2.0 * beta**2)
    assert (errors < 4.0 * selector.uncertainties_ + 0.02).all()


def test_the_standard_error_is_the_spread_over_streams():
    """With equal settings, and other rows, importances differ as much as uncertainties say."""
    found = []
    for seed in range(30):
        selector = IncrementalPermutation(2, random_state=seed, forgetting=0.01)
        learnt(selector, stream(10, "numbers", n_features=6, seed=seed))
        found.append([selector.importances_[1], selector.uncertainties_[1]])
    importances, errors = np.array(found).T
    assert 0.5 < importances.std() / errors.mean() < 2.0


def test_older_rows_fade_however_the_rows_are_cut():
    """Two batches or one: the sums are those of the row-by-row formula."""
    batches = list(stream(4, "numbers", n_features=5, n_rows=25))
    selector = IncrementalPermutation(1, forgetting=0.1, random_state=0, reservoir=1)
    learnt(selector, batches)
    total, squares = selector._mass_
    assert_allclose(total, (1.0 - 0.9**100) / 0.1)
    assert_allclose(squares, (1.0 - 0.81**100) / (1.0 - 0.81))


def test_what_a_model_does_not_use_has_no_importance():
    def constant(X, y):
        X[:, 2] = 5.0
        return X, y

    selector = learnt(IncrementalPermutation(2, random_state=0), (constant(*b) for b in stream(5)))
    assert selector.importances_[2] == 0.0
    assert selector.uncertainties_[2] == 0.0


def test_a_linear_model_is_explained_as_its_own_predictions_would_have_it():
    """The loop for linear models, and predictions of every changed row, agree on the average."""

    settings = {"loss": "log_loss", "learning_rate": "constant", "eta0": 0.01, "random_state": 0}
    models = SGDClassifier(**settings), Opaque(SGDClassifier(**settings))
    linear, predicted = (
        learnt(
            IncrementalPermutation(2, model=model, n_explained=100, random_state=0),
            stream(20, n_features=5),
        )
        for model in models
    )
    gap = np.abs(linear.importances_ - predicted.importances_)
    assert (gap <= 5.0 * np.hypot(linear.uncertainties_, predicted.uncertainties_)).all()


# --- classes, sides, forms ------------------------------------------------------------------------


def test_a_third_class_goes_on_from_what_two_have_taught():
    coef, intercept = with_classes(
        *(np.array([[2.0, -4.0]]), np.array([6.0])),
        *(np.array(["a", "c"]), np.array(["a", "b", "c"])),
        share=0.5,
    )
    assert_array_equal(coef, [[-1.0, 2.0], [0.0, 0.0], [1.0, -2.0]])
    assert_array_equal(intercept, [-3.0, 0.0, 3.0])


def test_while_one_class_is_known_nothing_is_learnt():
    X, _ = next(stream(1))
    selector = IncrementalPermutation(2, random_state=0).partial_fit(X, np.ones(100, dtype=int))
    assert not selector.weights_.any()
    learnt(selector, ((X, y.astype(int)) for X, y in stream(20)))
    assert selector.get_support(indices=True).tolist() == [1, 4]


def test_an_estimator_that_lacks_a_class_says_so():
    X, _ = next(stream(1))
    selector = IncrementalPermutation(2, model=GaussianNB(), random_state=0)
    with pytest.raises(ValueError, match="GaussianNB must know all classes from its first batch"):
        selector.partial_fit(X, np.ones(100, dtype=int))
    assert not [name for name in vars(selector) if name.endswith("_")]
    X, y = (np.concatenate(parts) for parts in zip(*stream(6, "three"), strict=True))
    order = np.argsort(y, kind="stable")
    selector.fit(X[order], y[order])  # it knows all labels of X beforehand
    assert_array_equal(selector.classes_, ["a", "b", "c"])


def test_a_batch_that_a_model_refuses_leaves_everything_as_it_was():
    selector, twin = (
        IncrementalPermutation(2, model=SGDClassifier(random_state=0), random_state=0)
        for _ in range(2)
    )
    batches = list(stream(6))
    for one in (selector, twin):
        learnt(one, batches[:3])
    with pytest.raises(ValueError, match="cannot add 2"):
        selector.partial_fit(batches[0][0], np.arange(100) % 3)
    for one in (selector, twin):
        learnt(one, batches[3:])
    assert_array_equal(selector.weights_, twin.weights_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
@pytest.mark.parametrize("scale", ["standard", None])
def test_huge_values_are_borne_or_refused(form, scale):
    X, y = next(stream(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1e10, 1e100, 1e149):
            selector = IncrementalPermutation(2, scale=scale, random_state=0)
            selector.partial_fit(form(X), y)
            before = selector.weights_
            try:
                selector.partial_fit(form(np.clip(X * size, -1e150, 1e150)), y)
            except ValueError:
                assert_array_equal(selector.weights_, before)
            assert np.isfinite(selector.weights_).all()


# --- state ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Perceptron, GaussianNB], ids=lambda kind: kind.__name__)
def test_a_loaded_selector_goes_on_bit_for_bit(model, tmp_path):
    batches = list(stream(6, n_features=5))
    selector = learnt(IncrementalPermutation(2, model=model(), random_state=1), batches[:3])
    selector.save(tmp_path / "state")
    with pytest.raises(ValueError, match=f"your model, {model.__name__}: pass it again"):
        fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match=f"learnt with {model.__name__}; model is a SGDClassifier"):
        fires.load(tmp_path / "state", model=SGDClassifier())
    loaded = fires.load(tmp_path / "state", model=model())
    for one in (selector, loaded):
        learnt(one, batches[3:])
    assert_array_equal(loaded.weights_, selector.weights_)
    assert_array_equal(loaded.uncertainties_, selector.uncertainties_)


@pytest.mark.parametrize("model", [GaussianNB, "net", object()])
def test_what_is_no_predictor_is_refused(model):
    with pytest.raises(ValueError, match=r"^model must be None or a predictor"):
        IncrementalPermutation(2, model=model).partial_fit(*next(stream(1)))
