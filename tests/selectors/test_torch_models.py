"""FIRES with nets, trees and modules: what a stream may bring, and what they find in it."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.selectors.test_contract import DOOR

import fires
from fires import FIRES
from fires.checks import selector_checks
from fires.core.errors import StateError
from fires.core.state import read_state, write_state
from fires.models import NeuralNet, SoftTree, TorchModel

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

SMALL = {"n_draws": 2}


def module(n_outputs=1, n_inputs=6):
    torch.manual_seed(2)
    layers = torch.nn.Linear(n_inputs, 3), torch.nn.Tanh(), torch.nn.Linear(3, n_outputs)
    return torch.nn.Sequential(*layers)


MODELS = {
    "net": lambda: NeuralNet((4, 3), **SMALL),
    "published net": lambda: NeuralNet.as_published(hidden=(3,), **SMALL),
    "tree": lambda: SoftTree(2, **SMALL),
    "module": lambda: TorchModel(module(), **SMALL),
}
GROWING = {
    "net": MODELS["net"],
    "softmax": lambda: NeuralNet((), **SMALL),
    "tree": MODELS["tree"],
    "mixture": lambda: SoftTree(2, leaves="mixture", **SMALL),
}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS.keys())
growing = pytest.mark.parametrize("make", GROWING.values(), ids=GROWING.keys())
KINDS = {"dense": np.asarray, "sparse": sp.csr_array}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


def stream(n, target="two", seed=0, n_rows=15, missing=False):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(1.0, 1.5, size=(n_rows, 6)) * (rng.random((n_rows, 6)) < 0.8)
        if missing:
            X[rng.random(X.shape) < 0.1] = np.nan
        signal = np.nan_to_num(X[:, 0] - X[:, 3])
        yield (
            X,
            {
                "two": (signal > 0).astype(int),
                "three": np.digitize(signal, [-0.7, 0.7]),
                "numbers": 50.0 + 10.0 * signal,
            }[target],
        )


def selector(model, **settings):
    return FIRES(2, model=model, **({"random_state": 0} | settings))


def learnt(model, n=4, kind=np.asarray, target="two", **settings):
    chosen = selector(model, **settings)
    for X, y in stream(n, target):
        chosen.partial_fit(kind(X), y)
    return chosen


def values(selector, path):
    """Everything that was learnt, to the bit."""
    selector.save(path)
    header, arrays = read_state(path)
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def saved_arrays(selector, folder):
    selector.save(folder / "state")
    return read_state(folder / "state")[1]


def assert_sound(chosen):
    for name in ("weights_", "importances_", "uncertainties_"):
        assert np.isfinite(getattr(chosen, name)).all()
    assert sorted(chosen.ranking_) == [*range(1, chosen.n_features_in_ + 1)]
    assert chosen.get_support().sum() == 2


# --- the contract of every selector ---------------------------------------------------------------

# Scaled by what the batches before have shown: on sparse data that is something else. In single
# precision, the rounding of a sum depends on its order.
EXACT = {"n_draws": 2, "dtype": "float64"}
CONTRACTS = [
    ("net", NeuralNet((3,), **EXACT), "many classes"),
    ("net", NeuralNet((3,), **EXACT), "numbers"),
    ("published net", NeuralNet.as_published(hidden=(3,), **EXACT), "two classes"),
    ("tree", SoftTree(2, **EXACT), "many classes"),
    ("mixture", SoftTree(2, leaves="mixture", **EXACT), "numbers"),
    ("module", TorchModel(module(n_inputs=8), **EXACT), "two classes"),
    ("module", TorchModel(module(n_inputs=8), **EXACT), "numbers"),
]

# The same model as above with another target, or the same target with another model.
AGAIN = {
    *(("net", "numbers"), ("published net", "two classes")),
    *(("mixture", "numbers"), ("module", "numbers")),
}


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(
            check,
            id=f"{name}, {target}-{sentence}",
            marks=[pytest.mark.slow]
            * ((name, target) in AGAIN or (sentence in DOOR and name != CONTRACTS[0][0])),
        )
        for name, model, target in CONTRACTS
        for sentence, check in selector_checks(
            FIRES(3, model=model, random_state=0),
            target=target,
            load_options={"model": model} if name == "module" else {},
            skip=["dense_and_sparse_are_learnt_alike"],
        )
    ],
)
def test_contract(check):
    check()


# --- random numbers ------------------------------------------------------------------------------


@every_model
@kinds
def test_a_seed_makes_it_the_same_again(make, kind):
    one, same, other = (learnt(make(), kind=kind, random_state=seed) for seed in (3, 3, 4))
    assert_array_equal(one.weights_, same.weights_)
    assert (one.weights_ != other.weights_).all()


@every_model
def test_random_states_of_every_kind_do(make):
    for state in (None, np.random.default_rng(0), np.random.RandomState(0), np.int64(5)):
        assert_sound(learnt(make(), random_state=state))
    with pytest.raises(ValueError, match="random_state must be"):
        learnt(make(), random_state=-1)


@every_model
@kinds
def test_the_random_states_of_others_are_neither_read_nor_moved(make, kind, tmp_path):
    model = make()
    expected = learnt(model, kind=kind)
    torch.manual_seed(123)
    np.random.seed(456)  # noqa: NPY002 - the global one, to see that it stays
    theirs = torch.random.get_rng_state(), np.random.get_state()  # noqa: NPY002
    chosen = learnt(model, kind=kind)
    assert chosen.weights_.shape == (6,)
    chosen.save(tmp_path / "state")
    fires.load(tmp_path / "state", model=model)
    assert torch.equal(torch.random.get_rng_state(), theirs[0])
    assert_array_equal(np.random.get_state()[1], theirs[1][1])  # noqa: NPY002
    assert_array_equal(chosen.weights_, expected.weights_)


# --- what a stream may bring ----------------------------------------------------------------------


INPUTS = {
    "float32": lambda X: X.astype(np.float32),
    "Fortran": np.asfortranarray,
    "rows backwards": lambda X: X[::-1].copy()[::-1],
    "columns backwards": lambda X: X[:, ::-1].copy()[:, ::-1],
    "every other": lambda X: np.repeat(X, 2, axis=0)[::2],
    "list": lambda X: X.tolist(),
    "pandas": lambda X: pd.DataFrame(X, columns=list("abcdef")),
    "polars": lambda X: pl.DataFrame(dict(zip("abcdef", X.T, strict=True))),
}


@every_model
@pytest.mark.parametrize("scale", ["standard", None])
@pytest.mark.parametrize("given", INPUTS.values(), ids=INPUTS.keys())
def test_input_of_every_kind_leads_to_the_same(make, given, scale):
    plain, other = selector(make(), scale=scale), selector(make(), scale=scale)
    for X, y in stream(3):
        weight = np.linspace(0.5, 2.0, 15)
        X = X.astype(np.float32).astype(np.float64)  # so that nothing is lost on the way
        plain.partial_fit(X, y, sample_weight=weight)
        other.partial_fit(given(X), y[::-1].copy()[::-1], sample_weight=weight[::-1].copy()[::-1])
    assert_allclose(other.weights_, plain.weights_, rtol=1e-5)
    assert_array_equal(other.get_support(), plain.get_support())


@every_model
@kinds
@pytest.mark.parametrize("target", ["two", "numbers"])
def test_missing_entries_take_no_part(make, kind, target):
    chosen = selector(make())
    for X, y in stream(4, target, missing=True):
        chosen.partial_fit(kind(X), y)
    assert chosen.n_missing_ > 0
    assert_sound(chosen)
    chosen.partial_fit(kind(np.full((2, 6), np.nan)), y[:2])
    assert_sound(chosen)
    with pytest.raises(ValueError, match="contains NaN"):
        learnt(make(), missing="error").partial_fit(kind(np.full((2, 6), np.nan)), y[:2])


def test_a_column_that_is_missing_throughout_is_not_moved():
    """In sparse rows a gap becomes the mean of its column, which is not 0."""
    chosen, kind = learnt(NeuralNet((3,))), np.asarray
    before = chosen.importances_
    X, y = next(stream(1, seed=9))
    X[:, 4] = np.nan
    chosen.partial_fit(kind(X), y)
    assert chosen.importances_[4] == before[4]
    assert (chosen.importances_[[0, 1, 2, 3, 5]] != before[[0, 1, 2, 3, 5]]).all()


@every_model
def test_an_empty_sparse_batch_moves_no_feature(make):
    chosen = learnt(make(), kind=sp.csr_array)
    before = chosen.importances_
    chosen.partial_fit(sp.csr_array((5, 6)), [0, 1, 0, 1, 0])
    if getattr(chosen.model, "aggregate", "") != "paper":
        assert_array_equal(chosen.importances_, before)
    assert_sound(chosen)


@every_model
@kinds
@pytest.mark.parametrize("size", [1e60, 1e140])
def test_what_is_too_large_is_refused_and_changes_nothing(make, kind, size, tmp_path):
    chosen = learnt(make(), scale=None)
    before = values(chosen, tmp_path / "state")
    X, y = next(stream(1, seed=5))
    X[3, 2] = size
    with pytest.raises(ValueError, match="is not finite on this batch: X or y holds") as caught:
        chosen.partial_fit(kind(X), y)
    assert "\n" not in str(caught.value)
    assert values(chosen, tmp_path / "state") == before
    assert_sound(chosen.partial_fit(*next(stream(1, seed=6))))


def test_a_target_that_is_too_large_is_refused_and_changes_nothing(tmp_path):
    for make in (MODELS["net"], MODELS["tree"], MODELS["module"]):
        chosen = learnt(make(), target="numbers", scale=None)
        before = values(chosen, tmp_path / "state")
        X, y = next(stream(1, "numbers", seed=5))
        y[2] = 1e80
        with pytest.raises(ValueError, match="is not finite on this batch: X or y holds"):
            chosen.partial_fit(X, y)
        assert values(chosen, tmp_path / "state") == before


@every_model
@pytest.mark.parametrize("size", [1e-28, 1e-9, 1e9, 1e26])
def test_only_the_shares_of_the_weights_count(make, size):
    """Without a scale: that forgets by rows, and a weight is so many rows."""
    one, other = selector(make(), scale=None), selector(make(), scale=None)
    for X, y in stream(3):
        weight = np.linspace(0.5, 2.0, 15)
        one.partial_fit(X, y, sample_weight=weight)
        other.partial_fit(X, y, sample_weight=weight * size)
    assert_allclose(other.weights_, one.weights_, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "model", [NeuralNet((4,), rate=1.0), SoftTree(2, rate=1.0, penalty=0.0)], ids=["net", "tree"]
)
def test_dense_and_sparse_lead_to_the_same_where_every_column_is_shown(model):
    one, other = selector(model, scale=None), selector(model, scale=None)
    for X, y in stream(4):
        X[0] = 1.0
        one.partial_fit(X, y)
        other.partial_fit(sp.csr_array(X), y)
    assert_allclose(other.weights_, one.weights_, rtol=1e-4)


def test_a_hundred_thousand_columns_and_few_entries():
    rng = np.random.default_rng(0)
    chosen = selector(NeuralNet((4,), n_draws=2))
    start = None
    for _ in range(3):
        X = sp.random_array((30, 100_000), density=1e-4, rng=rng, format="csr")
        y = rng.integers(0, 2, 30)
        chosen.partial_fit(X, y)
        start = chosen.importances_ if start is None else start
    assert chosen.get_support().sum() == 2
    assert np.isfinite(chosen.weights_).all()
    assert (chosen.importances_ == start).mean() > 0.9


# --- targets --------------------------------------------------------------------------------------


@growing
@kinds
@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 1, 0], [1, 2, 0], ["b", "c", "a"]])
def test_a_stream_sorted_by_class_brings_its_classes_one_after_the_other(make, kind, labels):
    chosen = selector(make())
    for label in labels:
        for X, _ in stream(2, seed=3):
            chosen.partial_fit(kind(X), np.full(15, label))
            assert_sound(chosen)
    assert chosen.classes_.tolist() == sorted(labels)
    assert_sound(chosen.partial_fit(kind(X), np.resize(labels, 15)))


@pytest.mark.parametrize("make", [GROWING["tree"], GROWING["mixture"]], ids=["tree", "mixture"])
def test_the_smaller_label_may_come_later(make):
    """What was learnt of a class stays with it, whatever the later ones are called."""
    one, other = selector(make()), selector(make())
    for X, _ in stream(3):
        one.partial_fit(X, np.full(15, "b"))
        other.partial_fit(X, np.full(15, "b"))
    for X, y in stream(3, seed=1):
        one.partial_fit(X, np.where(y == 1, "b", "a"))
        other.partial_fit(X, np.where(y == 1, "b", "c"))
    assert_allclose(one.weights_, other.weights_, rtol=1e-4)


@pytest.mark.parametrize("after", ["ab", "bc", "abc", "bcd"])
def test_the_output_of_a_class_stays_with_it(after, tmp_path):
    """One class alone was learnt as the second of two, against all that is not it."""
    chosen = selector(NeuralNet((4,), **SMALL))
    for X, _ in stream(3):
        chosen.partial_fit(X, np.full(15, "b"))
    before = saved_arrays(chosen, tmp_path)["mu.layer 2"]
    new = [label for label in after if label != "b"]
    # A step so small that nothing moves shows the outputs as they were made.
    chosen.set_params(learning_rate=1e-30).partial_fit(X[: len(new)], new)
    now = saved_arrays(chosen, tmp_path)["mu.layer 2"]
    assert_array_equal(now[after.index("b")], before[1])
    if len(after) == 2:
        assert_array_equal(now[1 - after.index("b")], before[0])


@growing
def test_two_classes_do_not_notice_that_there_is_room_for_a_third(make, tmp_path):
    """A third class takes nothing from the two before it but what a softmax must."""
    chosen = learnt(make())
    before = saved_arrays(chosen, tmp_path)
    X, y = next(stream(1, "three", seed=8))
    chosen.partial_fit(X, y)
    assert chosen.classes_.tolist() == [0, 1, 2]
    after = saved_arrays(chosen, tmp_path)
    layers = [name for name in before if name.startswith("mu.")]
    grown = [name for name in layers if after[name].shape != before[name].shape]
    assert grown in ([], [layers[-1]])  # a tree has other leaves, a net another last layer
    assert_sound(chosen)
    for X, y in stream(3, "three", seed=9):
        assert_sound(chosen.partial_fit(X, y))


@growing
def test_a_batch_with_a_new_class_that_fails_leaves_the_classes_as_they_were(make, tmp_path):
    chosen = learnt(make(), scale=None)
    before = values(chosen, tmp_path / "state")
    X, y = next(stream(1, "three", seed=8))
    X[0, 0] = 1e120
    with pytest.raises(ValueError, match="not finite"):
        chosen.partial_fit(X, y)
    assert chosen.classes_.tolist() == [0, 1]
    assert values(chosen, tmp_path / "state") == before


@every_model
def test_announced_classes(make):
    chosen = selector(make())
    X, y = next(stream(1))
    chosen.partial_fit(X, np.full(15, "yes"), classes=["no", "yes"])
    chosen.partial_fit(X, np.array(["no", "yes"])[y])
    with pytest.raises(ValueError, match="not in classes"):
        chosen.partial_fit(X, np.full(15, "maybe"))


@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_the_task_says_what_whole_numbers_are(make):
    X, _ = next(stream(1))
    counts = np.arange(15) % 4
    assert selector(make()).partial_fit(X, counts).classes_.tolist() == [0, 1, 2, 3]
    numeric = selector(make(task="numbers")).partial_fit(X, counts)
    assert not hasattr(numeric, "classes_")
    numeric.partial_fit(X, counts + 0.5)
    with pytest.raises(ValueError, match="needs numbers in y; got labels such as"):
        numeric.partial_fit(X, np.full(15, "a"))
    with pytest.raises(ValueError, match="classes is for class labels"):
        numeric.partial_fit(X, counts, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="numbers that are not whole"):
        selector(make(task="classes")).partial_fit(X, counts + 0.5)
    with pytest.raises(ValueError, match="numbers that are not whole"):
        learnt(make()).partial_fit(X, counts + 0.5)


@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_a_numeric_target_is_measured_by_the_batches_before(make):
    """Were it measured by its own batch, a batch that lies elsewhere would look like any other."""
    one, other = selector(make()), selector(make())
    for batch, (X, y) in enumerate(stream(2, "numbers")):
        one.partial_fit(X, y)
        other.partial_fit(X, y + 100.0 * batch)
    assert (one.weights_ != other.weights_).all()


@pytest.mark.parametrize("make", [NeuralNet, SoftTree], ids=["net", "tree"])
def test_the_unit_of_a_numeric_target_does_not_matter(make):
    one, other = selector(make()), selector(make())
    for X, y in stream(3, "numbers"):
        one.partial_fit(X, y)
        other.partial_fit(X, 2.0**20 * y)
    assert_allclose(other.weights_, one.weights_, rtol=1e-6)


# --- state ----------------------------------------------------------------------------------------


@growing
@pytest.mark.parametrize("n_before", [1, 2, 3])
def test_state_survives_while_classes_arrive(make, n_before, tmp_path):
    batches = [(X, np.full(15, label)) for label in (2, 0, 1) for X, _ in stream(1, seed=label)]
    batches += list(stream(2, "three"))
    chosen = selector(make())
    for X, y in batches[:n_before]:
        chosen.partial_fit(X, y)
    chosen.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    for X, y in batches[n_before:]:
        chosen.partial_fit(X, y)
        again.partial_fit(X, y)
    assert values(again, tmp_path / "two") == values(chosen, tmp_path / "one")
    assert again.classes_.tolist() == [0, 1, 2]


def test_a_net_of_ours_need_not_be_passed_again(tmp_path):
    model = NeuralNet((4, 2), n_draws=3, rate=50.0, aggregate="abs", form="paper", dtype="float64")
    learnt(model).save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    assert again.model == again.model_ == model
    assert type(again.model.hidden) is tuple
    tree = SoftTree(2, leaves="mixture", penalty=0.2, task="classes")
    learnt(tree).save(tmp_path / "state")
    assert fires.load(tmp_path / "state").model == tree
    same = SoftTree(2, leaves="mixture", penalty=0.2, task="classes")
    assert fires.load(tmp_path / "state", model=same).model is same


def test_what_does_not_fit_is_refused_in_one_line(tmp_path):
    learnt(NeuralNet((4,), **SMALL)).save(tmp_path / "state")
    for model, said in [
        (SoftTree(2), r"learnt with NeuralNet; model is a SoftTree"),
        (NeuralNet((5,), **SMALL), r"saved state has .* of shape .*; in this NeuralNet its shape"),
        (NeuralNet((4, 4), **SMALL), r"saved state has .* of shape"),
    ]:
        with pytest.raises(ValueError, match=said) as caught:
            fires.load(tmp_path / "state", model=model)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("lost", ["generator", "mu.input weights", "dense.count", "fixed.sizes"])
def test_a_state_that_lacks_an_array_is_refused(lost, tmp_path):
    learnt(NeuralNet((4,), **SMALL)).save(tmp_path / "state")
    header, arrays = read_state(tmp_path / "state")
    del arrays[lost]
    write_state(tmp_path / "state", header, arrays)
    with pytest.raises(ValueError, match=r"lacks data that FIRES needs|has .* of shape None"):
        fires.load(tmp_path / "state")


@pytest.mark.parametrize("name", ["hidden", "n_draws", "dtype"])
def test_a_state_with_a_setting_that_cannot_be_is_refused(name, tmp_path):
    learnt(NeuralNet((4,), **SMALL)).save(tmp_path / "state")
    header, arrays = read_state(tmp_path / "state")
    header["params"]["model"]["settings"][name] = "x"
    write_state(tmp_path / "state", header, arrays)
    with pytest.raises((ValueError, StateError), match=name):
        fires.load(tmp_path / "state")


def test_a_pickle_holds_what_was_learnt_and_not_the_draws():
    wide = FIRES(2, model=NeuralNet((4,), n_draws=50))
    wide.partial_fit(np.random.default_rng(0).normal(size=(10, 500)), np.arange(10) % 2)
    assert len(pickle.dumps(wide)) < 200_000  # the draws alone take 400,000


def test_settings_are_got_and_set():
    model = NeuralNet((3,))
    chosen = FIRES(2, model=model)
    assert chosen.get_params()["model"] is model
    assert chosen.get_params(deep=False)["model"] is model
    chosen.set_params(model=SoftTree(2), learning_rate=0.02)
    assert chosen.model == SoftTree(2)
    assert "SoftTree(depth=2" in repr(chosen)
    assert clone(FIRES(model=model)).model == model


def test_whole_numbers_that_could_be_either_are_asked_about():
    X, y = np.random.default_rng(0).normal(size=(60, 4)), np.arange(60)
    with pytest.raises(ValueError, match=r"60 distinct whole numbers .*task='numbers'"):
        FIRES(2, model=NeuralNet(hidden=(3,))).partial_fit(X, y)
    FIRES(2, model=NeuralNet(hidden=(3,), task="numbers")).partial_fit(X, y)
    FIRES(2, model=NeuralNet(hidden=(3,))).partial_fit(X, y, classes=range(60))
