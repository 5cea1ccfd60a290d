"""The Monte Carlo marginal: worked examples by their own draws, on processors and GPUs."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.belief import Belief, stable_weights
from fires.models import NeuralNet, SoftTree, TorchModel
from fires.models.monte_carlo import INPUTS, aggregated

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}  # twelve decimals are printed
SEVEN = {"rtol": 0.0, "atol": 0.51e-7}
TWO = {"hidden": (3,), "n_draws": 2, "dtype": "float64"}


def given(model, belief, r):
    """Draws of our own, from one row per draw in the order of the belief."""
    noise, at = {}, 0
    for name, shape in model.shapes(belief).items():
        n = math.prod(shape)
        part = torch.tensor(r[:, at : at + n].reshape(len(r), *shape), device=model.device)
        noise[name] = part.permute(2, 0, 1).contiguous() if name == INPUTS else part
        at += n
    assert at == r.shape[1]
    return noise


def slopes_by(model, belief, X, y, r, weight=None):
    """The log marginal likelihood with these draws, and its slopes as a belief."""
    parameters = model.unpack(belief)
    shown = model.on_device(X, y, weight)
    noise = given(model, belief, r)
    if INPUTS in noise:
        noise[INPUTS] = noise[INPUTS][shown.columns]
    found = model.marginal_slopes(parameters, shown, noise)
    halves = []
    for half, name in ((found.mu, "mu"), (found.sigma, "sigma")):
        halves.append({k: half.get(k, torch.zeros_like(v)) for k, v in parameters.mu.items()})
        for part, *slope in found.inputs:
            halves[-1][INPUTS][part] = slope[name == "sigma"]
    point = found.point | {}
    parameters.mu, parameters.sigma, parameters.point = *halves, point
    return float(found.value), parameters.as_belief()


def moved(belief, slope, n_rows):
    """One step of rate 1 in mu and sigma, nothing else moved."""
    mu, sigma = belief.mu + slope.mu / n_rows, belief.sigma + slope.sigma / n_rows
    return Belief(mu, np.maximum(sigma, 0.0), belief.point)


# --- worked examples --------------------------------------------------------------------------


class TestNet:
    """FIRES-ANN: 3 -> 2 -> 2 -> 2, all numbers by formula."""

    model = NeuralNet.as_published(hidden=(2, 2), n_draws=3, dtype="float64")
    k = np.arange(14)
    belief = Belief(
        0.3 * np.cos(1 + k), 0.5 + 0.1 * np.sin(k), {"fixed sizes": np.array([3.0, 2.0])}
    )
    r = 1.2 * np.sin(1.3 * np.arange(1, 4)[:, None] + 0.7 * (k + 1))
    X, y = np.array([[0.5, 1.0, 0.0], [1.0, 0.0, 0.25]]), np.array([1, 0])
    kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])

    @kinds
    def test_the_objective_is_the_log_of_the_mean_likelihood(self, kind):
        value, _ = slopes_by(self.model, self.belief, kind(self.X), self.y, self.r)
        assert value / 2 == pytest.approx(-0.698171151351, abs=0.5e-12)

    def test_each_row_has_its_own_marginal(self):
        for row, marginal in enumerate([0.515939086332, 0.479708940725]):
            rows = slice(row, row + 1)
            value, _ = slopes_by(self.model, self.belief, self.X[rows], self.y[rows], self.r)
            assert math.exp(value) == pytest.approx(marginal, abs=1e-12)

    def test_each_draw_has_its_own_likelihood(self):
        likelihoods = [
            [0.255673919739, 0.746856018634],
            [0.596344584587, 0.399072893895],
            [0.69579875467, 0.293197909645],
        ]
        alone = NeuralNet.as_published(hidden=(2, 2), n_draws=1, dtype="float64")
        for draw_, row in np.ndindex(3, 2):
            rows = slice(row, row + 1)
            r = self.r[draw_ : draw_ + 1]
            value, _ = slopes_by(alone, self.belief, self.X[rows], self.y[rows], r)
            assert math.exp(value) == pytest.approx(likelihoods[draw_][row], abs=1e-12)

    def test_draws_answer_for_a_row_by_their_responsibility(self):
        """Its slope is that of each draw alone, weighed by how much of the marginal is its own."""
        responsibilities = [
            [0.165183530713, 0.518964699376],
            [0.385281002083, 0.277302102738],
            [0.449535467204, 0.203733197886],
        ]
        alone = NeuralNet.as_published(hidden=(2, 2), n_draws=1, dtype="float64")
        for row in range(2):
            rows = slice(row, row + 1)
            batch = self.X[rows], self.y[rows]
            _, whole = slopes_by(self.model, self.belief, *batch, self.r)
            parts = [slopes_by(alone, self.belief, *batch, r[None])[1] for r in self.r]
            by = np.array(responsibilities)[:, row]
            for half in ("mu", "sigma"):
                alone_by_draw = np.array([getattr(part, half) for part in parts])
                assert_allclose(getattr(whole, half), by @ alone_by_draw, atol=1e-11)

    @kinds
    def test_the_slopes(self, kind):
        _, slope = slopes_by(self.model, self.belief, kind(self.X), self.y, self.r)
        g_mu = [
            [-1.244299464341e-03, -1.743868555520e-03, -9.309129664532e-05, 4.764430176315e-03],
            [-8.645452436202e-03, 2.271789098604e-03, -7.131978133298e-03, 5.008194400273e-03],
            [5.736255746747e-04, 2.368852059178e-03, 2.081585839108e-02, 1.271141616959e-02],
            [-2.081585839108e-02, -1.271141616959e-02],
        ]
        g_sigma = [
            [1.034993690270e-02, -1.167173760530e-02, 1.299548396605e-03, -5.922533071033e-05],
            [-2.356841485316e-03, 4.545252949492e-04, -7.690738563239e-03, 5.817646528686e-04],
            [4.246823027664e-03, 5.515266769673e-04, -1.372291912962e-02, -8.588026073194e-03],
            [1.094809205771e-02, 4.506035236036e-03],
        ]
        assert_allclose(slope.mu / 2, np.concatenate(g_mu), rtol=1e-12)
        assert_allclose(slope.sigma / 2, np.concatenate(g_sigma), rtol=1e-12)

    def test_the_weights_after_one_step(self):
        _, slope = slopes_by(self.model, self.belief, self.X, self.y, self.r)
        features = self.model.to_features(moved(self.belief, slope, 2))
        assert_allclose(features.mu, [0.041263348028, 0.031437121763, 0.05312049733], **DIGITS)
        assert_allclose(features.sigma, [1.512875261505, 1.497893040245, 1.499069599769], **DIGITS)
        omega = stable_weights(features)
        assert_allclose(omega, [-1.059262583911, -1.07242714877, -0.982515470647], **DIGITS)
        assert_array_equal(np.argsort(-omega), [2, 0, 1])

    def test_what_the_outputs_learn_adds_up_to_nothing(self):
        """So the mean of the last layer stays where it started, as the softmax has it."""
        _, slope = slopes_by(self.model, self.belief, self.X, self.y, self.r)
        assert_allclose(slope.mu[10:12] + slope.mu[12:14], 0.0, atol=1e-15)


PRINTED = {
    "logit": {
        "value": -0.730407798521,
        "draws": [
            [0.456408025576, 0.531699026295, 0.471273667043],
            [0.457765743491, 0.535145176188, 0.488707996369],
        ],
        "g_mu": [
            [0.0019632, -0.0268889, -0.0132113],
            [-0.0025091, 0.0189118, 0.0066066],
            [-0.0001395, 0.003079, 0.0018939],
        ],
        "g_sigma": [
            [0.0018593, -0.0172887, -0.0029508],
            [0.0005027, -0.0109241, -0.0058959],
            [0.0001356, -0.0022731, -0.0005907],
        ],
        "mu": [0.1291286, 0.0837754, -0.0386349],
        "sigma": [0.5962227, 0.6145599, 0.6281786],
        "omega": [0.655969, 0.162074, -0.122671],
    },
    "mixture": {
        "value": -0.729885335331,
        "draws": [
            [0.457170131224, 0.531031100833, 0.471929439616],
            [0.458553687333, 0.534415883102, 0.489189307606],
        ],
        "g_mu": [
            [0.0019683, -0.0266697, -0.0130431],
            [-0.0024911, 0.018711, 0.0065014],
            [-0.0001389, 0.0030418, 0.0018635],
        ],
        "g_sigma": [
            [0.0018615, -0.0171554, -0.0029274],
            [0.000502, -0.0108056, -0.0058],
            [0.0001346, -0.0022467, -0.0005834],
        ],
        "mu": [0.1291365, 0.0837692, -0.038624],
        "sigma": [0.5962229, 0.6146526, 0.6282208],
        "omega": [0.656071, 0.161965, -0.12274],
    },
}


class TestTree:
    """FIRES-SDT: depth 2, three features, all numbers by formula."""

    k = np.arange(9)
    phi = 0.5 * np.sin(1 + np.arange(8)).reshape(4, 2)
    belief = Belief(
        0.4 * np.cos(k), 0.6 + 0.1 * np.sin(k), {"leaves": phi, "fixed n_features": np.array([3.0])}
    )
    r = 1.1 * np.sin(0.9 * np.arange(1, 3)[:, None] + 0.5 * (k + 1))
    X = np.array([[0.5, 1.0, 0.0], [1.0, 0.0, 0.25], [0.2, 0.4, 0.8]])
    y = np.array([1, 0, 1])

    both = pytest.mark.parametrize("leaves", ["logit", "mixture"])

    def tree(self, leaves="logit", n_draws=2, **changes):
        return SoftTree.as_published(
            depth=2, n_draws=n_draws, leaves=leaves, dtype="float64", **changes
        )

    @both
    @pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
    def test_the_objective(self, leaves, kind):
        value, _ = slopes_by(self.tree(leaves), self.belief, kind(self.X), self.y, self.r)
        assert value / 3 == pytest.approx(PRINTED[leaves]["value"], abs=0.5e-12)

    @both
    def test_each_draw_has_its_own_likelihood(self, leaves):
        alone = self.tree(leaves, n_draws=1, penalty=0.0)
        for draw_, row in np.ndindex(2, 3):
            rows, r = slice(row, row + 1), self.r[draw_ : draw_ + 1]
            value, _ = slopes_by(alone, self.belief, self.X[rows], self.y[rows], r)
            printed = PRINTED[leaves]["draws"][draw_][row]
            assert math.exp(value) == pytest.approx(printed, abs=1e-12)

    @both
    def test_the_slopes_and_the_weights_after_one_step(self, leaves):
        model, printed = self.tree(leaves), PRINTED[leaves]
        _, slope = slopes_by(model, self.belief, self.X, self.y, self.r)
        assert_allclose(slope.mu.reshape(3, 3) / 3, printed["g_mu"], **SEVEN)
        assert_allclose(slope.sigma.reshape(3, 3) / 3, printed["g_sigma"], **SEVEN)
        features = model.to_features(moved(self.belief, slope, 3))
        assert_allclose(features.mu, printed["mu"], **SEVEN)
        assert_allclose(features.sigma, printed["sigma"], **SEVEN)
        assert_allclose(stable_weights(features), printed["omega"], rtol=0.0, atol=0.51e-6)

    def test_the_probabilities_of_the_leaves(self):
        """Read off a mixture whose leaves each stand for a class of their own."""
        printed = [
            [0.233257880383, 0.369296768676, 0.246794861705, 0.150650489237],
            [0.240824538677, 0.347824969882, 0.243249041148, 0.168101450293],
            [0.242348540409, 0.265971036984, 0.264351045673, 0.227329376933],
        ]
        model = self.tree("mixture", n_draws=1, penalty=0.0)
        sure = Belief(self.belief.mu, np.zeros(9), {**self.belief.point, "leaves": 100 * np.eye(4)})
        for row, leaf in np.ndindex(3, 4):
            value, _ = slopes_by(
                model, sure, self.X[row : row + 1], np.array([leaf]), np.zeros((1, 9))
            )
            assert math.exp(value) == pytest.approx(printed[row][leaf], abs=1e-12)

    @both
    def test_the_penalty_counts_every_node_once(self, leaves):
        sure = Belief(self.belief.mu, np.zeros(9), self.belief.point)
        without, with_ = (
            slopes_by(self.tree(leaves, penalty=size), sure, self.X, self.y, self.r)[0]
            for size in (0.0, 0.01)
        )
        assert (without - with_) / 3 == pytest.approx(0.014079502398, abs=0.5e-12)


def test_the_softmax_is_a_net_without_layers():
    model = NeuralNet.as_published(hidden=(), n_draws=4, dtype="float64")
    x = np.array([[0.5, 1.0, 0.0, -0.4]])
    mu = [[0.4, -0.3, 0.2, 0.6], [0.1, 0.2, -0.1, 0.0], [-0.5, 0.1, 0.0, -0.6]]
    belief = Belief(np.ravel(mu), np.full(12, 0.5), {"fixed sizes": np.array([4.0, 3.0])})
    l, k, j = np.indices((4, 3, 4)) + 1.0  # noqa: E741 - the letters of the example
    r = np.sin(1.7 * l + 0.9 * k + 0.3 * j).reshape(4, 12)
    value, slope = slopes_by(model, belief, x, np.array([2]), r)
    assert value == pytest.approx(-1.060516202825, abs=0.5e-12)
    g_mu = [
        [-0.111326541107, -0.222653082214, 0.0, 0.089061232886],
        [-0.198529042348, -0.397058084696, 0.0, 0.158823233879],
        [0.309855583455, 0.619711166911, 0.0, -0.247884466764],
    ]
    g_sigma = [
        [-0.006188306133, -0.001841084691, 0.0, -0.007507019358],
        [-0.004595807657, -0.022646326971, 0.0, 0.016986318543],
        [0.003378496883, 0.011652432598, 0.0, -0.007190544977],
    ]
    assert_allclose(slope.mu.reshape(3, 4), g_mu, **DIGITS)
    assert_allclose(slope.sigma.reshape(3, 4), g_sigma, **DIGITS)
    assert_allclose(slope.mu.reshape(3, 4).sum(axis=0), 0.0, atol=1e-15)


# --- draws ------------------------------------------------------------------------------------


def batch(n_rows=12, n_features=5, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    return X, rng.integers(0, 2, n_rows)


MODELS = {
    "net": lambda: NeuralNet(**TWO),
    "published net": lambda: NeuralNet.as_published(**TWO),
    "softmax": lambda: NeuralNet((), n_draws=2, dtype="float64"),
    "tree": lambda: SoftTree(2, n_draws=2, dtype="float64"),
    "mixture": lambda: SoftTree(2, n_draws=2, leaves="mixture", dtype="float64"),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())


@every_model
@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_equals_dense_by_the_same_draws(make, n_classes, kind):
    """Also where some columns are not shown: their draws are not needed."""
    model = make()
    X, y = batch()
    X[:, 3] = 0.0
    y = X[:, 0] + 0.5 if n_classes == 0 else np.arange(12) % n_classes
    belief = model.init(5, n_classes, np.random.default_rng(1))
    r = np.random.default_rng(2).normal(size=(2, len(belief.mu)))
    weight = np.linspace(0.0, 2.0, 12)
    dense_value, dense = slopes_by(model, belief, X, y, r, weight)
    value, sparse = slopes_by(model, belief, kind(X), y, r, weight)
    assert value == pytest.approx(dense_value, rel=1e-13)
    assert_allclose(sparse.mu, dense.mu, rtol=1e-12, atol=1e-14)
    assert_allclose(sparse.sigma, dense.sigma, rtol=1e-12, atol=1e-14)
    for name in dense.point:
        assert_allclose(sparse.point[name], dense.point[name], rtol=1e-12, atol=1e-14)


@every_model
def test_only_what_a_sparse_batch_shows_is_drawn(make):
    model = make()
    X = sp.csr_array(([1.0, -2.0, 0.5], ([0, 1, 2], [7, 90_000, 7])), shape=(3, 100_000))
    belief = model.init(100_000, 2, np.random.default_rng(0))
    shown = model.on_device(X, np.array([0, 1, 0]), None)
    noise = model.draw_noise(model.unpack(belief), shown, torch.Generator())
    assert noise[INPUTS].shape[:2] == (2, 2)  # two columns, two draws


def test_every_step_draws_anew_and_every_draw_is_its_own():
    model = NeuralNet(**TWO)
    belief = model.init(5, 2, np.random.default_rng(0))
    shown, parameters = model.on_device(*batch(), None), model.unpack(belief)
    generator = torch.Generator().manual_seed(0)
    seen = [
        torch.cat([part.clone().flatten() for part in noise.values()])
        for noise in (model.draw_noise(parameters, shown, generator) for _ in range(3))
    ]
    numbers = torch.cat(seen)
    assert len(numbers.unique()) == len(numbers)
    assert abs(float(numbers.mean())) < 0.2
    assert abs(float(numbers.std()) - 1.0) < 0.15
    again = model.draw_noise(parameters, shown, torch.Generator().manual_seed(0))
    assert torch.equal(torch.cat([part.flatten() for part in again.values()]), seen[0])


def test_the_estimate_is_right_on_average():
    """Many draws of a softmax, against the integral for two classes and one feature."""
    model = NeuralNet.as_published(hidden=(), n_draws=200_000, dtype="float64")
    belief = Belief(np.array([0.3, -0.2]), np.array([0.9, 0.4]), {"fixed sizes": np.array([1, 2])})
    value = model.log_marginal(
        belief, np.array([[1.5]]), np.array([0]), None, np.random.default_rng(0)
    )
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    a, v = 1.5 * 0.5, 1.5**2 * (0.9**2 + 0.4**2)
    exact = shares @ (1.0 / (1.0 + np.exp(-a - np.sqrt(v) * nodes))) / shares.sum()
    assert math.exp(value) == pytest.approx(exact, abs=3e-3)


@pytest.mark.parametrize(
    ("how", "mu", "sigma"),
    [
        ("paper", [0.0, 2.0], [2.0, 0.5]),
        ("abs", [3.0, 2.0], [2.0, 0.5]),
        ("rms", [3.0, math.sqrt(5.0)], [math.sqrt(5.0), 0.5]),
    ],
)
def test_aggregation(how, mu, sigma):
    found = aggregated(
        torch.tensor([[3.0, -3.0], [1.0, 3.0]]), torch.tensor([[1.0, 3.0], [0.5, 0.5]]), how
    )
    assert_allclose(found[0], mu, rtol=1e-6)
    assert_allclose(found[1], sigma, rtol=1e-6)


# --- on a GPU ---------------------------------------------------------------------------------

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


@gpu
@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("form", ["scaled", "paper"])
@pytest.mark.parametrize(
    "make",
    [
        lambda **c: NeuralNet((6, 4), n_draws=3, dtype="float64", **c),
        lambda **c: NeuralNet((), n_draws=3, dtype="float64", **c),
        lambda **c: SoftTree(3, n_draws=3, dtype="float64", **c),
        lambda **c: SoftTree(2, n_draws=3, leaves="mixture", dtype="float64", **c),
    ],
    ids=["net", "softmax", "tree", "mixture"],
)
def test_a_gpu_gives_what_the_processor_gives(make, form, kind, n_classes):
    X, y = batch(n_rows=30, n_features=40, density=0.2)
    y = X[:, 0] + 0.5 if n_classes == 0 else np.arange(30) % n_classes
    here, there = make(form=form), make(form=form, device="cuda")
    belief = here.init(40, n_classes, np.random.default_rng(1))
    r = np.random.default_rng(2).normal(size=(3, len(belief.mu)))
    weight = np.linspace(0.1, 2.0, 30)
    value, slope = slopes_by(here, belief, kind(X), y, r, weight)
    its_value, its_slope = slopes_by(there, belief, kind(X), y, r, weight)
    assert its_value == pytest.approx(value, rel=1e-11)
    assert_allclose(its_slope.mu, slope.mu, rtol=1e-9, atol=1e-11)
    assert_allclose(its_slope.sigma, slope.sigma, rtol=1e-9, atol=1e-11)
    for name in slope.point:
        assert_allclose(its_slope.point[name], slope.point[name], rtol=1e-9, atol=1e-11)


def module():
    torch.manual_seed(5)
    layers = torch.nn.Linear(5, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)
    return torch.nn.Sequential(*layers)


@gpu
def test_a_module_on_a_gpu_gives_what_it_gives_on_the_processor():
    X, y = batch()
    here = TorchModel(module(), n_draws=2, dtype="float64")
    there = TorchModel(module(), n_draws=2, dtype="float64", device="cuda")
    belief = here.init(5, 2, np.random.default_rng(1))
    r = np.random.default_rng(2).normal(size=(2, len(belief.mu)))
    value, slope = slopes_by(here, belief, X, y, r)
    its_value, its_slope = slopes_by(there, belief, X, y, r)
    assert its_value == pytest.approx(value, rel=1e-11)
    assert_allclose(its_slope.mu, slope.mu, rtol=1e-9, atol=1e-11)
