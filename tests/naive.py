"""Compiled loops in plain NumPy, as slow as they are clear: what the tests compare them with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numba
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import expit, logsumexp, ndtri

from fires.core.belief import Floats
from fires.core.types import Ints, Matrix
from fires.kernels import assimilate, sequential
from fires.kernels.changes import page
from fires.kernels.compiling import filled_in
from fires.kernels.contingency import Codes, uncertainties
from fires.kernels.correlation import partial_correlation
from fires.kernels.forward import chi_deviations
from fires.kernels.online import (
    GREATEST,
    LEAST,
    LIMIT,
    PACE,
    RATE,
    Four,
    coefficients_plain,
)
from fires.kernels.screen import KNOTS, MEANS, ORDERS, REACH
from fires.kernels.second_order import AROW, SCW_1, Rule
from fires.kernels.select import Indices
from fires.kernels.sequential import CONFIDENT
from fires.rivals.arriving.independence import FisherZ, as_codes, fisher_z


@numba.njit
def add_up(
    more: Floats, weight: Floats, warm_up: float, total: Floats, usual: Floats, rows: Floats
) -> Floats:
    """Page's sums of what the rows of a batch add, in place; the greatest ones on the way."""
    greatest = total.copy()
    for k in range(len(total)):
        for b in range(len(weight)):
            sums = page(more[k, b], weight[b], warm_up, total[k], usual[k], rows[k])
            total[k], usual[k], rows[k] = sums
            greatest[k] = max(greatest[k], total[k])
    return greatest


def project_plain(X: Matrix, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
    """The definition of :func:`project`."""
    T = filled_rows(X)
    return mu @ T.T, var @ (T * T).T


def accumulate_plain(X: Matrix, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    """The definition of :func:`accumulate`."""
    T = filled_rows(X)
    return c @ T, d @ (T * T)


def filled_rows(X: Matrix) -> Floats:
    T = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    return np.nan_to_num(T, nan=0.0, posinf=np.inf, neginf=-np.inf)


def add_plain(system: Floats, joined: list[int], columns: list[int]) -> float:
    """What columns add to the intercept and those that have joined, as squared deviations."""
    precision, pull = system[:, :-1], system[:, -1]
    S, C = [len(system) - 1, *joined], columns
    explained = np.linalg.solve(precision[np.ix_(S, S)], precision[np.ix_(S, C)])
    left = pull[C] - explained.T @ pull[S]
    own = precision[np.ix_(C, C)] - precision[np.ix_(C, S)] @ explained
    return float(left @ np.linalg.solve(own, left))


def forward_plain(
    systems: Floats,
    candidates: list[list[int]],
    limits: Floats,
    *,
    inside: list[int] | None = None,
    late: Floats | None = None,
    bonus: float = 0.0,
    sure: float = np.inf,
    first: list[int] | None = None,
) -> tuple[list[int], Floats, float]:
    """The definition of :func:`forward`: who has joined, and the deviations of all.

    And the squared deviations of the intercept and of all that have joined, of all systems.

    A member counts by what it adds to the other members.
    """
    n_rows, n, n_places = len(systems), len(candidates), len(limits)
    ahead = bonus * np.isin(np.arange(n), inside or [])
    late = np.ones(n) if late is None else late
    order: list[int] = list(first or [])
    left: list[int] = []
    served = np.zeros(n_rows)
    while True:
        now = np.empty((n, n_rows))
        for c, columns in enumerate(candidates):
            joined = [j for other in order if other != c for j in candidates[other]]
            for r, system in enumerate(systems):
                now[c, r] = chi_deviations(add_plain(system, joined, columns), len(columns))
        squares, z = (now**2).sum(axis=1), now.max(axis=1)
        if n_rows > 1:
            of_one = np.sqrt(np.maximum(z**2 - 2.0 * np.log(n_rows), 0.0))
            scaled = squares * (n_rows - 1) / n_rows
            z = np.maximum(of_one, [chi_deviations(s, n_rows - 1) for s in scaled])
        weakest = min(order, key=lambda c: late[c] * z[c] + ahead[c], default=-1)
        too_many = len(order) > n_places
        if order and (too_many or z[weakest] + ahead[weakest] < limits[len(order) - 1]):
            order.remove(weakest)
            left.append(weakest)
            continue
        n_left = max(n_places - len(order), 0)
        free = [c for c in range(n) if c not in order and c not in left]
        may = [c for c in free if n_left and z[c] + ahead[c] > limits[len(order)]]
        worth = late * np.sqrt(squares / n_rows) + ahead
        wanting = [
            r for r in range(n_rows) if served[r] <= sure and any(now[c, r] > sure for c in free)
        ]
        if n_left and n_left <= len(wanting) and 5 * n_left <= n_places:
            chosen = max(free, key=lambda c: max(now[c, r] for r in wanting))
        elif may:
            chosen = max(may, key=lambda c: worth[c])
        else:
            S = [systems.shape[1] - 1, *(j for c in order for j in candidates[c])]
            found = [one[S, -1] @ np.linalg.solve(one[np.ix_(S, S)], one[S, -1]) for one in systems]
            return sorted(order), z, float(sum(found))
        order.append(chosen)
        served = np.maximum(served, now[chosen])


def ftrl_plain(
    X: Floats, y: Floats, z: Floats, root: Floats, intercept: bool, settings: Four
) -> tuple[Floats, Floats]:
    """The definition of :func:`ftrl_rows`; the last entries are the intercept's, without L1."""
    rate, _, l1, _ = settings
    z, n = z.copy(), root**2
    penalty = np.full(len(z), l1)
    penalty[-1] = 0.0
    for features, sign in zip(X, y, strict=True):
        x = np.append(features, 1.0 if intercept else 0.0)
        w = coefficients_plain(z, np.sqrt(n), penalty, settings)
        g = -sign * expit(-sign * (w @ x)) * x
        z += g - (np.sqrt(n + g**2) - np.sqrt(n)) / rate * w
        n += g**2
    return z, np.sqrt(n)


def entropy_plain(*parts: Sequence[float]) -> float:
    """The entropy of rows of categories, in nats."""
    counts: dict[tuple[float, ...], int] = {}
    for row in zip(*parts, strict=True):
        counts[row] = counts.get(row, 0) + 1
    shares = [count / len(parts[0]) for count in counts.values()]
    return -sum(share * math.log(share) for share in shares)


def information_plain(x: Codes, column: Codes) -> tuple[float, float]:
    """The mutual information of two columns of codes, and their symmetrical uncertainty."""
    rows = [(a, c) for a, c in zip(x.tolist(), column.tolist(), strict=True) if min(a, c) >= 0]
    if not rows:
        return 0.0, 0.0
    a, c = zip(*rows, strict=True)
    single, both = entropy_plain(a) + entropy_plain(c), entropy_plain(a, c)
    return single - both, 2.0 * (single - both) / single if single > 0.0 else 0.0


def oli2ds_plain(X: Floats, y: Floats, limit: float, rate: float) -> list[float]:
    """The definition of :func:`oli2ds`, with a dict for each row: the coefficients."""
    w: dict[int, float] = dict.fromkeys(range(X.shape[1]), 0.0)
    seen: dict[int, list[float]] = {j: [] for j in w}
    before: set[int] | None = None
    n_rows = {-1.0: 1, 1.0: 1}
    for features, sign in zip(X.tolist(), y.tolist(), strict=True):
        x = {j: value for j, value in enumerate(features) if value}
        n_rows[sign] += before is not None
        for j, value in x.items():
            seen[j].append(value)
        if not x:
            continue
        shared = {j for j in x if before is None or j in before}
        variance = {j: float(np.var(seen[j])) for j in x}
        total = sum(variance.values())
        share = sum(variance[j] for j in shared) / total if total > 0.0 else 1.0
        p = {j: share if j in shared else 1.0 - share for j in x}
        loss = max(0.0, 1.0 - sign * sum(p[j] * w[j] * x[j] for j in x))
        norm = sum((p[j] * x[j]) ** 2 for j in x)
        rarity = n_rows[-sign] / (n_rows[1.0] + n_rows[-1.0])
        step = rarity * rate * min(limit, loss / norm if norm > 0.0 else loss)
        for j in x:
            w[j] += step * sign * p[j] * x[j]
        before = set(x)
    return list(w.values())


def uncertainties_plain(x: Codes, columns: Codes) -> Floats:
    """The definition of :func:`uncertainties`."""
    return np.array([information_plain(x, column)[1] for column in columns])


def cut_plain(x: Sequence[float], n_bins: int) -> Codes:
    """The definition of :func:`fires.rivals.windows.chunks.cut`, for rows of weight 1."""
    values = [value for value in x if not math.isnan(value)]
    few = sorted(set(values))
    codes = []
    for value in x:
        if math.isnan(value):
            codes.append(-1)
        elif len(few) <= n_bins:
            codes.append(few.index(value))
        else:
            below, equal = sum(v < value for v in values), sum(v == value for v in values)
            codes.append(math.floor(n_bins * (below + equal / 2) / len(values)))
    return np.array(codes, dtype=np.int16)


def contingency_plain(x: Codes, y: Codes, given: Codes, chi2: bool) -> float:
    r"""The definition of :func:`contingency`, from observed O and expected E in each stratum.

    .. math:: G^2 = 2 \sum O \log (O / E), \qquad \chi^2 = \sum (O - E)^2 / E
    """
    there = (x >= 0) & (y >= 0) & (given >= 0).all(axis=0)
    x, y, given = x[there], y[there], given[:, there]
    total = 0.0
    for stratum in np.unique(given, axis=1).T if len(x) else []:
        here = (given == stratum[:, np.newaxis]).all(axis=0)
        table = np.zeros((x.max() + 1, y.max() + 1))
        np.add.at(table, (x[here], y[here]), 1.0)
        table = table[table.any(axis=1)][:, table.any(axis=0)]
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        if chi2:
            total += ((table - expected) ** 2 / expected).sum()
        else:
            seen = table > 0.0
            total += 2.0 * (table[seen] * np.log(table[seen] / expected[seen])).sum()
    return float(max(total, 0.0))


def least_squares_pass_plain(X: Floats, y: Floats, weights: Floats, own: Floats) -> None:
    """The definition of :func:`least_squares_pass`, for dense rows."""
    for x, value in zip(X, y, strict=True):
        error = value - (own[0] + weights @ x)
        size, limit = abs(error), LIMIT * own[1] if own[1] > 0.0 else np.inf
        own[1] = own[1] + PACE * (min(size, limit) - own[1]) if own[1] > 0.0 else size
        step = RATE * np.clip(error, -limit, limit) / (1.0 + x @ x)
        weights += step * x
        own[0] += step


def permute_plain(
    X: Floats,
    others: Floats,
    drawn: Ints,
    y: Floats,
    mass: Floats,
    coef: Floats,
    intercept: Floats,
    numeric: bool,
    rate: float,
    sums: Floats,
) -> int:
    r"""Explain every row by what the loss gains from other values, then learn from it.

    With the row x, another row :math:`\tilde x` and the loss of the scores
    :math:`a = \theta x + \theta_0`, feature j has

    .. math::
        \lambda_j = \ell(y, a + \theta_{\cdot j} (\tilde x_j - x_j)) - \ell(y, a)

    The loss is the squared error, the logistic loss of one score, or the cross-entropy of the
    softmax of several. Then :math:`\theta` takes a step of gradient descent. A step is divided by
    :math:`1 + \text{rate} \cdot h (1 + |x|^2)`, with h the greatest curvature of the loss, so that
    it never goes beyond its goal.

    Parameters
    ----------
    X : ndarray (n_rows, n_features)
        The rows.
    others : ndarray (n_stored, n_features)
        Where values are taken from.
    drawn : ndarray of int (n_rows,)
        For each row, the one of ``others`` that all its features take their values from.
    y : ndarray (n_rows,)
        Numbers; -1 and 1 for one score; codes of classes for several.
    mass : ndarray (n_rows,)
        How much each row counts.
    coef : ndarray (n_scores, n_features)
    intercept : ndarray (n_scores,)
        The model; they are changed unless the rate is 0.
    numeric : bool
        Whether the loss is the squared error.
    rate : float
        The learning rate.
    sums : ndarray (2, n_features)
        To be added to: the sums of :math:`\lambda` and of :math:`\lambda^2`.

    Returns
    -------
    int
        0.
    """
    for x, other, goal, weight in zip(X, others[drawn], y, mass, strict=True):
        scores = coef @ x + intercept
        moved = scores[:, None] + coef * (other - x)
        more = _losses(moved, goal, numeric) - _losses(scores[:, None], goal, numeric)
        sums += weight * np.array([more, more**2])
        if rate:
            if numeric:
                slope, bend = scores - goal, 1.0
            elif len(scores) == 1:
                slope, bend = -goal / (1.0 + np.exp(goal * scores)), 0.25
            else:
                slope, bend = np.exp(scores - logsumexp(scores)), 0.5
                slope[int(goal)] -= 1.0
            step = slope * rate / (1.0 + rate * bend * (1.0 + x @ x))
            coef -= np.outer(step, x)
            intercept -= step
    return 0


def top_k_plain(weights: Floats, k: int) -> Indices:
    """The definition of :func:`top_k`."""
    order = np.argsort(-np.where(np.isnan(weights), -np.inf, weights), kind="stable")
    return np.sort(order[:k])


def advance_plain(rows, before: int, b: int, line, step) -> tuple[float, float]:
    """The definition of ``assimilate.advance``, for dense rows."""
    mean, width, z = line.mean, line.width, rows.full[before]
    mean[:] = mean * step.factor + width * z * step.pull
    width *= np.maximum(1.0 - width * z * z * step.bend, assimilate.LEAST) * step.fade
    np.minimum(width, step.prior, out=width)
    z = rows.full[min(b, len(rows.full) - 1)]
    return float(mean @ z), float(width @ (z * z))


def assimilate_plain(scores):
    """The loop over dense rows in plain Python, for a family's scores."""

    def moments(a: float, v: float, y: float) -> tuple[float, float, float]:
        log_z, g, g_v = (float(np.reshape(one, ())) for one in scores(a, v, y))
        return log_z, g, max(g * g - 2.0 * g_v, 1e-300)

    look = filled_in(assimilate._look, "look", moments=moments)
    plain = {"look": look, "advance": advance_plain, "is_lazy": lambda rows: False}
    return filled_in(assimilate._assimilate, "assimilate", **plain)


def add_information_plain(
    Z: Floats,
    precision: Floats,
    value: Floats,
    weight: Floats,
    gamma: float,
    sums: Floats,
) -> Floats:
    """The definition of :func:`add_information`: the new sums, information and then pull."""
    age = np.cumsum(weight[::-1])[::-1] - weight
    rows = np.column_stack([Z, np.ones(len(Z))])
    weighted = rows * (precision * gamma**age)[:, None]
    whole = gamma ** weight.sum()
    return sums * whole + np.vstack([weighted.T @ rows, value @ weighted])


def express_plain(sums: Floats, change: Floats) -> Floats:
    """The definition of :func:`express`, for one row of parameters."""
    size, (origin, unit) = sums.shape[1] - 1, change
    T = np.diag(np.append(unit, 1.0))
    T[:-1, -1] = origin
    scale = np.append(unit, 1.0)
    brought = sums[-2:] * np.stack([scale**2, scale])
    return np.vstack([T @ sums[: size + 1] @ T.T, T @ sums[size + 1], brought])


def move_plain(
    mu: Floats,
    sigma: Floats,
    p: Floats,
    q: Floats,
    gain: Floats,
    c: Floats,
    d: Floats,
    intercept_mean: Floats,
    own_sigma: Floats,
    has_own: bool,
    rate_mu: float,
    rate_sigma: float,
    least_change: float,
    most_change: float,
) -> tuple[Floats, Floats, Floats, Floats]:
    """The definition of :func:`move`, for a step that stays finite."""
    n = len(mu)

    def grown(before: Floats, sums: Floats) -> Floats:
        return before * (1.0 + np.clip(2.0 * rate_sigma * sums, least_change, most_change))

    moved = mu + rate_mu * gain * p[:n], grown(sigma, gain**2 * q[:n])
    if not has_own:
        return *moved, intercept_mean, own_sigma
    return *moved, intercept_mean + rate_mu * c[:n].sum(axis=1), grown(own_sigma, d[:n].sum(axis=1))


def correlations_plain(x: Floats, columns: Floats) -> tuple[Floats, Ints]:
    """The definition of :func:`correlations`."""
    r, n = [], []
    for column in columns:
        both = ~np.isnan(x) & ~np.isnan(column)
        a, c = x[both], column[both]
        n.append(len(a))
        spread = len(a) > 0 and np.ptp(a) > 0.0 and np.ptp(c) > 0.0
        r.append(np.corrcoef(a, c)[0, 1] if spread else 0.0)
    return np.array(r), np.array(n, dtype=np.int64)


def partial_correlation_plain(r: Floats, i: int, j: int, given: Sequence[int]) -> float:
    r"""The definition of :func:`partial_correlation` where the correlations have an inverse.

    .. math:: r_{ij \cdot S} = -P_{ij} / \sqrt{P_{ii} P_{jj}}, \quad P = R_{(i, j, S)}^{-1}
    """
    place = [i, j, *given]
    P = np.linalg.inv(r[np.ix_(place, place)])
    return float(-P[0, 1] / np.sqrt(P[0, 0] * P[1, 1]))


def second_order_plain(
    X: Floats,
    y: Floats,
    mu: Floats,
    var: Floats,
    k: int,
    kept: int,
    rule: Rule,
    inverse: bool,
) -> tuple[Floats, Floats]:
    """The definition of :func:`second_order_rows`: means and variances after every row of X.

    With ``CONFIDENT``, a variance that is still 1 is never among the least.
    """
    for x, sign in zip(X, y, strict=True):
        pull = var * x
        margin, v = sign * (mu @ x), pull @ x
        if v == 0.0:
            continue
        if rule[0] == AROW:
            alpha, beta = max(0.0, 1.0 - margin) / (v + rule[1]), 1.0 / (v + rule[1])
        else:
            alpha, beta = scw_plain(rule, margin, v)
        if alpha <= 0.0:
            continue
        mu = mu + alpha * sign * pull
        noise = 1.0 / beta - v
        var = 1.0 / (1.0 / var + x**2 / noise) if inverse else var - beta * pull**2
        if kept == sequential.GREATEST:
            mu = truncate_plain(mu, np.abs(mu), k)
        elif kept == CONFIDENT:
            mu = truncate_plain(mu, -var, k, floor=-1.0)
    return mu, var


def scw_plain(rule: Rule, m: float, v: float) -> tuple[float, float]:
    """alpha and beta of soft confidence-weighted learning, as its authors write them."""
    kind, phi, C = rule
    if phi * math.sqrt(v) <= m:
        return 0.0, 0.0
    if kind == SCW_1:
        psi, zeta = 1.0 + phi**2 / 2.0, 1.0 + phi**2
        root = math.sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * zeta)
        alpha = min(C, max(0.0, (-m * psi + root) / (v * zeta)))
    else:
        n = v + 1.0 / (2.0 * C)
        gamma = phi * math.sqrt(phi**2 * m**2 * v**2 + 4.0 * n * v * (n + v * phi**2))
        slope = 2.0 * m * n + phi**2 * m * v
        alpha = max(0.0, (gamma - slope) / (2.0 * (n**2 + n * v * phi**2)))
    u = 0.25 * (-alpha * v * phi + math.sqrt(alpha**2 * v**2 * phi**2 + 4.0 * v)) ** 2
    return alpha, alpha * phi / (math.sqrt(u) + v * alpha * phi)


def perceptron_pass_plain(
    X: Floats, y: Floats, weights: Floats, bias: Floats
) -> tuple[Floats, Floats]:
    """The definition of :func:`perceptron_pass`, for dense rows."""
    weights, bias = weights.copy(), bias.copy()
    for x, labels in zip(X, y.T, strict=True):
        wrong = labels * (weights @ x + bias) <= 0.0
        weights[wrong] += np.outer(labels[wrong], x)
        bias[wrong] += labels[wrong]
    return weights, bias


def truncate_plain(values: Floats, key: Floats, k: int, floor: float = 0.0) -> Floats:
    """The values at the k greatest keys above ``floor``, and zeros elsewhere."""
    chosen = top_k_plain(key, k)
    chosen = chosen[key[chosen] > floor]
    out = np.zeros_like(values)
    out[chosen] = values[chosen]
    return out


def ofs_plain(X: Floats, y: Floats, w: Floats, k: int, settings: Four) -> Floats:
    """The definition of :func:`ofs_rows`: the coefficients after every row of X."""
    rate, keep, radius, threshold = settings
    for x, sign in zip(X, y, strict=True):
        if sign * (w @ x) > threshold:
            w = keep * w
            continue
        w = keep * w + rate * sign * x
        norm = np.linalg.norm(w)
        if norm > radius:
            w = w * (radius / norm)
        w = truncate_plain(w, np.abs(w), k)
    return w


def draw_plain(uniform: Floats, n_features: int) -> list[int]:
    """Draw as many different features as there are uniform numbers, by Floyd's algorithm.

    Parameters
    ----------
    uniform : ndarray (k,)
        Random numbers in [0, 1).
    n_features : int
        How many features there are.

    Returns
    -------
    list of int
    """
    chosen: list[int] = []
    for last, u in enumerate(uniform, n_features - len(uniform)):
        j = min(int(u * (last + 1)), last)
        chosen.append(last if j in chosen else j)
    return chosen


def partial_plain(X: Floats, y: Floats, draws: Floats, w: Floats, k: int, settings: Four) -> Floats:
    """The definition of :func:`partial_rows`; a row of ``draws`` holds 1 + k uniform numbers."""
    rate, explore, radius, threshold = settings
    n_features = X.shape[1]
    for x, sign, uniform in zip(X, y, draws, strict=True):
        if uniform[0] < explore or not w.any():
            seen = np.array(draw_plain(uniform[1:], n_features))
        else:
            seen = np.flatnonzero(w)
        if sign * (w[seen] @ x[seen]) > threshold:
            continue
        chance = explore * k / n_features + (1.0 - explore) * (w[seen] != 0.0)
        w = w.copy()
        w[seen] += rate * sign * x[seen] / chance
        norm = np.linalg.norm(w)
        if norm > radius:
            w *= radius / norm
        w = truncate_plain(w, np.abs(w), k)
    return w


def winnow_plain(
    X: Floats, y: Floats, u: Floats, v: Floats, settings: Four
) -> tuple[Floats, Floats]:
    """The definition of :func:`winnow_rows`; the last entries of u and v are those of the bias."""
    promotion, demotion, threshold, margin = settings
    u, v = u.copy(), v.copy()
    for features, sign in zip(X, y, strict=True):
        x = np.append(features, 1.0)
        x /= np.abs(x).sum()
        if sign * ((u - v) @ x - threshold) > margin:
            continue
        there = x != 0.0
        up, down = (u, v) if sign > 0.0 else (v, u)
        more = up[there] * promotion * (1.0 + x[there])
        less = down[there] * demotion * (1.0 - x[there])
        up[there] = np.clip(more, LEAST, GREATEST)
        down[there] = np.clip(less, LEAST, GREATEST)
    return u, v


def separated_plain(
    tests: FisherZ, place: int, most: int, alpha: float, by: int | None = None
) -> bool:
    """The definition of :meth:`FisherZ.separated`, with the same arguments."""
    others = set(range(1, len(tests.columns))) - {place}
    sets = [part for size in range(1, most + 1) for part in combinations(sorted(others), size)]
    for given in sets:
        if by is not None and by not in given:
            continue
        pairs = [place, 0, *given]
        n = tests.n[np.ix_(pairs, pairs)].min()
        r = partial_correlation(tests.r, place, 0, np.array(given, dtype=np.int64))
        if n > len(given) + 3 and abs(fisher_z(r, n, len(given))) < -ndtri(alpha / 2.0):
            return True
    return False


def rescale_plain(X, shift, gain, limit=np.inf):
    """The definition of :func:`fires.kernels.moments.rescale`."""
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(X - shift) > limit
        scaled = (X - shift) * gain
    scaled[far] = 0.0
    return np.nan_to_num(scaled, copy=False)


def widen_plain(X, weight, low, high):
    """The definition of :func:`fires.kernels.moments.widen`."""
    weighted = X[weight > 0]
    return (
        np.fmin(low, np.fmin.reduce(weighted, axis=0, initial=np.inf)),
        np.fmax(high, np.fmax.reduce(weighted, axis=0, initial=-np.inf)),
    )


def _losses(scores: Floats, y: float, numeric: bool) -> Floats:
    """The loss of every column of scores."""
    if numeric:
        losses: Floats = (scores[0] - y) ** 2
    elif len(scores) == 1:
        losses = np.logaddexp(0.0, -y * scores[0])
    else:
        losses = logsumexp(scores, axis=0) - scores[int(y)]
    return losses


def symmetrical_uncertainty(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    r"""How much two columns of categories tell about each other, from 0 to 1.

    .. math:: SU(a, b) = 2 \, \frac{H(a) + H(b) - H(a, b)}{H(a) + H(b)}

    with the entropies H; 0 if both are constant.
    """
    codes = as_codes(np.asarray(a), "a"), as_codes(np.asarray(b), "b")
    return float(uncertainties(codes[0], codes[1][np.newaxis])[0])


def normal_scores_plain(Z, knots):
    """The definition of normal scores in :mod:`fires.kernels.screen`: lines between quantiles."""
    gap, last = KNOTS[1] - KNOTS[0], len(KNOTS) - 2
    scores = np.full(Z.shape, KNOTS[0])
    for k in range(last + 1):
        step = gap * (Z - knots[k]) / np.maximum(knots[k + 1] - knots[k], 1e-9)
        scores += np.clip(step, 0.0 if k else -np.inf, gap if k < last else np.inf)
    return np.clip(scores, -REACH, REACH)


def cosines_plain(scores):
    """The cosines of normal scores less their means, as the first axis."""
    turns = np.pi / (2.0 * REACH) * ORDERS[:, None, None]
    return np.cos(turns * (scores + REACH)) - MEANS[:, None, None]


def screen_rows_plain(Z, slope, knots):
    """The definition of the sums of :func:`fires.kernels.screen.screen_rows`."""
    functions = np.concatenate([Z[None], cosines_plain(normal_scores_plain(Z, knots))])
    said = slope[:, None, :, None] * functions
    return said.sum(axis=2), (said**2).sum(axis=2), (said[:, 1:] * said[:, :1]).sum(axis=2)
