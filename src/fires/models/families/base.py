r"""The base class of the likelihoods of linear models.

A linear model sees a row only through :math:`t = \theta^\top x \sim \mathcal{N}(a, v)`. So a
likelihood is one function of three numbers: the log marginal likelihood and its two slopes,

.. math::
    Z(a, v, y) = \operatorname{E}[p(y \mid t)], \qquad
    g_a = \frac{\partial \log Z}{\partial a}, \qquad
    g_v = \frac{\partial \log Z}{\partial v}
        = \frac12 \Bigl(\frac{\partial g_a}{\partial a} + g_a^2\Bigr) .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx

from fires.core.types import Floats
from fires.kernels.assimilate import assimilation
from fires.kernels.gradient import GradientLoops, gradient_loops

Kind = Literal["classes", "numbers", "counts"]
LogMarginal = tuple[Floats, Floats, Floats]
Moments = Callable[[float, float, float], tuple[float, float, float]]
Slopes = Callable[[float, float, float], tuple[float, float]]
TINY = 1e-300  # the least bend, so that it is positive even where it underflows


class Family(ABC):
    """A likelihood ``p(y | t)``, with all that a linear model needs to know about it.

    A new family writes ``kind``, :meth:`scores` and ``moments``; everything else has a default. Its
    file holds an instance as ``FAMILY``. The name of the file is its name in
    ``FIRES(model=...)``.

    Attributes
    ----------
    kind : {"classes", "numbers", "counts"}
        What ``y`` is: -1 and +1, any number, or a number that is not negative.
    noise : float
        The variance of the noise at the start, if ``v`` includes a noise; otherwise 0.
    start_width : float
        How the start of a prediction depends on ``v``, see :func:`fires.models.target.start`.
    """

    kind: Kind
    noise: float = 0.0
    start_width: float = 0.0

    @abstractmethod
    def scores(self, a: npt.ArrayLike, v: npt.ArrayLike, y: npt.ArrayLike) -> LogMarginal:
        """The log marginal likelihood of each row and its two slopes, elementwise.

        Parameters
        ----------
        a, v : array-like
            The mean and the variance of ``theta.x``.
        y : array-like
            The target, see ``kind``.

        Returns
        -------
        log_z, g_a, g_v : ndarray
            ``log Z``, ``dlogZ/da`` and ``dlogZ/dv``, in the broadcast shape.
        """

    @property
    @abstractmethod
    def moments(self) -> Moments:
        r"""What one row teaches, compiled: ``(a, v, y) -> (log Z, g_a, bend)``, all numbers.

        ``bend`` is :math:`-\partial^2 \log Z / \partial a^2 = g_a^2 - 2 g_v`. After the row, the
        mean of ``theta.x`` is :math:`a + v g_a`, and its variance is :math:`v (1 - v \,bend)`. So
        ``bend`` is positive, and ``v * bend`` is at most 1.
        """

    @property
    def slopes(self) -> Slopes | None:
        """``(a, v, y) -> (g_a, g_v)`` of one row, compiled, if the gradient is to be fast."""
        return None

    @cached_property
    def gradient(self) -> GradientLoops:
        """The loops of the gradient step: :mod:`fires.kernels.gradient`."""
        return gradient_loops(type(self).__name__.lower(), self.slopes, self.scores)

    @cached_property
    def assimilate(self) -> Callable[..., None]:
        """The loops of Bayes' rule: :mod:`fires.kernels.assimilate`."""
        return assimilation(type(self).__name__.lower(), self.moments)

    def bound(self, a: Floats, v: Floats, y: Floats, noise: float) -> tuple[Floats, Floats]:
        r"""The parabola that bounds ``log p(y | t)`` from below, for ``update="variational"``.

        Parameters
        ----------
        a, v, y : ndarray
            The mean and the variance of ``theta.x``, without noise, and the target.
        noise : float
            The variance of the noise, if there is one.

        Returns
        -------
        slope, bend : ndarray
            Its slope at ``a``, and minus its second derivative. On average over
            :math:`t \sim \mathcal{N}(a, v)`, no other one of its kind is as close.
        """
        raise ValueError(f"update='variational' is not for {self.kind}: use update='bayes'.")

    def __reduce__(self) -> tuple[Callable[[str], Family], tuple[str]]:
        # By name: its compiled loops would be compiled again in the process that unpickles them.
        return _family_of, (type(self).__module__,)

    def level_of_share(self, rest: float, positive: float) -> float:
        """The inverse link of the share of positives; it changes sign if the sides are exchanged.

        Parameters
        ----------
        rest, positive : float
            The weight of the rows of both sides.

        Returns
        -------
        float
            Where predictions start from; 0 if the target has no classes.
        """
        return 0.0


def _family_of(module: str) -> Family:
    family: Family = import_module(module).FAMILY
    return family


def by_rows(
    score: Callable[[Floats, Floats, Floats], LogMarginal],
    a: npt.ArrayLike,
    v: npt.ArrayLike,
    y: npt.ArrayLike,
) -> LogMarginal:
    """Apply a function of vectors of one length to arrays that broadcast, block by block.

    Blocks bound the memory, and keep intermediate tables in the cache. ``v = 0`` is replaced by
    1e-100; that changes nothing, except for a Poisson with ``a > 200`` whose result would be
    ``-inf``.
    """
    a, v, y = np.broadcast_arrays(*floats(a, v, y))
    out = np.empty((3, a.size))
    rows, variance, target = a.ravel(), np.maximum(v.ravel(), 1e-100), y.ravel()
    # Squares overflow only in exponents far in a tail, where the exponential is 0 anyway.
    with np.errstate(over="ignore"):
        for start in range(0, a.size, 1024):
            block = slice(start, start + 1024)
            out[:, block] = score(rows[block], variance[block], target[block])
    return out[0].reshape(a.shape), out[1].reshape(a.shape), out[2].reshape(a.shape)


def floats(a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike) -> LogMarginal:
    """Three arrays of float64; a NumPy scalar becomes an array without axes.

    Parameters
    ----------
    a, b, c : array-like
        Numbers.

    Returns
    -------
    tuple of three ndarrays
    """
    return np.asarray(a, np.float64), np.asarray(b, np.float64), np.asarray(c, np.float64)


def left_moments(a: Floats, v: Floats, first: Floats, n: int) -> tuple[Floats, Floats, Floats]:
    r"""Scaled moments :math:`\operatorname{E}[e^{kt}; t < 0]`, ``k = first, first + 1, ...``.

    .. math::
        \operatorname{E}[e^{kt}; t < 0] = e^{k a + k^2 v / 2} \, \Phi(-\sqrt 2 x)
            = \tfrac12 e^{-a^2 / 2 v} \operatorname{erfcx}(x), \qquad
        x = \frac{a + k v}{\sqrt{2 v}}
    """
    j = np.arange(n)[:, None]
    root = np.sqrt(2.0 * v)
    x = (a + (first + j) * v) / root
    edge = np.exp(-(np.minimum(x[0], 0.0) ** 2))
    part = 0.5 * edge * erfcx(np.abs(x))
    whole = np.exp(np.minimum(j * (a + (first + 0.5 * j) * v), 0.0))
    log_scale = np.where(x[0] < 0.0, first * (a + 0.5 * first * v), -((a / root) ** 2))
    return np.where(x < 0.0, whole - part, part), edge, log_scale


def shares(rest: float, positive: float) -> tuple[float, float]:
    """The weights of both sides plus half a row each: a class not seen yet counts as rare."""
    return rest + 0.5, positive + 0.5
