"""Every base model keeps the contract of ``fires.checks``: ours, a module, the page's skeleton."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from fires.checks import check_model, model_checks
from fires.core.belief import Belief
from fires.models import Linear, NeuralNet, SoftTree, TorchModel
from fires.models.base import BaseModel

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"
SMALL = {"n_draws": 3, "dtype": "float64"}


@cache
def code_of(page):
    """Everything the page shows, run from top to bottom."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    return names


def wrapped(n_outputs=1, **settings):
    import torch

    torch.manual_seed(7)  # the module's own start; nothing else is drawn from there
    layers = torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, n_outputs)
    return TorchModel(torch.nn.Sequential(*layers), **SMALL, **settings)


MODELS = {
    "page": (lambda _: code_of(PAGE)["Robust"](), ["numbers"]),
    "probit": (lambda _: Linear("probit"), ["two", "three"]),
    "gaussian": (lambda _: Linear("gaussian"), ["numbers"]),
}
if find_spec("torch"):
    import torch

    torch.set_num_threads(1)
    ANY = ["two", "three", "numbers"]
    MODELS |= {
        "net": (lambda _: NeuralNet((3, 2), **SMALL), ANY),
        "published net": (lambda _: NeuralNet.as_published(hidden=(2, 2), **SMALL), ANY),
        "softmax": (lambda _: NeuralNet((), **SMALL), ANY),
        "tree": (lambda _: SoftTree(2, **SMALL), ANY),
        "mixture": (lambda _: SoftTree(2, leaves="mixture", **SMALL), ANY),
        "published tree": (lambda _: SoftTree.as_published(depth=2, **SMALL), ANY),
        "module": (lambda _: wrapped(), ["two", "numbers"]),
        "module, softmax": (wrapped, ["two", "three"]),
        "module, some random": (lambda _: wrapped(random=["0.weight"]), ["two", "numbers"]),
    }
N_CLASSES = {"two": 2, "three": 3, "numbers": 0}
# A penalty on the whole tree is no sum over rows; the paper adds to all features alike.
SKIP = {
    "tree": ["parts_of_a_batch_add_up"],
    "mixture": ["parts_of_a_batch_add_up"],
    "published tree": ["parts_of_a_batch_add_up", "a_feature_that_is_absent_is_not_moved"],
    "published net": ["a_feature_that_is_absent_is_not_moved"],
}
# What a target needs is the same for all nets and all trees: the first of each meets every one.
FIRST = {"page", "probit", "gaussian", "net", "tree"}
CASES = [
    pytest.param(
        name, target, marks=[pytest.mark.slow] * (name not in FIRST and target != targets[0])
    )
    for name, (_, targets) in MODELS.items()
    for target in targets
]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_contract(name, target):
    n_classes = N_CLASSES[target]
    make, _ = MODELS[name]
    check_model(make(n_classes), n_classes=n_classes, skip=SKIP.get(name, ()))


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
@pytest.mark.parametrize("leaves", ["logit", "mixture"])
@pytest.mark.parametrize("target", N_CLASSES)
def test_without_a_penalty_the_parts_of_a_batch_add_up_for_trees_too(leaves, target):
    tree = SoftTree(2, leaves=leaves, penalty=0.0, **SMALL)
    dict(model_checks(tree, n_classes=N_CLASSES[target]))["parts_of_a_batch_add_up"]()


@pytest.mark.parametrize(("name", "target"), CASES)
def test_it_is_a_base_model_that_leaves_torch_s_random_numbers_alone(name, target):
    n_classes = N_CLASSES[target]
    model = MODELS[name][0](n_classes)
    assert isinstance(model, BaseModel)
    if find_spec("torch"):
        ours = torch.random.get_rng_state()
        model.init(4, n_classes, np.random.default_rng(0))
        dict(model_checks(model, n_classes=n_classes))["slopes_have_the_shape_of_the_belief"]()
        assert torch.equal(torch.random.get_rng_state(), ours)


def test_the_page_says_what_is_true():
    names = code_of(PAGE)  # it asserts what it says of its own run
    assert names["selector"].model_ is names["selector"].model


class Crooked(Linear):
    """Its slopes are not those of its value."""

    def gradient(self, belief, X, y, weight, rng):
        slopes = super().gradient(belief, X, y, weight, rng)
        return Belief(slopes.mu * 1.01, slopes.sigma, slopes.point)


class Averaging(Linear):
    """Gives means over rows, where sums are asked for."""

    def gradient(self, belief, X, y, weight, rng):
        slopes = super().gradient(belief, X, y, weight, rng)
        return Belief(slopes.mu / len(y), slopes.sigma / len(y), slopes.point)


class Valueless:
    """A model without ``log_marginal``, which is optional."""

    def __init__(self):
        self.inner = Linear("probit")
        self.init, self.gradient = self.inner.init, self.inner.gradient
        self.to_features = self.inner.to_features


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (Crooked("probit"), "the_gradient_is_the_slope_of_the_log_marginal"),
        (Averaging("probit"), "a_weight_counts_rows"),
    ],
)
def test_a_broken_model_is_told_what_it_fails(model, sentence):
    with pytest.raises(AssertionError, match=f"^{type(model).__name__} fails {sentence}: "):
        check_model(model)


def test_the_log_marginal_is_optional():
    check_model(Valueless())
    assert len(model_checks(Valueless())) == len(model_checks(Linear("probit"))) - 2
