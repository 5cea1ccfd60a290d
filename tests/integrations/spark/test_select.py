"""A stream and a frame, from end to end, with the folder of a run."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from sklearn.base import clone
from tests.integrations.spark.conftest import COLUMNS, write_files
from tests.integrations.spark.killed import learn

import fires
from fires import FIRES
from fires.cli import main
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError
from fires.core.sharding import Shards
from fires.integrations.spark import select_frame, select_stream
from fires.run.saved import SavedRun
from fires.run.sharded_scoring import ShardedTest
from fires.run.totals import RunTotals
from fires.selectors.sharded import partial_fit_sharded

# The other update learns from a frame below.
UPDATES = [pytest.param("gradient", marks=pytest.mark.slow), "bayes"]


def in_one_process(files, update: str) -> FIRES:
    """The same micro-batches, two files each; by Bayes' rule, with the update for shards."""
    selector = FIRES(2, update=update)
    paths = sorted(files.iterdir())
    for place in range(0, len(paths), 2):
        take(selector, paths[place : place + 2])
    return selector


def take(selector: FIRES, paths) -> None:
    frame = pl.concat([pl.read_parquet(path) for path in paths])
    X, y = frame.select(COLUMNS), frame["label"].to_numpy()
    if selector.update == "gradient":
        selector.partial_fit(X, y)
    else:
        whole = Shards([CheckedBatch(X.to_numpy(order="c"), y.astype(str))])
        partial_fit_sharded(selector, whole.evaluate, n_features=8, names=COLUMNS)


def scores_before(files, update: str) -> dict[str, float]:
    """How well the last micro-batch is predicted by what was learnt before it, by itself."""
    paths = sorted(files.iterdir())
    selector, frame = FIRES(2, update=update), pl.concat(map(pl.read_parquet, paths[-2:]))
    for place in range(0, len(paths) - 2, 2):
        take(selector, paths[place : place + 2])
    whole = Shards(
        [
            CheckedBatch(
                frame.select(COLUMNS).to_numpy(order="c"), frame["label"].to_numpy().astype(str)
            )
        ]
    )
    test = ShardedTest(selector)
    partial_fit_sharded(selector, test.beside(whole.evaluate), n_features=8)
    return test.scored(RunTotals(8))


@pytest.mark.parametrize("update", UPDATES)
def test_a_stream_is_learnt_as_in_one_process(spark, tmp_path, update):
    files, run = tmp_path / "files", tmp_path / "run"
    write_files(files, 4)
    query = learn(spark, str(files), run, selector=FIRES(2, update=update))
    alone = in_one_process(files, update)
    tight = {"rtol": 1e-10 if update == "gradient" else 1e-8, "atol": 1e-10}
    assert_allclose(query.selector.importances_, alone.importances_, **tight)
    assert_allclose(query.selector.uncertainties_, alone.uncertainties_, **tight)
    assert query.selector.get_support(indices=True).tolist() == [3, 5]

    # More rows come, and the run goes on with them, there and on one machine.
    moved = fires.load(run / "state.safetensors")
    write_files(files, 2, first=4)
    query = learn(spark, str(files), run, selector=FIRES(2, update=update))
    alone = in_one_process(files, update)
    assert_allclose(query.selector.importances_, alone.importances_, **tight)
    take(moved.selector, sorted(files.iterdir())[4:])
    assert_allclose(moved.selector.importances_, alone.importances_, **tight)

    saved = SavedRun(run)
    assert (saved.facts["status"], saved.facts["rows"]) == ("ended", 900)
    assert saved.facts["classes"] == ["down", "up"]
    # Each micro-batch was predicted by the belief before it; the first cannot be.
    lines = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    who = {"selected": [line["scores"] for line in lines]} | {
        name: [line["baselines"][name] for line in lines] for name in ("all", "majority")
    }
    for scores in who.values():
        assert [score["accuracy"] is None for score in scores] == [True, False, False]
    assert who["selected"][-1] == scores_before(files, update)
    assert saved.facts["scores"].keys() == {"accuracy", "balanced_accuracy"}
    assert saved.facts["predictor"] == "the belief of the selector"
    with pytest.raises(InputError, match="holds a run with n_features_to_select=2"):
        learn(spark, str(files), run, selector=FIRES(3, update=update))


def test_a_frame_is_learnt_in_micro_batches(spark, tmp_path):
    files, run, steps = tmp_path / "files", tmp_path / "run", []
    write_files(files, 4)
    frame = spark.read.parquet(str(files))
    options = {"target": "label", "batch_rows": 200, "on_step": steps.append}
    found = select_frame(frame, FIRES(2, update="gradient"), run=run, **options)
    assert sorted(found.selected) == ["f3", "f5"]
    assert sum(step.n_rows for step in steps) == found.totals.n_rows == 600
    assert [step.n_rows for step in steps] == [200] * 3
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
    assert SavedRun(run).facts["batches"] == 3

    # A selector that has learnt goes on, whatever order the columns come in.
    other = frame.select(*reversed(frame.columns))
    again = select_frame(other, found.selector, target="label", batch_rows=200)
    assert again.selector.n_samples_seen_ == 1200
    assert sorted(again.selected) == ["f3", "f5"]


def test_what_cannot_be_done_is_one_line(spark, tmp_path):
    write_files(tmp_path / "files", 1)
    frame = spark.read.parquet(str(tmp_path / "files"))
    with pytest.raises(InputError, match="is not streaming; use select_frame"):
        select_stream(frame, FIRES(2), target="label", run=tmp_path / "run")
    with pytest.raises(InputError, match="no rows that can be learnt from"):
        select_frame(frame.where("f0 > 1e9"), FIRES(2), target="label", run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    known = FIRES(2).partial_fit(pl.DataFrame(np.eye(8), schema=COLUMNS), [0, 1] * 4)
    with pytest.raises(InputError, match='has learnt from "f0", and the frame has none'):
        select_frame(frame.drop("f0"), known, target="label")


def test_a_run_is_kept_where_hadoop_reaches(spark, tmp_path):
    files, far = tmp_path / "files", tmp_path / "far"
    write_files(files, 2)
    for n_files in (2, 4):  # begun, and gone on with
        write_files(files, n_files)
        query = learn(spark, str(files), far.as_uri(), FIRES(2, update="gradient"))
        assert query.selector.n_samples_seen_ == 150 * n_files
    assert SavedRun(far).facts["batches"] == 2
    assert fires.load(far / "state.safetensors").selector.n_samples_seen_ == 600
    assert len(list((far / "checkpoints").glob("*.safetensors"))) == 2
    assert len((far / "steps.jsonl").read_text().splitlines()) == 2


def test_a_run_is_replaced_where_hadoop_reaches_and_nothing_else(spark, tmp_path):
    files, far = tmp_path / "files", tmp_path / "far"
    write_files(files, 2)
    frame, selector = spark.read.parquet(str(files)), FIRES(2, update="gradient")
    far.mkdir()
    (far / "mine.txt").write_text("mine")
    with pytest.raises(InputError, match=r"far holds mine.txt and no run of fires"):
        select_frame(frame, clone(selector), target="label", run=far.as_uri(), overwrite=True)
    (far / "mine.txt").unlink()
    select_frame(frame, clone(selector), target="label", run=far.as_uri(), batch_rows=100)
    n_batches = SavedRun(far).facts["batches"]
    (far / "mine.txt").write_text("mine")
    (far / "checkpoints" / "model.pt").write_text("mine")
    select_frame(frame, clone(selector), target="label", run=far.as_uri(), overwrite=True)
    assert SavedRun(far).facts["batches"] < n_batches
    assert len(list((far / "checkpoints").glob("*.safetensors"))) == 1
    assert [far / "checkpoints" / "model.pt", far / "mine.txt"] == sorted(
        path for path in far.rglob("*") if path.is_file() and path.read_bytes() == b"mine"
    )


# A constant target

SAYS = r'^the target column "label" has only one value, \'up\': there is nothing to predict$'


def constant(spark, folder):
    write_files(folder, 2)
    for path in folder.iterdir():
        pl.read_parquet(path).with_columns(label=pl.lit("up")).write_parquet(path)
    return folder


def test_a_frame_whose_target_is_constant_is_refused_as_in_one_process(spark, tmp_path):
    files, run = constant(spark, tmp_path / "files"), tmp_path / "run"
    frame = spark.read.parquet(str(files))
    with pytest.raises(InputError, match=SAYS):
        select_frame(frame, FIRES(2), target="label", run=run)
    assert not run.exists()
    path = tmp_path / "x.parquet"
    pl.concat(map(pl.read_parquet, files.iterdir())).write_parquet(path)
    alone = CliRunner().invoke(main, ["select", str(path), "-t", "label"])
    said = alone.stderr.splitlines()[-1].removeprefix("Error: ")  # kernels may be compiled before
    with pytest.raises(InputError, match=SAYS):
        raise InputError(said.replace(f" of {path}", ""))


def test_so_is_a_stream_that_ends_and_not_one_that_is_stopped(spark, tmp_path):
    files, run = constant(spark, tmp_path / "files"), tmp_path / "run"
    with pytest.raises(InputError, match=SAYS):
        learn(spark, str(files), run, selector=FIRES(2))
    assert not (run / "run.json").exists()
    query = select_stream(
        spark.readStream.schema(spark.read.parquet(str(files)).schema).parquet(str(files)),
        FIRES(2),
        target="label",
        run=run,
    )
    query.processAllAvailable()
    query.stop()
    query.awaitTermination()
    assert SavedRun(run).facts["rows"] == 300
