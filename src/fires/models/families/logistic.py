"""The logistic: computed to about 1e-13, tails included."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from fires.core.belief import Floats
from fires.models.families.base import Family, LogMarginal, by_rows, left_moments, shares


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


FAMILY = Logistic()
