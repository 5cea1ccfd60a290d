"""What nets and trees find in a stream that a linear model does not, and what they bear."""

import numpy as np
import pytest
from tests.pairs import pairwise, seeds

from fires import FIRES
from fires.models import NeuralNet, SoftTree
from fires.streams import KnownTruth

torch = pytest.importorskip("torch")
torch.set_num_threads(1)


def batches_until_found(model, seed, n=300, n_features=20):
    """After how many batches of 100 the two features whose signs make the label stay selected."""
    rng = np.random.default_rng(seed)
    chosen, row = FIRES(2, model=model, random_state=seed), 0
    for batch in range(1, n + 1):
        X = rng.normal(size=(100, n_features))
        chosen.partial_fit(X, X[:, 0] * X[:, 1] > 0)
        row = row + 1 if chosen.get_support(indices=True).tolist() == [0, 1] else 0
        if row == 10:
            return batch
    return None


@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_a_product_of_signs_is_found(make):
    found = [batches_until_found(make(), seed) for seed in range(3)]
    assert sum(batch is not None for batch in found) >= 2, found


TARGETS = {
    "product": (2, lambda X: X[:, 0] * X[:, 1] > 0),
    "squares": (3, lambda X: (X[:, :3] ** 2).sum(1) > 2.37),
    "sine": (1, lambda X: np.sin(3.0 * X[:, 0]) > 0),
}


@pytest.mark.parametrize(
    ("make", "target", "n_batches"),
    [
        (SoftTree, "product", 120),
        (SoftTree, "squares", 120),
        (SoftTree, "sine", 200),
        (NeuralNet, "product", 30),
        (NeuralNet, "squares", 40),
    ],
)
@seeds(2)
def test_what_is_not_linear_is_found_among_fifty_features(make, target, n_batches, seed):
    """A net sees a sine late, and not in every stream."""
    n_relevant, label = TARGETS[target]
    rng = np.random.default_rng(seed)
    chosen = FIRES(n_relevant, model=make(), random_state=seed)
    for _ in range(n_batches):
        X = rng.normal(size=(100, 50))
        chosen.partial_fit(X, label(X))
    assert chosen.get_support(indices=True).tolist() == list(range(n_relevant))


@pytest.mark.parametrize("model", ["probit", NeuralNet(())], ids=["probit", "softmax"])
def test_a_linear_model_cannot_see_a_product_of_signs(model):
    found = [batches_until_found(model, seed, n=100) for seed in range(2)]
    assert found == [None] * 2


def test_signs_that_cancel_are_ranked_by_their_size():
    """Nodes use each of the two features with both signs; their plain mean says nothing."""
    found = {
        how: [
            batches_until_found(NeuralNet((20,), aggregate=how), seed, n=150) for seed in range(3)
        ]
        for how in ("rms", "abs", "paper")
    }
    assert None not in found["rms"]
    assert None not in found["abs"]
    assert found["paper"].count(None) >= 2


@pytest.mark.parametrize("make", [lambda: NeuralNet((20,)), SoftTree], ids=["net", "tree"])
@seeds(2)
def test_a_numeric_target_is_learnt(make, seed):
    """A product, which a linear model cannot see."""
    rng = np.random.default_rng(seed)
    chosen = FIRES(2, model=make(), random_state=seed)
    for _ in range(60):
        X = rng.normal(size=(100, 10))
        chosen.partial_fit(X, 50.0 + 10.0 * X[:, 2] * X[:, 7] + rng.normal(size=100))
    assert chosen.get_support(indices=True).tolist() == [2, 7]


@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_a_numeric_target_never_throws_a_model_away(make):
    """A strong linear relation: the noise shrinks, and what is left of errors weighs ever more."""
    rng = np.random.default_rng(2)
    chosen = FIRES(2, model=make(), random_state=2)
    for _ in range(60):
        X = rng.normal(size=(100, 10))
        chosen.partial_fit(X, 50.0 + 10.0 * (X[:, 2] + 2.0 * X[:, 7]) + rng.normal(size=100))
    assert chosen.ranking_[7] == 1
    assert chosen.importances_.max() < 10.0


@pytest.mark.parametrize("make", [lambda: NeuralNet((20,)), SoftTree], ids=["net", "tree"])
def test_classes_that_arrive_one_by_one_are_learnt(make):
    rng = np.random.default_rng(0)
    chosen = FIRES(2, model=make(), random_state=0)
    for batch in range(60):
        X = rng.normal(size=(100, 8))
        y = np.where(X[:, 1] > 0.5, 0, np.where(X[:, 6] > 0.0, 1, 2))
        met = y >= 2 - min(batch // 10, 2)  # first only class 2, then 1 too, then 0
        chosen.partial_fit(X[met], y[met])
    assert chosen.classes_.tolist() == [0, 1, 2]
    assert chosen.get_support(indices=True).tolist() == [1, 6]


@pairwise(
    make={"net": lambda: NeuralNet((20,)), "tree": SoftTree},
    size=[10.0, 1e3, 1e20],
    label=[0, 1],
)
def test_an_outlier_does_no_lasting_harm(make, size, label):
    """One row alone, far outside, rightly or wrongly labelled."""
    rng = np.random.default_rng(1)
    chosen = FIRES(2, model=make(), random_state=0)

    def learn(n):
        for _ in range(n):
            X = rng.normal(size=(50, 4))
            chosen.partial_fit(X, X[:, 0] * X[:, 1] > 0)

    learn(60)
    assert chosen.get_support(indices=True).tolist() == [0, 1]
    before = chosen.importances_.max()
    chosen.partial_fit(np.array([[size, size, 0.0, -size]]), [bool(label)])
    assert chosen.importances_.max() < 3.0 * before
    learn(20)
    assert chosen.get_support(indices=True).tolist() == [0, 1]


def test_a_net_bears_rows_that_come_one_by_one():
    """At the rates that batches of a hundred need, it would be thrown away by a few single rows."""
    rng = np.random.default_rng(0)
    chosen = FIRES(2, model=NeuralNet((20,)), random_state=0)
    for _ in range(800):
        X = rng.normal(size=(1, 5))
        chosen.partial_fit(X, X[:, 0] * X[:, 1] > 0)
    assert chosen.get_support(indices=True).tolist() == [0, 1]


# --- rare classes, and drift ----------------------------------------------------------------------


def found_by(model, stream, seed, at_row=None, keep=1.0):
    """How many of the features that matter now are selected, after every batch of 100."""
    n_relevant = len(stream.relevant_at(0))
    chosen, found = FIRES(n_relevant, model=model, random_state=seed), []
    for index, batch in enumerate(stream.batches(100)):
        if at_row == 100 * index:
            chosen._learner_.forget(keep)
        chosen.partial_fit(batch.X, batch.y, classes=[0, 1])
        relevant = set(stream.relevant_at(100 * index).tolist())
        found.append(len(relevant & set(chosen.get_support(indices=True).tolist())))
    return np.array(found)


@pytest.mark.parametrize("make", [lambda: NeuralNet((20,)), SoftTree], ids=["net", "tree"])
def test_a_rare_class_is_not_lost(make):
    for rate in (0.02, 0.01):
        stream = KnownTruth(6_000, 20, 2, positive_rate=rate, random_state=1)
        assert found_by(make(), stream, seed=1)[-1] == 2


def test_without_balance_it_may_be():
    """Why every class counts as much as the others."""
    stream = KnownTruth(6_000, 20, 2, positive_rate=0.01, random_state=1)
    assert found_by(SoftTree(balance=False), stream, seed=1)[-1] < 2


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "least"), [(0.5, 4.9), (0.1, 4.9), (0.05, 4.5), (0.01, 4.0)])
@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_relevant_features_are_found_however_rare_positives_are(make, rate, least):
    """After 20,000 rows, on average over five seeds; measured: 5.0 of 5 in all eight cases."""
    found = [
        found_by(make(), KnownTruth(positive_rate=rate, random_state=seed), seed)[-1]
        for seed in range(5)
    ]
    assert np.mean(found) >= least, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "alone", "told"), [(0.5, 1_800, 700), (0.05, 1_600, 800), (0.01, 3_000, 1_800)]
)
@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_new_features_are_found_after_a_drift(make, rate, alone, told):
    """Rows until four of the five new features are selected, on average over five seeds.

    Measured for net and tree: 1,160 and 740 at 50 %, 900 and 1,000 at 5 %, 1,560 and 2,020 at 1 %.
    If the learner forgets 300 rows after the drift: 400 and 400, 480 and 500, 940 and 1,300.
    """
    for at_row, most in ((None, alone), (10_300, told)):
        rows = []
        for seed in range(5):
            stream = KnownTruth(positive_rate=rate, drift_at=0.5, random_state=seed)
            found = found_by(make(), stream, seed, at_row, keep=0.02)
            there = np.flatnonzero(found[100:] >= 4)
            rows.append(100 * (there[0] + 1) if len(there) else 10_000)
        assert np.mean(rows) <= most, rows
