"""Screening: what it sums, to the digits of textbook formulas, however the stream is cut."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.feature_selection import f_classif, f_regression

import fires
from fires import Screening
from fires.rivals.arrays import decay

KINDS = {
    "dense": np.asarray,
    "columns": np.asfortranarray,
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
both = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
measures = pytest.mark.parametrize("measure", ["correlation", "f"])
targets = pytest.mark.parametrize("target", ["numbers", "classes"])


def problem(seed=0, n_rows=60, target="classes", n_features=5, density=0.6, missing=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(1.0, 2.0, size=(n_rows, n_features)) * (
        rng.random((n_rows, n_features)) < density
    )
    signal = X[:, 0] - 0.5 * X[:, 1] + rng.normal(size=n_rows)
    X[rng.random(X.shape) < missing] = np.nan
    y = signal + 50.0 if target == "numbers" else np.digitize(signal, [-0.5, 0.5, 2.0])
    return X, y, rng.uniform(0.2, 3.0, size=n_rows)


def plain_t(x, z, w):
    """Welch's t of one column, in loops: the greatest over the classes, each against the rest."""
    found = [0.0]
    for label in sorted(set(z.tolist())):
        sides = []
        for wanted in (True, False):
            rows = [(v, one) for v, one, c in zip(w, x, z, strict=True) if (c == label) == wanted]
            n = sum(v for v, _ in rows)
            if not n:
                break
            mean = sum(v * one for v, one in rows) / n
            sides.append((mean, sum(v * (one - mean) ** 2 for v, one in rows) / n / n))
        if len(sides) == 2:
            (one, a), (two, b) = sides
            found.append(abs(one - two) / np.sqrt(a + b))
    return max(found)


def plain_weights(X, y, w, measure):
    """The definition, column by column, over the rows in which it is there."""
    weights = np.zeros(X.shape[1])
    if measure == "t":
        there = ~np.isnan(X) & (w > 0)[:, None]
        return np.array([plain_t(x[t], y[t], w[t]) for x, t in zip(X.T, there.T, strict=True)])
    for j, column in enumerate(X.T):
        there = ~np.isnan(column) & (w > 0)
        x, z, v = column[there], y[there], w[there]
        n, mean = v.sum(), v @ x / v.sum()
        total = v @ (x - mean) ** 2
        if z.dtype.kind == "f":
            level = v @ z / n
            share = (v @ ((x - mean) * (z - level))) ** 2 / total / (v @ (z - level) ** 2)
            groups = 2
        else:
            labels = np.unique(z)
            groups = len(labels)
            means = [v[z == c] @ x[z == c] / v[z == c].sum() for c in labels]
            parts = [v[z == c].sum() * (m - mean) ** 2 for c, m in zip(labels, means, strict=True)]
            share = sum(parts) / total
        f = share / (1.0 - share) * (n - groups) / (groups - 1)
        weights[j] = np.sqrt(share) if measure == "correlation" else f
    return weights


def learnt(X, y, w=None, sizes=(60,), kind=np.asarray, **options):
    selector = Screening(2, **options)
    start = 0
    while start < len(y):
        for size in sizes:
            rows = slice(start, start + size)
            if start < len(y):
                part = None if w is None else w[rows]
                selector.partial_fit(kind(X[rows]), y[rows], sample_weight=part)
            start += size
    return selector


# --- what it computes -----------------------------------------------------------------------------


@kinds
def test_correlations_of_the_reference_data(kind):
    """|r| behind the Fisher z of algorithms B1 to B4, to the six digits printed there."""
    table = np.loadtxt(Path(__file__).with_name("arriving") / "arriving.csv", delimiter=",")
    selector = learnt(table[:, :6], table[:, 6], sizes=(7, 1, 20), kind=kind)
    expected = [0.79781, 0.051928, 0.136576, 0.57861, 0.584143, 0.041927]
    assert_allclose(selector.weights_, expected, rtol=0.0, atol=0.50001e-6)


@kinds
@pytest.mark.parametrize("n_classes", [2, 3, 30])
def test_f_over_classes_is_that_of_scikit_learn(kind, n_classes):
    rng = np.random.default_rng(n_classes)
    X, y = rng.normal(size=(200, 8)) + 1.0, rng.integers(0, n_classes, 200)
    X[:, 3] += y
    selector = learnt(X, y, sizes=(50,), kind=kind, measure="f")
    assert_allclose(selector.weights_, f_classif(X, y)[0], rtol=1e-10)


@kinds
def test_f_with_a_number_is_that_of_scikit_learn(kind):
    X, y, _ = problem(target="numbers")
    selector = learnt(X, y, sizes=(7,), kind=kind, measure="f")
    assert_allclose(selector.weights_, f_regression(X, y)[0], rtol=1e-10)


@pytest.mark.parametrize(
    "labels", [(0, 1), (1, 2), (-1, 1), (1.0, 0.0), ("no", "yes"), (False, True), (10**9, 3)]
)
def test_two_classes_are_as_good_as_two_numbers(labels):
    X, y, _ = problem()
    y = y > 1
    expected = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    assert_allclose(learnt(X, np.array(labels)[y.astype(int)]).weights_, expected, rtol=1e-12)


@both
@measures
@targets
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=4),
    missing=st.sampled_from([0.0, 0.3]),
    weighted=st.booleans(),
)
@settings(max_examples=10)
def test_scores_are_those_of_all_rows_however_they_are_cut(
    kind, measure, target, seed, sizes, missing, weighted
):
    X, y, w = problem(seed, target=target, missing=missing)
    w = w if weighted else np.ones(len(y))
    selector = learnt(X, y, w if weighted else None, sizes, kind, measure=measure, target=target)
    expected = plain_weights(X, y, w, measure)
    assert_allclose(selector.weights_, expected, rtol=1e-8, atol=1e-13)


@both
@measures
@targets
@given(
    seed=st.integers(0, 2**16),
    sizes=st.lists(st.integers(1, 25), min_size=1, max_size=4),
    forgetting=st.sampled_from([0.001, 0.05, 0.2]),
    missing=st.sampled_from([0.0, 0.2]),
)
@settings(max_examples=10)
def test_every_further_row_makes_the_ones_before_count_less(
    kind, measure, target, seed, sizes, forgetting, missing
):
    X, y, _ = problem(seed, target=target, missing=missing, n_rows=40)
    age = np.arange(len(y))[::-1]
    expected = plain_weights(X, y, (1.0 - forgetting) ** age, measure)
    selector = learnt(X, y, None, sizes, kind, measure=measure, forgetting=forgetting)
    assert_allclose(selector.weights_, np.maximum(expected, 0.0), rtol=1e-7, atol=1e-12)


@measures
@pytest.mark.parametrize("forgetting", [0.0, 0.1])
def test_a_row_of_weight_w_counts_as_w_rows(measure, forgetting):
    X, y, _ = problem()
    w = np.arange(60) % 4
    weighted = learnt(X, y, w, sizes=(13,), measure=measure, forgetting=forgetting)
    rows = np.repeat(np.arange(60), w)
    repeated = learnt(X[rows], y[rows], measure=measure, forgetting=forgetting)
    assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-9)


def test_what_a_batch_keeps_of_itself():
    mass, keep = decay(None, 4, 0.25)
    assert_allclose(mass, 0.75 ** np.array([3, 2, 1, 0]), rtol=1e-14)
    assert_allclose(keep, 0.75**4, rtol=1e-14)
    mass, keep = decay(np.array([3.0, 0.0, 2.0]), 3, 0.25)
    assert_allclose(mass, [0.75**4 + 0.75**3 + 0.75**2, 0.0, 0.75 + 1.0], rtol=1e-14)
    assert_allclose(keep, 0.75**5, rtol=1e-14)
    tiny, _ = decay(np.array([1.0, 0.5]), 2, 1e-15)
    assert_allclose(tiny, [1.0, 0.5], rtol=1e-12)
    huge, nothing = decay(np.array([1.0, 1e30]), 2, 0.5)
    assert_array_equal(huge, [0.0, 2.0])
    assert nothing == 0.0


def test_drift_is_followed_by_those_who_forget():
    rng = np.random.default_rng(0)
    forgets, keeps = Screening(1, forgetting=0.01), Screening(1)
    for relevant in [0] * 30 + [1] * 10:
        X = rng.normal(size=(50, 3))
        for selector in (forgets, keeps):
            selector.partial_fit(X, (X[:, relevant] > 0).astype(int))
    assert forgets.ranking_[1] == 1
    assert keeps.ranking_[0] == 1


# --- numbers that are hard ------------------------------------------------------------------------


@both
@measures
@targets
@pytest.mark.parametrize("offset", [1e6, -1e9, 1e12])
@pytest.mark.parametrize("forgetting", [0.0, 0.01])
def test_an_offset_costs_no_digits(kind, measure, target, offset, forgetting):
    rng = np.random.default_rng(0)
    unit = 2.0**-10  # so that an offset can be added without rounding
    X = np.round(rng.normal(size=(90, 3)) / unit) * unit
    signal = np.round((X[:, 1] + rng.normal(size=90)) / unit) * unit
    y = signal if target == "numbers" else np.digitize(signal, [-1.0, 0.0, 1.0])
    options = {"measure": measure, "forgetting": forgetting, "target": target}
    usual = learnt(X, y, sizes=(20, 1), kind=kind, **options)
    moved = y + offset if target == "numbers" else y
    far = learnt(X + offset, moved, sizes=(20, 1), kind=kind, **options)
    assert_allclose(far.weights_, usual.weights_, rtol=1e-9)


@both
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("forgetting", [0.0, 0.02])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_t_is_the_plain_loop(kind, missing, forgetting, n_classes):
    X, y, _ = problem(3, n_rows=200, missing=missing)
    y = np.minimum(y, n_classes - 1)
    selector = learnt(X, y, None, (7, 40), kind, measure="t", forgetting=forgetting)
    expected = plain_weights(X, y, (1.0 - forgetting) ** np.arange(200)[::-1], "t")
    assert_allclose(selector.weights_, expected, rtol=1e-12)


def test_t_with_forgetting_follows_what_correlation_over_all_rows_does_not():
    rng = np.random.default_rng(0)
    drift, still = Screening(1, measure="t", forgetting=0.005), Screening(1)
    for t in range(40):
        X = rng.normal(size=(50, 4))
        y = X[:, 0 if t < 25 else 2] + 0.5 * rng.normal(size=50) > 0
        for selector in (drift, still):
            selector.partial_fit(X, y)
    assert drift.get_support(indices=True) == [2]
    assert still.get_support(indices=True) == [0]


def test_t_is_finite_is_for_classes_and_cannot_come_later():
    X, y, _ = problem()
    perfect = np.c_[y == 0, np.zeros(60), X]
    weights = Screening(2, measure="t").fit(perfect, y == 0).weights_
    assert weights[0] > 1e6 * weights[2:].max()
    assert np.isfinite(weights).all()
    assert weights[1] == 0.0
    with pytest.raises(ValueError, match="measure='t' is for classes"):
        Screening(2, measure="t", target="numbers").fit(X, y)
    late = Screening(2).fit(X, y).set_params(measure="t")
    with pytest.raises(ValueError, match="cannot become 't'"):
        late.partial_fit(X, y)
    both = Screening(2, measure="t").fit(X, y).set_params(measure="f").partial_fit(X, y)
    assert_allclose(both.weights_, learnt(np.r_[X, X], np.r_[y, y], measure="f").weights_)


@kinds
def test_an_offset_that_comes_and_is_forgotten_leaves_no_trace(kind):
    X, y, _ = problem(n_rows=2000, target="numbers", density=1.0)
    X[:300] += 1e8
    y[:300] += 1e8
    forgets = learnt(X, y, sizes=(50,), kind=kind, forgetting=0.05)
    fresh = learnt(X[300:], y[300:], sizes=(50,), kind=kind, forgetting=0.05)
    assert_allclose(forgets.weights_, fresh.weights_, rtol=1e-9)


@both
@measures
@given(exponents=st.lists(st.integers(-120, 140), min_size=5, max_size=5))
@settings(max_examples=10)
def test_the_unit_of_a_column_does_not_matter(kind, measure, exponents):
    X, y, _ = problem()
    scaled = X * 2.0 ** np.array(exponents)
    usual = learnt(X, y, sizes=(20,), kind=kind, measure=measure)
    other = learnt(scaled, y, sizes=(20,), kind=kind, measure=measure)
    assert_allclose(other.weights_, usual.weights_, rtol=1e-9)


@both
@measures
@targets
@pytest.mark.parametrize("constant", [0.0, 1.0, 0.1, -3.7, 1e9 / 3.0, 1e150, 1e-200])
def test_a_constant_column_scores_nothing(kind, measure, target, constant):
    X, y, w = problem(target=target)
    X[:, 2] = constant
    selector = learnt(X, y, w, sizes=(7, 1, 30), kind=kind, measure=measure)
    assert selector.weights_[2] == 0.0
    assert np.isfinite(selector.weights_).all()


@kinds
@measures
@pytest.mark.parametrize("level", [0, 7, 0.3, "one"])
def test_a_target_that_does_not_vary_tells_nothing(kind, measure, level):
    X, _, _ = problem()
    selector = learnt(X, np.full(60, level), sizes=(13,), kind=kind, measure=measure)
    assert_array_equal(selector.weights_, np.zeros(5))
    assert_array_equal(selector.get_support(indices=True), [0, 1])


@kinds
def test_a_feature_without_error_scores_high_and_finite(kind):
    y = np.arange(60) % 3
    X = np.column_stack([np.random.default_rng(0).normal(size=60), y * 0.1, y * y - 7.0])
    f = learnt(X, y, sizes=(20,), kind=kind, measure="f")
    assert np.isfinite(f.weights_).all()
    assert f.weights_[1] > 1e12
    assert_array_equal(f.get_support(indices=True), [1, 2])
    r = learnt(X, y, sizes=(20,), kind=kind)
    assert_allclose(r.weights_[1:], 1.0, rtol=1e-12)
    assert (r.weights_ <= 1.0).all()


@kinds
def test_no_more_rows_than_classes_tell_nothing(kind):
    selector = learnt(np.eye(3), np.arange(3), kind=kind, measure="f")
    assert_array_equal(selector.weights_, np.zeros(3))


@kinds
@targets
def test_sums_that_would_overflow_are_refused_and_change_nothing(kind, target):
    X, y, _ = problem(target=target)
    selector = learnt(X, y, kind=kind)
    twin = learnt(X, y, kind=kind)
    huge = X.copy()
    huge[3, 1] = 1e150
    with pytest.raises(ValueError, match="so large that sums overflow"):
        selector.partial_fit(kind(huge), y, sample_weight=np.full(60, 1e20))
    for one in (selector, twin):
        one.partial_fit(kind(X[::-1]), y)
    assert_array_equal(selector.weights_, twin.weights_)
    selector.partial_fit(kind(huge), y)
    assert np.isfinite(selector.weights_).all()


def test_a_huge_target_is_borne_or_refused():
    X, y, _ = problem(target="numbers")
    usual = learnt(X, y)
    assert_allclose(learnt(X, y * 2.0**400, target="numbers").weights_, usual.weights_, rtol=1e-12)
    with pytest.raises(ValueError, match="so large"):
        learnt(X, y * 1e200, target="numbers")


# --- missing entries ------------------------------------------------------------------------------


@both
@measures
@targets
def test_a_column_that_is_missing_for_a_while(kind, measure, target):
    X, y, w = problem(target=target)
    X[:40, 2] = np.nan
    X[40:, 3] = np.nan
    X[:, 4] = np.nan
    selector = learnt(X, y, w, sizes=(20,), kind=kind, measure=measure)
    expected = plain_weights(X[:, :4], y, w, measure)
    assert_allclose(selector.weights_, [*expected, 0.0], rtol=1e-9)
    assert selector.n_missing_ == 120


@kinds
@measures
def test_a_column_that_is_far_off_and_missing_throughout_a_batch_does_not_move(kind, measure):
    """Weights that are no whole numbers must not add up to a trace of a row."""
    X, y, w = problem(density=1.0)
    X[:, 2] += 1e9
    selector = learnt(X, y, w, kind=kind, measure=measure)
    before = selector.weights_[2]
    gaps = X.copy()
    gaps[:, 2] = np.nan
    selector.partial_fit(kind(gaps), y, sample_weight=w)
    assert_allclose(selector.weights_[2], before, rtol=1e-9)


@measures
@targets
@pytest.mark.parametrize("forgetting", [0.0, 0.05])
def test_dense_and_sparse_are_the_same(measure, target, forgetting):
    X, y, w = problem(target=target, missing=0.1, density=0.3, n_rows=200)
    options = {"measure": measure, "forgetting": forgetting, "sizes": (20,)}
    dense, sparse = learnt(X, y, w, **options), learnt(X, y, w, kind=sp.csr_array, **options)
    assert_allclose(sparse.weights_, dense.weights_, rtol=1e-10)


@kinds
@measures
@targets
def test_rows_and_batches_of_zeros_count(kind, measure, target):
    X, y, w = problem(target=target)
    X[20:30] = 0.0
    selector = learnt(X, y, w, sizes=(10,), kind=kind, measure=measure)
    assert_allclose(selector.weights_, plain_weights(X, y, w, measure), rtol=1e-9)
    empty = learnt(0.0 * X, y, w, sizes=(10,), kind=kind, measure=measure)
    assert_array_equal(empty.weights_, np.zeros(5))


def test_stored_zeros_are_zeros():
    X, y, _ = problem()
    stored = sp.csr_array(np.ones_like(X))
    stored.data[:] = X.ravel()
    assert stored.nnz == X.size
    assert_allclose(Screening(2).partial_fit(stored, y).weights_, learnt(X, y).weights_, rtol=1e-12)


# --- targets --------------------------------------------------------------------------------------


@kinds
@measures
@pytest.mark.parametrize("names", [np.arange(4), np.array(["d", "a", "c", "b"])])
def test_a_stream_sorted_by_class_is_as_good_as_a_shuffled_one(kind, measure, names):
    X, y, _ = problem(n_rows=120)
    order = np.argsort(names[y], kind="stable")[::-1]
    shuffled = learnt(X, names[y], sizes=(10,), kind=kind, measure=measure)
    by_class = learnt(X[order], names[y[order]], sizes=(1, 6), kind=kind, measure=measure)
    assert_allclose(by_class.weights_, shuffled.weights_, rtol=1e-9)
    assert_array_equal(by_class.classes_, np.sort(names))


def test_classes_may_be_announced():
    X, y, _ = problem()
    announced = Screening(2, measure="f").partial_fit(X[:1], y[:1], classes=[0, 1, 2, 3, 4])
    announced.partial_fit(X[1:], y[1:])
    assert_allclose(announced.weights_, learnt(X, y, measure="f").weights_, rtol=1e-9)
    with pytest.raises(ValueError, match="the label 9, which is not in classes"):
        announced.partial_fit(X[:1], [9])


def test_many_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 300, size=3000)
    X = rng.normal(size=(3000, 4))
    X[:, 2] += np.sin(y)
    selector = Screening(1, measure="f", batch_size=100, target="classes")
    selector.fit(X, y)
    assert_allclose(selector.weights_, f_classif(X, y)[0], rtol=1e-9)


def test_what_the_target_is_can_be_said():
    X, _, _ = problem()
    counts = np.arange(60) % 30
    with pytest.raises(ValueError, match=r"30 distinct whole numbers in 30 rows.*target='numbers'"):
        Screening(1).partial_fit(X[:30], counts[:30])
    numbers = Screening(1, target="numbers").partial_fit(X, counts)
    assert_allclose(numbers.weights_, np.abs(np.corrcoef(X.T, counts)[-1, :-1]), rtol=1e-12)
    assert not hasattr(numbers, "classes_")
    assert len(Screening(1, target="classes").partial_fit(X, counts).classes_) == 30


def test_a_target_that_changes_its_kind_is_refused():
    X, y, _ = problem()
    selector = learnt(X, y)
    with pytest.raises(ValueError, match=r"not whole.*learns classes; pass target='numbers'"):
        selector.partial_fit(X, y + 0.5)
    numeric = learnt(X, y + 0.5)
    with pytest.raises(ValueError, match="needs numbers in y"):
        numeric.partial_fit(X, np.full(60, "a"))
    with pytest.raises(ValueError, match="classes is for class labels"):
        numeric.partial_fit(X, y, classes=[0, 1])
    assert_array_equal(selector.weights_, learnt(X, y).weights_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"measure": "r"}, "measure must be one of 'correlation', 'f', 't'; got 'r'"),
        ({"target": "labels"}, "target must be one of .* got 'labels'"),
        ({"forgetting": 1.0}, "forgetting must be a number at least 0 and less than 1; got 1.0"),
        ({"forgetting": -0.1}, "forgetting must be .* got -0.1"),
        ({"forgetting": "a"}, "forgetting must be .* got 'a'"),
        ({"forgetting": True}, "forgetting must be .* got True"),
        ({"missing": None}, "missing must be 'ignore' or 'error'; got None"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(options, message):
    X, y, _ = problem()
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(Screening(1, **options), learn)(X, y)


# --- state ----------------------------------------------------------------------------------------


@both
@targets
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_loaded_selector_goes_on_bit_for_bit(kind, target, missing, tmp_path):
    X, y, w = problem(target=target, missing=missing, n_rows=120)
    y = y if target == "numbers" else np.array(["a", "b", "c", "d"])[y]
    selector = learnt(X[:60], y[:60], w[:60], sizes=(7,), kind=kind, forgetting=0.01)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state")
    assert_array_equal(loaded.weights_, selector.weights_)
    for start in range(60, 120, 9):
        rows = slice(start, start + 9)
        for one in (selector, loaded):
            one.partial_fit(kind(X[rows]), y[rows], sample_weight=w[rows])
    assert_array_equal(loaded.weights_, selector.weights_)
    assert_array_equal(
        loaded.set_params(measure="f").weights_, selector.set_params(measure="f").weights_
    )
