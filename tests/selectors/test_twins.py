"""Of twins, one is selected; and who stands for whom."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

import fires
from fires import FIRES
from fires.core.sharding import Shards
from fires.models import NeuralNet
from fires.selectors.sharded import partial_fit_sharded

EFFECTS = np.array([1.0, 0.6, 0.4])


def rows(n=4000, n_features=12, seed=0):
    """Columns 0, 1 and 2 matter; 3 and 4 are noisy copies of 0, and 5 is the negative of 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    X[:, 3:5] = 0.95 * X[:, :1] + np.sqrt(1.0 - 0.95**2) * X[:, 3:5]
    X[:, 5] = -X[:, 1]
    return X, X[:, :3] @ EFFECTS + 0.5 * rng.normal(size=n)


def learnt(X, y, k=3, **settings):
    return FIRES(k, redundancy="drop", **settings).fit(X, y)


TARGETS = {
    "two classes": lambda signal: signal > 0,
    "numbers": lambda signal: signal,
    "three classes": lambda signal: np.digitize(signal, [-0.6, 0.6]),
}


@pytest.mark.parametrize("target", TARGETS)
def test_of_copies_one_is_selected(target):
    X, signal = rows()
    selector = learnt(X, TARGETS[target](signal))
    support = set(selector.get_support(indices=True).tolist())
    assert {0, 2} < support
    (one,) = support & {1, 5}
    assert selector.twins_ == {0: [3, 4], one: [6 - one]}


@pytest.mark.parametrize("seed", range(5))
def test_of_exact_copies_one_stands_for_the_others(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 9))
    X[:, 3:6], X[:, 6:] = 2.0 * X[:, :3] + 1.0, -X[:, :3]
    selector = learnt(X, X[:, :3] @ EFFECTS + 0.5 * rng.normal(size=1000) > 0)
    support = selector.get_support(indices=True).tolist()
    assert sorted(j % 3 for j in support) == [0, 1, 2]
    copies = {j: [i for i in range(j % 3, 9, 3) if i != j] for j in support}
    assert selector.twins_ == copies


@pytest.mark.parametrize("k", [3, 7, "auto"])
def test_both_settings_select_alike(k):
    X, signal = rows()
    plain, selector = FIRES(k), FIRES(k, redundancy="drop")
    for start in range(0, 4000, 200):
        for one in (plain, selector):
            one.partial_fit(X[start : start + 200], signal[start : start + 200] > 0)
        assert_array_equal(selector.get_support(), plain.get_support())
        assert_array_equal(selector.weights_, plain.weights_)
        assert selector.twins_ == plain.twins_


def test_where_nothing_is_redundant_nobody_stands_for_anyone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 150))
    y = X[:, :8].sum(axis=1) + rng.normal(size=3000) > 0
    selector = FIRES(12)
    for start in range(0, 3000, 100):
        selector.partial_fit(X[start : start + 100], y[start : start + 100])
        assert start < 1000 or selector.twins_ == {}
    assert set(range(8)) < set(selector.get_support(indices=True))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_sum_of_two_selected_adds_nothing(sign):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    X[:, 5] = X[:, 0] + X[:, 1]
    y = X[:, :4] @ [0.8, sign * 0.8, 0.5, 0.3] + 0.5 * rng.normal(size=4000) > 0
    selector = learnt(X, y, 4)
    support = set(selector.get_support(indices=True).tolist())
    assert {2, 3} < support
    if sign == 1.0:  # the sum says it all
        assert not selector.is_significant()[[0, 1]].any()
        assert {0, 1, 5} & support == {5}
    else:  # any two of the three do
        (left_out,) = {0, 1, 5} - support
        assert selector.twins_ == {j: [left_out] for j in support - {2, 3}}


def test_neighbours_that_both_matter_are_both_selected():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 8))
    X[:, 1] = 0.95 * X[:, 0] + 0.31 * X[:, 1]
    # Their difference matters: neither says anything without the other.
    y = 2.0 * (X[:, 1] - 0.95 * X[:, 0]) + 0.3 * X[:, 5] + 0.5 * rng.normal(size=6000) > 0
    assert_array_equal(learnt(X, y, 3).get_support(indices=True), [0, 1, 5])


def test_a_group_of_copies_counts_for_what_it_says_together():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 20))
    X[:, :8] = X[:, :1]
    y = X[:, 0] + 0.4 * X[:, 10] + 0.4 * X[:, 11] + 0.5 * rng.normal(size=6000) > 0
    selector = learnt(X, y, 1)
    (one,) = selector.get_support(indices=True)
    assert one < 8
    assert selector.twins_ == {one: [j for j in range(8) if j != one]}


def test_twins_fill_the_places_that_nobody_else_wants():
    X, signal = rows(n_features=6)
    selector = learnt(X, signal > 0, 5)
    assert selector.get_support().sum() == 5
    support = set(selector.get_support(indices=True).tolist())
    assert {0, 2} < support
    assert support & {1, 5}


def test_equal_twins_do_not_take_turns():
    X, signal = rows(6000)
    selector, seen = FIRES(3, redundancy="drop"), []
    for start in range(0, 6000, 50):
        selector.partial_fit(X[start : start + 50], signal[start : start + 50] > 0)
        seen.append(tuple(selector.get_support(indices=True)))
    assert len(set(seen[30:])) == 1


def test_names_where_columns_have_names():
    X, signal = rows()
    names = [f"column {j}" for j in range(X.shape[1])]
    selector = learnt(pd.DataFrame(X, columns=names), signal > 0)
    assert selector.twins_["column 0"] == ["column 3", "column 4"]


def test_what_is_returned_is_yours():
    selector = learnt(*_classes())
    selector.twins_[0].append(99)
    assert selector.twins_[0] == [3, 4]


def test_wide_rows_are_looked_at_through_those_that_lead():
    X, signal = rows(8000, n_features=300)
    support = set(learnt(X, signal > 0).get_support(indices=True).tolist())
    assert {0, 2} < support
    assert len({1, 5} & support) == 1


def test_sparse_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 300)) * (rng.random((6000, 300)) < 0.1)
    X[:, 3:5], X[:, 5] = X[:, :1], -X[:, 1]
    y = 3.0 * X[:, :3] @ EFFECTS + 0.3 * rng.normal(size=6000) > 0
    selector = learnt(sp.csr_array(X), y)
    support = selector.get_support(indices=True)
    assert len({0, 3, 4} & set(support)) == len({1, 5} & set(support)) == 1
    assert 2 in support
    assert sum(map(len, selector.twins_.values())) == 3


def test_missing_entries_are_no_values():
    X, signal = rows()
    X[np.random.default_rng(1).random(X.shape) < 0.02] = np.nan
    selector = learnt(X, signal > 0)
    assert {0, 2} < set(selector.get_support(indices=True))
    assert selector.twins_[0] == [3, 4]


def test_an_alarm_leaves_the_twins_known():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 10))
    X[:, 5:] = X[:, :5]
    signal = np.where(np.arange(8000) < 4000, X[:, 0] + X[:, 1], X[:, 2] - X[:, 0])
    selector = learnt(X, signal + 0.3 * rng.normal(size=8000) > 0, 2)
    assert len(selector.alarms_) > 0
    assert {j % 5 for j in selector.get_support(indices=True)} == {0, 2}
    assert {j % 5 for j in selector.twins_} == {0, 2}


@pytest.mark.parametrize("n_features", [12, 150])
def test_it_goes_on_bit_for_bit_after_loading(n_features, tmp_path):
    X, signal = rows(3000, n_features)
    y = signal > 0
    selector = learnt(X[:1500], y[:1500])
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    assert again.twins_ == selector.twins_ != {}
    for start in range(1500, 3000, 100):
        batch = X[start : start + 100], y[start : start + 100]
        selector.partial_fit(*batch), again.partial_fit(*batch)
        assert_array_equal(selector.get_support(), again.get_support())
        assert again.twins_ == selector.twins_


def test_groups_of_several_are_no_twins_but_single_features_are():
    X, signal = rows()
    groups = [0, 1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8]
    selector = learnt(X, signal > 0, groups=groups)
    assert {0, 2} < set(selector.get_support(indices=True))
    assert selector.twins_[0] == [3, 4]
    X[:, 6] = X[:, 0]
    assert 6 not in learnt(X, signal > 0, groups=groups).twins_.get(0, [])


def test_with_open_columns_the_copy_that_is_there_is_selected():
    X, y = _classes(6000)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    selector = FIRES(3, redundancy="drop", columns="open", forget_after=2000)
    for start in range(0, 6000, 100):
        part = frame[start : start + 100]
        part = part.drop(columns="x0") if start >= 2000 else part
        selector.partial_fit(part, y[start : start + 100])
        if start == 1900:
            assert selector.twins_["x0"] == ["x3", "x4"]
        if start in (3000, 5900):
            names = set(selector.get_feature_names_out())
            assert "x2" in names
            assert "x0" not in names
            assert len(names & {"x3", "x4"}) == 1
    assert "x0" not in selector.feature_names_in_
    (one,) = names & {"x3", "x4"}
    assert ({"x3", "x4"} - {one}) == set(selector.twins_[one])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"update": "gradient"}, "linear models, update='bayes'"),
        ({"model": NeuralNet((3,))}, "linear models, update='bayes'"),
        ({"score": "omega"}, "and score='auto'"),
    ],
)
def test_what_it_cannot_be_combined_with_is_named(wrong, message):
    X, y = _classes(200)
    with pytest.raises(ValueError, match=message):
        FIRES(2, redundancy="drop", **wrong).partial_fit(X, y)


def test_it_may_change_on_the_way():
    X, y = _classes(400)
    selector, other = FIRES(2).partial_fit(X, y), FIRES(2).partial_fit(X, y)
    selector.set_params(redundancy="drop").partial_fit(X, y)
    assert_array_equal(selector.weights_, other.partial_fit(X, y).weights_)


def test_in_shards_copies_are_found_too():
    X, y = _classes()
    selector = FIRES(3, redundancy="drop")
    for start in range(0, 4000, 500):
        part = slice(start, start + 500)
        shards = Shards.cut(fires.core.batch.CheckedBatch(X[part], y[part].astype(int)), 2)
        partial_fit_sharded(selector, shards.evaluate, n_features=X.shape[1])
    support = set(selector.get_support(indices=True).tolist())
    assert {0, 2} < support
    (one,) = support & {1, 5}
    assert selector.twins_ == {0: [3, 4], one: [6 - one]}


@pytest.mark.parametrize("settings", [{"update": "gradient"}, {"score": "omega"}])
def test_what_has_no_rule_does_not_know_who_stands_for_whom(settings):
    X, y = _classes(200)
    with pytest.raises(AttributeError, match="linear models"):
        _ = FIRES(2, **settings).partial_fit(X, y).twins_


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 1000),
    batch=st.sampled_from([1, 7, 30]),
    k=st.integers(1, 7),
    scale=st.sampled_from(["standard", "minmax", None]),
)
def test_k_are_selected_whatever_comes(seed, batch, k, scale):
    rng = np.random.default_rng(seed)
    X = np.repeat(rng.normal(size=(90, 3)), 2, axis=1)
    X[:, 5] = 0.0
    selector = FIRES(k, redundancy="drop", scale=scale)
    for start in range(0, 90, batch):
        rows = slice(start, start + batch)
        selector.partial_fit(X[rows], rng.integers(0, 2, len(X[rows])), classes=[0, 1])
        assert selector.get_support().sum() == min(k, 6)
        stood_for = [other for others in selector.twins_.values() for other in others]
        assert not set(stood_for) & set(selector.get_support(indices=True))


def _classes(n=4000):
    X, signal = rows(n)
    return X, signal > 0


def test_as_many_as_are_sure_and_of_twins_one():
    rng = np.random.default_rng(0)
    both = FIRES("auto")
    for _ in range(60):
        Z = rng.normal(size=(100, 12))
        Z[:, 6], Z[:, 7] = Z[:, 0], -Z[:, 1]
        y = (Z[:, 0] + Z[:, 1] + Z[:, 2] + rng.normal(size=100) > 0).astype(int)
        both.partial_fit(Z, y)
    chosen = set(both.get_support(indices=True).tolist())
    assert len(chosen & {0, 6}) == len(chosen & {1, 7}) == 1
    assert chosen - {0, 1, 6, 7} == {2}
