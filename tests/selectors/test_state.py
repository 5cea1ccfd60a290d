"""State: what was saved goes on bit for bit, and what cannot be read is said in one line."""

import os
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from tests.pairs import pairwise

import fires
from fires import FIRES
from fires.core.belief import Belief
from fires.core.errors import StateError
from fires.core.state import read_state, write_state
from fires.models.linear import Linear

NAMES = ["age", "größe", "日本", "a b\n", "'\"\\", "\U0001f525"]


def state(selector, path):
    """Everything a saved selector holds: its header, and its arrays to the bit."""
    selector.save(path)
    header, arrays = read_state(path)
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def stream(n_batches, target="two classes", seed=0, n_rows=15, missing=True):
    rng = np.random.default_rng(seed)
    for i in range(n_batches):
        X = rng.normal(2.0, 1.5, size=(n_rows, 6)) * (rng.random((n_rows, 6)) < 0.7)
        if missing and i % 3 == 1:
            X[rng.random(X.shape) < 0.1] = np.nan
        signal = np.nan_to_num(X[:, 0] - X[:, 3]) + rng.normal(size=n_rows)
        y = {
            "two classes": (signal > 0).astype(int),
            "three classes": np.digitize(signal, [-1.0, 1.0]),
            "numbers": 50.0 + 10.0 * signal,
            "counts": np.floor(np.exp(np.clip(signal, -3, 3))),
        }[target]
        yield X, y, rng.uniform(0.5, 3.0, size=n_rows)


def assert_goes_on(selector, folder, learn, batches, **load):
    """Learn n, save, load, learn m: the same to the bit as learning n + m."""
    half = len(batches) // 2
    for batch in batches[:half]:
        learn(selector, *batch)
    as_saved = state(selector, folder / "one")
    loaded = fires.load(folder / "one", **load)
    assert state(loaded, folder / "two") == as_saved
    for batch in batches[half:]:
        learn(selector, *batch)
        learn(loaded, *batch)
    assert state(loaded, folder / "two") == state(selector, folder / "one")
    for name in ("weights_", "importances_", "uncertainties_", "ranking_"):
        assert_array_equal(getattr(loaded, name), getattr(selector, name), strict=True)
    assert_array_equal(loaded.get_support(), selector.get_support())
    assert_array_equal(loaded.get_feature_names_out(), selector.get_feature_names_out())
    for name in ("n_features_in_", "n_samples_seen_", "n_missing_", "model_"):
        assert repr(getattr(loaded, name)) == repr(getattr(selector, name))
    return loaded


# Bit for bit

KINDS = {
    "dense": lambda i: np.asarray,
    "F order": lambda i: np.asfortranarray,
    "sparse": lambda i: sp.csr_array,
    "dense, then sparse": lambda i: np.asarray if i < 3 else sp.csr_array,
    "sparse, then dense": lambda i: sp.csr_array if i < 3 else np.asarray,
}
MODELS = {
    "two classes": ["auto", "probit", "logistic"],
    "three classes": ["probit", "logistic"],
    "numbers": ["auto", "gaussian"],
    "counts": ["poisson", "gaussian"],
}


@pairwise(
    of={f"{target}-{model}": (target, model) for target in MODELS for model in MODELS[target]},
    scale=["standard", "minmax", None],
    kind=KINDS,
)
def test_a_loaded_selector_goes_on_bit_for_bit(of, scale, kind, tmp_path):
    target, model = of
    batches = [(kind(i)(X), y, w) for i, (X, y, w) in enumerate(stream(8, target))]
    selector = FIRES(2, model=model, scale=scale, learning_rate=0.1)
    assert_goes_on(
        selector, tmp_path, lambda s, X, y, w: s.partial_fit(X, y, sample_weight=w), batches
    )


@pytest.mark.parametrize("n_before", [1, 2, 3])
@pytest.mark.parametrize("scale", ["standard", "minmax", None])
def test_it_may_be_saved_after_any_batch(scale, n_before, tmp_path):
    """Also right after the first, which is scaled by itself, and before anything was there."""
    empty = (np.full((3, 6), np.nan), np.array([0, 1, 1]), np.ones(3))
    for first in ([], [empty]):
        batches = [*first, *stream(n_before), *stream(n_before + len(first), seed=1)]
        assert_goes_on(
            FIRES(2, scale=scale), tmp_path, lambda s, X, y, w: s.partial_fit(X, y), batches
        )


def test_the_published_method_goes_on_too(tmp_path):
    selector = FIRES.as_published(
        2, learning_rate=1.0, mu_init=np.linspace(-1, 1, 6), sigma_init=[0.5, 1, 1, 1, 1, 2]
    )
    assert_goes_on(
        selector, tmp_path, lambda s, X, y, w: s.partial_fit(X, y), list(stream(8, missing=False))
    )


LABELS = {
    "int": np.array([3, 7]),
    "int8": np.array([-1, 1], dtype=np.int8),
    "uint64": np.array([0, 2**64 - 1], dtype=np.uint64),
    "float": np.array([2.0, 7.0]),
    "float32": np.array([0.0, 1.0], dtype=np.float32),
    "bool": np.array([False, True]),
    "text": np.array(["nein", "ja, größer"]),
    "text objects": np.array(["nein", "ja, größer"], dtype=object),
    "int objects": np.array([3, 7], dtype=object),
    "float objects": np.array([3.0, 7.0], dtype=object),
    "NumPy ints as objects": np.array([np.int64(3), np.int64(7)], dtype=object),
    "bool objects": np.array([False, True], dtype=object),
}


@pytest.mark.parametrize("given", [False, True], ids=["found", "given"])
@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS.keys())
def test_labels_of_every_kind_survive(labels, given, tmp_path):
    def learn(selector, X, y, w):
        selector.partial_fit(X, labels[y], classes=labels if given else None)

    selector = FIRES(2, model="probit")
    loaded = assert_goes_on(selector, tmp_path, learn, list(stream(6)))
    assert loaded.classes_.dtype == selector.classes_.dtype
    assert loaded.classes_.tolist() == selector.classes_.tolist()
    # 1, 1.0 and True are equal, but not alike.
    assert [np.asarray(c).dtype.kind for c in loaded.classes_] == [
        np.asarray(c).dtype.kind for c in np.unique(labels)
    ]
    X, y, _ = next(stream(1))
    if given:
        with pytest.raises(ValueError, match="not in classes"):
            loaded.partial_fit(X, np.full(len(y), 12345))


def test_classes_that_come_after_loading_are_taken_up(tmp_path):
    def learn(selector, X, y, w):
        selector.partial_fit(X, np.array(["a", "b", "c, a longer one"])[y])

    batches = [*stream(4), *stream(4, "three classes", seed=1)]
    loaded = assert_goes_on(FIRES(2), tmp_path, learn, batches)
    assert loaded.classes_.tolist() == ["a", "b", "c, a longer one"]


def test_one_class_so_far_is_remembered_as_one(tmp_path):
    batches = [(X, np.ones_like(y), w) for X, y, w in stream(3)] + list(stream(3, seed=1))
    assert_goes_on(FIRES(2), tmp_path, lambda s, X, y, w: s.partial_fit(X, y), batches)


@pytest.mark.parametrize("library", [pd, pl])
def test_names_of_features_survive(library, tmp_path):
    def learn(selector, X, y, w):
        selector.partial_fit(library.DataFrame(dict(zip(NAMES, X.T, strict=True))), y)

    loaded = assert_goes_on(FIRES(2), tmp_path, learn, list(stream(6)))
    assert loaded.feature_names_in_.tolist() == NAMES
    assert loaded.feature_names_in_.dtype == object
    X, y, _ = next(stream(1))
    reordered = library.DataFrame(dict(zip(NAMES[::-1], X.T[::-1], strict=True)))
    chosen = loaded.get_support(indices=True)
    assert_array_equal(loaded.transform(reordered), X[:, chosen])
    with pytest.raises(ValueError, match="missing 'age'"):
        loaded.partial_fit(reordered[NAMES[1:]], y)


def test_settings_survive(tmp_path):
    settings = {
        "n_features_to_select": np.int64(3),
        "model": Linear("logistic", fit_intercept=False),
        "learning_rate": 1 / 3,
        "learning_rate_sigma": np.float64(0.1),
        "uncertainty_penalty": 0,
        "weight_penalty": 5,
        "mu_init": np.linspace(0.1, 0.7, 6),
        "sigma_init": (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "fit_intercept": False,
        "scale": "minmax",
        "missing": "ignore",
        "batch_size": 7,
        "random_state": 2**40,
    }
    X, y, _ = next(stream(1))
    FIRES(**settings).partial_fit(X, y).save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state").get_params(deep=False)
    for name, value in settings.items():
        if name == "model":
            assert repr(loaded[name]) == repr(value)
        else:
            assert_array_equal(loaded[name], value)
    assert fires.load(tmp_path / "state").fit(X, y).n_samples_seen_ == 15


def test_a_start_given_as_a_series_survives(tmp_path):
    X, y, _ = next(stream(1))
    selector = FIRES(2, mu_init=pd.Series(np.linspace(0, 1, 6))).partial_fit(X, y)
    selector.save(tmp_path / "state")
    assert_array_equal(fires.load(tmp_path / "state").weights_, selector.weights_)


@pytest.mark.parametrize("name", ["state", "state.safetensors", "a b.ü"])
def test_any_path_will_do(name, tmp_path):
    X, y, _ = next(stream(1))
    selector = FIRES(2).partial_fit(X, y)
    selector.save(str(tmp_path / name))
    assert_array_equal(fires.load(tmp_path / name).weights_, selector.weights_)
    assert os.listdir(tmp_path) == [name]


def test_a_loaded_selector_is_its_own(tmp_path):
    """Neither the file nor the one that was saved follows what it learns."""
    batches = list(stream(4))
    selector = FIRES(2)
    for X, y, _ in batches[:2]:
        selector.partial_fit(X, y)
    before = state(selector, tmp_path / "state")
    loaded = fires.load(tmp_path / "state")
    for X, y, _ in batches[2:]:
        loaded.partial_fit(X, y)
    assert state(fires.load(tmp_path / "state"), tmp_path / "other") == before
    assert state(selector, tmp_path / "other") == before


def test_saving_does_not_change_what_is_learnt(tmp_path):
    often, never = FIRES(2), FIRES(2)
    for X, y, _ in stream(5):
        often.partial_fit(X, y).save(tmp_path / "state")
        never.partial_fit(X, y)
    assert_array_equal(often.weights_, never.weights_)


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    selector = FIRES(2)
    for X, y, _ in stream(2):
        selector.partial_fit(X, y)
    before = state(selector, tmp_path / "state")
    selector.set_params(mu_init={"not": 1j})
    with pytest.raises(TypeError, match="JSON"):
        selector.save(tmp_path / "state")
    assert os.listdir(tmp_path) == ["state"]
    assert state(fires.load(tmp_path / "state"), tmp_path / "other") == before


# A model of one's own


class Coin:
    """A linear model that tosses a coin for each row, with a learnt offset that is not random."""

    def __init__(self, n_extra=0, n_offsets=2):
        self.n_extra, self.n_offsets = n_extra, n_offsets

    def __repr__(self):
        return f"{type(self).__name__}({self.n_extra}, {self.n_offsets})"

    def init(self, n_features, n_classes, rng):
        n = n_features + self.n_extra
        return Belief(0.1 * rng.normal(size=n), np.ones(n), {"offset": np.zeros(self.n_offsets)})

    def log_marginal(self, belief, X, y, weight, rng):
        return 0.0

    def gradient(self, belief, X, y, weight, rng):
        c = np.where(y > 0, 1.0, -1.0) * rng.random(len(y))
        mu = np.concatenate([X.T @ c, np.zeros(self.n_extra)])
        return Belief(mu, -0.01 * np.abs(mu), {"offset": np.full(self.n_offsets, c.sum())})

    def to_features(self, belief):
        n = len(belief.mu) - self.n_extra
        return Belief(belief.mu[:n], belief.sigma[:n])


class Dice(Coin):
    pass


def learn_plainly(selector, X, y, w):
    selector.partial_fit(X, y, sample_weight=w)


RANDOM_STATES = {
    "None": lambda: None,
    "seed": lambda: 7,
    "Generator": lambda: np.random.default_rng(7),
    "MT19937": lambda: np.random.Generator(np.random.MT19937(7)),
    "Philox": lambda: np.random.Generator(np.random.Philox(7)),
    "SFC64": lambda: np.random.Generator(np.random.SFC64(7)),
    "RandomState": lambda: np.random.RandomState(7),
}


@pytest.mark.parametrize("random_state", RANDOM_STATES.values(), ids=RANDOM_STATES.keys())
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_model_of_ones_own_goes_on_with_its_random_numbers(kind, random_state, tmp_path):
    selector = FIRES(2, model=Coin(), random_state=random_state(), learning_rate=0.1)
    batches = [(kind(X), y, w) for X, y, w in stream(6)]
    loaded = assert_goes_on(selector, tmp_path, learn_plainly, batches, model=Coin())
    assert isinstance(loaded.model, Coin)
    assert loaded.model_ is loaded.model


@pytest.mark.parametrize("scale", ["standard", "minmax", None])
@pytest.mark.parametrize("target", ["two classes", "three classes", "numbers"])
def test_a_model_of_ones_own_goes_on_with_every_target(target, scale, tmp_path):
    selector = FIRES(2, model=Coin(n_extra=1), scale=scale, random_state=3)

    def learn(selector, X, y, w):
        selector.partial_fit(X, y, classes=[0, 1, 2] if target == "three classes" else None)

    assert_goes_on(selector, tmp_path, learn, list(stream(6, target)), model=Coin(n_extra=1))


def test_a_model_of_ones_own_must_be_passed_again(tmp_path):
    X, y, _ = next(stream(1))
    FIRES(2, model=Coin()).partial_fit(X, y).save(tmp_path / "state")
    with pytest.raises(ValueError, match=r"Coin.*fires\.load\(path, model=\.\.\.\)"):
        fires.load(tmp_path / "state")
    with pytest.raises(ValueError, match="learnt with Coin; model is a Dice"):
        fires.load(tmp_path / "state", model=Dice())
    with pytest.raises(ValueError, match=r"shape \(6,\).*\(8,\)"):
        fires.load(tmp_path / "state", model=Coin(n_extra=2))
    with pytest.raises(ValueError, match="learnt with Coin; model is a type"):
        fires.load(tmp_path / "state", model=Coin)


def test_a_model_whose_other_parameters_have_another_shape_is_refused(tmp_path):
    X, y, _ = next(stream(1))
    FIRES(2, model=Coin()).partial_fit(X, y).save(tmp_path / "state")
    with pytest.raises(ValueError, match=r"shape \(2,\).*\(5,\)"):
        fires.load(tmp_path / "state", model=Coin(n_offsets=5))


# Files that hold no selector


@pytest.fixture
def saved(tmp_path):
    selector = FIRES(2)
    for X, y, _ in stream(3):
        selector.partial_fit(X, y)
    selector.save(tmp_path / "state")
    return tmp_path / "state"


def fault(path, error=StateError):
    with pytest.raises(error) as caught:
        fires.load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert isinstance(caught.value, ValueError)
    return message


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    whole = saved.read_bytes()
    saved.write_bytes(whole[: int(share * len(whole))])
    assert str(saved) in fault(saved)


@pytest.mark.parametrize("seed", range(20))
def test_an_altered_file_is_refused(saved, seed):
    rng = np.random.default_rng(seed)
    content = bytearray(saved.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    saved.write_bytes(content)
    assert str(saved) in fault(saved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        pickle.dumps(FIRES(2)),
        b"PK\x03\x04" + bytes(100),
        bytes(1000),
        b"\xff" * 1000,
        b"\x08\0\0\0\0\0\0\0{}      ",
    ],
    ids=["empty", "CSV", "pickle", "zip", "zeros", "ones", "safetensors"],
)
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    assert fault(tmp_path / "file").endswith("is not a fires state file.")


@pytest.mark.parametrize("kind", [None, "Unknown", "__class__", ["FIRES"], {"FIRES": 1}])
def test_the_state_of_something_else_is_refused(tmp_path, kind):
    write_state(tmp_path / "state", {"class": kind}, {})
    assert "is no selector" in fault(tmp_path / "state")


@pytest.mark.parametrize(
    "lost",
    [
        *("mu", "var", "own_mu", "facts", "target.class_weight", "dense.count", "classes"),
        *("alarm.total", "leading.columns", "members.columns", "alarms"),
    ],
)
def test_a_state_that_lacks_an_array_is_refused(saved, lost):
    """As another version of fires may have written it: whole, and yet not what is needed."""
    header, arrays = read_state(saved)
    del arrays[lost]
    write_state(saved, header, arrays)
    assert str(saved) in fault(saved)


def test_a_file_from_before_columns_brought_anything_goes_on(saved):
    header, arrays = read_state(saved)
    del arrays["leading.brought"]
    write_state(saved, header, arrays)
    assert not fires.load(saved)._learner_.leading.brought.any()


@pytest.mark.parametrize("lost", ["params", "n_features", "classes_given", "model"])
def test_a_state_whose_header_lacks_an_entry_is_refused(saved, lost):
    header, arrays = read_state(saved)
    del header[lost]
    write_state(saved, header, arrays)
    assert str(saved) in fault(saved)


def test_a_state_of_other_settings_is_refused(saved):
    header, arrays = read_state(saved)
    header["params"]["window"] = 5
    write_state(saved, header, arrays)
    assert str(saved) in fault(saved)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        fires.load(tmp_path / "state")


# Copies


def test_a_new_selector_can_be_pickled():
    again = pickle.loads(pickle.dumps(FIRES(3, scale=None)))
    assert again.get_params() == FIRES(3, scale=None).get_params()


def test_a_loaded_selector_can_be_cloned_pickled_and_saved_again(saved, tmp_path):
    loaded = fires.load(saved)
    again = pickle.loads(pickle.dumps(loaded))
    assert state(again, tmp_path / "again") == state(loaded, tmp_path / "other")
    X, y, _ = next(stream(1))
    assert clone(loaded).partial_fit(X, y).n_samples_seen_ == 15
