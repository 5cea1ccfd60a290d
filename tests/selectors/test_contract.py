"""The contract of every selector that learns from rows, whatever its method.

A selector in the table of names that has no case here fails the first test.
"""

import copy
import pickle
import random
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier, SGDRegressor

import fires
from fires import (
    AROW,
    EFS,
    FIRES,
    FSDS,
    FTRL,
    OFS,
    SCW,
    AllFeatures,
    CancelOut,
    ChiSquared,
    FixedFeatures,
    FromModel,
    OFSPartial,
    PEtrun,
    RandomFeatures,
    Screening,
    selectors,
)
from fires.selectors import selector as shared
from fires.selectors.base import OnlineSelector

K, N_FEATURES, NAMES = 3, 8, ["a", "größe", "日本", "d", "e f", "g", "h", "i"]


@dataclass(frozen=True)
class Case:
    """A selector, and what it can do."""

    selector: Any
    target: str = "two"  # classes, or "many" of them, "numbers", "counts" or "none"
    sparse: bool = True  # CSR and dense rows are learnt alike, number for number
    repeats: bool = True  # a row of weight w is w rows
    counted: bool = True  # how many are selected is a setting
    ranked: bool = True  # and it is those of the greatest weights
    foretold: bool = False  # all classes must be known with the first batch
    load: dict[str, Any] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        return self.target in ("two", "many")


CASES = {
    "AROW": [
        Case(AROW(K)),
        Case(AROW(K, truncate="confidence")),
        Case(AROW(K, truncate="weight", diagonal="inverse")),
    ],
    "AllFeatures": [Case(AllFeatures(), "none", counted=False)],
    "CancelOut": [
        Case(CancelOut(K, hidden=(4,), random_state=0), "many"),
        Case(CancelOut(K, hidden=(), gate="softmax", target="numbers", random_state=0), "numbers"),
    ],
    "ChiSquared": [
        Case(ChiSquared(K), "many"),
        Case(ChiSquared(K, aggregate="mean", forgetting=0.02), "two"),
    ],
    "EFS": [Case(EFS(K)), Case(EFS(K, bottom_fraction=0.4), ranked=False)],
    # Scaled by what the batches before have shown: on sparse data that is something else.
    "FIRES": [
        Case(FIRES(K), sparse=False),
        Case(FIRES(K, scale="minmax"), "many", sparse=False),
        Case(FIRES.as_published(K)),
        Case(FIRES(K, model="gaussian"), "numbers", sparse=False),
        Case(FIRES(K, model="poisson", scale=None), "counts"),
    ],
    "FSDS": [Case(FSDS(K), "none"), Case(FSDS(K, sketch_size=5, n_directions=4), "none")],
    "FTRL": [Case(FTRL(K)), Case(FTRL(K, l1=0.5, l2=0.5, fit_intercept=False))],
    "FixedFeatures": [Case(FixedFeatures([1, 5, 6]), "none", counted=False)],
    "FromModel": [
        Case(
            FromModel(K, estimator=SGDClassifier(), random_state=0),
            "many",
            sparse=False,  # scikit-learn's intercept learns more slowly from sparse rows
            repeats=False,
            foretold=True,
            load={"model": SGDClassifier()},
        ),
        Case(
            FromModel(K, estimator=SGDRegressor(), random_state=0),
            "numbers",
            sparse=False,
            repeats=False,
            load={"model": SGDRegressor()},
        ),
    ],
    "OFS": [Case(OFS(K)), Case(OFS(K, shrink=True, learning_rate=2.0))],
    "OFSPartial": [Case(OFSPartial(K, random_state=0))],
    "PEtrun": [Case(PEtrun(K))],
    "RandomFeatures": [
        Case(RandomFeatures(K, random_state=0), "none"),
        Case(RandomFeatures(K, random_state=0, redraw=True), "none"),
    ],
    "SCW": [Case(SCW(K)), Case(SCW(K, variant="II", truncate="weight"))],
    "Screening": [
        Case(Screening(K)),
        Case(Screening(K, measure="f", forgetting=0.02), "many"),
        Case(Screening(K, target="numbers"), "numbers"),
    ],
}
ALL = [case for cases in CASES.values() for case in cases]


def over(cases):
    """Run a test over cases; those that need torch only where it is there."""
    without = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
    return pytest.mark.parametrize(
        "case",
        [
            pytest.param(
                case,
                id=f"{case.selector!r} {case.target}".replace("\n", ""),
                marks=without if isinstance(case.selector, CancelOut) else (),
            )
            for case in cases
        ],
    )


every = over(ALL)
labelled = over([case for case in ALL if case.labelled])
supervised = over([case for case in ALL if case.target != "none"])
counted = over([case for case in ALL if case.counted])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Nets as small as these only wait for each other's threads."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def batches(case, n_batches=4, n_rows=25, seed=0):
    """Rows between 0 and 1, many entries 0, exact in single precision; b and e decide."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.integers(1, 17, size=(n_rows, N_FEATURES)) / 16.0
        X[rng.random(X.shape) < 0.4] = 0.0
        signal = X[:, 1] - X[:, 4] + 0.2 * rng.normal(size=n_rows)
        yield (
            X,
            {
                "two": (signal > 0).astype(int),
                "many": np.digitize(signal, [-0.3, 0.3]),
                "numbers": signal,
                "counts": np.floor(np.exp(2.0 * signal)),
                "none": None,
            }[case.target],
        )


def classes_of(case):
    return np.arange(2 if case.target == "two" else 3)


def learn(case, stream=None, form=np.asarray, selector=None, names=None):
    """A selector that has learnt a stream whose rows are in some form, and labels have names."""
    selector = clone(case.selector) if selector is None else selector
    options = {}
    if case.foretold:
        options["classes"] = classes_of(case) if names is None else names
    for X, y in batches(case) if stream is None else stream:
        selector.partial_fit(form(X), y if names is None else names[y], **options)
    return selector


def state(selector):
    """Everything that save would write, arrays to the bit."""
    saved = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared, "write_state", lambda path, *content: saved.append(content))
        selector.save("nowhere")
    header, arrays = saved[0]
    del header["params"]
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def assert_alike(one, other, rtol=1e-9):
    assert_allclose(one.weights_, other.weights_, rtol=rtol, atol=1e-12 if rtol else 0.0)
    assert_array_equal(one.get_support(), other.get_support())


def plain(X):
    if sp.issparse(X):
        return X.toarray()
    return X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)


def frame(library, order=range(N_FEATURES)):
    """Rows as a frame with named columns in some order."""
    return lambda X: library.DataFrame({NAMES[j]: X[:, j] for j in order})


def test_every_selector_of_rows_has_a_case():
    rows = {n for n in selectors.HOME if issubclass(getattr(selectors, n), OnlineSelector)}
    assert rows == set(CASES)
    for name, cases in CASES.items():
        assert {type(case.selector).__name__ for case in cases} == {name}


# --- what X may be ------------------------------------------------------------------------------

FORMS = {
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "read-only": lambda X: np.frombuffer(X.tobytes()).reshape(X.shape),
    "single precision": lambda X: X.astype(np.float32),
    "list": lambda X: X.tolist(),
    "pandas": frame(pd),
    "polars": frame(pl),
}
SPARSE = {
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc": sp.csc_array,
    "single precision": lambda X: sp.csr_array(X.astype(np.float32)),
    "int64 indices": lambda X: _with_long_indices(sp.csr_array(X)),
    "duplicates": lambda X: _with_duplicates(sp.csr_array(X)),
    "pandas": lambda X: pd.DataFrame.sparse.from_spmatrix(sp.csr_array(X), columns=NAMES),
}


def _with_long_indices(X):
    parts = (X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64))
    return sp.csr_array(parts, shape=X.shape)


def _with_duplicates(X):
    parts = (np.repeat(X.data / 2.0, 2), np.repeat(X.indices, 2), 2 * X.indptr)
    return sp.csr_array(parts, shape=X.shape)


@every
def test_every_form_of_dense_rows_is_learnt_alike(case):
    expected = learn(case)
    for name, form in FORMS.items():
        found = learn(case, form=form)
        assert_allclose(found.weights_, expected.weights_, rtol=1e-9, atol=1e-12, err_msg=name)
        assert_array_equal(found.get_support(), expected.get_support(), err_msg=name)


@every
def test_every_form_of_sparse_rows_is_learnt_alike(case):
    expected = learn(case) if case.sparse else learn(case, form=sp.csr_array)
    for name, form in SPARSE.items():
        found = learn(case, form=form)
        assert_allclose(found.weights_, expected.weights_, rtol=1e-9, atol=1e-12, err_msg=name)
        assert_array_equal(found.get_support(), expected.get_support(), err_msg=name)


@every
def test_dense_and_sparse_batches_may_take_turns(case):
    forms = [np.asarray, sp.csr_array] * 2
    mixed = [(form(X), y) for form, (X, y) in zip(forms, batches(case), strict=True)]
    found = learn(case, mixed, form=lambda X: X)
    assert np.isfinite(found.weights_).all()
    if case.sparse:
        assert_alike(found, learn(case))


@every
@pytest.mark.parametrize("library", [pd, pl])
@settings(max_examples=2)
@given(orders=st.lists(st.permutations(range(N_FEATURES)), min_size=3, max_size=3))
def test_names_travel_and_reordered_columns_are_put_right(case, library, orders):
    expected = learn(case, form=frame(library))
    stream, found = list(batches(case)), clone(case.selector)
    for (X, y), order in zip(stream, [range(N_FEATURES), *orders], strict=True):
        learn(case, [(X, y)], frame(library, order), found)
    assert_alike(found, expected, rtol=0.0)
    assert found.feature_names_in_.tolist() == NAMES
    chosen = found.get_support(indices=True)
    assert found.get_feature_names_out().tolist() == [NAMES[j] for j in chosen]
    X = stream[0][0]
    for order in orders:
        assert_array_equal(found.transform(frame(library, order)(X)), X[:, chosen])
        masked = found.mask(frame(library, order)(X))
        assert list(masked.columns) == NAMES
        assert_array_equal(masked.to_numpy()[:, chosen], X[:, chosen])


@every
def test_columns_that_are_missing_or_new_are_named(case):
    selector = learn(case, form=frame(pd))
    X, y = next(batches(case))
    wrong = frame(pd)(X).rename(columns={"d": "other"})
    for use in (selector.transform, selector.mask, lambda X: selector.partial_fit(X, y)):
        with pytest.raises(ValueError, match="missing 'd'; new 'other'"):
            use(wrong)


@every
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_may_come_one_by_one(case, form):
    rows = [
        (X[i : i + 1], None if y is None else y[i : i + 1])
        for X, y in batches(case, 2)
        for i in range(len(X))
    ]
    selector = learn(case, rows, form)
    assert selector.n_samples_seen_ == len(rows)
    assert np.isfinite(selector.weights_).all()


@every
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_missing_entries_are_borne_and_counted_in_any_place(case, form):
    rng = np.random.default_rng(3)
    gaps = [(np.where(rng.random(X.shape) < 0.2, np.nan, X), y) for X, y in batches(case)]
    gaps[1][0][:, 2] = gaps[2][0][5] = np.nan  # a whole column, and a whole row
    selector = learn(case, gaps, form)
    assert selector.n_missing_ == sum(np.isnan(X).sum() for X, _ in gaps)
    assert np.isfinite(selector.weights_).all()


@over([case for case in ALL if "missing" in case.selector.get_params()])
def test_missing_entries_may_be_refused(case):
    selector = learn(case).set_params(missing="error")
    before = state(selector)
    X, y = next(batches(case))
    X[4, 2] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*row 4, column 2"):
        selector.partial_fit(X, y)
    with pytest.raises(ValueError, match=r"NaN.*row 4, column 2"):
        selector.transform(X)
    assert state(selector) == before


@every
def test_rows_of_zeros_and_columns_without_spread_do_no_harm(case):
    X, y = next(batches(case))
    X[::3], X[:, 5], X[:, 6] = 0.0, 0.0, 1.0
    for form in (np.asarray, sp.csr_array):
        selector = learn(case, [(np.zeros_like(X), y), (X, y), (np.zeros_like(X), y)], form)
        assert np.isfinite(selector.weights_).all()


@over([case for case in ALL if case.repeats])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_row_of_weight_w_is_w_rows(case, form):
    rng = np.random.default_rng(0)
    weighted, repeated = clone(case.selector), clone(case.selector)
    for X, y in batches(case):
        w = rng.integers(1, 4, size=len(X))
        rows = np.repeat(np.arange(len(X)), w)
        weighted.partial_fit(form(X), y, sample_weight=w)
        repeated.partial_fit(form(X[rows]), None if y is None else y[rows])
    assert_alike(weighted, repeated)


# --- labels -------------------------------------------------------------------------------------

LABELS = {
    "ints": np.array([-7, 3, 11]),
    "small ints": np.array([3, 200, 250], dtype=np.uint8),
    "floats": np.array([-1.0, 2.0, 3.0]),
    "bools": np.array([False, True]),
    "text": np.array(["nein", "vielleicht", "ÿes"]),
    "objects": np.array(["nein", "vielleicht", "ÿes"], dtype=object),
    "ints as objects": np.array([1, 2, 30], dtype=object),
}


@labelled
@pytest.mark.parametrize("name", LABELS)
def test_labels_may_be_anything(case, name):
    n_classes = len(classes_of(case))
    names = LABELS[name][:n_classes]
    if len(names) < n_classes:
        pytest.skip("there are but two of them")
    found = learn(case, names=names)
    assert_alike(found, learn(case), rtol=0.0)
    assert found.classes_.tolist() == names.tolist()


@labelled
def test_labels_may_come_as_lists_and_series(case):
    expected = learn(case)
    for form in (list, tuple, pd.Series, pl.Series):
        stream = [(X, form(y.tolist())) for X, y in batches(case)]
        assert_alike(learn(case, stream), expected, rtol=0.0)


@labelled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_stream_may_be_sorted_by_class(case, form):
    X, y = (np.concatenate(parts) for parts in zip(*batches(case), strict=True))
    for order in (classes_of(case), classes_of(case)[::-1]):
        stream = [(X[y == label], y[y == label]) for label in order]
        selector = learn(case, stream, form)
        assert selector.classes_.tolist() == classes_of(case).tolist()
        assert np.isfinite(selector.weights_).all()


@labelled
def test_a_label_that_is_not_among_the_classes_given_is_refused(case):
    selector = clone(case.selector)
    X, y = next(batches(case))
    selector.partial_fit(X, y, classes=classes_of(case))
    before = state(selector)
    with pytest.raises(ValueError, match="y holds the label 9, which is not in classes="):
        selector.partial_fit(X, np.where(np.arange(len(y)) == 5, 9, y))
    with pytest.raises(ValueError, match="does not fit the classes known so far"):
        selector.partial_fit(X, y, classes=[0, 5])
    assert state(selector) == before


@over([case for case in ALL if case.target in ("numbers", "counts")])
def test_numbers_have_no_classes(case):
    X, y = next(batches(case))
    with pytest.raises(ValueError, match="classes is for class labels"):
        clone(case.selector).partial_fit(X, y, classes=[0, 1])


@over([case for case in ALL if case.target == "none"])
@pytest.mark.parametrize("y", [["a"] * 25, [None] * 25, [0.5], object()], ids=lambda y: str(y)[:4])
def test_without_a_teacher_y_is_not_looked_at(case, y):
    X, _ = next(batches(case))
    alone = clone(case.selector).partial_fit(X)
    assert_alike(clone(case.selector).partial_fit(X, y, classes=["b", "c"]), alone, rtol=0.0)
    assert_alike(clone(case.selector).fit(X, y), alone, rtol=0.0)
    assert not hasattr(alone, "classes_")


@supervised
def test_a_method_that_needs_y_says_so(case):
    X, _ = next(batches(case))
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            getattr(clone(case.selector), method)(X)


# --- what belongs to the caller -----------------------------------------------------------------


@every
@settings(max_examples=10)
@given(
    form=st.sampled_from(["C", "F", "csr", "duplicates", "pandas", "polars"]),
    precision=st.sampled_from([np.float64, np.float32]),
    gap=st.booleans(),
    seed=st.integers(0, 2**16),
)
def test_nothing_that_was_passed_is_changed(case, form, precision, gap, seed):
    made = {
        "C": np.ascontiguousarray,
        "F": np.asfortranarray,
        "csr": sp.csr_array,
        "duplicates": lambda X: _with_duplicates(sp.csr_array(X)),
        "pandas": frame(pd),
        "polars": frame(pl),
    }[form]
    X, y = next(batches(case, seed=seed))
    if gap:
        X[0, 0] = np.nan
    passed, twin = made(X.astype(precision)), made(X.astype(precision))
    w = np.random.default_rng(seed).integers(1, 4, size=len(X)).astype(float)
    classes = classes_of(case)[::-1] if case.labelled else None
    kept = [(a, a.tobytes()) for a in (y, w, classes) if a is not None]
    for array, _ in kept:
        array.flags.writeable = False
    selector = clone(case.selector)
    for _ in range(2):
        selector.partial_fit(passed, y, classes=classes, sample_weight=w)
    small, masked = selector.transform(passed), selector.mask(passed)
    assert all(array.tobytes() == content for array, content in kept)
    assert type(passed) is type(twin)
    for part in ("data", "indices", "indptr") if sp.issparse(passed) else ():
        assert getattr(passed, part).tobytes() == getattr(twin, part).tobytes()
    assert_array_equal(plain(passed), plain(twin))
    if form in "CF":
        assert not np.shares_memory(small, passed)
        assert not np.shares_memory(masked, passed)


@every
def test_global_random_numbers_are_neither_read_nor_moved(case):
    def moved(seed):
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = np.random.get_state()[1].tobytes(), random.getstate()  # noqa: NPY002
        selector = learn(case)
        assert (np.random.get_state()[1].tobytes(), random.getstate()) == before  # noqa: NPY002
        return state(selector)

    assert moved(1) == moved(2)


@over([case for case in ALL if "random_state" in case.selector.get_params()])
def test_without_a_seed_global_random_numbers_are_not_moved_either(case):
    before = np.random.get_state()[1].tobytes()  # noqa: NPY002
    learn(case, selector=clone(case.selector).set_params(random_state=None))
    assert np.random.get_state()[1].tobytes() == before  # noqa: NPY002


@every
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_what_is_handed_out_is_the_callers_to_keep_but_not_to_change(case, form):
    selector, kept = clone(case.selector), []
    names = ("weights_", "ranking_", "importances_", "uncertainties_")
    for batch in batches(case, 6):
        learn(case, [batch], form, selector)
        for array in (getattr(selector, name) for name in names if hasattr(selector, name)):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0
            kept.append((array, array.copy()))
        for support in (selector.get_support(), selector.get_support(indices=True)):
            support[:] = 0
    for array, as_it_was in kept:
        assert_array_equal(array, as_it_was)
    assert selector.get_support().any()
    assert selector.weights_ is selector.weights_


# --- what is selected ---------------------------------------------------------------------------


@counted
@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**16),
    k=st.one_of(st.integers(1, 12), st.floats(0.0, 1.0, exclude_min=True, exclude_max=True)),
    zero=st.booleans(),
)
def test_k_are_selected_the_greatest_first_and_ties_go_to_the_lower_index(case, seed, k, zero):
    stream = [(X * (not zero), y) for X, y in batches(case, 2, seed=seed)]
    selector = learn(case, stream, selector=clone(case.selector).set_params(n_features_to_select=k))
    n = min(k, N_FEATURES) if isinstance(k, int) else max(1, int(k * N_FEATURES))
    chosen = selector.get_support(indices=True)
    assert len(chosen) == n
    order = np.argsort(-selector.weights_, kind="stable")
    if case.ranked:
        assert_array_equal(chosen, np.sort(order[:n]))
    assert_array_equal(selector.ranking_[order], np.arange(1, N_FEATURES + 1))
    if zero and not isinstance(selector, RandomFeatures):  # nothing is known: all are alike
        assert_array_equal(chosen, np.arange(n))


@counted
@pytest.mark.parametrize("k", [0, -1, 1.0, 1.5, True, "3", None, np.nan])
def test_a_number_that_makes_no_sense_is_refused(case, k):
    selector = clone(case.selector).set_params(n_features_to_select=k)
    before = dict(vars(selector))
    with pytest.raises(ValueError, match=r"^n_features_to_select must be a positive integer or a"):
        learn(case, selector=selector)
    assert vars(selector) == before


@counted
def test_how_many_to_select_may_change_in_mid_stream(case):
    for form in (np.asarray, sp.csr_array):
        changed = clone(case.selector)
        for k, batch in zip([5, 2, 100, 1], batches(case), strict=True):
            learn(case, [batch], form, changed.set_params(n_features_to_select=k))
            assert changed.get_support().sum() == min(k, N_FEATURES)


@over([case for case in ALL if case.counted and case.ranked])
def test_nan_never_ranks(case, monkeypatch):
    weights = np.array([np.nan, -5.0, np.nan, 0.0, np.nan, -np.inf, 2.0, np.nan])
    selector = learn(case)
    selector._seen_ = {}
    monkeypatch.setattr(type(selector), "_weights", lambda self: weights.copy())
    assert_array_equal(selector.get_support(indices=True), [1, 3, 6])
    assert_array_equal(selector.ranking_[[6, 3, 1]], [1, 2, 3])


APPLIED = {
    "dense": np.asarray,
    "Fortran": np.asfortranarray,
    "single precision": lambda X: X.astype(np.float32),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "pandas": frame(pd),
    "polars": frame(pl),
}


@every
@pytest.mark.parametrize("form", APPLIED.values(), ids=APPLIED.keys())
def test_support_transform_mask_and_inverse_transform_agree(case, form):
    selector = learn(case, form=form)
    X, _ = next(batches(case, seed=9))
    X[0] = np.nan  # and what is missing stays missing
    support, chosen = selector.get_support(), selector.get_support(indices=True)
    assert support.dtype == bool
    assert_array_equal(np.flatnonzero(support), chosen)
    small, masked = selector.transform(form(X)), selector.mask(form(X))
    assert_array_equal(plain(small), X[:, chosen])
    assert type(masked) is type(form(X))
    assert_array_equal(plain(masked), np.where(support, X, 0.0))
    back = selector.inverse_transform(small)
    assert sp.issparse(back) == sp.issparse(small)
    assert_array_equal(plain(back), plain(masked))
    if hasattr(small, "dtype"):
        assert small.dtype == plain(form(X)).dtype
    with pytest.raises(ValueError, match="different shape"):
        selector.inverse_transform(np.zeros((2, len(chosen) + 1)))
    with pytest.raises(ValueError, match="7 features"):
        selector.transform(X[:, :7] if not hasattr(form(X), "columns") else plain(X)[:, :7])


@every
@pytest.mark.parametrize("out", ["pandas", "polars"])
def test_what_comes_out_may_be_a_frame(case, out):
    selector = learn(case, form=frame(pd)).set_output(transform=out)
    X, _ = next(batches(case))
    small = selector.transform(frame(pd)(X))
    assert type(small).__module__.startswith(out)
    assert list(small.columns) == selector.get_feature_names_out().tolist()


# --- state --------------------------------------------------------------------------------------


def assert_goes_on(case, selector, again, stream):
    """Both learn on and are the same to the bit, and neither touches the other."""
    assert_alike(again, selector, rtol=0.0)
    assert state(again) == state(selector)
    assert repr(again) == repr(selector)
    for batch in stream:
        before = state(again)
        learn(case, [batch], selector=selector)
        assert state(again) == before
        learn(case, [batch], selector=again)
        assert_alike(again, selector, rtol=0.0)
    assert state(again) == state(selector)


@every
@pytest.mark.parametrize(
    ("form", "named"), [(np.asarray, False), (sp.csr_array, True)], ids=["dense", "sparse, named"]
)
def test_a_saved_selector_goes_on_bit_for_bit(case, form, named, tmp_path):
    stream = [(form(X), y) for X, y in batches(case, 8)]
    selector = clone(case.selector)
    if named:
        selector.name_features(NAMES)
    learn(case, stream[:3], lambda X: X, selector)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state", **case.load)
    assert type(loaded) is type(selector)
    assert_array_equal(loaded.get_feature_names_out(), selector.get_feature_names_out())
    for batch in stream[3:]:
        for one in (selector, loaded):
            learn(case, [batch], lambda X: X, one)
        assert_alike(loaded, selector, rtol=0.0)
    assert state(loaded) == state(selector)


@over([case for case in ALL if "random_state" in case.selector.get_params()])
@pytest.mark.parametrize(
    "seed",
    [None, 5, np.random.default_rng(1), np.random.RandomState(1)],
    ids=lambda seed: type(seed).__name__,
)
def test_random_numbers_go_on_whatever_they_come_from(case, seed, tmp_path):
    stream = list(batches(case, 6))
    seeded = clone(case.selector).set_params(random_state=seed)
    selector = learn(case, stream[:2], selector=seeded)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state", **case.load)
    for one in (selector, loaded):
        learn(case, stream[2:], selector=one)
    assert state(loaded) == state(selector)


@labelled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_selector_may_be_saved_before_all_classes_were_seen(case, form, first, tmp_path):
    X, y = next(batches(case))
    selector = learn(case, [(X[y == first], y[y == first])], form)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state", **case.load)
    for one in (selector, loaded):
        learn(case, batches(case), form, selector=one)
    assert_alike(loaded, selector, rtol=0.0)
    assert state(loaded) == state(selector)


@every
def test_the_state_does_not_grow(case, tmp_path):
    sizes = []
    selector, stream = clone(case.selector), batches(case, 200, n_rows=5)
    for i, batch in enumerate(stream, 1):
        learn(case, [batch], np.asarray if 5 < i <= 100 else sp.csr_array, selector)
        if i in (10, 200):
            selector.save(tmp_path / "state")
            sizes.append((tmp_path / "state").stat().st_size)
    # Numbers in the header get more digits, and it is padded; a list of k features fills up.
    assert sizes[1] - sizes[0] <= 64 + 8 * K


@every
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))], ids=["copy", "pickle"]
)
def test_a_copy_goes_on_alike_and_apart(case, copied):
    stream = list(batches(case, 6))
    selector = learn(case, stream[:3])
    assert len(selector.weights_) == N_FEATURES
    again = copied(selector)
    assert not again.weights_.flags.writeable
    assert_goes_on(case, selector, again, stream[3:])


@every
def test_settings_travel(case):
    selector = learn(case)
    twin = clone(selector)
    assert repr(twin) == repr(selector) == repr(case.selector)
    assert twin.get_params(deep=False).keys() == selector.get_params(deep=False).keys()
    assert not [name for name in vars(twin) if name.endswith("_")]
    for name, value in selector.get_params(deep=False).items():
        assert twin.set_params(**{name: value}).get_params(deep=False)[name] is value
    with pytest.raises(ValueError, match="Invalid parameter 'flavour'"):
        twin.set_params(flavour=1)


@every
def test_nothing_is_known_before_the_first_batch(case, tmp_path):
    selector = clone(case.selector)
    X, _ = next(batches(case))
    uses = [
        selector.get_support,
        selector.get_feature_names_out,
        lambda: selector.weights_,
        lambda: selector.ranking_,
        lambda: selector.transform(X),
        lambda: selector.mask(X),
        lambda: selector.inverse_transform(X[:, :K]),
        lambda: selector.save(tmp_path / "state"),
    ]
    for use in uses:
        with pytest.raises(NotFittedError, match=f"This {type(selector).__name__} instance is not"):
            use()
    assert not (tmp_path / "state").exists()


# --- fit, and errors ----------------------------------------------------------------------------


@every
def test_fit_forgets_and_learns_batch_by_batch(case):
    parts = list(batches(case))
    X = np.concatenate([X for X, _ in parts])
    y = None if parts[0][1] is None else np.concatenate([y for _, y in parts])
    selector = clone(case.selector)
    size = 25 if "batch_size" in selector.get_params() else 100
    selector = selector.set_params(batch_size=25) if size == 25 else selector
    cuts = [(X[i : i + size], None if y is None else y[i : i + size]) for i in range(0, 100, size)]
    expected = learn(case, cuts)
    learn(case, batches(case, 2, seed=5), selector=selector)
    for _ in range(2):
        assert_alike(selector.fit(X, y), expected, rtol=0.0)
        assert selector.n_samples_seen_ == len(X)
    assert_array_equal(clone(selector).fit_transform(X, y), expected.transform(X))


def spoilt(X, value):
    X = X.copy()
    X[4, 3] = value
    return X


# Each makes X, y and sample_weight wrong; then the words.
WRONG = {
    "one column less": (lambda X, y: (X[:, :7], y, None), "X has 7 features, but .* expecting 8"),
    "one column more": (lambda X, y: (np.c_[X, X[:, 0]], y, None), "X has 9 features"),
    "infinity": (lambda X, y: (spoilt(X, np.inf), y, None), "infinity.*row 4, column 3"),
    "a huge value": (lambda X, y: (spoilt(X, -1e200), y, None), "so large.*row 4, column 3"),
    "no rows": (lambda X, y: (X[:0], y if y is None else y[:0], None), r"0 sample\(s\)"),
    "negative weights": (lambda X, y: (X, y, -np.ones(len(X))), "not negative"),
    "no weight": (lambda X, y: (X, y, np.zeros(len(X))), "nothing to learn from"),
    "few weights": (lambda X, y: (X, y, [1.0]), "sample_weight has 1"),
    "few targets": (lambda X, y: (X, y[1:], None), "X has 25 rows, y has 24"),
    "missing targets": (lambda X, y: (X, [None, *y[1:]], None), "NaN or None.*row 0"),
    "not one target a row": (lambda X, y: (X, np.c_[y, y], None), "1d array"),
}


@every
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_batch_that_is_refused_leaves_everything_as_it_was(case, form):
    selector = learn(case, form=form)
    before, twin = state(selector), copy.deepcopy(selector)
    for what, (wrong, words) in WRONG.items():
        if "target" in what and case.target == "none":
            continue
        X, y, w = wrong(*next(batches(case, seed=7)))
        with pytest.raises(ValueError, match=words) as caught:
            selector.partial_fit(form(X), y, sample_weight=w)
        assert "\n" not in str(caught.value)
        assert state(selector) == before
        if not what.startswith("one column"):
            with pytest.raises(ValueError, match=words):
                selector.fit(form(X), y, sample_weight=w)
            assert state(selector) == before
            fresh = clone(case.selector)
            with pytest.raises(ValueError, match=words):
                fresh.partial_fit(form(X), y, sample_weight=w)
            assert vars(fresh) == vars(clone(case.selector)) or case.load
    stream = list(batches(case, 2, seed=8))
    for one in (selector, twin):
        learn(case, stream, form, one)
    assert state(selector) == state(twin)


@every
def test_a_setting_that_makes_no_sense_is_named_and_changes_nothing(case):
    X, y = next(batches(case))
    for name, good in case.selector.get_params(deep=False).items():
        for value in (object(), [np.nan, "?"], "nonsense"):
            selector = clone(case.selector).set_params(**{name: value})
            with pytest.raises(ValueError, match=rf"^{name}\b") as caught:
                selector.fit(X, y)
            assert "\n" not in str(caught.value)
            assert not [name for name in vars(selector) if name.endswith("_")]
        if name == "batch_size" or name in STARTED:  # looked at by fit, or with the first batch
            continue
        selector = learn(case)
        before = state(selector)
        with pytest.raises(ValueError, match=rf"^{name}\b"):
            learn(case, selector=selector.set_params(**{name: "nonsense"}))
        assert state(selector.set_params(**{name: good})) == before


STARTED = {"model", "scale", "mu_init", "sigma_init", "fit_intercept", "random_state"}
