"""Labels: any a person would have, in any order of arrival, lead to the same weights."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires import FIRES
from fires.core.state import read_state

GRADIENT = {"update": "gradient", "score": "omega"}


def two_classes(n_batches=8, n_rows=20, seed=0):
    """Batches in which the first feature speaks for class 1, the second against it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_batches * n_rows, 5))
    y = (X[:, 0] - X[:, 1] + rng.normal(size=len(X)) > 0.3).astype(int)
    return X, y


def cut(X, y, n_rows=20):
    return [(X[i : i + n_rows], y[i : i + n_rows]) for i in range(0, len(y), n_rows)]


def learn(selector, batches, name=lambda codes: codes, classes=None):
    for X, codes in batches:
        selector.partial_fit(X, name(codes), classes=classes)
    return selector


def assert_same_belief(one, other, sign=1.0):
    assert_array_equal(one.weights_, other.weights_)
    assert_array_equal(one.importances_, sign * other.importances_)
    assert_array_equal(one.uncertainties_, other.uncertainties_)


def state(selector, folder):
    selector.save(folder / "state")
    header, arrays = read_state(folder / "state")
    return header, {name: (value.dtype, value.tobytes()) for name, value in arrays.items()}


def named(low, high, dtype=None):
    return lambda codes: np.array([low, high], dtype=dtype)[codes]


NAMES = {
    "{0, 1}": named(0, 1),
    "{-1, 1}": named(-1, 1),
    "{1, 2}": named(1, 2),
    "{2.0, 7.0}": named(2.0, 7.0),
    "bool": named(False, True),
    "uint8": named(0, 255, np.uint8),
    "int8": named(-128, 127, np.int8),
    "great ints": named(2**60, 2**60 + 1),
    "text": named("ham", "spam"),
    "text objects": named("ham", "spam", object),
    "text of two lengths": named("a", "b, but longer"),
    "int objects": named(0, 1, object),
    "bool objects": named(False, True, object),
    "list of ints": lambda codes: codes.tolist(),
    "list of text": lambda codes: [["no", "yes"][code] for code in codes],
    "list of bools": lambda codes: [bool(code) for code in codes],
    "tuple": lambda codes: tuple(codes.tolist()),
    "pandas": lambda codes: pd.Series(codes, index=codes + 7),
    "pandas text": lambda codes: pd.Series(named("no", "yes")(codes)),
    "pandas string": lambda codes: pd.Series(named("no", "yes")(codes), dtype="string"),
    "pandas category": lambda codes: pd.Series(named("no", "yes")(codes), dtype="category"),
    "pandas ordered category": lambda codes: pd.Series(
        pd.Categorical(named(3, 8)(codes), categories=[8, 3], ordered=True)
    ),
    "pandas Int64": lambda codes: pd.Series(codes, dtype="Int64"),
    "pandas boolean": lambda codes: pd.Series(codes.astype(bool), dtype="boolean"),
    "pandas object": lambda codes: pd.Series(codes.tolist(), dtype=object),
    "polars": lambda codes: pl.Series(codes),
    "polars text": lambda codes: pl.Series(named("no", "yes")(codes).tolist()),
    "polars bool": lambda codes: pl.Series(codes.astype(bool)),
    "polars category": lambda codes: pl.Series(
        named("no", "yes")(codes).tolist(), dtype=pl.Categorical
    ),
    "polars enum": lambda codes: pl.Series(
        named("no", "yes")(codes).tolist(), dtype=pl.Enum(["yes", "no"])
    ),
}

ORDERS = {
    "as they come": lambda y: np.arange(len(y)),
    "sorted by class": lambda y: np.argsort(y, kind="stable"),
    "the greater label first": lambda y: np.argsort(-y, kind="stable"),
}

orders = pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
names = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())


# Two classes


@names
@orders
def test_all_names_of_two_classes_lead_to_the_same_weights(name, order):
    X, y = two_classes()
    batches = cut(X[order(y)], y[order(y)])
    expected = learn(FIRES(2), batches, classes=[0, 1])
    found = learn(FIRES(2), batches, name)
    assert found.model_ == "probit"
    assert len(found.classes_) == 2
    assert_same_belief(found, expected)
    assert found.importances_[0] > 0 > found.importances_[1]


@names
def test_names_in_the_other_order_turn_the_sign_and_nothing_else(name):
    batches = cut(*two_classes())
    expected = learn(FIRES(2), batches)
    found = learn(FIRES(2), batches, lambda codes: name(1 - codes))
    assert_same_belief(found, expected, sign=-1.0)


SETTINGS = {
    "default": FIRES(2),
    "minmax": FIRES(2, scale="minmax"),
    "logistic": FIRES(2, model="logistic"),
    "as published": FIRES.as_published(2),
    "fast": FIRES(2, learning_rate=1.0),
}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("setting", SETTINGS)
@settings(max_examples=10)
@given(
    first=st.integers(0, 1),
    n_first=st.integers(1, 40),
    cuts=st.sets(st.integers(1, 59), max_size=6),
    seed=st.integers(0, 2**16),
)
def test_classes_found_on_the_way_are_as_good_as_classes_given(
    setting, kind, first, n_first, cuts, seed
):
    """However long only one of the two has been seen."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4)).round(1)
    y = np.r_[np.full(n_first, first), rng.integers(0, 2, size=60 - n_first)]
    params = SETTINGS[setting].get_params()
    given_, found = FIRES(**params), FIRES(**params)
    for rows in np.split(np.arange(60), sorted(cuts)):
        given_.partial_fit(kind(X[rows]), y[rows], classes=[0, 1])
        found.partial_fit(kind(X[rows]), y[rows])
    if len(found.classes_) == 2 or first == 1:
        assert_same_belief(found, given_)
    else:
        # The only label so far is the positive one, until a greater one comes.
        assert_same_belief(found, given_, sign=-1.0)


def test_classes_are_sorted_whatever_came_first():
    X, y = two_classes()
    selector = FIRES(2).partial_fit(X[y == 1], np.full(sum(y), "spam"))
    assert_array_equal(selector.classes_, ["spam"])
    selector.partial_fit(X[y == 0], np.full(sum(1 - y), "ham"))
    assert_array_equal(selector.classes_, ["ham", "spam"])


def test_labels_may_change_their_type_from_batch_to_batch():
    batches = cut(*two_classes())
    types = [np.int8, float, bool, object, np.uint64, np.float32, int, np.int32]
    expected = learn(FIRES(2), batches)
    found = FIRES(2)
    for (X, y), kind in zip(batches, types, strict=True):
        found.partial_fit(X, y.astype(kind))
    assert_same_belief(found, expected)
    assert_array_equal(found.classes_, [0, 1])


@pytest.mark.parametrize(
    "given_",
    [
        [0, 1],
        (1, 0),
        np.array([1, 0, 1, 0]),
        np.array([0.0, 1.0]),
        [False, True],
        pd.Index([0, 1]),
        pd.Series([1, 0]),
        pl.Series([1, 0]),
    ],
    ids=lambda g: f"{type(g).__name__} {list(g)}",
)
def test_classes_may_be_given_in_any_form_and_order(given_):
    batches = cut(*two_classes())
    found = learn(FIRES(2), batches, classes=given_)
    assert_array_equal(found.classes_, [0, 1])
    assert_same_belief(found, learn(FIRES(2), batches))


# Three classes and more


def three_classes(n_rows, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    return X, np.argmax(X[:, :3] + 0.5 * rng.normal(size=(n_rows, 3)), axis=1)


@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("third", "rows"),
    [(9, (-1, 1, None)), (5, (-1, None, 1)), (0, (None, -1, 1))],
    ids=["the greatest", "between", "the least"],
)
def test_a_third_label_makes_rows_for_and_against_and_a_fresh_one(
    kind, scale, third, rows, tmp_path
):
    X, y = two_classes()
    start = {"mu_init": 0.01, "sigma_init": 0.9, "learning_rate": 0.1}
    selector = FIRES(2, scale=scale, **GRADIENT, **start)
    selector.partial_fit(kind(X), np.where(y, 7, 3))
    mu, sigma = selector.importances_, selector.uncertainties_
    (offset,) = saved_arrays(selector, tmp_path)["intercept.mu"]
    # A step so small that nothing moves shows the rows as they were made.
    selector.set_params(learning_rate=1e-300).partial_fit(kind(X[:1]), [third])
    assert_array_equal(selector.classes_, sorted([3, 7, third]))
    arrays = saved_arrays(selector, tmp_path)
    shares = arrays["target.class_weight"] / 161
    fresh = np.array([sign is None for sign in rows])
    signs = np.array([sign or 0.0 for sign in rows])[:, None]
    expected_mu = np.where(fresh[:, None], 0.01, signs * mu)
    expected_sigma = np.where(fresh[:, None], 0.9, sigma)
    assert_allclose(shares[fresh], 1 / 161)
    assert_array_equal(arrays["sigma"], expected_sigma)
    assert_allclose(arrays["intercept.mu"], signs[:, 0] * offset, rtol=1e-12, atol=1e-290)
    if kind is np.asarray:  # for sparse rows, a file holds them before they are centred
        assert_allclose(arrays["mu"], expected_mu, rtol=1e-10)
    assert_allclose(selector.importances_, np.sqrt(shares @ expected_mu**2), rtol=1e-10)
    assert_allclose(selector.uncertainties_, np.sqrt(shares @ expected_sigma**2), rtol=1e-10)


def saved_arrays(selector, folder):
    selector.save(folder / "state")
    return read_state(folder / "state")[1]


def assert_many_class_law(selector, shares, folder):
    """Importance and uncertainty over classes, and the weight that follows from both."""
    arrays = saved_arrays(selector, folder)
    mu, sigma, counted = arrays["mu"], arrays["sigma"], arrays["target.class_weight"]
    assert_allclose(counted / counted.sum(), shares, rtol=1e-12)
    assert_allclose(selector.importances_, np.sqrt(shares @ mu**2), rtol=1e-12)
    assert_allclose(selector.uncertainties_, np.sqrt(shares @ sigma**2), rtol=1e-12)
    ls, lr = selector.uncertainty_penalty, selector.weight_penalty
    per_class = (mu**2 - ls * sigma**2) / (2.0 * lr)
    assert_allclose(selector.weights_, shares @ per_class, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("third", "rows"),
    [(9, (-1, 1, None)), (5, (-1, None, 1)), (0, (None, -1, 1))],
    ids=["the greatest", "between", "the least"],
)
def test_by_bayes_rule_too_a_third_label_makes_rows_for_and_against_and_a_fresh_one(
    kind, scale, third, rows, tmp_path
):
    X, y = two_classes()
    selector = FIRES(2, scale=scale).partial_fit(kind(X), np.where(y, 7, 3))
    mu, sigma = selector.importances_, selector.uncertainties_
    # A weight so small that nothing moves shows the rows as they were made.
    selector.partial_fit(kind(X[:1]), [third], sample_weight=[1e-12])
    assert_array_equal(selector.classes_, sorted([3, 7, third]))
    for row, sign in zip(selector.class_importances_, rows, strict=True):
        assert_allclose(row, (sign or 0.0) * mu, rtol=1e-6, atol=1e-12)
    # What a feature says is what it says of the class it matters most for.
    matter = np.abs(mu) > 3.0 * sigma
    assert matter.sum() >= 2
    assert_allclose(np.abs(selector.importances_)[matter], np.abs(mu)[matter], rtol=1e-6)
    assert_allclose(selector.uncertainties_[matter], sigma[matter], rtol=1e-6)


@pytest.mark.parametrize("given_", [None, [0, 1, 2]], ids=["found", "given"])
def test_weights_are_the_mean_over_classes_under_their_shares(given_, tmp_path):
    X, y = three_classes(400)
    penalties = {"uncertainty_penalty": 0.1, "weight_penalty": 0.02}
    selector = FIRES(3, **GRADIENT, learning_rate=0.5, **penalties)
    learn(selector, cut(X, y, 50), classes=given_)
    assert_many_class_law(selector, np.bincount(y) / 400, tmp_path)
    assert (selector.importances_ >= 0.0).all()
    assert_array_equal(selector.get_support(indices=True), [0, 1, 2])


def test_shares_count_the_rows_seen_before_the_third_label_came(tmp_path):
    X, y = three_classes(400)
    order = np.argsort(y == 2, kind="stable")
    selector = learn(FIRES(3, **GRADIENT, learning_rate=0.5), cut(X[order], y[order], 50))
    assert_many_class_law(selector, np.bincount(y) / 400, tmp_path)


def test_shares_count_rows_by_their_weight(tmp_path):
    X, y = three_classes(300)
    w = np.random.default_rng(3).uniform(0.5, 4.0, size=300)
    selector = FIRES(3, **GRADIENT)
    for rows in np.split(np.arange(300), 3):
        selector.partial_fit(X[rows], y[rows], sample_weight=w[rows])
    assert_many_class_law(selector, np.bincount(y, w) / w.sum(), tmp_path)


def test_many_classes_have_the_same_weights_under_any_name():
    X, y = three_classes(200)
    expected = learn(FIRES(3), cut(X, y))
    for name in (["a", "bc", "def"], [-4.0, 2.0, 30.0], np.array(["x", "y", "z"], dtype=object)):
        assert_same_belief(learn(FIRES(3), cut(X, np.array(name)[y])), expected)


def test_many_classes_found_on_the_way_lead_to_the_same_choice_as_classes_given():
    X, y = three_classes(3000)
    order = np.argsort(y, kind="stable")
    order[1000:] = np.random.default_rng(0).permutation(order[1000:])
    found = learn(FIRES(3), cut(X[order], y[order], 50))
    assert_array_equal(found.classes_, [0, 1, 2])
    assert_array_equal(found.get_support(indices=True), [0, 1, 2])


def test_a_stream_sorted_by_class_still_finds_its_features():
    X, y = three_classes(1500)
    order = np.argsort(y, kind="stable")
    selector = learn(FIRES(3), cut(X[order], y[order], 50))
    assert_array_equal(selector.classes_, [0, 1, 2])
    assert np.isfinite(selector.weights_).all()


@pytest.mark.parametrize("dtype", [None, object])
def test_longer_names_are_not_taken_for_shorter_ones(dtype, tmp_path):
    """NumPy would cut 'nobody' to 'no' where it writes it among shorter text."""
    X, y = three_classes(120)
    short, long = np.array(["no", "yes"], dtype), np.array(["no", "nobody", "yesterday"], dtype)
    selector = FIRES(2).partial_fit(X[:60], short[y[:60] % 2])
    selector.partial_fit(X[60:], long[y[60:]])
    assert selector.classes_.tolist() == ["no", "nobody", "yes", "yesterday"]
    assert saved_arrays(selector, tmp_path)["mu"].shape == (4, 6)


# Labels that are refused: an error, and the state is as before


def assert_refuses(selector, folder, words, X, y, error=ValueError, **arguments):
    before = state(selector, folder)
    with pytest.raises(error, match=words):
        selector.partial_fit(X, y, **arguments)
    assert state(selector, folder) == before


def test_a_label_that_is_not_among_the_classes_given_is_refused(tmp_path):
    X, y = two_classes()
    selector = FIRES(2).partial_fit(X, y, classes=[0, 1])
    assert_refuses(selector, tmp_path, r"the label 2, .*not in classes=\[0, 1\]", X, y + 1)
    assert_refuses(selector, tmp_path, "the label '[ab]'", X, np.where(y, "a", "b"))
    assert_refuses(selector, tmp_path, "the label 2", X, y + 1, classes=[0, 1])


def test_a_label_that_is_not_among_the_classes_given_is_refused_at_once():
    X, y = two_classes()
    selector = FIRES(2)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match="the label 1"):
        selector.partial_fit(X, y, classes=[0, 2])
    assert vars(selector) == before


@pytest.mark.parametrize("later", [[0, 1, 2], [0, 2], [1, 2], ["0", "1"], [0]], ids=str)
def test_classes_once_given_are_not_changed(later, tmp_path):
    X, y = two_classes()
    selector = FIRES(2).partial_fit(X, y, classes=[0, 1])
    assert_refuses(selector, tmp_path, "classes", X, y, classes=later)
    selector.partial_fit(X, y, classes=[1, 0])  # the same ones may be given again


def test_classes_given_later_must_hold_all_that_were_seen(tmp_path):
    X, y = two_classes()
    selector = FIRES(2).partial_fit(X, y)
    assert_refuses(selector, tmp_path, r"does not fit the classes known", X, y, classes=[1, 2])
    selector.partial_fit(X, y, classes=[0, 1, 2])
    assert_array_equal(selector.classes_, [0, 1, 2])
    assert_refuses(selector, tmp_path, "the label 3", X, y + 2)


@pytest.mark.parametrize("classes", [[], [1], [1, 1]])
def test_one_class_is_no_choice(classes):
    X, y = two_classes()
    with pytest.raises(ValueError, match="classes must name two labels or more"):
        FIRES(2).partial_fit(X, y, classes=classes)


@pytest.mark.parametrize(
    "classes",
    [[0, 1, None], [0, 1, np.nan], np.array([0, 1, "a"], dtype=object)],
    ids=["None", "NaN", "mixed"],
)
def test_classes_that_make_no_sense_are_refused(classes):
    X, y = two_classes()
    selector = FIRES(2)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=r"classes|order|NaN"):
        selector.partial_fit(X, y, classes=classes)
    assert vars(selector) == before


MIXED = {
    "text after numbers": (named(0, 1), named("a", "b")),
    "numbers after text": (named("a", "b"), named(0, 1)),
    "booleans after text": (named("a", "b"), named(False, True)),
    "text after booleans": (named(False, True), named("a", "b")),
    "digits after numbers": (named(0, 1), named("0", "1")),
    "both at once": (named(0, 1), named("a", 1, object)),
    "both at once, after text": (named("a", "b"), named("a", 1, object)),
}


@pytest.mark.parametrize("what", MIXED)
def test_text_and_numbers_do_not_mix(what, tmp_path):
    X, y = two_classes()
    first, then = MIXED[what]
    selector = FIRES(2).partial_fit(X, first(y))
    assert_refuses(selector, tmp_path, "cannot be put in order|mix", X, then(y))


def test_text_and_numbers_do_not_mix_in_the_first_batch():
    X, y = two_classes()
    for model in ("auto", "probit"):
        selector = FIRES(2, model=model)
        before = dict(vars(selector))
        with pytest.raises(ValueError, match=r"cannot be put in order|mix|Unknown label type"):
            selector.partial_fit(X, named("a", 1, object)(y))
        assert vars(selector) == before


# What "auto" decides

ROWS = np.random.default_rng(5).normal(size=(100, 3))


@pytest.mark.parametrize(
    ("y", "model"),
    [
        (ROWS[:, 0], "gaussian"),
        (ROWS[:, 0].astype(np.float32), "gaussian"),
        (pd.Series(ROWS[:, 0]), "gaussian"),
        (pl.Series(ROWS[:, 0]), "gaussian"),
        ([0.5], "gaussian"),
        ([1.0, 2.5], "gaussian"),
        (ROWS[:, 0] > 0, "probit"),
        (np.where(ROWS[:, 0] > 0, 2.0, 7.0), "probit"),
        (np.arange(100) % 20, "probit"),
        (np.arange(100) % 50, "probit"),
        (np.arange(20), "probit"),
        (np.arange(42) % 21, "probit"),
        ([f"label {i}" for i in range(100)], "probit"),
        ([3], "probit"),
        ([3.0], "probit"),
        ([True], "probit"),
        (["x"], "probit"),
    ],
    ids=str,
)
def test_the_kind_of_target_decides_the_model(y, model):
    selector = FIRES(1).partial_fit(ROWS[: len(y)], y)
    assert selector.model_ == model
    assert hasattr(selector, "classes_") == (model == "probit")
    assert selector.model == "auto"


@pytest.mark.parametrize(
    "y",
    [np.arange(100), np.arange(100) % 51, np.arange(41) % 21, np.arange(21)],
    ids=["all different", "51 of 100", "21 of 41", "21 of 21"],
)
def test_many_whole_numbers_are_a_question_to_the_user(y):
    selector = FIRES(1)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=r"model='gaussian'.*model='poisson'.*model='probit'"):
        selector.partial_fit(ROWS[: len(y)], y)
    assert vars(selector) == before
    for model in ("gaussian", "poisson", "probit"):
        assert FIRES(1, model=model).partial_fit(ROWS[: len(y)], y).model_ == model
    assert FIRES(1).partial_fit(ROWS[: len(y)], y, classes=np.arange(100)).model_ == "probit"


@pytest.mark.parametrize("dtype", [str, object])
def test_numbers_as_text_are_no_labels(dtype):
    y = ROWS[:, 0].astype(str).astype(dtype)
    with pytest.raises(ValueError, match="y holds numbers as text; convert them to numbers"):
        FIRES(1).partial_fit(ROWS, y)
    assert len(FIRES(1, model="probit").partial_fit(ROWS, y).classes_) == 100
    assert len(FIRES(1).partial_fit(ROWS, y, classes=y).classes_) == 100
    assert len(FIRES(1).partial_fit(ROWS, (np.arange(100) % 10).astype(dtype)).classes_) == 10


@pytest.mark.parametrize("dtype", ["M8[s]", "m8[s]", object])
def test_dates_and_durations_are_no_labels(dtype):
    y = np.arange(100).astype("M8[D]").astype(dtype)
    with pytest.raises(ValueError, match="holds dates or durations; convert them to numbers"):
        FIRES(1).partial_fit(ROWS, y)


def test_decimals_are_numbers_in_a_target_too():
    y = np.array([Decimal(repr(float(one))) for one in ROWS[:, 0]], dtype=object)
    same = FIRES(1).partial_fit(ROWS, ROWS[:, 0])
    assert_array_equal(FIRES(1).partial_fit(ROWS, y).importances_, same.importances_)


def test_many_whole_numbers_as_floats_are_numbers_and_it_says_so():
    with pytest.warns(UserWarning, match="taken as numeric, not as classes"):
        assert FIRES(1).partial_fit(ROWS, np.arange(100.0)).model_ == "gaussian"
    for model in ("gaussian", "poisson", "probit"):
        assert FIRES(1, model=model).partial_fit(ROWS, np.arange(100.0)).model_ == model


def test_many_whole_numbers_later_are_new_classes():
    selector = FIRES(1).partial_fit(ROWS, np.arange(100) % 3)
    selector.partial_fit(ROWS, np.arange(100))
    assert selector.model_ == "probit"
    assert len(selector.classes_) == 100


def test_the_family_never_changes(tmp_path):
    numbers = FIRES(1).partial_fit(ROWS, ROWS[:, 0])
    numbers.partial_fit(ROWS, np.arange(100) % 2)
    assert numbers.model_ == "gaussian"
    assert not hasattr(numbers, "classes_")
    assert_refuses(numbers, tmp_path, "gaussian needs numbers", ROWS, ["a", "b"] * 50)
    assert_refuses(numbers, tmp_path, "classes", ROWS, [0, 1] * 50, classes=[0, 1])

    classes = FIRES(1).partial_fit(ROWS, np.arange(100) % 2)
    assert_refuses(classes, tmp_path, r"not whole.*model='gaussian'", ROWS, ROWS[:, 0])
    assert_refuses(classes, tmp_path, r"not whole.*model='gaussian'", ROWS[:1], [0.5])
    assert classes.model_ == "probit"


@pytest.mark.parametrize("model", ["probit", "logistic"])
def test_fractions_are_no_classes(model):
    with pytest.raises(ValueError, match=r"not whole.*model='gaussian'"):
        FIRES(1, model=model).partial_fit(ROWS, ROWS[:, 0])


@pytest.mark.parametrize("model", ["gaussian", "poisson"])
@pytest.mark.parametrize("y", [["a", "b"] * 50, np.array(["a", 1] * 50, object)], ids=["U", "O"])
def test_text_is_no_number(model, y):
    selector = FIRES(1, model=model)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=f"{model} needs numbers in y"):
        selector.partial_fit(ROWS, y)
    assert vars(selector) == before


def test_counts_are_not_negative(tmp_path):
    selector = FIRES(1, model="poisson").partial_fit(ROWS, np.arange(100) % 4)
    assert_refuses(selector, tmp_path, "must not be negative", ROWS, np.arange(100) - 1)
    with pytest.raises(ValueError, match="must not be negative"):
        FIRES(1, model="poisson").partial_fit(ROWS, np.full(100, -1))


@pytest.mark.parametrize("model", ["gaussian", "poisson"])
def test_numbers_may_have_any_numeric_type(model):
    counts = np.arange(100) % 4
    expected = FIRES(1, model=model).partial_fit(ROWS, counts.astype(float))
    for y in (
        counts,
        counts.astype(np.uint8),
        counts.astype(np.float32),
        counts.astype(object),
        counts.tolist(),
        pd.Series(counts, dtype="Int64"),
        pl.Series(counts),
    ):
        assert_same_belief(FIRES(1, model=model).partial_fit(ROWS, y), expected)


def test_the_importance_of_a_number_has_its_sign():
    selector = FIRES(1)
    rng = np.random.default_rng(0)
    for _ in range(30):
        X = rng.normal(size=(50, 3))
        selector.partial_fit(X, 100.0 + 5.0 * X[:, 0] - 7.0 * X[:, 2] + rng.normal(size=50))
    assert selector.importances_[0] > 0 > selector.importances_[2]
    assert_array_equal(selector.ranking_, [2, 3, 1])


# What the caller passed
