"""``fires select --columns open``: files whose columns are others from one to the next."""

import csv
import json
import shutil

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from fires import load
from fires.cli import main

N_ROWS = 430


def fires(*arguments, code=0):
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == code, done.output
    return done


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Five days, with six sensors a day: two of them go every day, and two others come."""
    folder, rng = tmp_path_factory.mktemp("logs"), np.random.default_rng(0)
    for day in range(5):
        X = rng.normal(size=(N_ROWS, 6)).round(4)
        frame = pl.DataFrame(X, schema=[f"s{2 * day + j}" for j in range(6)]).with_columns(
            town=pl.Series(rng.choice(["Bonn", "Ulm"], N_ROWS).tolist()),
            state=pl.Series(np.where(X[:, 3] > X[:, 4], "hot", "cold")),
        )
        frame.write_csv(folder / f"day{day}.csv")
    return folder


OPTIONS = ("--target", "state", "--columns", "open", "--top", 3, "--quiet")


@pytest.fixture(scope="module")
def run(logs):
    out = logs / "run"
    fires("select", logs / "day*.csv", *OPTIONS, "--transform", "--out", out)
    return out


def features(run):
    with (run / "features.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_what_matters_now_is_selected_and_nothing_is_lost(run):
    rows = features(run)
    assert {row["feature"] for row in rows} == {*(f"s{j}" for j in range(14)), "town"}
    selected = [row["feature"] for row in rows if row["selected"] == "True"]
    assert {"s11", "s12"} < set(selected)
    absent = {row["feature"] for row in rows if row["absent"] == "True"}
    assert absent == {f"s{j}" for j in range(8)}
    assert json.loads((run / "names.json").read_text())[:7] == [
        *(f"s{j}" for j in range(6)),
        "town",
    ]
    facts = json.loads((run / "run.json").read_text())
    assert facts["settings"]["columns"] == "open"
    assert facts["rows"] == 5 * N_ROWS
    assert facts["n_features"] == 15
    assert set(facts["baselines"]) == {"majority"}
    assert facts["scores"]["accuracy"] > 0.65  # every 430 rows, others matter


def test_batches_do_not_lie_across_files(run):
    steps = list(map(json.loads, (run / "steps.jsonl").read_text().splitlines()))
    assert [step["n_rows"] for step in steps] == [100, 100, 100, 100, 30] * 5
    assert all(7 <= step["present"] <= 11 for step in steps)


def test_selected_columns_of_all_rows_are_written(run, logs):
    written = pl.concat(
        [pl.read_parquet(path) for path in sorted((run / "transformed").iterdir())],
        how="diagonal",
    )
    assert written["row"].to_list() == list(range(5 * N_ROWS))
    steps = list(map(json.loads, (run / "steps.jsonl").read_text().splitlines()))
    names = json.loads((run / "names.json").read_text())
    day = pl.read_csv(logs / "day4.csv")
    for name in {names[place] for place in steps[-1]["selected"]} & set(day.columns) - {"town"}:
        assert written[name][-30:].to_list() == day[name][-30:].to_list()


def test_a_run_goes_on_with_files_that_have_other_columns(logs, tmp_path, run):
    """The last checkpoint of the first three days, and then all five."""
    for day in range(3):
        shutil.copy(logs / f"day{day}.csv", tmp_path)
    files = [tmp_path / f"day{day}.csv" for day in range(5)]
    for day in (3, 4):  # to be grown later: a file cannot be without a row
        head, first, *_ = (logs / f"day{day}.csv").read_text().splitlines(keepends=True)
        files[day].write_text(head + first)
    out = tmp_path / "run"
    command = ["select", *files, *OPTIONS, "--checkpoint", 3, "--out", out]
    fires(*command)
    assert json.loads((out / "run.json").read_text())["rows"] == 3 * N_ROWS + 2
    fires("select", "--resume", out)  # as quietly as it began
    assert json.loads((out / "run.json").read_text())["status"] == "ended"
    assert len(features(out)) == 15


def test_a_killed_run_ends_as_one_that_is_not(logs, tmp_path, monkeypatch):
    from fires.run.folder import RunFolder

    reference, out = tmp_path / "reference", tmp_path / "out"
    command = ["select", logs / "day*.csv", *OPTIONS, "--forget-after", 700, "--checkpoint", 4]
    fires(*command, "--out", reference)
    add, n_added = RunFolder.add, []

    def add_some(self, step, *more):
        if len(n_added) == 14:
            raise KeyboardInterrupt
        n_added.append(step.index)
        return add(self, step, *more)

    with monkeypatch.context() as patched:
        patched.setattr(RunFolder, "add", add_some)
        patched.setattr(RunFolder, "finish", lambda *args: (_ for _ in ()).throw(OSError("killed")))
        patched.setattr("fires.run.run.Run.save", _every_fourth)
        CliRunner().invoke(main, list(map(str, [*command, "--out", out])))
    fires("select", "--resume", out, "--quiet")
    assert features(out) == features(reference)
    assert (out / "names.json").read_text() == (reference / "names.json").read_text()
    mine, theirs = (
        [
            {key: value for key, value in json.loads(line).items() if "seconds" not in key}
            for line in (folder / "steps.jsonl").read_text().splitlines()
        ]
        for folder in (out, reference)
    )
    assert mine == theirs


def _every_fourth(self):
    """Save only while the run goes on, as if it were killed at its end."""
    if self.totals.n_batches % 4 == 0 and not self._is_saved:
        self.checkpoint()
        self._is_saved = True


def test_predictions_of_files_with_other_columns(run, logs, tmp_path):
    done = fires("predict", run, logs / "day4.csv", "--out", tmp_path / "told.csv")
    assert "absent" not in done.stderr
    assert float(done.stderr.split("accuracy ")[1].split(",")[0]) > 0.85
    done = fires("predict", run, logs / "day4.csv", logs / "day0.csv")
    (line,) = [line for line in done.stderr.splitlines() if "absent" in line]
    assert line.startswith("absent, counted as missing: ")
    assert '"s11" (in 430 rows)' in line
    assert len(done.stdout.splitlines()) == 1 + 2 * N_ROWS
    done = fires("predict", run, logs / "day0.csv", "--quiet")
    assert len(done.stdout.splitlines()) == 1 + N_ROWS


def test_rows_with_none_of_the_selected_columns_are_predicted_all_the_same(run, tmp_path):
    (tmp_path / "other.csv").write_text("who,what\nme,1\nyou,2\n")
    done = fires("predict", run, tmp_path / "other.csv")
    assert len(done.stdout.splitlines()) == 3
    assert "absent, counted as missing" in done.stderr


def test_reduced_rows_have_gaps_for_absent_columns(run, logs):
    done = fires("transform", run, logs / "day4.csv", logs / "day0.csv", "--keep", "state")
    table = pl.read_csv(done.stdout.encode())
    assert {"state", "s11", "s12"} < set(table.columns)
    assert len(table) == 2 * N_ROWS
    assert table["s11"][:N_ROWS].null_count() == 0
    assert table["s11"][N_ROWS:].null_count() == N_ROWS
    assert "absent, counted as missing" in done.stderr


def test_reduced_rows_of_a_file_without_any_selected_column_hold_nothing_else(run, tmp_path):
    file = tmp_path / "other.csv"
    file.write_text("first,second\n1,2\n3,4\n")
    header, *rows = fires("transform", run, file).stdout.splitlines()
    selected = {row["feature"] for row in features(run) if row["selected"] == "True"}
    assert set(header.split(",")) == selected
    assert rows == ["," * (len(selected) - 1)] * 2


def test_that_a_better_column_may_be_absent_is_said(tmp_path):
    rng = np.random.default_rng(0)
    for day, names in enumerate(("ab", "cd")):
        X = rng.normal(size=(600, 2))
        frame = pl.DataFrame(X, schema=list(names))
        frame = frame.with_columns(y=X[:, 0] * (2 - day) + rng.normal(size=600) > 0)
        frame.write_csv(tmp_path / f"day{day}.csv")
    options = ("--target", "y", "--columns", "open", "--top", 1, "--quiet")
    said = fires("select", tmp_path / "day*.csv", *options).output
    assert "1 of the best 1 is not selected" in said
    assert "than the current selection, or absent recently" in said


def test_explain_knows_columns_that_are_absent_or_forgotten(run, logs, tmp_path):
    assert "; absent recently" in fires("explain", run, "s3").output
    out = tmp_path / "run"
    fires("select", logs / "day*.csv", *OPTIONS, "--forget-after", 500, "--out", out)
    told = fires("explain", out, "s3").output
    assert "absent for so long that it was forgotten" in told
    assert "selected from row" in told
    rows = {row["feature"]: row for row in features(out)}
    assert rows["s0"]["rank"] == ""
    assert rows["s0"]["absent"] == "True"


def test_the_options_are_written_down(run):
    text = (run / "run.toml").read_text()
    assert 'columns = "open"' in text
    assert 'absent = "missing"' in text
    assert "# forget-after" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--forget-after", 5], "--forget-after requires --columns open"),
        (["--absent", "zero"], "--absent zero requires --columns open"),
        (
            ["--columns", "open", "--as-published"],
            "--as-published cannot be used with --columns open",
        ),
        (["--columns", "open", "--engine", "spark"], "--engine spark cannot be used with"),
    ],
)
def test_options_that_do_not_go_together(logs, options, said):
    done = fires("select", logs / "day0.csv", "--target", "state", *options, code=2)
    assert said in done.stderr


def test_sources_without_names_are_refused(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:2\n0 2:1\n")
    done = fires("select", tmp_path / "x.svm", "--columns", "open", code=2)
    assert "svmlight, which has no names for its columns" in done.stderr
    query = "sqlite:x.db?select 1"
    done = fires("select", query, "--target", "y", "--columns", "open", code=2)
    assert "--columns open is for files and messages" in done.stderr


def test_lines_of_json_with_any_keys(tmp_path):
    rng = np.random.default_rng(0)
    lines = []
    for i in range(1500):
        keys = [f"k{(i // 300) + j}" for j in range(3)]
        row = dict(zip(keys, rng.normal(size=3).round(3).tolist(), strict=True))
        lines.append(json.dumps(row | {"y": int(row[keys[1]] > 0)}))
    (tmp_path / "x.ndjson").write_text("\n".join([*lines, ""]))
    options = ["--target", "y", "--columns", "open", "--top", 1, "--json"]
    done = fires("select", tmp_path / "x.ndjson", *options)
    found = json.loads(done.stdout)
    assert found["n_features"] == 7
    assert [row["feature"] for row in found["features"]] == ["k5"]


def test_what_is_emitted_has_names(logs):
    done = fires(
        *("select", logs / "day*.csv", *OPTIONS, "--emit", "-", "--emit-every", "batch"),
    )
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"id"')]
    assert len(records) == 25
    assert {"s11", "s12"} < {one["feature"] for one in records[-1]["features"]}
    came = {name for record in records for name in record["came"]}
    assert "s3" in came


def test_a_program_goes_on_with_the_run_and_reads_columns_as_it_did(run, logs):
    pipeline = load(run / "state.safetensors")
    frame = pl.read_csv(logs / "day4.csv")
    X, y = frame.drop("state"), frame["state"].to_numpy()
    done = fires("predict", run, logs / "day4.csv", "--quiet")
    told = pl.read_csv(done.stdout.encode())["prediction"].to_list()
    assert pipeline.predict(X).tolist() == told
    assert (pipeline.predict(X) == y).mean() > 0.85
    assert pipeline.columns_.names == tuple(json.loads((run / "names.json").read_text()))
    pipeline.partial_fit(X.with_columns(new=pl.lit("word"), s20=pl.Series(np.ones(N_ROWS))), y)
    assert {"new", "s20"} < set(pipeline.feature_names_in_)
