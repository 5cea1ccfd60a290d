"""Abuse: what is odd is borne, what is wrong is refused, and a refusal leaves no trace."""

import copy
import re
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from tests.pairs import pairwise

from fires import FIRES, OnlinePipeline
from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.state import read_state

KINDS = {"dense": np.asarray, "sparse": sp.csr_array}
SCALES = ["standard", "minmax", None]
# The update of the paper, and the default. What nothing is known of weighs -0.5 or 0.
UPDATES = {"gradient": ({"update": "gradient", "score": "omega"}, -0.5), "bayes": ({}, 0.0)}
GRADIENT = UPDATES["gradient"][0]
updates = pytest.mark.parametrize("update", UPDATES)
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
scales = pytest.mark.parametrize("scale", SCALES)


def batches(n, n_rows=20, n_features=5, seed=0):
    """The third feature decides."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(n_rows, n_features))
        yield X, (X[:, 2] + 0.5 * rng.normal(size=n_rows) > 0).astype(int)


def learnt(kind=np.asarray, scale="standard", n=3, **params):
    selector = FIRES(2, scale=scale, **params)
    for X, y in batches(n):
        selector.partial_fit(kind(X), y)
    return selector


def state(selector, folder):
    """Everything a saved selector holds: its header, and its arrays to the bit."""
    if not hasattr(selector, "n_samples_seen_"):
        return dict(vars(selector))
    selector.save(folder / "state")
    header, arrays = read_state(folder / "state")
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def assert_finite(selector):
    for name in ("weights_", "importances_", "uncertainties_"):
        assert np.isfinite(getattr(selector, name)).all()
    assert (selector.uncertainties_ >= 0.0).all()


# --- what is wrong is refused ---------------------------------------------------------------------

GOOD_X, GOOD_Y = next(batches(1, seed=7))


def spoilt(value, row=4, column=3):
    X = GOOD_X.copy()
    X[row, column] = value
    return X


# Each is what to pass as X (before it is made dense or sparse), y and sample_weight, and the words.
WRONG = {
    "infinity": (spoilt(np.inf), GOOD_Y, None, r"infinity.*row 4, column 3"),
    "minus infinity": (spoilt(-np.inf), GOOD_Y, None, r"infinity.*row 4, column 3"),
    "infinity after NaN": (
        spoilt(np.inf, 9, 0) + np.where(np.arange(5) == 1, np.nan, 0.0),
        GOOD_Y,
        None,
        r"infinity.*row 9, column 0",
    ),
    "1e200": (spoilt(1e200), GOOD_Y, None, "so large"),
    "-1e200": (spoilt(-1e200), GOOD_Y, None, "so large"),
    "1e300": (spoilt(1e300), GOOD_Y, None, "so large"),
    "all 1e200": (GOOD_X * 1e200, GOOD_Y, None, "so large"),
    "the greatest number": (spoilt(np.finfo(float).max), GOOD_Y, None, "so large"),
    "a huge value and a new class": (spoilt(1e200), np.arange(20) % 3, None, "so large"),
    "no row": (GOOD_X[:0], GOOD_Y[:0], None, r"0 sample\(s\)"),
    "no column": (GOOD_X[:, :0], GOOD_Y, None, r"0 feature\(s\)"),
    "too few columns": (GOOD_X[:, :4], GOOD_Y, None, "X has 4 features, but FIRES is expecting 5"),
    "too many columns": (np.c_[GOOD_X, GOOD_X], GOOD_Y, None, "X has 10 features"),
    "y too short": (GOOD_X, GOOD_Y[:-1], None, "X has 20 rows, y has 19"),
    "y too long": (GOOD_X[:-1], GOOD_Y, None, "X has 19 rows, y has 20"),
    "no y": (GOOD_X, None, None, "requires y to be passed, but the target y is None"),
    "NaN in y": (GOOD_X, np.where(GOOD_Y, 1.0, np.nan), None, "Input y contains NaN"),
    "infinity in y": (GOOD_X, np.where(GOOD_Y, 1.0, np.inf), None, "Input y contains infinity"),
    "None in y": (GOOD_X, [None, *GOOD_Y[1:]], None, r"Input y contains NaN or None.*row 0"),
    "fractions in y": (GOOD_X, GOOD_Y + 0.5, None, r"not whole.*model='gaussian'"),
    "a table of y": (GOOD_X, np.c_[GOOD_Y, GOOD_Y], None, "1d array"),
    "a negative weight": (GOOD_X, GOOD_Y, np.r_[-1.0, np.ones(19)], "not negative"),
    "a weight of NaN": (GOOD_X, GOOD_Y, np.r_[np.nan, np.ones(19)], "finite"),
    "an infinite weight": (GOOD_X, GOOD_Y, np.r_[np.inf, np.ones(19)], "finite"),
    "too few weights": (GOOD_X, GOOD_Y, np.ones(19), "sample_weight has 19"),
}
# All but these are refused at the door, before it is decided how to learn.
AT_THE_DOOR = [what for what, (*_, words) in WRONG.items() if words != "so large"]
TOO_LARGE = [what for what in WRONG if what not in AT_THE_DOOR]


@pairwise(what=AT_THE_DOOR, kind=KINDS, scale=SCALES, update=list(UPDATES))
def test_a_refused_batch_leaves_the_state_exactly_as_it_was(update, what, kind, scale, tmp_path):
    assert_no_trace(update, what, kind, scale, tmp_path)


@pairwise(what=TOO_LARGE, kind=KINDS, scale=SCALES, update=list(UPDATES))
def test_so_does_one_that_is_refused_while_it_is_learnt(update, what, kind, scale, tmp_path):
    assert_no_trace(update, what, kind, scale, tmp_path)


def assert_no_trace(update, what, kind, scale, tmp_path):
    X, y, weight, words = WRONG[what]
    selector = learnt(kind, scale, **UPDATES[update][0])
    twin = copy.deepcopy(selector)
    before = state(selector, tmp_path)
    weights = selector.weights_.copy()
    with pytest.raises(ValueError, match=words):
        selector.partial_fit(kind(X), y, sample_weight=weight)
    assert state(selector, tmp_path) == before
    assert_array_equal(selector.weights_, weights)
    # What is not in the file is as it was too: both go on alike.
    for one in (selector, twin):
        one.partial_fit(kind(GOOD_X), GOOD_Y)
    assert state(selector, tmp_path) == state(twin, tmp_path)


@pairwise(what=[what for what in WRONG if not what.endswith("columns")], kind=KINDS, scale=SCALES)
def test_a_selector_whose_first_batch_is_refused_is_as_new(what, kind, scale):
    """All but the number of columns, of which there is none to expect yet."""
    X, y, weight, words = WRONG[what]
    model = "probit" if "fractions" in what else "auto"
    selector = FIRES(2, scale=scale, model=model)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=words):
        selector.partial_fit(kind(X), y, sample_weight=weight)
    assert vars(selector) == before
    for name in ("weights_", "importances_", "uncertainties_", "ranking_", "classes_", "model_"):
        assert not hasattr(selector, name)
    for read in (
        lambda: selector.weights_,
        selector.get_support,
        selector.get_feature_names_out,
        lambda: selector.transform(GOOD_X),
        lambda: selector.mask(GOOD_X),
        lambda: selector.save("never written"),
    ):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            read()
    selector.partial_fit(kind(GOOD_X), GOOD_Y)
    assert selector.n_samples_seen_ == 20


@kinds
def test_a_refused_fit_leaves_what_was_learnt_before(kind, tmp_path):
    selector = learnt(kind)
    before = state(selector, tmp_path)
    X, y = np.tile(GOOD_X, (10, 1)), np.tile(GOOD_Y, 10)
    X[150, 0] = 1e200  # in the second of two batches
    with pytest.raises(ValueError, match="so large"):
        selector.fit(kind(X), y)
    assert state(selector, tmp_path) == before


@scales
def test_the_first_sparse_batch_after_dense_ones_may_be_refused_too(scale, tmp_path):
    selector = learnt(np.asarray, scale)
    before = state(selector, tmp_path)
    with pytest.raises(ValueError, match="so large"):
        selector.partial_fit(sp.csr_array(spoilt(1e200)), GOOD_Y)
    assert state(selector, tmp_path) == before


@pairwise(model=["logistic", "gaussian", "poisson"], kind=KINDS, scale=SCALES, update=list(UPDATES))
def test_huge_values_are_refused_by_every_model(update, model, kind, scale, tmp_path):
    selector = learnt(kind, scale, model=model, **UPDATES[update][0])
    before = state(selector, tmp_path)
    with pytest.raises(ValueError, match="so large"):
        selector.partial_fit(kind(spoilt(1e200)), GOOD_Y)
    assert state(selector, tmp_path) == before


@pytest.mark.parametrize(
    ("what", "model"),
    [("1e200", "probit"), ("all 1e200", "gaussian"), ("the greatest number", "poisson")],
)
def test_huge_values_are_refused_where_columns_are_many(what, model, tmp_path):
    """Such rows are scaled while they are learnt from."""
    selector = FIRES(2, model=model)
    for X, y in batches(3, n_features=150):
        selector.partial_fit(X, y)
    before = state(selector, tmp_path)
    X, y, _, words = WRONG[what]
    with pytest.raises(ValueError, match=words):
        selector.partial_fit(np.tile(X, 30), y)
    assert state(selector, tmp_path) == before


def borne_or_refused(selector, folder, words, *batch, **arguments):
    """Learn from the batch, or be refused with these words and keep the state as it was."""
    before = state(selector, folder)
    refusal = None
    try:
        selector.partial_fit(*batch, **arguments)
    except ValueError as error:
        refusal = str(error)
    if refusal is None:
        return True
    assert re.search(words, refusal)
    assert state(selector, folder) == before
    return False


@pairwise(
    model=["gaussian", "poisson"],
    kind=KINDS,
    scale=SCALES,
    size=[1e100, 1e200],
    update=list(UPDATES),
)
def test_a_huge_target_is_borne_or_refused_by_name(update, model, kind, scale, size, tmp_path):
    selector = learnt(kind, scale, model=model, **UPDATES[update][0])
    borne_or_refused(selector, tmp_path, r"\by\b", kind(GOOD_X), GOOD_Y * size)
    selector.partial_fit(kind(GOOD_X), GOOD_Y)
    assert_finite(selector)


@pytest.mark.parametrize("library", [pd, pl])
def test_an_infinite_value_is_named_by_its_column(library, tmp_path):
    names = ["a", "b", "c", "größe", "e"]
    frame = dict(zip(names, GOOD_X.T, strict=True))
    selector = FIRES(2).partial_fit(library.DataFrame(frame), GOOD_Y)
    before = state(selector, tmp_path)
    bad = library.DataFrame(frame | {"größe": spoilt(np.inf)[:, 3]})
    bad = bad[names[::-1]]  # named after its name, wherever it stands
    with pytest.raises(ValueError, match=r"infinity.*row 4, column 'größe'"):
        selector.partial_fit(bad, GOOD_Y)
    assert state(selector, tmp_path) == before
    with pytest.raises(ValueError, match=r"infinity.*row 4, column 'größe'"):
        FIRES(2).partial_fit(bad, GOOD_Y)


@kinds
def test_missing_values_are_refused_where_they_are_an_error(kind, tmp_path):
    selector = learnt(kind, missing="error")
    before = state(selector, tmp_path)
    bad = kind(spoilt(np.nan))
    for call in (lambda: selector.partial_fit(bad, GOOD_Y), lambda: selector.fit(bad, GOOD_Y)):
        with pytest.raises(ValueError, match=r"NaN.*row 4, column 3\).*missing='ignore'"):
            call()
        assert state(selector, tmp_path) == before
    for method in (selector.transform, selector.mask):
        with pytest.raises(ValueError, match=r"NaN.*row 4, column 3"):
            method(bad)
    assert selector.n_missing_ == 0


def test_one_dimension_is_refused(tmp_path):
    selector = learnt()
    before = state(selector, tmp_path)
    for X in (GOOD_X[0], GOOD_X[0].tolist(), pd.Series(GOOD_X[0])):
        with pytest.raises(ValueError, match=r"Expected (a )?2"):
            selector.partial_fit(X, [1])
    assert state(selector, tmp_path) == before


def test_a_sparse_matrix_that_points_outside_itself_is_refused():
    """In another process, because following it there may end this one."""
    code = """
    import numpy as np, scipy.sparse as sp
    from fires import FIRES
    learnt = FIRES(1).partial_fit(sp.csr_array(np.eye(2, 3)), [0, 1])
    for index in (3, -1, 10**7, -(10**7)):
        for selector in (FIRES(1), learnt):
            parts = np.ones(3), np.array([0, index, 1]), np.array([0, 2, 3])
            try:
                selector.partial_fit(sp.csr_array(parts, shape=(2, 3)), [0, 1])
                print("followed", index, flush=True)
            except ValueError:
                print("refused", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "refused\n" * 8)


class Moody:
    """A model that draws random numbers, and sometimes fails after it has."""

    def __init__(self):
        self.mood = "good"

    def init(self, n_features, n_classes, rng):
        return Belief(rng.normal(size=n_features), np.ones(n_features), {"offset": np.zeros(1)})

    def log_marginal(self, belief, X, y, weight, rng):
        return 0.0

    def gradient(self, belief, X, y, weight, rng):
        slope = rng.normal(size=belief.mu.shape)
        if self.mood == "raises":
            raise RuntimeError("not today")
        if self.mood == "interrupted":
            raise KeyboardInterrupt
        if self.mood == "nan":
            slope[0] = np.nan
        offset = np.full(1, np.inf if self.mood == "bad offset" else 0.1)
        return Belief(slope, -slope, {"offset": offset})

    def to_features(self, belief):
        return belief


@kinds
@scales
@pytest.mark.parametrize(
    ("mood", "error"),
    [
        ("raises", RuntimeError),
        ("interrupted", KeyboardInterrupt),
        ("nan", ValueError),
        ("bad offset", ValueError),
    ],
)
def test_a_model_that_fails_leaves_the_state_as_it_was(mood, error, kind, scale, tmp_path):
    model = Moody()
    selector = learnt(kind, scale, model=model, random_state=5)
    before = state(selector, tmp_path)
    model.mood = mood
    with pytest.raises(error):
        selector.partial_fit(kind(GOOD_X), GOOD_Y)
    assert state(selector, tmp_path) == before


def test_a_model_of_ones_own_keeps_its_classes(tmp_path):
    selector = learnt(model=Moody(), random_state=5)
    before = state(selector, tmp_path)
    with pytest.raises(ValueError, match="Moody cannot add new classes"):
        selector.partial_fit(GOOD_X, np.arange(20) % 3)
    assert state(selector, tmp_path) == before


# --- what is odd is borne -------------------------------------------------------------------------


@kinds
@scales
def test_batches_of_one_row_find_the_feature(kind, scale):
    selector = FIRES(1, scale=scale)
    for X, y in batches(300, n_rows=1):
        selector.partial_fit(kind(X), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [2])


@pairwise(kind=KINDS, scale=SCALES, model=["probit", "logistic"])
def test_a_stream_of_one_class_is_borne(kind, scale, model):
    selector = FIRES(1, scale=scale, model=model)
    for X, _ in batches(50):
        selector.partial_fit(kind(X), np.zeros(len(X)))
    assert_finite(selector)
    assert_array_equal(selector.classes_, [0])


@kinds
def test_batches_of_one_class_each_find_the_feature(kind):
    selector = FIRES(1)
    for X, y in batches(100):
        for label in (0, 1):
            if (y == label).any():
                selector.partial_fit(kind(X[y == label]), y[y == label])
    assert_array_equal(selector.get_support(indices=True), [2])


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("constant", [0.0, 1.0, -3.7, 1e6, 0.1])
@updates
def test_a_constant_column_is_never_touched(update, scale, constant):
    settings, unknown = UPDATES[update]
    selector = FIRES(1, scale=scale, **settings)
    for X, y in batches(100):
        selector.partial_fit(np.c_[np.full(len(X), constant), X], y)
    assert selector.weights_[0] == unknown
    assert_array_equal(selector.get_support(indices=True), [3])


@scales
@pytest.mark.parametrize("constant", [0.0, 1.0, -3.7])
def test_a_constant_sparse_column_does_not_win(scale, constant):
    selector = FIRES(1, scale=scale)
    for X, y in batches(60):
        selector.partial_fit(sp.csr_array(np.c_[np.full(len(X), constant), X]), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [3])


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@kinds
def test_a_column_that_wakes_up_is_learnt(kind, scale):
    selector = FIRES(1, scale=scale)
    for i, (X, y) in enumerate(batches(200)):
        if i < 50:
            X = X.copy()
            X[:, 2] = 4.0
        selector.partial_fit(kind(X), y)
    assert_array_equal(selector.get_support(indices=True), [2])


@given(exponents=st.lists(st.integers(-60, 60), min_size=5, max_size=5))
@settings(max_examples=15)
@kinds
@pytest.mark.parametrize("scale", ["standard", "minmax"])
def test_the_unit_of_a_column_does_not_matter(kind, scale, exponents):
    """Powers of two change no digit, so that not one of the weights changes either."""
    units = 2.0 ** np.array(exponents)
    plain, scaled = FIRES(1, scale=scale), FIRES(1, scale=scale)
    for X, y in batches(6):
        plain.partial_fit(kind(X), y)
        scaled.partial_fit(kind(X * units), y)
    assert_array_equal(scaled.weights_, plain.weights_)


@pytest.mark.parametrize("exponent", [-300, -200, -170, -160, -155, -150, -100, 6, 100, 149])
@kinds
def test_no_unit_is_too_small_or_too_great_for_the_others(kind, exponent):
    selector = FIRES(1)
    for X, y in batches(60):
        X = X.copy()
        X[:, 0] *= 10.0**exponent
        selector.partial_fit(kind(X), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [2])


@kinds
def test_no_scale_overflows_little_by_little(kind, tmp_path):
    """What is borne once is borne again and again: the sum of squares has room for it."""
    selector, plain = FIRES(1), FIRES(1)
    for X, y in batches(20):
        selector.partial_fit(kind(X * 1e149), y)
        plain.partial_fit(kind(X), y)
        assert_allclose(selector.weights_, plain.weights_, rtol=1e-9)
    assert not borne_or_refused(selector, tmp_path, "so large", kind(X * 1e153), y)


@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("offset", [-1e6, 1e3, 1e6, 1e9])
def test_the_offset_of_a_column_does_not_matter(scale, offset):
    plain, shifted = FIRES(1, scale=scale), FIRES(1, scale=scale)
    for X, y in batches(50):
        plain.partial_fit(X, y)
        shifted.partial_fit(X + offset, y)
    # What is left of X beside the offset has so many digits.
    assert_allclose(shifted.weights_, plain.weights_, rtol=abs(offset) * 1e-14 + 1e-9)
    assert_array_equal(shifted.ranking_[:1], plain.ranking_[:1])


@pytest.mark.parametrize(
    ("scale", "offset"),
    [
        ("standard", -10.0),
        ("standard", 3.0),
        ("standard", 100.0),
        ("minmax", -10.0),
        ("minmax", 3.0),
    ],
)
def test_an_offset_does_not_hide_the_feature_from_sparse_data(scale, offset):
    selector = FIRES(1, scale=scale)
    for X, y in batches(80):
        selector.partial_fit(sp.csr_array(X + offset), y)
    assert_array_equal(selector.get_support(indices=True), [2])


@kinds
@scales
def test_values_of_a_million_are_fine(kind, scale):
    selector = FIRES(1, scale=scale)
    for X, y in batches(200):
        selector.partial_fit(kind(X * 1e6), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [2])


# --- missing entries ------------------------------------------------------------------------------


def gaps(share, seed=0):
    rng = np.random.default_rng(seed)
    for X, y in batches(6):
        yield np.where(rng.random(X.shape) < share, np.nan, X), y


@kinds
def test_missing_entries_are_counted(kind):
    selector, expected = FIRES(2), 0
    for X, y in gaps(0.2):
        selector.partial_fit(kind(X), y)
        expected += np.isnan(X).sum()
        assert selector.n_missing_ == expected
    selector.transform(kind(X))
    selector.mask(kind(X))
    assert selector.n_missing_ == expected
    assert selector.n_samples_seen_ == 120
    fitted = FIRES(2, batch_size=7).fit(kind(X), y)
    assert fitted.n_missing_ == np.isnan(X).sum()


@kinds
@pytest.mark.parametrize("model", ["probit", "logistic"])
def test_without_a_scale_a_missing_entry_is_a_zero(kind, model):
    """Zero is what contributes nothing to a, v and both gradients."""
    with_gaps, with_zeros = FIRES(2, scale=None, model=model), FIRES(2, scale=None, model=model)
    for X, y in gaps(0.3):
        with_gaps.partial_fit(kind(X), y)
        with_zeros.partial_fit(kind(np.nan_to_num(X)), y)
    # Entries that are stored may be added up in another order than those that are not.
    rtol = 1e-12 if kind is sp.csr_array else 0.0
    assert_allclose(with_gaps.weights_, with_zeros.weights_, rtol=rtol)
    assert_allclose(with_gaps.importances_, with_zeros.importances_, rtol=rtol)


@given(row=st.integers(0, 15), column=st.integers(0, 4), seed=st.integers(0, 2**16))
def test_with_a_scale_a_missing_entry_is_as_if_it_were_the_mean(row, column, seed):
    """The mean is what contributes nothing to the step of the gradient.

    By Bayes' rule, what the entry might have added is noise: see the test of gappy rows.
    """
    (X0, y0), (X, y) = batches(2, n_rows=16, seed=seed)
    X0 = 0.25 * np.round(4.0 * X0) + 7.0  # the mean of sixteen quarters is exact
    selector = FIRES(2, learning_rate=0.5, **GRADIENT).partial_fit(X0, y0)
    twin = copy.deepcopy(selector)
    gap, mean = X + 7.0, X + 7.0
    gap[row, column] = np.nan
    mean[row, column] = X0[:, column].mean()
    selector.partial_fit(gap, y)
    twin.partial_fit(mean, y)
    assert_array_equal(selector.importances_, twin.importances_)
    assert_array_equal(selector.uncertainties_, twin.uncertainties_)


def test_a_part_of_a_batch_has_its_own_gaps():
    gaps = np.array([[True, False], [False, False], [False, True]])
    part = CheckedBatch(np.zeros((3, 2)), np.arange(3), gaps=gaps).part(np.array([0, 2]))
    assert_array_equal(part.gaps, gaps[[0, 2]])
    assert part.with_rows(part.X).gaps is None


@pytest.mark.parametrize("piped", [False, True])
def test_coefficients_of_gappy_rows_are_those_of_whole_ones(piped):
    """A third of the entries is missing; mean imputation alone would shrink them by a fifth."""
    rng = np.random.default_rng(0)
    selector = FIRES(3)
    thing = OnlinePipeline(selector) if piped else selector
    for _ in range(80):
        X = rng.normal(size=(100, 8))
        y = (X[:, :3] @ [1.0, -0.8, 0.6] + rng.normal(size=100) > 0.0).astype(int)
        X[rng.random(X.shape) < 0.33] = np.nan
        thing.partial_fit(X, y)
    low, high = selector.interval(0.99)
    truth = np.array([1.0, -0.8, 0.6, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert ((low < truth) & (truth < high)).all()
    assert (high - low).max() < 0.4


@kinds
@pytest.mark.parametrize("scale", ["standard", "minmax"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_the_scale_is_that_of_the_entries_that_are_there(kind, scale, share):
    """Rows without an entry are, for its scale, as if they had not come."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(5.0, 2.0, size=(400, 1)), rng.integers(0, 2, 400)
    there = rng.random(400) >= share
    gaps = np.where(there[:, None], X, np.nan)
    some, all_ = (FIRES(1, scale=scale, fit_intercept=False, **GRADIENT) for _ in range(2))
    for learnt_from, selector in ((there, some), (np.full(400, True), all_)):
        # A step so small that nothing moves leaves the scale alone to be seen.
        selector.set_params(learning_rate=1e-300)
        for batch in np.array_split(np.arange(400), 5):
            rows = batch[learnt_from[batch]]
            selector.partial_fit(kind(gaps[rows]), y[rows], classes=[0, 1])
        selector.set_params(learning_rate=1.0).partial_fit(kind(X[:50]), y[:50])
    assert_allclose(all_.importances_, some.importances_, rtol=1e-10)
    assert_allclose(all_.uncertainties_, some.uncertainties_, rtol=1e-10)


@kinds
@scales
@given(column=st.integers(0, 4), seed=st.integers(0, 2**16))
@settings(max_examples=15)
def test_a_feature_that_is_missing_throughout_a_batch_does_not_move(kind, scale, column, seed):
    if scale == "minmax" and kind is np.asarray:
        return  # a gap is then the mean, and not the minimum: only a zero says nothing
    selector = FIRES(2, scale=scale, learning_rate=0.1, **GRADIENT)
    *first, (X, y) = batches(4, seed=seed)
    for X0, y0 in first:
        selector.partial_fit(kind(X0 + 2.0), y0)
    before = selector.importances_[column], selector.uncertainties_[column]
    X = X + 2.0
    X[:, column] = np.nan
    selector.partial_fit(kind(X), y)
    assert_allclose(selector.importances_[column], before[0], rtol=1e-12, atol=1e-15)
    assert selector.uncertainties_[column] == before[1]


@pairwise(kind=KINDS, scale=SCALES, update=list(UPDATES))
def test_a_column_that_is_always_missing_is_as_if_it_were_not_there(update, kind, scale):
    settings, unknown = UPDATES[update]
    without, with_it = FIRES(2, scale=scale, **settings), FIRES(2, scale=scale, **settings)
    for X, y in batches(10):
        without.partial_fit(kind(X + 1.0), y)
        with_it.partial_fit(kind(np.c_[X[:, :2] + 1.0, np.full(len(X), np.nan), X[:, 2:] + 1.0]), y)
    rest = [0, 1, 3, 4, 5]
    # By Bayes' rule, the number of columns says when to begin to stretch the belief.
    error = 1e-12 if update == "gradient" else 0.1
    for name in ("weights_", "importances_"):
        ours, theirs = getattr(with_it, name)[rest], getattr(without, name)
        assert np.abs(ours - theirs).max() < error * np.abs(theirs).max()
    assert with_it.weights_[2] == unknown
    assert with_it.n_missing_ == 200


@kinds
@scales
def test_a_row_in_which_everything_is_missing_is_borne(kind, scale):
    selector = FIRES(1, scale=scale)
    for i, (X, y) in enumerate(batches(60)):
        X = X.copy()
        X[i % 20] = np.nan
        selector.partial_fit(kind(X), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [2])


@pairwise(kind=KINDS, scale=SCALES, update=list(UPDATES))
def test_first_batches_in_which_everything_is_missing_are_borne(update, kind, scale):
    settings, unknown = UPDATES[update]
    selector = FIRES(1, scale=scale, **settings)
    for _ in range(3):
        selector.partial_fit(kind(np.full((4, 5), np.nan)), [0, 1, 0, 1])
    assert_array_equal(selector.weights_, np.full(5, unknown))
    assert selector.n_missing_ == 60
    for X, y in batches(60):
        selector.partial_fit(kind(X), y)
    assert_finite(selector)
    assert_array_equal(selector.get_support(indices=True), [2])


@scales
def test_dense_batches_in_which_everything_is_missing_leave_no_trace(scale):
    late = FIRES(1, scale=scale, fit_intercept=False, **GRADIENT)
    fresh = FIRES(1, scale=scale, fit_intercept=False, **GRADIENT)
    late.partial_fit(np.full((4, 5), np.nan), [0, 1, 0, 1])
    for X, y in batches(10):
        late.partial_fit(X, y)
        fresh.partial_fit(X, y)
    assert_allclose(late.weights_, fresh.weights_, rtol=1e-12)


@kinds
@pytest.mark.parametrize("offset", [0.0, 20.0])
def test_entries_missing_in_one_class_do_not_make_a_feature(kind, offset):
    """The first column is noise about its offset, and unknown wherever the label is 1."""
    rng, selector = np.random.default_rng(0), FIRES(1)
    for _ in range(100):
        X = rng.normal(size=(50, 6))
        y = 0.5 * X[:, 2] + rng.normal(size=50) > 0
        X[:, 0] += offset
        X[y, 0] = np.nan
        selector.partial_fit(kind(X), y)
    assert_array_equal(selector.get_support(indices=True), [2])
    assert abs(selector.importances_[0]) < 0.1 * abs(selector.importances_[2])


@scales
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_dense_and_sparse_agree_where_entries_are_missing(scale, share):
    chosen = []
    for kind in KINDS.values():
        rng = np.random.default_rng(4)
        selector = FIRES(1, scale=scale)
        for X, y in batches(100):
            X = np.where(rng.random(X.shape) < share, np.nan, X + 1.0)
            selector.partial_fit(kind(X), y)
        chosen.append(selector.get_support(indices=True).tolist())
    assert chosen == [[2], [2]]


# --- weights --------------------------------------------------------------------------------------

TARGETS = {
    "two classes": ("auto", lambda rng, X: (X[:, 0] > 0).astype(int)),
    "three classes": ("auto", lambda rng, X: rng.integers(0, 3, len(X))),
    "logistic": ("logistic", lambda rng, X: (X[:, 1] > 0).astype(int)),
    "numbers": ("gaussian", lambda rng, X: X[:, 0] + rng.normal(size=len(X))),
    "counts": ("poisson", lambda rng, X: rng.integers(0, 5, len(X))),
}


@pairwise(kind=KINDS, scale=SCALES, target=list(TARGETS))
@given(seed=st.integers(0, 2**16), missing=st.booleans(), rate=st.sampled_from([0.01, 1.0]))
@settings(max_examples=8)
def test_a_row_of_weight_w_counts_as_w_rows(target, kind, scale, seed, missing, rate):
    model, label = TARGETS[target]
    rng = np.random.default_rng(seed)
    weighted = FIRES(2, scale=scale, model=model, learning_rate=rate, **GRADIENT)
    repeated = FIRES(2, scale=scale, model=model, learning_rate=rate, **GRADIENT)
    for _ in range(3):
        X = rng.normal(1.0, 1.0, size=(9, 4)).round(2)
        y = label(rng, X)
        if missing:
            X[rng.random(X.shape) < 0.2] = np.nan
        w = rng.integers(0, 4, size=9)
        w[y == y.max()] = np.maximum(w[y == y.max()], 1)
        # Of weight 0 there may be rows, but not all that have a label: it would be unseen.
        for value in np.unique(y) if model in ("auto", "logistic") else []:
            w[np.flatnonzero(y == value)[0]] = 1
        weighted.partial_fit(kind(X), y, sample_weight=w)
        repeated.partial_fit(kind(np.repeat(X, w, axis=0)), np.repeat(y, w))
    assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-9, atol=1e-12)
    assert_allclose(weighted.importances_, repeated.importances_, rtol=1e-9, atol=1e-12)
    assert_allclose(weighted.uncertainties_, repeated.uncertainties_, rtol=1e-9)


# With much noise.
@pairwise(kind=KINDS, scale=SCALES, target=["three classes", "numbers", "counts"])
def test_by_bayes_rule_weights_count_as_their_effective_number_of_rows(target, kind, scale):
    """So the posterior is about that of rows repeated in proportion, and as wide.

    Rows that come several times are noticed as such. On average the weight is 1.5 and its square
    3.5: each repeated row counts as 3 / 7 of one, by its weight or by the inflation.
    """
    model, label = TARGETS[target]
    rng = np.random.default_rng(0)
    weighted, repeated = (FIRES(2, scale=scale, model=model, drift=None) for _ in range(2))
    for _ in range(30):
        X = rng.normal(1.0, 1.0, size=(50, 4))
        y, w = label(rng, X), rng.integers(0, 4, size=50)
        weighted.partial_fit(kind(X), y, sample_weight=w)
        repeated.partial_fit(kind(np.repeat(X, w, axis=0)), np.repeat(y, w))
    ours, theirs = weighted.class_importances_, repeated.class_importances_
    assert np.abs(ours - theirs).max() < 0.15 * max(np.abs(theirs).max(), 0.5)
    wider = weighted.uncertainties_ / repeated.uncertainties_
    assert ((wider > 0.75) & (wider < 1.35)).all()


@pairwise(kind=KINDS, scale=SCALES, update=list(UPDATES), target=list(TARGETS))
def test_a_row_of_weight_0_is_as_if_it_had_not_come(target, update, kind, scale):
    model, label = TARGETS[target]
    rng = np.random.default_rng(0)
    settings = {"scale": scale, "model": model, **UPDATES[update][0]}
    some, rest = FIRES(2, **settings), FIRES(2, **settings)
    for _ in range(30):
        X = rng.normal(1.0, 1.0, size=(30, 4))
        y, there = label(rng, X), rng.random(30) < 0.7
        X[~there] *= 100.0
        some.partial_fit(kind(X), y, sample_weight=1.0 * there)
        rest.partial_fit(kind(X[there]), y[there])
    for name in ("weights_", "importances_", "uncertainties_"):
        assert_allclose(getattr(some, name), getattr(rest, name), rtol=1e-6, atol=1e-9)
    assert [alarm.strength for alarm in some.alarms_] == pytest.approx(
        [alarm.strength for alarm in rest.alarms_]
    )


@kinds
@scales
@updates
def test_weights_of_one_change_nothing(update, kind, scale):
    settings = UPDATES[update][0]
    plain, weighted = learnt(kind, scale, **settings), FIRES(2, scale=scale, **settings)
    for X, y in batches(3):
        weighted.partial_fit(kind(X), y, sample_weight=np.ones(len(y)))
    assert_array_equal(weighted.weights_, plain.weights_)


@kinds
@scales
@given(exponent=st.integers(-40, 40))
@settings(max_examples=10)
def test_a_weight_that_all_rows_share_does_not_change_the_step(kind, scale, exponent):
    """It counts only against the other batches, and for the scale of those to come."""
    plain, weighted = learnt(kind, scale, **GRADIENT), learnt(kind, scale, **GRADIENT)
    plain.partial_fit(kind(GOOD_X), GOOD_Y)
    weighted.partial_fit(kind(GOOD_X), GOOD_Y, sample_weight=np.full(20, 2.0**exponent))
    assert_allclose(weighted.importances_, plain.importances_, rtol=1e-6)
    assert_allclose(weighted.uncertainties_, plain.uncertainties_, rtol=1e-9)


@pairwise(
    kind=KINDS,
    scale=SCALES,
    size=[5e-324, 1e-310, 1e-300, 1e18, 1e300, 1e307],
    update=list(UPDATES),
)
def test_weights_of_any_size_are_borne_or_refused(update, kind, scale, size, tmp_path):
    settings = UPDATES[update][0]
    selector, plain = learnt(kind, scale, **settings), learnt(kind, scale, **settings)
    plain.partial_fit(kind(GOOD_X), GOOD_Y)
    weights = np.full(20, size)
    borne = borne_or_refused(
        selector, tmp_path, "weight", kind(GOOD_X), GOOD_Y, sample_weight=weights
    )
    if borne and update == "gradient":  # a step as long as any
        assert_allclose(selector.importances_, plain.importances_, rtol=1e-4)
    selector.partial_fit(kind(GOOD_X), GOOD_Y)
    assert_finite(selector)


@kinds
def test_one_weight_stands_for_all_rows(kind):
    one, all_ = learnt(kind), learnt(kind)
    one.partial_fit(kind(GOOD_X), GOOD_Y, sample_weight=3)
    all_.partial_fit(kind(GOOD_X), GOOD_Y, sample_weight=np.full(20, 3.0))
    assert_array_equal(one.weights_, all_.weights_)


@kinds
def test_fit_bears_whole_batches_without_weight(kind):
    X, y = np.vstack([X for X, _ in batches(4)]), np.concatenate([y for _, y in batches(4)])
    w = np.r_[np.zeros(20), np.ones(20), np.zeros(20), np.ones(20)]
    some = FIRES(2, batch_size=20).fit(kind(X), y, sample_weight=w)
    rest = FIRES(2, batch_size=20).fit(kind(X[w > 0]), y[w > 0])
    assert_array_equal(some.weights_, rest.weights_)
