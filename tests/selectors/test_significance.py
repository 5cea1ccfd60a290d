"""How many are selected: the rule, what it promises, and what it says."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from scipy.signal import lfilter
from scipy.special import erfc
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fires
from fires import FIRES, OFS, OnlinePipeline, RandomFeatures
from fires.core.belief import Belief
from fires.evaluation.loop import prequential
from fires.metrics import StabilityWindow
from fires.models import Linear, NeuralNet
from fires.models.covariance import CovarianceBlock
from fires.predictors import Perceptron
from fires.selectors.rule import Candidates
from fires.selectors.sharded import Sharded
from fires.selectors.significance import Distances, above_noise, found

NOBODY = np.empty(0, dtype=np.intp)


def tail(z):
    return erfc(np.maximum(z, 0.0) / np.sqrt(2.0))


def rows(n=3000, n_features=30, relevant=(3, 7), effect=0.6, seed=0, kind="classes"):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    seen = effect * X[:, list(relevant)].sum(axis=1) + rng.normal(size=n)
    return X, seen if kind == "numbers" else (seen > 0).astype(int)


def auto(X, y, **settings):
    return FIRES("auto", **settings).fit(X, y)


# --- The rule ----------------------------------------------------------------------------------


def candidates(n_leading, n):
    """As many as lead, of n that there are."""
    places = np.arange(n_leading + 1)
    systems = np.zeros((1, n_leading + 1, n_leading + 2))
    systems[0, places, places] = 1.0
    return Candidates(places[:-1], places[:-1], places, np.ones(n_leading), systems, n)


@pytest.mark.parametrize(("n_leading", "n"), [(5, 5), (20, 20), (100, 2000)])
def test_the_s_th_one_enters_if_so_many_false_ones_are_5_percent_of_s(n_leading, n):
    limits = candidates(n_leading, n).limits()
    s = np.arange(1, n_leading + 1)
    expected = 0.05 * s / (n + 1 - 0.95 * s)  # of those that are left
    np.testing.assert_allclose(tail(limits), expected)


def test_the_more_are_selected_the_more_may_be():
    known = candidates(4, 100)
    known.systems[0, :4, -1] = [4.5, 4.5, 4.5, 3.0]
    limits = known.limits()
    assert sorted(known.forward(limits).numbers) == [0, 1, 2]
    known.systems[0, 3, -1] = 3.2  # 2 Phi(-3.2) = 0.0014 < 0.05 * 4 / 100
    assert sorted(known.forward(limits).numbers) == [0, 1, 2, 3]
    known.systems[0, :3, -1] = 0.0
    assert sorted(known.forward(limits).numbers) == []


def test_all_together_may_be_sure_while_none_is():
    known = candidates(20, 20)
    known.systems[0, :20, -1] = 2.0
    assert not len(known.forward(known.limits()).numbers)
    assert known.together() > 4.5  # chi-squared is 80 with 20 degrees of freedom
    known.systems[0, :20, -1] = 1.0
    assert known.together() < 1.5


def test_the_next_one_says_what_it_would_cost():
    known = Distances(np.arange(3), np.array([9.0, 2.0, 1.0]), 30)
    share = tail(2.0) * (31 - 0.95 * 2) / 2
    assert f"with the next, x1, it could be {share:.2g}" in found(known, [0], 30, "", "x{}".format)
    assert "there is no other" in found(known, range(3), 3, "", "x{}".format)


@pytest.mark.parametrize(("n_classes", "is_above"), [(1, True), (10, False)])
def test_with_many_classes_more_is_needed_to_stand_out_from_noise(n_classes, is_above):
    assert set(above_noise(Belief(np.full(10, 3.2), np.ones(10)), n_classes)) == {is_above}


# --- On known truth ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_it_finds_as_many_as_there_are(kind):
    selector = auto(*rows(kind=kind))
    assert selector.get_support(indices=True).tolist() == [3, 7]
    assert selector.n_features_selected_ == 2


def test_three_classes_each_with_a_feature_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 20))
    y = (X[:, [2, 5, 11]] + rng.normal(size=(4000, 3))).argmax(axis=1)
    assert auto(X, y).get_support(indices=True).tolist() == [2, 5, 11]


def test_where_nothing_matters_nearly_never_is_anything_selected():
    n_found = [auto(*rows(1500, effect=0.0, seed=seed)).n_features_selected_ for seed in range(30)]
    assert sum(n_found) <= 2  # at 0.05 a run


def test_a_shadow_is_not_selected():
    """A column correlated with one that matters has no coefficient of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    X[:, 1] = 0.9 * X[:, 0] + np.sqrt(0.19) * X[:, 1]
    y = X[:, 0] + rng.normal(size=4000) > 0
    assert auto(X, y).get_support(indices=True).tolist() == [0]


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_of_copies_among_dependent_rows_one_is_selected(noise):
    """Neither is significant beside the other."""
    rng, n = np.random.default_rng(0), 6000
    X = lfilter([1.0], [1.0, -0.9], rng.normal(size=(n, 14)), axis=0)
    X[:, 7] = X[:, 1] + noise * X[:, 12]
    selector = auto(X[:, :12], X[:, 1] + X[:, 3] + X[:, 13], model="gaussian")
    assert selector._learner_.inflation.max() > 2.0
    assert selector.get_support(indices=True).tolist() == [1, 3]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "most"), [("breast_cancer", 14), ("wine", 9), ("iris", 4)])
def test_small_tables_as_scikit_learn_ships_them(name, most, seed):
    """At least one is selected, and they predict nearly as well as all."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    chosen = auto(X, y).get_support(indices=True)
    assert 1 <= len(chosen) <= most
    model = make_pipeline(StandardScaler(), LogisticRegression())
    scores = [cross_val_score(model, X[:, own], y).mean() for own in (chosen, slice(None))]
    assert scores[0] >= scores[1] - 0.04


@pytest.mark.parametrize("seed", range(2))
def test_ten_classes_of_digits(seed):
    X, y = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    assert 20 <= auto(X[order], y[order]).n_features_selected_ <= 48


@pytest.mark.parametrize("n", [150, 600])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_nothing_is_selected_on_small_tables_of_noise(n, n_classes):
    n_found = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 12))
        X[:, 6:] = X[:, :6] + 0.3 * X[:, 6:]
        n_found.append(auto(X, rng.integers(0, n_classes, n)).n_features_selected_)
    assert np.count_nonzero(n_found) <= 3  # at 0.05 a table


@pytest.mark.parametrize("n_rows", [1000, 4000])
@pytest.mark.parametrize("kind", ["independent", "factors", "AR", "blocks"])
def test_among_correlated_columns_nearly_all_are_found_and_few_are_false(kind, n_rows):
    found = [recall_and_false(kind, n_rows, seed) for seed in range(4)]
    recall, false = np.mean(found, axis=0)
    assert recall >= 0.9
    assert false <= 0.07


def recall_and_false(kind, n_rows, seed):
    rng = np.random.default_rng([seed, n_rows])
    X = rng.normal(size=(n_rows, 50))
    if kind == "factors":
        X = 0.6 * X + 0.8 * rng.normal(size=(n_rows, 3)) @ rng.normal(size=(3, 50)) / np.sqrt(3)
    if kind == "AR":
        for j in range(1, 50):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    if kind == "blocks":
        common = np.repeat(rng.normal(size=(n_rows, 10)), 5, axis=1)
        X = np.sqrt(0.9) * common + np.sqrt(0.1) * X
    relevant = rng.permutation(50)[:5]
    signs = rng.choice([-1.0, 1.0], 5)
    y = X[:, relevant] @ signs + rng.normal(size=n_rows) > 0
    chosen = auto(X, y).get_support(indices=True)
    hits = len(np.intersect1d(chosen, relevant))
    return hits / 5, (len(chosen) - hits) / max(len(chosen), 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_among_strongly_correlated_columns_few_are_false(kind):
    """AR(0.9), with more columns than can lead: see ``python -m benchmarks auto``."""
    recall, false = [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20_000, 200))
        for j in range(1, 200):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
        relevant = rng.permutation(200)[:10]
        y = 0.6 * X[:, relevant] @ rng.choice([-1.0, 1.0], 10) + rng.normal(size=len(X))
        chosen = auto(X, y if kind == "numbers" else y > 0).get_support(indices=True)
        hits = len(np.intersect1d(chosen, relevant))
        recall.append(hits / 10)
        false.append(1 - hits / max(len(chosen), 1))
    assert np.mean(recall) >= 0.9
    assert np.mean(false) <= 0.2


def test_sparse_rows_of_many_columns():
    rng = np.random.default_rng(0)
    selector = FIRES("auto")
    for _ in range(30):
        X = sp.random_array((100, 100_000), density=5e-5, format="lil", rng=rng)
        X[:, 70_000] = rng.integers(0, 2, size=(100, 1))
        y = X[:, [70_000]].toarray()[:, 0] + 0.5 * rng.normal(size=100) > 0.5
        selector.partial_fit(X.tocsr(), y)
    assert selector.get_support(indices=True).tolist() == [70_000]


def test_groups_are_judged_whole():
    X, y = rows(relevant=(3, 7))
    groups = np.arange(30) // 3  # the second and the third matter
    selector = auto(X, y, groups=groups.tolist())
    assert selector.get_support(indices=True).tolist() == [3, 4, 5, 6, 7, 8]
    assert selector.n_features_selected_ == 6
    assert selector.why().startswith("2 of 10 groups are significantly non-zero")
    alone = auto(X, y, groups=list(range(30)))
    assert_array_equal(alone.get_support(), auto(X, y).get_support())


def test_columns_that_rest_are_not_selected():
    import polars as pl

    selector, rng = FIRES("auto", columns="open"), np.random.default_rng(0)
    for batch in range(40):
        names = [f"c{j}" for j in range(10)] if batch < 20 else [f"c{j}" for j in range(5, 15)]
        frame = pl.DataFrame(rng.normal(size=(100, 10)), schema=names)
        relevant = frame["c3" if batch < 20 else "c12"] + frame["c7"]
        selector.partial_fit(frame, relevant.to_numpy() + rng.normal(size=100) > 0)
    assert sorted(selector.get_feature_names_out()) == ["c12", "c7"]


# --- The set does not flutter ------------------------------------------------------------------


def test_after_an_alarm_the_set_is_not_emptied():
    rng, selector, sizes = np.random.default_rng(0), FIRES("auto"), []
    for batch in range(80):
        X = rng.normal(size=(100, 50))
        relevant = [1, 2, 3, 4] if batch < 50 else [1, 2, 13, 14]
        y = 0.8 * X[:, relevant].sum(axis=1) + rng.normal(size=100) > 0
        sizes.append(selector.partial_fit(X, y).n_features_selected_)
    assert [alarm for alarm in selector.alarms_ if alarm.feature is None]
    assert min(sizes[20:]) >= 3
    assert selector.get_support(indices=True).tolist() == [1, 2, 13, 14]


def test_a_number_may_become_auto_and_back():
    X, y = rows()
    selector = FIRES(5).fit(X, y)
    assert selector.set_params(n_features_to_select="auto").n_features_selected_ == 2
    selector.partial_fit(X[:100], y[:100])
    assert selector.get_support(indices=True).tolist() == [3, 7]
    assert selector.set_params(n_features_to_select=4).n_features_selected_ == 4
    selector.partial_fit(X[:100], y[:100])
    assert selector.n_features_selected_ == 4


# --- Nobody is selected ------------------------------------------------------------------------


def test_nobody_is_selected_and_all_works(tmp_path):
    X, y = rows(400, 8, effect=0.0, seed=1)
    selector = auto(X, y)
    assert selector.n_features_selected_ == 0
    assert not selector.get_support().any()
    assert selector.get_support(indices=True).tolist() == []
    assert selector.get_feature_names_out().tolist() == []
    assert not selector.mask(X).any()
    for given_rows in (X, sp.csr_array(X)):
        small = selector.transform(given_rows)
        assert small.shape == (400, 0)
        assert selector.inverse_transform(small).shape == (400, 8)
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state").partial_fit(X, y)
    assert_array_equal(again.weights_, selector.partial_fit(X, y).weights_)


def test_a_pipeline_that_selects_nobody_predicts_and_is_evaluated():
    X, y = rows(1000, 8, effect=0.0)
    batches = [(X[i : i + 100], y[i : i + 100]) for i in range(0, 1000, 100)]
    steps = list(prequential(batches, FIRES("auto"), Perceptron(), classes=[0, 1]))
    assert [len(step.selected) for step in steps] == [0] * 10
    assert np.isnan(steps[-1].stability)
    pipeline = OnlinePipeline(FIRES("auto"), Perceptron())
    pipeline.partial_fit(X, y)
    assert set(pipeline.predict(X)) <= {0, 1}
    assert pipeline.transform(X).shape == (1000, 0)
    assert pipeline.selected_columns == ()


def test_a_window_takes_sets_of_nobody():
    window = StabilityWindow(3, 5)
    assert np.isnan([window.update(NOBODY), window.update([])]).all()
    assert window.update([1]) < 1.0


# --- Saved, in shards, restarted ---------------------------------------------------------------


def test_a_saved_one_goes_on_bit_for_bit(tmp_path):
    X, y = rows(6000, 120)
    selector = auto(X[:3300], y[:3300])
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    for one in (selector, again):
        for i in range(3300, 6000, 100):
            one.partial_fit(X[i : i + 100], y[i : i + 100])
    assert_array_equal(again.get_support(), selector.get_support())
    assert again.why() == selector.why()


def test_in_shards_the_same_are_found():
    X, y = rows(4000)
    assert Sharded(FIRES("auto", batch_size=500), n_jobs=2).fit(X, y).n_features_selected_ == 2


def test_what_a_column_brought_is_left_out_and_fades():
    leading = CovarianceBlock(150, 1)
    rng = np.random.default_rng(0)
    score, mu, var = rng.random(150), rng.normal(size=(1, 150)), np.full((1, 150), 0.01)
    leading.follow(score, lambda j: (mu[:, j], var[:, j]), 0.02)
    new = np.flatnonzero(leading.columns >= 100)
    assert (leading.brought[0, 0, new] == leading.information[0, new, new]).all()
    system = leading.systems()[0]
    assert not system[new, -1].any()
    np.testing.assert_allclose(system[new, new], 1.0)  # the prior
    assert (leading.means()[0, new] != 0.0).all()
    before = copy.deepcopy(leading)
    leading.forget(0, 0.25)
    assert_array_equal(leading.brought, 0.25 * before.brought)
    Z, weight = np.zeros((2, 100)), np.array([1.0, 3.0])
    before.add(Z, np.zeros((1, 4, 2)), weight, None, gamma=0.5)
    assert_array_equal(before.brought[0, 0, new], before.information[0, new, new])


# --- What is said ------------------------------------------------------------------------------


def test_why_in_one_sentence():
    X, y = rows()
    assert (
        auto(X, y)
        .why()
        .startswith(
            "2 of 30 features are significantly non-zero: the expected share of false ones is at "
            "most 0.05; "
        )
    )
    none = auto(*rows(effect=0.0)).why()
    assert none.startswith("0 of 30 features are significantly non-zero: with the first, x")
    one = auto(*rows(n_features=1, relevant=[0])).why()
    assert one.startswith("1 of 1 features is significantly non-zero")
    assert one.endswith("there is no other")
    assert FIRES(5).fit(X, y).why() == "5 of 30 features, as requested: 2 of them are significant"
    gradient = FIRES(5, update="gradient").fit(X, y).why()
    assert gradient.startswith("5 of 30 features, as requested: how many of them matter is known")


def test_why_calls_features_by_their_names():
    pl = pytest.importorskip("polars")
    X, y = rows()
    frame = pl.DataFrame(X, schema=[f"c{j}" for j in range(30)])
    assert ", c" in auto(frame, y).why()


@pytest.mark.parametrize(
    "settings",
    [
        {"update": "gradient"},
        {"update": "gradient", "model": Linear("probit")},
        {"model": NeuralNet(hidden=(4,))},
    ],
)
def test_what_does_not_know_how_sure_it_is_refuses_auto(settings):
    X, y = rows(200, 8)
    with pytest.raises(ValueError, match=r"^n_features_to_select='auto' .* update='bayes'"):
        FIRES("auto", **settings).fit(X, y)
    selector = FIRES(2, **settings).partial_fit(X, y).set_params(n_features_to_select="auto")
    for use in (selector.get_support, lambda: selector.partial_fit(X, y)):
        with pytest.raises(ValueError, match=r"^n_features_to_select='auto' .* update='bayes'"):
            use()


def test_auto_is_for_fires_only():
    X, y = rows(200, 8)
    with pytest.raises(ValueError, match="update='bayes'"):
        FIRES.as_published("auto").fit(X, y)
    for kind in (OFS, RandomFeatures):
        with pytest.raises(ValueError, match=r"^n_features_to_select must .* Only FIRES"):
            kind("auto").fit(X, y)
