"""The contract of all selectors of arriving features."""

import copy
import pickle
from contextlib import contextmanager

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import fires
from fires import (
    GFSFS,
    OGFS,
    OSFS,
    SAOLA,
    AlphaInvesting,
    FastOSFS,
    Grafting,
    GroupSAOLA,
    LeverageScores,
    rivals,
)
from fires.core.errors import StateError
from fires.core.state import read_state, write_state
from fires.rivals.arriving import base as arriving
from fires.rivals.arriving import groups
from fires.selectors import selector as selector_module

NUMBERS = {
    "AlphaInvesting": AlphaInvesting(),
    "OSFS": OSFS(alpha=0.05),
    "FastOSFS": FastOSFS(alpha=0.05),
    "SAOLA": SAOLA(alpha=0.05),
    "GroupSAOLA": GroupSAOLA(alpha=0.05),
    "OGFS": OGFS(),
    "GFSFS": GFSFS(alpha=0.05),
    "LeverageScores": LeverageScores(oversampling=0.5, random_state=3),
    "Grafting": Grafting(penalty=0.02),
    "Grafting squared": Grafting(penalty=0.02, loss="squared"),
}
CATEGORIES = {
    "OSFS g2": OSFS(test="g2", alpha=0.05),
    "FastOSFS chi2": FastOSFS(test="chi2", alpha=0.05),
    "SAOLA su": SAOLA(measure="su", threshold=0.01),
    "GroupSAOLA su": GroupSAOLA(measure="su", threshold=0.01),
}
ALL = NUMBERS | CATEGORIES
SUPERVISED = {name: s for name, s in ALL.items() if name != "LeverageScores"}
NAMES = [f"größe {j}" for j in range(24)]


def over(selectors):
    return pytest.mark.parametrize("selector", selectors.values(), ids=selectors.keys())


@pytest.fixture
def data(selector):
    """Rows with 24 related columns, few of which matter, and two classes; exact in float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 24)) + 0.7 * rng.normal(size=(90, 1))
    X[:, 17] = X[:, 3] + 0.3 * rng.normal(size=90)
    y = (X[:, 3] - X[:, 8] + X[:, 20] + 0.5 * rng.normal(size=90) > 0).astype(int)
    X = X.astype(np.float32).astype(np.float64)
    return (np.digitize(X, [-0.5, 0.5]).astype(float) if selector in CATEGORIES.values() else X), y


def learn(selector, X, y, *cuts):
    selector = clone(selector)
    for part in np.split(X, cuts, axis=1):
        selector.partial_fit_features(part, y)
    return selector


def state(selector):
    """Everything a selector would save, its arrays to the bit."""
    saved = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selector_module, "write_state", lambda path, *content: saved.append(content))
        selector.save("nowhere")
    header, arrays = saved[0]
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


@contextmanager
def torn_columns(place):
    """The columns end with an interrupt at this place."""
    columns = arriving._columns

    def torn(matrix, start):
        for j, column in columns(matrix, start):
            if j == place:
                raise KeyboardInterrupt
            yield j, column

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arriving, "_columns", torn)
        yield


def test_every_selector_of_arriving_features_is_here():
    names = {
        name
        for name in rivals.REGISTRY
        if issubclass(getattr(rivals, name), arriving.ArrivingFeatures)
    }
    assert names == {type(selector).__name__ for selector in ALL.values()}


# What is learnt


@over(ALL)
def test_some_columns_are_selected_and_have_a_weight(selector, data):
    fitted = learn(selector, *data)
    support = fitted.get_support()
    assert 0 < support.sum() < 24
    assert support.dtype == bool
    assert_array_equal(np.flatnonzero(support), fitted.get_support(indices=True))
    assert_array_equal(fitted.weights_ > 0.0, support)
    assert (fitted.n_features_in_, fitted.n_samples_, fitted.n_missing_) == (24, 90, 0)
    assert not hasattr(fitted, "feature_names_in_")
    assert not hasattr(fitted, "fit")


@over(ALL)
def test_the_same_columns_give_the_same(selector, data):
    one, two = (learn(selector, *data, 5, 11) for _ in range(2))
    assert state(one) == state(two)


@over({name: s for name, s in ALL.items() if not isinstance(s, groups.ArrivingGroups)})
def test_one_column_at_a_time_is_the_same_as_all_at_once(selector, data):
    whole = state(learn(selector, *data))
    assert state(learn(selector, *data, 7, 8)) == whole
    assert state(learn(selector, *data, *range(1, 24))) == whole


@over({name: s for name, s in ALL.items() if isinstance(s, GroupSAOLA)})
def test_groups_of_one_column_are_plain_saola(selector, data):
    single = learn(selector, *data, *range(1, 24))
    plain = learn(SAOLA(**selector.get_params()), *data)
    assert_array_equal(single.weights_, plain.weights_)


@over(ALL)
@pytest.mark.parametrize(
    "kind",
    [
        np.asfortranarray,
        lambda X: X.astype(np.float32),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
        lambda X: X.tolist(),
        sp.csr_array,
        sp.csr_matrix,
        sp.csc_array,
        pd.DataFrame,
        lambda X: pd.DataFrame(X, columns=NAMES[: X.shape[1]]),
        lambda X: pl.DataFrame(X, schema=NAMES[: X.shape[1]]),
    ],
    ids=[
        *("Fortran", "float32", "strided", "list", "csr", "csr matrix", "csc"),
        *("pandas", "pandas with names", "polars"),
    ],
)
def test_the_form_of_the_columns_does_not_matter(selector, kind, data):
    X, y = data
    plain = learn(selector, X, y)
    other = clone(selector).partial_fit_features(kind(X), y)
    assert_array_equal(other.weights_, plain.weights_)


@over({name: s for name, s in SUPERVISED.items() if name != "Grafting squared"})
def test_two_classes_may_be_called_anything(selector, data):
    X, y = data
    plain = learn(selector, X, y).weights_
    for labels in ([False, True], ["no", "yes"], [-1, 1], [2.0, 7.5], np.array(["a", "b"], object)):
        found = learn(selector, X, np.asarray(labels)[y]).weights_
        assert_array_equal(found > 0, plain > 0)
        np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_an_unsupervised_method_does_not_look_at_y():
    X = np.random.default_rng(0).normal(size=(20, 30))
    plain = LeverageScores(random_state=0).partial_fit_features(X)
    other = LeverageScores(random_state=0).partial_fit_features(X[:, :10], np.arange(20))
    other.partial_fit_features(X[:, 10:], ["something", "else"])
    assert_array_equal(other.weights_, plain.weights_)


# What is left alone


@over(ALL)
def test_nothing_passed_in_is_changed(selector, data):
    X, y = data
    X[::9, 4] = np.nan
    names = np.array(["no", "yes"])[y] if getattr(selector, "loss", "") != "squared" else y
    frame = pd.DataFrame(X, columns=NAMES)
    before = X.copy(), names.copy(), frame.copy()
    X.flags.writeable = names.flags.writeable = False
    learn(selector, X, names, 9).transform(X)
    clone(selector).partial_fit_features(frame, names).transform(frame)
    sparse = sp.csr_array(X)
    learnt = clone(selector).partial_fit_features(sparse, names)
    learnt.transform(sparse)
    assert_array_equal(X, before[0])
    assert_array_equal(names, before[1])
    pd.testing.assert_frame_equal(frame, before[2])
    assert_array_equal(sparse.toarray(), before[0])


@over(ALL)
def test_an_error_in_the_middle_changes_nothing(selector, data):
    X, y = data
    fitted = learn(selector, X[:, :12], y)
    before = state(fitted)
    with torn_columns(21), pytest.raises(KeyboardInterrupt):
        fitted.partial_fit_features(X[:, 12:], y)
    assert state(fitted) == before
    fitted.partial_fit_features(X[:, 12:], y)
    whole = state(learn(selector, X, y, 12))
    assert state(fitted) == whole
    fresh = clone(selector)
    with torn_columns(21), pytest.raises(KeyboardInterrupt):
        fresh.partial_fit_features(X, y)
    assert vars(fresh) == vars(clone(selector))


@over(CATEGORIES)
def test_a_column_of_numbers_among_categories_is_refused(selector, data):
    X, y = data
    fitted = learn(selector, X[:, :12], y)
    before = state(fitted)
    X[:, 20] = np.linspace(0.0, 1.0, 90)
    with pytest.raises(ValueError, match="Column 20 of X has 90 different values in 90 rows"):
        fitted.partial_fit_features(X[:, 12:], y)
    assert state(fitted) == before


# State


@over(ALL)
@pytest.mark.parametrize("cut", [1, 10, 23])
@pytest.mark.parametrize("named", [False, True])
def test_a_loaded_selector_goes_on_bit_for_bit(selector, cut, named, data, tmp_path):
    X, y = data
    X[::11, 2] = np.nan
    first, rest = X[:, :cut], X[:, cut:]
    if named:
        first = pd.DataFrame(first, columns=NAMES[:cut])
        rest = pl.DataFrame(rest, schema=NAMES[cut:])
    going = clone(selector).partial_fit_features(first, y)
    going.save(tmp_path / "one")
    loaded = fires.load(tmp_path / "one")
    assert type(loaded) is type(selector)
    assert loaded.get_params() == selector.get_params()
    assert state(loaded) == state(going)
    going.partial_fit_features(rest, y)
    loaded.partial_fit_features(rest, y)
    assert state(loaded) == state(going)
    assert_array_equal(loaded.weights_, going.weights_)
    assert_array_equal(loaded.get_feature_names_out(), going.get_feature_names_out())
    assert loaded.n_missing_ == 9


@over(ALL)
def test_what_is_dropped_takes_no_room(selector, data):
    X, y = data
    fitted = learn(selector, X, y)
    _, before = state(fitted)
    fitted.partial_fit_features(np.zeros((90, 500)), y)
    fitted.partial_fit_features(sp.csr_array((90, 500)), y)
    _, after = state(fitted)
    assert {name: shape for name, (_, shape, _) in after.items()} == {
        name: shape for name, (_, shape, _) in before.items()
    }
    assert fitted.n_features_in_ == 1024


@over(ALL)
def test_a_file_that_lacks_something_is_said_to(selector, data, tmp_path):
    fitted = learn(selector, *data)
    fitted.save(tmp_path / "state")
    header, arrays = read_state(tmp_path / "state")
    for name in ("chosen", next(name for name in sorted(arrays) if name != "chosen")):
        part = {key: value for key, value in arrays.items() if key != name}
        write_state(tmp_path / "part", header, part)
        with pytest.raises(StateError, match=f"data that {type(selector).__name__} needs"):
            fires.load(tmp_path / "part")


@over(ALL)
def test_copies_go_their_own_way(selector, data):
    X, y = data
    fitted = learn(selector, X[:, :12], y)
    before = state(fitted)
    for other in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
        other.partial_fit_features(X[:, 12:], y)
        assert_array_equal(other.weights_, learn(selector, X, y, 12).weights_)
    assert state(fitted) == before


# Names


@over(ALL)
def test_names_travel(selector, data):
    X, y = data
    fitted = clone(selector).partial_fit_features(pd.DataFrame(X[:, :9], columns=NAMES[:9]), y)
    fitted.partial_fit_features(pl.DataFrame(X[:, 9:], schema=NAMES[9:]), y)
    assert fitted.feature_names_in_.tolist() == NAMES
    selected = fitted.get_support(indices=True)
    assert fitted.get_feature_names_out().tolist() == [NAMES[j] for j in selected]
    backwards = pd.DataFrame(X, columns=NAMES)[NAMES[::-1]]
    assert_array_equal(fitted.transform(backwards), X[:, selected])
    with pytest.raises(ValueError, match="missing 'größe 5'; new 'other'"):
        fitted.transform(backwards.rename(columns={"größe 5": "other"}))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert_array_equal(fitted.transform(X), X[:, selected])


@over(ALL)
def test_a_name_comes_once(selector, data):
    X, y = data
    frame = pd.DataFrame(X, columns=NAMES)
    fitted = clone(selector).partial_fit_features(frame[NAMES[:9]], y)
    before = state(fitted)
    with pytest.raises(ValueError, match="'größe 8' has arrived before"):
        fitted.partial_fit_features(frame[NAMES[8:]], y)
    with pytest.raises(ValueError, match="'größe 9' occurs more than once"):
        fitted.partial_fit_features(frame[["größe 9", "größe 9"]], y)
    with pytest.raises(ValueError, match="X_new has no column names, but the columns before had"):
        fitted.partial_fit_features(X[:, 9:], y)
    assert state(fitted) == before
    unnamed = clone(selector).partial_fit_features(X[:, :9], y)
    with pytest.raises(ValueError, match="X_new has column names, but the columns before had none"):
        unnamed.partial_fit_features(frame[NAMES[9:]], y)
    assert unnamed.get_feature_names_out().tolist() == [
        f"x{j}" for j in unnamed.get_support(indices=True)
    ]


# Taking fewer


@over(ALL)
def test_the_best_of_the_selected(selector, data):
    X, y = data
    fitted = learn(selector, X, y)
    everything, weights = fitted.get_support(indices=True), fitted.weights_
    for k in (1, 2, np.int64(3)):
        few = fitted.set_params(n_features_to_select=k).get_support(indices=True)
        best = sorted(everything, key=lambda j: (-weights[j], j))[:k]
        assert few.tolist() == sorted(best)
        assert fitted.get_support().sum() == fitted.transform(X).shape[1] == len(few)
    for k in (1000, 0.999):
        few = fitted.set_params(n_features_to_select=k).get_support(indices=True)
        assert_array_equal(few, everything)
    assert fitted.set_params(n_features_to_select=0.01).get_support().sum() == 1
    assert_array_equal(fitted.weights_, weights)


def test_ties_go_to_the_lower_index():
    X = np.eye(6) * 3.0
    selector = LeverageScores(2, epsilon=0.0).partial_fit_features(X)
    assert selector.get_support(indices=True).tolist() == [0, 1]


@over(ALL)
@pytest.mark.parametrize("k", [0, -1, 1.5, True, "all", np.nan])
def test_a_number_of_features_that_makes_no_sense(selector, k, data):
    with pytest.raises(ValueError, match="n_features_to_select must be a positive integer"):
        clone(selector).set_params(n_features_to_select=k).partial_fit_features(*data)


# Rows, targets and values


@over(ALL)
def test_the_rows_stay_the_same(selector, data):
    X, y = data
    fitted = learn(selector, X[:, :9], y)
    before = state(fitted)
    with pytest.raises(ValueError, match="X_new has 89 rows and the columns before had 90"):
        fitted.partial_fit_features(X[:-1, 9:], y[:-1])
    assert state(fitted) == before


@over(SUPERVISED)
def test_the_target_stays_the_same(selector, data, tmp_path):
    X, y = data
    fitted = learn(selector, X[:, :9], y)
    before = state(fitted)
    with pytest.raises(ValueError, match="y is not the y of the calls before"):
        fitted.partial_fit_features(X[:, 9:], np.where(np.arange(90) == 50, 1 - y, y))
    fitted.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match="y is not the y of the calls before"):
        loaded.partial_fit_features(X[:, 9:], 1 - y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        fitted.partial_fit_features(X[:, 9:])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.partial_fit_features(X[:, 9:], y[:-1])
    assert state(fitted) == before
    # The same values in another form are the same target.
    fitted.partial_fit_features(X[:, 9:], pd.Series(y.astype(np.float32)))


@over(SUPERVISED)
def test_a_target_that_says_nothing_is_refused(selector, data):
    X, y = data
    with pytest.raises(ValueError, match="y is the same in every row"):
        clone(selector).partial_fit_features(X, np.ones(90))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        clone(selector).partial_fit_features(X, np.where(y == 1, np.nan, 0.0))


@over(ALL)
def test_columns_without_spread_or_without_entries_are_never_selected(selector, data):
    X, y = data
    if isinstance(selector, (LeverageScores, Grafting)):  # a constant may tell something there
        strange = np.column_stack([np.zeros(90), np.full(90, np.nan)])
    else:
        strange = np.column_stack([np.zeros(90), np.full(90, np.nan), np.full(90, 0.1)])
    fitted = clone(selector).partial_fit_features(strange, y)
    assert not fitted.get_support().any()
    assert fitted.n_missing_ == 90
    fitted.partial_fit_features(X, y)
    fitted.partial_fit_features(strange, y)
    assert fitted.get_support().any()
    assert not fitted.get_support()[[0, 1, -2, -1]].any()


@over(ALL)
def test_missing_entries_take_no_part(selector, data):
    X, y = data
    gaps = np.random.default_rng(1).random(X.shape) < 0.1
    X[gaps] = np.nan
    fitted = learn(selector, X, y)
    assert fitted.n_missing_ == gaps.sum()
    assert fitted.get_support().any()
    assert np.isfinite(fitted.weights_).all()
    sparse = clone(selector).partial_fit_features(sp.csr_array(X), y)
    assert_array_equal(sparse.weights_, fitted.weights_)


@over({n: s for n, s in NUMBERS.items() if not isinstance(s, (Grafting, LeverageScores))})
def test_huge_columns_are_as_good_as_any(selector, data):
    X, y = data
    huge = learn(selector, X * 1e149, y)
    np.testing.assert_allclose(huge.weights_, learn(selector, X, y).weights_, rtol=1e-9)


@over(ALL)
@pytest.mark.parametrize(
    ("value", "message"), [(np.inf, "contains infinity"), (1e200, "so large that a step")]
)
def test_values_that_nothing_can_be_done_with(selector, value, message, data):
    X, y = data
    fitted = learn(selector, X[:, :9], y)
    before = state(fitted)
    X[3, 11] = value
    with pytest.raises(ValueError, match=f"{message}.*row 3, column 2"):
        fitted.partial_fit_features(X[:, 9:], y)
    with pytest.raises(ValueError, match=f"{message}.*row 3, column 'größe 11'"):
        clone(selector).partial_fit_features(pd.DataFrame(X, columns=NAMES), y)
    with pytest.raises(ValueError):
        fitted.partial_fit_features(X[:, 9], y)
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        fitted.partial_fit_features(X[:, :0], y)
    assert state(fitted) == before


# The rest


@over(ALL)
def test_nothing_is_known_before_the_first_columns(selector, data, tmp_path):
    X, _ = data
    fresh = clone(selector)
    for ask in (
        fresh.get_support,
        fresh.get_feature_names_out,
        lambda: fresh.weights_,
        lambda: fresh.transform(X),
        lambda: fresh.save(tmp_path / "state"),
    ):
        with pytest.raises(NotFittedError, match="call partial_fit_features with the first col"):
            ask()


@over(ALL)
def test_transform_wants_all_columns_seen(selector, data):
    X, y = data
    fitted = learn(selector, X, y)
    selected = fitted.get_support(indices=True)
    assert_array_equal(fitted.transform(X[:5]), X[:5, selected])
    assert_array_equal(fitted.transform(sp.csr_array(X)).toarray(), X[:, selected])
    with pytest.raises(ValueError, match=r"X has 23 features, but .* is expecting 24 features"):
        fitted.transform(X[:, :-1])


@over(ALL)
def test_settings_travel(selector):
    assert clone(selector).get_params() == selector.get_params()
    assert repr(selector).startswith(type(selector).__name__)
    assert getattr(fires, type(selector).__name__) is type(selector)
