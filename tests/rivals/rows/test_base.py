"""What holds for all selectors that learn two classes row by row."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import fires
from fires import AROW, EFS, FTRL, OFS, SCW, OFSPartial, PEtrun
from fires.core.state import read_state

SELECTORS = [
    OFS(3),
    OFS(3, shrink=True, learning_rate=2.0),
    OFSPartial(3, random_state=0),
    PEtrun(3),
    EFS(3),
    EFS(3, bottom_fraction=0.4),
    AROW(3),
    AROW(3, truncate="confidence"),
    AROW(3, truncate="weight", diagonal="inverse"),
    SCW(3),
    SCW(3, variant="II", truncate="weight"),
    FTRL(3),
    FTRL(3, l1=0.5, l2=0.5, fit_intercept=False),
]
selectors = pytest.mark.parametrize("selector", SELECTORS, ids=repr)


def batches(n_batches=4, n_rows=25, n_features=8, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.random((n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.6)
        signal = X[:, 1] - X[:, 4] + 0.2 * rng.normal(size=n_rows)
        yield X, (signal > 0).astype(int)


def learn(selector, stream=None, form=np.asarray, **options):
    selector = clone(selector)
    for X, y in batches() if stream is None else stream:
        selector.partial_fit(form(X), y, **options)
    return selector


def state(selector, path):
    """Everything a selector holds, to the bit, but its settings."""
    selector.save(path)
    header, arrays = read_state(path)
    del header["params"]
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def assert_alike(one, other, rtol=0.0):
    atol = 1e-12 if rtol else 0.0
    assert_allclose(one.weights_, other.weights_, rtol=rtol, atol=atol)
    assert_allclose(one.importances_, other.importances_, rtol=rtol, atol=atol)
    assert_array_equal(one.get_support(), other.get_support())


# --- scikit-learn's own checks ------------------------------------------------------------------

# --- rows, batches and forms of X ---------------------------------------------------------------


@selectors
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@settings(max_examples=10)
@given(cuts=st.lists(st.integers(1, 99), max_size=6))
def test_the_cut_into_batches_does_not_matter(selector, form, cuts):
    X, y = (np.concatenate(parts) for parts in zip(*batches(), strict=True))
    whole = learn(selector, [(X, y)], form)
    starts = [0, *sorted(set(cuts)), len(y)]
    parts = [(X[a:b], y[a:b]) for a, b in itertools.pairwise(starts)]
    assert_alike(learn(selector, parts, form), whole)


@selectors
def test_one_row_at_a_time_is_the_same_as_fit(selector):
    X, y = (np.concatenate(parts) for parts in zip(*batches(), strict=True))
    rows = [(X[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    fitted = clone(selector).fit(X, y)
    assert_alike(learn(selector, rows), fitted)
    assert_alike(fitted.fit(X, y), learn(selector, rows))  # fit forgets


@selectors
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_float32_is_learnt_as_the_numbers_it_holds(selector, kind):
    def narrow(X):
        return kind(X.astype(np.float32))

    def wide(X):
        return kind(X.astype(np.float32).astype(np.float64))

    assert_alike(learn(selector, form=narrow), learn(selector, form=wide))


@selectors
def test_columns_are_put_in_order_by_name_even_if_sparse(selector):
    names = list("abcdefgh")

    def frame(X, order=slice(None)):
        return pd.DataFrame.sparse.from_spmatrix(sp.csr_array(X), columns=names).iloc[:, order]

    selector = learn(selector, form=frame)
    other = clone(selector)
    for i, (X, y) in enumerate(batches()):
        other.partial_fit(frame(X, slice(None, None, -1 if i else 1)), y)
    assert_alike(other, selector, rtol=1e-9)


@selectors
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_missing_entry_counts_as_zero(selector, kind):
    rng = np.random.default_rng(3)
    gaps = [(np.where(rng.random(X.shape) < 0.2, np.nan, X), y) for X, y in batches()]
    filled = [(np.nan_to_num(X), y) for X, y in gaps]
    with_gaps = learn(selector, gaps, kind)
    assert_alike(with_gaps, learn(selector, filled, kind), rtol=1e-12)
    assert with_gaps.n_missing_ == sum(np.isnan(X).sum() for X, _ in gaps)


@selectors
def test_more_features_may_be_asked_for_than_there_are(selector):
    for k in (8, 100):
        wide = learn(clone(selector).set_params(n_features_to_select=k))
        assert wide.get_support().all()
        sparse = learn(clone(selector).set_params(n_features_to_select=k), form=sp.csr_array)
        assert_alike(sparse, wide, rtol=1e-9)


@selectors
def test_a_row_of_weight_w_is_seen_w_times(selector):
    (X, y), _ = batches(2)
    times = np.random.default_rng(0).integers(0, 4, size=len(y))
    weighted = clone(selector).partial_fit(X, y, sample_weight=times)
    repeated = clone(selector).partial_fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert_alike(weighted, repeated)
    with pytest.raises(ValueError, match="whole numbers"):
        weighted.partial_fit(X, y, sample_weight=times + 0.5)


# --- labels -------------------------------------------------------------------------------------


@selectors
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_sorted_by_class_is_learnt_as_if_the_classes_were_known(selector, first, kind):
    X, y = (np.concatenate(parts) for parts in zip(*batches(), strict=True))
    stream = [
        (X[y == label][part], y[y == label][part])
        for label in (first, 1 - first)
        for part in (slice(0, 7), slice(7, None))
    ]
    assert_alike(learn(selector, stream, kind), learn(selector, stream, kind, classes=[0, 1]))
    rows = learn(selector, stream[:2], kind)
    assert np.isfinite(rows.weights_).all()
    assert rows.classes_.tolist() == [first]


@selectors
def test_a_third_class_is_refused_and_changes_nothing(selector, tmp_path):
    selector = learn(selector)
    before = state(selector, tmp_path / "state")
    X, y = next(batches())
    with pytest.raises(ValueError, match=rf"{type(selector).__name__} learns two classes"):
        selector.partial_fit(X, y + 1)
    assert state(selector, tmp_path / "state") == before
    X, y = np.tile(X, (8, 1)), np.tile(y, 8)
    y[150] = 2  # in the second of the batches of fit
    with pytest.raises(ValueError, match="learns two classes"):
        selector.fit(X, y)
    assert state(selector, tmp_path / "state") == before


# --- state --------------------------------------------------------------------------------------


def test_a_batch_of_few_entries_does_not_cost_what_all_features_cost():
    """No array as long as there are features is made for a sparse batch, but flags are."""
    n = 1_000_000
    X = sp.csr_array(([1.0, 2.0], [5, n - 1], [0, 1, 2]), shape=(2, n))
    for selector in SELECTORS:
        selector = clone(selector).partial_fit(X, [0, 1])
        tracemalloc.start()
        selector.partial_fit(X, [0, 1])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.5 * n


# --- huge values and settings -------------------------------------------------------------------


@selectors
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("size", [1e-300, 1e60, 1e150])
def test_huge_and_tiny_values_are_learnt_from(selector, kind, size):
    stream = [(X * size, y) for X, y in batches()]
    selector = learn(selector, [*stream, *batches()], kind)
    assert np.isfinite(selector.weights_).all()
    assert np.isfinite(selector.importances_).all()


OVERFLOW = {
    "OFS": (OFS(2, learning_rate=1e5), 1e150),
    "OFSPartial": (OFSPartial(2, learning_rate=1e5, random_state=0), 1e150),
    "AROW": (AROW(2, r=1e-310), 1e-155),
    "FTRL": (FTRL(2, learning_rate=1e200), 1e150),
}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("selector", "size"), OVERFLOW.values(), ids=OVERFLOW.keys())
def test_a_step_that_would_overflow_is_refused_and_changes_nothing(selector, size, kind, tmp_path):
    selector = learn(selector, form=kind)
    before = state(selector, tmp_path / "state")
    X, y = next(batches(1, seed=1))
    X[5:] *= size  # some rows are learnt before those that overflow
    with pytest.raises(ValueError, match=r"^X holds values so large that a step would overflow"):
        selector.partial_fit(kind(X), y)
    assert state(selector, tmp_path / "again") == before
    loaded = fires.load(tmp_path / "state")
    for X, y in batches(2, seed=2):
        selector.partial_fit(kind(X), y)
        loaded.partial_fit(kind(X), y)
    assert_alike(selector, loaded)


WRONG = [
    (OFS, "learning_rate", [0.0, -1.0, np.nan, np.inf, "fast", None, True]),
    (OFS, "regularization", [0.0, -1.0, np.nan]),
    (OFS, "shrink", ["yes", None]),
    (OFSPartial, "learning_rate", [0.0]),
    (OFSPartial, "exploration", [0.0, 1.1, "0.2"]),
    (OFSPartial, "radius", [0.0, np.nan]),
    (OFSPartial, "threshold", [np.nan, np.inf]),
    (OFSPartial, "random_state", [-1, "seed"]),
    (EFS, "promotion", [0.9, np.inf]),
    (EFS, "demotion", [0.0, 1.1]),
    (EFS, "threshold", [np.nan]),
    (EFS, "margin", ["wide"]),
    (EFS, "bottom_fraction", [-0.1, 1.1]),
    (AROW, "r", [0.0, -1.0]),
    (AROW, "uncertainty_penalty", [-0.1]),
    (AROW, "truncate", ["all", 3]),
    (AROW, "diagonal", [None]),
    (SCW, "confidence", [0.5, 1.0]),
    (SCW, "C", [0.0]),
    (SCW, "variant", ["III", 1]),
    (FTRL, "learning_rate", [0.0]),
    (FTRL, "beta", [0.0]),
    (FTRL, "l1", [-1.0]),
    (FTRL, "l2", [-1.0]),
    (FTRL, "fit_intercept", ["no"]),
    (PEtrun, "n_features_to_select", [0, 1.5, "all"]),
]


@pytest.mark.parametrize(
    ("kind", "name", "value"), [(kind, name, v) for kind, name, values in WRONG for v in values]
)
def test_a_setting_that_makes_no_sense_is_named(kind, name, value):
    X, y = next(batches())
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=rf"^{name} must be .*got") as caught:
            getattr(kind(**{name: value}), method)(X, y)
        assert repr(value) in str(caught.value)
        assert "\n" not in str(caught.value)
