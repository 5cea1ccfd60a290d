"""Who is selected, seen through FIRES: a fixed number of features."""

import copy
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import fires
from fires import FIRES
from fires.core.errors import StateError
from fires.selectors.rule import SelectionRule
from fires.streams.synthetic import SparseWide


def learning(selector, X, y, size=100, **more):
    """The selector after each batch."""
    for start in range(0, len(y), size):
        part = slice(start, start + size)
        yield selector.partial_fit(X[part], y[part], **more)


def learnt(selector, X, y, size=100, **more):
    *_, last = learning(selector, X, y, size, **more)
    return last


def rows(n=3000, n_features=20, effects=(1.0, 0.7, 0.5), seed=0):
    """The first columns matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    return X, X[:, : len(effects)] @ effects + 0.7 * rng.normal(size=n) > 0


def selected(selector):
    return selector.get_support(indices=True).tolist()


# --- Who enters --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["independent", "AR", "blocks"])
def test_those_that_matter_are_found_soon_and_stay(kind, seed):
    """Five of 50 matter, from row 2,000 on nearly always all of them."""
    rng = np.random.default_rng([seed, 3])
    X = rng.normal(size=(6000, 50))
    if kind == "AR":
        for j in range(1, 50):
            X[:, j] = 0.9 * X[:, j - 1] + np.sqrt(0.19) * X[:, j]
    if kind == "blocks":
        X = np.sqrt(0.9) * np.repeat(rng.normal(size=(6000, 10)), 5, axis=1) + np.sqrt(0.1) * X
    relevant = [2, 11, 23, 34, 46]
    y = X[:, relevant] @ [1.0, -1.0, 1.0, -1.0, 1.0] + rng.normal(size=6000) > 0
    recall = [len(set(relevant) & set(selected(one))) / 5 for one in learning(FIRES(5), X, y)]
    assert np.mean(recall[20:]) >= (0.85 if kind == "blocks" else 0.97)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("redundancy", ["ignore", "drop"])
def test_a_copy_is_not_selected_beside_its_original_while_another_matters(redundancy, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(3000, 12))
    X[:, 6:9] = X[:, :3] * [1.0, -2.0, 3.0]
    y = X[:, :3] @ [1.5, 1.0, 0.3] + 0.7 * rng.normal(size=3000) > 0
    for n, one in enumerate(learning(FIRES(3, redundancy=redundancy), X, y)):
        if n >= 10:
            assert sorted(j % 6 for j in selected(one)) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(3))
def test_of_a_cluster_of_correlated_columns_one_is_selected(seed):
    """Five groups of five noisy copies, k = 5: one of each."""
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(4000, 5)), 5, axis=1)
    X = np.column_stack([common + 0.3 * rng.normal(size=(4000, 25)), rng.normal(size=(4000, 10))])
    y = common[:, ::5] @ [1.2, 1.0, 0.9, 0.8, 0.7] + 0.5 * rng.normal(size=4000) > 0
    found = selected(learnt(FIRES(5), X, y))
    assert sorted(j // 5 for j in found) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(3))
def test_the_column_of_a_class_of_half_a_percent_is_among_five(seed):
    """Ten others tell three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12_000, 50))
    y = (X[:, :10] @ rng.normal(size=(10, 3)) + rng.normal(size=(12_000, 3))).argmax(axis=1)
    y[X[:, 20] > 2.576] = 3
    assert 20 in selected(learnt(FIRES(5), X, y, classes=range(4)))


def test_the_set_serves_all_classes():
    """Each of four classes has a column; two of them have ten times as many rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 30))
    level = np.array([2.0, 2.0, 0.0, 0.0])
    y = (1.5 * X[:, [3, 9, 15, 21]] + level + rng.gumbel(size=(8000, 4))).argmax(axis=1)
    assert selected(learnt(FIRES(4), X, y, classes=range(4))) == [3, 9, 15, 21]


@pytest.mark.parametrize("k", [4, 9, 15, 20])
def test_places_that_nobody_earns_go_by_importance(k):
    X, y = rows()
    selector = learnt(FIRES(k), X, y)
    assert len(selected(selector)) == k
    assert {0, 1, 2} < set(selected(selector))


def test_more_than_lead_may_be_asked_for():
    X, y = rows(3000, 150)
    for k in (100, 120, 150):
        found = selected(learnt(FIRES(k), X, y))
        assert len(found) == k
        assert {0, 1, 2} < set(found)


def test_nothing_is_known_and_yet_k_are_selected():
    X, y = rows()
    for n in (1, 2, 5):
        for k in (1, 7, 20):
            assert len(selected(FIRES(k).partial_fit(X[:n], y[:n], classes=[0, 1]))) == k
            assert len(selected(FIRES(k).partial_fit(0.0 * X[:n], y[:n], classes=[0, 1]))) == k


def test_batches_of_any_size_end_with_the_same_set():
    X, y = rows(4000)
    found = [selected(learnt(FIRES(3), X, y, size)) for size in (10, 100, 1000, 4000)]
    assert found == [[0, 1, 2]] * 4


def test_weights_are_repetitions():
    X, y = rows(1500, 15)
    times = np.random.default_rng(5).integers(0, 4, size=1500)
    weighted, repeated = FIRES(4), FIRES(4)
    for start in range(0, 1500, 100):
        part = slice(start, start + 100)
        weighted.partial_fit(X[part], y[part], sample_weight=times[part])
        repeated.partial_fit(
            np.repeat(X[part], times[part], axis=0), np.repeat(y[part], times[part])
        )
        # The scale of a batch is that of its rows, so the two are alike, not equal.
        assert {0, 1} < set(selected(weighted)) or start < 400
    assert selected(weighted)[:3] == selected(repeated)[:3] == [0, 1, 2]


# --- The set does not flutter ------------------------------------------------------------------


def n_changes(sets):
    return sum(before != after for before, after in pairwise(sets))


@pytest.mark.parametrize("seed", range(3))
def test_equal_features_seldom_take_turns(seed):
    """Ten of 30 matter equally, and five are selected."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8000, 30))
    y = 0.5 * X[:, :10].sum(axis=1) + rng.normal(size=8000) > 0
    sets = [selected(one) for one in learning(FIRES(5), X, y)]
    assert all(j < 10 for j in sets[-1])
    assert n_changes(sets[20:]) <= 6
    assert n_changes(sets[60:]) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_equal_copies_do_not_take_turns(seed):
    rng = np.random.default_rng(seed)
    common = np.repeat(rng.normal(size=(6000, 4)), 4, axis=1)
    X = common + 0.2 * rng.normal(size=(6000, 16))
    y = common[:, ::4].sum(axis=1) + rng.normal(size=6000) > 0
    sets = [selected(one) for one in learning(FIRES(4), X, y)]
    assert sorted(j // 4 for j in sets[-1]) == [0, 1, 2, 3]
    assert n_changes(sets[20:]) <= 3


@pytest.mark.parametrize("seed", range(3))
def test_noise_that_fills_places_stays(seed):
    X, y = rows(6000, 30, seed=seed)
    sets = [selected(one) for one in learning(FIRES(10), X, y)]
    kept = [len(set(a) & set(b)) / 10 for a, b in pairwise(sets[10:])]
    assert np.mean(kept) >= 0.97


def test_a_stronger_newcomer_is_selected_soon():
    """The strength changes hands at row 3,000."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 20))
    signal = np.where(np.arange(5000) < 3000, X[:, 0] + 0.3 * X[:, 1], 0.3 * X[:, 0] + 2 * X[:, 5])
    sets = [selected(one) for one in learning(FIRES(1), X, signal + rng.normal(size=5000) > 0)]
    assert sets[29] == [0]
    assert sets[34:] == [[5]] * 16


def test_a_column_that_comes_late_is_selected_soon():
    rng, selector, sets = np.random.default_rng(0), FIRES(2, columns="open"), []
    for batch in range(60):
        Z = rng.normal(size=(100, 8))
        names = [f"c{j}" for j in range(8 if batch >= 40 else 7)]
        y = Z[:, 0] + 0.4 * Z[:, 1] + (1.5 * Z[:, 7] if batch >= 40 else 0.0)
        frame = pl.DataFrame(Z[:, : len(names)], schema=names)
        selector.partial_fit(frame, y + 0.5 * rng.normal(size=100) > 0)
        sets.append(sorted(selector.get_feature_names_out()))
    assert sets[39] == ["c0", "c1"]
    assert sets[44:] == [["c0", "c7"]] * 16


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_in_the_first_batch_it_does_not_matter_where_a_column_is(form):
    places = []
    for seed in range(5):
        X, y = rows(100, 500, seed=seed)
        X[:, 400], X[::2, 401] = np.nan, np.nan
        places += selected(FIRES(10).partial_fit(form(X[:, ::-1]), y))
    assert np.mean(np.array(places) < 100) < 0.4  # a fifth of all columns
    assert places.count(499) >= 4


def test_words_that_matter_are_found_within_a_thousand_rows_among_ten_thousand():
    recall = []
    for seed in range(3):
        stream, selector = SparseWide(1_000, 10_000, random_state=seed), FIRES(10)
        for batch in stream.batches(100):
            selector.partial_fit(batch.X, batch.y)
        recall.append(np.isin(stream.relevant_at(0), selector.get_support(indices=True)).mean())
    assert np.mean(recall) > 0.95


def test_after_an_alarm_members_keep_the_places_that_nobody_earns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 200)), 2 * rng.normal(size=4000)
    y[:3000] += 3 * X[:3000, :10].sum(axis=1)
    y[3000:] += 3 * X[3000:, 50]
    kept = []
    for selector in learning(FIRES(10), X, y > 0):
        if selector.alarms_ and not kept:
            kept = selected(selector)
    assert len(set(kept) & set(range(10))) >= 8


def test_after_an_alarm_the_set_follows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(8000, 30))
    signal = np.where(np.arange(8000) < 5000, X[:, 2] - X[:, 3], X[:, 12] - X[:, 13])
    selector = FIRES(2)
    sets = [
        selected(one) for one in learning(selector, X, signal + 0.5 * rng.normal(size=8000) > 0)
    ]
    assert selector.alarms_
    assert sets[49] == [2, 3]
    assert sets[60:] == [[12, 13]] * 20


# --- k -----------------------------------------------------------------------------------------


def test_if_k_changes_the_next_answer_has_k_features():
    X, y = rows()
    selector = learnt(FIRES(5), X, y)
    for k, n in ((2, 2), (8, 8), (0.5, 10), (20, 20), (1, 1)):
        selector.set_params(n_features_to_select=k)
        assert len(selected(selector)) == selector.n_features_selected_ == n
        first = selected(selector)
        selector.partial_fit(X[:1], y[:1])
        assert len(selected(selector)) == n
        assert set(first[:n]) == set(selected(selector)) or n > 3
        if n <= 3:
            assert first == [0, 1, 2][:n]


def test_asking_changes_nothing():
    X, y = rows(1000)
    asked, left_alone = FIRES(4), FIRES(4)
    for one in learning(asked, X, y):
        _ = selected(one), one.why(), one.twins_, one.weights_, one.is_significant()
    learnt(left_alone, X, y)
    assert_array_equal(asked.weights_, left_alone.weights_)
    assert selected(asked) == selected(left_alone)
    assert asked._rule_.state().keys() == left_alone._rule_.state().keys()
    for name, array in asked._rule_.state().items():
        assert_array_equal(array, left_alone._rule_.state()[name])


# --- One number --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["two classes", "three classes", "numbers", "wide", "sparse"])
def test_features_are_ranked_by_the_importance_that_is_shown(kind):
    X, _ = rows(2000, 150 if kind == "wide" else 20)
    rng = np.random.default_rng(1)
    signal = X[:, :3].sum(axis=1) + rng.normal(size=2000)
    y = {"numbers": signal, "three classes": np.digitize(signal, [-1.0, 1.0])}.get(kind, signal > 0)
    selector = FIRES(3).fit(sp.csr_array(X) if kind == "sparse" else X, y)
    assert_array_equal(selector.weights_, np.abs(selector.importances_))
    order = np.argsort(-np.abs(selector.importances_), kind="stable")
    assert_array_equal(selector.ranking_[order], np.arange(1, len(order) + 1))


def test_weights_by_omega_stay_the_papers():
    X, y = rows(1000)
    selector = FIRES(3, score="omega").fit(X, y)
    assert not np.allclose(selector.weights_, np.abs(selector.importances_))
    best = np.argsort(-selector.weights_, kind="stable")[:3]
    assert selected(selector) == sorted(best.tolist())


@pytest.mark.parametrize("seed", range(3))
def test_sign_and_class_of_an_importance_do_not_flip(seed):
    """Column 0 matters as much for the first class as against the second."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12_000, 10))
    scores = np.column_stack([X[:, 0], -X[:, 0], X[:, 3]]) + rng.gumbel(size=(12_000, 3))
    selector, signs, classes = FIRES(3), [], []
    for one in learning(selector, X, scores.argmax(axis=1), classes=range(3)):
        signs.append(np.sign(one.importances_[0]))
        gaps = np.abs(one.class_importances_[:, 0] - one.importances_[0])
        classes.append(int(gaps.argmin()))
    assert len(set(signs[20:])) == 1
    assert len(set(classes[20:])) == 1


# --- Saved -------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 8, "auto"])
@pytest.mark.parametrize("n_features", [20, 130])
def test_what_was_saved_goes_on(k, n_features, tmp_path):
    X, y = rows(3000, n_features)
    selector = learnt(FIRES(k), X[:1730], y[:1730])
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    assert selected(again) == selected(selector)
    for start in range(1730, 3000, 70):
        part = slice(start, start + 70)
        for one in (selector, again):
            one.partial_fit(X[part], y[part])
        assert selected(again) == selected(selector)
        assert again._rule_.waited == selector._rule_.waited
    assert_array_equal(again.weights_, selector.weights_)


def test_a_copy_goes_on_apart():
    X, y = rows(2000)
    selector = learnt(FIRES(5), X, y)
    other, before = copy.deepcopy(selector), selected(selector)
    learnt(other, X[:, ::-1].copy(), y)
    assert selected(selector) == before != selected(other)


@pytest.mark.parametrize(
    "broken",
    [{"columns": np.array([25])}, {"columns": np.array([-1])}, {"waited": np.array(-1.0)}],
)
def test_what_does_not_fit_is_refused(broken):
    X, y = rows(500)
    rule = learnt(FIRES(5), X, y)._rule_
    arrays = rule.state() | {f"members.{name}": array for name, array in broken.items()}
    with pytest.raises(StateError):
        SelectionRule(20, None, scored=True).restore(arrays)


def test_columns_that_go_leave_the_rule_with_the_rest():
    X, y = rows(1000)
    rule = learnt(FIRES(3), X, y)._rule_
    places = np.arange(20) - 1  # the first goes
    other = rule.rearranged(places, 19)
    assert other.columns.tolist() == [0, 1]
    assert other.k == -1  # looks again
    assert rule.columns.tolist() == [0, 1, 2]
    assert rule.rearranged(np.arange(20)[::-1].copy(), 20).columns.tolist() == [17, 18, 19]
