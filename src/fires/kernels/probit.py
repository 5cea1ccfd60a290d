"""The step of the default model as one loop: what it does to one batch, it does to many in a call.

A probit with one row of parameters and an intercept, on dense, standardised data. The general step,
:class:`fires.models.online_linear.OnlineLinear`, is its definition. The same compiled code serves
one batch and many: so it does not matter to the result, to the last bit, how many batches are
learnt from in one call; and while it runs, other threads can.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.validation import LARGEST
from fires.kernels.compiling import released

STATE = ("mu", "sigma", "shift", "spread", "gain")
"""What is known of each feature: the rows of a state."""

_ROOT = math.sqrt(2.0 / math.pi)
_HALF = math.sqrt(0.5)
_TERMS = 60  # as in fires.kernels.rows.probit_slopes


@released
def probit_steps(
    X: Floats,
    codes: npt.NDArray[np.intp],
    levels: Floats,
    counts: Floats,
    weight: float,
    states: Floats,
    rests: Floats,
    rate_mu: float,
    rate_sigma: float,
    least_change: float,
    most_change: float,
    tiny: float,
    sums: Floats,
    rows: Floats,
) -> int:
    """Learn from batches of equal length, one per level; returns from how many.

    Stops before the first batch that is not an ordinary one: whose step has to be shortened, or
    would overflow.

    Parameters
    ----------
    X : ndarray (n_batches * n_rows, n_features), C-ordered
        The rows of all batches; they have passed the gate. NaN is a missing value.
    codes : ndarray (n_batches * n_rows,)
        0 and 1.
    levels : ndarray (n_batches,)
        Where the predictions of each batch start from.
    counts : ndarray (n_batches, n_features) or (n_batches, 1)
        How many rows the scale knows of each feature, or of all, after each batch.
    weight : float
        What a row counts for the scale: 1, or 0 if it is to stay.
    states : ndarray (n_batches + 1, 5, n_features)
        The rows :data:`STATE` before the first batch; gets those after each.
    rests : ndarray (n_batches + 1, 3)
        Likewise mean and deviation of the intercept, and a lower bound of sigma.
    rate_mu, rate_sigma, least_change, most_change, tiny : float
        As in fires.kernels.features.
    sums : ndarray (4, n_features)
        Scratch space.
    rows : ndarray (5, n_rows or more, a multiple of 4)
        Scratch space.
    """
    n_batches, n_columns = len(levels), X.shape[1]
    n_rows = len(codes) // n_batches
    share = 1.0 / n_rows
    p, q, p_scale, q_scale = sums[0], sums[1], sums[2], sums[3]
    a, v, c, d, w = rows[0], rows[1], rows[2], rows[3], rows[4]
    for b in range(len(a)):  # four rows at a time; those beyond the last weigh nothing
        c[b] = d[b] = 0.0
        w[b] = weight if b < n_rows else 0.0
    for batch in range(n_batches):
        first, last = batch * n_rows, batch * n_rows + n_rows - 1
        old, new, rest = states[batch], states[batch + 1], rests[batch]
        mu, sigma, shift, spread, gain = old[0], old[1], old[2], old[3], old[4]
        for j in range(n_columns):
            p[j] = mu[j] * gain[j]
            q[j] = (sigma[j] * gain[j]) ** 2
        for b in range(0, n_rows, 4):
            x0, x1 = X[first + b], X[min(first + b + 1, last)]
            x2, x3 = X[min(first + b + 2, last)], X[min(first + b + 3, last)]
            a0 = a1 = a2 = a3 = 0.0
            v0 = v1 = v2 = v3 = 0.0
            for j in range(n_columns):
                t0, t1 = x0[j] - shift[j], x1[j] - shift[j]
                t2, t3 = x2[j] - shift[j], x3[j] - shift[j]
                t0 = t0 if t0 == t0 else 0.0
                t1 = t1 if t1 == t1 else 0.0
                t2 = t2 if t2 == t2 else 0.0
                t3 = t3 if t3 == t3 else 0.0
                a0 += p[j] * t0
                a1 += p[j] * t1
                a2 += p[j] * t2
                a3 += p[j] * t3
                v0 += q[j] * t0 * t0
                v1 += q[j] * t1 * t1
                v2 += q[j] * t2 * t2
                v3 += q[j] * t3 * t3
            a[b], a[b + 1], a[b + 2], a[b + 3] = a0, a1, a2, a3
            v[b], v[b + 1], v[b + 2], v[b + 3] = v0, v1, v2, v3

        level, own, least = levels[batch], rest[1] * rest[1], rest[2] * rest[2]
        greatest = p_own = q_own = 0.0
        for b in range(n_rows):
            y = 1.0 if codes[first + b] else -1.0
            rho = math.sqrt(1.0 + (v[b] + own))
            z = y * ((a[b] + rest[0] + level * rho) / rho)
            if z > -7.0:
                ratio = _ROOT * math.exp(-0.5 * z * z) / math.erfc(-z * _HALF)
            else:
                ratio = -z
                for n in range(_TERMS, 0, -1):
                    ratio = -z + n / ratio
            ratio /= rho
            g_a, g_v = y * ratio, -0.5 * (z / rho) * ratio
            greatest = max(greatest, (g_a * g_a - 2.0 * g_v) * (v[b] + least))
            g_v += g_a * (level * (0.5 / rho))
            c[b], d[b] = g_a, g_v
            p_own += g_a
            q_own += g_v
        if rate_mu * greatest > least or not math.isfinite(p_own + q_own):
            return batch

        for j in range(n_columns):
            p[j] = q[j] = p_scale[j] = q_scale[j] = 0.0
        for b in range(0, n_rows, 4):
            x0, x1 = X[first + b], X[min(first + b + 1, last)]
            x2, x3 = X[min(first + b + 2, last)], X[min(first + b + 3, last)]
            c0, c1, c2, c3 = c[b], c[b + 1], c[b + 2], c[b + 3]
            d0, d1, d2, d3 = d[b], d[b + 1], d[b + 2], d[b + 3]
            w0, w1, w2, w3 = w[b], w[b + 1], w[b + 2], w[b + 3]
            for j in range(n_columns):
                t0, t1 = x0[j] - shift[j], x1[j] - shift[j]
                t2, t3 = x2[j] - shift[j], x3[j] - shift[j]
                t0 = t0 if t0 == t0 else 0.0
                t1 = t1 if t1 == t1 else 0.0
                t2 = t2 if t2 == t2 else 0.0
                t3 = t3 if t3 == t3 else 0.0
                p[j] += c0 * t0 + c1 * t1 + c2 * t2 + c3 * t3
                q[j] += d0 * t0 * t0 + d1 * t1 * t1 + d2 * t2 * t2 + d3 * t3 * t3
                p_scale[j] += w0 * t0 + w1 * t1 + w2 * t2 + w3 * t3
                q_scale[j] += w0 * t0 * t0 + w1 * t1 * t1 + w2 * t2 * t2 + w3 * t3 * t3

        n_strange, least = 0.0, np.inf
        for j in range(n_columns):
            change = 2.0 * rate_sigma * share * gain[j] * gain[j] * q[j]
            reach = sigma[j] * (1.0 + min(max(change, least_change), most_change))
            new[0, j] = mu[j] + rate_mu * share * gain[j] * p[j]
            new[1, j] = reach
            least = min(least, reach)
            reach += abs(new[0, j]) + 0.0 * q[j] + 0.0 * q_scale[j]
            n_strange += 0.0 if reach <= LARGEST else 1.0  # no comparison with NaN is true
        if n_strange > 0.0:
            return batch
        for j in range(n_columns):
            count = max(counts[batch, j if counts.shape[1] > 1 else 0], 1.0)
            change = p_scale[j] / count
            centre = shift[j] + change
            new[2, j] = centre
            new[3, j] = spread[j] + q_scale[j] - p_scale[j] * change
            variance = new[3, j] / count
            spreads = variance > max(tiny * centre * centre, 1e-300)
            new[4, j] = 1.0 / math.sqrt(variance) if spreads else 0.0
        change = 2.0 * rate_sigma * share * q_own
        rests[batch + 1, 0] = rest[0] + rate_mu * share * p_own
        rests[batch + 1, 1] = rest[1] * (1.0 + min(max(change, least_change), most_change))
        rests[batch + 1, 2] = least
    return n_batches
