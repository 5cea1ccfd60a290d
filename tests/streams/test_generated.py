from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fires.core import optional
from fires.core.errors import MissingExtra
from fires.core.randomness import generator
from fires.streams import RandomRBF, RandomTree

synth = pytest.importorskip("river.datasets.synth")

SMALL = {
    "rbf": lambda n_samples=120, seed=0: RandomRBF(n_samples, 7, random_state=seed),
    "rtg": lambda n_samples=120, seed=0: RandomTree(n_samples, 4, 3, random_state=seed),
}
both = pytest.mark.parametrize("make", SMALL.values(), ids=SMALL)


def rows(stream, batch_size=50):
    batches = list(stream.batches(batch_size))
    return np.concatenate([b.X for b in batches]), np.concatenate([b.y for b in batches])


def seeds(name):
    rng = generator(5, name)
    return int(rng.integers(2**63)), int(rng.integers(2**63))


def test_the_rbf_is_river_s_with_its_own_settings():
    model, sample = seeds("random rbf")
    river = synth.RandomRBF(seed_model=model, seed_sample=sample, n_features=7)
    X, y = rows(RandomRBF(60, 7, random_state=5))
    expected = list(islice(river, 60))
    np.testing.assert_array_equal(X, [list(x.values()) for x, _ in expected])
    np.testing.assert_array_equal(y, [label for _, label in expected])
    assert river.n_centroids == 50  # scikit-multiflow's too, and so the paper's


def test_the_tree_is_river_s_with_its_own_settings_and_each_category_a_column():
    tree, sample = seeds("random tree")
    river = synth.RandomTree(seed_tree=tree, seed_sample=sample, n_num_features=4, n_cat_features=3)
    stream = RandomTree(60, 4, 3, random_state=5)
    X, y = rows(stream)
    names = stream.schema.feature_names
    for row, (x, label) in enumerate(islice(river, 60)):
        columns = dict(zip(names, X[row], strict=True))
        for number in range(4):
            assert columns[f"num_{number}"] == x[f"x_num_{number}"]
        for category in range(3):
            hot = [columns[f"cat_{category}={value}"] for value in range(5)]
            assert hot == [float(value == x[f"x_cat_{category}"]) for value in range(5)]
        assert y[row] == label
    settings = (river.max_tree_depth, river.first_leaf_level, river.fraction_leaves_per_level)
    assert settings == (5, 3, 0.15)  # scikit-multiflow's too, and so the paper's


def test_the_defaults_have_the_sizes_of_the_paper():
    rbf, rtg = RandomRBF(), RandomTree()
    assert (rbf.n_samples, rbf.schema.n_features) == (10_000, 10_000)
    assert (rtg.n_samples, rtg.schema.n_features) == (10_000, 450)
    assert len(set(rtg.schema.feature_names)) == 450
    assert rbf.schema.classes == rtg.schema.classes == (0, 1)


@both
@settings(max_examples=15)
@given(batch_size=st.integers(1, 200), n_samples=st.integers(1, 120), seed=st.integers(0, 2**32))
def test_rows_depend_on_the_seed_and_not_on_how_they_are_cut(make, batch_size, n_samples, seed):
    X, y = rows(make(seed=seed))
    stream = make(n_samples, seed)
    batches = list(stream.batches(batch_size))
    assert [b.position.rows for b in batches] == np.cumsum([b.n_rows for b in batches]).tolist()
    assert [b.n_rows for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    np.testing.assert_array_equal(np.concatenate([b.X for b in batches]), X[:n_samples])
    np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), y[:n_samples])


@both
@pytest.mark.parametrize("seed", [3, None, np.random.default_rng(3)], ids=lambda s: type(s))
def test_every_iteration_gives_the_same_rows_also_two_at_a_time(make, seed):
    stream = make(seed=seed)
    for first, second in zip(stream.batches(50), stream.batches(50), strict=True):
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.y, second.y)


@both
def test_another_seed_makes_another_stream_with_both_classes(make):
    (X, y), (other, _) = rows(make(seed=1)), rows(make(seed=2))
    assert X.shape == other.shape
    assert not np.array_equal(X, other)
    assert set(y) == {0, 1}


def test_the_numbers_of_a_tree_lie_between_0_and_1_and_one_category_holds():
    X, _ = rows(RandomTree(500, 6, 4, n_values=3))
    assert X.min() >= 0.0
    assert X[:, :6].max() < 1.0
    np.testing.assert_array_equal(X[:, 6:].reshape(500, 4, 3).sum(axis=2), 1.0)
    assert np.abs(X[:, 6:].mean(axis=0) - 1 / 3).max() < 0.09  # four standard errors


def test_a_tree_needs_no_categories():
    stream = RandomTree(20, 5, 0)
    assert next(stream.batches(20)).X.shape == (20, 5)


def test_rows_of_one_centre_lie_around_it_at_normal_distances():
    X, y = rows(RandomRBF(3_000, 40, n_centroids=1))
    assert len(set(y)) == 1
    centre = np.median(X, axis=0)
    distance = np.linalg.norm(X - centre, axis=1)
    assert 0.0 <= centre.min() <= centre.max() <= 1.0
    # |z| of a standard normal has the mean sqrt(2/pi) and the mean square 1.
    ratio = distance.mean() / np.sqrt((distance**2).mean())
    assert ratio == pytest.approx(np.sqrt(2 / np.pi), abs=0.02)


@both
def test_the_global_random_state_is_neither_read_nor_moved(make):
    import random

    before, ours = random.getstate(), np.random.get_state()  # noqa: NPY002
    X, _ = rows(make())
    assert random.getstate() == before
    np.testing.assert_array_equal(np.random.get_state()[1], ours[1])  # noqa: NPY002
    random.seed(4)
    np.testing.assert_array_equal(rows(make())[0], X)


@pytest.mark.parametrize("kind", [RandomRBF, RandomTree])
def test_without_river_the_error_says_what_to_install(kind, monkeypatch):
    monkeypatch.setattr(optional, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"{kind.__name__} needs river.*'\.\[river\]'"):
        kind()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RandomRBF(0), "n_samples must be at least 1, not 0"),
        (lambda: RandomRBF(n_features=0), "n_features must be at least 1"),
        (lambda: RandomRBF(n_centroids=0), "n_centroids must be at least 1"),
        (lambda: RandomRBF(n_classes=1), "n_classes must be at least 2"),
        (lambda: RandomTree(-1), "n_samples must be at least 1"),
        (lambda: RandomTree(n_numbers=0), "n_numbers must be at least 1"),
        (lambda: RandomTree(n_categorical=-1), "n_categorical must be at least 0"),
        (lambda: RandomTree(n_values=1), "n_values must be at least 2"),
        (lambda: RandomTree(random_state=-1), "random_state"),
        (lambda: next(RandomTree(5, 2, 0).batches(0)), "batch_size"),
    ],
)
def test_settings_that_make_no_stream_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_size_that_is_no_number_is_refused():
    with pytest.raises(TypeError, match=r"n_samples must be a whole number, not 2\.5"):
        RandomRBF(2.5)
