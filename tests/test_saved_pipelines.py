"""Saved pipelines go on bit for bit, and what cannot be saved or read is said in one line."""

import importlib.util
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron as SklearnPerceptron
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from tests.pairs import pairwise

import fires
from fires import FIRES, FSDS, OFS, AllFeatures, FromModel, OnlinePipeline, RandomFeatures
from fires.core.errors import StateError
from fires.core.randomness import generator
from fires.core.state import read_state, write_state
from fires.evaluation import prequential
from fires.predictors import (
    BayesLinear,
    Perceptron,
    RiverPredictor,
    SklearnPredictor,
    boosting,
    hoeffding_tree,
)
from fires.streams import from_arrays

needs_river = pytest.mark.skipif(not importlib.util.find_spec("river"), reason="needs river")
PREPROCESS = pytest.mark.parametrize("preprocess", ["standard", "minmax", None])

TEXT = np.array(["ja, größer", "nein", "vielleicht"])
SELECTORS = {
    "FIRES": lambda: FIRES(2, random_state=0),
    "FIRES, logistic": lambda: FIRES(0.4, model="logistic", learning_rate=0.1),
    "OFS": lambda: OFS(2),
    "FSDS": lambda: FSDS(2),
    "RandomFeatures": lambda: RandomFeatures(3, redraw=True, random_state=7),
    "FromModel": lambda: FromModel(2, estimator=SGDClassifier(random_state=3)),
}
PREDICTORS = {
    "BayesLinear": BayesLinear,
    "Perceptron": Perceptron,
    "SGDClassifier": lambda: SGDClassifier(
        "log_loss", average=True, random_state=np.random.RandomState(5)
    ),
    "GaussianNB": GaussianNB,
    "None": lambda: None,
}
OURS = ("BayesLinear", "Perceptron")


def stream(n_batches, labels=(0, 1), seed=0, n_rows=20, missing=True):
    """Batches whose columns lie on very different scales, with gaps in every other one."""
    rng = generator(seed, "saved pipelines")
    labels = np.asarray(labels)
    for i in range(n_batches):
        X = rng.normal(2.0, 1.5, size=(n_rows, 6)) * (rng.random((n_rows, 6)) < 0.7)
        signal = X[:, 0] - X[:, 3] + 0.5 * rng.normal(size=n_rows)
        edges = [0.0] if len(labels) == 2 else [-1.0, 1.0]
        if missing and i % 2:
            X[rng.random(X.shape) < 0.1] = np.nan
        yield 10.0 ** np.arange(-2, 4) * X, labels[np.digitize(signal, edges)]


def state(pipeline):
    """Everything the file of a pipeline would hold: its header, and its arrays to the bit."""
    header, arrays = pipeline.saved()
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def assert_alike(one, other, X):
    assert_array_equal(one.selector.get_support(), other.selector.get_support())
    assert_array_equal(one.selector.weights_, other.selector.weights_, strict=True)
    if one.predictor is None:
        assert other.predictor is None
        return
    assert_array_equal(one.predict(X), other.predict(X), strict=True)
    assert_array_equal(one.classes_, other.classes_, strict=True)
    if hasattr(one.predictor, "predict_proba"):
        assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def assert_goes_on(pipeline, folder, batches, n_before=3, learn=OnlinePipeline.partial_fit, **load):
    """Learn n, save, load, learn m: the same to the bit, at every step, as learning n + m."""
    for batch in batches[:n_before]:
        learn(pipeline, *batch)
    pipeline.save(folder / "model")
    loaded = fires.load(folder / "model", **load)
    assert type(loaded) is OnlinePipeline
    assert type(loaded.predictor) is type(pipeline.predictor)
    assert state(loaded) == state(pipeline)
    for batch in batches[n_before:]:
        assert_alike(loaded, pipeline, batch[0])
        learn(pipeline, *batch)
        learn(loaded, *batch)
    assert_alike(loaded, pipeline, batches[0][0])
    assert state(loaded) == state(pipeline)
    return loaded


# --- going on -----------------------------------------------------------------------------------


@pairwise(
    selector=list(SELECTORS),
    predictor=list(PREDICTORS),
    preprocess=["standard", "minmax", None],
)
def test_a_loaded_pipeline_goes_on_bit_for_bit(selector, predictor, preprocess, tmp_path):
    passed = {"predictor": None if predictor in OURS else PREDICTORS[predictor]()}
    if selector == "FromModel":
        passed["model"] = SGDClassifier()
    pipeline = OnlinePipeline(SELECTORS[selector](), PREDICTORS[predictor](), preprocess)
    loaded = assert_goes_on(pipeline, tmp_path, list(stream(6)), **passed)
    assert loaded.preprocess == preprocess


@pairwise(
    labels={str(one): one for one in (TEXT, TEXT[:2], [2, 3, 5], [False, True], [2.0, 5.0])},
    classes=["found", "given"],
    predictor=[*OURS, "SGDClassifier", "GaussianNB"],
)
def test_labels_of_every_kind_survive(labels, classes, predictor, tmp_path):
    def learn(pipeline, X, y):
        pipeline.partial_fit(X, y, classes=labels if classes == "given" else None)

    passed = None if predictor in OURS else PREDICTORS[predictor]()
    for selector in (FIRES(2, model="probit"), RandomFeatures(3, random_state=1)):
        pipeline = OnlinePipeline(selector, PREDICTORS[predictor]())
        batches = list(stream(6, labels, n_rows=40))
        loaded = assert_goes_on(pipeline, tmp_path, batches, learn=learn, predictor=passed)
        assert_array_equal(loaded.classes_, np.asarray(labels), strict=True)
        X, y = batches[0]
        if classes == "given":
            with pytest.raises(ValueError, match="not in classes"):
                loaded.partial_fit(X, np.full(len(y), 9 if y.dtype.kind != "U" else "neu"))


def test_classes_that_come_after_loading_are_taken_up(tmp_path):
    batches = [*stream(3, TEXT[:2]), *stream(3, TEXT, seed=1)]
    loaded = assert_goes_on(OnlinePipeline(FIRES(2), Perceptron()), tmp_path, batches)
    assert_array_equal(loaded.classes_, TEXT)


def test_a_numeric_target_goes_on(tmp_path):
    def learn(pipeline, X, y):
        pipeline.partial_fit(X, np.nan_to_num(X[:, 2]) + y)

    pipeline = OnlinePipeline(FIRES(2), SGDRegressor(random_state=0))
    for X, y in stream(3):
        learn(pipeline, X, y)
    pipeline.save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model", predictor=SGDRegressor())
    for X, y in stream(3, seed=1):
        learn(pipeline, X, y)
        learn(loaded, X, y)
        assert_array_equal(loaded.predict(X), pipeline.predict(X), strict=True)


@PREPROCESS
@pytest.mark.parametrize("kinds", ["sparse", "dense, then sparse"])
@pytest.mark.parametrize("predictor", ["SGDClassifier", "None"])
def test_sparse_rows_go_on(predictor, kinds, preprocess, tmp_path):
    batches = [
        (X if i < 2 and kinds != "sparse" else sp.csr_array(X), y)
        for i, (X, y) in enumerate(stream(6))
    ]
    pipeline = OnlinePipeline(FIRES(2), PREDICTORS[predictor](), preprocess)
    assert_goes_on(pipeline, tmp_path, batches, predictor=PREDICTORS[predictor]())


@pytest.mark.parametrize("library", [pd, pl])
def test_named_columns_may_come_in_any_order_after_loading(library, tmp_path):
    names = ["age", "größe", "日本", "a b\n", "'\"\\", "\U0001f525"]

    def frame(X, order):
        return library.DataFrame({names[j]: X[:, j] for j in order})

    pipeline, (*batches, (X, y)) = OnlinePipeline(FIRES(2), Perceptron()), list(stream(6))
    framed = [(frame(X, np.roll(range(6), i)), y) for i, (X, y) in enumerate(batches)]
    loaded = assert_goes_on(pipeline, tmp_path, framed)
    assert_array_equal(
        loaded.predict(frame(X, range(6))), loaded.predict(frame(X, [*range(5, -1, -1)]))
    )
    assert loaded.selector.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="missing 'age'"):
        loaded.partial_fit(frame(X, range(1, 6)), y)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        loaded.predict(X)


def test_a_row_of_another_width_is_refused_as_before(tmp_path):
    pipeline = OnlinePipeline(FIRES(2), Perceptron())
    loaded = assert_goes_on(pipeline, tmp_path, list(stream(4)))
    for call in (loaded.predict, lambda X: loaded.partial_fit(X, [0, 1])):
        with pytest.raises(ValueError, match="X has 5 features, but OnlinePipeline is expecting 6"):
            call(np.zeros((2, 5)))


@settings(max_examples=25)
@given(
    data=st.data(),
    seed=st.integers(0, 99),
    preprocess=st.sampled_from(["standard", "minmax", None]),
    selector=st.sampled_from(["FIRES", "OFS", "RandomFeatures"]),
    n_rows=st.integers(2, 12),
)
def test_it_does_not_matter_when_and_how_often_it_was_saved(
    data, seed, preprocess, selector, n_rows
):
    """With any weights, in batches of any size, and with any gaps."""
    batches = list(stream(5, TEXT[:2], seed, n_rows))
    weights = st.lists(st.integers(0, 3), min_size=n_rows - 1, max_size=n_rows - 1)
    whole = OnlinePipeline(SELECTORS[selector](), Perceptron(), preprocess)
    saved = OnlinePipeline(SELECTORS[selector](), Perceptron(), preprocess)
    with tempfile.TemporaryDirectory() as folder:
        for X, y in batches:
            w = [1, *data.draw(weights)]
            for pipeline in (whole, saved):
                pipeline.partial_fit(X, y, sample_weight=w)
            if data.draw(st.booleans()):
                saved.save(f"{folder}/model")
                saved = fires.load(f"{folder}/model")
    assert state(saved) == state(whole)
    assert_alike(saved, whole, X)


@pytest.mark.parametrize("predictor", [Perceptron, GaussianNB])
def test_a_predictor_that_has_learnt_nothing_yet_starts_after_loading(predictor, tmp_path):
    """As where labels come late: scale and set are known, and the predictor has yet to begin."""
    (X, y), *later = stream(4)
    pipeline = OnlinePipeline(FIRES(2), predictor())
    batch, learn_scale = pipeline.admit(X, y)
    pipeline.select(batch)
    learn_scale()
    pipeline.save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model", predictor=predictor())
    for X, y in later:
        pipeline.partial_fit(X, y)
        loaded.partial_fit(X, y)
    assert_alike(loaded, pipeline, X)


def test_a_loaded_pipeline_is_its_own(tmp_path):
    """Neither file, nor the one that was saved, nor the estimator passed follow what it learns."""
    first, *later = stream(4)
    pipeline = OnlinePipeline(FIRES(2), GaussianNB()).partial_fit(*first)
    pipeline.save(tmp_path / "model")
    before = state(pipeline)
    passed = GaussianNB()
    loaded = fires.load(tmp_path / "model", predictor=passed)
    for batch in later:
        loaded.partial_fit(*batch)
    assert not hasattr(passed, "classes_")
    assert state(pipeline) == before
    again = fires.load(tmp_path / "model", predictor=SklearnPredictor(passed))
    assert state(again) == before


@pytest.mark.parametrize("seed", [0, np.int64(0), None])
def test_the_settings_of_an_estimator_are_those_passed_again(seed, tmp_path):
    pipeline = OnlinePipeline(FIRES(2), SGDClassifier(alpha=0.1, random_state=seed))
    pipeline.partial_fit(*next(stream(1))).save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model", predictor=SGDClassifier(alpha=0.5, random_state=9))
    assert loaded.predictor.alpha == 0.5
    assert loaded.predictor.random_state == seed  # where random numbers stand is learnt


def test_a_selector_s_file_still_loads(tmp_path):
    X, y = next(stream(1))
    selector = FIRES(2).partial_fit(X, y)
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state")
    assert type(loaded) is FIRES
    assert_array_equal(loaded.weights_, selector.weights_)
    with pytest.raises(ValueError, match=r"state' does not hold a pipeline: there is no predictor"):
        fires.load(tmp_path / "state", predictor=GaussianNB())


# --- predictors of one's own --------------------------------------------------------------------


class Majority:
    """Says what was seen most; the least that can be saved."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        counts = getattr(self, "counts", {})
        for label in y.tolist():
            counts[label] = counts.get(label, 0) + 1
        self.counts, self.classes_ = counts, np.array(sorted(counts))
        return self

    def predict(self, X):
        return np.full(len(X), max(self.counts, key=self.counts.get))

    def state(self):
        return {"labels": list(self.counts)}, {"classes": np.array(list(self.counts.values()))}

    def restore(self, header, arrays):
        self.counts = dict(zip(header["labels"], arrays["classes"].tolist(), strict=True))
        self.classes_ = np.array(sorted(self.counts))


class Brief(Majority):
    """With scikit-learn's shorter partial_fit, so that it is wrapped."""

    def partial_fit(self, X, y):
        return super().partial_fit(X, y)

    classes_ = np.array(["so far"])


class Settled(Majority, BaseEstimator):
    """An estimator that would be refused, as it keeps a dictionary, but speaks for itself."""


@pytest.mark.parametrize("kind", [Majority, Brief, Settled])
def test_a_predictor_of_one_s_own_goes_on_through_its_state(kind, tmp_path):
    pipeline = OnlinePipeline(FIRES(2), kind())
    assert_goes_on(pipeline, tmp_path, list(stream(6, TEXT[:2])), predictor=kind())
    with pytest.raises(ValueError, match=rf"The predictor in '.*model' is {kind.__name__}, whose"):
        fires.load(tmp_path / "model")
    other = Settled if kind is Majority else Majority
    with pytest.raises(
        ValueError, match=rf"is {kind.__name__}; the one passed is {other.__name__}"
    ):
        fires.load(tmp_path / "model", predictor=other())


class Turned(BaseEstimator):
    """Keeps its numbers in Fortran's order."""

    def partial_fit(self, X, y):
        self.sums_ = np.asfortranarray(np.ones((3, X.shape[1])) * X.sum(axis=0))

    def predict(self, X):
        return (X @ self.sums_.T).sum(axis=1)


def test_arrays_keep_their_order_in_memory(tmp_path):
    pipeline = OnlinePipeline(FIRES(2), Turned()).partial_fit(*next(stream(1)))
    pipeline.save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model", predictor=Turned()).predictor.sums_
    assert loaded.flags.f_contiguous
    assert_array_equal(loaded, pipeline.predictor.sums_, strict=True)


# --- what cannot be saved -----------------------------------------------------------------------


class Silent:
    """A predictor that cannot say what it has learnt."""

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        return self

    def predict(self, X):
        return np.zeros(len(X))


class SilentBrief(Silent):
    def partial_fit(self, X, y):
        return self


class Own(AllFeatures):
    """A selector of one's own, which ``fires.load`` would not find."""


class Broken(Majority):
    def state(self):
        return {"labels": {1, 2}}, {}


class Textual(Majority):
    def state(self):
        return {}, {"labels": np.array(["a"])}


REFUSED = {
    "Silent": (FIRES(2), Silent(), r"^Silent cannot be saved: it is no .* no state\(\)"),
    "SilentBrief": (FIRES(2), SilentBrief(), r"^SilentBrief cannot be saved.*selector\.save"),
    "MLPClassifier": (FIRES(2), MLPClassifier((2,)), r"^MLPClassifier cannot be saved: its \w+ is"),
    "Own": (Own(), Perceptron(), r"^Own cannot be saved: it is not a selector of fires itself"),
    "Broken": (FIRES(2), Broken(), r"^The header takes JSON values only"),
    "Textual": (FIRES(2), Textual(), r"^Array 'predictor.labels' has dtype <U1"),
}


@pytest.mark.filterwarnings("ignore:Got `batch_size`:UserWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_saved_is_said_and_the_old_file_stays(case, tmp_path):
    selector, predictor, message = REFUSED[case]
    path, batch = tmp_path / "model", next(stream(1))
    pipeline = OnlinePipeline(selector, predictor).partial_fit(*batch)
    assert_refused(pipeline, path, message)
    assert os.listdir(tmp_path) == []
    OnlinePipeline(FIRES(2), None).partial_fit(*batch).save(path)
    old = path.read_bytes()
    assert_refused(pipeline, path, message)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model"]
    pipeline.partial_fit(*batch)  # and it still learns


def assert_refused(pipeline, path, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        pipeline.save(path)
    assert "\n" not in str(caught.value)


@needs_river
@pytest.mark.parametrize("make", [hoeffding_tree, boosting])
def test_river_s_models_are_refused_before_anything_is_written(make, tmp_path):
    pipeline = OnlinePipeline(FIRES(2), make()).partial_fit(*next(stream(1, missing=False)))
    name = type(pipeline.predictor.inner).__name__
    assert_refused(
        pipeline,
        tmp_path / "model",
        rf"^{name} of River cannot be saved, .* pipeline\.selector\.save\(path\), or predict with",
    )
    assert os.listdir(tmp_path) == []
    pipeline.selector.save(tmp_path / "model")
    assert_array_equal(fires.load(tmp_path / "model").weights_, pipeline.selector.weights_)


def test_nothing_can_be_saved_before_the_first_batch(tmp_path):
    X, y = next(stream(1))
    for selector in (FIRES(2), FIRES(2).partial_fit(X, y)):
        with pytest.raises(NotFittedError, match="OnlinePipeline has not learnt anything to save"):
            OnlinePipeline(selector, Perceptron()).save(tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_saving_changes_nothing_that_is_learnt(tmp_path):
    often, never = (OnlinePipeline(FIRES(2), GaussianNB(), "minmax") for _ in range(2))
    for batch in stream(4):
        often.partial_fit(*batch).save(tmp_path / "model")
        never.partial_fit(*batch)
    assert state(often) == state(never)


# --- what cannot be loaded ----------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    """Where a pipeline with a predictor of each kind lies."""
    (X, y), paths = next(stream(1)), {}
    for predictor in (Perceptron(), GaussianNB(), SklearnPerceptron(), None):
        name = "ours" if type(predictor) is Perceptron else type(predictor).__name__
        paths[name] = tmp_path / name
        OnlinePipeline(FIRES(2), predictor).partial_fit(X, y).save(paths[name])
    return paths


def test_the_predictor_is_asked_for_and_checked(saved):
    path = saved["GaussianNB"]
    with pytest.raises(
        ValueError, match=r"GaussianNB' is GaussianNB, .*\(path, predictor=\.\.\.\)"
    ):
        fires.load(path)
    with pytest.raises(ValueError, match="is GaussianNB; the one passed is SGDClassifier"):
        fires.load(path, predictor=SGDClassifier())
    with pytest.raises(ValueError, match=r"is GaussianNB; the one passed is fires.predictors.Perc"):
        fires.load(path, predictor=Perceptron())
    with pytest.raises(TypeError, match="A predictor is a classifier of River, or an object"):
        fires.load(path, predictor=GaussianNB)
    with pytest.raises(ValueError, match="was saved without a predictor: pass none"):
        fires.load(saved["NoneType"], predictor=GaussianNB())


def test_our_perceptron_and_scikit_learn_s_are_not_taken_for_each_other(saved):
    with pytest.raises(
        ValueError, match=r"fires.predictors.Perceptron; the one passed is Perceptr"
    ):
        fires.load(saved["ours"], predictor=SklearnPerceptron())
    with pytest.raises(
        ValueError, match=r"is Perceptron; the one passed is fires.predictors.Perce"
    ):
        fires.load(saved["Perceptron"], predictor=Perceptron())
    with pytest.raises(ValueError, match="is Perceptron, whose code"):
        fires.load(saved["Perceptron"])
    assert type(fires.load(saved["ours"], predictor=Perceptron()).predictor) is Perceptron


@needs_river
def test_a_model_of_river_with_the_same_name_is_another(saved):
    from river import naive_bayes

    for model in (naive_bayes.GaussianNB(), RiverPredictor(naive_bayes.GaussianNB())):
        with pytest.raises(ValueError, match="the one passed is GaussianNB of River"):
            fires.load(saved["GaussianNB"], predictor=model)


def test_an_estimator_of_another_width_is_refused(saved):
    X, y = next(stream(1, missing=False))
    with pytest.raises(
        ValueError, match=r"theta_ of shape \(2, 6\); that of predictor has shape \(2, 4\)"
    ):
        fires.load(saved["GaussianNB"], predictor=GaussianNB().fit(X[:, :4], y))


def test_the_model_of_the_selector_is_asked_for_too(tmp_path):
    selector = FromModel(2, estimator=SGDClassifier(random_state=0))
    OnlinePipeline(selector, Perceptron()).partial_fit(*next(stream(1))).save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"SGDClassifier: pass it again, fires\.load\(path, model"):
        fires.load(tmp_path / "model")
    with pytest.raises(ValueError, match="learnt with SGDClassifier; model is a Perceptron"):
        fires.load(tmp_path / "model", model=SklearnPerceptron())


def fault(path, **load):
    with pytest.raises(StateError) as caught:
        fires.load(path, **load)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(saved, share):
    whole = saved["ours"].read_bytes()
    saved["ours"].write_bytes(whole[: int(share * len(whole))])
    fault(saved["ours"])


@pytest.mark.parametrize("name", ["ours", "GaussianNB"])
def test_a_file_that_lacks_any_part_is_refused(saved, name):
    """As another version of fires may have written it: whole, and yet not what is needed."""
    path, given = saved[name], None if name == "ours" else GaussianNB()
    header, arrays = read_state(path)
    assert {array.split(".")[0] for array in arrays} == {"selector", "scaler", "predictor"}
    later = {"selector.leading.brought", "selector.weight_sums", "scaler.weight_sums"}
    later |= {f"selector.leading.{name}" for name in ("classes", "late", "trust", "learnable")}
    later |= {"selector.members.waited", "selector.members.k"}
    later |= {name.replace("selector", "predictor") for name in later}
    for lost in arrays.keys() - later:  # of later versions only
        write_state(path, header, {n: array for n, array in arrays.items() if n != lost})
        fault(path, predictor=given)
    needed = {"selector", "predictor", "preprocess", "feature_names", "named_apart", "n_missing"}
    needed |= {"columns"}
    assert needed == set(header) - {"class", "fires", "slots"}  # of fixed columns there are none
    for lost in needed:
        write_state(path, {n: value for n, value in header.items() if n != lost}, arrays)
        assert "OnlinePipeline" in fault(path, predictor=given)
    for part in ("selector", "predictor"):
        for lost in set(header[part]) - {"fires", "n_rows"}:  # FIRES can do without these
            less = {n: value for n, value in header[part].items() if n != lost}
            write_state(path, header | {part: less}, arrays)
            fault(path, predictor=given)
    write_state(path, header, arrays)
    assert type(fires.load(path, predictor=given)) is OnlinePipeline


@pytest.mark.parametrize("kind", [None, "Pipeline", ["OnlinePipeline"]])
def test_the_state_of_something_else_is_refused(tmp_path, kind):
    write_state(tmp_path / "model", {"class": kind}, {})
    assert "is no selector" in fault(tmp_path / "model")
    write_state(tmp_path / "model", {"class": "OnlinePipeline", "selector": {"class": kind}}, {})
    assert "is no selector" in fault(tmp_path / "model")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        fires.load(Path(tmp_path) / "model", predictor=GaussianNB())


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_pipeline_that_was_evaluated_knows_the_names_of_the_stream(library, tmp_path):
    """As ``fires select`` saves it: frames whose columns come in another order are put right."""
    frames = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4)) * [1.0, 10.0, 100.0, 1000.0]
    y, names = (X[:, 0] > 0).astype(int), ["a", "b", "c", "d"]
    pipeline = OnlinePipeline(FIRES(1), Perceptron())
    for _ in prequential(from_arrays(X, y, names), pipeline):
        pass
    pipeline.save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == names
    frame = frames.DataFrame({name: X[:, names.index(name)] for name in reversed(names)})
    assert_array_equal(loaded.predict(frame), pipeline.predict(X))
    assert_array_equal(loaded.predict(X), pipeline.predict(X))  # arrays, as they were announced
    with pytest.raises(ValueError, match="missing 'a'"):
        loaded.predict(frame.drop(columns="a") if library == "pandas" else frame.drop("a"))
