"""Numbers with normal noise."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats
from fires.kernels.compiling import inner
from fires.models.families.base import Family, LogMarginal, Moments, floats


class Gaussian(Family):
    r"""Numbers with normal noise: :math:`Z = \mathcal{N}(y; a, v)`.

    Here ``v > 0`` **includes** the noise: the caller adds its variance to that of
    :math:`\theta^\top x`. So ``g_v`` is also the slope in the variance of the noise.

    .. math::
        g_a = \frac{e}{v}, \quad g_v = \frac{1}{2 v} \Bigl(\frac{e^2}{v} - 1\Bigr),
        \qquad e = y - a

    Examples
    --------
    >>> log_z, g_a, g_v = Gaussian().scores([0.0, 2.0], 4.0, 6.0)
    >>> g_a, g_v
    (array([1.5, 1. ]), array([1.   , 0.375]))
    """

    kind = "numbers"
    noise = 1.0

    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> LogMarginal:
        """See :meth:`Family.scores`."""
        a, v, y = floats(a, v, y)
        error = y - a
        pull = error / v
        square = error * pull
        return floats(-0.5 * (np.log(2.0 * np.pi * v) + square), pull, 0.5 * (square - 1.0) / v)

    @property
    def moments(self) -> Moments:
        """Compiled."""
        return _moments

    def bound(self, a: Floats, v: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
        """The likelihood itself. See :meth:`Family.bound`."""
        return (y - a) / noise, np.full_like(a, 1.0 / noise)


@inner
def _moments(a: float, v: float, y: float) -> tuple[float, float, float]:
    """See :attr:`Family.moments`. The noise is part of ``v``."""
    pull = (y - a) / v
    return -0.5 * (math.log(2.0 * math.pi * v) + (y - a) * pull), pull, 1.0 / v


FAMILY = Gaussian()
