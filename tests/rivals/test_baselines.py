"""Baselines: all features, random ones, and those one names."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

import fires
from fires import AllFeatures, FixedFeatures, RandomFeatures

X = np.arange(24.0).reshape(3, 8)
NAMES = ["age", "größe", "c", "d", "e", "f", "g", "h"]
FRAME = pd.DataFrame(X, columns=NAMES)


@pytest.mark.parametrize("selector", [AllFeatures(), RandomFeatures(3), FixedFeatures([1, 2, 5])])
@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array, pd.DataFrame])
def test_what_goes_for_every_baseline(selector, kind):
    selector = clone(selector)
    assert selector.partial_fit(kind(X)) is selector
    selector.partial_fit(kind(X[:1]), ["whatever"], sample_weight=[2.0])
    n = 8 if isinstance(selector, AllFeatures) else 3
    assert selector.get_support().sum() == n
    assert selector.transform(kind(X)).shape == (3, n)
    assert selector.n_samples_seen_ == 4
    assert np.isfinite(selector.weights_).all()
    assert_array_equal(np.sort(selector.ranking_), np.arange(1, 9))
    assert not hasattr(selector, "classes_")
    with pytest.raises(ValueError, match="9 features"):
        selector.partial_fit(np.ones((1, 9)))


@pytest.mark.parametrize("selector", [AllFeatures(), RandomFeatures(3), FixedFeatures([1])])
def test_missing_entries_are_borne_or_refused(selector):
    selector = clone(selector)
    gaps = np.where(X == 5.0, np.nan, X)
    assert selector.partial_fit(gaps).n_missing_ == 1
    with pytest.raises(ValueError, match="NaN"):
        selector.set_params(missing="error").partial_fit(gaps)
    with pytest.raises(ValueError, match="missing must be 'ignore' or 'error'; got 'drop'"):
        selector.set_params(missing="drop").partial_fit(gaps)


def test_all_features_are_all_features():
    selector = AllFeatures().partial_fit(FRAME)
    assert selector.get_support().all()
    assert_array_equal(selector.weights_, np.ones(8))
    assert selector.get_feature_names_out().tolist() == NAMES


# --- random features ------------------------------------------------------------------------------


def supports(selector, n_batches=6):
    return [tuple(selector.partial_fit(X).get_support(indices=True)) for _ in range(n_batches)]


def test_a_random_set_is_drawn_once_per_stream():
    assert len(set(supports(RandomFeatures(3, random_state=1)))) == 1
    assert supports(RandomFeatures(3, random_state=1)) == supports(
        RandomFeatures(3, random_state=1)
    )
    seeds = {supports(RandomFeatures(3, random_state=seed))[0] for seed in range(20)}
    assert len(seeds) > 10


def test_it_may_be_drawn_anew_with_every_batch():
    drawn = supports(RandomFeatures(3, random_state=1, redraw=True), 20)
    assert len(set(drawn)) > 10
    assert drawn == supports(RandomFeatures(3, random_state=1, redraw=True), 20)


def test_every_feature_is_as_likely():
    counts = np.zeros(8)
    selector = RandomFeatures(2, random_state=0, redraw=True)
    for _ in range(2000):
        counts += selector.partial_fit(X[:1]).get_support()
    assert (np.abs(counts - 500) < 80).all()


def test_a_greater_set_holds_the_smaller():
    selector = RandomFeatures(2, random_state=3).partial_fit(X)
    small = set(selector.get_support(indices=True))
    assert small < set(selector.set_params(n_features_to_select=5).get_support(indices=True))
    assert selector.set_params(n_features_to_select=100).get_support().all()


@pytest.mark.parametrize("redraw", [False, True])
@pytest.mark.parametrize("seed", [None, 3, np.random.default_rng(0), np.random.RandomState(0)])
def test_a_loaded_random_selector_draws_on_bit_for_bit(redraw, seed, tmp_path):
    selector = RandomFeatures(3, redraw=redraw, random_state=seed)
    supports(selector, 3)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state")
    assert_array_equal(loaded.weights_, selector.weights_)
    for _ in range(5):
        assert_array_equal(loaded.partial_fit(X).weights_, selector.partial_fit(X).weights_)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"random_state": -1}, "random_state must be .* got -1"),
        ({"redraw": "yes"}, "redraw must be True or False; got 'yes'"),
        ({"n_features_to_select": 0}, "n_features_to_select must be .* got 0"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(RandomFeatures(**settings), learn)(X)


# --- fixed features -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "features",
    [
        [4, 1],
        (1, 4),
        np.array([4, 1]),
        [np.int8(1), np.int64(4)],
        {1, 4},
        range(1, 5, 3),
        [1, 4, 1],
    ],
    ids=repr,
)
def test_features_by_index(features, tmp_path):
    selector = FixedFeatures(features).partial_fit(X)
    assert_array_equal(selector.get_support(indices=True), [1, 4])
    assert_array_equal(selector.weights_, [0, 1, 0, 0, 1, 0, 0, 0])
    assert_array_equal(selector.transform(X), X[:, [1, 4]])
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state").partial_fit(X)
    assert_array_equal(loaded.get_support(indices=True), [1, 4])


@pytest.mark.parametrize(
    "features", [["größe", "e"], np.array(["e", "größe"]), ("größe", "e", "e")]
)
@pytest.mark.parametrize("library", [pd, pl])
def test_features_by_name(features, library, tmp_path):
    frame = library.DataFrame(dict(zip(NAMES, X.T, strict=True)))
    selector = FixedFeatures(features).partial_fit(frame)
    assert selector.get_feature_names_out().tolist() == ["größe", "e"]
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state").partial_fit(frame[NAMES[::-1]])
    assert_array_equal(loaded.get_support(indices=True), [1, 4])


def test_one_feature_needs_no_list():
    assert_array_equal(FixedFeatures(3).partial_fit(X).get_support(indices=True), [3])
    assert_array_equal(FixedFeatures("größe").partial_fit(FRAME).get_support(indices=True), [1])


def test_names_need_named_columns():
    with pytest.raises(ValueError, match=r"where columns have names, .* has no column 'e'"):
        FixedFeatures(["e"]).partial_fit(X)
    selector = FixedFeatures(["e"]).name_features(NAMES).partial_fit(X)
    assert_array_equal(selector.get_support(indices=True), [4])


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([], "at least one"),
        (["e", "nothing"], "has no column 'nothing'"),
        ([8], "^features must hold indices.* no column 8: .* has 8 columns"),
        ([-1], "no column -1"),
        ([1.5], "got 1.5"),
        ([True, False], "got True"),
        (["e", None], "got None"),
        (None, "^features must hold indices below n_features=8, or names"),
        (1.5, "^features must hold indices below n_features=8, or names"),
    ],
)
def test_features_that_make_no_sense_are_named(features, message):
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(FixedFeatures(features), learn)(FRAME)


@pytest.mark.parametrize("selector", [AllFeatures(), RandomFeatures(2, random_state=0)])
def test_fit_starts_afresh(selector):
    before = selector.fit(X).get_support()
    assert selector.fit(X[:, :5], object()).get_support().shape == (5,)
    assert_array_equal(selector.fit(X).get_support(), before)
