"""FIRES finds what matters: every family, dense and sparse, common and rare classes."""

import numpy as np
import scipy.sparse as sp
from tests.pairs import pairwise

from fires import FIRES


def target(kind, eta, rng):
    noise = rng.normal(size=len(eta))
    if kind == "numbers":
        return 1e4 + 50 * (eta + noise)
    if kind == "counts":
        return rng.poisson(np.exp(3 + 0.5 * eta))
    if kind == "three classes":
        return np.array(["low", "middle", "top"])[np.digitize(eta + 0.5 * noise, [-0.5, 0.8])]
    return eta + noise > 1.0


MODELS = [
    ("probit", "classes"),
    ("logistic", "classes"),
    ("probit", "three classes"),
    ("logistic", "three classes"),
    ("gaussian", "numbers"),
    ("poisson", "counts"),
]


@pairwise(
    of={" of ".join(one): one for one in MODELS},
    sparse={"dense": False, "CSR": True},
    seed=[0, 1],
)
def test_the_relevant_features_are_found(of, sparse, seed):
    model, kind = of
    rng = np.random.default_rng(seed)
    selector = FIRES(3, model=model)
    for _ in range(60):
        X = rng.normal(2.0, 3.0, size=(100, 30))
        if sparse:
            X[rng.random(X.shape) > 0.3] = 0.0
        y = target(kind, (X[:, 3] - X[:, 7] + 0.7 * X[:, 20]) / 3.0, rng)
        selector.partial_fit(sp.csr_array(X) if sparse else X, y)
    assert selector.get_support(indices=True).tolist() == [3, 7, 20]


@pairwise(
    sparse={"dense": False, "CSR": True},
    density=[1.0, 0.5],
    sign=[1.0, -1.0],
    rate=[0.1, 0.05, 0.01],
    seed=[0, 1],
)
def test_the_informative_feature_of_a_rare_class_ranks_first(seed, rate, sign, density, sparse):
    rng = np.random.default_rng(seed)
    selector = FIRES(1)
    for _ in range(100):
        X = rng.random((100, 20))
        X[rng.random(X.shape) >= density] = 0.0
        signal = sign * X[:, 7] + 0.1 * rng.normal(size=100)
        y = signal > np.quantile(signal, 1.0 - rate)
        selector.partial_fit(sp.csr_array(X) if sparse else X, y)
    assert selector.ranking_[7] == 1


def test_dense_and_sparse_forms_of_the_same_data_lead_to_the_same_choice():
    rng = np.random.default_rng(5)
    dense, sparse = FIRES(5), FIRES(5)
    strength = np.array([3.0, -2.5, 2.0, -1.5, 1.0])
    for _ in range(300):
        X = rng.exponential(size=(100, 40)) * (rng.random((100, 40)) < 0.2)
        y = X[:, 10:15] @ strength + rng.normal(size=100) > 0.5
        dense.partial_fit(X, y)
        sparse.partial_fit(sp.csr_array(X), y)
    assert dense.get_support(indices=True).tolist() == [10, 11, 12, 13, 14]
    assert sparse.get_support(indices=True).tolist() == [10, 11, 12, 13, 14]
