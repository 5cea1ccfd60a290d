"""Features in groups are ranked and selected together, and k counts groups."""

import numpy as np
import pytest

import fires
from fires import FIRES
from fires.selectors.significance import Groups

GROUPS = ["a", "a", "a", "b", "c", "c", "d"]


def rows(n=2000, seed=0):
    """Group c decides, each of its features a little."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 7))
    return X, (X[:, 4] - X[:, 5] + 0.3 * X[:, 3] + 0.3 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("settings", [{}, {"update": "gradient"}, {"score": "omega"}])
def test_all_of_a_group_are_selected_or_none(settings):
    X, y = rows()
    selector = FIRES(2, groups=GROUPS, **settings).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [3, 4, 5]
    assert selector.groups_.tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert FIRES(0.5, groups=GROUPS, **settings).fit(X, y).get_support().sum() == 3


def test_groups_of_one_are_no_groups():
    X, y = rows()
    alone, none = FIRES(2, groups=list("abcdefg")).fit(X, y), FIRES(2).fit(X, y)
    np.testing.assert_array_equal(alone.get_support(), none.get_support())
    np.testing.assert_allclose(alone.group_belief().mu, none.importances_)


def test_a_group_goes_on_after_loading(tmp_path):
    X, y = rows()
    selector = FIRES(1, groups=GROUPS)
    for start in range(0, 1000, 100):
        selector.partial_fit(X[start : start + 100], y[start : start + 100])
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    for one in (selector, again):
        one.partial_fit(X[1000:], y[1000:])
    np.testing.assert_array_equal(again.weights_, selector.weights_)
    np.testing.assert_array_equal(again.get_support(), selector.get_support())


def test_a_wrong_number_of_labels_is_one_line():
    X, y = rows(100)
    with pytest.raises(ValueError, match="groups must have a label for each of the 7 features"):
        FIRES(1, groups=["a", "b"]).fit(X, y)


def test_chance_does_not_make_a_large_group_important():
    rng = np.random.default_rng(0)
    groups = Groups(np.repeat(np.arange(200), 20))
    sigma = np.full((1, 4000), 0.1)
    found = groups.belief(0.1 * rng.normal(size=(1, 4000)), sigma)
    assert np.mean(found.mu - 1.96 * found.sigma > 0) < 0.05
    true = groups.belief(0.3 + 0.1 * rng.normal(size=(1, 4000)), sigma)
    size = 0.3 * np.sqrt(20)
    assert np.mean(np.abs(true.mu - size) < 1.96 * true.sigma) > 0.9
