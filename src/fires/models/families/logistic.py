"""The logistic: computed to about 1e-13, tails included."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from fires.core.types import Floats
from fires.kernels.compiling import compiled
from fires.models.families.base import (
    TINY,
    Family,
    LogMarginal,
    Moments,
    by_rows,
    left_moments,
    shares,
)

_WIDEST = 1e4  # a Gaussian of this variance sees the logistic as a step
_SPREAD = math.pi**2 / 3.0  # the variance of the logistic distribution


class Logistic(Family):
    r"""Classes by a logistic: :math:`p(y \mid t) = \sigma(y t)`, :math:`y = \pm 1`.

    For negative t the sigmoid is a short sum of exponentials; for positive t it is the mirror
    image,

    .. math::
        \sigma(t) = 1 - \sigma(-t) = \sum_k c_k e^{kt}, \quad t \le 0

    (:func:`_sigmoid_coefficients`), and a truncated exponential has a closed Gaussian mean.
    With :math:`F(s)` for Z at :math:`y a = s \le 0`,

    .. math::
        A_k = \operatorname{E}[e^{kt}; t < 0], \quad
        B_k = \operatorname{E}[e^{-kt}; t > 0], \quad t \sim \mathcal{N}(s, v),

        F = B_0 + \sum_k c_k (A_k - B_k), \quad
        F' = \sum_k k c_k (A_k + B_k), \quad
        F'' = \sum_k k^2 c_k (A_k - B_k),

    and for :math:`y a > 0` it is :math:`Z = 1 - F(-|a|)`. The sum on the first line is
    continuous with its first derivative, so the slopes are exactly those of the value.

    Examples
    --------
    >>> log_z, g_a, g_v = Logistic().scores(-0.34, 0.5309, [-1.0, 1.0])
    >>> np.exp(log_z).sum().round(12)
    np.float64(1.0)
    >>> g_a.round(6), g_v.round(6)
    (array([-0.380033,  0.515016]), array([-0.023585,  0.031962]))
    """

    kind = "classes"
    start_width = np.pi / 8.0

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> LogMarginal:
        """See :meth:`Family.scores`."""
        return by_rows(_logistic, a, v, y)

    @property
    def moments(self) -> Moments:
        """Compiled, to about 1e-8; beyond a variance of 1e4, to about 1e-6."""
        return _moments

    def bound(self, a: Floats, v: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
        """Jaakkola's and Jordan's, at the root of ``E t^2``. See :meth:`Family.bound`."""
        xi = np.sqrt(a * a + v)
        bend = np.divide(np.tanh(0.5 * xi), 2.0 * xi, out=np.full_like(xi, 0.25), where=xi > 1e-8)
        return 0.5 * y - bend * a, bend

    def level_of_share(self, rest: float, positive: float) -> float:
        """The log odds of the share of positives. See :meth:`Family.level_of_share`.

        Examples
        --------
        >>> Logistic().level_of_share(rest=9.5, positive=9.5)
        0.0
        """
        rest, positive = shares(rest, positive)
        return math.log(positive) - math.log(rest)


def _logistic(a: Floats, v: Floats, y: Floats) -> LogMarginal:
    """Score equally long vectors; ``s``, ``A_k`` and ``B_k`` as in :class:`Logistic`."""
    c = _sigmoid_coefficients()
    k = np.arange(1.0, len(c) + 1.0)[:, None]
    s = -np.abs(a)
    left, edge, log_scale = left_moments(s, v, np.ones_like(s), len(c))
    right = 0.5 * edge * erfcx((k * v - s) / np.sqrt(2.0 * v))
    above = 0.5 * edge * erfcx(-s / np.sqrt(2.0 * v))
    odd, even = c * (left - right), c * (left + right)
    f = above + odd.sum(axis=0)
    # A tiny probability as 1 - Z, or a tiny log Z as log(1 - tiny), would lose its digits.
    scale = np.exp(log_scale)
    tail = y * a < 0.0
    log_z = np.where(tail, log_scale + np.log(f), np.log1p(-scale * f))
    unit = np.where(tail, 1.0 / f, scale / (1.0 - scale * f))
    g_a = y * unit * (k * even).sum(axis=0)
    bend = np.maximum((k * k * odd).sum(axis=0), 0.0)  # F'' is never negative, but for rounding
    g_v = np.where(tail, 0.5, -0.5) * unit * bend
    return log_z, g_a, g_v


@cache
def _sigmoid_coefficients() -> Floats:
    r"""Fit :math:`x / (1 + x)` on [0, 1] by :math:`\sum_k c_k x^k`, ``k = 1, ..., 19``.

    .. math::
        \sum_k c_k x^k = x \, \frac{1 - q(x)}{1 + x}, \qquad
        q(x) = \Bigl(\frac{1 - x}{2}\Bigr)^2 \frac{T_{17}(2 x - 1)}{T_{17}(-3)} .

    :math:`q(-1) = 1` makes it a polynomial, and its relative error is :math:`|q| < 10^{-13}`. The
    double zero of q at 1 joins the two halves of the sigmoid smoothly, and keeps the error of the
    derivatives small as well. The terms alternate and are at most 1, so sums lose no digits.
    """
    t = np.polynomial.Chebyshev.basis(17, domain=[0.0, 1.0]).convert(kind=np.polynomial.Polynomial)
    q = t * np.polynomial.Polynomial([1.0, -2.0, 1.0])
    c = (1.0 - q / q(-1.0)) // np.polynomial.Polynomial([1.0, 1.0])
    return np.asarray(c.coef, dtype=np.float64)[:, None]


@compiled
def _moments(a: float, v: float, y: float) -> tuple[float, float, float]:
    r"""See :attr:`Family.moments`; F is that of :class:`Logistic`, of the less likely class.

    For the other class :math:`Z = 1 - F`. With the odds :math:`o = F / (1 - F)`, and with
    :math:`g = F' / F` and the bend b of :math:`\log F`, its slope is :math:`-o g` and its bend
    :math:`o (g^2 - b) + o^2 g^2`.
    """
    s, width, unit = -abs(a), max(v, 1e-12), 1.0
    if width > _WIDEST:
        # So wide that only s / sqrt(v + _SPREAD) matters: measure t in a larger unit.
        unit = math.sqrt((_WIDEST + _SPREAD) / (width + _SPREAD))
        s, width = s * unit, _WIDEST
    log_f, g, bend = _tail(s, width)
    g, bend = g * unit, bend * unit * unit
    if y * a > 0.0:
        f = math.exp(log_f)
        odds = f / (1.0 - f)
        log_f = math.log1p(-f)
        bend = odds * max(g * g - bend, 0.0) + (odds * g) ** 2
        g *= odds
    return log_f, y * g, min(max(bend, TINY), 1.0 / max(v, 1e-12))


@compiled
def _tail(s: float, v: float) -> tuple[float, float, float]:
    r"""``log F``, its slope and its bend, for ``s <= 0``, by the trapezoid rule.

    Under the density q that is proportional to :math:`\sigma(t) \mathcal{N}(t; s, v)`,

    .. math::
        g = \operatorname{E}_q[\sigma(-t)], \qquad
        b = \operatorname{Cov}_q(\sigma(t), t) / v ,

    and no term of these cancels. The rule converges exponentially: the step is small against
    :math:`\sqrt v`, and against the distance of the poles of the sigmoid, :math:`\pi`. It starts
    near the mode of q, and goes on to both sides until nothing is added. Steps are equal, so that
    exponentials are products.
    """
    step = min(0.75 * math.sqrt(v), 0.65)
    m = _mode(s, v, step)
    # q(m + d) / q(m) = exp(slope d - d^2 / 2v) (1 + e^(-+m)) / (1 + e^(-+t)), with the sign of
    # the exponents that does not overflow.
    sign = 1.0 if m < 0.0 else -1.0
    slope = (1.0 if m < 0.0 else 0.0) - (m - s) / v
    small = math.exp(-abs(m))
    centre = small / (1.0 + small) if m < 0.0 else 1.0 / (1.0 + small)
    fall = math.exp(-step * step / v)
    total, pull, lean, first, both = 1.0, 1.0 - centre, 0.0, 0.0, 0.0
    for side in (-1.0, 1.0):
        d, weight, power = 0.0, 1.0, small
        factor = math.exp(side * slope * step - 0.5 * step * step / v)
        growth = math.exp(sign * side * step)
        while True:
            d += side * step
            weight *= factor
            factor *= fall
            power *= growth  # e^t on the left of 0, e^-t on the right
            share = 1.0 / (1.0 + power)
            q = weight * (1.0 + small) * share
            up = power * share if m < 0.0 else share  # the sigmoid of t
            more = q * d * (up - centre)
            total += q
            pull += q * (1.0 - up if m >= 0.0 else share)
            lean += q * (up - centre)
            first += q * d
            both += more
            if not (q > 1e-12 * total or more > 1e-10 * both):  # NaN ends it, too
                break
    bend = (both - lean * first / total) / total / v
    log_f = -(math.log1p(small) if m >= 0.0 else math.log1p(small) - m)
    log_f += math.log(total * step / math.sqrt(2.0 * math.pi * v)) - (m - s) ** 2 / (2.0 * v)
    return min(log_f, 0.0), pull / total, bend


@compiled
def _mode(s: float, v: float, step: float) -> float:
    """Near the root of ``m = s + v sigma(-m)``, by Newton; a tenth of a step is near enough."""
    m = s + v if s + v < 0.0 else math.log1p((s + v) / (2.0 - s))
    for _ in range(30):
        p = 1.0 / (1.0 + math.exp(m))
        change = (m - s - v * p) / (1.0 + v * p * (1.0 - p))
        m -= change
        if abs(change) < 0.1 * step:
            break
    return m


FAMILY = Logistic()
