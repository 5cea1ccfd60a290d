"""Alpha-investing: its vector, its definition by refitting, and its laws."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires import AlphaInvesting

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
X, Y = TABLE[:, :6], TABLE[:, 6]


def refitted(X, y, wealth=0.5, alpha_delta=0.5):
    """The method as it is written: a least-squares fit for every feature."""
    n, model, chosen, bets = len(y), [np.ones(len(y))], [], []

    def error(columns):
        base = np.stack(columns, axis=1)
        return ((y - base @ np.linalg.lstsq(base, y)[0]) ** 2).sum()

    for i, x in enumerate(X.T, 1):
        alpha, old = wealth / (2 * i), error(model)
        p = np.exp(-(old - error([*model, x])) / (2.0 * old / n))
        if p < alpha:
            model, chosen, wealth = [*model, x], [*chosen, i - 1], wealth + alpha_delta - alpha
        else:
            wealth -= alpha
        bets.append((alpha, p, wealth))
    return chosen, bets


def test_vector():
    alphas = [0.25, 0.1875, 0.09375, 0.05859375, 0.091015625, 0.068261719]
    p = [5.094964e-09, 0.9349665, 0.9169393, 1.755075e-12, 0.3202105, 0.5015892]
    wealth = [0.75, 0.5625, 0.46875, 0.910156250, 0.819140625, 0.750878906]
    selector = AlphaInvesting()
    for j in range(6):
        before = selector.wealth_ if j else 0.5
        assert before / (2 * (j + 1)) == pytest.approx(alphas[j], abs=5e-10)
        if j:
            assert np.exp(-selector._bet(X[:, j])[1]) == pytest.approx(p[j], rel=5e-7)
        selector.partial_fit_features(X[:, j : j + 1], Y)
        assert selector.wealth_ == pytest.approx(wealth[j], abs=5e-10)
    assert selector.get_support(indices=True).tolist() == [0, 3]
    assert_allclose(np.exp(-selector.weights_[[0, 3]]), [p[0], p[3]], rtol=5e-7)


@given(seed=st.integers(0, 2**16), wealth=st.sampled_from([0.1, 0.5, 5.0]))
def test_the_orthogonal_basis_gives_what_refitting_gives(seed, wealth):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(40, 12)) + rng.normal(size=(40, 1))
    y = Z @ (rng.normal(size=12) * (rng.random(12) < 0.4)) + rng.normal(size=40)
    chosen, bets = refitted(Z, y, wealth)
    selector = AlphaInvesting(wealth=wealth).partial_fit_features(Z, y)
    assert selector.get_support(indices=True).tolist() == chosen
    assert selector.wealth_ == pytest.approx(bets[-1][2], rel=1e-12)
    assert_allclose(np.exp(-selector.weights_[chosen]), [bets[j][1] for j in chosen], rtol=1e-6)
    basis = selector._basis_
    assert_allclose(basis @ basis.T, np.eye(len(chosen)), atol=1e-12)
    assert_allclose(basis @ np.ones(40), 0.0, atol=1e-12)


@given(seed=st.integers(0, 2**16))
def test_scale_and_offset_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(30, 8))
    y = Z[:, 2] + Z[:, 6] + rng.normal(size=30)
    plain = AlphaInvesting().partial_fit_features(Z, y)
    moved = AlphaInvesting().partial_fit_features(Z * 10.0 ** np.arange(-4, 4) + 1.0, 1e9 * y)
    assert_array_equal(moved.get_support(), plain.get_support())
    assert_allclose(moved.weights_, plain.weights_, rtol=1e-6)


def test_nothing_is_ever_removed_and_the_wealth_stays_positive():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(50, 400))
    y = Z[:, 7] + 0.5 * rng.normal(size=50)
    selector, before = AlphaInvesting(), set()
    for start in range(0, 400, 20):
        selector.partial_fit_features(Z[:, start : start + 20], y)
        now = set(selector.get_support(indices=True).tolist())
        assert before <= now
        assert selector.wealth_ > 0.0
        before = now
    assert 7 in before


@pytest.mark.parametrize("wealth", [0.5, 100.0])
def test_twins_and_mixtures_of_what_is_in_add_nothing(wealth):
    rng = np.random.default_rng(0)
    a, b, y = rng.normal(size=(3, 60))
    y = 3.0 * a - 2.0 * b + 0.1 * y
    Z = np.stack([a, b, 5.0 * a + 1.0, a - b, np.full(60, 7.7), b], axis=1)
    selector = AlphaInvesting(wealth=wealth).partial_fit_features(Z, y)
    assert selector.get_support(indices=True).tolist() == [0, 1]


def test_a_target_explained_whole_needs_no_more():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(30, 50))
    selector = AlphaInvesting(wealth=50.0).partial_fit_features(Z, 2.0 * Z[:, 0] - 1.0)
    assert selector.get_support(indices=True).tolist() == [0]


def test_a_missing_entry_counts_as_the_mean():
    rng = np.random.default_rng(0)
    Z = rng.normal(5.0, 1.0, size=(80, 6))
    y = Z[:, 1] + 0.2 * rng.normal(size=80)
    gaps = rng.random(Z.shape) < 0.2
    holes, filled = Z.copy(), Z.copy()
    holes[gaps] = np.nan
    filled[gaps] = np.broadcast_to(np.nanmean(holes, axis=0), Z.shape)[gaps]
    with_gaps = AlphaInvesting().partial_fit_features(holes, y)
    assert_allclose(with_gaps.weights_, AlphaInvesting().partial_fit_features(filled, y).weights_)
    assert with_gaps.get_support()[1]
