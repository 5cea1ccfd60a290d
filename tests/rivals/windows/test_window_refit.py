"""WindowRefit: fitted to the last rows, and to nothing else."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB

import fires
from fires import WindowRefit
from fires.core.errors import MissingExtra
from fires.core.state import read_state
from fires.metrics import recall, recoveries
from fires.streams import KnownTruth

FITS = []


class Recorder(ClassifierMixin, BaseEstimator):
    """An estimator that writes down how many rows, and which, each fit has seen."""

    def fit(self, X, y, sample_weight=None):
        FITS.append((X.copy(), y.copy(), sample_weight))
        self.feature_importances_ = np.arange(X.shape[1], dtype=float)
        return self


@pytest.fixture
def fits():
    FITS.clear()
    return FITS


def rows_of(n, seed=0, n_features=6, kind="classes"):
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 10.0 ** rng.uniform(-3, 3, n_features), size=(n, n_features))
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    signal = Z[:, 1] - Z[:, 4] + 0.2 * rng.normal(size=n)
    if kind == "numbers":
        return X, 1e4 + 50.0 * signal
    return X, np.digitize(signal, [-0.5, 0.5] if kind == "three" else [0.0])


# --- known truth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classes", "three", "numbers"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_the_relevant_features_are_found(kind, form):
    X, y = rows_of(1500, kind=kind, n_features=30)
    selector = WindowRefit(2)
    for start in range(0, 1500, 100):
        selector.partial_fit(form(X[start : start + 100]), y[start : start + 100])
    assert selector.get_support(indices=True).tolist() == [1, 4]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("positive_rate", [0.5, 0.01])
def test_a_new_set_is_found_before_the_window_is_full_of_it(positive_rate, seed):
    truth = KnownTruth(8000, 50, 5, drift_at=0.5, positive_rate=positive_rate, random_state=seed)
    selector, sets = WindowRefit(5), []
    for batch in truth.batches(100):
        sets.append(selector.partial_fit(batch.X, batch.y).get_support())
    assert recall(sets[39], truth.relevant_at(0)) >= 0.8
    (found,) = recoveries(sets, truth, batch_size=100, threshold=0.8)
    assert found.batches <= 20


def test_lightgbm_finds_what_no_linear_model_does():
    pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 8))
    y = np.where(X[:, 2] * X[:, 5] > 0, "yes", "no")
    selector = WindowRefit(2, estimator="lightgbm", every=2000, batch_size=1000)
    assert selector.fit(X, y).get_support(indices=True).tolist() == [2, 5]
    again = WindowRefit(2, estimator="lightgbm", every=2000, batch_size=1000)
    assert_array_equal(again.fit(X, y).weights_, selector.weights_)
    numbers = WindowRefit(2, estimator="lightgbm", every=2000, batch_size=1000)
    numbers.fit(sp.csr_array(X), X[:, 2] * X[:, 5])
    assert numbers.get_support(indices=True).tolist() == [2, 5]


def test_lightgbm_is_asked_for_where_it_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    said = r"^WindowRefit\(estimator='lightgbm'\) needs lightgbm: pip install '\.\[lightgbm\]'"
    with pytest.raises(MissingExtra, match=said):
        WindowRefit(2, estimator="lightgbm").partial_fit(*rows_of(50))


# --- what is fitted, and when ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classes", "three", "numbers"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_are_those_of_the_estimator_on_the_last_rows(kind, weighted):
    X, y = rows_of(700, kind=kind)
    w = np.random.default_rng(1).random(700) + 0.1 if weighted else None
    selector = WindowRefit(2, window=300, every=100)
    for start in range(0, 700, 70):
        part = slice(start, start + 70)
        selector.partial_fit(X[part], y[part], sample_weight=None if w is None else w[part])
    seen = slice(400, 700)  # fits come after 70, 140, 280, 420, 560 and 700 rows
    mean = np.average(X[seen], axis=0, weights=None if w is None else w[seen])
    spread = np.sqrt(
        np.average((X[seen] - mean) ** 2, axis=0, weights=None if w is None else w[seen])
    )
    estimator = Ridge() if kind == "numbers" else LogisticRegression(max_iter=1000)
    estimator.fit((X[seen] - mean) / spread, y[seen], None if w is None else w[seen])
    expected = np.abs(np.atleast_2d(estimator.coef_)).sum(axis=0)
    assert_allclose(selector.weights_, expected, rtol=1e-6)


def test_fits_come_with_every_doubling_and_then_every_so_many_rows(fits):
    X, y = rows_of(2000)
    selector = WindowRefit(2, estimator=Recorder(), window=600, every=300)
    found = []
    for start in range(0, 2000, 100):
        selector.partial_fit(X[start : start + 100], y[start : start + 100])
        found.append(len(fits))
    at = [100 * (i + 1) for i, (a, b) in enumerate(zip([0, *found], found, strict=False)) if b > a]
    assert at == [100, 200, 400, 700, 1000, 1300, 1600, 1900]
    assert [len(X) for X, _, _ in fits] == [100, 200, 400, 600, 600, 600, 600, 600]
    assert_array_equal(fits[-1][1], y[1300:1900])


def test_how_rows_are_cut_does_not_matter_to_a_fit(fits):
    X, y = rows_of(64)
    selector = WindowRefit(2, estimator=Recorder(), window=20, every=64)
    for i in range(64):
        selector.partial_fit(X[i : i + 1], y[i : i + 1])
    selector = WindowRefit(2, estimator=Recorder(), window=20, every=64).partial_fit(X, y)
    assert_array_equal(fits[-1][0], fits[-2][0])
    assert_array_equal(fits[-1][1], fits[-2][1])


def test_while_there_is_one_class_the_weights_stay_as_they_were(fits):
    X, y = rows_of(400)
    selector = WindowRefit(2, window=50, every=50)
    selector.partial_fit(X[y == 1][:100], y[y == 1][:100])
    assert not selector.weights_.any()
    selector.partial_fit(X[:100], y[:100])
    before = selector.weights_
    assert before.any()
    for _ in range(3):  # a window of one class
        selector.partial_fit(X[y == 0][:60], y[y == 0][:60])
        assert_array_equal(selector.weights_, before)
    selector.partial_fit(X[300:], y[300:])
    assert (selector.weights_ != before).any()


def test_new_classes_do_not_mix_up_old_rows(fits):
    X, y = rows_of(60, kind="three")
    names = np.array(["b", "c", "a"])[y]
    selector = WindowRefit(2, estimator=Recorder(), window=100, every=1)
    order = np.argsort(y, kind="stable")
    for i in range(0, 60, 5):
        selector.partial_fit(X[order[i : i + 5]], names[order[i : i + 5]])
    assert_array_equal(fits[-1][1], names[order])


def test_sparse_and_dense_rows_lead_to_the_same_weights():
    X, y = rows_of(600, n_features=10)
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.5, 0.0, X)
    y = (X[:, 1] / X[:, 1].std() - X[:, 4] / X[:, 4].std() > 0).astype(int)
    X[:, 7] *= np.random.default_rng(1).random(600) < 0.2  # too rare to be centred
    dense, sparse = (WindowRefit(2).fit(form(X), y) for form in (np.asarray, sp.csr_array))
    assert_allclose(sparse.weights_, dense.weights_, rtol=1e-3, atol=1e-3)
    mixed = WindowRefit(2).partial_fit(X[:300], y[:300]).partial_fit(sp.csr_array(X[300:]), y[300:])
    whole = WindowRefit(2).partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    assert_array_equal(mixed.weights_, whole.weights_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_a_missing_entry_counts_as_the_mean_of_its_column(form, fits):
    X, y = rows_of(40)
    X[3, 2] = X[7, 2] = X[7, 0] = np.nan
    X[:, 5] = np.nan  # nothing is known of it
    WindowRefit(2, estimator=Recorder()).partial_fit(form(X), y)
    ((Z, _, _),) = fits
    Z = Z.toarray() if sp.issparse(Z) else Z
    means = np.nanmean(X[:, :5], axis=0)
    expected = np.where(np.isnan(X[:, :5]), means, X[:, :5])
    expected = (expected - means) / np.nanstd(X[:, :5], axis=0)
    assert_allclose(Z[:, :5], expected, rtol=1e-9)
    assert not Z[:, 5].any()


def test_rare_columns_of_sparse_rows_keep_their_zeros(fits):
    X = np.zeros((40, 3))
    X[:, 0] = 100.0 + np.arange(40)
    X[:5, 1] = [1.0, 2.0, 3.0, np.nan, 2.0]
    WindowRefit(2, estimator=Recorder()).partial_fit(sp.csr_array(X), np.arange(40) % 2)
    ((Z, _, _),) = fits
    assert sp.issparse(Z)
    assert Z.nnz == 45
    assert_allclose(Z.mean(axis=0)[[0, 2]], 0.0, atol=1e-12)
    mean, spread = np.nanmean(X[:, 1]), np.nanstd(X[:, 1])
    expected = np.array([1.0, 2.0, 3.0, mean, 2.0]) / spread
    assert_allclose(Z.toarray()[:5, 1], expected)


def test_rows_of_weight_0_are_no_rows(fits):
    X, y = rows_of(40)
    w = np.arange(40) % 2
    WindowRefit(2, estimator=Recorder()).partial_fit(X, y, sample_weight=w)
    WindowRefit(2, estimator=Recorder()).partial_fit(X[1::2], y[1::2])
    assert_array_equal(fits[0][0], fits[1][0])


def test_an_estimator_without_weights_sees_rows_repeated():
    X, y = rows_of(60)
    w = 1 + np.arange(60) % 3
    weighted = WindowRefit(2, estimator=LinearDiscriminantAnalysis())
    weighted.partial_fit(X, y, sample_weight=w)
    repeated = WindowRefit(2, estimator=LinearDiscriminantAnalysis())
    repeated.partial_fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert_allclose(weighted.weights_, repeated.weights_)
    with pytest.raises(ValueError, match="must hold whole numbers"):
        weighted.partial_fit(X[:5], y[:5], sample_weight=w[:5] + 0.5)


# --- the user's estimator -------------------------------------------------------------------------


def test_the_estimator_is_cloned_seeded_and_asked_for_again(tmp_path):
    X, y = rows_of(300)
    forest = RandomForestClassifier(5)
    selector, twin = (WindowRefit(2, estimator=forest, every=50, random_state=3) for _ in range(2))
    selector.partial_fit(X[:100], y[:100]).save(tmp_path / "state")
    assert not hasattr(forest, "estimators_")
    assert forest.random_state is None
    with pytest.raises(ValueError, match=r"your estimator, RandomForestClassifier: pass it"):
        fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match="learnt with RandomForestClassifier; model is a Ridge"):
        fires.load(tmp_path / "state", model=Ridge())
    loaded = fires.load(tmp_path / "state", model=RandomForestClassifier(5))
    for one in (selector, loaded):
        one.partial_fit(X[100:], y[100:])
    assert_array_equal(selector.weights_, loaded.weights_)
    twin.partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert_array_equal(twin.weights_, selector.weights_)


def test_a_file_holds_the_rows_of_the_window_and_no_more(tmp_path):
    X, y = rows_of(90)
    WindowRefit(2, window=40, every=20, batch_size=30).fit(X, y).save(tmp_path / "state")
    assert_array_equal(read_state(tmp_path / "state")[1]["rows"], X[50:])
    for missing in (0, 1):
        X[60:, 2] = np.nan if missing else 0.0
        selector = WindowRefit(2, window=40).fit(sp.csr_array(X), y)
        selector.save(tmp_path / "state")
        assert_array_equal(fires.load(tmp_path / "state")._rows_.toarray(), X[50:])


@pytest.mark.parametrize("estimator", [LogisticRegression, "lasso", object(), 3])
def test_what_is_no_estimator_is_refused(estimator):
    with pytest.raises(ValueError, match=r"^estimator must be None, 'lightgbm', or a scikit-learn"):
        WindowRefit(2, estimator=estimator).partial_fit(*rows_of(20))


def test_what_does_not_rank_is_refused_and_nothing_is_kept():
    selector = WindowRefit(2, estimator=GaussianNB())
    with pytest.raises(ValueError, match="GaussianNB has neither coef_ nor feature_importances_"):
        selector.partial_fit(*rows_of(20))
    assert not [name for name in vars(selector) if name.endswith("_")]


def test_targets_that_do_not_fit_are_refused():
    X, y = rows_of(20)
    with pytest.raises(ValueError, match=r"not whole, but this WindowRefit learns classes"):
        WindowRefit(2, estimator=LogisticRegression()).partial_fit(X, y + 0.5)
    with pytest.raises(ValueError, match="WindowRefit needs numbers in y"):
        WindowRefit(2, estimator=Ridge()).partial_fit(X, y.astype(str))
    with pytest.raises(ValueError, match="classes is for class labels"):
        WindowRefit(2, estimator=Ridge()).partial_fit(X, y, classes=[0, 1])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "CSR"])
def test_huge_values_are_borne_or_refused(form):
    X, y = rows_of(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (1e10, 1e100, 1e149):
            selector = WindowRefit(2).partial_fit(form(X), y)
            selector.partial_fit(form(np.clip(X * size, -1e150, 1e150)), y)
            assert np.isfinite(selector.weights_).all()
