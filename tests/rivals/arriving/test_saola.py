"""SAOLA and Group-SAOLA: the vector, and the rules word by word beside ours."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import symmetrical_uncertainty

from fires import SAOLA, GroupSAOLA

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
X, Y = TABLE[:, :6], TABLE[:, 6]


def compete(x, rivals, worth, shared):
    """The rules for one new column: who is left, and whether it is."""
    left = list(rivals)
    for y in rivals:
        between = shared(x, y)
        if between <= 0.0:
            continue
        if worth[y] >= worth[x] and between >= worth[x]:
            return left, False
        if worth[x] > worth[y] and between >= worth[y]:
            left.remove(y)
    return left, True


def by_the_book(X, y, groups):
    worth = [symmetrical_uncertainty(x, y) for x in X.T]

    def shared(i, j):
        return symmetrical_uncertainty(X[:, i], X[:, j])

    kept = []
    for group in groups:
        inside = []
        for x in group:
            if worth[x] > 0.0:
                inside, stays = compete(x, inside, worth, shared)
                inside += [x] if stays else []
        new = []
        for x in inside:
            kept, stays = compete(x, kept, worth, shared)
            new += [x] if stays else []
        kept = kept + new
    return kept


def test_vector():
    assert SAOLA(alpha=0.01).partial_fit_features(X, Y).get_support(indices=True).tolist() == [0, 4]


@given(seed=st.integers(0, 2**16), n_levels=st.integers(2, 4))
def test_the_rules(seed, n_levels):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_levels, 30)
    Z = np.where(rng.random((30, 9)) < rng.uniform(0.0, 1.0, 9), y[:, np.newaxis], 0)
    Z = (Z + rng.integers(0, n_levels, (30, 9)) * (rng.random((30, 9)) < 0.3)) % n_levels
    y[0], y[1] = 0, 1
    alone = SAOLA(measure="su").partial_fit_features(Z, y)
    known = by_the_book(Z, y, [[j] for j in range(9)])
    assert alone.get_support(indices=True).tolist() == known
    in_groups = GroupSAOLA(measure="su")
    for start in (0, 3, 6):
        in_groups.partial_fit_features(Z[:, start : start + 3], y)
    known = by_the_book(Z, y, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    assert in_groups.get_support(indices=True).tolist() == known
    assert in_groups.groups_.tolist() == [j // 3 for j in known]


def test_of_equal_columns_the_first_stays():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 50)
    x = np.where(rng.random(50) < 0.2, 1 - y, y)
    Z = np.column_stack([x, x, 1 - x])
    for selector in (SAOLA(), SAOLA(measure="su"), GroupSAOLA(), GroupSAOLA(measure="su")):
        for column in Z.T:
            selector.partial_fit_features(column[:, np.newaxis], y)
        assert selector.get_support().tolist() == [True, False, False]


def test_a_better_column_takes_the_place_of_its_copies():
    rng = np.random.default_rng(0)
    y = rng.normal(size=300)
    x = y + 0.3 * rng.normal(size=300)
    Z = np.column_stack([x + 0.5 * rng.normal(size=300), x, rng.normal(size=300)])
    assert SAOLA().partial_fit_features(Z, y).get_support(indices=True).tolist() == [1]


def test_a_group_sheds_its_redundancy_before_it_meets_the_others():
    """The middle column drives out the old one, and is then itself driven out by the best.

    In one group with the best it is gone before it meets the old one.
    """
    # Of old, middle, best and the target, in this order.
    r = [[1.0, 0.5, 0.2, 0.4], [0.5, 1.0, 0.6, 0.5], [0.2, 0.6, 1.0, 0.6], [0.4, 0.5, 0.6, 1.0]]
    free = np.random.default_rng(0).normal(size=(200, 4))
    free = np.linalg.qr(free - free.mean(axis=0))[0]
    *_, y = Z = (free @ np.linalg.cholesky(r).T).T
    columns = Z[:3].T
    assert SAOLA().partial_fit_features(columns, y).get_support(indices=True).tolist() == [2]
    grouped = GroupSAOLA().partial_fit_features(columns[:, :1], y)
    grouped.partial_fit_features(columns[:, 1:], y)
    assert grouped.get_support(indices=True).tolist() == [0, 2]
    assert grouped.groups_.tolist() == [0, 1]
    assert grouped.weights_ == pytest.approx([0.4, 0.0, 0.6])


def test_the_threshold_of_su_holds_for_target_and_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    weak, strong = (np.where(rng.random(400) < p, y, rng.integers(0, 2, 400)) for p in (0.3, 0.9))
    Z = np.column_stack([weak, strong])
    worth = symmetrical_uncertainty(weak, y)
    above = SAOLA(measure="su", threshold=worth).partial_fit_features(Z, y)
    assert above.get_support(indices=True).tolist() == [1]
    below = SAOLA(measure="su", threshold=worth * 0.99).partial_fit_features(Z, y)
    shared = symmetrical_uncertainty(weak, strong)
    assert below.get_support(indices=True).tolist() == ([1] if shared >= worth else [0, 1])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "mi"}, "measure must be one of 'correlation', 'su'; got 'mi'"),
        ({"alpha": "x"}, "alpha must be a number greater than 0 and less than 1; got 'x'"),
        ({"threshold": -0.1}, "threshold must be a number at least 0 and less than 1; got -0.1"),
    ],
)
@pytest.mark.parametrize("selector", [SAOLA, GroupSAOLA])
def test_settings(selector, settings, message):
    with pytest.raises(ValueError, match=message):
        selector(**settings).partial_fit_features(X, Y)
