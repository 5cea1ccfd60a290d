"""The compiled row-by-row loops, over arrays and over CSR, do what their definitions say."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from tests import naive
from tests.naive import top_k_plain

from fires.kernels import online, read_only, second_order, sequential

# The rows of the worked examples of the specification.
X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6], [0.9, 0, 0.1, 1]])
Y = np.array([1.0, -1.0, -1.0, 1.0])
DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}

kinds = pytest.mark.parametrize("kind", ["rows", "csr"])
problems = given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 12),
    n_features=st.sampled_from([1, 3, 17, 70, 200]),
    k=st.sampled_from([1, 2, 5, 40, 300]),
    whole=st.booleans(),
)


def problem(seed, n_rows, n_features, whole):
    """Rows with zeros in them; whole numbers make for ties."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, size=(n_rows, n_features)).astype(float)
    if not whole:
        rows *= rng.random(rows.shape)
    return rows, rng.choice([-1.0, 1.0], size=n_rows), rng


def run(loop, kind, rows, *arguments):
    """Call the loop for arrays or for CSR; the CSR has explicit zeros and unsorted columns."""
    if kind == "rows":
        return loop(*read_only(np.ascontiguousarray(rows)), *arguments)
    coded = sp.csr_array(np.where(rows == 0.0, 7.25, rows)[:, ::-1])
    data = np.where(coded.data == 7.25, 0.0, coded.data)
    columns = rows.shape[1] - 1 - coded.indices.astype(np.int64)
    return loop(tuple(read_only(data, columns, coded.indptr.astype(np.int64))), *arguments)


def listed(w, k, n_features):
    """The list of coefficients that are not zero, with room to grow."""
    place = np.full(n_features + max(k, n_features), -1, dtype=np.int64)
    kept = np.flatnonzero(w)
    place[: len(kept)] = kept
    return place, len(kept)


# --- truncation ---------------------------------------------------------------------------------

tied = st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=1, max_size=300)


@given(values=tied, k=st.integers(1, 310), seed=st.integers(0, 99))
def test_the_best_are_brought_to_the_front(values, k, seed):
    place = np.random.default_rng(seed).permutation(len(values))
    key = np.array(values)[place]
    n = sequential.keep_best(place, key, len(values), k)
    assert sorted(place[:n]) == top_k_plain(np.array(values), k).tolist()
    assert_array_equal(key[:n], np.array(values)[place[:n]])


@given(values=tied, k=st.integers(1, 310), known=st.booleans())
def test_the_best_of_all_are_found(values, k, known):
    size = np.array(values)
    place, key = np.zeros(len(values), dtype=np.int64), np.empty(len(values))
    best = top_k_plain(size, k)
    best = best[size[best] > 0.0]
    n = min(k, len(values)) if known else 0  # those listed before may be the best ones, or not
    place[:n] = best if len(best) == n else np.arange(n)
    n = sequential.find_best(size, 0.0, k, place, n, key)
    assert sorted(place[:n]) == best.tolist()


# --- OFS ----------------------------------------------------------------------------------------

PERCEPTRON = (1.0, 1.0, np.inf, 0.0)
MATLAB = (0.2, 1.0, 10.0, 1.0)
PAPER = (0.2, 1.0 - 0.2 * 0.01, 10.0, 1.0)


@kinds
@pytest.mark.parametrize("settings", [PERCEPTRON, MATLAB, PAPER, (20.0, 0.5, 0.7, 1.0)])
@problems
def test_ofs_equals_its_definition(kind, settings, seed, n_rows, n_features, k, whole):
    rows, y, _ = problem(seed, n_rows, n_features, whole)
    if whole and settings in (MATLAB, PAPER):  # exact, so that rounding does not decide ties:
        _, keep, *rest = settings  # of coefficients, and of a score (0.2 * 5) with the threshold
        settings = (0.25, 0.875 if keep < 1.0 else 1.0, *rest)
    w = np.zeros(n_features)
    place, n = listed(w, k, n_features)
    n = run(sequential.ofs, kind, rows, y, w, place, n, k, settings)
    expected = naive.ofs_plain(rows, y, np.zeros(n_features), k, settings)
    assert_allclose(w, expected, rtol=1e-9, atol=1e-12)
    assert n <= k
    assert set(np.flatnonzero(w)) <= set(place[:n])
    assert len(set(place[:n])) == n


@kinds
def test_ofs_follows_a_list_that_has_become_too_long(kind):
    """As after a change of k in mid-stream."""
    w = np.array([1.0, -2.0, 3.0, 0.5])
    expected = naive.ofs_plain(X, Y, w, 2, MATLAB)
    place, n = listed(w, 2, 4)
    run(sequential.ofs, kind, X, Y, w, place, n, 2, MATLAB)
    assert_allclose(w, expected, rtol=1e-12)
    assert np.count_nonzero(w) == 2


# --- OFS with partial information ---------------------------------------------------------------

# Looks at {0, 1}, at what is known, at {2, 3}, at what is known.
DRAWS = np.array([[0.0, 0.1, 0.3], [0.99, 0, 0], [0.1, 0.9, 0.9], [0.5, 0, 0]])
PATH = [
    [2, 1, 0, 0],
    [1.933333333333, 0.777777777778, 0, 0],
    [1.933333333333, 0, -2, 0],
    [1.933333333333, 0, -2, 0],
]


@kinds
@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_partial_information_follows_the_worked_example(kind, threshold):
    assert [naive.draw_plain(row[1:], 4) for row in DRAWS[::2]] == [[0, 1], [2, 3]]
    settings = (0.2, 0.2, 10.0, threshold)
    for n_rows, expected in enumerate(PATH, 1):
        w = np.zeros(4)
        place, n = listed(w, 2, 4)
        rows, y, draws = X[:n_rows], Y[:n_rows], DRAWS[:n_rows]
        run(sequential.ofs_partial, kind, rows, y, draws, w, place, n, 2, settings)
        assert_allclose(w, expected, **DIGITS)
        plain = naive.partial_plain(rows, y, draws, np.zeros(4), 2, settings)
        assert_allclose(plain, expected, **DIGITS)


@kinds
@pytest.mark.parametrize("settings", [(0.2, 0.2, 10.0, 0.0), (5.0, 0.6, 1.5, 1.0)])
@problems
def test_partial_equals_its_definition(kind, settings, seed, n_rows, n_features, k, whole):
    rows, y, rng = problem(seed, n_rows, n_features, whole)
    k = min(k, n_features)
    draws, w = rng.random((n_rows, 1 + k)), np.zeros(n_features)
    place, n = listed(w, k, n_features)
    n = run(sequential.ofs_partial, kind, rows, y, draws, w, place, n, k, settings)
    near = (rows * (1.0 + 1e-13 * rng.normal(size=rows.shape)) for _ in range(8))
    expected, *others = (
        naive.partial_plain(some, y, draws, np.zeros(n_features), k, settings)
        for some in (rows, *near)
    )
    assume(np.abs(expected - others).max() < 1e-9)  # else rounding decides
    assert_allclose(w, expected, rtol=1e-9, atol=1e-12)
    assert sorted(place[:n]) == np.flatnonzero(w).tolist()


def test_every_set_of_features_is_drawn_as_often_as_any_other():
    rng = np.random.default_rng(0)
    sets = [tuple(sorted(naive.draw_plain(rng.random(2), 4))) for _ in range(6000)]
    _, counts = np.unique(sets, axis=0, return_counts=True)
    assert len(counts) == 6
    assert_allclose(counts, 1000, atol=150)  # five standard deviations


def test_what_is_seen_is_an_unbiased_estimate_of_the_row():
    """One step from w = [0.4, 0, 0, 0.1] at rate 1: on average it adds the whole row."""
    rng, w = np.random.default_rng(1), np.array([0.4, 0.0, 0.0, 0.1])
    row, sign = np.array([[0.3, 1.0, 0.8, 0.0]]), np.array([1.0])
    steps = [
        naive.partial_plain(row, sign, rng.random((1, 3)), w, 4, (1.0, 0.2, np.inf, np.inf))
        for _ in range(20_000)
    ]
    # k is 4 in the chance and the list is not cut, but only two are drawn: halve the chance.
    drawn = np.mean(steps, axis=0) - w
    chance = 0.2 * 4 / 4 + 0.8 * (w != 0)
    true_chance = 0.2 * 2 / 4 + 0.8 * (w != 0)
    assert_allclose(drawn * chance / true_chance, row[0], atol=0.05)


# --- EFS ----------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("settings", [(1.5, 0.5, 1.0, 1.0), (3.0, 0.9, 0.0, 5.0)])
@problems
def test_winnow_equals_its_definition(kind, settings, seed, n_rows, n_features, k, whole):
    rows, y, rng = problem(seed, n_rows, n_features, whole)
    u, v = rng.random((2, n_features + 1)) + 0.5
    expected = naive.winnow_plain(rows, y, u, v, settings)
    bias = np.array([u[-1], v[-1]])
    u, v = u[:-1].copy(), v[:-1].copy()
    run(online.winnow, kind, rows, y, u, v, bias, settings)
    for got, both in zip((u, v), expected, strict=True):
        assert_allclose(got, both[:-1], rtol=1e-10)
    assert_allclose(bias, [expected[0][-1], expected[1][-1]], rtol=1e-10)


# --- AROW and SCW -------------------------------------------------------------------------------

RULES = {
    "AROW": (second_order.AROW, 1.0, 0.0),
    "SCW-I": (second_order.SCW_1, 0.6744897501960817, 1.0),
    "SCW-I, held back": (second_order.SCW_1, 1.3, 0.05),
    "SCW-II": (second_order.SCW_2, 0.6744897501960817, 1.0),
    "SCW-II, bold": (second_order.SCW_2, 2.0, 20.0),
}


@kinds
@pytest.mark.parametrize("inverse", [False, True], ids=["drop", "inverse"])
@pytest.mark.parametrize("kept", [sequential.ALL, sequential.CONFIDENT, sequential.GREATEST])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**16),
    n_features=st.sampled_from([1, 5, 70]),
    k=st.sampled_from([1, 3, 80]),
)
def test_second_order_equals_its_definition(kind, inverse, kept, rule, seed, n_features, k):
    rows, y, _ = problem(seed, 10, n_features, whole=False)
    mu, var = np.zeros(n_features), np.ones(n_features)
    settings = (k, kept, rule, inverse)
    expected = naive.second_order_plain(rows, y, mu, var, *settings)
    place, n = listed(mu, k, n_features)
    n = run(second_order.second_order, kind, rows, y, mu, var, place, n, *settings)
    assert_allclose(mu, expected[0], rtol=1e-8, atol=1e-10)
    assert_allclose(var, expected[1], rtol=1e-8)
    if kept != sequential.ALL:
        assert n <= k
        assert set(np.flatnonzero(mu)) <= set(place[:n])


GENERIC = np.array([[0.5, 1.0, 0.0, -0.4]])
MU, SIGMA = np.array([0.4, -0.3, 0.2, 0.6]), np.array([0.9, 0.5, 1.1, 0.7])
WORKED = {
    "AROW": (
        RULES["AROW"],
        False,
        [0.225396825397, -0.407779737409, 0.2, 0.684499314129],
        [0.702857142857, 0.20917434189, 1.21, 0.464906264289],
    ),
    "AROW, inverse": (
        RULES["AROW"],
        True,
        [0.225396825397, -0.407779737409, 0.2, 0.684499314129],
        [0.673596673597, 0.2, 1.21, 0.454376854599],
    ),
    "SCW-I": (
        RULES["SCW-I"],
        False,
        [0.305371123775, -0.358412886558, 0.2, 0.645795703062],
        [0.776501400919, 0.23723571137, 1.21, 0.482154353408],
    ),
}


@kinds
@pytest.mark.parametrize(
    ("rule", "inverse", "means", "variances"), WORKED.values(), ids=WORKED.keys()
)
def test_second_order_follows_the_worked_example(kind, rule, inverse, means, variances):
    mu, var, y = MU.copy(), SIGMA**2, np.array([-1.0])
    settings = (4, sequential.ALL, rule, inverse)
    plain = naive.second_order_plain(GENERIC, y, mu, var, *settings)
    run(second_order.second_order, kind, GENERIC, y, mu, var, *listed(mu * 0, 4, 4), *settings)
    for got in ((mu, var), plain):
        assert_allclose(got[0], means, **DIGITS)
        assert_allclose(got[1], variances, **DIGITS)


def test_scw_computes_the_alpha_and_beta_of_the_worked_example():
    v = float(SIGMA**2 @ GENERIC[0] ** 2)
    margin = -float(MU @ GENERIC[0])
    phi = RULES["SCW-I"][1]
    assert_allclose([phi * math.sqrt(v) - margin], 0.151452690535, **DIGITS)
    got = naive.scw_plain(RULES["SCW-I"], margin, v)
    assert_allclose(got, [0.233651546234, 0.204228618083], **DIGITS)
    alpha, noise = second_order._step(RULES["SCW-I"], margin, v)
    assert_allclose([alpha, 1.0 / (v + noise)], got, rtol=1e-12)


@pytest.mark.parametrize("name", ["SCW-I", "SCW-I, held back", "SCW-II", "SCW-II, bold"])
@pytest.mark.parametrize(("mu", "var", "x"), [(0.0, 1.0, 1.0), (-0.7, 0.5, 2.0), (0.1, 0.8, 0.3)])
def test_scw_minimises_what_it_is_defined_by(name, mu, var, x):
    """Of one feature: the divergence from the old belief, plus C times the loss or its square."""
    rule = RULES[name]
    kind, phi, C = rule

    def objective(point):
        m, s = point[0], math.exp(point[1])
        loss = max(0.0, phi * math.sqrt(s) * abs(x) - m * x)
        divergence = 0.5 * (s / var - math.log(s / var) - 1.0 + (m - mu) ** 2 / var)
        return divergence + C * (loss if kind == second_order.SCW_1 else loss**2)

    best = minimize(
        objective,
        [mu, math.log(var)],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-14, "maxiter": 10_000},
    ).x
    got = naive.second_order_plain(
        np.array([[x]]), np.ones(1), np.array([mu]), np.array([var]), 1, 0, rule, False
    )
    assert_allclose([got[0][0], got[1][0]], [best[0], math.exp(best[1])], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
@given(
    seed=st.integers(0, 2**16),
    size=st.sampled_from([1e-170, 1e-20, 1.0, 1e20, 1e90, 1e150]),
)
def test_a_variance_stays_positive_and_never_grows(rule, seed, size):
    rows, y, rng = problem(seed, 20, 5, whole=False)
    rows[rng.random(rows.shape) < 0.5] *= size
    mu, var = np.zeros(5), np.ones(5)
    for row, sign in zip(rows, y, strict=True):
        before = var.copy()
        given = (np.array([sign]), mu, var, *listed(mu * 0, 5, 5), 5, 0, rule, False)
        second_order.second_order(row[None, :], *given)
        assert (var > 0.0).all()
        assert (var <= before).all()
        assert np.isfinite(mu).all()


# --- FTRL ---------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("settings", [(0.1, 1.0, 1.0, 0.0), (2.0, 0.1, 0.01, 3.0)])
@problems
def test_ftrl_equals_its_definition(kind, intercept, settings, seed, n_rows, n_features, k, whole):
    rows, y, rng = problem(seed, n_rows, n_features, whole)
    z, root = 3.0 * rng.normal(size=n_features + 1), rng.random(n_features + 1)
    expected = naive.ftrl_plain(rows, y, z, root, intercept, settings)
    bias = np.array([z[-1], root[-1]])
    z, root = z[:-1].copy(), root[:-1].copy()
    assert run(online.ftrl, kind, rows, y, z, root, bias, intercept, settings) == 0
    assert_allclose(z, expected[0][:-1], rtol=1e-9, atol=1e-12)
    assert_allclose(root, expected[1][:-1], rtol=1e-9, atol=1e-12)
    assert_allclose(bias, [expected[0][-1], expected[1][-1]], rtol=1e-9, atol=1e-12)


# --- scores that are not finite -----------------------------------------------------------------


@kinds
def test_a_score_that_is_not_finite_ends_the_pass(kind):
    huge, y, w = np.full((1, 2), 1e150), np.ones(1), np.full(2, 1e200)
    assert run(sequential.ofs, kind, huge, y, w, *listed(w, 2, 2), 2, MATLAB) == -1
    draws, w = np.ones((1, 3)), np.full(2, 1e200)
    settings = (0.2, 0.2, 10.0, 0.0)
    assert run(sequential.ofs_partial, kind, huge, y, draws, w, *listed(w, 2, 2), 2, settings) < 0
    mu, var = np.full(2, 1e200), np.ones(2)
    rest = (*listed(mu * 0, 2, 2), 2, sequential.ALL, RULES["AROW"], False)
    assert run(second_order.second_order, kind, huge, y, mu, var, *rest) == -1
    z, root, bias = np.full(2, -1e200), np.zeros(2), np.zeros(2)
    rest = (bias, True, (0.1, 1.0, 1.0, 0.0))
    assert run(online.ftrl, kind, huge, y, z, root, *rest) == -1
