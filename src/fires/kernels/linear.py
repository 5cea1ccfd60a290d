"""The two loops of every linear model: ``project`` and ``accumulate``, over dense and CSR rows.

Missing entries (NaN) count as zeros; sums are in float64. The loops are limited by memory, so
four rows at a time share what is loaded for a column. Slices are taken before the innermost loops:
then no index has to be tested for being negative, and the loops vectorise. ``tests/naive.py`` has
the definitions in NumPy that the tests compare the loops with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from fires.core.batch import row_major
from fires.core.types import Floats, Matrix
from fires.kernels.compiling import compiled, inner, read_only

Dense: TypeAlias = npt.NDArray[np.floating]
Ints: TypeAlias = npt.NDArray[np.signedinteger]
Kernel: TypeAlias = Callable[..., None]

_TILE = 512  # columns whose sums stay in the fastest cache


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


@compiled
def touched_columns(indices: Ints, slot: npt.NDArray[np.int32], local: Ints) -> Ints:
    """The columns that have entries, in order of first occurrence.

    ``local`` gets, for each entry, the index of its column in the result. ``slot`` is a scratch
    array with one zero per column of X, and is left all zeros. So the cost is O(nnz), however wide
    X is.
    """
    columns = np.empty(len(indices), dtype=np.int64)
    n = 0
    for i in range(len(indices)):
        j = indices[i]
        if slot[j] == 0:
            columns[n] = j
            n += 1
            slot[j] = n
        local[i] = slot[j] - 1
    for i in range(n):
        slot[columns[i]] = 0
    return columns[:n].copy()


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
    """Scaled rows: the full columns as a dense block, the entries of the others as CSR."""

    full: Floats
    columns: Ints
    data: Floats
    indices: Ints
    indptr: Ints

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """See :class:`DenseRows`."""
        a, v = np.empty((2, len(mu), len(self.full)))
        project_csr(*read_only(*self[2:]), mu, var, a, v)
        full, columns = self.full, self.columns
        return a + mu[:, columns] @ full.T, v + var[:, columns] @ (full * full).T

    def accumulate(self, c: Floats, d: Floats) -> tuple[Ints, Floats, Floats]:
        """See :class:`DenseRows`; of the columns that have entries, and of the full ones."""
        data, indices, indptr = read_only(*self[2:])
        local = np.empty(len(indices), dtype=indptr.dtype)
        slot = np.zeros(indices.max(initial=-1) + 1, dtype=np.int32)
        touched = touched_columns(indices, slot, local)
        p, q = np.zeros((2, len(c), len(touched)))
        accumulate_csr(data, *read_only(local), indptr, c, d, p, q)
        columns = np.concatenate([touched, self.columns])
        squares = self.full * self.full
        return columns, np.hstack([p, c @ self.full]), np.hstack([q, d @ squares])

    def take(self, columns: Ints) -> Floats:
        """See :class:`DenseRows`."""
        rows = np.zeros((len(self.full), len(columns)))
        place, asked = find_places(columns, self.columns)
        rows[:, place[asked]] = self.full[:, asked]
        place, asked = find_places(columns, self.indices)
        row = np.repeat(np.arange(len(rows)), np.diff(self.indptr))
        rows[row[asked], place[asked]] = self.data[asked]
        return rows


def find_places(columns: Ints, wanted: Ints) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Where each wanted column is among sorted columns, and whether it is there."""
    if not len(columns):
        return np.zeros(np.shape(wanted), dtype=np.intp), np.zeros(np.shape(wanted), dtype=np.bool_)
    place = np.searchsorted(columns, wanted).clip(max=len(columns) - 1)
    return place, columns[place] == wanted


Rows: TypeAlias = Floats | tuple[Floats, Ints, Ints]
"""Dense rows, or data, indices and indptr of CSR: a named tuple would take longer to pass."""


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

    def entries(rows: tuple[Floats, Ints, Ints], b: int) -> tuple[Ints, Floats]:
        data, indices, indptr = rows
        here = slice(indptr[b], indptr[b + 1])
        return indices[here], data[here]

    return entries


@overload(column, strict=False)
def _column_of(at: Any, i: Any) -> Callable[..., Any]:
    return (lambda at, i: i) if isinstance(at, types.NoneType) else (lambda at, i: at[i])
