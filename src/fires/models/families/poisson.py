"""Counts with a log link: computed to about 1e-10, tails included.

Gauss-Hermite nodes at N(a, v) would miss the mode when ``v`` is large, and their slopes would not
be the slopes of their value.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, gammaln, wrightomega

from fires.core.types import Floats
from fires.kernels.compiling import compiled
from fires.models.families.base import TINY, Family, LogMarginal, Moments, by_rows, left_moments

# The series of exp(-x), to full precision on [0, 1].
_EXPONENTIAL: Floats = np.cumprod(np.append(1.0, -1.0 / np.arange(1.0, 18.0)))[:, None]


# The series of (exp(x) - 1 - x) / x^2, to full precision on [-0.5, 0.5]; highest power first.
_BEYOND_LINEAR = tuple(1.0 / math.factorial(n) for n in range(13, 1, -1))


class Poisson(Family):
    r"""Counts with a log link: :math:`p(y \mid t) = e^{y t - e^t} / \Gamma(y + 1)`, ``y >= 0``.

    No closed form. The integrand :math:`e^{y t - e^t} \mathcal{N}(t; a, v)` has its mode where

    .. math::
        t = a + v (y - \lambda), \qquad \lambda = e^t = \frac{w}{v}, \qquad
        w + \log w = a + v y + \log v .

    At a rate :math:`\lambda < 1`, the integrand is as wide as the Gaussian, and :math:`e^{-e^t}`
    cuts it off within a width of about 1: see :func:`_poisson_few`. Otherwise it has one width:
    :func:`_poisson_many`. ``y`` need not be whole.

    Examples
    --------
    >>> log_z, g_a, g_v = Poisson().scores(-0.34, 0.5309, 2.0)
    >>> log_z.round(6), g_a.round(6), g_v.round(6)
    (np.float64(-2.020381), np.float64(0.755757), np.float64(-0.075801))
    """

    kind = "counts"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> LogMarginal:
        """See :meth:`Family.scores`."""
        return by_rows(_poisson, a, v, y)

    @property
    def moments(self) -> Moments:
        """Compiled, to about 1e-7 up to a variance of 1e4; to 1e-3 at 1e6 and ``y = 0``."""
        return _moments


def _poisson(a: Floats, v: Floats, y: Floats) -> LogMarginal:
    """Score vectors of one length; the mode of each row decides how."""
    few = a + v * y < v  # the integrand falls at t = 0: its mode is at a rate below 1
    many = ~few
    out = np.empty((3, len(a)))
    if few.any():
        out[:, few] = _poisson_few(a[few], v[few], y[few])
    if many.any():
        out[:, many] = _poisson_many(a[many], v[many], y[many])
    log_z, g_a, g_v = out
    return log_z - gammaln(y + 1.0), g_a, g_v


def _poisson_few(a: Floats, v: Floats, y: Floats) -> LogMarginal:
    r"""``log Z + log y!`` and its slopes where the mode is at a rate below 1.

    All three come from :math:`I_j = \operatorname{E}[e^{(y + j) t - e^t}]`, ``j = 0, 1, 2``. For
    :math:`t < 0` the series of :math:`e^{-e^t}` gives truncated normal moments; for
    :math:`t > 0` the integrand falls and is gone by ``t = 4``: Gauss-Legendre, in
    :math:`s = t / \sqrt{2 v}`.
    """
    series, n = _EXPONENTIAL, len(_EXPONENTIAL)
    left, edge, log_scale = left_moments(a, v, y, n + 2)
    nodes, weights = _legendre()
    root = np.sqrt(2.0 * v)
    x = (a + y * v) / root
    half_width = np.minimum(7.0, 4.0 / root)
    s = half_width * nodes
    rate = np.exp(root * s)
    f = weights * (half_width * edge / np.sqrt(np.pi)) * np.exp(s * (2.0 * x - s) - rate)
    right = f.sum(axis=0)
    i0 = (series * left[:n]).sum(axis=0) + right
    r1 = ((series * left[1:-1]).sum(axis=0) + (f * rate).sum(axis=0)) / i0
    r2 = ((series * left[2:]).sum(axis=0) + (f * rate**2).sum(axis=0)) / i0
    # If y = 0 is nearly certain, log Z is tiny: compute it from 1 - Z.
    missing = 0.5 * edge * erfcx(-x) - right - (series[1:] * left[1:n]).sum(axis=0)
    certain = (y == 0.0) & (a < 0.0) & (i0 > 0.5)
    log_z = np.where(certain, np.log1p(-np.where(certain, missing, 0.0)), log_scale + np.log(i0))
    return log_z, y - r1, 0.5 * (y * y - (2.0 * y + 1.0) * r1 + r2)


def _poisson_many(a: Floats, v: Floats, y: Floats) -> LogMarginal:
    r"""``log Z + log y!`` and its slopes where the mode is at a rate of at least 1.

    With :math:`t = a + d` at the mode and :math:`\delta` from there, what is integrated is
    :math:`e^{-\lambda (e^\delta - 1 - \delta) - \delta^2 / 2 v}`, of width
    :math:`\tau = (\lambda + 1/v)^{-1/2}`. The trapezoid rule is exponentially accurate for it;
    nodes at :math:`\delta = 2 \tau \sinh(u / 2)` reach the long left tail in few steps.
    """
    nodes, weights = _trapezoid()
    w = wrightomega(a + v * y + np.log(v))
    # For large v the slopes of the Gaussian, (t - a) / v, are accurate; for small v those of
    # log p. In the other case, each would be a difference of nearly equal numbers.
    flat = w > 1.0
    mode = np.where(flat, np.log(w / v), a + v * y - w)
    rate = np.exp(mode)
    d = np.where(flat, mode - a, v * y - w)
    pull = np.where(flat, d / v, y - rate)
    delta = nodes / np.sqrt(rate + 1.0 / v)
    growth = np.expm1(delta)
    f = weights * np.exp(-rate * (growth - delta) - delta**2 / (2.0 * v))
    total = f.sum(axis=0)
    f /= total
    log_z = y * mode - rate - d * d / (2.0 * v) + np.log(total / np.sqrt(2.0 * np.pi * (1.0 + w)))
    mean = (f * delta).sum(axis=0)
    square = (f * (d + delta) ** 2).sum(axis=0)
    extra = rate * (f * growth).sum(axis=0)
    slope = (f * (pull - rate * growth) ** 2).sum(axis=0)
    g_a = pull + np.where(flat, mean / v, -extra)
    g_v = 0.5 * np.where(flat, (square / v - 1.0) / v, slope - rate - extra)
    return log_z, g_a, g_v


@cache
def _legendre() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 1], as columns."""
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return 0.5 * (nodes[:, None] + 1.0), 0.5 * weights[:, None]


@cache
def _trapezoid() -> tuple[Floats, Floats]:
    """72 nodes and weights of the trapezoid rule in ``u`` for ``2 sinh(u / 2)`` in [-33, 7.5]."""
    u, step = np.linspace(2.0 * np.arcsinh(-16.5), 2.0 * np.arcsinh(3.75), 72, retstep=True)
    return 2.0 * np.sinh(0.5 * u[:, None]), step * np.cosh(0.5 * u[:, None])


@compiled
def _moments(a: float, v: float, y: float) -> tuple[float, float, float]:
    r"""See :attr:`Family.moments`: by the trapezoid rule, from the mode to both sides.

    Under the density q that is proportional to :math:`e^{y t - e^t} \mathcal{N}(t; a, v)`,

    .. math::
        g_a = y - \operatorname{E}_q[e^t] = \operatorname{E}_q[t - a] / v, \qquad
        b = \operatorname{Cov}_q(e^t, t) / v .

    The first form of :math:`g_a` is accurate for small v, the second for large v.
    """
    v = max(v, 1e-12)
    w = _scaled_rate(a + v * y + math.log(v))
    shift = v * y - w if w < 1.0 else math.log(w / v) - a  # the mode, from a
    rate = math.exp(min(a + shift, 700.0))
    slope = y - rate - shift / v  # 0, but for rounding
    step = max(0.8 / math.sqrt(rate + 3.0 + 1.0 / v), 1e-3 * math.sqrt(v / (1.0 + w)))
    total, lean, first, both = 1.0, 0.0, 0.0, 0.0
    for side in (-1.0, 1.0):
        d = 0.0
        while True:
            d += side * step
            beyond = _beyond_linear(d)
            q = math.exp(slope * d - rate * beyond - 0.5 * d * d / v)
            up = beyond + d  # e^d - 1
            more = q * d * up
            total += q
            lean += q * up
            first += q * d
            both += more
            if not (q > 1e-12 * total or more > 1e-10 * both):  # NaN ends it, too
                break
    lean, first, both = lean / total, first / total, both / total
    g_a = y - rate - rate * lean if w < 1.0 else (shift + first) / v
    bend = rate * (both - lean * first) / v
    log_z = y * (a + shift) - rate - shift * shift / (2.0 * v) - math.lgamma(y + 1.0)
    log_z += math.log(total * step / math.sqrt(2.0 * math.pi * v))
    return min(log_z, 0.0), g_a, min(max(bend, TINY), 1.0 / v)


@compiled
def _scaled_rate(b: float) -> float:
    """The root of ``w + log w = b``, by Newton in ``log w``: from above, as the sum is convex."""
    u = b if b < 1.0 else math.log(b)
    for _ in range(20):
        w = math.exp(u)
        change = (w + u - b) / (w + 1.0)
        u -= change
        if change < 1e-9:
            break
    return math.exp(u)


@compiled
def _beyond_linear(d: float) -> float:
    """``exp(d) - 1 - d``; near 0 by its series, since the difference loses its digits there.

    Beyond ``d = 690`` it stops growing, so that no sum overflows.
    """
    if abs(d) > 0.5:
        return math.exp(min(d, 690.0)) - 1.0 - d
    series = 0.0
    for term in _BEYOND_LINEAR:
        series = series * d + term
    return series * d * d


FAMILY = Poisson()
