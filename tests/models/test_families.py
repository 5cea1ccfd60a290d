"""The scalar functions behind the linear models, against high precision and against their laws."""

import itertools
import operator
from collections.abc import Callable, Sequence
from functools import cache

import mpmath as mp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, gammaln

from fires.models.families import FAMILIES, inverse_mills

mp.mp.dps = 40  # exponents reach 1e12, and 25 digits must be left

NAMES = ("probit", "logistic", "gaussian", "poisson")
CLASSES = ("probit", "logistic")
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
    return mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(degree, mp.mp.prec)


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
