"""The two loops of every linear model: ``project`` and ``accumulate``, over dense and CSR rows.

Missing entries (NaN) count as zeros; sums are in float64. The loops are limited by memory, so
four rows at a time share what is loaded for a column. Slices are taken before the innermost loops:
then no index has to be tested for being negative, and the loops vectorise. ``tests/naive.py`` has
the definitions in NumPy that the tests compare the loops with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from fires.core.batch import row_major
from fires.core.types import Floats, Matrix
from fires.kernels.compiling import compiled, inner, read_only
from fires.kernels.moments import CLIP

Dense: TypeAlias = npt.NDArray[np.floating]
Ints: TypeAlias = npt.NDArray[np.signedinteger]
Kernel: TypeAlias = Callable[..., None]
# Data, indices and indptr: a named tuple would take longer to pass.
Csr: TypeAlias = tuple[Floats, Ints, Ints]

_TILE = 512  # columns whose sums stay in the fastest cache
NO_COLUMNS = np.zeros(0, dtype=np.int64)


@compiled
def project_rows(X: Floats, mu: Floats, var: Floats, a: Floats, v: Floats) -> None:
    """``a[k] = X mu[k]`` and ``v[k] = (X∘X) var[k]`` for C-ordered X."""
    n_rows, n_columns = X.shape
    whole = n_rows - n_rows % 4
    for b in range(0, whole, 4):
        x0, x1, x2, x3 = X[b], X[b + 1], X[b + 2], X[b + 3]
        for k in range(mu.shape[0]):
            m, w = mu[k], var[k]
            a0 = a1 = a2 = a3 = 0.0
            v0 = v1 = v2 = v3 = 0.0
            for j in range(n_columns):
                t0, t1, t2, t3 = x0[j], x1[j], x2[j], x3[j]
                t0 = t0 if t0 == t0 else 0.0
                t1 = t1 if t1 == t1 else 0.0
                t2 = t2 if t2 == t2 else 0.0
                t3 = t3 if t3 == t3 else 0.0
                a0 += m[j] * t0
                a1 += m[j] * t1
                a2 += m[j] * t2
                a3 += m[j] * t3
                v0 += w[j] * t0 * t0
                v1 += w[j] * t1 * t1
                v2 += w[j] * t2 * t2
                v3 += w[j] * t3 * t3
            a[k, b], a[k, b + 1], a[k, b + 2], a[k, b + 3] = a0, a1, a2, a3
            v[k, b], v[k, b + 1], v[k, b + 2], v[k, b + 3] = v0, v1, v2, v3
    for b in range(whole, n_rows):
        x0 = X[b]
        for k in range(mu.shape[0]):
            m, w = mu[k], var[k]
            a0 = v0 = 0.0
            for j in range(n_columns):
                t0 = x0[j]
                t0 = t0 if t0 == t0 else 0.0
                a0 += m[j] * t0
                v0 += w[j] * t0 * t0
            a[k, b], v[k, b] = a0, v0


@compiled
def accumulate_rows(X: Floats, c: Floats, d: Floats, p: Floats, q: Floats) -> None:
    """``p[k] = X'c[k]`` and ``q[k] = (X∘X)'d[k]`` for C-ordered X."""
    n_rows, n_columns = X.shape
    whole = n_rows - n_rows % 4
    for start in range(0, n_columns, _TILE):
        stop = min(start + _TILE, n_columns)
        p[:, start:stop] = 0.0
        q[:, start:stop] = 0.0
        for b in range(0, whole, 4):
            x0, x1 = X[b, start:stop], X[b + 1, start:stop]
            x2, x3 = X[b + 2, start:stop], X[b + 3, start:stop]
            pairs = c.shape[0] - c.shape[0] % 2
            for k in range(0, pairs, 2):  # two at a time share the work on x
                pk, qk = p[k, start:stop], q[k, start:stop]
                c0, c1, c2, c3 = c[k, b], c[k, b + 1], c[k, b + 2], c[k, b + 3]
                d0, d1, d2, d3 = d[k, b], d[k, b + 1], d[k, b + 2], d[k, b + 3]
                pl, ql = p[k + 1, start:stop], q[k + 1, start:stop]
                e0, e1, e2, e3 = c[k + 1, b], c[k + 1, b + 1], c[k + 1, b + 2], c[k + 1, b + 3]
                f0, f1, f2, f3 = d[k + 1, b], d[k + 1, b + 1], d[k + 1, b + 2], d[k + 1, b + 3]
                for j in range(stop - start):
                    t0, t1, t2, t3 = x0[j], x1[j], x2[j], x3[j]
                    t0 = t0 if t0 == t0 else 0.0
                    t1 = t1 if t1 == t1 else 0.0
                    t2 = t2 if t2 == t2 else 0.0
                    t3 = t3 if t3 == t3 else 0.0
                    pk[j] += c0 * t0 + c1 * t1 + c2 * t2 + c3 * t3
                    qk[j] += d0 * t0 * t0 + d1 * t1 * t1 + d2 * t2 * t2 + d3 * t3 * t3
                    pl[j] += e0 * t0 + e1 * t1 + e2 * t2 + e3 * t3
                    ql[j] += f0 * t0 * t0 + f1 * t1 * t1 + f2 * t2 * t2 + f3 * t3 * t3
            for k in range(pairs, c.shape[0]):
                pk, qk = p[k, start:stop], q[k, start:stop]
                c0, c1, c2, c3 = c[k, b], c[k, b + 1], c[k, b + 2], c[k, b + 3]
                d0, d1, d2, d3 = d[k, b], d[k, b + 1], d[k, b + 2], d[k, b + 3]
                for j in range(stop - start):
                    t0, t1, t2, t3 = x0[j], x1[j], x2[j], x3[j]
                    t0 = t0 if t0 == t0 else 0.0
                    t1 = t1 if t1 == t1 else 0.0
                    t2 = t2 if t2 == t2 else 0.0
                    t3 = t3 if t3 == t3 else 0.0
                    pk[j] += c0 * t0 + c1 * t1 + c2 * t2 + c3 * t3
                    qk[j] += d0 * t0 * t0 + d1 * t1 * t1 + d2 * t2 * t2 + d3 * t3 * t3
        for b in range(whole, n_rows):
            x0 = X[b, start:stop]
            for k in range(c.shape[0]):
                pk, qk, c0, d0 = p[k, start:stop], q[k, start:stop], c[k, b], d[k, b]
                for j in range(stop - start):
                    t0 = x0[j]
                    t0 = t0 if t0 == t0 else 0.0
                    pk[j] += c0 * t0
                    qk[j] += d0 * t0 * t0


@compiled
def project_columns(XT: Floats, mu: Floats, var: Floats, a: Floats, v: Floats) -> None:
    """As :func:`project_rows`, from the C-ordered transpose of a Fortran-ordered X."""
    n_columns, n_rows = XT.shape
    for k in range(mu.shape[0]):
        ak, vk = a[k], v[k]
        ak[:] = 0.0
        vk[:] = 0.0
        for j in range(n_columns):
            x, m, w = XT[j], mu[k, j], var[k, j]
            for b in range(n_rows):
                t = x[b]
                t = t if t == t else 0.0
                ak[b] += m * t
                vk[b] += w * t * t


@compiled
def accumulate_columns(XT: Floats, c: Floats, d: Floats, p: Floats, q: Floats) -> None:
    """As :func:`accumulate_rows`, from the C-ordered transpose of a Fortran-ordered X."""
    n_columns, n_rows = XT.shape
    for j in range(n_columns):
        x = XT[j]
        for k in range(c.shape[0]):
            ck, dk = c[k], d[k]
            p0 = q0 = 0.0
            for b in range(n_rows):
                t = x[b]
                t = t if t == t else 0.0
                p0 += ck[b] * t
                q0 += dk[b] * t * t
            p[k, j], q[k, j] = p0, q0


@compiled
def project_csr(
    data: Floats, indices: Ints, indptr: Ints, mu: Floats, var: Floats, a: Floats, v: Floats
) -> None:
    """``a[k] = X mu[k]`` and ``v[k] = (X∘X) var[k]``."""
    for b in range(len(indptr) - 1):
        for k in range(mu.shape[0]):
            m, w = mu[k], var[k]
            a0 = v0 = 0.0
            for i in range(indptr[b], indptr[b + 1]):
                x = float(data[i])
                x = x if x == x else 0.0
                a0 += m[indices[i]] * x
                v0 += w[indices[i]] * x * x
            a[k, b], v[k, b] = a0, v0


@compiled
def accumulate_csr(
    data: Floats, indices: Ints, indptr: Ints, c: Floats, d: Floats, p: Floats, q: Floats
) -> None:
    """``p[k] += X'c[k]`` and ``q[k] += (X∘X)'d[k]``."""
    for b in range(len(indptr) - 1):
        for k in range(c.shape[0]):
            pk, qk, c0, d0 = p[k], q[k], c[k, b], d[k, b]
            for i in range(indptr[b], indptr[b + 1]):
                x = float(data[i])
                x = x if x == x else 0.0
                pk[indices[i]] += c0 * x
                qk[indices[i]] += d0 * x * x


def touched_columns(indices: Ints, local: Ints, width: int, more: Ints | None = None) -> Ints:
    """The columns that have entries in order of first occurrence; with more ones, sorted.

    X has ``width`` columns. ``local`` gets, for each entry, the index of its column in the result.
    """
    if more is None:
        size, wide = 2 << len(indices).bit_length(), 1 << (width - 1).bit_length()
        # A table not much wider than that of the hashes has a place for each column.
        hashes = wide > 4 * size
        table = np.full(size if hashes else wide, -1, np.int32)
        return _number_by_table(*read_only(indices), local, table, hashes)
    # Sorted together with the places of their entries: that needs no table as wide as X, either.
    keys = np.concatenate([indices, more]).astype(np.int64)
    keys <<= 32
    keys |= np.arange(len(keys))
    keys.sort()
    return _number(keys, local)


@compiled
def _number_by_table(indices: Ints, local: Ints, table: Ints, hashes: bool) -> Ints:
    columns, n, mask = np.empty(len(indices), np.int64), 0, len(table) - 1
    factor, shift = (0x9E3779B1, 7) if hashes else (1, 0)
    for i in range(len(indices)):
        column = np.int64(indices[i])
        at = ((column * factor) >> shift) & mask
        while table[at] >= 0 and columns[table[at]] != column:
            at = (at + 1) & mask
        if table[at] < 0:
            table[at], columns[n] = n, column
            n += 1
        local[i] = table[at]
    return columns[:n].copy()


@compiled
def _number(keys: Ints, local: Ints) -> Ints:
    columns, n, before = np.empty_like(keys), 0, np.int64(-1)
    for i in range(len(keys)):
        column, entry = keys[i] >> 32, keys[i] & 0xFFFFFFFF
        if column != before:
            columns[n] = before = column
            n += 1
        if entry < len(local):
            local[entry] = n - 1
    return columns[:n].copy()


# What is known of a sparse column: weighted sums, of squares, of all entries, of missing ones.
SUMS, SQUARES, ENTRIES, ABSENT = range(4)


@compiled
def show_csr(rows: Csr, weight: Floats, shown: Floats) -> None:
    """Add what the entries show of each column."""
    data, local, indptr = rows
    for b in range(len(indptr) - 1):
        w = weight[b]
        for i in range(indptr[b], indptr[b + 1]):
            one, x = shown[local[i]], float(data[i])
            one[ENTRIES] += w
            if x == x:
                one[SUMS] += w * x
                one[SQUARES] += w * x * x
            else:
                one[ABSENT] += w


@compiled
def add_shown(known: Floats, columns: Ints, shown: Floats, least: float) -> Ints:
    """Add what a batch has shown of columns; those that have so many entries at least."""
    many, n = np.empty_like(columns), 0
    for i in range(len(columns)):
        one, more = known[columns[i]], shown[i]
        for k in range(4):
            one[k] += more[k]
        if one[ENTRIES] >= least:
            many[n] = columns[i]
            n += 1
    return many[:n].copy()


@compiled
def gains(known: Floats, columns: Ints, count: float) -> Floats:
    """One over the standard deviation of columns; 0 for those never seen."""
    found = np.empty(len(columns))
    for i in range(len(columns)):
        one = known[columns[i]]
        n = max(count - one[ABSENT], 1.0)
        mean = one[SUMS] / n
        variance = one[SQUARES] / n - mean * mean
        # A column of ones has no variance, but is full by then; this one has had a single row.
        found[i] = 1.0 / math.sqrt(variance) if variance > 1e-300 else 0.0
    return found


@compiled
def scale_csr(rows: Csr, place: Ints, gain: Floats, full: Floats, rare: Csr) -> int:
    """Take full columns into a block, by the place of each column there, below 0 for the others.

    Entries of the others are multiplied by a gain and clipped; missing ones become 0. Returns how
    many there are.
    """
    (data, local, indptr), (scaled, indices, starts) = rows, rare
    n = 0
    for b in range(len(indptr) - 1):
        for i in range(indptr[b], indptr[b + 1]):
            j, x = local[i], float(data[i])
            if place[j] >= 0:
                full[b, place[j]] = x
            else:
                x *= gain[j]
                scaled[n], indices[n] = min(max(x, -CLIP), CLIP) if x == x else 0.0, j
                n += 1
        starts[b + 1] = n
    return n


def project(X: Matrix, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
    r"""Mean and variance of ``theta.x`` for every row of a batch.

    .. math::
        a_b = \sum_j \mu_j x_{bj}, \qquad v_b = \sum_j \sigma_j^2 x_{bj}^2

    so that :math:`\theta^\top x_b \sim \mathcal{N}(a_b, v_b)`. A missing entry (NaN) counts as 0.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [0.0, np.nan]])
    >>> project(X, mu=np.array([0.5, 1.0]), var=np.array([1.0, 4.0]))
    (array([2.5, 0. ]), array([17.,  0.]))
    """
    mu2, var2 = np.atleast_2d(mu), np.atleast_2d(var)
    a, v = np.empty((2, len(mu2), X.shape[0]))
    if isinstance(X, np.ndarray):
        view, project_into, _ = oriented(X)
        project_into(view, mu2, var2, a, v)
    else:
        project_csr(*read_only(X.data, X.indices, X.indptr), mu2, var2, a, v)
    return (a, v) if mu.ndim == 2 else (a[0], v[0])


def accumulate(X: Matrix, c: Floats, d: Floats) -> tuple[Floats, Floats]:
    r"""Weighted sums of the rows of a batch, and of their squares, for every feature.

    .. math::
        p_j = \sum_b c_b x_{bj}, \qquad q_j = \sum_b d_b x_{bj}^2

    The transpose of :func:`project`, with the same rules for ``X``.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [0.0, np.nan]])
    >>> accumulate(X, c=np.array([0.5, 1.0]), d=np.array([1.0, 1.0]))
    (array([0.5, 1. ]), array([1., 4.]))
    """
    c2, d2 = np.atleast_2d(c), np.atleast_2d(d)
    p, q = np.zeros((2, len(c2), X.shape[1]))
    if isinstance(X, np.ndarray):
        view, _, accumulate_into = oriented(X)
        accumulate_into(view, c2, d2, p, q)
    else:
        accumulate_csr(*read_only(X.data, X.indices, X.indptr), c2, d2, p, q)
    return (p, q) if c.ndim == 2 else (p[0], q[0])


def oriented(X: Dense) -> tuple[Dense, Kernel, Kernel]:
    """The compiled pair that fits the memory order of a dense X, and the view it reads."""
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        (view,) = read_only(X.T)
        return view, project_columns, accumulate_columns
    return row_major(X), project_rows, accumulate_rows


# --- rows on their scale -----------------------------------------------------------------------


class DenseRows(NamedTuple):
    """Scaled rows, C-ordered; as :class:`MixedRows` where every column is full."""

    full: Floats

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of predictions, without an intercept."""
        return project(self.full, mu, var)

    def accumulate(self, c: Floats, d: Floats) -> tuple[None, Floats, Floats]:
        """The columns, None for all, and the sums of rows times c, of squared rows times d."""
        return None, *accumulate(self.full, c, d)

    def take(self, columns: Ints) -> Floats:
        """Some columns as a dense array."""
        return np.ascontiguousarray(self.full[:, columns])


class MixedRows(NamedTuple):
    """Scaled rows: the full columns as a dense block, the entries of the others as CSR.

    Columns are numbered by their place among the touched ones, so that what is known of these can
    be worked on side by side.
    """

    full: Floats
    columns: Ints
    data: Floats
    indices: Ints
    indptr: Ints
    touched: Ints  # sorted: those with entries, and the full ones

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """See :class:`DenseRows`."""
        mu, var = mu.take(self.touched, axis=1), var.take(self.touched, axis=1)
        a, v = np.empty((2, len(mu), len(self.full)))
        project_csr(*read_only(*self[2:5]), mu, var, a, v)
        full, columns = self.full, self.columns
        return a + mu[:, columns] @ full.T, v + var[:, columns] @ (full * full).T

    def accumulate(self, c: Floats, d: Floats) -> tuple[Ints, Floats, Floats]:
        """See :class:`DenseRows`; of the touched columns."""
        p, q = np.zeros((2, len(c), len(self.touched)))
        accumulate_csr(*read_only(*self[2:5]), c, d, p, q)
        p[:, self.columns] = c @ self.full
        q[:, self.columns] = d @ (self.full * self.full)
        return self.touched, p, q

    def take(self, columns: Ints) -> Floats:
        """See :class:`DenseRows`."""
        rows, wanted = np.zeros((len(self.full), len(columns))), np.full(len(self.touched), -1)
        place, here = find_places(self.touched, columns)
        wanted[place[here]] = np.flatnonzero(here)
        place = wanted[self.columns]
        rows[:, place[place >= 0]] = self.full[:, place >= 0]
        place = wanted[self.indices]
        (entries,) = np.nonzero(place >= 0)
        row = np.searchsorted(self.indptr, entries, side="right") - 1
        rows[row, place[entries]] = self.data[entries]
        return rows


def find_places(columns: Ints, wanted: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Where each wanted column is among sorted columns, and whether it is there."""
    if not len(columns):
        return np.zeros(np.shape(wanted), dtype=np.intp), np.zeros(np.shape(wanted), dtype=np.bool_)
    place = np.searchsorted(columns, wanted).clip(max=len(columns) - 1)
    return place, columns[place] == wanted


Rows: TypeAlias = Floats | Csr


def as_rows(X: Matrix, values: Floats | None = None) -> Rows:
    """A dense array or a CSR matrix as loops are compiled for; with other values, if given."""
    if isinstance(X, np.ndarray):
        return row_major(X if values is None else values)
    X = X.tocsr()  # itself, if it is CSR
    places = (part.astype(np.int64, copy=False) for part in (X.indices, X.indptr))
    data, indices, indptr = read_only(X.data if values is None else values, *places)
    return data, indices, indptr


@inner
def row(rows: Rows, b: int) -> tuple[Ints | None, Floats]:
    """Where the entries of a row are, None for everywhere, and the entries."""
    return _row(rows, b)


def column(at: Ints | None, i: int) -> int:
    """The column of an entry of a row, by what :func:`row` said of them."""
    raise NotImplementedError("compiled loops only")


def _row(rows: Rows, b: int) -> tuple[Ints | None, Floats]:
    raise NotImplementedError("compiled loops only")


@overload(_row, strict=False)
def _row_of(rows: Any, b: Any) -> Callable[..., Any]:
    if isinstance(rows, types.Array):
        return lambda rows, b: (None, rows[b])

    def entries(rows: Csr, b: int) -> tuple[Ints, Floats]:
        data, indices, indptr = rows
        here = slice(indptr[b], indptr[b + 1])
        return indices[here], data[here]

    return entries


@overload(column, strict=False)
def _column_of(at: Any, i: Any) -> Callable[..., Any]:
    return (lambda at, i: i) if isinstance(at, types.NoneType) else (lambda at, i: at[i])
