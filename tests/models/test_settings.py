"""Settings that cannot be are refused in one line that names them and shows the value."""

import math

import pytest

from fires.models import NeuralNet, SoftTree, TorchModel

torch = pytest.importorskip("torch")

COMMON = {
    "n_draws": [0, -1, 1.5, 2.0, True, "5", None],
    "rate": [0, -1.0, math.inf, math.nan, "1", None, True],
    "balance": ["yes", None, 2, [True]],
    "aggregate": ["mean", None, ["rms"]],
    "task": ["auto ", None, "regression"],
    "device": ["cuda:0", "gpu", None, [], 0],
    "dtype": ["float16", "double", None, float, torch.float32],
}
FORM = {"form": ["plain", None, 1]}
MODELS = {
    "net": (
        NeuralNet,
        FORM | {"hidden": [5, None, (2.5,), "ab", (0,), (-1,), (True,), ("3",), {3: 4}]},
    ),
    "tree": (
        SoftTree,
        FORM
        | {
            "depth": [0, 17, -1, 2.0, True, "3", None],
            "leaves": ["leaf", None, 1, ["logit"]],
            "penalty": [-0.1, math.nan, math.inf, "0", None, True],
        },
    ),
    "module": (
        lambda **settings: TorchModel(torch.nn.Linear(4, 1), **settings),
        {"sigma_init": [0, -1.0, math.nan, math.inf, "1", None, True]},
    ),
}
CASES = [
    pytest.param(make, name, value, id=f"{model}-{name}-{value!r}")
    for model, (make, own) in MODELS.items()
    for name, values in (COMMON | own).items()
    for value in values
]


@pytest.mark.parametrize(("make", "name", "value"), CASES)
def test_a_setting_that_cannot_be_is_refused_in_one_line(make, name, value):
    with pytest.raises(ValueError, match=rf"^{name} must be .*; got ") as caught:
        make(**{name: value})
    assert "\n" not in str(caught.value)
    assert repr(value) in str(caught.value)
