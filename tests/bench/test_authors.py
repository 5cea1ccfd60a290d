"""The authors' nets and trees, against their program written plainly, with torch's gradients."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fires.bench.authors import AuthorsNet, AuthorsTree
from fires.bench.cells import METHODS, Cell, run
from fires.bench.tables import published_value
from fires.core.belief import Belief

torch = pytest.importorskip("torch")


def net_loss(parts, x, y):
    out = x
    for W in parts[:-1]:
        out = torch.nn.functional.softplus(out @ W, threshold=1000.0)
    scores = torch.log_softmax(out @ parts[-1], dim=0)
    return -scores[y], scores[y].exp(), {}


def tree_loss(parts, x, y):
    nodes, leaves = parts
    p = torch.sigmoid(x @ nodes)
    reached = {0: torch.ones((), dtype=x.dtype)}
    for node in range(nodes.shape[1]):
        reached[2 * node + 1] = reached[node] * p[node]
        reached[2 * node + 2] = reached[node] * (1 - p[node])
    at_leaves = torch.stack([reached[nodes.shape[1] + leaf] for leaf in range(len(leaves))])
    scores = at_leaves @ leaves
    return -torch.log_softmax(scores, dim=0)[y], scores[y].exp(), reached


def penalty(all_reached, depth, strength):
    """Both children of each node are gone through, so that every node counts twice."""
    total = 0.0
    for child in range(1, 2 ** (depth + 1) - 1):
        node = (child - 1) // 2
        alpha = sum(r[child] for r in all_reached) / sum(r[node] for r in all_reached)
        at = int(np.log2(node + 1))
        total -= strength * 2.0**-at * 0.5 * (torch.log(alpha) + torch.log(1 - alpha))
    return total


def naive(model, belief, X, y, rng):
    """Row by row, draw by draw, with whole matrices of weights."""
    J, is_net = X.shape[1], isinstance(model, AuthorsNet)
    sizes = (J, *model.hidden, 2) if is_net else (J, 2**model.depth - 1)
    shapes = list(pairwise(sizes))
    spread = np.sqrt(2.0 / (J + 2))
    r = rng.standard_normal((model.n_draws, belief.mu.size)) * spread
    n_leaves = 0 if is_net else 2**model.depth
    bound = 1.0 if is_net else 1.0 / np.sqrt(n_leaves)
    leaves = None if is_net else rng.uniform(-bound, bound, (model.n_draws, n_leaves * 2))
    orders = [
        rng.permuted(np.tile(np.arange(len(y)), (model.n_draws, 1)), axis=1)
        for _ in range(model.n_epochs)
    ]
    summed, marginal = np.zeros((model.n_draws, belief.mu.size)), 0.0
    for draw in range(model.n_draws):
        theta, parts, start = belief.mu + belief.sigma * r[draw], [], 0
        for a, b in shapes:
            parts.append(torch.tensor(theta[start : start + a * b].reshape(a, b)))
            start += a * b
        if leaves is not None:
            parts.append(torch.tensor(leaves[draw].reshape(n_leaves, 2)))
        for order in orders:
            for first in range(0, len(y), model.n_rows):
                for part in parts:
                    part.requires_grad_(True)
                rows = order[draw, first : first + model.n_rows]
                loss_of = net_loss if is_net else tree_loss
                found = [loss_of(parts, torch.tensor(X[i]), int(y[i])) for i in rows]
                loss = sum(one for one, _, _ in found) / len(rows)
                if not is_net:
                    loss = loss + penalty([r for _, _, r in found], model.depth, model.penalty)
                slopes = torch.autograd.grad(loss, parts)
                marginal += sum(chance.item() for _, chance, _ in found)
                with torch.no_grad():
                    parts = [p - model.rate * g for p, g in zip(parts, slopes, strict=True)]
                summed[draw] += np.concatenate([g.ravel().numpy() for g in slopes[: len(shapes)]])
    marginal /= model.n_draws * model.n_epochs * len(y)
    return -summed.mean(0) / marginal, -(summed * r).mean(0) / marginal


@pytest.mark.parametrize(
    "model",
    [
        AuthorsNet(hidden=(4, 3, 5), n_draws=3, n_epochs=2, n_rows=4, rate=0.3, dtype=np.float64),
        AuthorsTree(depth=3, n_draws=3, n_epochs=2, n_rows=4, rate=0.3, dtype=np.float64),
    ],
)
def test_the_update_is_that_of_the_program_written_plainly(model):
    rng = np.random.default_rng(3)
    X, y = rng.random((11, 6)), rng.integers(0, 2, 11)
    k = model.init(6, 2, rng).mu.size
    belief = Belief(rng.normal(size=k), 0.5 + rng.random(k))
    found = model.gradient(belief, X, y, None, np.random.default_rng(7))
    wanted = naive(model, belief, X, y, np.random.default_rng(7))
    for ours, plain in zip((found.mu, found.sigma), wanted, strict=True):
        assert np.abs(plain).max() > 1e-3
        assert_allclose(ours / len(y), plain, rtol=1e-12, atol=1e-14)


def test_features_are_means_and_later_layers_count_for_all():
    net, tree = AuthorsNet(hidden=(2, 3)), AuthorsTree(depth=1)
    mu = np.arange(2 * 2 + 2 * 3 + 3 * 2, dtype=float)
    features = net.to_features(Belief(mu, mu + 1.0))
    later = mu[4:10].mean() + mu[10:].mean()
    assert_allclose(features.mu, [0.5 + later, 2.5 + later])
    assert_allclose(features.sigma, features.mu + 3.0)
    assert_allclose(tree.to_features(Belief.standard(4)).sigma, np.ones(4))


@pytest.mark.parametrize("name", ["FIRES-ANN", "FIRES-SDT"])
def test_the_bench_runs_it_beside_the_paper_s_equations(name):
    method = f"{name} authors"
    assert METHODS[method].protocols == ("as-published",)
    assert METHODS[method].needs is None
    assert published_value("accuracy", "KDD", method) == published_value("accuracy", "KDD", name)
    found = run(Cell("RTG", method, 25, 0.1, n_rows=75))
    assert (found["steps"], found["method"]) == (3, method)
    assert 0.0 <= found["accuracy"] <= 1.0


def test_a_tree_that_sends_all_rows_one_way_stays_finite():
    tree, rng = AuthorsTree(depth=2, n_draws=2), np.random.default_rng(0)
    X, y = rng.random((30, 5)), rng.integers(0, 2, 30)
    found = tree.gradient(Belief(np.full(15, 500.0), np.ones(15)), X, y, None, rng)
    assert np.isfinite(found.mu).all()
    assert np.isfinite(found.sigma).all()
