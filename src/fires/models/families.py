"""The scalar functions behind every linear base model, one class per likelihood.

A linear model sees a row only through ``t = theta.x``, which is ``N(a, v)``. So all it needs is
one function of three numbers: the logarithm of the marginal likelihood and its two slopes,

.. math::
    Z(a, v, y) = \\operatorname{E}[p(y \\mid t)], \\; t \\sim \\mathcal{N}(a, v), \\qquad
    g_a = \\frac{\\partial \\log Z}{\\partial a}, \\qquad
    g_v = \\frac{\\partial \\log Z}{\\partial v}
        = \\frac12 \\Bigl(\\frac{\\partial g_a}{\\partial a} + g_a^2\\Bigr) .

Probit and Gaussian are closed forms. For the other two, Gauss-Hermite nodes placed by ``N(a, v)``
miss what matters once ``v`` is large, and the slopes they give are not those of the value they
give. Here the logistic is a sum of truncated normal moments (:func:`_left_moments`), and so is
the Poisson while its rate is small; else the integrand is summed around its mode.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, expit, gammaln, log_ndtr, ndtr, wrightomega

from fires.core.belief import Floats

Scores = tuple[Floats, Floats, Floats]
Kind = Literal["classes", "numbers", "counts"]

_BLOCK = 2048  # rows at a time where each row costs a table: bounds memory, stays in cache
_TINY = 1e-100  # stands for v = 0; no value or slope of a finite one changes by it


class Family(Protocol):
    """A likelihood ``p(y | t)`` with its Gaussian marginal.

    ``kind`` says what ``y`` is: ``"classes"`` coded -1 and +1, ``"numbers"``, or ``"counts"``.
    """

    name: str
    kind: Kind

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        ...


def inverse_mills(z: Floats) -> Floats:
    r"""The ratio :math:`\varphi(z) / \Phi(z)`, to full precision in both tails.

    .. math:: r(z) = \sqrt{2 / \pi} \,/\, \operatorname{erfcx}(-z / \sqrt 2)

    Examples
    --------
    >>> inverse_mills(np.array([-1000.0, 0.0, 10.0]))
    array([1.00000100e+03, 7.97884561e-01, 7.69459863e-23])
    """
    # Far right erfcx is infinite and the ratio 0, as it should be.
    ratio: Floats = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    return ratio


class Probit:
    r"""A probit on classes: :math:`p(y \mid t) = \Phi(y t)`, :math:`y = \pm 1`.

    .. math::
        \log Z = \log \Phi(z), \quad g_a = \frac{y\,r(z)}{\rho}, \quad
        g_v = -\frac{z\,r(z)}{2 \rho^2}, \qquad
        z = \frac{y a}{\rho}, \quad \rho = \sqrt{1 + v}

    Examples
    --------
    >>> log_z, g_a, g_v = Probit().scores(a=-2.0, v=1.0, y=1.0)
    >>> g_a.round(6), g_v.round(6)
    (np.float64(1.319484), np.float64(0.659742))
    """

    name = "probit"
    kind: Kind = "classes"

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        a, v, y = _floats(a, v, y)
        rho = np.sqrt(1.0 + v)
        z = y * (a / rho)
        ratio = inverse_mills(z) / rho  # divided twice, not by rho**2: that may overflow
        return _floats(log_ndtr(z), y * ratio, -0.5 * (z / rho) * ratio)


class Gaussian:
    r"""A number with normal noise: :math:`Z = \mathcal{N}(y; a, v)`.

    Here ``v > 0`` already **includes** the noise: the caller adds :math:`s^2` to the variance of
    :math:`\theta^\top x`. So :math:`\partial \log Z / \partial s^2` is ``g_v`` too.

    .. math::
        \log Z = -\tfrac12 \Bigl(\log 2 \pi v + \frac{e^2}{v}\Bigr), \quad
        g_a = \frac{e}{v}, \quad
        g_v = \frac{1}{2 v} \Bigl(\frac{e^2}{v} - 1\Bigr), \qquad e = y - a

    Examples
    --------
    >>> log_z, g_a, g_v = Gaussian().scores(a=0.0, v=4.0, y=6.0)
    >>> g_a, g_v
    (array(1.5), array(1.))
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


def _rowwise(score: Callable[[Any, Floats, Floats, Floats], Scores]) -> Any:
    """Let a function of three equally long vectors take whatever broadcasts, block by block."""

    @wraps(score)
    def scores(self: Any, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> Scores:
        a, v, y = np.broadcast_arrays(*_floats(a, v, y))
        shape = a.shape
        a, v, y = a.ravel(), np.maximum(v.ravel(), _TINY), y.ravel()
        out = np.empty((3, len(a)))
        # Infinite squares in the far tails are meant: they are exponents of a zero.
        with np.errstate(over="ignore"):
            for start in range(0, len(a), _BLOCK):
                rows = slice(start, start + _BLOCK)
                out[:, rows] = score(self, a[rows], v[rows], y[rows])
        log_z, g_a, g_v = (each.reshape(shape) for each in out)
        return log_z, g_a, g_v

    return scores


class Logistic:
    name = "logistic"
    kind: Kind = "classes"

    @_rowwise
    def scores(self, a: Floats, v: Floats, y: Floats) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        s = -np.abs(a)
        k = np.arange(len(_SIGMOID) + 1)[:, None]
        left, edge, log_scale = _left_moments(s, v, np.ones_like(s), len(_SIGMOID))
        right = 0.5 * edge * erfcx((k * v - s) / np.sqrt(2.0 * v))
        c, k = _SIGMOID[:, None], k[1:]
        odd, even = left - right[1:], left + right[1:]
        f = right[0] + (c * odd).sum(axis=0)
        f1 = (k * c * even).sum(axis=0)
        f2 = (k**2 * c * odd).sum(axis=0)
        wrong = y * a < 0
        scale = np.exp(log_scale)
        log_z = np.where(wrong, log_scale + np.log(f), np.log1p(-scale * f))
        unit = np.where(wrong, 1.0 / f, scale / (1.0 - scale * f))
        return log_z, y * f1 * unit, np.where(wrong, 0.5, -0.5) * f2 * unit


class Poisson:
    name = "poisson"
    kind: Kind = "counts"

    @_rowwise
    def scores(self, a: Floats, v: Floats, y: Floats) -> Scores:
        """``(log Z, dlogZ/da, dlogZ/dv)``, elementwise, in the broadcast shape."""
        w = wrightomega(a + v * y + np.log(v))
        few = w < v
        out = np.empty((3, len(a)))
        if few.any():
            out[:, few] = _few(a[few], v[few], y[few])
        if not few.all():
            many = ~few
            out[:, many] = _many(a[many], v[many], y[many], w[many])
        out[0] -= gammaln(y + 1.0)
        return out[0], out[1], out[2]


def _few(a: Floats, v: Floats, y: Floats) -> Scores:
    n = len(_EXP)
    moments, edge, log_scale = _left_moments(a, v, y, n + 2)
    root = np.sqrt(2.0 * v)
    x = (a + y * v) / root
    reach = np.minimum(7.0, 4.0 / root)
    s = reach * _LEGENDRE[0][:, None]
    rate = np.exp(root * s)
    f = reach * edge / np.sqrt(np.pi) * _LEGENDRE[1][:, None] * np.exp(s * (2.0 * x - s) - rate)
    i0, i1, i2 = (
        (_EXP[:, None] * moments[j : j + n]).sum(axis=0) + (f * rate**j).sum(axis=0)
        for j in range(3)
    )
    rest = 0.5 * edge * erfcx(-x) - f.sum(axis=0) - (_EXP[1:, None] * moments[1:n]).sum(axis=0)
    near = (y == 0.0) & (x < 0.0) & (i0 > 0.5)
    log_z = np.where(near, np.log1p(-np.where(near, rest, 0.0)), log_scale + np.log(i0))
    r1, r2 = i1 / i0, i2 / i0
    return log_z, y - r1, 0.5 * (y * y - (2.0 * y + 1.0) * r1 + r2)


def _many(a: Floats, v: Floats, y: Floats, w: Floats) -> Scores:
    lam = w / v
    far = w > 1.0
    d = np.where(far, np.log(lam) - a, v * y - w)
    mode = np.where(far, np.log(lam), a + d)
    tau = 1.0 / np.sqrt(lam + 1.0 / v)
    delta = tau * _NODES[0][:, None]
    bend = np.expm1(delta)
    f = _NODES[1][:, None] * np.exp(-lam * (bend - delta) - delta**2 / (2.0 * v))
    total = f.sum(axis=0)
    f /= total
    e1 = (f * delta).sum(axis=0)
    e2 = (f * delta**2).sum(axis=0)
    b1 = (f * bend).sum(axis=0)
    s2 = (f * (d / v - lam * bend) ** 2).sum(axis=0)
    log_z = y * mode - lam - d * d / (2.0 * v) + np.log(total) - 0.5 * np.log(2 * np.pi * (1 + w))
    g_a = d / v + np.where(far, e1 / v, -lam * b1)
    g_v = 0.5 * np.where(far, ((d * d + 2 * d * e1 + e2) / v - 1) / v, s2 - lam * (1 + b1))
    return log_z, g_a, g_v


def _left_moments(a: Floats, v: Floats, first: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    j = np.arange(n)[:, None]
    root = np.sqrt(2.0 * v)
    x = (a + (first + j) * v) / root
    edge = np.exp(-(np.minimum(x[0], 0.0) ** 2))
    wall = 0.5 * edge * erfcx(np.abs(x))
    whole = np.exp(np.minimum(j * (a + (first + 0.5 * j) * v), 0.0))
    log_scale = np.where(x[0] < 0.0, first * (a + 0.5 * first * v), -((a / root) ** 2))
    return np.where(x < 0.0, whole - wall, wall), edge, log_scale


def _sigmoid_coefficients(degree: int) -> Floats:
    before, t = np.array([1.0]), np.array([-1.0, 2.0])
    for _ in range(degree - 1):
        before, t = t, np.convolve([-2.0, 4.0], t) - np.pad(before, (0, 2))
    q = np.convolve(np.convolve([0.5, -0.5], [0.5, -0.5]), t)
    q /= np.polyval(q[::-1], -1.0)
    c = -q[:-1]
    c[0] += 1.0
    for k in range(1, len(c)):
        c[k] -= c[k - 1]
    return c


def _floats(*values: npt.ArrayLike) -> tuple[Floats, ...]:
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _trap(n, lo=30.0, hi=7.5):
    u, step = np.linspace(2 * np.arcsinh(-lo / 2), 2 * np.arcsinh(hi / 2), n, retstep=True)
    return 2 * np.sinh(u / 2), np.cosh(u / 2) * step


_SIGMOID = _sigmoid_coefficients(17)
_EXP = np.cumprod(np.concatenate([[1.0], -1.0 / np.arange(1, 18)]))
_x, _w = np.polynomial.legendre.leggauss(32)
_LEGENDRE = (_x + 1) / 2, _w / 2
_NODES = _trap(72)
FAMILIES: dict[str, Family] = {f.name: f for f in (Probit(), Logistic(), Gaussian(), Poisson())}
