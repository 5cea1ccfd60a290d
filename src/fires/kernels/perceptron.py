"""A perceptron that learns from rows one by one."""

from __future__ import annotations

import scipy.sparse as sp

from fires.core.belief import Floats
from fires.kernels import Matrix, read_only
from fires.kernels.compiling import compiled
from fires.kernels.linear import Ints


def perceptron_pass(X: Matrix, y: Floats, weights: Floats, bias: Floats) -> None:
    """Learn from every row of X in order, in place; a sparse row costs what its entries cost."""
    if sp.issparse(X):
        rows = X.tocsr()  # itself, if it is CSR
        perceptron_csr(*read_only(rows.data, rows.indices, rows.indptr), y, weights, bias)
    else:
        perceptron_rows(X, y, weights, bias)


@compiled
def perceptron_rows(X: Floats, y: Floats, weights: Floats, bias: Floats) -> None:
    """See ``naive.perceptron_pass_plain``."""
    for b in range(X.shape[0]):
        x = X[b]
        for k in range(weights.shape[0]):
            w = weights[k]
            score = bias[k]
            for j in range(len(x)):
                score += w[j] * x[j]
            if y[k, b] * score <= 0.0:
                for j in range(len(x)):
                    w[j] += y[k, b] * x[j]
                bias[k] += y[k, b]


@compiled
def perceptron_csr(
    data: Floats, indices: Ints, indptr: Ints, y: Floats, weights: Floats, bias: Floats
) -> None:
    """See ``naive.perceptron_pass_plain``."""
    for b in range(len(indptr) - 1):
        first, last = indptr[b], indptr[b + 1]
        for k in range(weights.shape[0]):
            w = weights[k]
            score = bias[k]
            for i in range(first, last):
                score += w[indices[i]] * data[i]
            if y[k, b] * score <= 0.0:
                for i in range(first, last):
                    w[indices[i]] += y[k, b] * data[i]
                bias[k] += y[k, b]
