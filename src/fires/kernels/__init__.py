"""The compiled loops.

A linear model reads X in two loops only, ``project`` and ``accumulate``, over dense and CSR data.
``tests/naive.py`` has the definitions in NumPy that the tests compare the loops with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.kernels import dense, sparse
from fires.kernels.compiling import read_only, row_major
from fires.kernels.finite import scan
from fires.kernels.select import top_k
from fires.kernels.sparse import touched_columns

__all__ = [
    "accumulate",
    "oriented",
    "project",
    "read_only",
    "scan",
    "top_k",
    "touched_columns",
]

Dense: TypeAlias = npt.NDArray[np.floating]
Kernel: TypeAlias = Callable[..., None]
Matrix: TypeAlias = Any  # a dense array, or a CSR matrix or array


def project(
    X: Matrix, mu: Floats, var: Floats, shift: Floats | None = None
) -> tuple[Floats, Floats]:
    r"""Mean and variance of ``theta.x`` for every row of a batch.

    .. math::
        a_b = \sum_j \mu_j t_{bj}, \qquad v_b = \sum_j \sigma_j^2 t_{bj}^2,
        \qquad t_{bj} = x_{bj} - \text{shift}_j

    so that :math:`\theta^\top t_b \sim \mathcal{N}(a_b, v_b)`. A missing entry (NaN) counts as
    :math:`t = 0`.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [0.0, np.nan]])
    >>> project(X, mu=np.array([0.5, 1.0]), var=np.array([1.0, 4.0]))
    (array([2.5, 0. ]), array([17.,  0.]))
    """
    mu2, var2 = np.atleast_2d(mu), np.atleast_2d(var)
    a, v = np.empty((len(mu2), X.shape[0])), np.empty((len(mu2), X.shape[0]))
    if sp.issparse(X):
        _refuse_shift(shift)
        sparse.project_csr(*read_only(X.data, X.indices, X.indptr), mu2, var2, a, v)
    else:
        view, project_into, _ = oriented(X)
        shift = np.zeros(X.shape[1]) if shift is None else shift
        project_into(view, mu2, var2, shift, a, v)
    return (a, v) if mu.ndim == 2 else (a[0], v[0])


def accumulate(
    X: Matrix, c: Floats, d: Floats, shift: Floats | None = None
) -> tuple[Floats, Floats]:
    r"""Weighted sums of the rows of a batch, and of their squares, for every feature.

    .. math::
        p_j = \sum_b c_b t_{bj}, \qquad q_j = \sum_b d_b t_{bj}^2,
        \qquad t_{bj} = x_{bj} - \text{shift}_j

    The transpose of :func:`project`, with the same rules for ``X`` and ``shift``.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [0.0, np.nan]])
    >>> accumulate(X, c=np.array([0.5, 1.0]), d=np.array([1.0, 1.0]))
    (array([0.5, 1. ]), array([1., 4.]))
    """
    c2, d2 = np.atleast_2d(c), np.atleast_2d(d)
    p, q = np.zeros((len(c2), X.shape[1])), np.zeros((len(c2), X.shape[1]))
    if sp.issparse(X):
        _refuse_shift(shift)
        sparse.accumulate_csr(*read_only(X.data, X.indices, X.indptr), c2, d2, p, q)
    else:
        view, _, accumulate_into = oriented(X)
        shift = np.zeros(X.shape[1]) if shift is None else shift
        accumulate_into(view, c2, d2, shift, p, q)
    return (p, q) if c.ndim == 2 else (p[0], q[0])


def oriented(X: Dense) -> tuple[Dense, Kernel, Kernel]:
    """The compiled pair that fits the memory order of a dense X, and the view it reads."""
    if X.flags.f_contiguous and not X.flags.c_contiguous:
        (view,) = read_only(X.T)
        return view, dense.project_columns, dense.accumulate_columns
    return row_major(X), dense.project_rows, dense.accumulate_rows


def _refuse_shift(shift: Floats | None) -> None:
    if shift is not None:
        raise ValueError("A shift would fill a sparse matrix; it is for dense data only.")
