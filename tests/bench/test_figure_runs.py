import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fires import OFS
from fires.bench import cells
from fires.bench.cells import DIGITS, METHODS, Cell, Method, Run
from fires.bench.datasets import loading as datasets
from fires.core.errors import Diverged
from fires.evaluation.records import Step
from fires.streams.arrays import from_arrays
from fires.streams.base import Position


def step(index, accuracy, stability):
    scores = {"accuracy": accuracy}
    rows = Position(10 * (index + 1))
    return Step(index, rows, 10, scores, np.array([1]), stability, 0.0, 0.0)


# Runs


def test_a_run_is_what_the_records_say():
    values = [(np.nan, np.nan), (0.5, 1.0), (0.75, 0.25)]
    run = Run.of(step(index, *pair) for index, pair in enumerate(values))
    np.testing.assert_array_equal(run.seen, [10, 20, 30])
    np.testing.assert_array_equal(run.accuracy, [np.nan, 0.5, 0.75])
    np.testing.assert_array_equal(run.stability, [np.nan, 1.0, 0.25])
    assert run.diverged_at is None


def test_a_run_that_ceases_to_be_finite_is_known_up_to_there():
    def steps():
        yield step(0, 0.5, 1.0)
        raise Diverged("the gradient is not finite")

    run = Run.of(steps())
    assert run.seen.tolist() == [10]
    assert run.diverged_at == 10


def test_any_other_failure_is_a_failure():
    def steps():
        yield step(0, 0.5, 1.0)
        raise ValueError("X has 3 features")

    with pytest.raises(ValueError, match="3 features"):
        Run.of(steps())


def test_a_run_without_a_step_is_empty():
    assert Run.of([]).seen.shape == Run.of([]).stability.shape == (0,)


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.just(3), st.integers(0, 5)),
        elements=st.floats(allow_infinity=False),
    ),
    st.none() | st.integers(0, 1000),
)
def test_json_gives_back_the_run(series, diverged_at):
    before = Run(*series, diverged_at)
    after = Run.from_record(json.loads(json.dumps(before.as_record(), allow_nan=False)))
    for name in ("seen", "accuracy", "stability"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.diverged_at == diverged_at


# Cells


@pytest.fixture
def small(monkeypatch):
    """A little data set in the place of a great one; what it was asked for."""
    asked = []

    def load(name, **options):
        asked.append((name, options))
        rng = np.random.default_rng(0)
        y = rng.permutation(np.repeat([0, 1], [300, 100]))
        stream = from_arrays(rng.random((400, 784)) + 0.2 * y[:, None], y, classes=(0, 1))
        return datasets.Dataset(datasets.describe(name), 400, (), True, None, stream)

    monkeypatch.setattr(datasets, "load", load)
    for kept in (cells.kept_dataset, cells.majority):
        kept.cache_clear()
    yield asked
    for kept in (cells.kept_dataset, cells.majority):
        kept.cache_clear()


def test_a_cell_holds_the_very_numbers_of_the_tables(small):
    settings = ("Madelon", "OFS", 100, 0.1)
    shown = cells.run(Cell(*settings, figure=True))
    table = cells.run(Cell(*settings))
    run = Run.from_record(json.loads(json.dumps(shown, allow_nan=False)))
    assert np.nanmean(run.accuracy) == pytest.approx(table["accuracy"], abs=1e-12)
    assert np.nanvar(run.accuracy) == pytest.approx(table["accuracy_variance"], abs=1e-12)
    assert np.nanmean(run.stability) == pytest.approx(table["stability"], abs=1e-12)
    assert shown["rows"] == 400
    assert shown["majority"] == 0.75


def test_the_penalty_is_the_one_of_the_cell(small, monkeypatch):
    usual, tried = METHODS["FIRES-GLM"], []

    def make(cell):
        tried.append(usual.selector(cell))
        return tried[-1]

    monkeypatch.setitem(METHODS, "FIRES-GLM", Method(make, usual.predictor))
    for penalty in (None, 100.0):
        cells.run(Cell("Madelon", "FIRES-GLM", 100, 0.1, penalty=penalty, figure=True))
    assert [selector.uncertainty_penalty for selector in tried] == [0.01, 100.0]


def test_a_digit_is_its_pixels_after_the_last_row(small):
    cell = Cell("MNIST", "OFS", 100, 0.147, n_rows=400, digit=8, figure=True)
    found = json.loads(json.dumps(cells.run(cell), allow_nan=False))
    assert len(found["weights"]) == len(found["selected"]) == 784
    assert sum(found["selected"]) == 115
    best = np.argsort(-np.array(found["weights"]), kind="stable")[:115]
    assert np.array(found["selected"])[best].all()
    (_, options), *_ = small
    assert (options["labels"], options["positive"], options["n_rows"]) == (DIGITS, 8, 400)
    mine, others = map(np.mean, found["means"])
    assert mine == pytest.approx(0.7, abs=0.01)
    assert others == pytest.approx(0.5, abs=0.01)


def test_a_digit_says_where_a_method_ceases_to_be_finite(small, monkeypatch):
    class Frail(OFS):
        def learn(self, batch):
            if getattr(self, "n_samples_seen_", 0) >= 200:
                raise Diverged("no number any more")
            return super().learn(batch)

    monkeypatch.setitem(METHODS, "OFS", Method(lambda cell: Frail(0.1)))
    cell = Cell("MNIST", "OFS", 100, 0.147, n_rows=400, digit=8, figure=True)
    found = cells.run(cell)
    assert found["diverged_at"] == 200
    assert "weights" not in found


def test_cells_of_a_group_load_the_same_data():
    cell = Cell("MNIST", "OFS", 100, 0.1)
    assert cell.group == Cell("MNIST", "EFS", 100, 0.1, penalty=1.0).group
    assert cell.group != Cell("MNIST", "OFS", 100, 0.1, digit=3).group
