"""OSFS and Fast-OSFS: their vectors, and the algorithms word by word beside ours."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires import OSFS, FastOSFS
from fires.rivals.arriving.base import as_numbers, scaled
from fires.rivals.arriving.independence import Contingency, as_codes, surprise_of_z

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
X, Y = TABLE[:, :6], TABLE[:, 6]


def independent(columns, i, given, test, alpha):
    """Whether column i and the target, column 0, are independent given others."""
    if test != "fisher_z":
        tests = Contingency(columns, test == "chi2")
        return tests._surprise(columns[i], columns[list(given)]) < -np.log(alpha)
    P = np.linalg.inv(np.corrcoef(columns[[i, 0, *given]]))
    r = -P[0, 1] / np.sqrt(P[0, 0] * P[1, 1])
    W = np.sqrt(columns.shape[1] - len(given) - 3) * np.arctanh(r)
    return surprise_of_z(W) < -np.log(alpha)


def by_the_book(X, y, test, alpha, most, fast):
    """The algorithm as it is written: every set of others, every time."""
    prepare = scaled if test == "fisher_z" else (lambda x: as_codes(x, "x"))
    columns = np.stack([prepare(y), *(prepare(x) for x in X.T)])

    def superfluous(f, others, must=()):
        return any(
            independent(columns, f, s, test, alpha)
            for size in range(1, most + 1)
            for s in combinations(others, size)
            if set(must) <= set(s)
        )

    candidates = []
    for x in range(1, len(columns)):
        if independent(columns, x, (), test, alpha):
            continue
        if fast and superfluous(x, candidates):
            continue
        candidates.append(x)
        for f in list(candidates):
            if fast and f == x:
                continue
            others = [g for g in candidates if g != f]
            if superfluous(f, others, (x,) if fast else ()):
                candidates = others
    return [f - 1 for f in candidates]


def related(seed, categories):
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(60, 3))
    X = causes @ rng.normal(size=(3, 9)) + rng.normal(size=(60, 9)) * rng.uniform(0.1, 2.0, 9)
    y = causes @ rng.normal(size=3) + 0.5 * rng.normal(size=60)
    return (np.digitize(X, [-1.0, 1.0]), np.digitize(y, [0.0])) if categories else (X, y)


def test_vectors():
    assert OSFS(alpha=0.01).partial_fit_features(X, Y).get_support(indices=True).tolist() == [0, 4]
    fast = FastOSFS(alpha=0.01).partial_fit_features(X, Y)
    assert fast.get_support(indices=True).tolist() == [0, 3]
    assert fast.weights_[[0, 3]] == pytest.approx(surprise_of_z([8.24863, 4.985684]), rel=1e-5)


@pytest.mark.parametrize("selector", [OSFS, FastOSFS])
@pytest.mark.parametrize("test", ["fisher_z", "g2", "chi2"])
@given(seed=st.integers(0, 2**16), alpha=st.sampled_from([0.01, 0.1]), most=st.integers(1, 3))
def test_leaving_out_what_was_tried_before_changes_nothing(selector, test, seed, alpha, most):
    Z, y = related(seed, test != "fisher_z")
    ours = selector(test=test, alpha=alpha, max_subset=most).partial_fit_features(Z, y)
    known = by_the_book(Z.astype(float), y.astype(float), test, alpha, most, selector is FastOSFS)
    assert ours.get_support(indices=True).tolist() == known


def test_of_twins_the_later_or_the_earlier_one_is_kept():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(100, 4))
    y = Z[:, 1] + 0.5 * rng.normal(size=100)
    Z[:, 3] = 10.0 - 2.0 * Z[:, 1]
    assert OSFS().partial_fit_features(Z, y).get_support(indices=True).tolist() == [3]
    assert FastOSFS().partial_fit_features(Z, y).get_support(indices=True).tolist() == [1]


@pytest.mark.parametrize("selector", [OSFS, FastOSFS])
def test_a_set_larger_than_allowed_is_not_tried(selector):
    """Only all three causes together make their sum's noisy copy superfluous."""
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(2000, 3))
    y = causes.sum(axis=1) + 0.5 * rng.normal(size=2000)
    copy = causes.sum(axis=1) + 0.5 * rng.normal(size=2000)
    Z = np.column_stack([causes, copy])
    kept = {
        most: selector(max_subset=most).partial_fit_features(Z, y).get_support(indices=True)
        for most in (1, 2, 3)
    }
    assert [3 in kept[most] for most in (1, 2, 3)] == [True, True, False]


@pytest.mark.parametrize("selector", [OSFS, FastOSFS])
@pytest.mark.parametrize("n_rows", [2, 3, 4, 5, 6])
def test_too_few_rows_for_a_test_show_nothing(selector, n_rows):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows)
    Z = np.column_stack([y, y + 1e-9 * rng.normal(size=n_rows), y**2])
    support = selector().partial_fit_features(Z, y).get_support(indices=True)
    assert (len(support) > 0) == (n_rows > 3)


@pytest.mark.parametrize("selector", [OSFS, FastOSFS])
def test_centred_columns_count_too(selector):
    """Public code skips a column that adds up to 0."""
    x = np.array([-1.0, 1.0] * 50)
    y = x + np.linspace(0.0, 0.1, 100)
    assert selector().partial_fit_features(x[:, np.newaxis], y).get_support().tolist() == [True]


def test_pairs_with_gaps_rest_on_the_rows_they_share():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(200, 5))
    y = Z[:, 0] - Z[:, 3] + rng.normal(size=200)
    Z[rng.random(Z.shape) < 0.15] = np.nan
    selector = OSFS().partial_fit_features(Z, y)
    assert selector.get_support(indices=True).tolist() == [0, 3]
    there = ~np.isnan(Z[:, 0])
    r = np.corrcoef(Z[there, 0], y[there])[0, 1]
    W = np.sqrt(there.sum() - 3) * np.arctanh(r)
    assert selector.weights_[0] == pytest.approx(surprise_of_z(W))


def test_a_target_of_many_labels_needs_categories():
    rng = np.random.default_rng(0)
    Z = rng.integers(0, 2, size=(90, 4))
    y = np.array(["a", "b", "c"])[Z[:, 2] + rng.integers(0, 2, 90)]
    assert OSFS(test="g2").partial_fit_features(Z, y).get_support(indices=True).tolist() == [2]
    with pytest.raises(ValueError, match="OSFS learns numbers or two classes; these are 3"):
        OSFS().partial_fit_features(Z, y)
    with pytest.raises(ValueError, match=r"y has 90 different values in 90 rows"):
        OSFS(test="chi2").partial_fit_features(Z, rng.normal(size=90))
    assert as_numbers(np.array(["no", "yes", "no"]), "OSFS").tolist() == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha must be a number greater than 0 and less than 1; got 0.0"),
        ({"alpha": 1}, "alpha must be a number greater than 0 and less than 1; got 1"),
        ({"test": "t"}, "test must be one of 'fisher_z', 'g2', 'chi2'; got 't'"),
        ({"max_subset": 0}, "max_subset must be a positive integer; got 0"),
        ({"max_subset": True}, "max_subset must be a positive integer; got True"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        OSFS(**settings).partial_fit_features(X, Y)
