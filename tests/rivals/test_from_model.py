"""FromModel: an estimator of scikit-learn as it is, ranked, saved and taken up again."""

import copy
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, clone
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import LogisticRegression, Perceptron, SGDClassifier, SGDRegressor
from sklearn.naive_bayes import MultinomialNB
from sklearn.neural_network import MLPClassifier

import fires
from fires import FromModel
from fires.core.state import read_state
from fires.rivals.from_model import weights_of

NAMES = np.array(["a", "b", "c"])


class Importances(BaseEstimator):
    """Ranks by the mean of each column; draws a little, and keeps what it is told to keep."""

    def __init__(self, random_state=None, kept=None):
        self.random_state = random_state
        self.kept = kept

    def partial_fit(self, X, y):
        if not hasattr(self, "rng_"):
            self.rng_ = np.random.default_rng(self.random_state)
            self.kept_ = self.kept
            self.total_ = self.same_ = np.zeros(X.shape[1])
        if y[0] > 100:
            self.total_ += 1.0
            raise RuntimeError("in the middle of a step")
        self.total_ += X.sum(axis=0) + 0.01 * self.rng_.random(X.shape[1])
        self.n_ = np.float32(len(X))
        return self

    @property
    def feature_importances_(self):
        return self.same_


def stream(n_batches=6, target="classes", n_rows=30, seed=0, n_classes=3):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(n_rows, 5)) * (rng.random((n_rows, 5)) < 0.8)
        signal = X[:, 1] - 0.5 * X[:, 3] + 0.1 * rng.normal(size=n_rows)
        if target == "numbers":
            yield X, signal
        else:
            yield X, np.digitize(signal, [0.0] if n_classes == 2 else [-0.5, 0.5])


def passive_aggressive():
    from sklearn import linear_model

    kind = getattr(linear_model, "PassiveAggressiveClassifier", None)
    if kind is None:
        pytest.skip("scikit-learn has it no more")
    return kind(random_state=0)


ESTIMATORS = {
    "SGDClassifier": lambda: SGDClassifier(random_state=0),
    "SGDClassifier, log": lambda: SGDClassifier(loss="log_loss", penalty="elasticnet"),
    "SGDClassifier, averaged": lambda: SGDClassifier(average=True, random_state=1),
    "SGDClassifier, averaged later": lambda: SGDClassifier(average=100, random_state=1),
    "SGDClassifier, RandomState": lambda: SGDClassifier(random_state=np.random.RandomState(3)),
    "Perceptron": Perceptron,
    "PassiveAggressive": passive_aggressive,
    "SGDRegressor": lambda: SGDRegressor(random_state=0),
    "SGDRegressor, averaged": lambda: SGDRegressor(average=True),
    "Importances": lambda: Importances(random_state=0, kept="text"),
}
estimators = pytest.mark.parametrize("name", ESTIMATORS)
pytestmark = pytest.mark.filterwarnings("ignore:Class PassiveAggressive:FutureWarning")


def target_of(name):
    return "numbers" if "Regressor" in name or name == "Importances" else "classes"


# --- ranking --------------------------------------------------------------------------------------


@estimators
@pytest.mark.parametrize(
    ("kind", "n_classes"),
    [(np.asarray, 2), (np.asfortranarray, 3), (sp.csr_array, 3), (sp.csr_matrix, 2)],
)
def test_it_learns_what_the_estimator_alone_would_learn(name, kind, n_classes):
    if name == "Importances" and kind in (sp.csr_array, sp.csr_matrix):
        return  # it was not written for sparse data
    alone = ESTIMATORS[name]()
    if alone.random_state is None:
        alone.set_params(random_state=5)
    selector = FromModel(2, estimator=clone(alone))
    for X, y in stream(target=target_of(name), n_classes=n_classes):
        selector.partial_fit(kind(X), y)
        if target_of(name) == "classes":
            alone.partial_fit(kind(X), y, classes=np.arange(n_classes))
        else:
            alone.partial_fit(kind(X), y)
        assert_array_equal(selector.weights_, weights_of(alone, 5))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_those_of_scikit_learns_own_selector(n_classes):
    ((X, y),) = stream(1, n_classes=n_classes)
    selector = FromModel(2, estimator=SGDClassifier(random_state=0)).partial_fit(X, y)
    own = SelectFromModel(selector.estimator_, prefit=True, max_features=2, threshold=-np.inf)
    assert_array_equal(selector.get_support(), own.get_support())
    coefficients = selector.estimator_.coef_
    assert_allclose(selector.weights_, np.abs(coefficients).sum(axis=0), rtol=1e-15)


def test_sparse_coefficients_are_read_too():
    ((X, y),) = stream(1)
    estimator = SGDClassifier(random_state=0).fit(X, y)
    dense = weights_of(estimator, 5)
    assert_array_equal(weights_of(estimator.sparsify(), 5), dense)


def test_sparse_rows_with_long_indices_are_learnt_from():
    """Most of scikit-learn refuses them, however few the entries are."""
    X, y = next(stream(n_classes=2))
    rows = sp.csr_array(X)
    rows.indices, rows.indptr = rows.indices.astype(np.int64), rows.indptr.astype(np.int64)
    one, other = (FromModel(2, estimator=SGDClassifier(random_state=0)) for _ in range(2))
    one.partial_fit(rows, y)
    assert_array_equal(one.weights_, other.partial_fit(sp.csr_array(X), y).weights_)


def test_the_relevant_features_are_found():
    selector = FromModel(2, estimator=SGDClassifier(random_state=0))
    for X, y in stream(30):
        selector.partial_fit(X, NAMES[y], classes=NAMES)
    assert_array_equal(selector.get_support(indices=True), [1, 3])


def test_the_users_estimator_is_never_changed():
    random = np.random.RandomState(0)
    estimator = SGDClassifier(random_state=random)
    state = random.get_state()[1].copy()
    selector = FromModel(2, estimator=estimator)
    for X, y in stream():
        selector.partial_fit(X, y)
    assert "coef_" not in vars(estimator)
    assert_array_equal(random.get_state()[1], state)
    assert selector.estimator is estimator
    assert selector.estimator_ is not estimator
    fitted = SGDClassifier(random_state=0).fit(X, y)
    kept = copy.deepcopy(fitted.coef_)
    FromModel(2, estimator=fitted).partial_fit(X[:, :3], y)
    assert_array_equal(fitted.coef_, kept)


def test_the_global_random_state_is_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    selectors = [FromModel(2, estimator=SGDClassifier(), random_state=7) for _ in range(2)]
    for X, y in stream():
        for selector in selectors:
            selector.partial_fit(X, y)
    assert_array_equal(selectors[0].weights_, selectors[1].weights_)
    assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    assert selectors[0].estimator.random_state is None


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_missing_entries_count_as_zeros_and_single_precision_as_double(kind):
    ((X, y),) = stream(1)
    X = X.astype(np.float32)
    X[2, 3] = X[4, 4] = 0.0
    plain = FromModel(2, estimator=SGDClassifier(random_state=0)).partial_fit(X.astype(float), y)
    X[2, 3] = X[4, 4] = np.nan
    given = kind(X)
    gaps = FromModel(2, estimator=SGDClassifier(random_state=0)).partial_fit(given, y)
    if kind is np.asarray:  # scikit-learn's intercept goes another way on sparse data
        assert_array_equal(gaps.weights_, plain.weights_)
    assert gaps.estimator_.coef_.dtype == np.float64
    assert gaps.n_missing_ == 2
    assert np.isnan(given.data if sp.issparse(given) else given).sum() == 2
    # A batch in another precision goes on.
    gaps.partial_fit(kind(X.astype(float)), y)


def test_weights_of_rows_are_passed_on_or_rows_are_repeated():
    ((X, y),) = stream(1, n_classes=2)
    w = np.arange(30) % 3
    selector = FromModel(2, estimator=SGDClassifier(random_state=0))
    some = np.flatnonzero(w)  # a row of weight 0 is absent
    alone = SGDClassifier(random_state=0)
    alone.partial_fit(X[some], y[some], classes=[0, 1], sample_weight=w[some])
    assert_array_equal(selector.partial_fit(X, y, sample_weight=w).weights_, weights_of(alone, 5))
    rows = np.repeat(np.arange(30), w)
    repeated = FromModel(2, estimator=passive_aggressive()).partial_fit(X, y, sample_weight=w)
    again = FromModel(2, estimator=passive_aggressive()).partial_fit(X[rows], y[rows])
    assert_array_equal(repeated.weights_, again.weights_)
    with pytest.raises(ValueError, match="must hold whole numbers"):
        repeated.partial_fit(X, y, sample_weight=w + 0.5)


# --- classes --------------------------------------------------------------------------------------


def test_fit_knows_every_class_from_its_first_batch_on():
    X, y = (np.concatenate(parts) for parts in zip(*stream(), strict=True))
    order = np.argsort(y, kind="stable")
    selector = FromModel(2, estimator=SGDClassifier(random_state=0), batch_size=10)
    selector.fit(X[order], NAMES[y[order]].tolist())
    assert_array_equal(selector.classes_, NAMES)
    by_hand = FromModel(2, estimator=SGDClassifier(random_state=0))
    for start in range(0, len(y), 10):
        rows = order[start : start + 10]
        by_hand.partial_fit(X[rows], NAMES[y[rows]], classes=NAMES)
    assert_array_equal(selector.weights_, by_hand.weights_)
    assert "_whole_target" not in vars(selector)


def test_a_first_batch_of_one_class_asks_for_classes():
    ((X, y),) = stream(1)
    selector = FromModel(2, estimator=SGDClassifier())
    with pytest.raises(ValueError, match=r"only one class, 'a': pass them as classes="):
        selector.partial_fit(X, np.full(30, "a"))
    with pytest.raises(ValueError, match=r"only one class, 'a'"):
        selector.fit(X, np.full(30, "a"))
    assert vars(selector).keys() == vars(FromModel()).keys()
    selector.partial_fit(X, np.full(30, "a"), classes=NAMES).partial_fit(X, NAMES[y])
    assert_array_equal(selector.classes_, NAMES)


def test_a_class_that_comes_later_asks_for_classes_and_changes_nothing():
    X, y = next(stream(1, n_classes=2))
    selector = FromModel(2, estimator=Perceptron()).partial_fit(X, NAMES[y])
    before = selector.weights_
    with pytest.raises(
        ValueError, match=r"started with the classes \['a', 'b'\] and cannot add 'c'.*classes="
    ):
        selector.partial_fit(X, NAMES[y + 1])
    assert_array_equal(selector.classes_, ["a", "b"])
    assert_array_equal(selector.weights_, before)
    given = FromModel(2, estimator=Perceptron()).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="the label 2, which is not in classes"):
        given.partial_fit(X, y + 1)


@pytest.mark.parametrize(
    "labels", [(0, 1), (2, 1), (-1.0, 1.0), (False, True), ("b", "a"), ("long one", "s")]
)
def test_labels_of_every_kind(labels):
    selector, usual = (FromModel(2, estimator=SGDClassifier(random_state=0)) for _ in range(2))
    names = np.array(labels)
    flip = labels[0] > labels[1]
    for X, y in stream(n_classes=2):
        selector.partial_fit(X, names[y])
        usual.partial_fit(X, 1 - y if flip else y)
    assert_array_equal(selector.weights_, usual.weights_)


def test_targets_that_do_not_fit_are_refused():
    ((X, y),) = stream(1)
    with pytest.raises(ValueError, match="not whole, but this FromModel learns classes"):
        FromModel(2, estimator=SGDClassifier()).partial_fit(X, y + 0.5)
    with pytest.raises(ValueError, match="SGDRegressor needs numbers in y"):
        FromModel(2, estimator=SGDRegressor()).partial_fit(X, NAMES[y])
    with pytest.raises(ValueError, match="classes is for class labels; SGDRegressor takes none"):
        FromModel(2, estimator=SGDRegressor()).partial_fit(X, y, classes=[0, 1, 2])


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [None, LogisticRegression(), SGDClassifier, "sgd", object()],
    ids=lambda e: type(e).__name__,
)
def test_what_does_not_learn_in_batches_is_refused(estimator):
    ((X, y),) = stream(1)
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=r"estimator must be .* that has partial_fit"):
            getattr(FromModel(2, estimator=estimator), learn)(X, y)


@pytest.mark.parametrize("estimator", [MultinomialNB(), MLPClassifier((3,), random_state=0)])
def test_what_does_not_rank_is_refused(estimator):
    ((X, y),) = stream(1)
    selector = FromModel(2, estimator=estimator)
    with pytest.raises(ValueError, match="has neither coef_ nor feature_importances_"):
        selector.partial_fit(np.abs(X), y)
    assert "estimator_" not in vars(selector)


def test_other_settings_are_checked():
    ((X, y),) = stream(1)
    with pytest.raises(ValueError, match="missing must be 'ignore' or 'error'; got 1"):
        FromModel(2, estimator=Perceptron(), missing=1).partial_fit(X, y)
    with pytest.raises(ValueError, match="random_state must be"):
        FromModel(2, estimator=Perceptron(), random_state="a").partial_fit(X, y)


def test_a_step_that_fails_leaves_everything_as_it_was():
    selector = FromModel(2, estimator=Importances(random_state=0))
    twin = FromModel(2, estimator=Importances(random_state=0))
    batches = list(stream(target="numbers"))
    for X, y in batches:
        for one in (selector, twin):
            one.partial_fit(X, y)
        with pytest.raises(RuntimeError, match="in the middle"):
            selector.partial_fit(X, y + 1000.0)
    assert_array_equal(selector.weights_, twin.weights_)


@pytest.mark.parametrize("estimator", [SGDClassifier(random_state=0), SGDRegressor(random_state=0)])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_huge_values_are_borne_or_refused(estimator, kind):
    ((X, y),) = stream(1)
    selector = FromModel(2, estimator=estimator).partial_fit(kind(X), y)
    before = selector.weights_
    for size in (1e10, 1e100, 1e150):
        bounded = np.clip(X * size, -1e150, 1e150)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                selector.partial_fit(kind(bounded), y)
            except ValueError:
                assert_array_equal(selector.weights_, before)
            before = selector.weights_
        assert np.isfinite(selector.weights_).all()


def test_batches_of_one_row():
    selector = FromModel(2, estimator=SGDClassifier(random_state=0))
    for X, y in stream(60, n_rows=1, n_classes=2):
        selector.partial_fit(X, y, classes=[0, 1])
    assert 1 in selector.get_support(indices=True)


# --- state ----------------------------------------------------------------------------------------


def learn(selector, batches, name, kind):
    labels = "classes" if target_of(name) == "classes" else None
    for X, y in batches:
        if labels:
            selector.partial_fit(kind(X), NAMES[y], classes=NAMES)
        else:
            selector.partial_fit(kind(X), y)


@estimators
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_loaded_selector_goes_on_bit_for_bit(name, kind, tmp_path):
    if name == "Importances" and kind is sp.csr_array:
        return  # it was not written for sparse data
    batches = list(stream(5, target_of(name)))
    for half in (1, 3):
        selector = FromModel(2, estimator=ESTIMATORS[name](), random_state=3)
        learn(selector, batches[:half], name, kind)
        selector.save(tmp_path / "state")
        passed = ESTIMATORS[name]()
        loaded = fires.load(tmp_path / "state", model=passed)
        assert_array_equal(loaded.weights_, selector.weights_)
        learn(selector, batches[half:], name, kind)
        learn(loaded, batches[half:], name, kind)
        assert_array_equal(loaded.weights_, selector.weights_)
        assert_array_equal(loaded.get_support(), selector.get_support())
        if target_of(name) == "classes":
            assert_array_equal(
                loaded.estimator_.predict(batches[0][0]), selector.estimator_.predict(batches[0][0])
            )
        assert not hasattr(passed, "n_features_in_")
        loaded.save(tmp_path / "again")
        selector.save(tmp_path / "state")
        assert_same_state(tmp_path / "again", tmp_path / "state")


def assert_same_state(one, other):
    (header, arrays), (expected, numbers) = read_state(one), read_state(other)
    assert header == expected
    assert arrays.keys() == numbers.keys()
    for name in arrays:
        assert_array_equal(arrays[name], numbers[name], strict=True)


def test_the_estimator_is_asked_for_and_checked(tmp_path):
    ((X, y),) = stream(1)
    FromModel(2, estimator=SGDClassifier()).partial_fit(X, y).save(tmp_path / "state")
    with pytest.raises(ValueError, match=r"your estimator, SGDClassifier: pass it again"):
        fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match="learnt with SGDClassifier; model is a Perceptron"):
        fires.load(tmp_path / "state", model=Perceptron())
    other = SGDClassifier().fit(X[:, :3], y)
    with pytest.raises(
        ValueError, match=r"coef_ of shape \(3, 5\); that of model has shape \(3, 3\)"
    ):
        fires.load(tmp_path / "state", model=other)
    same = SGDClassifier().fit(X, y)
    kept = same.coef_.copy()
    fires.load(tmp_path / "state", model=same).partial_fit(X, y)
    assert_array_equal(same.coef_, kept)


@pytest.mark.parametrize(
    "kept",
    [[1, 2], {"a": 1}, object(), np.array([object()]), np.array([1j]), (1.0,), np.longdouble(1)],
    ids=lambda v: type(v).__name__,
)
def test_what_is_more_than_numbers_and_text_is_refused_at_save(kept, tmp_path):
    ((X, y),) = stream(1, "numbers")
    selector = FromModel(2, estimator=Importances(kept=kept)).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"^Importances cannot be saved: its kept_ is a \w+"):
        selector.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    selector.partial_fit(X, y)


@pytest.mark.parametrize(
    "kept",
    [
        None,
        True,
        3,
        2.5,
        np.inf,
        "größe",
        np.float32(1.5),
        np.int8(3),
        np.bool_(True),
        np.arange(6).reshape(2, 3),
        np.zeros(0),
        np.array(["a", "bcd"]),
        np.array(["a", "bcd"], dtype=object),
        np.array([[True, False]]),
    ],
    ids=repr,
)
def test_arrays_numbers_and_text_come_back_as_they_were(kept, tmp_path):
    ((X, y),) = stream(1, "numbers")
    selector = FromModel(2, estimator=Importances(kept=kept)).partial_fit(X, y)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state", model=Importances(kept=kept)).estimator_
    assert type(loaded.kept_) is type(kept)
    assert_array_equal(loaded.kept_, kept, strict=isinstance(kept, np.ndarray))
    assert loaded.same_ is loaded.total_
    assert type(loaded.n_) is np.float32
