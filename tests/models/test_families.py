"""The scalar functions behind the linear models, against high precision and against their laws."""

import csv
import itertools
import operator
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mpmath.calculus.quadrature import GaussLegendre
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaln

from fires.models.families import FAMILIES
from fires.models.families.poisson import _beyond_linear
from fires.models.families.probit import inverse_mills

mp = mpmath.mp.clone()  # a context of our own
mp.dps = 40  # exponents reach 1e12, and 25 digits must be left

NAMES = ("probit", "logistic", "gaussian", "poisson")
CLASSES = ("probit", "logistic")
EXACT = Path(__file__).with_name("exact_marginals.csv")
COUNTS = (0.0, 1.0, 2.0, 7.0, 50.0, 1000.0, 1e5)

signs = st.sampled_from([-1.0, 1.0])
variances = st.floats(-4.0, 4.0).map(lambda e: 10.0**e)


# --- Worked examples ---------------------------------------------------------------------------

X = np.array([0.5, 1.0, 0.0, -0.4])
MU = np.array([0.4, -0.3, 0.2, 0.6])
SIGMA = np.array([0.9, 0.5, 1.1, 0.7])
A, V = X @ MU, X**2 @ SIGMA**2


@pytest.mark.parametrize(
    ("z", "ratio"),
    [
        (-1000.0, 1000.000999998),
        (-50.0, 50.0199840319),
        (-38.5, 38.5259390969),
        (-10.0, 10.0980932340),
        (-1.0, 1.52513527616),
        (0.0, 0.797884560803),
        (1.0, 0.287599970939),
        (10.0, 7.6945986267e-23),
    ],
)
def test_inverse_mills_ratio_has_its_known_values(z, ratio):
    assert_allclose(inverse_mills(np.array(z)), ratio, rtol=1e-11)


@pytest.mark.parametrize(
    ("a", "g_mu", "g_sigma"),
    [(-2.0, 1.319483757117, 1.319483757117), (2.0, 0.112635621314, -0.112635621314)],
)
def test_probit_on_one_point(a, g_mu, g_sigma):
    _, g_a, g_v = FAMILIES["probit"].scores(a, 1.0, 1.0)
    assert_allclose([g_a, 2.0 * g_v], [g_mu, g_sigma], atol=1e-12)


def test_probit_on_three_rows():
    rows = np.array([[0.5, 1.0, 0.0], [1.0, 0.0, 0.25], [0.0, 0.5, 1.0]])
    mu, sigma = np.array([0.4, -0.3, 0.2]), np.array([0.9, 0.5, 1.1])
    log_z, g_a, g_v = FAMILIES["probit"].scores(rows @ mu, rows**2 @ sigma**2, [1.0, -1.0, 1.0])
    assert_allclose(log_z.mean(), -0.806207057729, atol=1e-12)
    assert_allclose(rows.T @ g_a / 3, [-0.129257673456, 0.321385851361, 0.110034332172], atol=1e-12)
    assert_allclose(
        2.0 * sigma * (rows.T**2 @ g_v) / 3,
        [0.056700203066, 0.007634019820, -0.000105016947],
        atol=1e-12,
    )


def test_gaussian_on_one_row():
    log_z, g_a, g_v = FAMILIES["gaussian"].scores(A, 0.25 + V, 1.3)
    assert_allclose(log_z, -2.517399951795, atol=1e-12)
    assert_allclose(X * g_a, [1.050070431553, 2.100140863107, 0, -0.840056345243], atol=1e-12)
    assert_allclose(
        2.0 * SIGMA * X**2 * g_v, [0.704254038272, 1.565008973937, 0, 0.350562010162], atol=1e-12
    )
    assert_allclose(g_v, 1.565008973937, atol=1e-12)  # also the slope in the noise


@pytest.mark.parametrize(
    ("name", "y", "expected"),
    [
        ("logistic", 1.0, (-0.856620170258, 0.515015885467, 0.031961710691)),
        ("logistic", -1.0, (-0.552680647819, -0.380033050263, -0.023584721847)),
        ("poisson", 2.0, (-2.020380753057, 0.755757122254, -0.075800845035)),
    ],
)
def test_exact_marginals_of_one_row(name, y, expected):
    assert_allclose(FAMILIES[name].scores(A, V, y), expected, atol=1e-12)


def test_probit_slope_in_the_variance_of_one_row():
    assert_allclose(FAMILIES["probit"].scores(A, V, 1.0)[2], 0.0880129086574, atol=1e-13)


# --- Against quadrature in 40 digits -----------------------------------------------------------


@cache
def legendre(degree):
    """3 * 2**(degree - 1) Gauss-Legendre nodes and weights on [-1, 1]."""
    return GaussLegendre(mp).calc_nodes(degree, mp.prec)


def integrals(f, a, v, centres, degree):
    """Integrate the functions ``f(t)`` against N(a, v), straight from the definition.

    ``centres`` are the places where something happens, with their scales. Intervals grow
    geometrically from each; where all integrands have died out at both ends, they are skipped.
    """

    def g(t):
        density = mp.exp(-((t - a) ** 2) / (2 * v))
        return [density * each for each in f(t)]

    points = {centre for centre, _ in centres}
    for centre, scale in centres:
        for i in range(30):
            if 3**i < 16 * (1 + mp.sqrt(v) / scale):
                points |= {centre - scale * 3**i, centre + scale * 3**i}
    closest = min(scale for _, scale in centres) / 4
    ends = []
    for point in sorted(points):
        if not ends or point - ends[-1] > closest:
            ends.append(point)
    heights = [[abs(each) for each in g(end)] for end in ends]
    floors = [max(column) * mp.mpf(10) ** -26 for column in zip(*heights, strict=True)]
    alive = [any(map(operator.gt, row, floors)) for row in heights]
    weights, values = [], []
    for i, (low, high) in enumerate(itertools.pairwise(ends)):
        if alive[i] or alive[i + 1]:
            half = (high - low) / 2
            for x, weight in legendre(degree):
                weights.append(half * weight / mp.sqrt(2 * mp.pi * v))
                values.append(g(low + half * (1 + x)))
    return [mp.fdot(weights, column) for column in zip(*values, strict=True)]


def exact_logistic(a, v, y, degree=4):
    a, v = mp.mpf(a), mp.mpf(v)

    def sigmoid(t):
        small, share = mp.exp(-abs(t)), 1 / (1 + mp.exp(-abs(t)))
        slope = small * share**2
        bend = slope * (1 - small) * share
        return (small * share, slope, bend) if t < 0 else (share, slope, -bend)

    s, root = -abs(a), mp.sqrt(v)
    centres = [(s, root), (min(s + v, mp.mpf(0)), root), (mp.mpf(0), min(root, mp.mpf(1)))]
    f, f1, f2 = integrals(sigmoid, s, v, centres, degree)
    if y * a < 0:
        return mp.log(f), y * f1 / f, f2 / f / 2
    return mp.log1p(-f), y * f1 / (1 - f), -f2 / (1 - f) / 2


def exact_poisson(a, v, y, degree=4):
    a, v, y = mp.mpf(a), mp.mpf(v), mp.mpf(y)

    def pmf(t):
        if t > 60:  # no count here is seen at such a rate
            return [mp.mpf(0)] * 3 + [mp.mpf(1)] * (y == 0)
        rate = mp.exp(t)
        p = mp.exp(y * t - rate)
        missing = [rate - rate**2 / 2 if t < -60 else 1 - p] if y == 0 else []
        return [p, p * (y - rate), p * ((y - rate) ** 2 - rate), *missing]

    root = mp.sqrt(v)
    centres = [(mp.mpf(0), min(root, mp.mpf(1))), (a, root)]
    for count in (y, y + 1, y + 2):  # the modes of p, p' and p''
        w = mp.lambertw(v * mp.exp(a + v * count)).real
        centres.append((a + v * count - w, 1 / mp.sqrt((w + 1) / v)))
    z, z1, z2, *missing = integrals(pmf, a, v, centres, degree)
    certain = missing and missing[0] < 0.5
    log_z = mp.log1p(-missing[0]) if certain else mp.log(z) - mp.loggamma(y + 1)
    return log_z, z1 / z, z2 / z / 2


def grid():
    """Where the families are held against quadrature: near and far, sure and unsure."""
    logistic_v = (1e-8, 1e-4, 0.01, 0.3, 2.0, 20.0, 100.0, 1e3, 1e4)
    logistic_a = (-100.0, -20.0, -3.0, -0.2, 1e-3, 1.0, 8.0, 45.0, 100.0)
    poisson_v = (1e-8, 1e-3, 0.3, 5.0, 100.0, 1e4)
    poisson_a = (-100.0, -10.0, -0.5, 2.0, 12.0, 100.0)
    yield from itertools.product(["logistic"], logistic_a, logistic_v, [1.0])
    yield from itertools.product(["poisson"], poisson_a, poisson_v, COUNTS)
    yield from itertools.product(["poisson"], (-30.0, 0.0, 6.0), (0.01, 40.0), (0.02, 0.5, 3.7))


def by_quadrature(name, a, v, y):
    exact = exact_logistic if name == "logistic" else exact_poisson
    return [float(each) for each in exact(a, v, y)]


@cache
def table():
    """What quadrature gives on the grid, from a file: it takes seconds to find it anew."""
    with EXACT.open(encoding="utf-8", newline="") as file:
        return [(name, *map(float, numbers)) for name, *numbers in csv.reader(file)]


@pytest.mark.parametrize("name", ["logistic", "poisson"])
def test_marginals_equal_quadrature(name):
    """Relative errors are below 1e-9, a thousandth of what is promised; y need not be whole.

    Where g_v changes sign a relative error has no meaning. Its scale there is that of the terms
    it is the sum of, |h| + g_a^2 with h = dg_a/da; 1e-11 of that is allowed, and nothing else.
    """
    a, v, y, log_z, g_a, g_v = np.array([row[1:] for row in table() if row[0] == name]).T
    scale = np.abs(2.0 * g_v - g_a**2) + g_a**2
    got = FAMILIES[name].scores(a, v, y)
    assert_allclose(got[0], log_z, rtol=1e-9, atol=0)
    assert_allclose(got[1], g_a, rtol=1e-9, atol=0)
    assert (np.abs(got[2] - g_v) <= 1e-9 * np.abs(g_v) + 1e-11 * scale).all()


def test_the_table_holds_the_whole_grid_and_what_quadrature_gives():
    """Every seventeenth row is found anew; run this file to write them all."""
    assert [row[:4] for row in table()] == list(grid())
    for row in table()[::17]:
        assert_allclose(row[4:], by_quadrature(*row[:4]), rtol=1e-14, err_msg=str(row[:4]))


@pytest.mark.parametrize(
    ("exact", "a", "v", "y"),
    [
        (exact_logistic, -100.0, 1e4, 1.0),
        (exact_logistic, 100.0, 1e-8, 1.0),
        (exact_logistic, 30.0, 30.0, 1.0),
        (exact_poisson, 100.0, 1e4, 0.0),
        (exact_poisson, -100.0, 50.0, 0.0),
        (exact_poisson, 100.0, 1e-8, 0.0),
        (exact_poisson, -100.0, 1e4, 1e5),
    ],
)
def test_the_quadrature_itself_has_converged(exact, a, v, y):
    for once, twice in zip(exact(a, v, y), exact(a, v, y, degree=5), strict=True):
        assert abs(once / twice - 1) < 1e-11


@pytest.mark.parametrize("v", [0.0, 1e-8, 1.0, 1e4])
def test_probit_equals_its_formula_in_40_digits(v):
    for a in np.concatenate([np.linspace(-100.0, 100.0, 41), [-1e3, -1e-3, 1e-3]]):
        rho = mp.sqrt(1 + mp.mpf(v))
        z = mp.mpf(a) / rho
        if z > 37:  # below the least double
            continue
        below, above = mp.erfc(-z / mp.sqrt(2)) / 2, mp.erfc(z / mp.sqrt(2)) / 2
        ratio = mp.npdf(z) / below
        log_z = mp.log1p(-above) if z > 0 else mp.log(below)
        exact = (float(log_z), float(ratio / rho), float(-z * ratio / (2 * rho**2)))
        assert_allclose(FAMILIES["probit"].scores(a, v, 1.0), exact, rtol=1e-12)


# --- Laws --------------------------------------------------------------------------------------


@st.composite
def points(draw, name):
    """A point ``(a, v, y)`` of a family, and lengths in a and v over which it varies."""
    if name == "poisson":
        a, v = draw(st.floats(-30.0, 30.0)), draw(variances)
        y = draw(st.sampled_from(COUNTS[:-1]) | st.floats(0.0, 20.0))
        _, g_a, g_v = FAMILIES[name].scores(a, v, y)
        length = min(1.0, 1.0 / np.sqrt(1e-300 + abs(2.0 * g_v - g_a**2)))
        reach = min(length**2, length / (1e-300 + abs(g_a)), v)
    else:
        a, v = draw(st.floats(-100.0, 100.0)), draw(variances)
        y = draw(st.floats(-100.0, 100.0)) if name == "gaussian" else draw(signs)
        width = np.sqrt(v) if name == "gaussian" else np.sqrt(1.0 + v)
        length = width / (1.0 + abs(y - a if name == "gaussian" else a) / width)
        reach = min(length**2, v)
    return a, v, y, length / 50.0, reach / 50.0


def derivative(f, x, step):
    """Central differences of the fourth order."""
    low2, low, high, high2 = f(x + step * np.array([-2.0, -1.0, 1.0, 2.0]))
    return (8.0 * (high - low) - (high2 - low2)) / (12.0 * step)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2 * settings.default.max_examples)
@given(data=st.data())
def test_gradient_is_the_slope_of_the_log_likelihood(name, data):
    a, v, y, step_a, step_v = data.draw(points(name))
    scores = FAMILIES[name].scores
    log_z, g_a, g_v = scores(a, v, y)
    by_a = derivative(lambda x: scores(x, v, y)[0], a, step_a)
    by_v = derivative(lambda x: scores(a, x, y)[0], v, step_v)
    # Slopes are small against their own parts near a zero; and a difference of rounded values
    # knows no more than the last digits of the terms that cancel in log Z. Poisson has such terms,
    # but for y = 0, where it counts: Z may be next to 1 there.
    square = abs(2.0 * g_v - g_a**2) + g_a**2
    noise = 1e-14 * abs(log_z)
    if name == "poisson" and y > 0.0:
        noise += 1e-15 * (1.0 + y * (1.0 + abs(a) + np.log1p(y)))
    assert abs(by_a - g_a) <= 1e-6 * np.sqrt(square) + noise / step_a
    assert abs(by_v - g_v) <= 1e-6 * square + noise / step_v


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2 * settings.default.max_examples)
@given(data=st.data())
def test_heat_identity(name, data):
    a, v, y, step, _ = data.draw(points(name))
    scores = FAMILIES[name].scores
    _, g_a, g_v = scores(a, v, y)
    h = derivative(lambda x: scores(x, v, y)[1], a, step)
    assert_allclose(g_v, 0.5 * (h + g_a**2), rtol=0, atol=1e-7 * (abs(h) + g_a**2))


@pytest.mark.parametrize("name", CLASSES)
@settings(deadline=None)
@given(a=st.floats(-1e3, 1e3), v=st.floats(0.0, 1e8), y=signs)
def test_classes_are_symmetric(name, a, v, y):
    log_z, g_a, g_v = FAMILIES[name].scores(a, v, y)
    assert_array_equal(FAMILIES[name].scores(-a, v, -y), (log_z, -g_a, g_v))


@pytest.mark.parametrize("name", CLASSES)
@settings(deadline=None)
@given(a=st.floats(-700.0, 700.0), v=st.just(0.0) | variances)
def test_probabilities_of_both_classes_sum_to_one(name, a, v):
    less, more = sorted(FAMILIES[name].scores(a, v, [-1.0, 1.0])[0])
    assert_allclose(np.exp(less) + np.exp(more), 1.0, rtol=1e-13)
    # And not only to rounding: the smaller one tells the logarithm of the greater.
    assert_allclose(more, np.log1p(-np.exp(less)), rtol=1e-11, atol=1e-300)


@settings(max_examples=20, deadline=None)
@given(a=st.floats(-2.0, 2.0), v=st.floats(0.0, 0.5))
@example(a=A, v=V)
def test_probabilities_of_all_counts_sum_to_one(a, v):
    y = np.arange(3000)
    log_z, g_a, g_v = FAMILIES["poisson"].scores(a, v, y)
    p = np.exp(log_z)
    assert_allclose(p.sum(), 1.0, rtol=1e-12)
    assert_allclose(p @ y, np.exp(a + 0.5 * v), rtol=1e-10)  # the mean of a lognormal
    assert_allclose([p @ g_a, p @ g_v], 0.0, atol=1e-10)  # scores have mean 0


@given(a=st.floats(-30.0, 30.0), y=signs)
def test_logistic_without_variance_is_the_likelihood(a, y):
    p, q = expit(y * a), expit(-y * a)
    log_z = -np.log1p(np.exp(-y * a))
    assert_allclose(
        FAMILIES["logistic"].scores(a, 0.0, y),
        (log_z, y * q, 0.5 * q * (q - p)),
        rtol=1e-11,
        atol=1e-11 * q * p,
    )


@given(a=st.floats(-30.0, 10.0), y=st.sampled_from(COUNTS))
def test_poisson_without_variance_is_the_likelihood(a, y):
    rate = np.exp(a)
    log_z = y * a - rate - gammaln(y + 1.0)
    got = FAMILIES["poisson"].scores(a, 0.0, y)
    assert_allclose(got[0], log_z, rtol=1e-12, atol=1e-14 * gammaln(y + 1.0))
    assert_allclose(got[1], y - rate, rtol=1e-12, atol=1e-13 * y)
    assert_allclose(got[2], 0.5 * ((y - rate) ** 2 - rate), rtol=1e-12, atol=1e-12 * (y * y + rate))


# --- Far away, and across the seams ------------------------------------------------------------


def assert_sane(scores):
    assert np.isfinite(scores).all()
    assert scores[0] <= 0.0


@settings(deadline=None)
@given(a=st.floats(-1e150, 1e150), v=st.floats(0.0, 1e300), y=signs)
@example(a=1e150, v=1e300, y=1.0)
@example(a=-1e150, v=0.0, y=1.0)
@example(a=-1e3, v=0.0, y=1.0)
@example(a=1e3, v=0.0, y=1.0)
def test_probit_is_finite_everywhere(a, v, y):
    scores = FAMILIES["probit"].scores(a, v, y)
    assert_sane(scores)
    assert y * scores[1] >= 0.0 >= y * np.sign(a) * scores[2]


@settings(deadline=None)
@given(a=st.floats(-1e6, 1e6) | st.floats(-1e100, 1e100), v=st.floats(0.0, 1e8), y=signs)
@example(a=1e6, v=0.0, y=-1.0)
@example(a=-1e6, v=1e8, y=1.0)
@example(a=0.0, v=0.0, y=1.0)
@example(a=-5e-324, v=5e-324, y=1.0)
def test_logistic_is_finite_everywhere(a, v, y):
    scores = FAMILIES["logistic"].scores(a, v, y)
    assert_sane(scores)
    assert 0.0 <= y * scores[1] <= 1.0 + 1e-12
    assert y * np.sign(a) * scores[2] <= 0.0


@settings(deadline=None)
@given(a=st.floats(-1e4, 1e4), v=st.floats(0.0, 1e8), y=st.sampled_from(COUNTS))
@example(a=1e4, v=0.0, y=0.0)
@example(a=-1e4, v=0.0, y=0.0)
@example(a=1e4, v=1e8, y=1e5)
@example(a=-1e4, v=1e8, y=1e5)
@example(a=0.0, v=5e-324, y=1.0)
def test_poisson_is_finite_everywhere(a, v, y):
    scores = FAMILIES["poisson"].scores(a, v, y)
    assert_sane(scores)
    assert scores[1] <= y


@pytest.mark.parametrize("v", [1e-8, 1e-3, 0.1, 1.0, 10.0, 1e4])
def test_nothing_jumps_where_formulas_meet(v):
    seams = [("logistic", 1.0, -k * v) for k in range(20)]
    seams += [("poisson", y, v * (1.0 - y)) for y in COUNTS]  # the mode is at rate 1
    seams += [("poisson", y, 1.0 - np.log(v) - v * y) for y in COUNTS]  # v times the rate is 1
    for name, y, a in seams:
        gap = 1e-11 * (1.0 + abs(a))
        log_z, g_a, g_v = FAMILIES[name].scores([a - gap, a + gap], v, y)
        h = 2.0 * g_v - g_a**2
        unit = np.sqrt(np.abs(h) + g_a**2)
        assert abs(np.diff(log_z) - 2.0 * gap * g_a[0]) <= 1e-9 * (1.0 + abs(log_z[0])), (name, a)
        assert abs(np.diff(g_a) - 2.0 * gap * h[0]) <= 1e-9 * unit[0], (name, a)
        assert abs(np.diff(g_v)) <= 1e-8 * unit[0] ** 2 * (1.0 + gap * g_a[0]), (name, a)


# --- The compiled moments of one row -----------------------------------------------------------


@st.composite
def rows(draw, name):
    """A row ``(a, v, y)`` from where the moments are promised to 1e-6."""
    v = draw(st.floats(-12.0, np.log10(5000.0)).map(lambda e: 10.0**e))
    if name == "poisson":
        y = draw(st.sampled_from([*COUNTS, 1e6]) | st.floats(0.0, 20.0))
        return draw(st.floats(-50.0, 50.0)), v, y
    a = draw(st.floats(-700.0, 700.0) | st.floats(-5.0, 5.0))
    return a, v, draw(st.floats(-100.0, 100.0)) if name == "gaussian" else draw(signs)


def assert_moments_equal_scores(name, a, v, y):
    """Where terms of the bend cancel in scores, these know it no better than to rounding."""
    log_z, g_a, g_v = map(float, FAMILIES[name].scores(a, v, y))
    got = FAMILIES[name].moments(a, v, y)
    bend = g_a**2 - 2.0 * g_v
    assert all(type(each) is float for each in got)
    parts = y * (1.0 + abs(a) + np.log1p(y)) if name == "poisson" else 0.0
    assert abs(got[0] - log_z) <= 1e-9 * (1.0 + abs(log_z)) + 1e-14 * parts
    # Poisson: g_a changes sign, and there it is small against the root of the bend.
    near_zero = 1e-11 * np.sqrt(abs(bend)) if name == "poisson" else 1e-290
    assert abs(got[1] - g_a) <= 1e-6 * abs(g_a) + near_zero
    assert abs(got[2] - bend) <= 1e-6 * bend + 1e-11 * (g_a**2 + 2.0 * abs(g_v)) + 1e-290
    assert got[2] > 0.0
    assert v * got[2] <= 1.0


@pytest.mark.parametrize("name", NAMES)
def test_moments_equal_scores_on_a_grid(name):
    widths = (1e-12, 1e-8, 1e-4, 0.01, 0.1, 0.3, 0.6, 0.75, 1.0, 2.0, 10.0, 100.0, 5000.0)
    means = {"poisson": (-50.0, -20.0, -3.0, -0.1, 0.0, 0.5, 2.0, 5.0, 12.0, 30.0, 50.0)}.get(
        name, (-700.0, -100.0, -20.0, -3.0, -1.0, -0.2, -1e-3, 0.0, 0.5, 2.0, 8.0, 45.0, 300.0)
    )
    targets = {"poisson": (0.0, 0.02, 0.5, 1.0, 2.0, 7.0, 50.0, 1e3, 1e6)}.get(name, (-1.0, 1.0))
    for row in itertools.product(means, widths, targets):
        assert_moments_equal_scores(name, *row)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3 * settings.default.max_examples)
@given(data=st.data())
def test_moments_equal_scores(name, data):
    assert_moments_equal_scores(name, *data.draw(rows(name)))


@pytest.mark.parametrize(
    ("name", "a", "v", "y"),
    [
        ("logistic", -30.0, 1e-8, 1.0),  # g_a is 1 - 1e-13, and the bend 1e-13
        ("logistic", 100.0, 100.0, 1.0),
        ("logistic", -0.2, 0.6, 1.0),
        ("poisson", -30.0, 0.01, 0.0),
        ("poisson", -45.0, 16.0, 0.0),
        ("poisson", -3.0, 1e-3, 2.0),
    ],
)
def test_the_bend_is_right_where_scores_lose_its_digits(name, a, v, y):
    _, g_a, g_v = (exact_poisson if name == "poisson" else exact_logistic)(a, v, y)
    got = FAMILIES[name].moments(a, v, y)
    assert_allclose(got[1:], [float(g_a), float(g_a**2 - 2 * g_v)], rtol=1e-7)


@pytest.mark.parametrize(
    "d", [-40.0, -0.6, -0.5, -0.1, -1e-9, 0.0, 1e-9, 0.4, 0.5, 0.6, 3.0, 600.0]
)
def test_what_an_exponential_is_beyond_its_line(d):
    """By a series up to 0.5. Sums over it would never end if it were wrong."""
    assert_allclose(_beyond_linear(d), float(mp.expm1(d) - d), rtol=1e-14)


@pytest.mark.parametrize(("a", "v"), [(-100.0, 2.0), (-300.0, 100.0), (-680.0, 1e-6)])
def test_the_bend_of_a_logistic_far_in_its_tail(a, v):
    """There the sigmoid is an exponential. At v = 100, what bends is ten widths from the mode."""
    _, g_a, bend = FAMILIES["logistic"].moments(a, v, 1.0)
    assert g_a == 1.0
    assert_allclose(bend, np.exp(a + 1.5 * v), rtol=1e-6)


def test_the_bend_of_a_probit_is_right_in_both_tails():
    for z in (-1e6, -1000.0, -38.0, -7.0, -6.9, -1.0, 0.0, 5.0, 30.0):
        ratio = mp.npdf(z) / (mp.erfc(-mp.mpf(z) / mp.sqrt(2)) / 2)
        above = mp.erfc(mp.mpf(z) / mp.sqrt(2)) / 2
        log_z = mp.log1p(-above) if z > 0.0 else mp.log(mp.npdf(z)) - mp.log(ratio)
        exact = [float(each) for each in (log_z, ratio, ratio * (ratio + z))]
        assert_allclose(FAMILIES["probit"].moments(z, 0.0, 1.0), exact, rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=2 * settings.default.max_examples)
@given(data=st.data())
def test_moments_are_slopes_of_the_log_likelihood(name, data):
    a, v, y, step, _ = data.draw(points(name))
    moments = FAMILIES[name].moments
    log_z, g_a, bend = moments(a, v, y)

    def column(index):
        return lambda means: np.array([moments(mean, v, y)[index] for mean in means])

    noise = 1e-10 * (1.0 + abs(log_z))
    if name == "poisson":
        noise += 1e-15 * y * (1.0 + abs(a) + np.log1p(y))
    assert abs(derivative(column(0), a, step) - g_a) <= 1e-6 * abs(g_a) + noise / step
    by_a = derivative(column(1), a, step)
    assert abs(by_a + bend) <= 1e-5 * bend + 1e-8 * (abs(g_a) + np.sqrt(bend)) / step


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=3 * settings.default.max_examples)
@given(a=st.floats(-1e4, 1e4), v=st.floats(0.0, 1e8) | variances, data=st.data())
def test_moments_are_finite_far_away(name, a, v, data):
    kinds = {"gaussian": st.floats(-1e6, 1e6), "poisson": st.sampled_from(COUNTS)}
    y = data.draw(kinds.get(name, signs))
    v += FAMILIES[name].noise
    log_z, g_a, bend = FAMILIES[name].moments(a, v, y)
    assert np.isfinite([log_z, g_a, bend]).all()
    assert bend > 0.0
    assert v * bend <= 1.0
    if name in CLASSES:
        assert log_z <= 0.0 <= y * g_a


@pytest.mark.parametrize("name", NAMES)
def test_moments_of_what_is_no_number_come_back(name):
    """A loop that waits for a small term would wait forever."""
    for row in itertools.product((np.nan, 0.5), (np.nan, 1.0), (np.nan, 1.0)):
        assert np.isnan(FAMILIES[name].moments(*row)[1]) == np.isnan(row).any()


@pytest.mark.parametrize("name", NAMES)
def test_scores_broadcast(name):
    rng = np.random.default_rng(7)
    a, v, y = rng.normal(size=(3, 1, 5)), rng.gamma(2.0, size=(400, 1)), np.ones(5, dtype=np.int64)
    before = a.copy(), v.copy(), y.copy()
    together = FAMILIES[name].scores(a, v, y)
    for one, other in zip(before, (a, v, y), strict=True):
        assert_array_equal(one, other)
    for each in together:
        assert each.shape == (3, 400, 5)
        assert each.dtype == np.float64
    alone = FAMILIES[name].scores(float(a[2, 0, 3]), float(v[399, 0]), 1)
    for each, one in zip(together, alone, strict=True):
        assert isinstance(one, np.ndarray)
        assert one.shape == ()
        assert_allclose(each[2, 399, 3], one, rtol=1e-13)
    assert FAMILIES[name].scores(np.empty(0), 1.0, 1.0)[2].shape == (0,)


def test_families_are_known_by_name_and_kind():
    assert {name: FAMILIES[name].kind for name in NAMES} == {
        "probit": "classes",
        "logistic": "classes",
        "gaussian": "numbers",
        "poisson": "counts",
    }


if __name__ == "__main__":
    with EXACT.open("w", encoding="utf-8", newline="") as file:
        for point in grid():
            csv.writer(file, lineterminator="\n").writerow([*point, *by_quadrature(*point)])
