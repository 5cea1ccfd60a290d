"""Forward selection on the information matrix, against its definition."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm
from tests.naive import add_plain, forward_plain

from fires.kernels.forward import Race, chi_deviations, exchange, forward


def systems_of(seed, n_features, n_classes=1, n_rows=200, effect=0.4):
    """Precision and pull of correlated columns, with the prior, for each row of parameters."""
    rng = np.random.default_rng(seed)
    mixed = rng.normal(size=(n_features, n_features)) + np.eye(n_features)
    found = []
    for _ in range(n_classes):
        Z = np.column_stack([rng.normal(size=(n_rows, n_features)) @ mixed, np.ones(n_rows)])
        Z[:, :-1] /= Z[:, :-1].std(axis=0)
        theta = effect * rng.normal(size=n_features + 1) * (rng.random(n_features + 1) < 0.4)
        pull = Z.T @ (Z @ theta + rng.normal(size=n_rows))
        found.append(np.column_stack([Z.T @ Z + np.eye(n_features + 1), pull]))
    return np.array(found)


def chosen(
    systems,
    candidates,
    limits,
    *,
    inside=(),
    late=None,
    bonus=0.0,
    sure=np.inf,
    first=(),
):
    """Who joins, the deviations of all, and what is explained, by the kernel."""
    n, limits = len(candidates), np.array(limits, dtype=float)
    columns = np.array([j for own in candidates for j in own], dtype=np.int64)
    starts = np.cumsum([0, *map(len, candidates)])
    z, state = np.empty(n), np.isin(np.arange(n), list(first)).astype(np.int64)
    ahead = bonus * np.isin(np.arange(n), list(inside))
    late = np.ones(n) if late is None else late
    explained = forward(systems, Race(columns, starts, ahead, late, limits, sure, z, state))
    z[state == 2] = np.nan  # of those that have left, they are not kept
    return np.flatnonzero(state == 1).tolist(), z, explained


def alone(n):
    return [[j] for j in range(n)]


# --- Against the definition --------------------------------------------------------------------


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    n_features=st.integers(1, 9),
    n_classes=st.sampled_from([1, 2, 3, 4]),
    limit=st.floats(0.0, 5.0),
    bonus=st.sampled_from([0.0, 1.0, 50.0]),
    n_first=st.integers(0, 9),
    k=st.integers(0, 9),
)
def test_who_enters_is_as_defined(seed, n_features, n_classes, limit, bonus, n_first, k):
    systems, k = systems_of(seed, n_features, n_classes), min(k, n_features)
    rng = np.random.default_rng(seed)
    facts = {
        "inside": np.flatnonzero(rng.random(n_features) < 0.4).tolist(),
        "late": 1.0 + rng.random(n_features),
        "bonus": bonus,
        "sure": 3.0,
        "first": rng.permutation(n_features)[:n_first].tolist(),
    }
    limits = limit + np.sort(rng.random(k))[::-1]
    expected, deviations, squared = forward_plain(systems, alone(n_features), limits, **facts)
    found, z, explained = chosen(systems, alone(n_features), limits, **facts)
    assert found == expected
    kept = ~np.isnan(z)
    assert_allclose(z[kept], deviations[kept], rtol=1e-6, atol=1e-6)
    assert_allclose(explained, squared, rtol=1e-6)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    n_classes=st.sampled_from([1, 3]),
    limit=st.floats(0.0, 6.0),
)
def test_groups_enter_whole(seed, sizes, n_classes, limit):
    order = np.random.default_rng(seed).permutation(sum(sizes))
    groups = [own.tolist() for own in np.split(order, np.cumsum(sizes)[:-1])]
    systems, limits = systems_of(seed, sum(sizes), n_classes), np.full(len(sizes), limit)
    facts = {"sure": 4.0, "first": list(range(seed % (len(sizes) + 1)))}
    expected, deviations, squared = forward_plain(systems, groups, limits, **facts)
    found, z, explained = chosen(systems, groups, limits, **facts)
    assert found == expected
    kept = ~np.isnan(z)
    assert_allclose(z[kept], deviations[kept], rtol=1e-6, atol=1e-6)
    assert_allclose(explained, squared, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_without_a_limit_it_is_the_order_in_which_each_adds_most(seed):
    systems, order = systems_of(seed, 7), []
    while len(order) < 7:
        rest = [j for j in range(7) if j not in order]
        order.append(max(rest, key=lambda j: add_plain(systems[0], order, [j])))
        assert chosen(systems, alone(7), np.full(len(order), -1.0))[0] == sorted(order)


def test_deviations_of_members_are_those_of_their_mean():
    systems = systems_of(3, 6)
    members, z, _ = chosen(systems, alone(6), np.full(3, -1.0))
    S = [*members, 6]
    covariance = np.linalg.inv(systems[0][np.ix_(S, S)])
    mean = covariance @ systems[0][S, -1]
    assert_allclose(z[members], np.abs(mean[:3]) / np.sqrt(np.diag(covariance)[:3]))


# --- What it is for ----------------------------------------------------------------------------


def data_systems(X, signal):
    Z = np.column_stack([X, np.ones(len(X))])
    return np.column_stack([Z.T @ Z + np.eye(Z.shape[1]), Z.T @ signal])[None]


@pytest.mark.parametrize("seed", range(3))
def test_a_copy_adds_nothing(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 6))
    X[:, 3] = X[:, 0]
    systems = data_systems(X, X[:, 0] + 0.1 * X[:, 1] + rng.normal(size=2000))
    found, z, _ = chosen(systems, alone(6), np.full(6, 3.0))
    assert found == [0, 1]
    assert z[3] < 1.0  # what the prior has drawn to 0


def test_one_that_others_make_needless_leaves_again():
    """A noisy sum of two is the best first one, and says nothing beside both."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 4))
    X[:, 2] = X[:, 0] + X[:, 1] + 0.3 * X[:, 2]
    systems = data_systems(X, X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=3000))
    assert chosen(systems, alone(4), np.full(1, 3.0))[0] == [2]
    found, z, _ = chosen(systems, alone(4), np.full(4, 3.0))
    assert sorted(found) == [0, 1]
    assert np.isnan(z[2])  # it was in, and has left


def test_a_member_is_ahead_by_its_bonus():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 3))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    systems = data_systems(X, X[:, 0] + rng.normal(size=1000))
    (best,) = chosen(systems, alone(3), [4.0])[0]
    other = 1 - best
    assert chosen(systems, alone(3), [4.0], inside=[other], bonus=2.0)[0] == [other]
    assert chosen(systems, alone(3), [4.0], inside=[2], bonus=2.0)[0] == [best]


def test_one_that_came_late_counts_by_what_it_adds_a_row():
    systems = systems_of(0, 4, effect=1.0)
    (first,) = chosen(systems, alone(4), [-1.0])[0]
    second, late = (first + 1) % 4, np.ones(4)
    late[second] = 50.0
    assert chosen(systems, alone(4), [-1.0], late=late)[0] == [second]


def test_the_last_of_five_places_is_for_a_class_that_no_other_serves():
    """Six columns tell of two classes, and a weak one of the third."""
    systems = np.zeros((3, 8, 9))
    systems[:, range(8), range(8)] = 1.0
    systems[:2, :6, -1] = np.arange(12.0, 6.0, -1.0)
    systems[2, 6, -1] = 5.0
    limits = np.full(5, 2.5)
    assert chosen(systems, alone(7), limits)[0] == [0, 1, 2, 3, 4]
    assert chosen(systems, alone(7), limits, sure=4.0)[0] == [0, 1, 2, 3, 6]
    assert chosen(systems, alone(7), limits, sure=5.5)[0] == [0, 1, 2, 3, 4]
    assert chosen(systems, alone(7), limits[:4], sure=4.0)[0] == [0, 1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_of_too_many_the_weakest_leaves_in_turn(seed):
    systems, stay = systems_of(seed, 7, effect=1.0), list(range(7))
    while len(stay) > 3:
        others = {j: [i for i in stay if i != j] for j in stay}
        stay.remove(min(stay, key=lambda j: add_plain(systems[0], others[j], [j])))
    assert sorted(chosen(systems, alone(7), np.zeros(3), first=range(7))[0]) == stay


def test_two_that_matter_only_together_are_found_from_all():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 6))
    X[:, 1] = X[:, 0] + 0.3 * X[:, 1]
    # Neither is correlated with the target but for what the other takes off.
    systems = data_systems(X, 0.8 * X[:, 0] - 0.74 * X[:, 1] + rng.normal(size=2000))
    limits = np.full(6, 3.5)
    nobody, _, little = chosen(systems, alone(6), limits)
    both, _, more = chosen(systems, alone(6), limits, first=range(6))
    assert (nobody, sorted(both)) == ([], [0, 1])
    assert more > little + 2 * 3.5**2


def test_nobody_enters_where_there_is_nobody_or_no_place():
    assert chosen(systems_of(0, 3), [], [])[0] == []
    found, z, _ = chosen(systems_of(0, 3), alone(3), [])
    assert found == []
    assert (z >= 0.0).all()


# --- Its parts ---------------------------------------------------------------------------------


def triangle_of(system):
    """As ``exchange`` wants it: the lower half of precision, pull as the last line, and 0."""
    n = len(system)
    found = np.zeros((n + 1, n + 1))
    found[:n, :n], found[n, :n] = np.tril(system[:, :-1]), system[:, -1]
    return found


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**16), n_features=st.integers(1, 8))
def test_to_join_and_to_leave_again_is_nothing(seed, n_features):
    system = triangle_of(systems_of(seed, n_features)[0])
    places = np.random.default_rng(seed).permutation(n_features + 1)[: 1 + seed % 4]
    after, line = system.copy(), np.empty(len(system))
    for p in places.tolist():
        exchange(after, line, p, np.zeros(len(system), bool))
    assert not np.allclose(after, system)
    for p in reversed(places.tolist()):
        exchange(after, line, p, np.zeros(len(system), bool))
    assert_allclose(after, system, rtol=1e-7, atol=1e-7)


def test_those_that_have_joined_hold_their_covariance_and_mean():
    system, joined, rest = systems_of(1, 5)[0], [0, 3, 5], [1, 2, 4]
    after = triangle_of(system)
    for p in joined:
        exchange(after, np.empty(7), p, np.zeros(7, bool))
    covariance = np.linalg.inv(system[np.ix_(joined, joined)])
    mean = covariance @ system[joined, -1]
    assert_allclose(after[np.ix_(joined, joined)], -np.tril(covariance))
    assert_allclose(after[-1, joined], mean)
    assert_allclose(after[-1, -1], -mean @ system[joined, -1])
    shared = system[np.ix_(rest, joined)]
    left = system[np.ix_(rest, rest)] - shared @ covariance @ shared.T
    assert_allclose(after[np.ix_(rest, rest)], np.tril(left))
    assert_allclose(after[-1, rest], system[rest, -1] - shared @ mean)


@pytest.mark.parametrize("m", [2, 3, 5, 10, 20])
def test_a_chi_squared_distance_as_deviations_of_one(m):
    q = np.linspace(0.01, 200.0, 2000)
    expected = norm.isf(0.5 * chi2.sf(q, m))
    found = np.array([chi_deviations(each, m) for each in q.tolist()])
    beyond = expected > 2.1  # where anything is decided
    assert_allclose(found[beyond], expected[beyond], atol=0.06)
    assert_allclose(found[~beyond], expected[~beyond], atol=0.45)
    assert (np.diff(found) >= 0.0).all()


@given(st.floats(0.0, 1e6))
def test_the_distance_of_one_is_its_deviations(q):
    assert chi_deviations(q, 1) == np.sqrt(q)
