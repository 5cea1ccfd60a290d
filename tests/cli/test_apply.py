"""A saved run on new rows: what it predicts, what it keeps, and what it says about a feature."""

import csv
import gzip
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from polars.testing import assert_frame_equal
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score
from sklearn.naive_bayes import GaussianNB

import fires
from fires.cli import main
from fires.cli.apply import Predict
from fires.evaluation.loop import prequential
from fires.report.summary import summarise
from fires.streams.files import from_file

FEATURES = ["n0", "n1", "n2", "n3", "town", "price", "late"]
SELECTED = ["n2", "n3", "price"]


def make_table(n_rows, seed=0):
    """Numbers, text and amounts; the target hangs on n1 at first, then on n2, always on n3."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)).round(4)
    decides = np.where(np.arange(n_rows) < n_rows // 2, X[:, 1], X[:, 2])
    amount = (rng.normal(size=n_rows) * 1000).round(2)
    score = 2.0 * decides - X[:, 3] + amount / 1500
    return pl.DataFrame(
        {
            "id": [f"c-{i:05}" for i in range(n_rows)],
            **{f"n{j}": X[:, j] for j in range(4)},
            "town": rng.choice(["Bonn", "Ulm", "Köln, am Rhein"], n_rows),
            "price": [f"-${-v:,.2f}" if v < 0 else f"${v:,.2f}" for v in amount.tolist()],
            "late": rng.choice(["true", "false"], n_rows),
            "label": np.where(score > 0, "spam", "ham"),
            "amount": 3.0 * score + 1.0,
        }
    )


NEW = make_table(700, seed=1)


def command(*arguments, stdin=None):
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin)


def process(*arguments):
    command = [sys.executable, "-m", "fires.cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def succeeds(*arguments, stdin=None):
    result = command(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.stderr or result.output
    return result


def fails(*arguments, stdin=None):
    """The one line that a command ends with."""
    result = command(*arguments, stdin=stdin)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()[-1:]
    assert line.startswith("Error: ")
    return line.removeprefix("Error: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs, and the rows that they learnt from."""
    folder = tmp_path_factory.mktemp("apply")
    make_table(4_000).write_csv(folder / "old.csv")
    select = ("select", folder / "old.csv", "-k", 3, "-q")
    succeeds(*select, "-t", "label", "--exclude", "id,amount", "--out", folder / "run")
    succeeds(*select, "-t", "amount", "--exclude", "id,label", "--out", folder / "numbers")
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return folder / "run"


@pytest.fixture(scope="module")
def expected(run):
    """What the library predicts for the new rows."""
    return fires.load(run / "state.safetensors").predict(NEW.select(FEATURES)).tolist()


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    NEW.write_csv(path)
    return path


def table(text):
    return pl.read_csv(text.encode(), infer_schema=False)


# Predictions


def test_predictions_are_those_of_the_library(run, new, expected):
    result = succeeds("predict", run, new)
    assert set(expected) == {"ham", "spam"}
    assert result.stdout.splitlines()[:2] == ["row,prediction", f"1,{expected[0]}"]
    found = table(result.stdout)
    assert found["row"].to_list() == [str(i) for i in range(1, 701)]
    assert found["prediction"].to_list() == expected


def as_csv(path):
    NEW.write_csv(path / "x.csv")
    return [path / "x.csv"]


def as_gzip(path):
    (path / "x.csv.gz").write_bytes(gzip.compress(NEW.write_csv().encode()))
    return [path / "x.csv.gz"]


def as_parquet(path):
    NEW.with_columns(pl.col("town").cast(pl.Categorical)).write_parquet(path / "x.parquet")
    return [path / "x.parquet"]


def as_ndjson(path):
    NEW.write_ndjson(path / "x.ndjson")
    return [path / "x.ndjson"]


def as_two_files(path):
    NEW[:300].write_csv(path / "1.csv")
    NEW[300:].select(reversed(NEW.columns)).write_parquet(path / "2.parquet")
    return [path / "1.csv", path / "2.parquet"]


@pytest.mark.parametrize("write", [as_csv, as_gzip, as_parquet, as_ndjson, as_two_files])
def test_whatever_the_rows_are_in(write, run, expected, tmp_path):
    result = succeeds("predict", run, *write(tmp_path), "--id", "id")
    found = table(result.stdout)
    assert found["id"].to_list() == NEW["id"].to_list()
    assert found["prediction"].to_list() == expected


def test_standard_input(run, new, expected):
    result = succeeds("predict", run, "-", stdin=new.read_bytes())
    assert table(result.stdout)["prediction"].to_list() == expected


def test_how_text_is_written_can_be_said(run, expected, tmp_path):
    text = "; no table\n" + NEW.write_csv(separator=";", include_header=True)
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode("latin-1"))
    said = ("--sep", ";", "--encoding", "latin-1", "--comment", "; ")
    assert table(succeeds("predict", run, path, *said).stdout)["prediction"].to_list() == expected


def test_rows_without_a_header(tmp_path):
    few = NEW.select("n2", "n3", "label")
    few.write_csv(tmp_path / "x.csv", include_header=False)
    path, out = tmp_path / "x.csv", tmp_path / "run"
    succeeds("select", path, "-t", "column_3", "--no-header", "-q", "--out", out)
    found = table(succeeds("predict", out, path, "--no-header").stdout)
    wanted = few.select(column_1="n2", column_2="n3")
    assert found["prediction"].to_list() == (
        fires.load(out / "state.safetensors").predict(wanted).tolist()
    )
    assert "which the run needs" in fails("predict", out, path)


def test_only_the_selected_columns_are_needed_in_any_order(run, expected, tmp_path):
    few = NEW.select("price", pl.lit("x").alias("other"), "n3", "n2")
    few.write_csv(tmp_path / "x.csv")
    result = succeeds("predict", run, tmp_path / "x.csv")
    assert table(result.stdout)["prediction"].to_list() == expected
    assert result.stderr == ""  # there is no target to compare with


def test_columns_that_are_not_there_are_named(run, tmp_path):
    NEW.drop("n3", "price").write_csv(tmp_path / "x.csv")
    line = fails("predict", run, tmp_path / "x.csv")
    assert line == f'{tmp_path}/x.csv lacks 2 columns "n3", "price", which the run needs'
    NEW.drop("n3").write_csv(tmp_path / "x.csv")
    line = fails("transform", run, tmp_path / "x.csv")
    assert line == f'{tmp_path}/x.csv lacks the column "n3", which the run needs'


def test_rows_that_cannot_be_read_keep_their_numbers(run, new, expected):
    lines = new.read_bytes().splitlines(keepends=True)
    lines[3] = b"too,few\n"
    lines[10] = lines[10].replace(b"c-", b"\xff-")
    lines[5] = b"\n"  # a line with nothing in it is no row
    new.write_bytes(b"".join(lines))
    result = succeeds("predict", run, new)
    rows = [int(row) for row in table(result.stdout)["row"]]
    assert rows == [i for i in range(1, 700) if i not in (3, 9)]
    of_row = dict(zip(rows, table(result.stdout)["prediction"], strict=True))
    assert [of_row[i] for i in (1, 2, 4)] == [expected[i] for i in (0, 1, 3)]
    assert [of_row[i] for i in range(10, 700)] == expected[10:]
    assert result.stderr.splitlines()[:3] == [
        "2 rows could not be used:",
        "  line 4: 2 fields, the header has 10",
        "  line 11: not UTF-8 text",
    ]


def test_cells_that_cannot_be_read_and_unknown_categories_are_as_in_the_library(run, tmp_path):
    odd = NEW.select(FEATURES).with_columns(
        pl.col("n2").cast(pl.String).replace(str(NEW["n2"][4]), "n/a"),
        price=pl.when(pl.int_range(700) == 2).then(pl.lit("free")).otherwise("price"),
        town=pl.lit("Atlantis"),
    )
    odd.write_csv(tmp_path / "x.csv")
    found = table(succeeds("predict", run, tmp_path / "x.csv").stdout)
    wanted = fires.load(run / "state.safetensors").predict(odd)
    assert found["prediction"].to_list() == wanted.tolist()


def test_the_score_is_told_where_the_target_is_there(run, folder, new, expected):
    result = succeeds("predict", run, new)
    accuracy = accuracy_score(NEW["label"], expected)
    balanced = balanced_accuracy_score(NEW["label"], expected)
    said = f"accuracy {accuracy:.3f}, balanced accuracy {balanced:.3f} on 700 rows with a target\n"
    assert result.stderr == said
    assert succeeds("predict", run, new, "-q").stderr == ""
    result = succeeds("predict", folder / "numbers", new)
    predicted = table(result.stdout)["prediction"].cast(pl.Float64)
    error = (NEW["amount"] - predicted).abs().mean()
    r2 = r2_score(NEW["amount"], predicted)
    assert result.stderr == f"R2 {r2:.3f}, MAE {error:.4g} on 700 rows with a target\n"


def test_a_row_without_a_target_is_predicted_and_not_scored(run, expected, tmp_path):
    some = NEW.with_columns(
        label=pl.when(pl.int_range(700) < 10).then("label").otherwise(pl.lit(None))
    )
    some.write_csv(tmp_path / "x.csv")
    result = succeeds("predict", run, tmp_path / "x.csv")
    assert table(result.stdout)["prediction"].to_list() == expected
    assert result.stderr.endswith(" on 10 rows with a target\n")
    some.with_columns(label=pl.lit(None)).write_csv(tmp_path / "x.csv")
    result = succeeds("predict", run, tmp_path / "x.csv")
    assert result.stderr == 'no score: no value in the target column "label"\n'


@pytest.mark.parametrize("labels", [[0, 1], [True, False], ["2y", "5y"], [1.0, 2.0]])
def test_labels_of_any_kind_are_compared_as_they_were_learnt(labels, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = [labels[int(x > 0)] for x in X[:, 0]]
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.write_csv(tmp_path / "x.csv")
    succeeds("select", tmp_path / "x.csv", "-t", "y", "-q", "--out", tmp_path / "run")
    result = succeeds("predict", tmp_path / "run", tmp_path / "x.csv")
    assert float(re.match(r"accuracy (\S+),", result.stderr)[1]) > 0.9


def test_probabilities_where_there_are_some(run, new):
    numbers = run.parent / "numbers"
    line = fails("predict", numbers, new, "--proba")
    assert line == f"{numbers}: its predictor, a BayesLinear, gives no probabilities"
    result = table(succeeds("predict", run, new, "--proba").stdout)
    ham, spam = (result[f"probability of {name}"].cast(pl.Float64) for name in ("ham", "spam"))
    np.testing.assert_allclose(ham + spam, 1.0)
    assert ((spam > 0.5) == (result["prediction"] == "spam")).all()
    frame = NEW.select(FEATURES)
    pipeline = fires.OnlinePipeline(fires.FIRES(3), GaussianNB())
    stream = from_file(new, "label", exclude=["id", "amount"])
    assert len(list(prequential(stream, pipeline))) == 7
    found = Predict(pipeline, proba=True)((frame, np.arange(1, 701), 0))
    assert found.columns == ["row", "prediction", "probability of ham", "probability of spam"]
    np.testing.assert_array_equal(found[:, 2:].to_numpy(), pipeline.predict_proba(frame))


def test_a_table_without_rows_gives_one_without_rows(run, new, tmp_path):
    NEW[:0].write_csv(new)
    assert succeeds("predict", run, new).stdout == "row,prediction\n"
    succeeds("transform", run, new, "--out", tmp_path / "x.parquet")
    assert pl.read_parquet(tmp_path / "x.parquet").columns == SELECTED


# Reduced rows


def test_reduced_rows_have_the_selected_columns_as_they_are_in_the_file(run, new):
    found = succeeds("transform", run, new).stdout
    assert_frame_equal(table(found), table(new.read_text()).select(SELECTED))


def test_and_columns_to_keep_come_first(run, new):
    text = table(new.read_text())
    for said in (["--keep", "label,id"], ["--keep", "label", "--keep", "id"]):
        found = table(succeeds("transform", run, new, *said).stdout)
        assert_frame_equal(found, text.select("label", "id", *SELECTED))
    again = table(succeeds("transform", run, new, "--keep", "n2").stdout)
    assert again.columns == SELECTED


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv"])
@pytest.mark.parametrize("write", [as_csv, as_gzip, as_parquet, as_two_files])
def test_files_of_all_kinds(write, name, run, tmp_path):
    out = tmp_path / "out" / name
    result = succeeds("transform", run, *write(tmp_path), "--keep", "id", "--out", out)
    assert result.stdout == f"700 rows written to {out}\n"
    read = {"x.parquet": pl.read_parquet, "x.arrow": pl.read_ipc, "x.csv": pl.read_csv}[name]
    assert_frame_equal(read(out), NEW.select("id", *SELECTED))
    assert os.listdir(out.parent) == [name]


def test_types_of_a_typed_file_stay(run, tmp_path):
    typed = NEW.with_columns(
        pl.col("n2").cast(pl.Float32), day=pl.date(2024, 1, 1), tags=pl.lit(["a"])
    )
    typed.write_parquet(tmp_path / "x.parquet")
    keep = ("transform", run, tmp_path / "x.parquet", "--keep", "day,tags")
    succeeds(*keep, "--out", tmp_path / "y.parquet")
    found = pl.read_parquet(tmp_path / "y.parquet")
    assert_frame_equal(found, typed.select("day", "tags", *SELECTED))
    assert 'column "tags" holds lists or structures, which CSV cannot' in fails(*keep)


def test_text_among_numbers_is_told_where_it_gets_lost(run, new, tmp_path):
    text = new.read_text().replace(f",{NEW['n2'][6]},", ",none of it,")
    new.write_text(text)
    found = succeeds("transform", run, new)
    assert "none of it," in found.stdout
    result = succeeds("transform", run, new, "--out", tmp_path / "x.parquet")
    assert result.stderr == 'column "n2": 1 cell of text in a numeric column is left empty\n'
    assert pl.read_parquet(tmp_path / "x.parquet")["n2"][6] is None


def test_what_comes_out_can_be_learnt_from_again(run, new, tmp_path):
    reduced = tmp_path / "x.parquet"
    succeeds("transform", run, new, "--keep", "label", "--out", reduced)
    succeeds("select", reduced, "-t", "label", "--out", tmp_path / "again")
    direct = ("--exclude", ",".join(set(NEW.columns) - {*SELECTED, "label"}))
    succeeds("select", new, "-t", "label", *direct, "--out", tmp_path / "direct")
    first, second = ((tmp_path / name / "features.csv") for name in ("again", "direct"))
    assert first.read_text() == second.read_text()


def test_the_library_reduces_rows_too(run):
    pipeline = fires.load(run / "state.safetensors")
    assert list(pipeline.selected_columns) == SELECTED
    frame = NEW.select(FEATURES)
    found = pipeline.transform(frame)
    np.testing.assert_array_equal(found, pipeline.selector.transform(frame))
    np.testing.assert_array_equal(found[:, 0], NEW["n2"].to_numpy())
    with pytest.raises(ValueError, match="not learnt"):
        fires.OnlinePipeline(fires.FIRES(2)).transform(found)


# The page


def test_the_commands_of_the_page_run(tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "files.md"
    blocks = re.findall(r"^(?:    .+\n)+", page.read_text(), re.MULTILINE)
    (block,) = (block for block in blocks if "fires predict run/" in block)
    monkeypatch.chdir(tmp_path)
    for name, n_rows in (("events.csv", 2_000), ("new.csv", 300)):
        rows = make_table(n_rows).drop("amount").rename({"n3": "size"})
        rows.write_csv(name)
    for line in block.splitlines():
        program, *arguments = shlex.split(line.partition(" > ")[0])
        assert program == "fires"
        succeeds(*arguments)
    assert pl.read_parquet("predictions.parquet").columns == ["id", "prediction"]
    assert pl.read_parquet("reduced.parquet").columns[:2] == ["id", "label"]


# Svmlight


def test_svmlight_has_no_names_to_go_by(run, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{int(x[1] > 0)} 1:{x[0]:.3f} 2:{x[1]:.3f}" for x in rng.normal(size=(300, 2))]
    path, out = tmp_path / "x.svm", tmp_path / "out"
    path.write_text("\n".join(rows))
    assert fails("predict", run, path) == (
        f"{path} is svmlight, which has no names for its columns"
    )
    succeeds("select", path, "-k", 1, "--out", out)
    line = fails("predict", out, path)
    assert line.startswith(f"{out} was learnt from svmlight, whose columns have no names; ")
    assert explain(out, "2")["selected"]
    lines = succeeds("explain", out, "2").stdout.splitlines()
    assert lines[0] == "2: a number"


# One line for each error


def test_what_is_no_run(run, new, tmp_path):
    hint = "give a folder written by fires select --out"
    line = fails("predict", tmp_path, new)
    assert line == f"{tmp_path} holds no run: it has no run.json; {hint}"
    line = fails("explain", tmp_path / "none", "n2")
    assert line == f"{tmp_path}/none holds no run: it is not a folder; {hint}"
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "run.json").write_text("{")
    assert fails("transform", copy, new).startswith(f"{copy}/run.json is damaged: Expecting")
    shutil.copy(run / "run.json", copy)
    (copy / "state.safetensors").write_bytes(b"no state")
    assert "state.safetensors" in fails("transform", copy, new)
    (copy / "state.safetensors").unlink()
    line = fails("predict", copy, new)
    assert line == f"{copy}/state.safetensors: No such file or directory"


def test_names_that_are_not_there(run, new):
    assert fails("predict", run, new, "--id", "idd") == (
        f'no column "idd" in {new}; did you mean "id"?'
    )
    assert fails("transform", run, new, "--keep", "lable") == (
        f'no column "lable" in {new}; did you mean "label"?'
    )
    assert "no such file" in fails("predict", run, "no such file").lower()


def test_a_file_that_is_there_is_not_replaced_unasked(run, new, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    line = fails("predict", run, new, "--out", out)
    assert line == f"{out} already exists; give --overwrite to replace it, or another name"
    assert out.read_text() == "mine"
    succeeds("predict", run, new, "--out", out, "--overwrite")
    assert out.read_text().startswith("row,prediction\n")
    assert "give a name that ends with .csv, .parquet or .arrow" in fails(
        "predict", run, new, "--out", "x.y"
    )
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    line = fails("predict", run, new, "--out", folder, "--overwrite")
    assert line == f"{folder} is a directory"


def test_a_file_can_be_replaced_by_what_it_becomes(run, new):
    succeeds("transform", run, new, "--out", new, "--overwrite")
    assert_frame_equal(pl.read_csv(new), NEW.select(SELECTED))


def test_nothing_is_left_of_a_command_that_fails_at_once(run, tmp_path):
    out = tmp_path / "out" / "x.parquet"
    fails("predict", run, "no such file", "--out", out)
    assert not out.exists()
    assert list(tmp_path.rglob(".fires-*")) == []


# What ends a command early


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_the_rows_before_damage_are_written(name, run, tmp_path):
    packed = gzip.compress(make_table(20_000, seed=2).write_csv().encode())
    (tmp_path / "x.csv.gz").write_bytes(packed[: len(packed) // 2])
    out = tmp_path / name
    line = fails("predict", run, tmp_path / "x.csv.gz", "--out", out)
    found = pl.read_csv(out) if name == "out.csv" else pl.read_parquet(out)
    assert 1_000 < len(found) < 20_000
    assert found["row"].to_list() == list(range(1, len(found) + 1))
    assert "x.csv.gz" in line
    assert line.endswith(f"; {len(found):,} rows are written to {out}")


def test_a_full_disk_leaves_whole_rows(run, tmp_path, file_size_limit):
    rows = make_table(50_000, seed=2)
    rows.write_csv(tmp_path / "x.csv")
    out = tmp_path / "out.csv"
    with file_size_limit(300_000):
        line = fails("predict", run, tmp_path / "x.csv", "--id", "id", "--out", out)
    found = pl.read_csv(out)
    assert 0 < len(found) < 50_000
    assert found["id"].to_list() == rows["id"][: len(found)].to_list()
    assert line == f"{out}: File too large; {len(found):,} rows are written to {out}"


@pytest.mark.parametrize(
    ("number", "to_file"),
    [(signal.SIGINT, False), pytest.param(signal.SIGTERM, True, marks=pytest.mark.slow)],
)
def test_an_interrupted_command_leaves_whole_rows(number, to_file, run, tmp_path):
    fifo, out = tmp_path / "fifo", tmp_path / "out.csv"
    os.mkfifo(fifo)
    more = ["--out", str(out)] if to_file else []
    child = process("predict", run, fifo, *more)
    text = NEW.write_csv().encode()
    rows = text.split(b"\n", 1)[1]
    seen = []
    reader = threading.Thread(target=lambda: seen.extend(child.stdout))
    reader.start()
    with child, fifo.open("wb", buffering=0) as pipe:
        pipe.write(text)
        deadline = time.monotonic() + 120
        while not seen and not any(f.stat().st_size for f in tmp_path.glob(".fires-*/rows.csv")):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        pipe.write(rows[: len(rows) // 2])  # maybe it is read in time, maybe not
        child.send_signal(number)
        errors = child.stderr.read().decode()
        child.wait(timeout=120)
        reader.join(timeout=120)
    written = out.read_bytes() if to_file else b"".join(seen)
    found = list(csv.reader(io.StringIO(written.decode())))
    n_rows = len(found) - 1
    assert written.endswith(b"\n")
    assert n_rows > 0
    assert found[1:] == [[str(i), found[i][1]] for i in range(1, n_rows + 1)]
    where = out if to_file else "standard output"
    assert child.returncode == 128 + number
    assert errors.splitlines()[-1] == f"Interrupted; {n_rows:,} rows are written to {where}."


def test_whoever_reads_the_output_may_stop(run, tmp_path):
    make_table(60_000, seed=2).write_csv(tmp_path / "x.csv")
    with process("predict", run, tmp_path / "x.csv") as child:
        assert child.stdout.readline() == b"row,prediction\n"
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 1


# The history of a feature


def explain(run, feature):
    return json.loads(succeeds("explain", run, feature, "--json").stdout)


def test_a_history_is_that_of_the_records(run):
    names = fires.load(run / "state.safetensors").feature_names_in_.tolist()
    steps = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    for place, name in enumerate(names):
        found = explain(run, name)
        selected = [place in step["selected"] for step in steps]
        assert found["batches_selected"] == sum(selected)
        assert found["share_selected"] == pytest.approx(sum(selected) / len(steps))
        again = [False] * len(steps)
        rows = [step["rows"] for step in steps]
        for stay in found["stays"]:
            stop = len(rows) if stay["to_row"] is None else rows.index(stay["to_row"])
            again[rows.index(stay["from_row"]) : stop] = [True] * (
                stop - rows.index(stay["from_row"])
            )
        assert again == selected
        assert found["selected"] == selected[-1] == (name in SELECTED)
        assert type(found["above_noise"]) is bool


def test_a_feature_that_left_and_one_that_came(run):
    came, left = explain(run, "n2"), explain(run, "n1")
    row = left["stays"][-1]["to_row"]
    assert 2_000 < row < 3_000
    assert 2_000 < came["stays"][-1]["from_row"] < 3_000
    lines = succeeds("explain", run, "n1").stdout.splitlines()
    assert lines[0] == "n1: number, used as it is"
    assert f"not selected since row {row:,}, before that in " in lines[2]
    assert any(re.match(r"alarm at row \S+ \(batch \d+\)", line) for line in lines)
    lines = succeeds("explain", run, "n2").stdout.splitlines()
    assert re.match(
        r"rank \d of 7, importance \S+, 95% interval \[\S+, \S+\]: "
        r'high values favour "spam"; significant$',
        lines[1],
    )
    assert lines[2].startswith(f"selected since row {came['stays'][-1]['from_row']:,}, in ")


def test_what_the_sign_says(run, folder):
    assert explain(run, "n2")["meaning"] == 'high values favour "spam"'
    assert explain(run, "n3")["meaning"] == 'high values favour "ham"'
    assert explain(run, "town")["meaning"] == ""
    assert explain(folder / "numbers", "n3")["meaning"] == "the target falls as it grows"


def test_what_a_column_was_read_as_and_doubts(run, tmp_path):
    line = succeeds("explain", run, "price").stdout.splitlines()[0]
    assert re.match(r'price: number, "-?\$\S+" is read as -?\d', line)
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    columns = pl.read_csv(copy / "columns.csv", infer_schema=False)
    doubt = pl.when(pl.col("name") == "n2").then(pl.lit("nearly all values differ"))
    columns.with_columns(doubt=doubt).write_csv(copy / "columns.csv")
    lines = succeeds("explain", copy, "n2").stdout.splitlines()
    assert lines[1] == "warning: nearly all values differ"
    assert "warning: " not in succeeds("explain", copy, "n1").stdout


def test_names_that_are_no_features(run):
    assert fails("explain", run, "twon") == f'no feature "twon" in {run}; did you mean "town"?'
    assert fails("explain", run, "label") == f'"label" is the target of {run}, not a feature'
    assert fails("explain", run, "id") == f'"id" was excluded from {run}'
    line = fails("explain", run, "quite something else")
    assert line.endswith("; it has n0, n1, n2, n3, town, price, late")


def test_records_that_are_gone_or_damaged(run, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    (copy / "steps.jsonl").write_text("")  # as a full disk leaves it
    found = succeeds("explain", copy, "n2").stdout
    assert "of the batches; no record says when" in found
    (copy / "steps.jsonl").write_text("{\n")
    assert fails("explain", copy, "n2") == f"{copy}/steps.jsonl is damaged in line 1"


def test_many_classes(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.5, 0.5])]
    frame = pl.DataFrame({f"n{j}": X[:, j] for j in range(3)}).with_columns(y=pl.Series(y))
    frame.write_csv(tmp_path / "x.csv")
    out = tmp_path / "run"
    succeeds("select", tmp_path / "x.csv", "-t", "y", "-k", 1, "-q", "--out", out)
    assert re.match(r'high values (favour|count against) "[ac]"$', explain(out, "n1")["meaning"])
    result = succeeds("predict", out, tmp_path / "x.csv")
    assert set(table(result.stdout)["prediction"]) <= {"a", "b", "c"}


# Columns whose names are formulas


def test_a_formula_stays_text_in_every_csv_and_its_name_is_found_again(tmp_path):
    name = "=cmd|'/c calc'!A1"
    file, out = tmp_path / "x.csv", tmp_path / "run"
    lines = [f"{i % 7},{'+x' if i % 2 else '@y'},{i % 3 - 1},{i % 2}" for i in range(400)]
    file.write_text("\n".join([f'"{name}",@kind,x,label', *lines, ""]))
    asked = ("-t", "label", "-k", 2, "--keep-doubtful", "--quiet")
    succeeds("select", file, *asked, "--out", out)
    succeeds("transform", out, file, "--keep", f"{name},@kind,x", "--out", tmp_path / "new.csv")
    written = [out / "features.csv", out / "columns.csv", tmp_path / "new.csv"]
    for path in written:
        with path.open(newline="") as text:
            cells = [cell for row in csv.reader(text) for cell in row]
        assert f"'{name}" in cells
        assert not [cell for cell in cells if cell[:1] in ("=", "+", "@")]
    assert "-1" in cells  # numbers are as they were
    for one in (name, "@kind"):
        assert succeeds("explain", out, one).stdout.startswith(f"{one}: ")
    succeeds("report", out)
    summary = summarise(out)
    assert set(summary["now"]["kind"]) == {"number", "category"}
    assert None not in summary["now"]["rank"]


def test_the_strongest_contributions_are_written_beside_each_row(run, new):
    result = table(succeeds("predict", run, new, "--explain").stdout)
    frame = pl.read_csv(new)
    pipeline = fires.load(run / "state.safetensors")
    X = pipeline.columns_.transform(frame)
    effect = np.asarray(pipeline.contributions(X).effect)
    names = pipeline.selector.get_feature_names_out()
    for row, text in zip(effect, result["contributions"], strict=False):
        told = [one.split() for one in text.split(", ")]
        assert len(told) == min(3, len(names))
        best = names[np.argsort(-np.abs(row), kind="stable")][: len(told)].tolist()
        assert [name for name, _ in told] == best
        assert [float(value) for _, value in told] == [
            float(f"{row[names.tolist().index(name)]:.3g}") for name in best
        ]
