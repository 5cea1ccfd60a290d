"""Are two columns related, given others? Fisher's z for numbers, G² and chi² for categories.

A missing entry takes no part. It is NaN in numbers, and the code -1 in categories. Two columns are
compared on the rows in which both are there; a test given other columns combines such pairs for
numbers, and uses the rows in which all are there for categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, gammaln, log_ndtr, ndtri

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Codes = npt.NDArray[np.int16]
Ints = npt.NDArray[np.int64]

MOST_LEVELS = 256
_NO_SPREAD = 1e-30  # of a variance in columns that lie in [-1, 1]: what rounding leaves
_NO_REST = 1e-12  # of the share of a variance that other columns do not explain
_NEARLY_ONE = 1.0 - 2.0**-53


# --- numbers ------------------------------------------------------------------------------------


def correlations(x: Floats, columns: Floats) -> tuple[Floats, Ints]:
    r"""Pearson's r of a column with each of several others, and the rows it rests on.

    Where one of the two does not vary, r is 0.

    Examples
    --------
    >>> x = np.array([0.0, 0.5, 1.0, np.nan])
    >>> r, n = correlations(x, np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]))
    >>> r, n
    (array([-1.,  0.]), array([3, 3]))
    """
    r, n = np.zeros(len(columns)), np.zeros(len(columns), dtype=np.int64)
    _correlate(x, columns, r, n)
    return r, n


@compiled
def _correlate(x: Floats, columns: Floats, r: Floats, n: Ints) -> None:
    for i in range(len(columns)):
        c = columns[i]
        count, sum_x, sum_c = 0, 0.0, 0.0
        for b in range(len(x)):
            if x[b] == x[b] and c[b] == c[b]:
                count += 1
                sum_x += x[b]
                sum_c += c[b]
        n[i], r[i] = count, 0.0
        if count == 0:
            continue
        mean_x, mean_c = sum_x / count, sum_c / count
        xx, cc, xc = 0.0, 0.0, 0.0
        for b in range(len(x)):
            if x[b] == x[b] and c[b] == c[b]:
                xx += (x[b] - mean_x) ** 2
                cc += (c[b] - mean_c) ** 2
                xc += (x[b] - mean_x) * (c[b] - mean_c)
        if xx > count * _NO_SPREAD and cc > count * _NO_SPREAD:
            r[i] = min(1.0, max(-1.0, xc / np.sqrt(xx * cc)))


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


def fisher_z(r: Any, n: Any, n_given: int = 0) -> Any:
    r"""Fisher's statistic of a (partial) correlation, standard normal if there is none.

    .. math:: W = \sqrt{n - |S| - 3} \; \operatorname{atanh} r_{xy \cdot S}

    0 where the rows do not suffice for a test.

    Examples
    --------
    >>> round(float(fisher_z(0.5, 30)), 6)
    2.854278
    """
    r = np.clip(r, -_NEARLY_ONE, _NEARLY_ONE)
    return np.sqrt(np.maximum(np.asarray(n) - n_given - 3.0, 0.0)) * np.arctanh(r)


def surprise_of_z(W: Any) -> Any:
    r"""How unlikely: :math:`-\log 2 (1 - \Phi(|W|))`, which does not underflow as p does.

    Examples
    --------
    >>> round(float(np.exp(-surprise_of_z(1.959964))), 6)
    0.05
    """
    return np.maximum(-np.log(2.0) - log_ndtr(-np.abs(W)), 0.0)


@compiled
def partial_correlation(r: Floats, i: int, j: int, given: Ints) -> float:
    """The correlation of two columns given others, from the correlations of all pairs.

    What the given columns explain is eliminated one by one; where nothing is left of one of the
    two there is no correlation left either, and a given column that the others explain adds
    nothing.
    """
    m = len(given)
    place = np.empty(m + 2, dtype=np.int64)
    place[:m] = given
    place[m], place[m + 1] = i, j
    rest = np.empty((m + 2, m + 2))
    for a in range(m + 2):
        for b in range(m + 2):
            rest[a, b] = r[place[a], place[b]]
    for p in range(m):
        if rest[p, p] <= _NO_REST:
            continue
        for a in range(p + 1, m + 2):
            share = rest[a, p] / rest[p, p]
            for b in range(p + 1, m + 2):
                rest[a, b] -= share * rest[p, b]
    if rest[m, m] <= _NO_REST or rest[m + 1, m + 1] <= _NO_REST:
        return 0.0
    value: float = rest[m, m + 1] / np.sqrt(rest[m, m] * rest[m + 1, m + 1])
    return min(1.0, max(-1.0, value))


def partial_correlation_plain(r: Floats, i: int, j: int, given: Sequence[int]) -> float:
    r"""The definition of :func:`partial_correlation` where the correlations have an inverse.

    .. math:: r_{ij \cdot S} = -P_{ij} / \sqrt{P_{ii} P_{jj}}, \quad P = R_{(i, j, S)}^{-1}
    """
    place = [i, j, *given]
    P = np.linalg.inv(r[np.ix_(place, place)])
    return float(-P[0, 1] / np.sqrt(P[0, 0] * P[1, 1]))


@dataclass(frozen=True, eq=False)
class FisherZ:
    """Tests of columns of numbers against a target, given some of the other columns.

    Parameters
    ----------
    columns : ndarray (1 + n_columns, n_samples)
        The target first; all within [-1, 1].
    r, n : ndarray (1 + n_columns, 1 + n_columns)
        The correlation of each pair, and the rows it rests on.
    """

    columns: Floats
    r: Floats
    n: Ints

    @classmethod
    def of(cls, target: Floats) -> Self:
        """Nothing but the target."""
        there = int((~np.isnan(target)).sum())
        return cls(target[np.newaxis], np.ones((1, 1)), np.full((1, 1), there, dtype=np.int64))

    def relevance(self, x: Floats) -> float:
        """How surprising the column's correlation with the target is: -log p."""
        r, n = correlations(x, self.columns[:1])
        return float(surprise_of_z(fisher_z(r[0], n[0])))

    def plus(self, x: Floats) -> Self:
        """With one more column."""
        r, n = correlations(x, self.columns)
        there = int((~np.isnan(x)).sum())
        return type(self)(
            np.vstack([self.columns, x]),
            np.block([[self.r, r[:, np.newaxis]], [r, np.ones(1)]]),
            np.block([[self.n, n[:, np.newaxis]], [n, np.array([there])]]),
        )

    def without(self, place: int) -> Self:
        """Without a column."""
        keep = np.delete(np.arange(len(self.columns)), place)
        pairs = np.ix_(keep, keep)
        return type(self)(self.columns[keep], self.r[pairs], self.n[pairs])

    def separated(self, place: int, most: int, alpha: float, by: int | None = None) -> bool:
        """Whether up to ``most`` other columns make this one independent of the target.

        With ``by``, only sets that hold that column are tried.
        """
        others = _others(len(self.columns), place, by)
        fixed = np.array([] if by is None else [by], dtype=np.int64)
        bound = float(-ndtri(alpha / 2.0))
        return bool(_some_set_separates(self.r, self.n, place, fixed, others, most, bound))

    def separated_plain(self, place: int, most: int, alpha: float, by: int | None = None) -> bool:
        """The definition of :meth:`separated`."""
        for given in _sets(len(self.columns), place, most, by):
            pairs = [place, 0, *given]
            n = self.n[np.ix_(pairs, pairs)].min()
            r = partial_correlation(self.r, place, 0, np.array(given, dtype=np.int64))
            if n > len(given) + 3 and abs(fisher_z(r, n, len(given))) < -ndtri(alpha / 2.0):
                return True
        return False


def _others(n_columns: int, place: int, by: int | None) -> Ints:
    return np.array([i for i in range(1, n_columns) if i not in (place, by)], dtype=np.int64)


def _sets(n_columns: int, place: int, most: int, by: int | None) -> Iterator[tuple[int, ...]]:
    """The sets of up to ``most`` columns, small ones first, neither empty nor with the target."""
    fixed = () if by is None else (by,)
    for size in range(1, most + 1):
        for part in combinations(_others(n_columns, place, by), size - len(fixed)):
            yield (*fixed, *part)


@compiled
def _some_set_separates(
    r: Floats, n: Ints, place: int, fixed: Ints, others: Ints, most: int, bound: float
) -> bool:
    for size in range(1, most + 1):
        free = size - len(fixed)
        if free > len(others):
            break
        given = np.empty(size, dtype=np.int64)
        given[: len(fixed)] = fixed
        choice = np.arange(free)
        while True:
            for t in range(free):
                given[len(fixed) + t] = others[choice[t]]
            rows = n[place, 0]
            for a in range(size):
                rows = min(rows, n[given[a], place], n[given[a], 0])
                for b in range(a):
                    rows = min(rows, n[given[a], given[b]])
            if rows > size + 3:  # or else there is no test, and nothing is shown
                value = abs(partial_correlation(r, place, 0, given))
                W = np.sqrt(rows - size - 3.0) * np.arctanh(min(value, _NEARLY_ONE))
                if bound > W:
                    return True
            # The next choice in order: the last place that can still move does, the rest follow.
            t = free - 1
            while t >= 0 and choice[t] == len(others) - free + t:
                t -= 1
            if t < 0:
                break
            choice[t] += 1
            for u in range(t + 1, free):
                choice[u] = choice[u - 1] + 1
    return False


# --- categories ---------------------------------------------------------------------------------


def as_codes(x: npt.NDArray[Any], what: str) -> Codes:
    """A column of categories as codes from 0, with -1 for missing entries.

    Examples
    --------
    >>> as_codes(np.array([7.0, 2.5, np.nan, 7.0]), "column 0")
    array([ 1,  0, -1,  1], dtype=int16)
    """
    there = ~np.isnan(x)
    levels, places = np.unique(x[there], return_inverse=True)
    if len(levels) > min(MOST_LEVELS, max(20, len(x) // 2)):
        raise ValueError(
            f"{what} has {len(levels)} different values in {len(x)} rows: this measure is for "
            "categories, so cut numbers into a few intervals first."
        )
    codes = np.full(len(x), -1, dtype=np.int16)
    codes[there] = places
    return codes


def symmetrical_uncertainty(a: npt.ArrayLike, b: npt.ArrayLike) -> float:
    r"""How much two columns of categories tell of one another, from 0 to 1.

    .. math:: SU(a, b) = 2 \, \frac{H(a) + H(b) - H(a, b)}{H(a) + H(b)}

    with the entropies H; 0 if both are constant.

    Examples
    --------
    >>> round(symmetrical_uncertainty([0, 0, 1, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0, 1, 1]), 6)
    0.188722
    """
    codes = as_codes(np.asarray(a), "a"), as_codes(np.asarray(b), "b")
    return float(uncertainties(codes[0], codes[1][np.newaxis])[0])


def uncertainties(x: Codes, columns: Codes) -> Floats:
    """The symmetrical uncertainty of a column of codes with each of several others."""
    out = np.zeros(len(columns))
    _uncertainties(x, columns, out)
    return out


@compiled
def _uncertainties(x: Codes, columns: Codes, out: Floats) -> None:
    levels_x = x.max() + 1
    for i in range(len(columns)):
        c = columns[i]
        levels_c = c.max() + 1
        count = 0
        of_x, of_c = np.zeros(levels_x), np.zeros(levels_c)
        cells = np.zeros((levels_x, levels_c))
        for b in range(len(x)):
            if x[b] >= 0 and c[b] >= 0:
                count += 1
                of_x[x[b]] += 1.0
                of_c[c[b]] += 1.0
                cells[x[b], c[b]] += 1.0
        # Of H = log n - (1/n) sum k log k, the sums.
        sum_x, sum_c, sum_both = 0.0, 0.0, 0.0
        for u in range(levels_x):
            sum_x += of_x[u] * np.log(of_x[u]) if of_x[u] > 1.0 else 0.0
            for v in range(levels_c):
                sum_both += cells[u, v] * np.log(cells[u, v]) if cells[u, v] > 1.0 else 0.0
        for v in range(levels_c):
            sum_c += of_c[v] * np.log(of_c[v]) if of_c[v] > 1.0 else 0.0
        whole = count * np.log(count) if count > 1 else 0.0
        single = 2.0 * whole - sum_x - sum_c
        if single > 1e-12 * whole:
            share = 2.0 * (whole - sum_x - sum_c + sum_both) / single
            out[i] = min(1.0, max(0.0, share))


def uncertainties_plain(x: Codes, columns: Codes) -> Floats:
    """The definition of :func:`uncertainties`."""

    def entropy(*parts: Codes) -> float:
        _, counts = np.unique(np.stack(parts), axis=1, return_counts=True)
        p = counts / counts.sum()
        return float(-(p * np.log(p)).sum())

    out = []
    for column in columns:
        both = (x >= 0) & (column >= 0)
        a, c = x[both], column[both]
        single = entropy(a) + entropy(c)
        out.append(2.0 * (single - entropy(a, c)) / single if single > 0.0 else 0.0)
    return np.array(out)


def surprise_of_chi2(statistic: float, freedom: float) -> float:
    r"""How unlikely: -log of the upper tail of the chi² distribution.

    Examples
    --------
    >>> round(float(np.exp(-surprise_of_chi2(3.841459, 1))), 6)
    0.05
    >>> bool(surprise_of_chi2(2001.0, 2.0) > surprise_of_chi2(2000.0, 2.0))
    True
    """
    if freedom <= 0:
        return 0.0
    tail = chdtrc(freedom, statistic)
    if tail > 1e-290:
        return float(max(-np.log(tail), 0.0))
    a, x = freedom / 2.0, statistic / 2.0  # where the tail underflows, its leading term
    return float(x + gammaln(a) - (a - 1.0) * np.log(x))


@compiled
def contingency(x: Codes, y: Codes, given: Codes, chi2: bool) -> float:
    """The G² or chi² statistic of two columns of codes, summed over the strata of others."""
    n = len(x)
    stratum, n_strata = np.zeros(n, dtype=np.int64), 1
    for b in range(n):
        if x[b] < 0 or y[b] < 0:
            stratum[b] = -1
    for g in given:
        # Only combinations that occur get a number: there are never more strata than rows.
        levels = g.max() + 1
        number = np.full(n_strata * levels, -1, dtype=np.int64)
        n_strata = 0
        for b in range(n):
            if stratum[b] >= 0 and g[b] >= 0:
                at = stratum[b] * levels + g[b]
                if number[at] < 0:
                    number[at] = n_strata
                    n_strata += 1
                stratum[b] = number[at]
            else:
                stratum[b] = -1
    ends = np.zeros(n_strata + 1, dtype=np.int64)
    for b in range(n):
        if stratum[b] >= 0:
            ends[stratum[b] + 1] += 1
    for s in range(n_strata):
        ends[s + 1] += ends[s]
    rows, at_row = np.empty(n, dtype=np.int64), ends[:-1].copy()
    for b in range(n):
        if stratum[b] >= 0:
            rows[at_row[stratum[b]]] = b
            at_row[stratum[b]] += 1
    of_x, of_y = np.zeros(x.max() + 1), np.zeros(y.max() + 1)
    cells = np.zeros((x.max() + 1, y.max() + 1))
    total = 0.0
    for s in range(n_strata):
        here = rows[ends[s] : ends[s + 1]]
        for b in here:
            of_x[x[b]] += 1.0
            of_y[y[b]] += 1.0
            cells[x[b], y[b]] += 1.0
        for b in here:
            seen = cells[x[b], y[b]]
            if seen > 0.0:  # each cell once
                expected = of_x[x[b]] * of_y[y[b]] / len(here)
                total += seen * seen / expected if chi2 else 2.0 * seen * np.log(seen / expected)
                cells[x[b], y[b]] = 0.0
        total -= len(here) if chi2 else 0.0
        for b in here:
            of_x[x[b]], of_y[y[b]] = 0.0, 0.0
    return max(total, 0.0)


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


@dataclass(frozen=True, eq=False)
class Contingency:
    r"""Tests of columns of categories against a target, given some of the other columns.

    The statistic is compared with a chi² distribution of
    :math:`(|x| - 1)(|y| - 1) \prod_S |s|` degrees of freedom, where :math:`|x|` is the number of
    different values of a column.

    Parameters
    ----------
    columns : ndarray of int16 (1 + n_columns, n_samples)
        Codes, the target's first.
    chi2 : bool
        chi² in place of G².
    """

    columns: Codes
    chi2: bool

    def relevance(self, x: Codes) -> float:
        """How surprising the column's relation with the target is: -log p."""
        return self._surprise(x, self.columns[:0])

    def plus(self, x: Codes) -> Self:
        """With one more column."""
        return type(self)(np.vstack([self.columns, x]), self.chi2)

    def without(self, place: int) -> Self:
        """Without a column."""
        return type(self)(np.delete(self.columns, place, axis=0), self.chi2)

    def separated(self, place: int, most: int, alpha: float, by: int | None = None) -> bool:
        """Whether up to ``most`` other columns make this one independent of the target.

        With ``by``, only sets that hold that column are tried.
        """
        return any(
            self._surprise(self.columns[place], self.columns[list(given)]) < -np.log(alpha)
            for given in _sets(len(self.columns), place, most, by)
        )

    def _surprise(self, x: Codes, given: Codes) -> float:
        y = self.columns[0]
        levels = [float(codes.max()) + 1.0 for codes in (x, y, *given)]
        freedom = (levels[0] - 1.0) * (levels[1] - 1.0) * np.prod(levels[2:])
        return surprise_of_chi2(contingency(x, y, given, self.chi2), float(freedom))
