"""Who is selected: every clause of the rule by itself."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.declared import collect, restore
from fires.selectors.rule import Membership

PRIOR = 0.1


def renewed(members, now, *, var=0.01, k=1, n_rows=100.0):
    """The members after one more batch."""
    now = np.array(now, float)
    var = np.broadcast_to(np.asarray(var, float), now.shape).copy()
    members.renew(now.__getitem__, var.__getitem__, PRIOR, k, n_rows)
    return members.columns.tolist()


# --- The scores --------------------------------------------------------------------------------


def test_the_score_is_the_mean_over_the_rows_so_far():
    members = Membership(2)
    for now, n_rows in (([1.0, 0.0], 100.0), ([3.0, 1.0], 300.0), ([0.0, 8.0], 50.0)):
        renewed(members, now, n_rows=n_rows)
    expected = [(100.0 * 1.0 + 300.0 * 3.0) / 450.0, (300.0 * 1.0 + 50.0 * 8.0) / 450.0]
    assert_allclose(members.score, expected)


def test_the_mean_reaches_back_1000_rows():
    members = Membership(1)
    for _ in range(100):
        renewed(members, [1.0])
    assert_allclose(members.score, 1.0)
    renewed(members, [2.0])
    assert_allclose(members.score, 1.0 + 100.0 / 1000.0)


def test_a_batch_of_more_rows_than_that_is_all_that_counts():
    members = Membership(2)
    renewed(members, [1.0, 5.0])
    renewed(members, [3.0, 2.0], n_rows=9000.0)
    assert_allclose(members.score, [3.0, 2.0])


def test_after_a_restart_the_mean_starts_again_and_the_members_stay():
    members = Membership(3)
    for _ in range(10):
        renewed(members, [0.9, 0.1, 0.1])
    members.restart()
    assert members.columns.tolist() == [0]
    # The member is sure, and a newcomer is ahead by less than the bond.
    assert renewed(members, [0.8, 0.85, 0.1]) == [0]
    assert_allclose(members.score, [0.8, 0.85, 0.1])
    members.restart()
    assert renewed(members, [0.1, 0.85, 0.1]) == [1]


# --- Who enters --------------------------------------------------------------------------------


def test_the_first_members_are_the_best():
    assert renewed(Membership(5), [0.1, 0.5, 0.2, 0.4, 0.3], k=2) == [1, 3]


def test_a_newcomer_enters_if_it_is_ahead_by_more_than_the_deviation_of_the_difference():
    # With var = 0.01 and a prior of 0.1, each side counts with 0.01 sqrt(0.9).
    bond = np.sqrt(2.0 * 0.01 * np.sqrt(0.9))
    for ahead, enters in ((0.999 * bond, False), (1.001 * bond, True)):
        members = Membership(2)
        renewed(members, [0.5, 0.4])
        members.restart()
        assert renewed(members, [0.5, 0.5 + ahead]) == ([1] if enters else [0])


def test_the_uncertainty_of_both_sides_counts():
    bond = np.sqrt(0.01 * np.sqrt(0.9) + 0.04 * np.sqrt(0.6))
    for ahead, enters in ((0.999 * bond, False), (1.001 * bond, True)):
        members = Membership(2)
        renewed(members, [0.7, 0.4])
        members.restart()
        assert renewed(members, [0.7, 0.7 + ahead], var=[0.01, 0.04]) == ([1] if enters else [0])


def test_while_nothing_is_known_the_best_are_selected():
    members = Membership(2)
    assert renewed(members, [0.5, 0.4], var=PRIOR) == [0]
    members.restart()
    assert renewed(members, [0.5, 0.5001], var=PRIOR) == [1]


def test_one_that_is_surely_above_noise_replaces_one_that_is_not():
    """With J = 2, sure is above sqrt(2 log 2) = 1.18 deviations."""
    sd = np.sqrt(0.01 * 0.9)
    members = Membership(2)
    renewed(members, [0.5, 0.0])
    members.restart()
    # Ahead by far less than the bond, which is 0.138.
    assert renewed(members, [1.10 * sd, 1.17 * sd]) == [0]  # neither is sure
    assert renewed(members, [1.10 * sd, 1.25 * sd]) == [1]
    members = Membership(2)
    renewed(members, [0.5, 0.0])
    members.restart()
    assert renewed(members, [1.20 * sd, 1.25 * sd]) == [0]  # both are


def test_more_features_make_it_harder_to_be_sure():
    sd = np.sqrt(0.01 * 0.9)
    for times, enters in ((3.0, False), (3.4, True)):  # sqrt(2 log 200) = 3.26
        members = Membership(200)
        scores = np.zeros(200)
        scores[0] = 0.5
        renewed(members, scores)
        members.restart()
        scores[:2] = times * sd - 0.05, times * sd
        assert renewed(members, scores) == ([1] if enters else [0])


def test_a_sure_one_that_is_not_better_does_not_replace_anyone():
    members = Membership(2)
    renewed(members, [0.5, 0.0])
    renewed(members, [0.05, 0.45])  # sure now; but the means are 0.275 and 0.225
    assert members.columns.tolist() == [0]


def test_the_best_newcomer_meets_the_weakest_member():
    """And the second best the second weakest, which is strong enough to stay."""
    members = Membership(4)
    renewed(members, [0.9, 0.8, 0.0, 0.0], k=2)
    members.restart()
    assert renewed(members, [0.85, 0.30, 0.88, 0.86], k=2) == [0, 2]


def test_several_may_be_replaced_at_once():
    members = Membership(4)
    renewed(members, [0.9, 0.8, 0.0, 0.0], k=2)
    members.restart()
    assert renewed(members, [0.0, 0.0, 0.9, 0.8], k=2) == [2, 3]


# --- Ties, k, state ----------------------------------------------------------------------------


def test_ties_go_to_the_lower_index():
    assert renewed(Membership(4), [0.2, 0.3, 0.3, 0.3], k=2) == [1, 2]
    members = Membership(5)
    renewed(members, [0.0, 0.0, 0.0, 0.5, 0.5], k=2)
    members.restart()
    # Newcomers 1 and 2 are equal, and one of two equal members goes: the one of the higher index.
    assert renewed(members, [0.0, 0.9, 0.9, 0.1, 0.95], k=2) == [1, 4]
    members.restart()
    assert renewed(members, [0.9, 0.1, 0.0, 0.0, 0.1], k=2) == [0, 1]


@pytest.mark.parametrize("k", [1, 2, 4])
def test_if_k_changes_the_best_are_selected(k):
    members = Membership(4)
    renewed(members, [0.9, 0.8, 0.1, 0.0], k=3)
    members.restart()
    assert renewed(members, [0.80, 0.81, 0.5, 0.6], k=k) == [[1], [0, 1], [], [0, 1, 2, 3]][k - 1]


def test_all_features_may_be_members():
    members = Membership(2)
    for now in ([0.1, 0.2], [0.5, 0.0]):
        assert renewed(members, now, k=2) == [0, 1]


def test_members_never_repeat_and_are_sorted():
    rng, members = np.random.default_rng(0), Membership(30)
    for _ in range(50):
        members.restart()
        columns = renewed(members, rng.random(30), k=7)
        assert columns == sorted(set(columns))
        assert len(columns) == 7


def test_among_equal_features_the_choice_stays():
    """That is what the rule is for: without it, noise would change the set in every batch."""
    rng, members, n_changes, best = np.random.default_rng(1), Membership(50), 0, 0
    before = renewed(members, rng.random(50), k=10)
    for _ in range(50):
        now = 0.5 + 0.03 * rng.normal(size=50)
        columns = renewed(members, now, k=10, var=0.005)
        n_changes += columns != before
        best += sorted(np.argsort(-members.score)[:10].tolist()) != columns
        before = columns
    assert n_changes <= 5
    assert best > 25


def test_the_scores_handed_over_are_not_changed():
    members, now = Membership(3), np.array([0.1, 0.2, 0.3])
    var = np.full(3, 0.01)
    now.flags.writeable = var.flags.writeable = False
    for _ in range(3):
        members.renew(now.__getitem__, var.__getitem__, PRIOR, 1, 50.0)


def test_what_was_saved_goes_on():
    rng, members = np.random.default_rng(2), Membership(20)
    for _ in range(5):
        renewed(members, rng.random(20), k=4)
    header, arrays = collect(members, Membership.learnt)
    other = Membership(20)
    restore(other, Membership.learnt, header, {n: a.copy() for n, a in arrays.items()}, {"J": 20})
    other.refresh()
    for _ in range(20):
        now = rng.random(20)
        assert renewed(other, now, k=4) == renewed(members, now, k=4)
        assert_array_equal(other.score, members.score)


def test_columns_that_are_not_touched_are_made_up_for_later():
    """The means are the same; a feature can enter only when it is touched."""
    rng = np.random.default_rng(4)
    eager, lazy = Membership(30), Membership(30)
    now = rng.random(30)
    for batch in range(40):
        touched = np.flatnonzero(rng.random(30) < 0.3)
        now = now.copy()
        if batch:  # until it is touched again, a score stays what it is
            now[touched] += 0.05 * rng.normal(size=len(touched))
        var = np.full(30, 1e-4)
        rest = var.__getitem__, PRIOR, 5, 50.0
        before = lazy.columns.copy()
        eager.renew(now.__getitem__, *rest)
        lazy.renew(now.__getitem__, *rest, touched=touched)
        np.testing.assert_allclose(lazy.means(), eager.score, rtol=1e-9)
        entered = np.setdiff1d(lazy.columns, before)
        assert np.isin(entered, touched).all() or not len(before)


def test_if_all_columns_are_touched_nothing_is_late():
    rng = np.random.default_rng(5)
    eager, lazy = Membership(12), Membership(12)
    for _ in range(30):
        now, var = rng.random(12), np.full(12, 0.003)
        rest = var.__getitem__, PRIOR, 4, 100.0
        eager.renew(now.__getitem__, *rest)
        lazy.renew(now.__getitem__, *rest, touched=np.arange(12))
        np.testing.assert_array_equal(lazy.columns, eager.columns)
        np.testing.assert_allclose(lazy.means(), eager.score, rtol=1e-9)


# --- Zero -----------------------------------------------------------------------------------------


def test_a_member_that_tells_nothing_leaves_for_the_first_that_tells_anything():
    members = Membership(3)
    assert renewed(members, [0.0, 0.0, 0.0], k=2) == [0, 1]
    assert renewed(members, [0.0, 0.0, 1e-9], k=2) == [0, 2]
    assert renewed(members, [0.0, 1e-9, 1e-9], k=2) == [1, 2]


def test_nothing_never_takes_the_place_of_something():
    members = Membership(2)
    assert renewed(members, [1e-9, 0.0]) == [0]
    for _ in range(20):
        assert renewed(members, [1e-9, 0.0], var=[PRIOR, 0.0]) == [0]
