import numpy as np
import pytest
import scipy.sparse as sp

from fires import FIRES, AllFeatures, OnlinePipeline
from fires.evaluation.loop import prequential
from fires.metrics.stability import stability
from fires.predictors import Perceptron
from fires.streams.arrays import from_arrays


def data(n=600, width=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, width)) * 10 + 5
    return X, (X[:, 1] + X[:, 4] > 10).astype(int)


def test_it_evaluates_the_very_pipeline_that_goes_into_service():
    X, y = data()
    selector, predictor = FIRES(2), Perceptron()
    steps = list(prequential(from_arrays(X, y), selector, predictor, batch_size=50))
    model, right = OnlinePipeline(FIRES(2), Perceptron()), []
    for i in range(0, 600, 50):
        rows = slice(i, i + 50)
        if i:
            right.append((model.predict(X[rows]) == y[rows]).mean())
        model.partial_fit(X[rows], y[rows])
        np.testing.assert_array_equal(
            steps[i // 50].selected, model.selector.get_support(indices=True)
        )
    np.testing.assert_array_equal(selector.weights_, model.selector.weights_)
    np.testing.assert_array_equal(predictor.coef_, model.predictor.coef_)
    assert np.isnan(steps[0].scores["accuracy"])
    assert [step.scores["accuracy"] for step in steps[1:]] == right


def test_a_batch_is_predicted_without_its_labels(spies):
    X, y = data()
    other = y.copy()
    other[-50:] = 1 - other[-50:]
    runs = []
    for target in (y, other):
        spy = spies()
        list(prequential(from_arrays(X, target), FIRES(2), spy, batch_size=50))
        runs.append(spy)
    for one, two in zip(runs[0].tested, runs[1].tested, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_set_of_a_test_is_the_one_learnt_before(spy):
    X, y = data()
    steps = list(prequential(from_arrays(X, y), FIRES(2), spy, batch_size=50))
    for before, shown in zip(steps, spy.tested, strict=False):
        assert set(np.flatnonzero(shown.any(axis=0))) == set(before.selected)
    for after, (shown, *_) in zip(steps, spy.trained, strict=True):
        assert set(np.flatnonzero(shown.any(axis=0))) == set(after.selected)


def test_as_published_the_selector_sees_a_batch_before_it_is_tested(spy):
    X, y = data()
    steps = list(prequential(from_arrays(X, y), FIRES(2), spy, batch_size=50, order="as-published"))
    for now, shown in zip(steps[1:], spy.tested, strict=True):
        assert set(np.flatnonzero(shown.any(axis=0))) == set(now.selected)


@pytest.mark.parametrize("order", ["test-then-train", "as-published"])
def test_late_labels_are_learnt_late(order, spy):
    X, y = data()
    run = prequential(
        from_arrays(X, y), AllFeatures(), spy, batch_size=50, label_delay=3, order=order
    )
    assert [len(spy.trained) for _ in run] == [0, 0, 0, *range(1, 10)]
    for i, (_, labels, _) in enumerate(spy.trained):
        np.testing.assert_array_equal(labels, y[50 * i : 50 * i + 50])


def test_with_late_labels_nothing_is_selected_before_the_first_ones():
    X, y = data(300)
    steps = list(prequential(from_arrays(X, y), FIRES(2), Perceptron(), label_delay=1))
    assert [len(step.selected) for step in steps] == [0, 2, 2]
    assert np.isnan([step.scores["accuracy"] for step in steps[:2]]).all()


@pytest.mark.parametrize("kind", [float, object])
def test_rows_without_a_label_are_neither_scored_nor_learnt_from(kind, spy):
    X, y = data()
    target = y.astype(kind)
    target[::5] = np.nan if kind is float else None
    target[100:150] = np.nan if kind is float else None
    steps = list(prequential(from_arrays(X, target), AllFeatures(), spy, batch_size=50))
    assert [len(labels) for _, labels, _ in spy.trained] == [40] * 11
    assert len(steps) == 12
    assert np.isnan(steps[2].scores["accuracy"])
    assert not np.isnan(steps[3].scores["accuracy"])


def test_stability_is_that_of_the_window():
    X, y = data()
    steps = list(prequential(from_arrays(X, y), FIRES(2), batch_size=20, window=4))
    masks = np.zeros((30, 8), dtype=bool)
    for i, step in enumerate(steps):
        masks[i, step.selected] = True
        assert step.scores == {}
        if i:
            assert step.stability == stability(masks[max(0, i - 3) : i + 1])


def test_it_reads_no_further_than_it_is_asked_and_closes_the_stream():
    class Stream:
        def __init__(self):
            X, y = data()
            self.schema = from_arrays(X, y).schema
            self.inner, self.read, self.closed = from_arrays(X, y), 0, False

        def batches(self, size):
            try:
                for batch in self.inner.batches(size):
                    self.read += 1
                    yield batch
            finally:
                self.closed = True

    stream = Stream()
    run = prequential(stream, FIRES(2), Perceptron(), batch_size=50)
    next(run), next(run)
    assert (stream.read, stream.closed) == (2, False)
    run.close()
    assert stream.closed


def test_names_of_the_stream_are_names_of_the_features():
    X, y = data(100)
    selector = FIRES(1)
    list(prequential(from_arrays(X, y, list("abcdefgh")), selector))
    assert list(selector.feature_names_in_) == list("abcdefgh")


def test_scores_and_weights_that_are_asked_for():
    X, y = data()
    names = ("accuracy", "balanced_accuracy", "f1")
    steps = list(
        prequential(from_arrays(X, y), FIRES(2), Perceptron(), scores=names, keep_weights=True)
    )
    assert tuple(steps[-1].scores) == names
    assert steps[-1].weights.shape == (8,)


def test_what_cannot_be_is_said_in_one_line():
    X, y = data(100)
    with pytest.raises(ValueError, match="order must be one of"):
        next(prequential(from_arrays(X, y), FIRES(2), order="train-then-test"))
    with pytest.raises(ValueError, match="label_delay must be a whole number"):
        next(prequential(from_arrays(X, y), FIRES(2), label_delay=-1))


def test_a_pipeline_is_evaluated_as_it_is():
    X, y = data()
    model = OnlinePipeline(FIRES(2), Perceptron(), "minmax")
    steps = list(prequential(from_arrays(X, y), model, batch_size=50))
    parts = prequential(
        from_arrays(X, y), FIRES(2), Perceptron(), preprocess="minmax", batch_size=50
    )
    for one, other in zip(steps, parts, strict=True):
        np.testing.assert_array_equal(one.selected, other.selected)
        np.testing.assert_equal(one.scores, other.scores)
    assert (model.predict(X[:20]) == y[:20]).mean() > 0.5  # it has learnt, and goes on


def test_a_pipeline_brings_its_own_predictor():
    X, y = data()
    with pytest.raises(ValueError, match="has its own predictor"):
        prequential(from_arrays(X, y), OnlinePipeline(FIRES(2), Perceptron()), Perceptron())


def test_any_iterable_of_rows_and_labels_is_a_stream():
    X, y = data()
    batches = [(X[i : i + 50], y[i : i + 50].tolist()) for i in range(0, 600, 50)]
    steps = list(prequential(iter(batches), FIRES(2), Perceptron()))
    stream = prequential(from_arrays(X, y), FIRES(2), Perceptron(), batch_size=50)
    for one, other in zip(steps, stream, strict=True):
        np.testing.assert_array_equal(one.selected, other.selected)
        np.testing.assert_equal(one.scores, other.scores)
    assert [step.position.rows for step in steps] == list(range(50, 601, 50))


def test_labels_are_looked_up_once_for_all(monkeypatch):
    """Selector, predictor and scores share what is found of a batch of labels they know."""
    from fires.core.classes import Classes

    X, y = data()
    looked, take = [], Classes.take

    def counted(self, labels, *rest, **more):
        looked.append(len(labels))
        return take(self, labels, *rest, **more)

    monkeypatch.setattr(Classes, "take", counted)
    steps = list(prequential(from_arrays(X, y), FIRES(2), Perceptron(), batch_size=50))
    assert len(looked) == len(steps)


@pytest.mark.parametrize("preprocess", ["standard", "minmax", None])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_labels_and_cells_may_be_missing_in_the_same_rows(form, preprocess):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6)) + 5.0
    y = np.where(X[:, 0] - X[:, 3] + rng.normal(size=1500) > 0.0, 1.0, 0.0)
    X[rng.random(X.shape) < 0.2] = np.nan
    y[300:350] = np.nan
    pipelines = [OnlinePipeline(FIRES(2), preprocess=preprocess) for _ in range(2)]
    has_label = ~np.isnan(y)
    for _ in prequential(from_arrays(form(X), y), pipelines[0], batch_size=70):
        pass
    for start in range(0, len(X), 70):  # what has no label teaches nothing, but the scale
        pipelines[1].partial_fit(
            form(X[start : start + 70][has_label[start : start + 70]]),
            y[start : start + 70][has_label[start : start + 70]],
        )
    one, other = (pipeline.selector.importances_ for pipeline in pipelines)
    np.testing.assert_allclose(one, other, atol=0.02)


@pytest.mark.parametrize("options", [{"label_delay": 3}, {}], ids=["late labels", "no labels"])
def test_where_labels_are_missing_a_growing_range_changes_nothing(options):
    """Selector and predictor standardise: the units of the pipeline must not matter to them."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(2, size=(2000, 6)) * np.array([1.0, 100.0, 1.0, 0.01, 1.0, 1.0]) + 5.0
    y = np.where(X[:, 1] / 100.0 - X[:, 4] + rng.normal(size=2000) > -5.0, 1.0, 0.0)
    if not options:
        y[300:350] = y[600:700] = y[1500:1550] = np.nan
    found = []
    for scale in (None, "minmax"):
        pipeline = OnlinePipeline(FIRES(6), preprocess=scale)
        steps = prequential(
            from_arrays(X, y), pipeline, batch_size=50, scores=("log_loss",), **options
        )
        losses = [step.scores["log_loss"] for step in steps]
        found.append((losses, pipeline.selector.importances_))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)
