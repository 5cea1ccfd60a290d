"""ChiSquared: its table of counts, however the stream comes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2_contingency

import fires
from fires import ChiSquared
from fires.rivals import screening as module

KINDS = {
    "dense": np.asarray,
    "columns": np.asfortranarray,
    "single": lambda X: np.asarray(X, dtype=np.float32),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
both = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
aggregates = pytest.mark.parametrize("aggregate", ["max", "mean"])


def documents(seed=0, n_rows=80, n_words=6, n_classes=3, missing=0.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n_rows)
    likely = rng.uniform(0.1, 0.6, size=(n_classes, n_words))
    X = rng.poisson(2.0, size=(n_rows, n_words)) * (rng.random((n_rows, n_words)) < likely[y])
    X = X.astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y, rng.uniform(0.2, 3.0, n_rows)


def plain_weights(X, y, w, aggregate):
    """The definition, table by table, over the entries that are there."""
    weights = np.zeros(X.shape[1])
    for j, column in enumerate(X.T):
        there = ~np.isnan(column)
        x, z, v = column[there] != 0.0, y[there], w[there]
        values, shares = [], []
        for label in np.unique(y):
            a, b = v[x & (z == label)].sum(), v[x & (z != label)].sum()
            c, d = v[~x & (z == label)].sum(), v[~x & (z != label)].sum()
            n, margins = a + b + c + d, (a + b) * (c + d) * (a + c) * (b + d)
            values.append(n * (a * d - b * c) ** 2 / margins if margins > 0.0 else 0.0)
            shares.append((a + c) / n if n else 0.0)
        weights[j] = max(values) if aggregate == "max" else np.dot(shares, values)
    return weights


def learnt(X, y, w=None, size=80, kind=np.asarray, **options):
    selector = ChiSquared(2, **options)
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        part = None if w is None else w[rows]
        selector.partial_fit(kind(X[rows]), y[rows], sample_weight=part)
    return selector


# --- what it computes -----------------------------------------------------------------------------


@kinds
@aggregates
@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_worked_example_to_its_printed_digits(kind, aggregate, size):
    """30 and 10 documents with the word, 20 and 40 without it."""
    x = np.repeat([1.0, 1.0, 0.0, 0.0], [30, 10, 20, 40])[:, None]
    y = np.repeat(["spam", "ham", "spam", "ham"], [30, 10, 20, 40])
    order = np.random.default_rng(0).permutation(100)
    selector = learnt(x[order], y[order], size=size, kind=kind, aggregate=aggregate)
    assert_allclose(selector.weights_, [16.666666666667], rtol=0.0, atol=0.5000001e-12)


@given(a=st.integers(0, 50), b=st.integers(0, 50), c=st.integers(0, 50), d=st.integers(0, 50))
def test_it_is_the_chi_squared_of_the_table(a, b, c, d):
    value = module.chi_squared(np.array([[a], [b]], float), np.array([[a + c], [b + d]], float))
    if 0 in (a + b, c + d, a + c, b + d):
        assert_array_equal(value, np.zeros((2, 1)))
    else:
        expected = chi2_contingency([[a, b], [c, d]], correction=False).statistic
        assert_allclose(value, np.full((2, 1), expected), rtol=1e-9, atol=1e-9)


@both
@aggregates
@given(
    seed=st.integers(0, 2**16),
    size=st.integers(1, 80),
    n_classes=st.integers(2, 5),
    missing=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
)
@settings(max_examples=10)
def test_scores_are_those_of_all_rows_however_they_are_cut(
    kind, aggregate, seed, size, n_classes, missing, weighted
):
    X, y, w = documents(seed, n_classes=n_classes, missing=missing)
    selector = learnt(X, y, w if weighted else None, size, kind, aggregate=aggregate)
    expected = plain_weights(X, y, w if weighted else np.ones(80), aggregate)
    assert_allclose(selector.weights_, expected, rtol=1e-9, atol=1e-11)


@both
@aggregates
@given(
    seed=st.integers(0, 2**16),
    size=st.integers(1, 80),
    forgetting=st.sampled_from([1e-4, 0.05, 0.3]),
    missing=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=10)
def test_every_further_row_makes_the_ones_before_count_less(
    kind, aggregate, seed, size, forgetting, missing
):
    X, y, _ = documents(seed, missing=missing)
    w = (1.0 - forgetting) ** np.arange(80)[::-1]
    selector = learnt(X, y, None, size, kind, aggregate=aggregate, forgetting=forgetting)
    expected = plain_weights(X, y, w, aggregate)
    assert_allclose(selector.weights_, expected, rtol=1e-7, atol=1e-9)


@both
def test_the_unit_of_counts_is_put_back_before_it_overflows(kind):
    X, y, w = documents(n_rows=2000, missing=0.1)
    selector = learnt(X, y, w, 20, kind, forgetting=0.5)
    assert 1.0 <= selector._unit_ <= 1e100
    # Of what was more than a hundred rows ago nothing is left.
    fresh = learnt(X[-200:], y[-200:], w[-200:], 20, kind, forgetting=0.5)
    assert_allclose(selector.weights_, fresh.weights_, rtol=1e-9)
    heavy = np.full(20, 1e20)
    selector.partial_fit(kind(X[:20]), y[:20], sample_weight=heavy)
    assert np.isfinite(selector.weights_).all()


@pytest.mark.parametrize("forgetting", [0.0, 0.1])
def test_a_row_of_weight_w_counts_as_w_rows(forgetting):
    X, y, _ = documents()
    w = np.arange(80) % 4
    rows = np.repeat(np.arange(80), w)
    weighted = learnt(X, y, w, 13, forgetting=forgetting)
    repeated = learnt(X[rows], y[rows], forgetting=forgetting)
    assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-9)


def test_drift_is_followed_by_those_who_forget():
    rng = np.random.default_rng(0)
    forgets, keeps = ChiSquared(1, forgetting=0.01), ChiSquared(1)
    for relevant in [0] * 30 + [1] * 10:
        X = (rng.random((50, 3)) < 0.4).astype(float)
        for selector in (forgets, keeps):
            selector.partial_fit(X, X[:, relevant] > 0)
    assert forgets.ranking_[1] == 1
    assert keeps.ranking_[0] == 1


# --- entries --------------------------------------------------------------------------------------


@kinds
def test_only_presence_matters(kind):
    X, y, _ = documents()
    rng = np.random.default_rng(0)
    sizes = X * rng.choice([-1e100, -1.0, 1e-30, 1e30], size=X.shape)
    if kind is KINDS["single"]:
        sizes = np.clip(sizes, -1.0, 1.0)
    assert_array_equal(learnt(sizes, y, kind=kind).weights_, learnt(X, y).weights_)


def test_stored_zeros_are_absent():
    X, y, _ = documents()
    stored = sp.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()
    assert stored.nnz == X.size
    assert_array_equal(ChiSquared(2).partial_fit(stored, y).weights_, learnt(X, y).weights_)


@kinds
@aggregates
@pytest.mark.parametrize("forgetting", [0.0, 0.01])
def test_features_that_are_always_or_never_there_score_nothing(kind, aggregate, forgetting):
    X, y, w = documents()
    X[:, 1], X[:, 2], X[:, 3] = 1.0, 0.0, np.nan
    selector = learnt(X, y, w, 9, kind, aggregate=aggregate, forgetting=forgetting)
    assert_allclose(selector.weights_[1:4], 0.0, atol=1e-12)
    assert (selector.weights_ >= 0.0).all()
    assert selector.weights_[0] > 0.0


@kinds
def test_a_stream_sorted_by_class_is_as_good_as_a_shuffled_one(kind):
    X, y, _ = documents()
    names = np.array(["m", "z", "a"])[y]
    order = np.argsort(y, kind="stable")
    by_class = learnt(X[order], names[order], size=11, kind=kind)
    assert_allclose(by_class.weights_, learnt(X, y).weights_, rtol=1e-12)
    assert_array_equal(by_class.classes_, ["a", "m", "z"])


@kinds
def test_one_class_tells_nothing(kind):
    X, _, _ = documents()
    selector = learnt(X, np.full(80, 3), size=7, kind=kind)
    assert_array_equal(selector.weights_, np.zeros(6))
    assert_array_equal(selector.get_support(indices=True), [0, 1])


@pytest.mark.parametrize("labels", [(0, 1), (2, 1), (-1.0, 1.0), (False, True), ("b", "a")])
def test_labels_of_every_kind(labels):
    X, y, _ = documents(n_classes=2)
    assert_allclose(learnt(X, np.array(labels)[y]).weights_, learnt(X, y).weights_, rtol=1e-12)


def test_numbers_are_no_classes():
    X, y, _ = documents()
    selector = learnt(X, y)
    before = selector.weights_
    with pytest.raises(ValueError, match=r"not whole, but this ChiSquared learns classes\."):
        selector.partial_fit(X, y + 0.5)
    assert_array_equal(selector.weights_, before)


@both
def test_a_refused_batch_changes_nothing(kind):
    X, y, _ = documents(missing=0.1)
    selector, twin = learnt(X, y, kind=kind), learnt(X, y, kind=kind)
    for bad_y in (np.full(80, "a"), y[:-1], None):
        with pytest.raises(ValueError, match="y"):
            selector.partial_fit(kind(X), bad_y)
    for one in (selector, twin):
        one.partial_fit(kind(X[::2]), y[::2])
    assert_array_equal(selector.weights_, twin.weights_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregate": "sum"}, "aggregate must be one of 'max', 'mean'; got 'sum'"),
        ({"forgetting": 1}, "forgetting must be a number at least 0 and less than 1; got 1"),
        ({"missing": "zero"}, "missing must be 'ignore' or 'error'; got 'zero'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(options, message):
    X, y, _ = documents()
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(ChiSquared(1, **options), learn)(X, y)


# --- state ----------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("forgetting", [0.0, 0.5])  # the unit of counts is put back meanwhile
def test_a_loaded_selector_goes_on_bit_for_bit(kind, missing, forgetting, tmp_path):
    X, y, w = documents(missing=missing, n_rows=300)
    y[:40] = 0  # classes that come later
    for when in (40, 240):
        selector = learnt(X[:when], y[:when], w[:when], 40, kind, forgetting=forgetting)
        selector.save(tmp_path / "state")
        loaded = fires.load(tmp_path / "state")
        for start in range(when, 300, 30):
            rows = slice(start, start + 30)
            for one in (selector, loaded):
                one.partial_fit(kind(X[rows]), y[rows], sample_weight=w[rows])
        assert_array_equal(loaded.weights_, selector.weights_)
        assert_array_equal(loaded.set_params(aggregate="mean").weights_.shape, (6,))
        assert loaded._present_.shape == (3, 6)
