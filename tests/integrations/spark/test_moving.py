"""What one process has learnt goes on on Spark; a run stays where it began."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from numpy.testing import assert_allclose
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from tests.integrations.spark.conftest import COLUMNS, write_files
from tests.integrations.spark.killed import learn

import fires
from fires import FIRES
from fires.cli import main
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError
from fires.core.sharding import Shards
from fires.integrations.spark import select_frame
from fires.selectors.sharded import partial_fit_sharded


def select(*arguments):
    done = CliRunner().invoke(main, ["select", *map(str, arguments), "-q"])
    assert "Traceback" not in done.output
    return done


def assert_same_belief(run, selector):
    found = fires.load(run / "state.safetensors").selector
    assert_allclose(found.importances_, selector.importances_, rtol=1e-8, atol=1e-10)
    assert_allclose(found.uncertainties_, selector.uncertainties_, rtol=1e-8, atol=1e-10)


def in_shards(selector, *paths):
    frame = pl.concat([pl.read_parquet(path) for path in paths])
    X, y = frame.select(COLUMNS).to_numpy(order="c"), frame["label"].to_numpy().astype(str)
    evaluate = Shards.cut(CheckedBatch(X, y), len(paths)).evaluate
    return partial_fit_sharded(selector, evaluate, n_features=8)


def test_what_one_process_has_learnt_goes_on_on_spark(spark, tmp_path):
    write_files(tmp_path / "files", 2)
    write_files(tmp_path / "more", 2, first=2)
    (one, two), (three, four) = (sorted((tmp_path / name).iterdir()) for name in ("files", "more"))
    run, options = tmp_path / "run", ["--target", "label", "--top", 2, "--batch-size", 150]
    assert select(one, two, *options, "--out", run).exit_code == 0
    learnt = run / "state.safetensors"
    expected = in_shards(fires.load(learnt).to_cluster(), three, four)
    learn(
        spark, str(tmp_path / "more"), tmp_path / "other", selector=fires.load(learnt).to_cluster()
    )
    assert_same_belief(tmp_path / "other", expected)


def test_a_run_goes_on_where_it_began(spark, tmp_path):
    write_files(tmp_path / "files", 2)
    one, two = sorted((tmp_path / "files").iterdir())
    run, other = tmp_path / "run", tmp_path / "other"
    assert select(one, "--target", "label", "--top", 2, "--out", run).exit_code == 0
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    refused = select("--engine", "spark", "--resume", run)
    assert refused.exit_code == 2
    assert "--engine cannot be used with --resume: it is set in" in refused.stderr
    with pytest.raises(
        InputError, match="holds a run of one process: resume it the way it was started"
    ):
        learn(spark, str(tmp_path / "files"), run, selector=FIRES(2, random_state=0))
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    options = ["--target", "label", "--top", 2, "--engine", "spark"]
    assert select(two, *options, "--out", other).exit_code == 0
    refused = select("--engine", "fires", "--resume", other)
    assert "--engine cannot be used with --resume" in refused.stderr


def test_sparse_rows_move_too(spark, tmp_path):
    rng, paths, run = np.random.default_rng(0), [], tmp_path / "run"
    for number in range(2):
        X = rng.random((200, 30)) * (rng.random((200, 30)) < 0.2)
        X[0, 29] = 0.0 if number == 1 else 1.0  # the second file does not show all columns
        X[1:, 29] = 0.0
        paths.append(tmp_path / f"{number}.svm")
        dump_svmlight_file(X, (X[:, 4] > X[:, 7]).astype(int), str(paths[-1]), zero_based=False)
    assert select(paths[0], "--top", 2, "--out", run).exit_code == 0
    expected = fires.load(run / "state.safetensors").to_cluster()
    X, y = load_svmlight_file(str(paths[1]), n_features=30, zero_based=False)
    whole = Shards([CheckedBatch(sp.csr_array(X), y)])
    partial_fit_sharded(expected, whole.evaluate, n_features=30, sparse=True)
    frame = spark.read.format("libsvm").option("numFeatures", 30).load(str(paths[1]))
    selector = fires.load(run / "state.safetensors").to_cluster()
    found = select_frame(frame, selector, target="label").selector
    assert_allclose(found.importances_, expected.importances_, rtol=1e-8, atol=1e-10)
    assert found.n_samples_seen_ == 400
    assert found.get_support(indices=True).tolist() == [4, 7]
