r"""The scalar functions behind every linear base model, one class per likelihood.

A linear model sees a row only through :math:`t = \theta^\top x \sim \mathcal{N}(a, v)`, so all it
needs is one function of three numbers: the log marginal likelihood and its two slopes,

.. math::
    Z(a, v, y) = \operatorname{E}[p(y \mid t)], \qquad
    g_a = \frac{\partial \log Z}{\partial a}, \qquad
    g_v = \frac{\partial \log Z}{\partial v}
        = \frac12 \Bigl(\frac{\partial g_a}{\partial a} + g_a^2\Bigr) .

Probit and Gaussian have closed forms. Logistic and Poisson are computed to about 1e-10, tails
included: Gauss-Hermite nodes fixed at :math:`\mathcal{N}(a, v)` miss what matters when ``v`` is
large, and the slopes they give are then not even those of the value they give.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, gammaln, log_ndtr, wrightomega

from fires.core.belief import Floats

Kind = Literal["classes", "numbers", "counts"]
Scores = tuple[Floats, Floats, Floats]


class Family(Protocol):
    """A likelihood ``p(y | t)``, known by its Gaussian marginal.

    ``kind`` tells what ``y`` is: ``"classes"`` (-1 and +1), ``"numbers"`` or ``"counts"``.
    """

    name: str
    kind: Kind

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        ...


class Probit:
    r"""Classes by a probit: :math:`p(y \mid t) = \Phi(y t)`, :math:`y = \pm 1`.

    .. math::
        Z = \Phi(z), \quad g_a = \frac{y\,r(z)}{\rho}, \quad g_v = -\frac{z\,r(z)}{2 \rho^2},
        \qquad z = \frac{y a}{\rho}, \quad \rho = \sqrt{1 + v}

    where :math:`r` is the :func:`inverse_mills` ratio.

    Examples
    --------
    >>> log_z, g_a, g_v = Probit().scores([-2.0, 2.0], 1.0, 1.0)
    >>> g_a.round(6), g_v.round(6)
    (array([1.319484, 0.112636]), array([ 0.659742, -0.056318]))
    """

    name = "probit"
    kind: Kind = "classes"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        a, v, y = _floats(a, v, y)
        rho = np.sqrt(1.0 + v)
        z = y * (a / rho)
        pull = inverse_mills(z) / rho
        # z / rho first: z * pull can overflow where the slope does not.
        return _floats(log_ndtr(z), y * pull, -0.5 * (z / rho) * pull)


def inverse_mills(z: Floats) -> Floats:
    r"""Return :math:`\varphi(z) / \Phi(z)`, accurate in both tails.

    .. math:: r(z) = \sqrt{2 / \pi} \,/\, \operatorname{erfcx}(-z / \sqrt 2)

    Examples
    --------
    >>> inverse_mills(np.array([-1000.0, 0.0, 10.0]))
    array([1.00000100e+03, 7.97884561e-01, 7.69459863e-23])
    """
    # Beyond z = 37 erfcx is infinite and the ratio 0, as it should be.
    ratio: Floats = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    return ratio


class Gaussian:
    r"""Numbers with normal noise: :math:`Z = \mathcal{N}(y; a, v)`.

    Here ``v > 0`` **includes** the noise: the caller adds its variance to that of
    :math:`\theta^\top x`. So the slope with respect to the variance of the noise is ``g_v`` too.

    .. math::
        g_a = \frac{e}{v}, \quad g_v = \frac{1}{2 v} \Bigl(\frac{e^2}{v} - 1\Bigr),
        \qquad e = y - a

    Examples
    --------
    >>> log_z, g_a, g_v = Gaussian().scores([0.0, 2.0], 4.0, 6.0)
    >>> g_a, g_v
    (array([1.5, 1. ]), array([1.   , 0.375]))
    """

    name = "gaussian"
    kind: Kind = "numbers"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        a, v, y = _floats(a, v, y)
        error = y - a
        pull = error / v
        square = error * pull
        return _floats(-0.5 * (np.log(2.0 * np.pi * v) + square), pull, 0.5 * (square - 1.0) / v)


class Logistic:
    r"""Classes by a logistic: :math:`p(y \mid t) = \sigma(y t)`, :math:`y = \pm 1`.

    On the left half line the sigmoid is a short sum of exponentials, on the right it is the
    mirror image of that,

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

    name = "logistic"
    kind: Kind = "classes"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        return _by_rows(_logistic, a, v, y)


class Poisson:
    r"""Counts with a log link: :math:`p(y \mid t) = e^{y t - e^t} / \Gamma(y + 1)`, ``y >= 0``.

    No closed form. The integrand :math:`e^{y t - e^t} \mathcal{N}(t; a, v)` has its mode where

    .. math::
        t = a + v (y - \lambda), \qquad \lambda = e^t = \frac{w}{v}, \qquad
        w + \log w = a + v y + \log v .

    A rate :math:`\lambda < 1` leaves a mass as wide as the Gaussian, cut off on the scale 1 by
    :math:`e^{-e^t}`: see :func:`_poisson_few`. Otherwise one width rules: :func:`_poisson_many`.
    ``y`` need not be whole.

    Examples
    --------
    >>> log_z, g_a, g_v = Poisson().scores(-0.34, 0.5309, 2.0)
    >>> log_z.round(6), g_a.round(6), g_v.round(6)
    (np.float64(-2.020381), np.float64(0.755757), np.float64(-0.075801))
    """

    name = "poisson"
    kind: Kind = "counts"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        return _by_rows(_poisson, a, v, y)


FAMILIES: dict[str, Family] = {
    family.name: family for family in (Probit(), Logistic(), Gaussian(), Poisson())
}


def _logistic(a: Floats, v: Floats, y: Floats) -> Scores:
    """Score equally long vectors; ``s``, ``A_k`` and ``B_k`` as in :class:`Logistic`."""
    c = _sigmoid_coefficients()
    k = np.arange(1.0, len(c) + 1.0)[:, None]
    s = -np.abs(a)
    left, edge, log_scale = _left_moments(s, v, np.ones_like(s), len(c))
    right = 0.5 * edge * erfcx((k * v - s) / np.sqrt(2.0 * v))
    above = 0.5 * edge * erfcx(-s / np.sqrt(2.0 * v))
    odd, even = c * (left - right), c * (left + right)
    f = above + odd.sum(axis=0)
    # Tiny probabilities must not be found as 1 - Z, nor tiny log Z as log(1 - tiny).
    scale = np.exp(log_scale)
    tail = y * a < 0.0
    log_z = np.where(tail, log_scale + np.log(f), np.log1p(-scale * f))
    unit = np.where(tail, 1.0 / f, scale / (1.0 - scale * f))
    g_a = y * unit * (k * even).sum(axis=0)
    bend = np.maximum((k * k * odd).sum(axis=0), 0.0)  # rounding may cross 0, F'' does not
    g_v = np.where(tail, 0.5, -0.5) * unit * bend
    return log_z, g_a, g_v


def _poisson(a: Floats, v: Floats, y: Floats) -> Scores:
    """Score equally long vectors, each row in the regime of its mode."""
    few = a + v * y < v  # the integrand falls at t = 0: its mode is at a rate below 1
    many = ~few
    out = np.empty((3, len(a)))
    if few.any():
        out[:, few] = _poisson_few(a[few], v[few], y[few])
    if many.any():
        out[:, many] = _poisson_many(a[many], v[many], y[many])
    log_z, g_a, g_v = out
    return log_z - gammaln(y + 1.0), g_a, g_v


def _poisson_few(a: Floats, v: Floats, y: Floats) -> Scores:
    r"""``log Z + log y!`` and its slopes where the mode is at a rate below 1.

    All three come from :math:`I_j = \operatorname{E}[e^{(y + j) t - e^t}]`, ``j = 0, 1, 2``. For
    :math:`t < 0` the series of :math:`e^{-e^t}` gives truncated normal moments; for
    :math:`t > 0` the integrand falls and is gone by ``t = 4``: Gauss-Legendre, in
    :math:`s = t / \sqrt{2 v}`.
    """
    series, n = _EXPONENTIAL, len(_EXPONENTIAL)
    left, edge, log_scale = _left_moments(a, v, y, n + 2)
    nodes, weights = _legendre()
    root = np.sqrt(2.0 * v)
    x = (a + y * v) / root
    reach = np.minimum(7.0, 4.0 / root)
    s = reach * nodes
    rate = np.exp(root * s)
    f = weights * (reach * edge / np.sqrt(np.pi)) * np.exp(s * (2.0 * x - s) - rate)
    right = f.sum(axis=0)
    i0 = (series * left[:n]).sum(axis=0) + right
    r1 = ((series * left[1:-1]).sum(axis=0) + (f * rate).sum(axis=0)) / i0
    r2 = ((series * left[2:]).sum(axis=0) + (f * rate**2).sum(axis=0)) / i0
    # y = 0 may be nearly certain: then log Z is as small as what is missing from Z = 1.
    missing = 0.5 * edge * erfcx(-x) - right - (series[1:] * left[1:n]).sum(axis=0)
    certain = (y == 0.0) & (a < 0.0) & (i0 > 0.5)
    log_z = np.where(certain, np.log1p(-np.where(certain, missing, 0.0)), log_scale + np.log(i0))
    return log_z, y - r1, 0.5 * (y * y - (2.0 * y + 1.0) * r1 + r2)


def _poisson_many(a: Floats, v: Floats, y: Floats) -> Scores:
    r"""``log Z + log y!`` and its slopes where the mode is at a rate of at least 1.

    With :math:`t = a + d` at the mode and :math:`\delta` from there, what is integrated is
    :math:`e^{-\lambda (e^\delta - 1 - \delta) - \delta^2 / 2 v}`, of width
    :math:`\tau = (\lambda + 1/v)^{-1/2}`. The trapezoid rule is exponentially accurate for it;
    nodes at :math:`\delta = 2 \tau \sinh(u / 2)` reach the long left tail in few steps.
    """
    nodes, weights = _trapezoid()
    w = wrightomega(a + v * y + np.log(v))
    # Where v is large the Gaussian's own slopes, (t - a) / v, are the accurate ones; where it is
    # small, those of log p. Neither may come from a difference of what is nearly equal.
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


def _left_moments(a: Floats, v: Floats, first: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    r"""Scaled moments :math:`\operatorname{E}[e^{kt}; t < 0]`, ``k = first, first + 1, ...``.

    .. math::
        \operatorname{E}[e^{kt}; t < 0] = e^{k a + k^2 v / 2} \, \Phi(-\sqrt 2 x)
            = \tfrac12 e^{-a^2 / 2 v} \operatorname{erfcx}(x), \qquad
        x = \frac{a + k v}{\sqrt{2 v}}

    Returns the ``n`` moments, the factor :math:`e^{-a^2 / 2v}`, both divided by a scale near the
    first moment so that nothing overflows, and the logarithm of that scale.
    """
    j = np.arange(n)[:, None]
    root = np.sqrt(2.0 * v)
    x = (a + (first + j) * v) / root
    edge = np.exp(-(np.minimum(x[0], 0.0) ** 2))
    part = 0.5 * edge * erfcx(np.abs(x))
    whole = np.exp(np.minimum(j * (a + (first + 0.5 * j) * v), 0.0))
    log_scale = np.where(x[0] < 0.0, first * (a + 0.5 * first * v), -((a / root) ** 2))
    return np.where(x < 0.0, whole - part, part), edge, log_scale


@cache
def _sigmoid_coefficients() -> Floats:
    r"""Fit :math:`x / (1 + x)` on [0, 1] by :math:`\sum_k c_k x^k`, ``k = 1, ..., 19``.

    .. math::
        \sum_k c_k x^k = x \, \frac{1 - q(x)}{1 + x}, \qquad
        q(x) = \Bigl(\frac{1 - x}{2}\Bigr)^2 \frac{T_{17}(2 x - 1)}{T_{17}(-3)} .

    :math:`q(-1) = 1` makes it a polynomial, and its relative error is :math:`|q| < 10^{-13}`. The
    double zero of q at 1 joins the two halves of the sigmoid smoothly, and keeps the error small
    in the derivatives as well. Alternating and at most 1: nothing is lost in the sums.
    """
    before, t = np.array([1.0]), np.array([-1.0, 2.0])
    for _ in range(16):
        before, t = t, np.convolve([-2.0, 4.0], t) - np.append(before, [0.0, 0.0])
    q = np.convolve([1.0, -2.0, 1.0], t)
    c = -q[:-1] / np.polyval(q[::-1], -1.0)
    c[0] += 1.0
    for k in range(1, len(c)):
        c[k] -= c[k - 1]
    column: Floats = c[:, None]
    return column


# The series of exp(-x), to full precision on [0, 1].
_EXPONENTIAL: Floats = np.cumprod(np.append(1.0, -1.0 / np.arange(1.0, 18.0)))[:, None]


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


def _by_rows(
    score: Callable[[Floats, Floats, Floats], Scores],
    a: npt.ArrayLike,
    v: npt.ArrayLike,
    y: npt.ArrayLike,
) -> Scores:
    """Call a function of equally long vectors with whatever broadcasts, a block at a time.

    A block bounds the memory of the tables, and keeps them in cache. ``v = 0`` is replaced by
    1e-100, which changes no digit unless a Poisson with ``a > 200`` is asked for ``-inf``.
    """
    a, v, y = np.broadcast_arrays(*_floats(a, v, y))
    out = np.empty((3, a.size))
    rows, variance, target = a.ravel(), np.maximum(v.ravel(), 1e-100), y.ravel()
    # Squares that overflow are exponents far in a tail, where the exponential is 0.
    with np.errstate(over="ignore"):
        for start in range(0, a.size, 1024):
            block = slice(start, start + 1024)
            out[:, block] = score(rows[block], variance[block], target[block])
    return out[0].reshape(a.shape), out[1].reshape(a.shape), out[2].reshape(a.shape)


def _floats(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> Scores:
    """Make three arrays of float64; a NumPy scalar becomes an array without axes."""
    return np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64)
