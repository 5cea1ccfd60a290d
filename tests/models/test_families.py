"""The scalar functions behind the linear models, against high precision and against their laws."""

import itertools
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
def legendre(degree: int) -> list[tuple[mp.mpf, mp.mpf]]:
    """3 * 2**(degree - 1) Gauss-Legendre nodes and weights on [-1, 1]."""
    return mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(degree, mp.mp.prec)


def integrals(
    f: Callable[[mp.mpf], Sequence[mp.mpf]],
    a: mp.mpf,
    v: mp.mpf,
    centres: Sequence[tuple[mp.mpf, mp.mpf]],
    degree: int = 4,
) -> list[mp.mpf]:
    """Integrate several functions against N(a, v), straight from the definition.

    ``centres`` are all places and scales where something happens. Intervals grow geometrically
    from each; those where every integrand has died out at both ends are left out.
    """

    def g(t: mp.mpf) -> list[mp.mpf]:
        density = mp.exp(-((t - a) ** 2) / (2 * v)) / mp.sqrt(2 * mp.pi * v)
        return [density * each for each in f(t)]

    points = {centre for centre, _ in centres}
    for centre, scale in centres:
        reach = scale
        while reach < 40 * mp.sqrt(v) + 40 * scale:
            points |= {centre - reach, centre + reach}
            reach *= mp.mpf(2.2)
    least = min(scale for _, scale in centres) / 8
    ends = [min(points)]
    ends += [q for q in sorted(points) if q - ends[-1] > 0 and True]
    kept = [ends[0]]
    for q in ends[1:]:
        if q - kept[-1] > least:
            kept.append(q)
    heights = [g(q) for q in kept]
    tops = [max(abs(h[i]) for h in heights) for i in range(len(heights[0]))]
    alive = [any(abs(x) > mp.mpf(10) ** -28 * top for x, top in zip(h, tops)) for h in heights]
    sums = [mp.mpf(0)] * len(tops)
    for i, (low, high) in enumerate(itertools.pairwise(kept)):
        if alive[i] or alive[i + 1]:
            middle, half = (low + high) / 2, (high - low) / 2
            for x, w in legendre(degree):
                sums = [s + half * w * h for s, h in zip(sums, g(middle + half * x))]
    return sums
