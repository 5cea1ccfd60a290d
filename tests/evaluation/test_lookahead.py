"""Learning from many batches in one call is learning from one after the other, bit for bit."""

import dataclasses
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires import FIRES
from fires.evaluation import lookahead, shown
from fires.evaluation.following import follow
from fires.predictors import Perceptron
from fires.streams.arrays import from_arrays


@pytest.fixture(scope="module", autouse=True)
def soon():
    """Let what is compiled be used after a few batches, not after many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shown, "_PLAIN", 3)
        yield


class Cut:
    """The stream without what would let anyone look ahead."""

    def __init__(self, stream):
        self.schema, self._stream = stream.schema, stream

    def batches(self, batch_size):
        for batch in self._stream.batches(batch_size):
            yield dataclasses.replace(batch, X=batch.X.copy(), y=batch.y.copy(), block=None)


class Bound(Perceptron):
    """A predictor of the user's own."""


def assert_same_step(one, other):
    for name in ("index", "position", "n_rows"):
        assert getattr(one, name) == getattr(other, name)
    assert_array_equal(one.selected, other.selected)
    assert_array_equal([*one.scores.values()], [*other.scores.values()])
    assert one.scores.keys() == other.scores.keys()
    assert_array_equal(one.stability, other.stability)


def state(selector, predictor):
    header, arrays = selector._state()
    facts = [header, selector.n_samples_seen_, selector.n_missing_, selector.classes_.tolist()]
    if predictor is not None:
        arrays |= {"coef": predictor.coef_, "bias": predictor.intercept_}
    return facts, {name: array.copy() for name, array in arrays.items()}


def assert_same_state(one, other):
    assert one[0] == other[0]
    assert one[1].keys() == other[1].keys()
    for name, array in one[1].items():
        assert array.shape == other[1][name].shape, name
        assert_array_equal(array, other[1][name], err_msg=name)


def problem(seed, n_rows=1_000, n_features=8, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(2.0, 3.0, size=(n_rows, n_features))
    return X, (X[:, 0] - X[:, -1] + noise * rng.normal(size=n_rows) > 0).astype(int)


def both_ways(X, y, make, batch_size, predictor=Perceptron):
    """The steps, the error and the state in the end, of one run with and one without looking."""
    runs = []
    for stream in (from_arrays(X, y), Cut(from_arrays(X, y))):
        selector, model = make(), None if predictor is None else predictor()
        steps, error = [], None
        try:
            for step in follow(stream, selector, model, batch_size=batch_size):
                steps.append((step, state(selector, model)))
        except ValueError as raised:
            error = str(raised)
        runs.append((steps, error, state(selector, model)))
    return runs


def assert_same_run(one, other):
    assert one[1] == other[1]
    assert len(one[0]) == len(other[0])
    for (step, then), (other_step, other_then) in zip(one[0], other[0], strict=True):
        assert_same_step(step, other_step)
        assert_same_state(then, other_then)
    assert_same_state(one[2], other[2])


@pytest.fixture
def plans(monkeypatch):
    """How many batches each look took in."""
    taken, plan = [], lookahead._plan

    def counted(*arguments):
        found = plan(*arguments)
        taken.append(0 if found is None else found.n_batches)
        return found

    monkeypatch.setattr(lookahead, "_plan", counted)
    return taken


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 400),
    n_features=st.sampled_from([1, 2, 5, 17, 33]),
    batch_size=st.sampled_from([1, 3, 4, 7, 50, 64, 100]),
    k=st.integers(1, 20),
    noise=st.sampled_from([0.0, 1.0, 100.0]),
    outliers=st.sampled_from([0.0, 0.01, 0.2]),
    missing=st.sampled_from([0.0, 0.001, 0.3]),
    rate=st.sampled_from([0.01, 1.0]),
    predictor=st.sampled_from([None, Perceptron, Bound]),
)
def test_looking_ahead_changes_nothing(
    seed, n_rows, n_features, batch_size, k, noise, outliers, missing, rate, predictor
):
    X, y = problem(seed, n_rows, n_features, noise)
    rng = np.random.default_rng(seed)
    X[rng.random(X.shape) < outliers] *= 1e4  # which the step cap answers
    X[rng.random(X.shape) < missing] = np.nan
    X[:, rng.random(n_features) < 0.2] = 3.0
    runs = both_ways(X, y, lambda: FIRES(k, learning_rate=rate), batch_size, predictor)
    assert_same_run(*runs)


@pytest.mark.parametrize("labels", [(0, 1), (-2.0, 7.0), (False, True), ("ham", "spam")])
def test_labels_of_any_kind(labels, plans):
    X, y = problem(0)
    one, other = both_ways(X, np.array(labels)[y], lambda: FIRES(3), 20)
    assert_same_run(one, other)
    assert sum(plans) == 47  # all but the first three


def test_it_is_what_partial_fit_gives():
    X, y = problem(1)
    runs = both_ways(X, y, lambda: FIRES(3), 50, None)
    selector = FIRES(3)
    for start in range(0, len(y), 50):
        selector.partial_fit(X[start : start + 50], y[start : start + 50])
    for run in runs:
        assert_same_state(run[2], state(selector, None))


@pytest.mark.parametrize("n_steps", [1, 2, 7, 10])
def test_whoever_stops_early_has_learnt_no_more(n_steps):
    X, y = problem(2)
    states = []
    for stream in (from_arrays(X, y), Cut(from_arrays(X, y))):
        selector, model = FIRES(3), Perceptron()
        for _ in islice(follow(stream, selector, model), n_steps):
            pass
        states.append(state(selector, model))
    assert_same_state(*states)
    assert states[0][0][1] == 100 * n_steps


def quieter(selector, model, X, y):
    selector.set_params(learning_rate=0.5)


def fewer(selector, model, X, y):
    selector.set_params(n_features_to_select=2)


def fit_more(selector, model, X, y):
    selector.partial_fit(X[:10], y[:10])


def weighted(selector, model, X, y):
    selector.partial_fit(X[:10], y[:10], sample_weight=np.full(10, 0.7))


def third_label(selector, model, X, y):
    selector.partial_fit(X[:10], y[:10] + 1)


def train_more(selector, model, X, y):
    model.partial_fit(X[:10], y[:10])


@pytest.mark.parametrize("meddle", [quieter, fewer, fit_more, weighted, third_label, train_more])
def test_what_others_do_between_two_batches_counts(meddle):
    X, y = problem(3)
    runs = []
    for stream in (from_arrays(X, y), Cut(from_arrays(X, y))):
        selector, model, steps = FIRES(3), Perceptron(), []
        for step in follow(stream, selector, model, batch_size=40):
            if step.index == 9:
                meddle(selector, model, X, y)
            steps.append((step, state(selector, model)))
        runs.append((steps, None, state(selector, model)))
    assert_same_run(*runs)


def infinite(X, y):
    X[730, 2] = np.inf


def huge(X, y):
    X[730, 2] = 1e160


def between(X, y):
    y[730] = 0.5


def absent(X, y):
    X[730, 2] = np.nan


def third(X, y):
    y[730:] = 2.0


@pytest.mark.parametrize("spoil", [infinite, huge, between, absent])
def test_an_error_comes_where_it_would_and_leaves_what_it_would(spoil):
    X, y = problem(4)
    y = y.astype(float)
    spoil(X, y)
    one, other = both_ways(X, y, lambda: FIRES(3, missing="error"), 50)
    assert len(one[0]) == 14
    assert one[1] is not None
    assert_same_run(one, other)


def test_a_step_that_would_overflow():
    X, y = problem(5)
    X[500:550] *= 1e145
    one, other = both_ways(X, y, lambda: FIRES(3, learning_rate=1e10), 50)
    assert_same_run(one, other)


def test_a_third_class_may_come(plans):
    X, y = problem(6)
    third(X, y)
    one, other = both_ways(X, y, lambda: FIRES(3), 50)
    assert_same_run(one, other)
    assert one[2][0][3] == [0, 1, 2]


def test_a_batch_that_is_not_ordinary_does_not_stop_the_looking(plans):
    X, y = problem(7, 2_000)
    X[510, 3] = np.nan
    one, other = both_ways(X, y, lambda: FIRES(3), 20)
    assert_same_run(one, other)
    assert 85 < sum(plans) < 97


def test_batches_with_gaps_are_ordinary_where_gaps_may_be(plans):
    X, y = problem(9, 2_000)
    X[55::30, 3] = np.nan
    one, other = both_ways(X, y, lambda: FIRES(3), 10)
    assert_same_run(one, other)
    assert one[2][0][2] == np.isnan(X).sum()
    assert 190 < sum(plans) < 200


def test_where_every_batch_needs_the_cap_it_is_hardly_tried(plans):
    X, y = problem(9, 2_000)
    one, other = both_ways(X, y, lambda: FIRES(3, learning_rate=100.0), 10)
    assert_same_run(one, other)
    assert sum(plans) < 10
    assert len(plans) < 20


def test_all_selectors_may_be_looked_at():
    X, y = problem(8)
    for make in (
        lambda: FIRES.as_published(3),
        lambda: FIRES(3, model="logistic"),
        lambda: FIRES(3, scale="minmax"),
        lambda: FIRES(0.4, fit_intercept=False),
    ):
        assert_same_run(*both_ways(X, y, make, 100))
