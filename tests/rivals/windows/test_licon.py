"""LICON: input times gradient beside plain loops, nets that find pairs, and what it mistakes."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from tests.naive import least_squares_pass_plain, perceptron_pass_plain

import fires
from fires import LICON
from fires.checks import check_selector

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def stream(n_batches=5, n_features=6, n_rows=30, seed=0):
    """Rows with zeros, and three classes or numbers."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.8)
        yield X, X[:, 1] - X[:, 4] + 0.3 * rng.normal(size=n_rows)


def mean_so_far(batches, forgetting, learn, gradient):
    """The mean of what rows add, each explained with the model after its batch."""
    rows = []
    for X, y in batches:
        learn(X, y)
        rows += [sum(abs(x * g) for g in gradient(x)) for x in X]
    share = [(1.0 - forgetting) ** (len(rows) - 1 - t) for t in range(len(rows))]
    return sum(s * row for s, row in zip(share, rows, strict=True)) / sum(share)


@kinds
def test_the_linear_model_of_classes_is_the_plain_loop(kind):
    batches = [(X, np.digitize(z, [-0.5, 0.5])) for X, z in stream()]
    parts = {"coef": np.zeros((3, 6)), "intercept": np.zeros(3)}

    def learn(X, y):
        signs = np.array([[1.0 if label == c else -1.0 for label in y] for c in range(3)])
        found = perceptron_pass_plain(X, signs, parts["coef"], parts["intercept"])
        parts["coef"], parts["intercept"] = found

    selector = LICON(2, forgetting=0.05)
    for X, y in batches:
        selector.partial_fit(kind(X), y, classes=[0, 1, 2])
    expected = mean_so_far(batches, 0.05, learn, lambda x: parts["coef"])
    assert_allclose(selector.weights_, expected, rtol=0, atol=1e-12)


@kinds
def test_the_linear_model_of_numbers_is_the_plain_loop(kind):
    batches, coef, own = list(stream()), np.zeros(6), np.zeros(2)
    first = batches[0][1]
    off = np.sort(np.abs(first - np.median(first)))[: int(0.9 * len(first))]
    own[:] = np.median(first), off.mean()
    selector = LICON(2, forgetting=0.0)
    for X, y in batches:
        selector.partial_fit(kind(X), y)
    expected = mean_so_far(
        batches, 0.0, lambda X, y: least_squares_pass_plain(X, y, coef, own), lambda x: [coef]
    )
    assert_allclose(selector.weights_, expected, rtol=0, atol=1e-12)


class PlainNet:
    """One hidden layer of rectified linear units, cross-entropy and Adam, by hand."""

    def __init__(self, theta, rate):
        self.theta, self.rate, self.n = theta, rate, 0
        self.mean, self.square = ([0.0 * part for part in theta] for _ in range(2))

    def learn(self, X, y):
        W, b, V, c = self.theta
        hidden = np.maximum(X @ W.T + b, 0.0)
        f = hidden @ V.T + c
        p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1.0
        p /= len(y)
        back = (p @ V) * (hidden > 0.0)
        slopes = [back.T @ X, back.sum(axis=0), p.T @ hidden, p.sum(axis=0)]
        self.n += 1
        for i, g in enumerate(slopes):
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            self.square[i] = 0.99 * self.square[i] + 0.01 * g * g
            size = np.sqrt(self.square[i] / (1.0 - 0.99**self.n)) + 1e-8
            step = self.mean[i] / (1.0 - 0.9**self.n) / size
            self.theta[i] = self.theta[i] - self.rate * step

    def gradient(self, x):
        W, b, V, _ = self.theta
        return V @ (W * (W @ x + b > 0.0)[:, None])


@pytest.fixture
def torch():
    found = pytest.importorskip("torch")
    before = found.get_num_threads()
    found.set_num_threads(1)
    found.manual_seed(0)
    yield found
    found.set_num_threads(before)


def net_of(torch, *widths):
    layers = []
    for n_in, n_out in pairwise(widths):
        layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


@kinds
def test_a_net_is_the_plain_loop(kind, torch):
    batches = [(X, np.digitize(z, [-0.5, 0.5])) for X, z in stream(8)]
    module = net_of(torch, 6, 5, 3)
    before = [part.detach().double().numpy().copy() for part in module.parameters()]
    plain = PlainNet([part.copy() for part in before], 0.03)
    selector = LICON(2, model=module, learning_rate=0.03, forgetting=0.02)
    for X, y in batches:
        selector.partial_fit(kind(X), y, classes=[0, 1, 2])
    expected = mean_so_far(batches, 0.02, plain.learn, plain.gradient)
    assert_allclose(selector.weights_, expected, rtol=0, atol=1e-12)
    for now, then in zip(module.parameters(), before, strict=True):  # a copy learns
        assert_array_equal(now.detach().numpy(), then)


def share_found(selector, make, relevant, n_batches=60):
    """The share of the relevant features that are selected, over the second half of a stream."""
    found, rng = [], np.random.default_rng(3)
    for _ in range(n_batches):
        X, y = make(rng)
        selector.partial_fit(X, y, classes=[0, 1])
        found.append(len(set(selector.get_support(indices=True)) & relevant) / len(relevant))
    return np.mean(found[n_batches // 2 :])


def of_two(rng):
    X = rng.normal(size=(100, 12))
    return X, (X[:, 3] * X[:, 8] > 0.0).astype(int)


def offset(rng):
    """What matters is centred; two columns that do not are far from 0."""
    X = rng.normal(size=(100, 12))
    y = (X[:, 3] - X[:, 8] > 0.0).astype(int)
    X[:, [1, 2]] += 100.0
    return X, y


def test_a_net_wins_where_features_matter_only_together(torch):
    selector = LICON(2, model=net_of(torch, 12, 30, 1), learning_rate=0.02)
    assert share_found(selector, of_two, {3, 8}) > 0.95
    assert share_found(LICON(2), of_two, {3, 8}) < 0.5
    assert share_found(fires.Screening(2), of_two, {3, 8}) < 0.5


def test_it_fails_where_columns_are_far_from_0():
    assert share_found(LICON(2), offset, {3, 8}) < 0.1
    assert share_found(fires.Screening(2), offset, {3, 8}) == 1.0


@pytest.mark.slow
def test_a_module_keeps_the_contract(torch):
    module = net_of(torch, 8, 4, 3)
    check_selector(
        LICON(3, model=module),
        target="many classes",
        load_options={"model": module},
        skip=["new_labels_are_taken_up"],  # a module has as many outputs as it was made with
    )


def test_a_module_is_passed_again_to_load(torch, tmp_path):
    X, z = next(stream())
    module = net_of(torch, 6, 5, 1)
    selector = LICON(2, model=module).partial_fit(X, z > 0.0).partial_fit(X, z > 0.0)
    selector.save(tmp_path / "state")
    again = fires.load(tmp_path / "state", model=net_of(torch, 6, 5, 1))
    assert_array_equal(again.weights_, selector.weights_)
    for one in (selector, again):
        one.partial_fit(X, z > 0.1)
    assert_array_equal(again.weights_, selector.weights_)
    with pytest.raises(ValueError, match="Sequential"):
        fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match="Sequential"):
        fires.load(tmp_path / "state", model=torch.nn.Linear(6, 1))
    with pytest.raises(ValueError, match=r"theta.0.weight is float64 of shape \(5, 6\)"):
        fires.load(tmp_path / "state", model=net_of(torch, 6, 4, 1))


def test_a_module_knows_its_classes_from_the_start(torch):
    X, z = next(stream())
    y = np.digitize(z, [-0.5, 0.5])
    with pytest.raises(ValueError, match="has 2 outputs for 3 classes"):
        LICON(2, model=net_of(torch, 6, 2)).partial_fit(X, y)
    selector = LICON(2, model=net_of(torch, 6, 3)).partial_fit(X, np.minimum(y, 1))
    before = selector.weights_
    with pytest.raises(ValueError, match="A module must know all classes from its first batch on"):
        selector.partial_fit(X, y)
    assert_array_equal(selector.weights_, before)


def test_a_linear_estimator_is_explained_and_no_other():
    X, z = next(stream())
    selector = LICON(2, model=SGDClassifier(random_state=0)).partial_fit(X, z > 0.0)
    plain = SGDClassifier(random_state=0).partial_fit(X, z > 0.0, classes=[False, True])
    share = (1.0 - 0.001) ** np.arange(len(X))[::-1]
    expected = share @ np.abs(X * plain.coef_[0]) / share.sum()
    assert_allclose(selector.weights_, expected, rtol=1e-12)
    with pytest.raises(ValueError, match="which have coef_, and modules of torch; GaussianNB is"):
        LICON(2, model=GaussianNB()).partial_fit(X, z > 0.0)
    with pytest.raises(ValueError, match="model must be None or a predictor"):
        LICON(2, model="net").partial_fit(X, z > 0.0)
