"""Running moments of columns and targets, and the correlations that follow from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from fires.core.declared import Array, Declared
from fires.core.types import Codes, CsrRows, Floats, Mask, Matrix
from fires.kernels.moments import ROUNDING
from fires.rivals.counting import rows_by_class


class Moments(NamedTuple):
    """Means of x and of targets z, and sums of products about these means.

    Each target has its own row. Numbers that are the same for every column are stored once, until
    entries are missing and columns differ. A mean is stored as the sum of two numbers: a mean far
    from 0 would otherwise have a rounding error as large as the differences of interest.
    """

    n: Floats  # (1,) or (n_features,): the weight of the entries
    x: Floats  # (n_features,), as the next two
    x_rest: Floats
    xx: Floats
    z: Floats  # (n_targets, 1 or n_features), as the next two
    z_rest: Floats
    zz: Floats
    xz: Floats  # (n_targets, n_features)


MOMENTS: Declared = {
    "n": Array("1|J", low=0.0),
    "x": Array("J"),
    "x_rest": Array("J"),
    "xx": Array("J", low=0.0),
    "z": Array("T", "1|J"),
    "z_rest": Array("T", "1|J"),
    "zz": Array("T", "1|J", low=0.0),
    "xz": Array("T", "J"),
}
"""What the moments of J columns and T targets may be."""


def of_numbers(X: Matrix, y: Floats, mass: Floats, missing: bool) -> Moments:
    """Moments of one batch with a numeric target."""
    level = mass @ y / max(mass.sum(), 1e-300)
    u = y - level
    with np.errstate(over="ignore", invalid="ignore"):
        rows = sp.csr_array(np.stack([mass, mass * u, mass * (u * u)]))
        sums, x, x_rest, xx, xz = _summed(X, rows, missing)
        z = sums[1:2] / np.where(sums[0] > 0.0, sums[0], 1.0)
        zz = np.maximum(sums[2:] - sums[1:2] * z, 0.0)
        return Moments(sums[0], x, x_rest, xx, np.full_like(z, level), z, zz, xz[1:2])


def of_classes(X: Matrix, codes: Codes, n_classes: int, mass: Floats, missing: bool) -> Moments:
    """Moments of one batch of classes: each class is a target, 1 in the class and 0 elsewhere."""
    rows = sp.vstack([sp.csr_array(mass[None, :]), rows_by_class(codes, n_classes, mass)], "csr")
    with np.errstate(over="ignore", invalid="ignore"):
        sums, x, x_rest, xx, xz = _summed(X, rows, missing)
        z = sums[1:] / np.where(sums[0] > 0.0, sums[0], 1.0)
        return Moments(sums[0], x, x_rest, xx, z, np.zeros_like(z), sums[1:] * (1.0 - z), xz[1:])


def _summed(
    X: Matrix, rows: CsrRows, missing: bool
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Weighted sums of 1 and of x minus its mean, over the entries of each column.

    Each row of ``rows`` holds the factors of one sum; the first holds the weights. Returned are
    the sums of 1, the mean in two parts, the spread about it, and the sums of x about the mean.
    """
    if isinstance(X, np.ndarray):
        return _settled(*_summed_dense(X, rows, missing))
    # Only columns with entries have sums.
    columns, places = np.unique(X.indices, return_inverse=True)
    touched = sp.csr_array((X.data, places, X.indptr), shape=(X.shape[0], len(columns)))
    sums, *about_mean = _settled(*_summed_sparse(touched, rows, missing))
    if missing:
        present = np.repeat(rows.sum(axis=1)[:, None], X.shape[1], axis=1)
        present[:, columns] = sums
        sums = present
    wide = [np.zeros((*part.shape[:-1], X.shape[1])) for part in about_mean]
    for part, of_touched in zip(wide, about_mean, strict=True):
        part[..., columns] = of_touched
    mean, rest, spread, crossed = wide
    return sums, mean, rest, spread, crossed


def _settled(
    sums: Floats, mean: Floats, spread: Floats, crossed: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The same sums about the exact mean: those about a rounded mean show how far it is off."""
    rest = crossed[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    spread = np.maximum(spread - crossed[0] * rest, 0.0)
    return sums, mean, rest, spread, crossed - sums * rest


def _summed_dense(X: Floats, rows: CsrRows, missing: bool) -> tuple[Floats, Floats, Floats, Floats]:
    if not missing:
        sums, values = rows.sum(axis=1)[:, None], X
        present: Mask | bool = True
    else:
        entries = present = ~np.isnan(X)
        sums, values = rows @ entries.astype(np.float64), np.where(entries, X, 0.0)
    weight = rows[:1]
    mean = (weight @ values)[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    t = (values - mean) * present
    return sums, mean, (weight @ (t * t))[0], rows @ t


def _summed_sparse(
    X: CsrRows, rows: CsrRows, missing: bool
) -> tuple[Floats, Floats, Floats, Floats]:
    def like_x(data: Floats) -> sp.csr_array:
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)

    present = ~np.isnan(X.data)
    values = np.where(present, X.data, 0.0).astype(np.float64, copy=False)
    totals = rows.sum(axis=1)[:, None]
    held = (rows @ like_x(np.ones(len(X.data)))).toarray()
    zeros = totals - held  # the sums over zeros that are not stored
    # A column that stores all its entries has none: remove what rounding left.
    zeros[:, np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]] = 0.0
    sums = zeros + (rows @ like_x(present.astype(np.float64))).toarray() if missing else totals
    weight = rows[:1]
    mean = (weight @ like_x(values)).toarray()[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    t = np.where(present, values - mean[X.indices], 0.0)
    spread = (weight @ like_x(t * t)).toarray()[0] + zeros[0] * mean * mean
    return sums, mean, spread, (rows @ like_x(t)).toarray() - zeros * mean


def merge(old: Moments, new: Moments, keep: float) -> Moments:
    """Moments of two parts of a stream together."""
    n = keep * old.n + new.n
    share = new.n / np.where(n > 0.0, n, 1.0)
    both = keep * old.n * share
    dx = (new.x - old.x) + (new.x_rest - old.x_rest)
    dz = (new.z - old.z) + (new.z_rest - old.z_rest)
    return Moments(
        n,
        *_two_parts(old.x, old.x_rest + share * dx),
        keep * old.xx + new.xx + both * dx * dx,
        *_two_parts(old.z, old.z_rest + share * dz),
        keep * old.zz + new.zz + both * dz * dz,
        keep * old.xz + new.xz + both * dx * dz,
    )


def _two_parts(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum of a and b, and the rounding error (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def by_numbers(m: Moments) -> Floats:
    """The squared correlation of each column with the target."""
    x, z = _root(m.xx, m.x, m.n), _root(m.zz[0], m.z[0], m.n)
    r = m.xz[0] / np.where(x > 0.0, x, np.inf) / np.where(z > 0.0, z, np.inf)
    share: Floats = np.minimum(r * r, 1.0)
    return share


def by_classes(m: Moments) -> Floats:
    """The share of each column's variance that lies between the class means."""
    x, n = _root(m.xx, m.x, m.n), m.n * m.z
    r = m.xz / np.where(x > 0.0, x, np.inf)
    between = (r * r / np.where(n > 0.0, n, np.inf)).sum(axis=0)
    share: Floats = np.minimum(between, 1.0)
    return np.where((m.z > 0.0).sum(axis=0) > 1, share, 0.0)


def _root(spread: Floats, mean: Floats, n: Floats) -> Floats:
    """The root of a spread, or 0 if it is no greater than the rounding error of a constant."""
    floor = n * np.maximum(ROUNDING * mean * mean, 1e-300)
    root: Floats = np.sqrt(np.where(spread > floor, spread, 0.0))
    return root
