"""The two dense loops of every linear model, in row and in column order.

Each computes on ``t = x - shift`` with missing entries (NaN) as zeros, always in float64. The loops
are limited by memory, so four rows at a time share what is loaded for a column. Slices are taken
before the innermost loops: then no index has to be tested for being negative, and the loops
vectorise.
"""

from __future__ import annotations

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

_TILE = 512  # columns whose sums stay in the fastest cache


@compiled
def project_rows(X: Floats, mu: Floats, var: Floats, shift: Floats, a: Floats, v: Floats) -> None:
    """``a[k] = T mu[k]`` and ``v[k] = (T∘T) var[k]`` for C-ordered X."""
    n_rows, n_columns = X.shape
    whole = n_rows - n_rows % 4
    for b in range(0, whole, 4):
        x0, x1, x2, x3 = X[b], X[b + 1], X[b + 2], X[b + 3]
        for k in range(mu.shape[0]):
            m, w = mu[k], var[k]
            a0 = a1 = a2 = a3 = 0.0
            v0 = v1 = v2 = v3 = 0.0
            for j in range(n_columns):
                s = shift[j]
                t0, t1, t2, t3 = x0[j] - s, x1[j] - s, x2[j] - s, x3[j] - s
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
                t0 = x0[j] - shift[j]
                t0 = t0 if t0 == t0 else 0.0
                a0 += m[j] * t0
                v0 += w[j] * t0 * t0
            a[k, b], v[k, b] = a0, v0


@compiled
def accumulate_rows(X: Floats, c: Floats, d: Floats, shift: Floats, p: Floats, q: Floats) -> None:
    """``p[k] = T'c[k]`` and ``q[k] = (T∘T)'d[k]`` for C-ordered X."""
    n_rows, n_columns = X.shape
    whole = n_rows - n_rows % 4
    for start in range(0, n_columns, _TILE):
        stop = min(start + _TILE, n_columns)
        s = shift[start:stop]
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
                    t0, t1, t2, t3 = x0[j] - s[j], x1[j] - s[j], x2[j] - s[j], x3[j] - s[j]
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
                    t0, t1, t2, t3 = x0[j] - s[j], x1[j] - s[j], x2[j] - s[j], x3[j] - s[j]
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
                    t0 = x0[j] - s[j]
                    t0 = t0 if t0 == t0 else 0.0
                    pk[j] += c0 * t0
                    qk[j] += d0 * t0 * t0


@compiled
def project_columns(
    XT: Floats, mu: Floats, var: Floats, shift: Floats, a: Floats, v: Floats
) -> None:
    """As :func:`project_rows`, from the C-ordered transpose of a Fortran-ordered X."""
    n_columns, n_rows = XT.shape
    for k in range(mu.shape[0]):
        ak, vk = a[k], v[k]
        ak[:] = 0.0
        vk[:] = 0.0
        for j in range(n_columns):
            x, s, m, w = XT[j], shift[j], mu[k, j], var[k, j]
            for b in range(n_rows):
                t = x[b] - s
                t = t if t == t else 0.0
                ak[b] += m * t
                vk[b] += w * t * t


@compiled
def accumulate_columns(
    XT: Floats, c: Floats, d: Floats, shift: Floats, p: Floats, q: Floats
) -> None:
    """As :func:`accumulate_rows`, from the C-ordered transpose of a Fortran-ordered X."""
    n_columns, n_rows = XT.shape
    for j in range(n_columns):
        x, s = XT[j], shift[j]
        for k in range(c.shape[0]):
            ck, dk = c[k], d[k]
            p0 = q0 = 0.0
            for b in range(n_rows):
                t = x[b] - s
                t = t if t == t else 0.0
                p0 += ck[b] * t
                q0 += dk[b] * t * t
            p[k, j], q[k, j] = p0, q0
