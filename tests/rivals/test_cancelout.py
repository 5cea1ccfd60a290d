"""CancelOut: its formula, what it finds, and that it goes on from batch to batch."""

import copy
import itertools
import os
import pickle
import re
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import fires
from fires import CancelOut
from fires.core.state import read_state

torch = pytest.importorskip("torch")

from fires.rivals.cancelout import gates, regulariser  # noqa: E402

NAMES = np.array(["a", "b", "c"])
W = np.array([1.0, 0.5, -0.2, 2.0])
SELECTORS = [
    CancelOut(2, hidden=(16,), random_state=0),
    CancelOut(2, hidden=(), gate="softmax", random_state=0),
    CancelOut(2, hidden=(8, 8), n_epochs=3, variance_bonus=0.2, l1_penalty=0.1, random_state=0),
]
selectors = pytest.mark.parametrize("selector", SELECTORS, ids=["one layer", "none", "two layers"])
kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
targets = pytest.mark.parametrize("target", ["classes", "numbers"])


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Such small nets only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def stream(n_batches=6, target="classes", n_rows=30, seed=0, n_features=6):
    """Three classes, or the number they were made of; the features 1 and 3 matter."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.8)
        signal = X[:, 1] - X[:, 3] + 0.1 * rng.normal(size=n_rows)
        yield X, signal if target == "numbers" else np.digitize(signal, [-0.7, 0.7])


def learn(selector, batches, form=np.asarray):
    selector = clone(selector)
    for X, y in batches:
        selector.partial_fit(form(X), y)
    return selector


def state(selector, path):
    """Everything a selector holds, to the bit."""
    selector.save(path)
    header, arrays = read_state(path)
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


# --- the formula ----------------------------------------------------------------------------------


def test_gates_and_regulariser_are_those_of_the_vector():
    w = torch.tensor(W)
    wanted = [0.73105857863, 0.622459331202, 0.450166002688, 0.880797077978]
    assert_allclose(gates(w, "sigmoid").numpy(), wanted, rtol=0, atol=5e-13)
    assert_allclose(float(regulariser(w, 0.2, 0.1)), 0.081802083333, rtol=0, atol=5e-13)


@given(seed=st.integers(0, 2**16), n=st.integers(1, 30))
def test_the_regulariser_in_numpy(seed, n):
    w = np.random.default_rng(seed).normal(size=n)
    wanted = 0.3 * np.abs(w / n).sum() - 0.7 * (np.var(w / n, ddof=1) if n > 1 else 0.0)
    assert_allclose(float(regulariser(torch.tensor(w), 0.7, 0.3)), wanted, rtol=1e-12, atol=1e-14)


def test_weights_are_the_gates():
    for kind, wanted in (("sigmoid", 1 / (1 + np.exp(-W))), ("softmax", np.exp(W))):
        selector = CancelOut(1, gate=kind, hidden=()).partial_fit(np.eye(4), [0, 1, 0, 1])
        selector._net_["theta.gates"] = torch.tensor(W)
        selector._seen_ = {}
        wanted = wanted / (wanted.sum() if kind == "softmax" else 1.0)
        assert_allclose(selector.weights_, wanted, rtol=1e-14)
        assert_array_equal(selector.ranking_, [2, 3, 4, 1])


class Reference(torch.nn.Module):
    """The same in torch's own words."""

    def __init__(self, selector, n_features, n_outputs):
        super().__init__()
        rng = fires.core.randomness.generator(selector.random_state, "cancelout")
        self.w = torch.nn.Parameter(torch.full((n_features,), 1.0, dtype=torch.float64))
        self.softmax = selector.gate == "softmax"
        sizes = [n_features, *selector.hidden, n_outputs]
        self.layers = torch.nn.ModuleList()
        for place, (a, b) in enumerate(itertools.pairwise(sizes)):
            layer = torch.nn.Linear(a, b, dtype=torch.float64)
            draws = rng.normal(size=(a, b)).T * np.sqrt(2.0 / a)
            layer.weight.data = torch.tensor(draws * (place < len(sizes) - 2))
            layer.bias.data.zero_()
            self.layers.append(layer)

    def forward(self, X):
        X = X * (torch.softmax(self.w, 0) if self.softmax else torch.sigmoid(self.w))
        for layer in self.layers[:-1]:
            X = torch.relu(layer(X))
        return self.layers[-1](X)


@selectors
def test_a_stream_is_learnt_as_torch_would_learn_it(selector):
    net = Reference(selector, 6, 3)
    optimiser = torch.optim.Adam(net.parameters(), lr=selector.learning_rate, betas=(0.9, 0.99))
    selector = clone(selector)
    for X, y in stream(10):
        selector.partial_fit(X, y)
        for _ in range(selector.n_epochs):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(torch.tensor(X)), torch.tensor(y))
            w = net.w / len(net.w)
            loss = loss - selector.variance_bonus * w.var() + selector.l1_penalty * w.abs().sum()
            loss.backward()
            optimiser.step()
    wanted = torch.softmax(net.w, 0) if net.softmax else torch.sigmoid(net.w)
    assert_allclose(selector.weights_, wanted.detach().numpy(), rtol=1e-9)


# --- what it finds --------------------------------------------------------------------------------


def top_two(seed, n_batches, label, **options):
    rng = np.random.default_rng(100 + seed)
    selector = CancelOut(2, random_state=seed, **options)
    for _ in range(n_batches):
        X = rng.normal(size=(100, 20))
        selector.partial_fit(X, label(X))
    return selector.get_support(indices=True).tolist()


in_turn = pytest.mark.parametrize(
    ("seed", "gate"), list(enumerate(["sigmoid", "softmax", "sigmoid", "softmax", "sigmoid"]))
)


@in_turn
def test_a_linear_relation_is_found_within_20_batches(seed, gate):
    assert top_two(seed, 20, lambda X: X[:, 0] - X[:, 1] > 0, gate=gate) == [0, 1]


@in_turn
def test_a_product_of_signs_is_found_within_50_batches_and_by_no_linear_model(seed, gate):
    assert top_two(seed, 50, lambda X: X[:, 0] * X[:, 1] > 0, gate=gate) == [0, 1]
    assert top_two(seed, 50, lambda X: X[:, 0] * X[:, 1] > 0, gate=gate, hidden=()) != [0, 1]


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_scale_of_all_features_together_hardly_matters(scale):
    def label(X):
        X *= scale
        return X[:, 0] > X[:, 1]

    assert top_two(0, 50, label) == [0, 1]


@targets
@kinds
def test_relevant_features_are_found(target, kind):
    selector = learn(SELECTORS[0], stream(100, target, n_rows=100), kind)
    assert_array_equal(selector.get_support(indices=True), [1, 3])


def test_the_unit_of_a_numeric_target_does_not_matter():
    batches = list(stream(20, "numbers"))
    one = learn(SELECTORS[0], batches)
    other = learn(SELECTORS[0], [(X, 1e6 + 1e4 * y) for X, y in batches])
    assert_allclose(other.weights_, one.weights_, rtol=1e-6)


def test_much_penalty_leaves_gates_half_open():
    selector = learn(CancelOut(2, l1_penalty=10.0, random_state=0), stream(150, n_rows=10))
    assert_allclose(selector.weights_, 0.5, atol=0.02)


def test_it_remembers():
    """With nothing kept from batch to batch, rows that come alone would tell nothing."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 6))
    selector = CancelOut(2, batch_size=1, random_state=0).fit(X, X[:, 1] > X[:, 3])
    assert_array_equal(selector.get_support(indices=True), [1, 3])


# --- classes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [(0, 1), (-1.0, 1.0), (False, True), ("long one", "s")])
def test_labels_of_every_kind(labels):
    batches = [(X, (y > 1).astype(int)) for X, y in stream()]
    named = [(X, np.array(labels)[y]) for X, y in batches]
    assert_array_equal(learn(SELECTORS[0], named).weights_, learn(SELECTORS[0], batches).weights_)


def test_while_there_is_one_class_nothing_is_learnt():
    selector = clone(SELECTORS[0])
    for X, _ in stream(3):
        selector.partial_fit(X, np.full(len(X), "b"))
    assert_array_equal(selector.weights_, np.full(6, selector.weights_[0]))
    assert selector.n_samples_seen_ == 90
    for X, y in stream(80, n_rows=100):
        selector.partial_fit(X, NAMES[y])
    assert_array_equal(selector.classes_, NAMES)
    assert_array_equal(selector.get_support(indices=True), [1, 3])


@selectors
def test_a_new_class_changes_nothing_for_the_others(selector):
    batches = list(stream(4))
    selector = learn(selector, [(X, NAMES[np.minimum(y, 1) * 2]) for X, y in batches])
    before = selector._net_
    last, gates = f"theta.layer {len(selector.hidden)}", "theta.gates"
    X, y = batches[0]
    # At this rate the step itself moves nothing worth the name.
    selector.set_params(learning_rate=1e-12).partial_fit(X, NAMES[y])
    after = selector._net_
    assert_array_equal(selector.classes_, NAMES)
    assert after[last].shape[1] == 3
    assert_allclose(after[last][:, [0, 2]], before[last], atol=1e-10)
    assert_allclose(after[last][:, 1], 0.0, atol=1e-10)
    assert_allclose(after[gates], before[gates], atol=1e-10)


def test_a_stream_sorted_by_class_is_learnt():
    X, y = (np.concatenate(parts) for parts in zip(*stream(10), strict=True))
    order = np.argsort(y, kind="stable")
    selector = clone(SELECTORS[0]).fit(X[order], NAMES[y[order]])
    assert_array_equal(selector.classes_, NAMES)
    assert np.isfinite(selector.weights_).all()


def test_classes_given_are_all_there_will_be():
    ((X, y),) = stream(1)
    selector = clone(SELECTORS[0]).partial_fit(X, NAMES[np.minimum(y, 1)], classes=NAMES)
    assert selector._net_["theta.bias 1"].shape == (3,)
    with pytest.raises(ValueError, match="the label 'd', which is not in classes"):
        selector.partial_fit(X, np.full(len(X), "d"))


def test_targets_that_do_not_fit_are_refused():
    ((X, y),) = stream(1)
    (whole,) = (np.arange(len(y)),)
    with pytest.raises(ValueError, match=r"30 distinct whole numbers.*target='numbers'"):
        CancelOut(2).partial_fit(X, whole)
    CancelOut(2, target="numbers").partial_fit(X, whole)
    CancelOut(2, target="classes").partial_fit(X, whole)
    with pytest.raises(ValueError, match="CancelOut needs numbers in y"):
        CancelOut(2, target="numbers").partial_fit(X, NAMES[y])
    with pytest.raises(ValueError, match="classes is for class labels"):
        CancelOut(2, target="numbers").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match=r"not whole.*target='numbers'"):
        CancelOut(2).partial_fit(X, y).partial_fit(X, y + 0.5)


# --- forms of X, weights --------------------------------------------------------------------------

FORMS = {
    "csr": sp.csr_array,
    "csc": sp.csc_matrix,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcdef")),
}


@selectors
@targets
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_data_does_not_matter(selector, target, form):
    batches = list(stream(3, target))
    one, other = learn(selector, batches), learn(selector, batches, form)
    assert_array_equal(other.weights_, one.weights_)


@kinds
def test_float32_is_learnt_as_the_numbers_it_holds(kind):
    batches = [(X.astype(np.float32), y) for X, y in stream(3)]
    wide = [(X.astype(np.float64), y) for X, y in batches]
    assert_array_equal(
        learn(SELECTORS[0], batches, kind).weights_, learn(SELECTORS[0], wide).weights_
    )


@kinds
def test_a_missing_entry_counts_as_zero(kind):
    rng = np.random.default_rng(3)
    gaps = [(np.where(rng.random(X.shape) < 0.2, np.nan, X), y) for X, y in stream()]
    filled = [(np.nan_to_num(X), y) for X, y in gaps]
    with_gaps = learn(SELECTORS[0], gaps, kind)
    assert_array_equal(with_gaps.weights_, learn(SELECTORS[0], filled, kind).weights_)
    assert with_gaps.n_missing_ == sum(np.isnan(X).sum() for X, _ in gaps)


@targets
@settings(max_examples=15)
@given(seed=st.integers(0, 2**16))
def test_a_row_of_weight_w_is_w_rows(target, seed):
    ((X, y),) = stream(1, target, seed=seed)
    w = np.random.default_rng(seed).integers(0, 4, size=len(y))
    rows = np.repeat(np.arange(len(y)), w)
    weighed = clone(SELECTORS[2]).partial_fit(X, y, sample_weight=w)
    repeated = clone(SELECTORS[2])
    if target == "classes":  # a class whose rows all weigh nothing is known all the same
        repeated.partial_fit(X[rows], y[rows], classes=np.unique(y))
    else:
        repeated.partial_fit(X[rows], y[rows])
    assert_allclose(weighed.weights_, repeated.weights_, rtol=1e-6)


@selectors
@targets
def test_single_rows_empty_rows_and_constant_columns_do_no_harm(selector, target):
    selector = clone(selector)
    for X, y in stream(5, target):
        X[::3], X[:, 2], X[:, 5] = 0.0, 0.0, 7.0
        for rows in (slice(None), slice(1), slice(1, 2)):
            selector.partial_fit(X[rows], y[rows])
    assert np.isfinite(selector.weights_).all()


@targets
def test_one_feature_has_no_variance(target):
    selector = learn(SELECTORS[2], [(X[:, 1:2], y) for X, y in stream(5, target)])
    assert np.isfinite(selector.weights_).all()
    assert selector.get_support().all()


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden", 100),
        ("hidden", (0,)),
        ("hidden", (10, 2.5)),
        ("hidden", "100"),
        ("gate", "relu"),
        ("gate_init", np.nan),
        ("gate_init", "one"),
        ("variance_bonus", -0.1),
        ("l1_penalty", np.inf),
        ("learning_rate", 0.0),
        ("learning_rate", None),
        ("n_epochs", 0),
        ("n_epochs", True),
        ("n_epochs", 1.0),
        ("target", "labels"),
        ("device", "tpu"),
        ("missing", None),
        ("random_state", "a"),
        ("batch_size", 0),
    ],
)
def test_settings_are_checked_at_the_first_learn(name, value):
    ((X, y),) = stream(1)
    selector = CancelOut(2, **{name: value})
    with pytest.raises(ValueError, match=f"^{name} must be .*{re.escape(f'got {value!r}')}"):
        selector.fit(X, y)
    assert vars(selector) == vars(CancelOut(2, **{name: value}))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_gpu_that_is_not_there_is_named():
    ((X, y),) = stream(1)
    with pytest.raises(ValueError, match="torch sees no GPU"):
        CancelOut(2, device="cuda").partial_fit(X, y)


@targets
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_huge_values_are_borne_or_refused(target, kind, tmp_path):
    batches = list(stream(2, target))
    selector = learn(SELECTORS[0], batches)
    for size in (1e10, 1e100, 1e140, 1e150):
        X, y = batches[0]
        before = state(selector, tmp_path / "state")
        huge = kind(np.clip(X * size, -1e150, 1e150))
        try:
            selector.partial_fit(huge, y)
        except ValueError:
            assert state(selector, tmp_path / "state") == before
            with pytest.raises(ValueError, match="so large that a step would overflow"):
                selector.partial_fit(huge, y)
        assert np.isfinite(selector.weights_).all()


def test_a_first_step_that_overflows_leaves_nothing_behind():
    ((X, y),) = stream(1)
    rng = np.random.default_rng(5)
    before = rng.bit_generator.state
    selector = CancelOut(2, random_state=rng, learning_rate=1e308)
    with pytest.raises(ValueError, match="so large that a step would overflow"):
        selector.partial_fit(X, y)
    assert vars(selector) == vars(CancelOut(2, random_state=rng, learning_rate=1e308))
    assert rng.bit_generator.state == before


# --- randomness -----------------------------------------------------------------------------------


def test_equal_seeds_lead_to_equal_weights_and_others_do_not():
    one, same = (learn(SELECTORS[0], stream()) for _ in range(2))
    other = learn(clone(SELECTORS[0]).set_params(random_state=1), stream())
    assert_array_equal(one.weights_, same.weights_)
    assert (one.weights_ != other.weights_).any()
    for _ in range(2):  # without a seed, too
        learn(CancelOut(2), stream(1))


def test_global_state_is_neither_read_nor_moved():
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_state, n_threads = torch.get_rng_state(), torch.get_num_threads()
    one = learn(SELECTORS[0], stream())
    assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert_array_equal(torch.get_rng_state(), torch_state)
    torch.manual_seed(1)
    assert_array_equal(learn(SELECTORS[0], stream()).weights_, one.weights_)
    assert torch.get_num_threads() == n_threads


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_mode_the_callers_own_code_is_in_does_not_matter(mode, tmp_path):
    batches = list(stream())
    wanted = learn(SELECTORS[0], batches)
    selector = clone(SELECTORS[0])
    for i, (X, y) in enumerate(batches):
        if i % 2:
            selector.partial_fit(X, y)
        else:
            with mode():
                selector.partial_fit(X, y)
                selector.save(tmp_path / "state")
                selector = fires.load(tmp_path / "state")
    assert_array_equal(selector.weights_, wanted.weights_)


# --- state ----------------------------------------------------------------------------------------


@selectors
@targets
def test_a_saved_selector_goes_on_bit_for_bit(selector, target, tmp_path):
    batches = list(stream(8, target))
    whole, parts = learn(selector, batches), clone(selector)
    for X, y in batches:
        parts.partial_fit(X, y).save(tmp_path / "state")
        parts = fires.load(tmp_path / "state")
    assert state(parts, tmp_path / "parts") == state(whole, tmp_path / "whole")
    assert_array_equal(parts.weights_, whole.weights_)
    assert parts.get_params() == whole.get_params()


def test_a_selector_saved_with_one_class_goes_on(tmp_path):
    batches = [(X, np.minimum(y, i)) for i, (X, y) in enumerate(stream())]
    whole, parts = learn(SELECTORS[0], batches), clone(SELECTORS[0])
    for X, y in batches:
        parts.partial_fit(X, y).save(tmp_path / "state")
        parts = fires.load(tmp_path / "state")
    assert_array_equal(parts.weights_, whole.weights_)


def test_state_that_lacks_something_is_an_error(tmp_path):
    learn(SELECTORS[0], stream()).save(tmp_path / "state")
    header, arrays = read_state(tmp_path / "state")
    del header["n_steps"]
    fires.core.state.write_state(tmp_path / "state", header, arrays)
    with pytest.raises(fires.core.errors.StateError, match="n_steps"):
        fires.load(tmp_path / "state")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_copies_go_on_alone(copied):
    *batches, (X, y) = stream()
    selector = learn(SELECTORS[0], batches)
    before, twin = selector.weights_, copied(selector)
    assert_array_equal(twin.partial_fit(X, y).weights_, learn(SELECTORS[0], stream()).weights_)
    assert_array_equal(selector.weights_, before)


def test_state_does_not_grow_with_the_stream(tmp_path):
    sizes = []
    for n_batches in (2, 30):
        learn(SELECTORS[0], stream(n_batches)).save(tmp_path / "state")
        sizes.append(os.path.getsize(tmp_path / "state"))
    assert abs(sizes[1] - sizes[0]) < 64  # counts have more digits


def test_without_torch_the_first_learn_says_what_to_install(monkeypatch):
    ((X, y),) = stream(1)
    monkeypatch.setattr(
        fires.core.optional, "find_spec", lambda name: None if name == "torch" else find_spec(name)
    )
    selector = CancelOut(2)
    with pytest.raises(fires.core.errors.MissingExtra, match=r"CancelOut needs torch.*\.\[torch"):
        selector.partial_fit(X, y)
