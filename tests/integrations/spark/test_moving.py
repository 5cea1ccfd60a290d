"""One run, any engine: begun in one process, gone on with on Spark, and back."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
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
from fires.core.sharding import Shards
from fires.selectors.sharded import partial_fit_sharded


def select(*arguments):
    done = CliRunner().invoke(main, ["select", *map(str, arguments), "-q"])
    assert "Traceback" not in done.output
    return done


def steps(run):
    return [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]


def assert_same_belief(run, selector):
    found = fires.load(run / "state.safetensors").selector
    assert_allclose(found.importances_, selector.importances_, rtol=1e-8, atol=1e-10)
    assert_allclose(found.uncertainties_, selector.uncertainties_, rtol=1e-8, atol=1e-10)


def in_shards(selector, *paths):
    frame = pl.concat([pl.read_parquet(path) for path in paths])
    X, y = frame.select(COLUMNS).to_numpy(order="c"), frame["label"].to_numpy().astype(str)
    evaluate = Shards.cut(CheckedBatch(X, y), len(paths)).evaluate
    return partial_fit_sharded(selector, evaluate, n_features=8)


def test_a_run_moves_to_spark_and_back_and_again(spark, tmp_path):
    write_files(tmp_path / "files", 2)
    write_files(tmp_path / "more", 2, first=2)
    write_files(tmp_path / "others", 2, first=4)
    (one, two), (three, four), (five, six) = (
        sorted((tmp_path / name).iterdir()) for name in ("files", "more", "others")
    )
    run, options = tmp_path / "run", ["--target", "label", "--top", 2, "--batch-size", 150]
    assert select(one, two, *options, "--out", run).exit_code == 0
    expected = in_shards(fires.load(run / "state.safetensors").to_cluster(), three, four)
    learn(spark, str(tmp_path / "more"), run, selector=FIRES(2, random_state=0))
    assert_same_belief(run, expected)

    # One process goes on with what comes next, and only if that is named.
    for engine in ("fires", "spark"):
        refused = select(
            *([five] if engine == "spark" else []), "--engine", engine, "--resume", run
        )
        assert refused.exit_code == 2
        said = "name the files that come next" if engine == "fires" else "FILE does not go with"
        assert said in refused.stderr
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    strange = pl.read_parquet(five).rename({"f3": "g"}).write_csv()
    (tmp_path / "strange.csv").write_text(strange)
    refused = select(tmp_path / "strange.csv", "--engine", "fires", "--resume", run)
    assert 'where it had "f3", they have "g"' in refused.stderr
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before

    expected = fires.load(run / "state.safetensors").selector
    moved = select(five, "--engine", "fires", "--batch-size", 150, "--resume", run)
    assert moved.exit_code == 0, moved.output
    frame = pl.read_parquet(five)
    assert_same_belief(run, expected.partial_fit(frame.select(COLUMNS), frame["label"].to_numpy()))
    assert select("--resume", run).exit_code == 0  # it is at home here, and at its end

    # And back to Spark, by the command.
    expected = in_shards(fires.load(run / "state.safetensors").to_cluster(), six)
    moved = select(six, "--engine", "spark", "--resume", run, "--json")
    assert moved.exit_code == 0, moved.output
    assert_same_belief(run, expected)
    assert json.loads(moved.stdout)["rows"] == expected.n_samples_seen_ == 900
    assert [line["rows"] for line in steps(run)] == [150, 300, 600, 750, 900]
    assert [line["index"] for line in steps(run)] == list(range(5))
    assert all(line["scores"].keys() == {"accuracy", "balanced_accuracy"} for line in steps(run))
    assert [line["scores"]["accuracy"] is None for line in steps(run)] == [1, 0, 0, 1, 0]
    done = CliRunner().invoke(main, ["report", str(run)])
    assert done.exit_code == 0, done.output
    assert "the belief of the selector" in (run / "report.html").read_text()


def test_sparse_rows_move_too(spark, tmp_path):
    rng, paths, run = np.random.default_rng(0), [], tmp_path / "run"
    for number in range(3):
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
    moved = select(paths[1], "--engine", "spark", "--resume", run)
    assert moved.exit_code == 0, moved.output
    assert_same_belief(run, expected)
    moved = select(paths[2], "--engine", "fires", "--resume", run)
    assert moved.exit_code == 0, moved.output
    found = fires.load(run / "state.safetensors").selector
    assert found.n_samples_seen_ == steps(run)[-1]["rows"] == 600
    assert found.get_support(indices=True).tolist() == [4, 7]
