"""The rows of features that a run shows and writes."""

import csv

import numpy as np
import pytest

from fires import FIRES, OnlinePipeline
from fires.core import files
from fires.evaluation.loop import prequential
from fires.predictors import Perceptron
from fires.run.features import feature_rows
from fires.run.folder import RunFolder
from fires.run.totals import RunTotals
from fires.streams.arrays import from_arrays

NAMES = ("plain", 'a "quote", and a comma', "two\nlines", "", "é", "5", "six", "seven")


def learnt(n_classes=2, **settings):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    y = np.digitize(X[:, 1] - X[:, 5], np.linspace(-1.0, 1.0, n_classes + 1)[1:-1])
    pipeline, totals = OnlinePipeline(FIRES(3, **settings), Perceptron()), RunTotals(8)
    for step in prequential(from_arrays(X, np.array(list("abcd"))[y]), pipeline):
        totals.add(step)
    return pipeline, totals


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("update", ["bayes", "gradient"])
def test_all_features_come_best_first_and_some_are_rows_of_the_same(n_classes, update):
    pipeline, totals = learnt(n_classes, update=update)
    selector = pipeline.selector
    rows = feature_rows(selector, NAMES, totals)
    assert [row["rank"] for row in rows] == list(range(1, 9))
    columns = [NAMES.index(row["feature"]) for row in rows]
    assert [row["weight"] for row in rows] == selector.weights_[columns].tolist()
    assert [row["importance"] for row in rows] == selector.importances_[columns].tolist()
    low, high = selector.interval()
    for row, column in zip(rows, columns, strict=True):
        known = (low[column], high[column]) if update == "bayes" else (None, None)
        assert (row["low"], row["high"]) == known
        assert ("class" in row) == (n_classes > 2)
        if n_classes > 2:
            by_class = selector.class_importances_[:, column]
            told = by_class["abcd".index(row["class"])]
            most = row["importance"] if update == "bayes" else max(by_class, key=abs)
            assert told == most
    selected = selector.get_support(indices=True)
    assert feature_rows(selector, NAMES, totals, selected) == [r for r in rows if r["selected"]]
    assert feature_rows(selector, NAMES, totals, selected[::-1]) == [
        row for row in rows if row["selected"]
    ]


def test_the_file_holds_what_the_rows_say(tmp_path):
    pipeline, totals = learnt(4)
    described = [{"name": name, "done": "number", "example": None} for name in NAMES]
    with RunFolder(tmp_path / "run") as folder:
        folder.finish(pipeline, NAMES, totals, {}, described)
    rows = feature_rows(pipeline.selector, NAMES, totals)
    with (tmp_path / "run" / "features.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [
            {key: str(value) for key, value in row.items()} for row in rows
        ]
    with (tmp_path / "run" / "columns.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [row | {"example": ""} for row in described]


def test_a_run_that_is_moved_aside_takes_its_marks_last(tmp_path, monkeypatch):
    """A process that is killed meanwhile leaves a folder that is known as a run."""
    pipeline, totals = learnt(2)
    with RunFolder(tmp_path) as folder:
        folder.begin("# options\n", {})
        folder.start(NAMES)
        folder.finish(pipeline, NAMES, totals, {})
    moved, move = [], files.move
    monkeypatch.setattr(files, "move", lambda path, to: moved.append(path.name) or move(path, to))
    with RunFolder(tmp_path, overwrite=True) as folder:
        folder.begin("# options\n", {})
    in_order = [name for name in moved if name.startswith(("run.", "features", "state"))][:4]
    assert set(in_order[:2]) == {"features.csv", "state.safetensors"}
    assert in_order[2:] == ["run.json", "run.toml"]
