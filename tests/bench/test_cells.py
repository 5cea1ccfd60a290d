import os
from dataclasses import replace

import numpy as np
import pytest

from fires import FIRES
from fires.bench.cells import (
    BATCH_SIZES,
    FRACTIONS,
    METHODS,
    PROTOCOLS,
    Cell,
    means_of,
    run,
    run_of,
)
from fires.bench.tables import published_value
from fires.core.errors import Diverged
from fires.predictors import Perceptron
from fires.streams import from_arrays

TIMES = {"milliseconds_select", "milliseconds_train", "milliseconds_per_step", "seconds"}
real_data = pytest.mark.skipif(
    not os.environ.get("FIRES_DATA_DIR"), reason="needs the folder FIRES_DATA_DIR"
)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_and_gives_json_values(method, protocol):
    share = 0.1 if METHODS[method].selects else None
    cell = Cell("RTG", method, 25, share, protocol, n_rows=75)
    found = run(cell)
    assert {name: found[name] for name in ("dataset", "method", "fraction", "protocol")} == {
        "dataset": "RTG",
        "method": method,
        "fraction": share,
        "protocol": protocol,
    }
    assert (found["steps"], found["rows"]) == (3, 75)
    assert 0.0 <= found["accuracy"] <= 1.0
    assert (found["stability"] is None) == (share is None)
    assert found["milliseconds_per_step"] == pytest.approx(
        found["milliseconds_select"] + found["milliseconds_train"]
    )
    assert found["notes"] == ["generated with seed 0"]


@pytest.mark.parametrize("method", ["FIRES-SDT", "random features", "OnlineBoosting"])
def test_the_seed_decides_everything_random(method):
    share = 0.1 if METHODS[method].selects else None
    cell = Cell("RTG", method, 15, share, n_rows=45)
    one, two, other = (
        {name: value for name, value in run(c).items() if name not in TIMES}
        for c in (cell, cell, replace(cell, seed=1))
    )
    assert one == two
    assert one["accuracy"] != other["accuracy"]


class Spy:
    """A stream that is not scaled beforehand, and shows in which order it is used."""

    def __init__(self, rng):
        X = rng.normal(size=(300, 6)) * 100.0 + 1000.0
        self.stream = from_arrays(X, (X[:, 2] > 1000.0).astype(int), classes=(0, 1))
        self.schema = self.stream.schema
        self.batches = self.stream.batches


def test_honest_scales_the_stream_and_as_published_takes_it_as_it_is(monkeypatch):
    seen = {}

    class Recorder(Perceptron):
        def partial_fit(self, X, y, classes=None, sample_weight=None):
            seen[protocol].append(np.abs(X).max())
            return super().partial_fit(X, y, classes, sample_weight)

    for protocol in PROTOCOLS:
        seen[protocol] = []
        stream = Spy(np.random.default_rng(0))
        means_of(run_of(stream, FIRES(6), Recorder(), 100, protocol))
    assert max(seen["honest"]) < 2.0
    assert min(seen["as-published"]) > 900.0


def test_what_is_not_defined_is_none():
    stream = from_arrays(np.eye(4), np.array([0, 1, 0, 1]), classes=(0, 1))
    found = means_of(run_of(stream, FIRES(2), Perceptron(), 10, "honest"))
    assert found == {
        "accuracy": None,
        "accuracy_variance": None,
        "stability": None,
        "milliseconds_select": None,
        "milliseconds_train": None,
        "milliseconds_per_step": None,
        "steps": 1,
    }


class Bursting(FIRES):
    """Ceases to be finite with the third batch."""

    def learn(self, batch):
        if getattr(self, "n_samples_seen_", 0) >= 200:
            raise Diverged("no number")
        return super().learn(batch)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_of_a_method_that_ceases_to_be_finite_the_row_is_told_and_no_score(protocol):
    stream = Spy(np.random.default_rng(0))
    found = means_of(run_of(stream, Bursting(2), Perceptron(), 100, protocol))
    assert (found.pop("diverged_at"), found.pop("steps")) == (200, 2)
    whole = means_of(run_of(stream, FIRES(2), Perceptron(), 100, protocol))
    assert found.keys() == whole.keys() - {"steps"}
    assert set(found.values()) == {None}


def means_over_settings(dataset):
    cells = [Cell(dataset, "FIRES-GLM", size, share) for size in BATCH_SIZES for share in FRACTIONS]
    found = [run(cell) for cell in cells]
    return {name: np.mean([r[name] for r in found]) for name in ("accuracy", "stability")}


def check_published(dataset, accuracy, stability):
    found = means_over_settings(dataset)
    near = {"accuracy": accuracy, "stability": stability}
    for name, tolerance in near.items():
        assert found[name] == pytest.approx(
            published_value(name, dataset, "FIRES-GLM"), abs=tolerance
        )


@real_data
@pytest.mark.parametrize("dataset", ["Spambase", "Usenet"])
def test_fires_glm_has_the_published_numbers(dataset):
    check_published(dataset, accuracy=0.02, stability=0.05)


@real_data
@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["KDD", "MNIST"])
def test_fires_glm_has_the_published_numbers_on_large_data_sets(dataset):
    check_published(dataset, accuracy=0.02, stability=0.05)


@real_data
@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["Madelon", "Dota"])
def test_fires_glm_nearly_has_the_published_numbers_where_there_is_little_to_learn(dataset):
    check_published(dataset, accuracy=0.03, stability=0.07)
