"""Any module of torch's: its outputs as a likelihood, and all that a module may do."""

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FIRES
from fires.core.belief import Belief
from fires.core.state import read_state
from fires.models import TorchModel

torch = pytest.importorskip("torch")
nn = torch.nn
torch.set_num_threads(1)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 4))
TWO = (X[:, 0] > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NUMBERS = X[:, 0] - X[:, 1]


def net(n_outputs=1, n_hidden=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, n_hidden), nn.Tanh(), nn.Linear(n_hidden, n_outputs))


class After(nn.Module):
    """A linear layer, and something done to its output."""

    def __init__(self, do=lambda z: z, n_outputs=1):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.do = nn.Linear(4, n_outputs), do

    def forward(self, x):
        return self.do(self.layer(x))


def selector(model, **settings):
    return FIRES(2, model=model, random_state=0, **settings)


def slope(model, X=X, y=TWO, n_classes=2, seed=3):
    belief = model.init(X.shape[1], n_classes, np.random.default_rng(0))
    return model.gradient(belief, X, y, None, np.random.default_rng(seed))


def values(selector, path):
    """Everything that was learnt, to the bit."""
    selector.save(path)
    header, arrays = read_state(path)
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


# --- likelihoods --------------------------------------------------------------------------------


def certain(model, n_classes):
    """A belief without doubt: the module as it is."""
    start = model.init(4, n_classes, np.random.default_rng(0))
    return Belief(start.mu, np.zeros_like(start.mu), start.point)


def log_marginal(model, y, n_classes):
    return model.log_marginal(certain(model, n_classes), X, y, None, np.random.default_rng(0))


@pytest.mark.parametrize("do", [lambda z: z, lambda z: z[:, 0]], ids=["column", "flat"])
def test_one_output_is_the_log_odds_of_the_second_class(do):
    model = TorchModel(After(do), dtype="float64")
    odds = (copy.deepcopy(model.module).double()(torch.tensor(X))).detach().numpy().ravel()
    expected = -np.logaddexp(0.0, np.where(TWO == 1, -odds, odds)).sum()
    assert log_marginal(model, TWO, 2) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("y", "n_classes"), [(TWO, 2), (THREE, 3)])
def test_several_outputs_are_a_softmax(y, n_classes):
    model = TorchModel(net(n_classes), dtype="float64")
    scores = copy.deepcopy(model.module).double()(torch.tensor(X))
    expected = -nn.functional.cross_entropy(scores, torch.tensor(y), reduction="sum")
    assert log_marginal(model, y, n_classes) == pytest.approx(float(expected), rel=1e-12)


def test_a_numeric_target_is_normal_round_the_output():
    model = TorchModel(net(), dtype="float64")
    mean = copy.deepcopy(model.module).double()(torch.tensor(X)).detach().numpy().ravel()
    expected = -0.5 * ((NUMBERS - mean) ** 2 + math.log(2 * math.pi)).sum()
    assert log_marginal(model, NUMBERS, 0) == pytest.approx(expected, rel=1e-12)


def test_a_likelihood_of_ones_own():
    def poisson(outputs, y):
        return -nn.functional.poisson_nll_loss(outputs[:, 0], y, full=True, reduction="none")

    model = TorchModel(net(), likelihood=poisson, task="numbers", dtype="float64")
    y = np.arange(12.0) % 3
    rate = copy.deepcopy(model.module).double()(torch.tensor(X))
    expected = poisson(rate, torch.tensor(y)).sum()
    assert log_marginal(model, y, 0) == pytest.approx(float(expected), rel=1e-12)


def test_a_likelihood_of_ones_own_is_told_the_same_class_by_the_same_number():
    """Also where the first class that is met turns out to be the smaller one."""
    told = []

    def likelihood(outputs, y):
        told.append(y.tolist())
        return nn.functional.logsigmoid((2.0 * y - 1.0) * outputs[:, 0])

    chosen = selector(TorchModel(net(), n_draws=1, likelihood=likelihood))
    chosen.partial_fit(X, np.full(12, "b"))
    chosen.partial_fit(X, np.full(12, "a"))
    assert told == [[1] * 12, [0] * 12]
    chosen = selector(TorchModel(net(), n_draws=1, likelihood=likelihood))
    told.clear()
    chosen.partial_fit(X, np.full(12, "a"))
    chosen.partial_fit(X, np.full(12, "b"))
    chosen.partial_fit(X, np.full(12, "a"))
    assert told[0] == told[2] != told[1]


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_smaller_class_may_come_later(n_outputs):
    """What was learnt of a class stays with it: as if its name had been the greater one."""
    one, other = (selector(TorchModel(net(n_outputs), dtype="float64")) for _ in range(2))
    for _ in range(3):
        one.partial_fit(X, np.ones(12, dtype=int))
        other.partial_fit(X, np.ones(12, dtype=int))
    for _ in range(3):
        one.partial_fit(X, 2 * TWO + 1)  # classes 1 and 3: what was met first is now the first
        other.partial_fit(X, np.where(TWO == 1, -1, 1))  # classes -1 and 1: it stays the second
    assert_array_equal(one.weights_, other.weights_)


def test_a_third_class_must_be_announced():
    chosen = selector(TorchModel(net(3)))
    with pytest.raises(ValueError, match=r"outputs of shape \(12, 3\).*pass them as classes=\["):
        chosen.partial_fit(X, TWO)
    chosen.partial_fit(X, TWO, classes=[0, 1, 2])
    chosen.partial_fit(X, THREE)
    chosen = selector(TorchModel(net(2))).partial_fit(X, TWO)
    with pytest.raises(ValueError, match=r"TorchModel\(Sequential\) cannot add new classes"):
        chosen.partial_fit(X, THREE)
    assert chosen.partial_fit(X, TWO).classes_.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("do", "y", "said"),
    [
        (lambda z: z.sum(), TWO, r"outputs of shape \(\) for 12 rows"),
        (lambda z: z[:5], TWO, r"outputs of shape \(5, 1\) for 12 rows"),
        (lambda z: z.expand(12, 4), TWO, r"outputs of shape \(12, 4\) for 12 rows and 2 classes"),
        (lambda z: z[:, :, None], TWO, r"outputs of shape \(12, 1, 1\)"),
        (lambda z: z.expand(12, 2), NUMBERS, r"a numeric target needs one number per row"),
        (lambda z: z, THREE, r"outputs of shape \(12, 1\) for 12 rows and 3 classes"),
        (lambda z: (z, z), TWO, r"gives a tuple, not a tensor"),
        (lambda z: {"logits": z}, TWO, r"gives a dict, not a tensor"),
        (lambda z: None, TWO, r"gives a NoneType, not a tensor"),
    ],
)
def test_outputs_that_fit_no_target_are_named(do, y, said):
    chosen = selector(TorchModel(After(do)))
    with pytest.raises(ValueError, match=said) as caught:
        chosen.partial_fit(X, y)
    assert "TorchModel(After)" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not hasattr(chosen, "n_features_in_")


@pytest.mark.parametrize(
    "likelihood",
    [
        lambda outputs, y: outputs.mean(),
        lambda outputs, y: outputs[:3, 0],
        lambda outputs, y: 1.0,
        lambda outputs, y: outputs.nothing,
        lambda outputs: outputs,
    ],
)
def test_a_likelihood_that_fails_is_named(likelihood):
    with pytest.raises(ValueError, match=r"^TorchModel\(Sequential\) failed on 12 rows of 4 "):
        selector(TorchModel(net(), likelihood=likelihood)).partial_fit(X, TWO)


@pytest.mark.parametrize("do", [lambda z: z.squeeze(), lambda z: z[:, 0], lambda z: z])
@pytest.mark.parametrize("y", [TWO, NUMBERS], ids=["classes", "numbers"])
def test_one_row_is_a_batch(do, y):
    chosen = selector(TorchModel(After(do)))
    chosen.partial_fit(X, y)
    for row in range(3):
        chosen.partial_fit(X[row : row + 1], y[row : row + 1])
    assert np.isfinite(chosen.weights_).all()


# --- which parameters are random -----------------------------------------------------------------


def test_all_parameters_are_random_unless_some_are_named():
    assert TorchModel(net()).random == ["0.weight", "0.bias", "2.weight", "2.bias"]
    model = TorchModel(net(), random=["2.weight", "0.weight"], dtype="float64")
    assert model.random == ["0.weight", "2.weight"]
    belief = model.init(4, 2, np.random.default_rng(0))
    assert len(belief.mu) == 4 * 3 + 3
    assert {name for name in belief.point if not name.startswith("fixed")} == {"0.bias", "2.bias"}


def test_the_order_of_the_names_is_the_module_s():
    """A set has no order of its own, and draws must be the same in every process."""
    names = ["2.bias", "0.bias", "2.weight", "0.weight"]
    kinds = (set(names), tuple(names), iter(names), dict.fromkeys(names))
    assert {tuple(TorchModel(net(), random=kind).random) for kind in kinds} == {
        ("0.weight", "0.bias", "2.weight", "2.bias")
    }
    assert TorchModel(net(), random="0.weight").random == ["0.weight"]


def test_parameters_that_are_not_random_are_learnt_all_the_same():
    chosen = selector(TorchModel(net(), random=["0.weight"], rate=10.0))
    chosen.partial_fit(X, TWO)
    before = {k: v.clone() for k, v in chosen._learner_.parameters.point.items()}
    chosen.partial_fit(X, TWO)
    after = chosen._learner_.parameters.point
    assert set(after) == {"0.bias", "2.weight", "2.bias"}
    assert all((after[name] != before[name]).any() for name in after)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["0.weigth"], r"no floating-point parameter '0.weigth'; it has 0.weight, 0.bias, 2"),
        (["0.weight", "1.weight"], r"no floating-point parameter '1.weight'"),
        ([], r"no parameters that could be random"),
        ([3], r"no floating-point parameter '3'"),
    ],
)
def test_names_that_are_not_there_are_named(wrong, said):
    with pytest.raises(ValueError, match=said):
        TorchModel(net(), random=wrong)


def test_a_module_without_parameters_has_nothing_random():
    with pytest.raises(ValueError, match=r"TorchModel\(Tanh\) has no parameters"):
        TorchModel(nn.Tanh())


@pytest.mark.parametrize("wrong", [nn.Linear, "net", None, lambda x: x])
def test_what_is_no_module_is_refused(wrong):
    with pytest.raises(TypeError, match=r"module must be a torch\.nn\.Module; got"):
        TorchModel(wrong)


@pytest.mark.parametrize("name", ["likelihood", "to_features"])
def test_what_cannot_be_called_is_refused(name):
    with pytest.raises(TypeError, match=f"{name} must be a function; got 5"):
        TorchModel(net(), **{name: 5})


def test_sigma_starts_smaller_where_many_inputs_meet():
    belief = TorchModel(net(), sigma_init=0.6).init(4, 2, np.random.default_rng(0))
    assert_allclose(belief.sigma[:12], 0.3)  # of four inputs
    assert_allclose(belief.sigma[12:15], 0.6)  # biases


def test_mu_starts_at_the_module_s_own_parameters():
    module = net()
    mu = TorchModel(module).init(4, 2, np.random.default_rng(0)).mu
    own = torch.cat([p.detach().flatten() for p in module.parameters()])
    assert_allclose(mu, own.numpy(), rtol=1e-7)


# --- names that could be mistaken for ours -------------------------------------------------------


class Named(nn.Module):
    """A factor for each feature, under a name of one's choice."""

    def __init__(self, kind, name):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.name = nn.Linear(4, 1), name
        value = torch.tensor([1.0, 2.0, 0.5, -1.0])
        if kind == "buffer":
            self.register_buffer(name, value)
        else:
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, x):
        return self.layer(x * getattr(self, self.name))


@pytest.mark.parametrize("y", [TWO, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize("kind", ["buffer", "plain", "random"])
@pytest.mark.parametrize("name", ["order", "n_features", "inputs", "fixed", "mu", "log_noise"])
def test_a_name_means_nothing_to_us(name, kind, y):
    """Parameters and buffers may be called what we call things ourselves."""
    random = None if kind == "random" else ["layer.weight", "layer.bias"]
    found = []
    for called in (name, "something"):
        model = TorchModel(Named(kind, called), random=random, dtype="float64")
        found.append(slope(model, y=y, n_classes=2 if y is TWO else 0))
        selector(model).partial_fit(X, y).partial_fit(X, y)
    assert_array_equal(found[0].mu, found[1].mu)
    if kind == "plain":
        assert_array_equal(found[0].point[name], found[1].point["something"])
        assert found[0].point[name].all()


def test_a_part_called_fixed_is_learnt_like_any_other():
    class Held(nn.Module):
        def __init__(self):
            super().__init__()
            self.fixed = nn.Linear(4, 1)

        def forward(self, x):
            return self.fixed(x)

    model = TorchModel(Held(), random=["fixed.weight"], dtype="float64")
    assert slope(model).point["fixed.bias"].all()


# --- buffers, and modules that change themselves -------------------------------------------------


def test_buffers_are_kept_as_they_are():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Tanh(), nn.Linear(3, 1))
    module(torch.randn(50, 4))  # so that it has seen something
    before = copy.deepcopy(module.state_dict())
    chosen = selector(TorchModel(module))
    for _ in range(3):
        chosen.partial_fit(X, TWO)
    chosen.partial_fit(X[:1], TWO[:1])  # in training it would refuse one row
    fixed = chosen._learner_.parameters.fixed
    assert torch.equal(fixed["buffer 1.running_mean"].float(), before["1.running_mean"])
    assert torch.equal(fixed["buffer 1.running_var"].float(), before["1.running_var"])
    assert module.training
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


class Counting(nn.Module):
    """Counts its calls, and the count changes what it gives."""

    def __init__(self, dtype):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 1)
        self.register_buffer("calls", torch.zeros(1, dtype=dtype))

    def forward(self, x):
        self.calls.add_(1)
        return self.layer(x) + self.calls


@pytest.mark.parametrize("count", [torch.float32, torch.float64, torch.int64])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_module_that_counts_in_its_buffers_starts_from_the_same_every_time(count, dtype):
    model = TorchModel(Counting(count), dtype=dtype)
    assert_array_equal(slope(model).mu, slope(model).mu)
    chosen = selector(model)
    for _ in range(3):
        chosen.partial_fit(X, TWO)
    assert not model.module.calls.any()
    assert not any(v.any() for k, v in chosen._learner_.parameters.fixed.items() if "calls" in k)


def test_the_user_s_module_is_never_changed():
    module = net().train()
    module[0].weight.requires_grad_(False)
    before = copy.deepcopy(module.state_dict())
    flags = [p.requires_grad for p in module.parameters()]
    held = [p.data_ptr() for p in module.parameters()]
    chosen = selector(TorchModel(module, rate=10.0))
    for _ in range(3):
        chosen.partial_fit(X, TWO)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])
    assert [p.requires_grad for p in module.parameters()] == flags
    assert [p.data_ptr() for p in module.parameters()] == held
    assert all(p.grad is None for p in module.parameters())
    assert module.training


def test_the_module_may_be_changed_afterwards_without_consequence():
    module = net()
    model = TorchModel(module)
    first = slope(model).mu
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    assert_array_equal(slope(model).mu, first)


def test_one_model_serves_several_selectors():
    model = TorchModel(net(), rate=10.0)
    one, two, alone = selector(model), selector(model), selector(TorchModel(net(), rate=10.0))
    for _ in range(3):
        one.partial_fit(X, TWO)
        two.partial_fit(-X, TWO)
        alone.partial_fit(X, TWO)
    assert_array_equal(one.weights_, alone.weights_)


# --- what vmap cannot do -------------------------------------------------------------------------


class Branching(nn.Module):
    """Looks at numbers, which a batched run cannot."""

    def __init__(self, looks):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.looks = nn.Linear(4, 1), looks

    def forward(self, x):
        z = self.layer(x)
        if self.looks and float(z.detach().abs().max()) < 0.0:
            return -z
        return z


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_go_one_by_one_where_they_cannot_go_together(dtype):
    together, apart = (slope(TorchModel(Branching(b), dtype=dtype)) for b in (False, True))
    close = {"rtol": 0.0, "atol": 1e-4 if dtype == "float32" else 1e-12}
    assert_allclose(apart.mu, together.mu, **close)
    assert_allclose(apart.sigma, together.sigma, **close)


MODULES = {
    "frozen": lambda: net().requires_grad_(False),
    "half": lambda: net().half(),
    "double": lambda: net().double(),
    "double inside": lambda: After(lambda z: z.double()),
    "half inside": lambda: After(lambda z: z.half()),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.9), nn.Linear(3, 1)).train(),
    "layer norm": lambda: nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 1)),
    "prelu": lambda: nn.Sequential(nn.Linear(4, 3), nn.PReLU(), nn.Linear(3, 1)),
}


@pytest.mark.parametrize("make", MODULES.values(), ids=MODULES.keys())
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_modules_of_many_kinds(make, dtype):
    chosen = selector(TorchModel(make(), dtype=dtype))
    before = chosen.partial_fit(X, TWO).weights_
    assert (chosen.partial_fit(X, TWO).weights_ != before).all()


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.factor = nn.Linear(4, 1), nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.factor * self.layer(x)


@pytest.mark.parametrize("random", [None, ["layer.weight"]])
def test_a_parameter_may_be_one_number(random, tmp_path):
    chosen = selector(TorchModel(Scalar(), random=random)).partial_fit(X, TWO)
    chosen.save(tmp_path / "state")
    again = fires.load(tmp_path / "state", model=TorchModel(Scalar(), random=random))
    for each in (chosen, again):
        each.partial_fit(X, TWO)
    assert_array_equal(again.weights_, chosen.weights_)


def test_tied_parameters_are_one():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 1)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.out(self.b(torch.tanh(self.a(x))))

    model = TorchModel(Tied())
    assert model.random == ["a.weight", "a.bias", "b.bias", "out.weight", "out.bias"]
    assert np.isfinite(selector(model).partial_fit(X, TWO).weights_).all()


# --- modules that fail ---------------------------------------------------------------------------


class Failing(nn.Module):
    """Works until told otherwise."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        if len(x) == 5:
            raise KeyError("out of luck\nand more lines")
        if len(x) == 6:
            return self.layer(x[:, :3])
        if len(x) == 7:
            return self.layer(x) * math.nan
        if len(x) == 8:
            return self.layer(x).detach()
        if len(x) == 9:
            raise KeyboardInterrupt
        return self.layer(x)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("y", [TWO, NUMBERS], ids=["classes", "numbers"])
@pytest.mark.parametrize(
    ("n_rows", "said"),
    [
        (5, r"^TorchModel\(Failing\) failed on 5 rows of 4 features: KeyError: "),
        (6, r"^TorchModel\(Failing\) failed on 6 rows of 4 features: RuntimeError: "),
        (7, r"^The gradient of TorchModel\(Failing\) is not finite on this batch: "),
        (8, r"^TorchModel\(Failing\) failed on 8 rows of 4 features: ValueError: its outputs "),
    ],
)
def test_a_module_that_fails_is_named_and_leaves_all_as_it_was(n_rows, said, y, kind, tmp_path):
    chosen, other = (selector(TorchModel(Failing(), rate=10.0)) for _ in range(2))
    for each in (chosen, other):
        each.partial_fit(kind(X), y)
    before = values(chosen, tmp_path / "one")
    with pytest.raises(ValueError, match=said) as caught:
        chosen.partial_fit(kind(X[:n_rows]), y[:n_rows])
    assert "\n" not in str(caught.value)
    assert values(chosen, tmp_path / "one") == before
    for each in (chosen, other):
        each.partial_fit(kind(X), y)
    assert values(chosen, tmp_path / "one") == values(other, tmp_path / "two")


def test_an_interrupt_inside_a_module_leaves_all_as_it_was(tmp_path):
    chosen = selector(TorchModel(Failing())).partial_fit(X, TWO)
    before = values(chosen, tmp_path / "state")
    with pytest.raises(KeyboardInterrupt):
        chosen.partial_fit(X[:9], TWO[:9])
    assert values(chosen, tmp_path / "state") == before


def test_a_module_that_fails_at_once_leaves_a_new_selector_new():
    chosen = selector(TorchModel(Failing()))
    settings = set(vars(chosen))
    with pytest.raises(ValueError, match="out of luck"):
        chosen.partial_fit(X[:5], TWO[:5])
    assert set(vars(chosen)) == settings
    assert chosen.partial_fit(X, TWO).n_samples_seen_ == 12


class BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, slope):
        raise ArithmeticError("no slope here")


def test_a_module_without_a_slope_is_named():
    with pytest.raises(ValueError, match=r"TorchModel\(After\) cannot be differentiated: Arith"):
        selector(TorchModel(After(BadBackward.apply))).partial_fit(X, TWO)


# --- from parameters to features -----------------------------------------------------------------


def test_features_come_from_the_first_matrix_that_meets_them():
    model = TorchModel(net(), aggregate="abs")
    belief = model.init(4, 2, np.random.default_rng(0))
    weight = belief.mu[:12].reshape(3, 4)
    assert_allclose(model.to_features(belief).mu, np.abs(weight).mean(axis=0))


def convolution():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3), nn.Flatten(), nn.Tanh(), nn.Linear(4, 1)
    )


def test_a_module_without_such_a_matrix_asks_for_a_function():
    chosen = selector(TorchModel(net(), random=["0.bias", "2.weight"]))
    with pytest.raises(ValueError, match="one column for each of the 4 features; say with to_feat"):
        chosen.partial_fit(X, TWO)
    assert not hasattr(chosen, "n_features_in_")


def test_to_features_says_what_parameters_mean():
    seen = []

    def to_features(mu, sigma):
        seen.append((mu, sigma))
        return mu["1.weight"].sum() * np.arange(4), np.arange(4.0)[::-1]

    chosen = selector(TorchModel(convolution(), to_features=to_features)).partial_fit(X, TWO)
    assert_array_equal(chosen.uncertainties_, [3.0, 2.0, 1.0, 0.0])
    assert chosen.importances_[0] == 0.0
    mu, sigma = seen[-1]
    assert set(mu) == set(sigma) == {"1.weight", "1.bias", "4.weight", "4.bias"}
    assert mu["1.weight"].shape == sigma["1.weight"].shape == (2, 1, 3)
    assert isinstance(mu["1.weight"], np.ndarray)


def test_to_features_may_work_in_place_and_give_any_numbers():
    def to_features(mu, sigma):
        for half in (mu, sigma):
            for value in half.values():
                value[...] = 0.0
        return [1, 2, 3, 4], torch.ones(4)

    chosen = selector(TorchModel(net(), to_features=to_features)).partial_fit(X, TWO)
    assert_array_equal(chosen.importances_, [1.0, 2.0, 3.0, 4.0])
    assert all(bool(v.any()) for v in chosen._learner_.parameters.mu.values())
    assert_array_equal(chosen.partial_fit(sp.csr_array(X), TWO).importances_, [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda mu, sigma: None, "failed: TypeError"),
        (lambda mu, sigma: mu["nothing"], "failed: KeyError: 'nothing'"),
        (lambda mu: mu, "failed: TypeError"),
        (lambda mu, sigma: (["a"] * 4, [1.0] * 4), "failed: ValueError"),
        (lambda mu, sigma: (np.ones(3), np.ones(3)), r"got \(3,\) and \(3,\)"),
        (lambda mu, sigma: (np.ones((4, 1)), np.ones(4)), r"got \(4, 1\) and \(4,\)"),
        (lambda mu, sigma: (np.ones(4),) * 3, r"got \(4,\) and \(4,\) and \(4,\)"),
        (lambda mu, sigma: np.ones(4), r"got \(\) and"),
    ],
)
def test_a_to_features_that_fails_is_named_before_anything_is_learnt(wrong, said):
    chosen = selector(TorchModel(net(), to_features=wrong))
    with pytest.raises(ValueError, match=rf"^to_features of TorchModel\(Sequential\).*{said}"):
        chosen.partial_fit(X, TWO)
    assert not hasattr(chosen, "n_features_in_")


# --- state ---------------------------------------------------------------------------------------


def batches(target, n=6):
    rng = np.random.default_rng(5)
    for _ in range(n):
        X = rng.normal(size=(15, 4))
        yield (
            X,
            {"two": X[:, 0] > 0, "three": np.digitize(X[:, 1], [-0.5, 0.5])}.get(
                target, X[:, 0] * 3.0
            ),
        )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("target", ["two", "three", "numbers"])
@pytest.mark.parametrize("random", [None, ["0.weight"]])
def test_it_goes_on_bit_for_bit(kind, target, random, tmp_path):
    def model():
        return TorchModel(net(3 if target == "three" else 1), random=random, rate=10.0)

    chosen = selector(model())
    classes = [0, 1, 2] if target == "three" else None
    parts = list(batches(target))
    for X, y in parts[:3]:
        chosen.partial_fit(kind(X), y, classes=classes)
    before = values(chosen, tmp_path / "one")
    module = model()
    again = fires.load(tmp_path / "one", model=module)
    assert again.model is module
    assert values(again, tmp_path / "two") == before
    for X, y in parts[3:]:
        chosen.partial_fit(kind(X), y)
        again.partial_fit(kind(X), y)
    assert values(again, tmp_path / "two") == values(chosen, tmp_path / "one")
    assert_array_equal(again.weights_, chosen.weights_)


def test_what_was_learnt_takes_the_place_of_what_the_module_holds(tmp_path):
    chosen = selector(TorchModel(net(), rate=10.0)).partial_fit(X, TWO)
    chosen.save(tmp_path / "state")
    other = net()
    with torch.no_grad():
        other[0].weight.zero_()
    again = fires.load(tmp_path / "state", model=TorchModel(other, rate=10.0))
    assert_array_equal(again.weights_, chosen.weights_)


def test_what_does_not_fit_is_refused_in_one_line(tmp_path):
    path = tmp_path / "state"
    selector(TorchModel(net())).partial_fit(X, TWO).save(path)
    one_hidden = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3), nn.Linear(3, 1))
    for model, said in [
        (None, r"a model of your own, TorchModel\(Sequential\).*fires\.load\(path, model=\.\.\.\)"),
        (net(), r"learnt with TorchModel\(Sequential\); model is a Sequential"),
        (TorchModel(After()), r"learnt with TorchModel\(Sequential\); model is a TorchModel\(Aft"),
        (TorchModel(net(n_hidden=5)), r"The saved state has .* of shape .*; in this TorchModel\("),
        (TorchModel(net(2)), r"The saved state has 2\..* of shape "),
        (TorchModel(one_hidden), r"The saved state has .* of shape "),
        (TorchModel(net(), random=["0.weight"]), r"The saved state has .* of shape "),
    ]:
        with pytest.raises(ValueError, match=said) as caught:
            fires.load(path, model=model)
        assert "\n" not in str(caught.value)
