"""The probit: the likelihood of the paper, whose marginal has a closed form."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr, ndtri

from fires.core.types import Floats
from fires.kernels.compiling import inner
from fires.models.families.base import TINY, Family, LogMarginal, Moments, Slopes, floats, shares

_ROOT = math.sqrt(2.0 / math.pi)
_HALF = math.sqrt(0.5)
_LOG_ROOT = 0.5 * math.log(2.0 * math.pi)
_TERMS = 60  # terms of the continued fraction; enough for full precision below z = -7


class Probit(Family):
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

    kind = "classes"
    start_width = 1.0

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> LogMarginal:
        """See :meth:`Family.scores`."""
        a, v, y = floats(a, v, y)
        rho = np.sqrt(1.0 + v)
        z = y * (a / rho)
        pull = inverse_mills(z) / rho
        # z / rho comes first: z * pull may overflow although the slope does not.
        return floats(log_ndtr(z), y * pull, -0.5 * (z / rho) * pull)

    @property
    def slopes(self) -> Slopes:
        """Compiled."""
        return _slopes

    @property
    def moments(self) -> Moments:
        """Compiled."""
        return _moments

    def bound(self, a: Floats, v: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
        """The target as the sign of a normal number (Albert, Chib). See :meth:`Family.bound`."""
        return y * inverse_mills(y * a), np.ones_like(a)

    def level_of_share(self, rest: float, positive: float) -> float:
        """The normal quantile of the share of positives. See :meth:`Family.level_of_share`.

        Examples
        --------
        >>> Probit().level_of_share(rest=9.5, positive=9.5)
        0.0
        """
        rest, positive = shares(rest, positive)
        rarer = float(ndtri(min(positive, rest) / (positive + rest)))
        return math.copysign(rarer, positive - rest)


def inverse_mills(z: Floats) -> Floats:
    r"""The ratio :math:`\varphi(z) / \Phi(z)`, accurate in both tails.

    .. math:: r(z) = \sqrt{2 / \pi} \,/\, \operatorname{erfcx}(-z / \sqrt 2)

    Examples
    --------
    >>> inverse_mills(np.array([-1000.0, 0.0, 10.0]))
    array([1.00000100e+03, 7.97884561e-01, 7.69459863e-23])
    """
    # Beyond z = 37 erfcx is infinite, and the ratio is rightly 0.
    ratio: Floats = np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))
    return ratio


@inner
def _mills(z: float) -> float:
    """The :func:`inverse_mills` ratio of one number."""
    if z > -7.0:
        ratio = _ROOT * math.exp(-0.5 * z * z) / math.erfc(-z * _HALF)
    else:
        # exp and erfc both vanish here; their ratio is -z + 1/(-z + 2/(-z + 3/(...))).
        ratio = -z
        for n in range(_TERMS, 0, -1):
            ratio = -z + n / ratio
    return ratio


@inner
def _slopes(a: float, v: float, y: float) -> tuple[float, float]:
    """The slopes of log Phi(y a / sqrt(1 + v)): what :class:`Probit` defines, for one row."""
    rho = math.sqrt(1.0 + v)
    z = y * (a / rho)
    ratio = _mills(z) / rho
    return y * ratio, -0.5 * (z / rho) * ratio


@inner
def _moments(a: float, v: float, y: float) -> tuple[float, float, float]:
    r"""See :attr:`Family.moments`: the bend is :math:`r (r + z) / \rho^2`."""
    rho = math.sqrt(1.0 + v)
    z = y * (a / rho)
    ratio = _mills(z)
    # The logarithm of phi / r; where that is nearly 0 it would lose its digits.
    if z > 1.0:
        log_z = math.log1p(-0.5 * math.erfc(z * _HALF))
    else:
        log_z = -0.5 * z * z - _LOG_ROOT - math.log(ratio)
    # Far in the tail r + z loses its digits; there this is the series of r (r + z).
    rest = ratio * (ratio + z) if z > -1e4 else 1.0 - 1.0 / z / z
    return log_z, y * ratio / rho, max(rest / rho / rho, TINY)


FAMILY = Probit()
