"""OGFS: both steps beside plain loops, classes that it tells apart, and those it does not."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from fires import OGFS, AlphaInvesting


def lasso(columns, target, penalty):
    """Coordinate descent until nothing moves."""
    theta, left = np.zeros(len(columns)), target.copy()
    for _ in range(5000):
        before = theta.copy()
        for j, x in enumerate(columns):
            left += theta[j] * x
            pull = x @ left
            theta[j] = np.sign(pull) * max(abs(pull) - penalty, 0.0)
            left -= theta[j] * x
        if (np.abs(theta - before) < 1e-16).all():
            break
    return theta


def of_length_1(x):
    return (x - x.mean()) / np.sqrt(((x - x.mean()) ** 2).sum())


def score(x, y):
    """The sums between and within classes of a standardised column."""
    z = (x - x.mean()) / x.std()
    between = sum((y == c).sum() * z[y == c].mean() ** 2 for c in set(y.tolist()))
    return between, sum((y == c).sum() * z[y == c].var() for c in set(y.tolist()))


def plain(groups, y, penalty, alpha):
    """The weights of all columns."""
    pool, worth, first = {}, {}, 0
    for columns in groups:
        taken = []
        for j, x in enumerate(columns.T, first):
            b, w = score(x, y)
            scores = [p / q for p, q in taken]
            rises = not taken or (sum(p for p, _ in taken) + b) / (
                sum(q for _, q in taken) + w
            ) > sum(p for p, _ in taken) / sum(q for _, q in taken)
            differs = len(scores) > 1 and (scipy.stats.ttest_1samp(scores, b / w).pvalue < alpha)
            if rises or differs:
                taken.append((b, w))
                pool[j] = of_length_1(x)
        first += columns.shape[1]
        classes = sorted(set(y.tolist()))
        targets = [of_length_1(1.0 * (y == c)) for c in classes[len(classes) == 2 :]]
        theta = [lasso(list(pool.values()), target, penalty) for target in targets]
        worth = dict(zip(pool, np.abs(theta).max(axis=0).tolist(), strict=True))
        pool = {j: x for j, x in pool.items() if worth[j] > 0.0}
    return [worth.get(j, 0.0) for j in range(first)]


@given(seed=st.integers(0, 2**16), n_classes=st.integers(2, 3))
def test_it_is_the_plain_loop(seed, n_classes):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 12)) * rng.uniform(0.1, 10.0, 12) + rng.normal(size=12)
    noisy = X[:, 3] / X[:, 3].std() - X[:, 8] / X[:, 8].std() + 0.5 * rng.normal(size=80)
    y = np.digitize(noisy, [-0.5, 0.5][: n_classes - 1])
    y[:3] = 0, 1, n_classes - 1
    groups = np.split(X, [4, 5, 10], axis=1)
    selector = OGFS(penalty=0.15, alpha=0.3)
    for group in groups:
        selector.partial_fit_features(group, y)
    np.testing.assert_allclose(selector.weights_, plain(groups, y, 0.15, 0.3), rtol=0, atol=1e-12)


def learnt(selector, X, y, size=5):
    for start in range(0, X.shape[1], size):
        selector.partial_fit_features(X[:, start : start + size], y)
    return selector.get_support(indices=True).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_it_wins_where_a_class_lies_between_others(seed):
    """The means of three classes, 0, 1, 0, have no correlation with the number of the class."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], 200)
    X = rng.normal(size=(600, 30))
    X[:, [2, 13]] += (y == 1)[:, None]
    assert set(learnt(OGFS(penalty=0.2), X, y)) == {2, 13}
    assert not {2, 13} & set(learnt(AlphaInvesting(), X, y))


@pytest.mark.parametrize("seed", range(3))
def test_it_fails_where_classes_differ_in_spread(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 30))
    X[:, [2, 13]] *= 1.0 + 3.0 * y[:, None]
    assert not {2, 13} & set(learnt(OGFS(penalty=0.2), X, y))


def test_the_lasso_drops_what_a_later_group_makes_superfluous():
    rng = np.random.default_rng(0)
    signal = rng.normal(size=400)
    y = signal > 0.0
    blurred = signal[:, None] + rng.normal(size=(400, 1))
    selector = OGFS(penalty=0.2).partial_fit_features(blurred, y)
    assert selector.get_support(indices=True).tolist() == [0]
    selector.partial_fit_features(np.column_stack([signal, rng.normal(size=400)]), y)
    assert selector.get_support(indices=True).tolist() == [1]
    assert selector.groups_.tolist() == [1]


def test_a_column_that_separates_the_classes_is_found():
    y = np.repeat([0, 1], 20)
    X = np.column_stack([np.ones(40), y, 3.0 - y])
    selector = OGFS().partial_fit_features(X, y)
    assert 1 in selector.get_support(indices=True)
    assert np.isfinite(selector.weights_).all()
