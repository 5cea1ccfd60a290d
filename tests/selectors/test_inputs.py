"""X in every form people have it: the same numbers lead to the same weights."""

import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires import FIRES

NAMES = ["age", "größe", "c", "d e", "ẞ", "Z"]


def batches(n_batches=4, n_rows=30, seed=0):
    """Small whole numbers, many of them zero: they fit into every type."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 5, size=(n_batches, n_rows, 6)) * (rng.random((n_batches, n_rows, 6)) < 0.6)
    y = X[:, :, 1] + X[:, :, 4] + rng.normal(size=X.shape[:2]) > 3
    return list(zip(X.astype(float), y.astype(int), strict=True))


def learn(form, selector=None, data=None):
    selector = FIRES(2) if selector is None else selector
    for X, y in batches() if data is None else data:
        selector.partial_fit(form(X), y)
    return selector


def assert_same_belief(one, other, rtol=0.0):
    assert_allclose(one.weights_, other.weights_, rtol=rtol)
    assert_allclose(one.importances_, other.importances_, rtol=rtol, atol=1e-15 if rtol else 0.0)
    assert_allclose(one.uncertainties_, other.uncertainties_, rtol=rtol)
    assert one.n_missing_ == other.n_missing_
    assert one.n_samples_seen_ == other.n_samples_seen_


def strided(X):
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, ::3] = X
    return wide[::2, ::3]


def backwards(X):
    return X[::-1, ::-1].copy()[::-1, ::-1]


def read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


# Dense forms

DENSE = {
    "F order": np.asfortranarray,
    "strided": strided,
    "backwards": backwards,
    "read-only": read_only,
    "read-only F": lambda X: read_only(np.asfortranarray(X)),
    "big-endian": lambda X: X.astype(">f8"),
    "float16": lambda X: X.astype(np.float16),
    "longdouble": lambda X: X.astype(np.longdouble),
    **{
        name: lambda X, name=name: X.astype(name)
        for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    },
    "object": lambda X: X.astype(object),
    "object of ints": lambda X: X.astype(int).astype(object),
    "lists": lambda X: X.tolist(),
    "tuples": lambda X: tuple(map(tuple, X.astype(int).tolist())),
    "subclass": lambda X: X.view(np.recarray),
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "pandas F": lambda X: pd.DataFrame(np.asfortranarray(X), columns=NAMES),
    "pandas column by column": lambda X: pd.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "pandas unnamed": pd.DataFrame,
    "pandas int": lambda X: pd.DataFrame(X.astype(int), columns=NAMES),
    "pandas uint8": lambda X: pd.DataFrame(X.astype("uint8"), columns=NAMES),
    "pandas Int64": lambda X: pd.DataFrame(X, columns=NAMES).astype("Int64"),
    "pandas Float64": lambda X: pd.DataFrame(X, columns=NAMES).astype("Float64"),
    "pandas object": lambda X: pd.DataFrame(X, columns=NAMES).astype(object),
    "pandas mixed": lambda X: pd.DataFrame(X, columns=NAMES).astype(
        {"age": "int8", "c": "Int32", "d e": "float32", "ẞ": "UInt16", "Z": object}
    ),
    "pandas category": lambda X: pd.DataFrame(X, columns=NAMES).astype({"c": "category"}),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "polars int": lambda X: pl.DataFrame(X.astype(int), schema=NAMES),
    "polars chunks": lambda X: pl.concat(
        [pl.DataFrame(X[:7], schema=NAMES), pl.DataFrame(X[7:], schema=NAMES)], rechunk=False
    ),
    "polars mixed": lambda X: pl.DataFrame(X, schema=NAMES).cast(
        {"age": pl.Int8, "c": pl.Float32, "ẞ": pl.UInt64, "Z": pl.Decimal(10, 3)}
    ),
}

SCALES = ["standard", "minmax", None]


def in_turn(forms):
    """Run a test over forms, each with one scale: behind the door, no scale sees the form."""
    cases = [
        pytest.param(form, SCALES[i % 3], id=f"{name}-{SCALES[i % 3]}")
        for i, (name, form) in enumerate(forms.items())
    ]
    return pytest.mark.parametrize(("form", "scale"), cases)


@in_turn(DENSE)
def test_every_dense_form_leads_to_the_same_weights(form, scale):
    expected = learn(np.asarray, FIRES(2, scale=scale))
    assert_same_belief(learn(form, FIRES(2, scale=scale)), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.astype(np.float32),
        lambda X: np.asfortranarray(X, dtype=np.float32),
        lambda X: X.astype(np.float32).repeat(2, axis=1)[:, ::2],
        lambda X: pd.DataFrame(X.astype(np.float32)),
        lambda X: pl.DataFrame(X.astype(np.float32)),
    ],
    ids=["C", "F", "strided", "pandas", "polars"],
)
def test_single_precision_leads_to_nearly_the_same_weights(form, scale):
    rng = np.random.default_rng(1)
    data = [(X := rng.normal(3.0, 2.0, size=(30, 6)), X[:, 0] > 3.0) for _ in range(4)]
    expected = learn(np.asarray, FIRES(2, scale=scale), data)
    found = learn(form, FIRES(2, scale=scale), data)
    # Rounding moves the scales, which the sums follow: by a millionth of the greatest weight.
    assert_allclose(found.weights_, expected.weights_, rtol=1e-6, atol=1e-7)
    assert_allclose(found.uncertainties_, expected.uncertainties_, rtol=1e-6)
    assert found.importances_.dtype == np.float64


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.astype(bool),
        lambda X: X.astype(bool).tolist(),
        lambda X: pd.DataFrame(X.astype(bool)),
        lambda X: pd.DataFrame(X.astype(bool)).astype("boolean"),
        lambda X: pd.DataFrame(X).astype({0: bool, 3: bool}),
        lambda X: pl.DataFrame(X.astype(bool)),
        lambda X: sp.csr_array(X.astype(bool)),
    ],
    ids=["numpy", "lists", "pandas", "pandas boolean", "pandas mixed", "polars", "sparse"],
)
def test_booleans_are_zeros_and_ones(form):
    data = [((X > 2).astype(float), y) for X, y in batches()]
    plain = sp.csr_array if sp.issparse(form(data[0][0])) else np.asarray
    assert_same_belief(learn(form, data=data), learn(plain, data=data), rtol=1e-12)


def with_gaps(X):
    X = X.copy()
    X[1::7, 2] = np.nan
    X[3, :] = np.nan
    X[::5, 0] = np.nan
    return X


GAPS = {
    "object with None": lambda X: np.where(np.isnan(X), None, X.astype(object)),
    "lists with None": lambda X: np.where(np.isnan(X), None, X.astype(object)).tolist(),
    "float32": lambda X: X.astype(np.float32),
    "F order": np.asfortranarray,
    "pandas": lambda X: pd.DataFrame(X),
    "pandas Int64": lambda X: pd.DataFrame(X).astype("Int64"),
    "pandas Float64": lambda X: pd.DataFrame(X).astype("Float64"),
    "pandas boolean and others": lambda X: pd.DataFrame(X).astype({2: "Float32", 0: "Int8"}),
    "polars NaN": lambda X: pl.DataFrame(X),
    "polars null": lambda X: pl.DataFrame(X).fill_nan(None),
    "polars int with null": lambda X: pl.DataFrame(X).fill_nan(None).cast(pl.Int16),
    "polars float32 with null": lambda X: pl.DataFrame(X).fill_nan(None).cast(pl.Float32),
    "polars decimal with null": lambda X: pl.DataFrame(X).fill_nan(None).cast(pl.Decimal(12, 2)),
}


@pytest.mark.parametrize("form", GAPS.values(), ids=GAPS.keys())
def test_what_is_missing_is_missing_in_every_form(form):
    data = [(with_gaps(X), y) for X, y in batches()]
    expected = learn(np.asarray, data=data)
    assert expected.n_missing_ == sum(np.isnan(X).sum() for X, _ in data) > 0
    assert_same_belief(learn(form, data=data), expected, rtol=1e-12)


def test_missing_booleans_of_pandas_and_polars_are_missing():
    values = [True, None, False, True, None, False]
    y = [1, 1, 0, 1, 0, 0]
    plain = np.array([[1.0], [np.nan], [0.0], [1.0], [np.nan], [0.0]])
    expected = FIRES(1).partial_fit(plain, y)
    for X in (pd.DataFrame({"a": pd.array(values, "boolean")}), pl.DataFrame({"a": values})):
        assert_same_belief(FIRES(1).partial_fit(X, y), expected)


def test_masked_entries_are_missing_or_refused_but_never_used():
    X, y = batches()[0]
    masked = np.ma.masked_greater(X, 3.0)
    expected = FIRES(2).partial_fit(masked.filled(np.nan), y)
    try:
        found = FIRES(2).partial_fit(masked, y)
    except (TypeError, ValueError):
        return
    assert_same_belief(found, expected)


def test_decimals_are_numbers():
    values = [decimal.Decimal(n) / 8 for n in range(10)]
    expected = FIRES(1).partial_fit(np.arange(10.0)[:, None] / 8, np.arange(10) > 4)
    for library in (pd, pl):
        X = library.DataFrame({"price": values})
        assert_same_belief(FIRES(1).partial_fit(X, np.arange(10) > 4), expected)


# Sparse forms


def with_duplicates(X):
    """Each entry as two halves, the columns of a row in the wrong order."""
    whole = sp.csr_array(X)
    order = np.lexsort((-whole.indices, whole.tocoo().coords[0]))
    data = np.repeat(whole.data[order] / 2, 2)
    indices = np.repeat(whole.indices[order], 2)
    return sp.csr_array((data, indices, 2 * whole.indptr), shape=X.shape)


def with_zeros(X):
    dense = sp.csr_array(np.ones_like(X))
    return sp.csr_array((X.ravel(), dense.indices, dense.indptr), shape=X.shape)


def wide_indices(X, kind=sp.csr_array):
    X = kind(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def frozen(X):
    X = sp.csr_array(X)
    for part in (X.data, X.indices, X.indptr):
        part.flags.writeable = False
    return X


SPARSE = {
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "csc_matrix": sp.csc_matrix,
    "coo_array": sp.coo_array,
    "coo_matrix": sp.coo_matrix,
    "lil_array": sp.lil_array,
    "dok_array": sp.dok_array,
    "int8": lambda X: sp.csr_array(X.astype(np.int8)),
    "int64": lambda X: sp.csc_array(X.astype(np.int64)),
    "uint8": lambda X: sp.coo_array(X.astype(np.uint8)),
    "duplicates": with_duplicates,
    "coo duplicates": lambda X: with_duplicates(X).tocoo(),
    "explicit zeros": with_zeros,
    "int64 indices": wide_indices,
    "int64 indices of a matrix": lambda X: wide_indices(X, sp.csr_matrix),
    "read-only": frozen,
    "sliced": lambda X: sp.csr_array(np.vstack([X, X]))[: len(X)],
    "pandas sparse": lambda X: pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)),
}


@in_turn(SPARSE)
def test_every_sparse_form_leads_to_the_same_weights(form, scale):
    expected = learn(sp.csr_array, FIRES(2, scale=scale))
    assert_same_belief(learn(form, FIRES(2, scale=scale)), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_single_precision_leads_to_nearly_the_same_weights(kind, scale):
    data = [(X / 7.0, y) for X, y in batches()]
    expected = learn(sp.csr_array, FIRES(2, scale=scale), data)
    found = learn(lambda X: kind(X.astype(np.float32)), FIRES(2, scale=scale), data)
    assert_allclose(found.weights_, expected.weights_, rtol=1e-6, atol=1e-7)


def test_without_a_scale_dense_and_sparse_are_the_same():
    expected = learn(np.asarray, FIRES(2, scale=None))
    assert_same_belief(learn(sp.csr_array, FIRES(2, scale=None)), expected, rtol=1e-12)
    alternating = FIRES(2, scale=None)
    for (X, y), form in zip(batches(), [np.asarray, sp.csr_array] * 2, strict=True):
        alternating.partial_fit(form(X), y)
    assert_same_belief(alternating, expected, rtol=1e-12)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_dense_and_sparse_of_the_same_data_lead_to_the_same_choice(scale, share):
    rng = np.random.default_rng(3)
    strength = np.r_[2.0, -2.0, 1.5, np.zeros(17)]
    data = []
    for _ in range(80):
        X = rng.uniform(0.5, 2.0, size=(50, 20)) * (rng.random((50, 20)) < share)
        data.append((X, (X - 1.25 * share) @ strength + 0.5 * rng.normal(size=50) > 0))
    first_dense = FIRES(3, scale=scale)
    for i, (X, y) in enumerate(data):
        first_dense.partial_fit(sp.csr_array(X) if i > 40 else X, y)
    for selector in (
        learn(np.asarray, FIRES(3, scale=scale), data),
        learn(sp.csr_array, FIRES(3, scale=scale), data),
        first_dense,
    ):
        assert_array_equal(selector.get_support(indices=True), [0, 1, 2])


# Names

FRAMES = {
    "pandas": lambda X, names: pd.DataFrame(X, columns=names),
    "polars": lambda X, names: pl.DataFrame(X, schema=list(names)),
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES.keys())
other_frames = pytest.mark.parametrize("other", FRAMES.values(), ids=FRAMES.keys())


@frames
def test_names_travel_through(frame):
    selector = learn(lambda X: frame(X, NAMES))
    assert selector.feature_names_in_.tolist() == NAMES
    assert selector.feature_names_in_.dtype == object
    chosen = selector.get_support(indices=True)
    assert chosen.tolist() == [1, 4]
    assert selector.get_feature_names_out().tolist() == ["größe", "ẞ"]
    assert selector.get_feature_names_out(NAMES).tolist() == ["größe", "ẞ"]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        selector.get_feature_names_out(NAMES[::-1])


def test_without_names_features_are_numbered():
    selector = learn(np.asarray)
    assert not hasattr(selector, "feature_names_in_")
    assert selector.get_feature_names_out().tolist() == ["x1", "x4"]
    assert selector.get_feature_names_out(NAMES).tolist() == ["größe", "ẞ"]
    with pytest.raises(ValueError, match="length equal to number of features"):
        selector.get_feature_names_out(["a"])


@frames
@pytest.mark.parametrize("method", ["partial_fit", "transform", "mask"])
def test_columns_that_are_missing_or_new_are_named(frame, method):
    X, y = batches()[0]
    selector = learn(lambda X: frame(X, NAMES))
    weights = selector.weights_

    def call(X):
        arguments = (X, y) if method == "partial_fit" else (X,)
        return getattr(selector, method)(*arguments)

    with pytest.raises(ValueError, match=r"missing 'Z'\."):
        call(frame(X[:, :5], NAMES[:5]))
    with pytest.raises(ValueError, match=r"new 'extra'\."):
        call(frame(np.c_[X, X[:, 0]], [*NAMES, "extra"]))
    with pytest.raises(ValueError, match=r"missing 'age'; new 'Age'\."):
        call(frame(X, ["Age", *NAMES[1:]]))
    assert_array_equal(selector.weights_, weights)
    assert selector.n_samples_seen_ == 120


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, pd.DataFrame], ids=lambda k: k.__name__)
@pytest.mark.parametrize("method", ["partial_fit", "transform", "mask"])
def test_columns_without_names_are_counted(kind, method):
    X, y = batches()[0]
    selector = learn(kind)
    for wrong in (X[:, :5], np.c_[X, X]):
        arguments = (kind(wrong), y) if method == "partial_fit" else (kind(wrong),)
        with pytest.raises(ValueError, match=f"X has {wrong.shape[1]} features, but FIRES is exp"):
            getattr(selector, method)(*arguments)


@frames
def test_text_columns_are_encoded_but_not_where_there_were_numbers_before(frame):
    X = frame(np.array([["1.5", "red"], ["2.5", "blue"]], dtype=object), ["size", "colour"])
    X = X.astype({"size": float}) if isinstance(X, pd.DataFrame) else X.cast({"size": pl.Float64})
    selector = FIRES(1).partial_fit(X, [0, 1])
    assert [column.kind for column in selector.columns_.used] == ["number", "category"]
    selector = FIRES(1).partial_fit(frame(np.ones((2, 2)), ["size", "colour"]), [0, 1])
    before = dict(vars(selector))
    with pytest.raises(ValueError, match="Column 'colour' does not hold numbers"):
        selector.partial_fit(X, [0, 1])
    assert vars(selector) == before


@frames
def test_columns_that_cannot_be_encoded_are_named(frame):
    words = "so much to tell about so little that was there at all"
    X = frame(np.array([[words], [words]], dtype=object), ["note"])
    selector = FIRES(1)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=r"Column 'note' holds free text .*; leave it out"):
        selector.partial_fit(X, [0, 1])
    assert vars(selector) == before


def test_names_must_be_unique_and_of_one_type():
    X, y = batches()[0]
    with pytest.raises(ValueError, match="'c' occurs more than once"):
        FIRES(2).partial_fit(pd.DataFrame(X, columns=list("abcdec")), y)
    with pytest.raises(TypeError, match="string names"):
        FIRES(2).partial_fit(pd.DataFrame(X, columns=["a", "b", "c", "d", "e", 5]), y)


@frames
def test_names_lost_or_found_are_worth_a_warning(frame):
    X, y = batches()[0]
    named, plain = learn(lambda X: frame(X, NAMES)), learn(np.asarray)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        named.partial_fit(X, y)
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        plain.partial_fit(frame(X, NAMES), y)
    assert_same_belief(named, plain, rtol=1e-12)


# transform, mask, inverse_transform

APPLIED = {
    "numpy": (np.asarray, np.ndarray),
    "F order": (np.asfortranarray, np.ndarray),
    "float32": (lambda X: X.astype(np.float32), np.ndarray),
    "int": (lambda X: X.astype(int), np.ndarray),
    "lists": (lambda X: X.tolist(), np.ndarray),
    "csr_array": (sp.csr_array, sp.csr_array),
    "csr_matrix": (sp.csr_matrix, sp.csr_matrix),
    "csc_array": (sp.csc_array, sp.csr_array),
    "duplicates": (with_duplicates, sp.csr_array),
    "pandas": (pd.DataFrame, pd.DataFrame),
    "polars": (pl.DataFrame, pl.DataFrame),
}


def plain(X):
    if sp.issparse(X):
        return X.toarray()
    return X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)


@pytest.mark.parametrize(("form", "kind"), APPLIED.values(), ids=APPLIED.keys())
def test_transform_mask_and_inverse_transform_agree(form, kind):
    selector = learn(form)
    X = batches(1, seed=9)[0][0]
    small, masked = selector.transform(form(X)), selector.mask(form(X))
    assert sp.issparse(small) == sp.issparse(form(X))
    assert_array_equal(plain(small), X[:, [1, 4]])
    assert isinstance(masked, kind)
    assert_array_equal(plain(masked), X * [0, 1, 0, 0, 1, 0])
    back = selector.inverse_transform(small)
    assert sp.issparse(back) == sp.issparse(form(X))
    assert back.shape == X.shape
    assert_array_equal(plain(back), plain(masked))
    if kind is not pl.DataFrame:  # whose columns always have names
        assert_array_equal(plain(selector.transform(back)), plain(small))


def test_a_mask_of_a_frame_keeps_its_rows_and_names():
    X = pd.DataFrame(batches()[0][0], columns=NAMES, index=[f"row {i}" for i in range(30)])
    masked = learn(lambda X: pd.DataFrame(X, columns=NAMES)).mask(X)
    assert masked.index.equals(X.index)
    assert list(masked.columns) == NAMES
    unnamed = learn(pd.DataFrame).mask(pd.DataFrame(X.to_numpy()))
    assert list(unnamed.columns) == list(range(6))


def test_a_mask_of_a_sparse_frame_is_a_frame():
    X = pd.DataFrame(batches()[0][0], columns=NAMES).astype(pd.SparseDtype(float, 0.0))
    selector = learn(lambda X: pd.DataFrame(X, columns=NAMES).astype(pd.SparseDtype(float, 0.0)))
    masked = selector.mask(X)
    assert isinstance(masked, pd.DataFrame)
    assert list(masked.columns) == NAMES
    assert_array_equal(masked.to_numpy(), X.to_numpy() * [0, 1, 0, 0, 1, 0])


@pytest.mark.parametrize("library", [pd, pl])
def test_a_mask_of_a_frame_keeps_even_an_empty_name(library):
    """What a table written with its row numbers has as its first column."""
    X = library.DataFrame({"": [1.0, 2.0, 3.0], "a": [5.0, 4.0, 6.0]})
    assert list(FIRES(1).partial_fit(X, [0, 1, 1]).mask(X).columns) == ["", "a"]


def test_a_mask_holds_no_stored_entries_of_unselected_columns():
    X = sp.csr_array(batches()[0][0])
    masked = learn(sp.csr_array).mask(X)
    assert set(masked.indices.tolist()) == {1, 4}
    assert masked.has_canonical_format


def test_set_output_keeps_the_index_of_pandas():
    X = pd.DataFrame(batches()[0][0], columns=NAMES, index=range(100, 130))
    selector = learn(lambda X: pd.DataFrame(X, columns=NAMES)).set_output(transform="pandas")
    assert list(selector.transform(X).index) == list(range(100, 130))


# How many


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (1, 1),
        (6, 6),
        (7, 6),
        (10**9, 6),
        (np.int64(3), 3),
        (np.uint8(3), 3),
        (0.5, 3),
        (0.49, 2),
        (0.99, 5),
        (1e-9, 1),
        (np.float32(0.5), 3),
    ],
)
def test_as_many_are_selected_as_asked_for(wanted, found):
    selector = learn(np.asarray, FIRES(wanted))
    assert selector.get_support().sum() == found
    assert len(selector.get_support(indices=True)) == found
    assert selector.transform(batches()[0][0]).shape == (30, found)
    X, y = batches()[0]  # later on, members are ahead of others
    first = FIRES(wanted).partial_fit(X, y)
    assert_array_equal(np.flatnonzero(first.ranking_ <= found), first.get_support(True))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "probt"),
        ("model", None),
        ("model", object()),
        ("learning_rate", 0.0),
        ("learning_rate", -1.0),
        ("learning_rate", np.nan),
        ("learning_rate", "fast"),
        ("learning_rate_sigma", -1.0),
        ("learning_rate_sigma", np.inf),
        ("uncertainty_penalty", -0.1),
        ("uncertainty_penalty", True),
        ("weight_penalty", 0.0),
        ("mu_init", [1.0, 2.0]),
        ("mu_init", np.nan),
        ("mu_init", "zero"),
        ("sigma_init", -1.0),
        ("sigma_init", np.zeros((6, 1))),
        ("scale", "max"),
        ("missing", "drop"),
        ("random_state", -1),
        ("random_state", "seed"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(name, value):
    X, y = batches()[0]
    selector = FIRES(2, **{name: value})
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=name):
        selector.partial_fit(X, y)
    assert vars(selector) == before


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "all", None])
def test_a_batch_size_that_makes_no_sense_is_refused(size):
    X, y = batches()[0]
    with pytest.raises(ValueError, match="batch_size"):
        FIRES(2, batch_size=size).fit(X, y)


def test_what_was_read_before_does_not_change_what_is_read_later():
    """Weights are computed on access: a setting changed in between counts, read before or not."""
    changes = {"uncertainty_penalty": 5.0, "weight_penalty": 2.0}
    read, unread = learn(np.asarray), learn(np.asarray)
    assert len(read.weights_) == len(read.ranking_) == len(read.get_support()) == 6
    read.set_params(**changes)
    unread.set_params(**changes)
    assert_array_equal(read.weights_, unread.weights_)
    assert_array_equal(read.ranking_, unread.ranking_)
    assert_array_equal(read.get_support(), unread.get_support())


# fit


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, pd.DataFrame], ids=lambda k: k.__name__)
@pytest.mark.parametrize("size", [1, 7, 30, 120, 1000])
def test_fit_is_partial_fit_batch_by_batch(kind, size):
    X = np.vstack([X for X, _ in batches()])
    y = np.concatenate([y for _, y in batches()])
    w = np.random.default_rng(0).integers(1, 4, size=len(y)).astype(float)
    X[5::11, 3] = np.nan
    expected = FIRES(2)
    for i in range(0, len(y), size):
        rows = slice(i, i + size)
        expected.partial_fit(kind(X[rows]), y[rows], sample_weight=w[rows])
    fitted = FIRES(2, batch_size=size).fit(kind(X), y, sample_weight=w)
    assert_same_belief(fitted, expected, rtol=1e-12)


# What the caller passed


def test_settings_given_as_arrays_are_not_changed():
    mu, sigma = np.linspace(-1, 1, 6), np.linspace(0.5, 1.5, 6)
    learn(np.asarray, FIRES(2, mu_init=mu, sigma_init=sigma, learning_rate=1.0))
    learn(sp.csr_array, FIRES(2, mu_init=mu, sigma_init=sigma, learning_rate=1.0))
    assert_array_equal(mu, np.linspace(-1, 1, 6))
    assert_array_equal(sigma, np.linspace(0.5, 1.5, 6))


def test_a_generator_that_no_model_needs_is_not_moved():
    legacy, modern = np.random.RandomState(0), np.random.default_rng(0)
    before = legacy.get_state()[1].copy(), legacy.get_state()[2], modern.bit_generator.state
    learn(np.asarray, FIRES(2, random_state=legacy))
    learn(np.asarray, FIRES(2, random_state=modern))
    assert_array_equal(legacy.get_state()[1], before[0])
    assert legacy.get_state()[2] == before[1]
    assert modern.bit_generator.state == before[2]


# What is handed out

ARRAYS = ["weights_", "importances_", "uncertainties_", "ranking_"]
