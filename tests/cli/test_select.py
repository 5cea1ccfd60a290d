import csv
import fcntl
import gzip
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import fires
from fires.cli import main
from fires.core.batch import CheckedBatch
from fires.metrics import StabilityWindow
from fires.predictors import BayesLinear, Perceptron
from fires.streams.files import from_file

N_ROWS, N_NUMBERS = 1_050, 8
FILES = {"columns.csv", "features.csv", "run.json", "run.toml", "state.safetensors", "steps.jsonl"}
FILES |= {"names.json", "checkpoints", "snapshots"}
ROW = re.compile(
    r"^ *(?P<rank>\d+) +(?P<feature>\S+) +(?P<importance>\S+)"
    r" +\[ *(?P<low>\S+), +(?P<high>\S+)\] +(?P<share>\S+)%(?: +(?P<label>\S+))? *$",
    re.MULTILINE,
)
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")


def make_table(n_rows=N_ROWS, seed=0):
    """Numbers and a category, and targets of every kind that depend on n2 and n5."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, N_NUMBERS))
    score = 2.0 * X[:, 2] - X[:, 5]
    frame = pl.DataFrame({f"n{j}": X[:, j] for j in range(N_NUMBERS)})
    return frame.with_columns(
        town=pl.Series(rng.choice(["Bonn", "Ulm", "Köln"], n_rows)),
        label=pl.Series(np.where(score > 0, "spam", "ham")),
        amount=pl.Series(100.0 * score + 5.0),
        count=pl.Series(rng.poisson(np.exp(0.3 * score))),
        number=pl.Series(rng.permutation(n_rows)),
        whole=pl.Series(np.where(score > 0, 1.0, 2.0)),
        third=pl.Series(np.digitize(score, [-1.0, 1.0])),
        same=pl.lit("one"),
    )


TABLE = make_table()
TARGETS = ("label", "amount", "count", "number", "whole", "third", "same")


def table_of(target, table=TABLE):
    return table.drop([name for name in TARGETS if name != target])


def write(path, target="label"):
    table_of(target).write_csv(path)
    return path


def select(*arguments, stdin=None):
    return CliRunner().invoke(main, ["select", *map(str, arguments)], input=stdin)


def process(*arguments, **options):
    env = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return subprocess.Popen(
        [sys.executable, "-m", "fires.cli", *map(str, arguments)],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "encoding": "utf-8"}
        | {"env": env | options.pop("env", {})}
        | options,
    )


def assert_fails(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert word in line


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "events.csv")


@pytest.fixture(scope="module")
def run(csv_file):
    """One run with everything: what was printed, and the folder."""
    out = csv_file.parent / "run"
    result = select(csv_file, "--target", "label", "--top", 3, "--out", out)
    assert result.exit_code == 0, result.output
    return result.stdout, out


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """More than the reader reads ahead."""
    text = table_of("label").write_csv()
    header, rows = text.split("\n", 1)
    path = tmp_path_factory.mktemp("large") / "large.csv"
    path.write_text(header + "\n" + rows * (10_000_000 // len(rows) + 1), encoding="utf-8")
    return path


def read_run(out):
    with (out / "features.csv").open(encoding="utf-8", newline="") as file:
        features = list(csv.DictReader(file))
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    return features, json.loads((out / "run.json").read_text(encoding="utf-8")), steps


# What a run gives


def test_the_state_is_what_the_library_gives_on_the_same_batches(csv_file, run):
    stream = from_file(csv_file, "label")
    pipeline, sets = fires.OnlinePipeline(fires.FIRES(3)), []
    for batch in stream.batches(100):
        pipeline.partial_fit(batch.X, batch.y)
        sets.append(pipeline.selector.get_support(indices=True).tolist())
    saved = fires.load(run[1] / "state.safetensors")
    for name in ("weights_", "importances_", "uncertainties_"):
        np.testing.assert_array_equal(
            getattr(saved.selector, name), getattr(pipeline.selector, name)
        )
    np.testing.assert_array_equal(saved.predict(batch.X), pipeline.predict(batch.X))
    assert saved.selector.n_samples_seen_ == N_ROWS
    assert tuple(saved.selector.feature_names_in_) == stream.schema.feature_names
    assert [step["selected"] for step in read_run(run[1])[2]] == sets


@pytest.mark.parametrize(
    ("target", "options", "pipeline"),
    [
        ("amount", ["--model", "gaussian"], fires.OnlinePipeline(fires.FIRES(3, model="gaussian"))),
        ("amount", [], fires.OnlinePipeline(fires.FIRES(3))),
        ("count", ["--model", "poisson"], fires.OnlinePipeline(fires.FIRES(3, model="poisson"))),
        ("third", ["--model", "logistic"], fires.OnlinePipeline(fires.FIRES(3, model="logistic"))),
        ("whole", [], fires.OnlinePipeline(fires.FIRES(3))),
        (
            "label",
            ["--as-published"],
            fires.OnlinePipeline(fires.FIRES.as_published(3), Perceptron(), None),
        ),
    ],
)
def test_and_so_it_is_for_every_model(tmp_path, target, options, pipeline):
    path, out = write(tmp_path / "x.csv", target), tmp_path / "out"
    result = select(path, "-t", target, "-k", 3, "--batch-size", 70, "--out", out, *options)
    assert result.exit_code == 0, result.output
    numeric = target in ("amount", "count")
    stream = from_file(path, target, holds="numbers" if numeric else "auto")
    groups = stream.columns.groups  # with three classes, a column of categories is several features
    if target == "third":
        pipeline.selector.set_params(groups=groups.tolist())
    for batch in stream.batches(70):
        pipeline.partial_fit(batch.X, batch.y)
    saved = fires.load(out / "state.safetensors")
    np.testing.assert_array_equal(saved.selector.weights_, pipeline.selector.weights_)
    assert type(saved.predictor) is (Perceptron if "--as-published" in options else BayesLinear)
    np.testing.assert_array_equal(saved.predict(batch.X), pipeline.predict(batch.X))
    assert {"n2", "n5"} <= set(saved.selector.get_feature_names_out())
    scores = read_run(out)[1]["scores"]
    assert scores.keys() == ({"r2", "mae"} if numeric else {"accuracy", "balanced_accuracy"})
    assert scores["mae"] > 0.0 if numeric else scores["accuracy"] > 0.5


def test_numbers_are_scored_over_all_rows_by_a_regression_on_the_selected(tmp_path):
    path, out = write(tmp_path / "x.csv", "amount"), tmp_path / "out"
    result = select(path, "-t", "amount", "-k", 3, "--out", out)
    pipeline = fires.OnlinePipeline(fires.FIRES(3))
    truth, said, mean = [], [], []
    for batch in from_file(path, "amount").batches(100):
        if truth:
            said.append(pipeline.predict(batch.X))
            mean.append(np.full(len(batch.y), np.concatenate(truth[1:] or [batch.y]).mean()))
        pipeline.partial_fit(batch.X, batch.y)
        truth.append(batch.y)
    truth, said, mean = (np.concatenate(part) for part in (truth[1:], said, mean))
    r2 = 1.0 - np.square(truth - said).sum() / np.square(truth - mean).sum()
    mae = np.abs(truth - said).mean()
    scores = read_run(out)[1]["scores"]
    assert scores == pytest.approx({"r2": r2, "mae": mae})
    assert re.search(rf"the 3 selected features +{r2:.3f} +{mae:.4g}\n", result.stdout)


def test_table_and_files_say_the_same(run):
    shown, out = run
    assert {path.name for path in out.iterdir()} == FILES
    features, facts, steps = read_run(out)
    selector = fires.load(out / "state.safetensors").selector
    assert [int(row["rank"]) for row in features] == list(range(1, N_NUMBERS + 2))
    names = selector.feature_names_in_.tolist()
    share = np.mean([np.isin(np.arange(len(names)), step["selected"]) for step in steps], axis=0)
    for row in features:
        column = names.index(row["feature"])
        assert int(row["rank"]) == selector.ranking_[column]
        assert float(row["weight"]) == selector.weights_[column]
        assert float(row["importance"]) == selector.importances_[column]
        assert float(row["uncertainty"]) == selector.uncertainties_[column]
        assert float(row["low"]) == selector.interval(0.95)[0][column]
        assert float(row["high"]) == selector.interval(0.95)[1][column]
        assert float(row["share_selected"]) == pytest.approx(share[column])
        assert row["selected"] == str(column in steps[-1]["selected"])
    table = list(ROW.finditer(shown))
    chosen = [row for row in features if row["selected"] == "True"]
    assert [row["feature"] for row in table] == [row["feature"] for row in chosen]
    for line, row in zip(table, chosen, strict=True):
        for name in ("importance", "low", "high"):
            assert float(line[name]) == pytest.approx(float(row[name]), abs=5e-3)
        assert float(line["share"]) == pytest.approx(100 * float(row["share_selected"]), abs=0.05)

    assert [step["index"] for step in steps] == list(range(11))
    assert [step["n_rows"] for step in steps] == [100] * 10 + [50]
    assert (facts["rows"], facts["batches"]) == (N_ROWS, 11) == (steps[-1]["rows"], len(steps))
    tested = steps[1:]
    accuracy = sum(s["scores"]["accuracy"] * s["n_rows"] for s in tested) / (N_ROWS - 100)
    assert facts["scores"]["accuracy"] == pytest.approx(accuracy)
    assert facts["stability"] == pytest.approx(np.mean([s["stability"] for s in tested]))
    assert f"stability {facts['stability']:.3f}\n" in shown
    balanced = facts["scores"]["balanced_accuracy"]
    assert re.search(rf"the 3 selected features +{accuracy:.3f} +{balanced:.3f}\n", shown)
    assert f"{N_ROWS:,} rows in " in shown
    assert facts["ended_early"] is None
    assert facts["classes"] == ["ham", "spam"]
    assert (facts["model"], facts["settings"]["top"]) == ("probit", 3)


def only(columns, X):
    shown = np.full_like(X, np.nan)
    shown[:, columns] = X[:, columns]
    return shown


def test_accuracy_is_that_of_a_model_shown_only_what_was_selected_before(csv_file, run):
    """Once more, by hand: no code of the evaluation, scales by plain NumPy."""
    _, facts, steps = read_run(run[1])
    window, seen, before = StabilityWindow(10, N_NUMBERS + 1), None, None
    model, right = BayesLinear(), []
    for step, batch in zip(steps, from_file(csv_file, "label").batches(100), strict=True):
        known, selected = batch.X if seen is None else seen, step["selected"]
        deviation = known.std(axis=0)
        deviation[deviation == 0.0] = 1.0  # of categories, before anything is known of them
        scaled = (batch.X - known.mean(axis=0)) / deviation
        if before is not None:
            right.append(model.predict(only(before, scaled)) == batch.y)
        window.update(np.array(selected))
        model.learn(CheckedBatch(only(selected, scaled), batch.y, scale="standard"))
        seen = batch.X if seen is None else np.vstack([seen, batch.X])
        before = selected
    for step, hits in zip(steps[1:], right, strict=True):
        assert step["scores"]["accuracy"] == pytest.approx(hits.mean())
    assert facts["scores"]["accuracy"] == pytest.approx(np.concatenate(right).mean())
    assert steps[-1]["stability"] == pytest.approx(window.value)


def test_every_kind_of_file_gives_the_same(csv_file, run, tmp_path):
    table = table_of("label")
    table.write_csv(tmp_path / "x.tsv", separator="\t")
    table.write_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(csv_file.read_bytes()))
    expected = ROW.findall(run[0])
    for name in ("x.tsv", "x.parquet", "x.csv.gz"):
        result = select(tmp_path / name, "-t", "label", "-k", 3)
        assert ROW.findall(result.stdout) == expected, name


def test_standard_input_and_json(csv_file, run):
    result = select("-", "-t", "label", "-k", 3, "--json", stdin=csv_file.read_bytes())
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    names = [row["feature"] for row in document["features"]]
    selected = [row for row in read_run(run[1])[0] if row["selected"] == "True"]
    assert names == [row["feature"] for row in selected]
    assert [row["low"] for row in document["features"]] == [float(row["low"]) for row in selected]
    assert document["rows"] == N_ROWS
    assert all(row["selected"] is True for row in document["features"])


def test_a_change_is_told_with_its_row_and_batch(tmp_path):
    first, second = make_table(2_000, seed=1), make_table(2_000, seed=2)
    second = second.rename({"n2": "n5", "n5": "n2"}).select(first.columns)
    path, out = tmp_path / "x.csv", tmp_path / "out"
    table_of("label", pl.concat([first, second])).write_csv(path)
    result = select(path, "-t", "label", "-k", 2, "--out", out)
    (alarm,) = read_run(out)[1]["alarms"]
    assert 2_000 < alarm["row"] == 100 * (alarm["batch"] + 1) <= 2_500
    assert (alarm["feature"], alarm["strength"] > 14.0) == (None, True)
    line = f"alarm at row {alarm['row']:,} (batch {alarm['batch']}): concept drift, all features"
    assert f"{line} (clear)" in result.stdout or f"{line} (strong)" in result.stdout
    assert line in result.stdout
    (same,) = fires.load(out / "state.safetensors").selector.alarms_
    assert same._asdict().items() <= alarm.items()


def test_a_change_is_told_with_what_left_and_what_came(tmp_path):
    first, second = make_table(3_000, seed=1), make_table(3_000, seed=2)
    second = second.rename({"n2": "n3", "n3": "n2"}).select(first.columns)
    path, out = tmp_path / "x.csv", tmp_path / "out"
    table_of("label", pl.concat([first, second])).write_csv(path)
    shown = select(path, "-t", "label", "-k", 2, "--out", out).stdout
    _, facts, steps = read_run(out)
    (alarm,) = facts["alarms"]
    assert (alarm["left"], alarm["came"]) == (["n2"], ["n3"])
    at, accuracy = alarm["batch"], [step["scores"]["accuracy"] for step in steps]
    before, after = np.mean(accuracy[at - 20 : at]), np.mean(accuracy[at + 1 : at + 21])
    assert alarm["before"] == {"accuracy": pytest.approx(before), "batches": 20}
    assert alarm["after"] == {"accuracy": pytest.approx(after), "batches": 20}
    (lines,) = re.findall(r"^alarm at .*\n  (.*)\n  (.*)$", shown, re.MULTILINE)
    before, after = alarm["before"]["accuracy"], alarm["after"]["accuracy"]
    words = f"accuracy {before:.3f} in the 20 batches before, {after:.3f} in the 20 after"
    assert lines == ("dropped: n2; added: n3", words)
    assert [len(step.get("alarms", [])) for step in steps] == [i == at for i in range(len(steps))]


def lines_of(path, *options, target="y"):
    result = select(path, "-t", target, *options)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def table_with(path, n_rows, target_of, n_features=8, seed=0):
    """A file whose target is a function of its features and of noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    columns = {f"n{j}": X[:, j] for j in range(n_features)}
    pl.DataFrame(columns | {"y": target_of(X, rng.normal(size=n_rows))}).write_csv(path)
    return path


def test_a_score_stands_beside_what_it_should_beat(csv_file, run):
    shown, out = run
    facts = read_run(out)[1]
    labels = np.concatenate([batch.y for batch in from_file(csv_file, "label").batches(100)])
    said = [pl.Series(labels[: 100 * i]).mode().sort()[0] for i in range(1, 11)]
    majority = np.mean(np.repeat(said, 100)[: N_ROWS - 100] == labels[100:])
    beside = facts["baselines"]
    assert beside["majority"]["scores"]["accuracy"] == pytest.approx(majority)
    assert beside["majority"]["beaten"] == {"accuracy": True, "balanced_accuracy": True}
    whole = fires.OnlinePipeline(fires.AllFeatures())
    right = []
    for batch in from_file(csv_file, "label").batches(100):
        right += [] if not whole.has_learnt else (whole.predict(batch.X) == batch.y).tolist()
        whole.partial_fit(batch.X, batch.y)
    assert beside["all"]["scores"]["accuracy"] == pytest.approx(np.mean(right))
    rows = ("selected features", "all 9 features", "always the most common class")
    for name, scores in zip(rows, (facts, beside["all"], beside["majority"]), strict=True):
        cells = [scores["scores"][score] for score in ("accuracy", "balanced_accuracy")]
        assert re.search(rf"{name} +{cells[0]:.3f} +{cells[1]:.3f}\n", shown)
    shares = {label: float((labels == label).mean()) for label in ("ham", "spam")}
    assert facts["class_shares"] == pytest.approx(shares)
    assert "makes up" not in shown  # both are as common
    assert "do not beat" not in shown


def test_a_score_below_that_of_the_majority_is_called_so(tmp_path):
    path = table_with(tmp_path / "x.csv", 3_000, lambda X, e: X[:, 0] + 2.0 * e > 5.0)
    lines = lines_of(path, "-k", 3)
    (shares,) = [line for line in lines if "makes up" in line]
    assert re.fullmatch(r'"False" makes up 9\d\.\d% of the rows, "True" \d\.\d%', shares)
    assert "the selected features do not beat always predicting the most common class" in lines


def test_a_rare_class_that_is_found_all_the_same_is_told(tmp_path):
    path = table_with(tmp_path / "x.csv", 6_000, lambda X, e: X[:, 0] + 0.6 * e > 1.7)
    lines = lines_of(path, "-k", 3, "--as-published")  # a Perceptron
    told = "by accuracy, the selected features do not beat always predicting the most common class"
    assert f"{told}; by balanced accuracy they do" in lines


def test_numbers_that_no_feature_tells_are_called_so(tmp_path):
    lines = lines_of(table_with(tmp_path / "x.csv", 2_000, lambda X, e: e), "-k", 3)
    assert "the selected features do not beat always predicting the mean" in lines
    assert any(re.match(r"always the mean so far +-?0\.0\d\d +0\.\d+", line) for line in lines)


def test_of_many_classes_the_rarest_is_named(tmp_path):
    edges = [1.5, 2.0, 2.5, 3.0, 3.5]
    path = table_with(tmp_path / "x.csv", 4_000, lambda X, e: np.digitize(X[:, 0] + e, edges))
    (line,) = [line for line in lines_of(path, "-k", 3) if "makes up" in line]
    assert re.fullmatch(
        r'"0" makes up 8\d\.\d% of the rows; the rarest of 6 classes is "5" 0\.\d%', line
    )


def test_what_stands_above_noise_stands_above_a_gap(csv_file, tmp_path):
    out = tmp_path / "out"
    shown = select(csv_file, "-t", "label", "-k", 6, "--out", out).stdout
    features = read_run(out)[0]
    assert {row["feature"] for row in features if row["above_noise"] == "True"} == {"n2", "n5"}
    above, below = re.split(r"\n *\n", shown.split("\n\npositive values")[0])
    assert [row["feature"] for row in ROW.finditer(above)] == ["n2", "n5"]
    assert len(ROW.findall(below)) == 4
    told = "6 of 9 features, as requested: 2 of them are significant"
    assert told in shown.splitlines()
    document = json.loads(select(csv_file, "-t", "label", "-k", 6, "--json").stdout)
    assert [row["above_noise"] for row in document["features"]] == [True] * 2 + [False] * 4


@pytest.mark.parametrize(
    "kind",
    [*(pytest.param(kind, marks=pytest.mark.slow) for kind in ("classes", "numbers")), "many"],
)
def test_the_best_of_much_noise_is_not_above_it(tmp_path, kind):
    """The 95 % interval may leave out 0 for some of them, and these are ranked first."""
    targets = {
        "classes": lambda X, e: e > 0,
        "numbers": lambda X, e: e,
        "many": lambda X, e: np.digitize(e, [-1.0, -0.3, 0.3, 1.0]),
    }
    path = table_with(tmp_path / "x.csv", 3_000, targets[kind], n_features=150)
    document = json.loads(select(path, "-t", "y", "--json").stdout)
    assert not any(row["above_noise"] for row in document["features"])
    lines = lines_of(path)
    assert "10 of 150 features, as requested: none of them is significant" in lines


def test_without_an_interval_nothing_is_said_of_noise(csv_file, tmp_path):
    out = tmp_path / "out"
    shown = select(csv_file, "-t", "label", "-k", 2, "--as-published", "--out", out).stdout
    assert "noise" not in shown
    assert {row["above_noise"] for row in read_run(out)[0]} == {""}


def test_that_a_better_rank_is_not_selected_is_explained(csv_file):
    shown = {k: select(csv_file, "-t", "label", "-k", k).stdout for k in (2, 6)}
    n_left_out = sum(int(row["rank"]) > 6 for row in ROW.finditer(shown[6]))
    assert n_left_out > 0  # four of the six are noise, and keep their place
    assert f"\n{n_left_out} of the best 6 " in shown[6]
    assert "not significantly better than the current selection" in shown[6]
    assert "of the best" not in shown[2]


def test_a_stream_without_a_change_has_no_alarm(run):
    assert "alarm" not in run[0]
    assert read_run(run[1])[1]["alarms"] == []


def test_the_sign_of_an_importance_is_explained(run, tmp_path):
    assert 'positive values favour class "spam", negative ones "ham"' in run[0]
    for target, words in (("amount", "the target grows"), ("third", "favour the class")):
        shown = select(write(tmp_path / "x.csv", target), "-t", target).stdout
        assert f"positive values{':' * (target == 'amount')} {words}" in shown


def test_of_many_classes_the_one_is_named_that_a_feature_matters_most_for(tmp_path):
    path, out = write(tmp_path / "x.csv", "third"), tmp_path / "out"
    shown = select(path, "-t", "third", "-k", 2, "--out", out).stdout
    features, selector = read_run(out)[0], fires.load(out / "state.safetensors").selector
    columns = selector.feature_names_in_.tolist()
    for row in features:
        if row["feature"] not in columns:  # a column of categories, which is several features
            assert row["feature"] == "town"
            continue
        column, label = columns.index(row["feature"]), int(row["class"])
        assert selector.class_importances_[label, column] == float(row["importance"])
    labels = [row["label"] for row in ROW.finditer(shown)]
    assert labels == [row["class"] for row in features if row["selected"] == "True"]


def test_the_paper_s_uncertainty_is_not_called_an_interval(csv_file, tmp_path):
    out = tmp_path / "out"
    shown = select(csv_file, "-t", "label", "-k", 2, "--as-published", "--out", out).stdout
    assert "interval" not in shown
    for row in read_run(out)[0]:
        assert (row["low"], row["high"]) == ("", "")
        if row["selected"] == "True":
            numbers = float(row["importance"]), float(row["uncertainty"])
            assert "{:.4f} ± {:.4f}".format(*numbers) in shown


def test_the_options_do_what_they_say(csv_file):
    few = json.loads(select(csv_file, "-t", "label", "-k", "0.25", "--json").stdout)
    assert len(few["features"]) == 2
    rest = select(csv_file, "-t", "label", "-k", 99, "--exclude", "n2,town", "--json")
    names = {row["feature"] for row in json.loads(rest.stdout)["features"]}
    assert names == {f"n{j}" for j in range(N_NUMBERS)} - {"n2"}
    sized = json.loads(select(csv_file, "-t", "label", "--batch-size", 500, "--json").stdout)
    assert sized["batches"] == 3


def test_labels_written_as_numbers_are_classes_for_a_model_of_classes(tmp_path):
    path = write(tmp_path / "x.csv", "whole")
    document = json.loads(select(path, "-t", "whole", "--model", "probit", "--json").stdout)
    assert document["classes"] == [1.0, 2.0]
    assert document["scores"]["accuracy"] > 0.8


def test_bad_rows_and_missing_values_are_counted_and_shown(csv_file, tmp_path):
    lines = csv_file.read_text(encoding="utf-8").splitlines()
    lines[20] = "1,2"
    lines[30] = "abc" + lines[30][lines[30].index(",") :]
    lines[40] = lines[40][lines[40].index(",") :]
    path = tmp_path / "x.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    result = select(path, "-t", "label")
    assert result.exit_code == 0
    assert f"{N_ROWS - 1:,} rows in " in result.stdout
    assert "2 missing values ignored" in result.stdout  # one of them could not be read
    assert "1 row could not be used:\n  line 21: 2 fields" in result.stdout


def test_control_characters_of_a_file_do_not_reach_the_terminal(csv_file, tmp_path):
    text = csv_file.read_text(encoding="utf-8").replace("n2", "n\x1b[2J2", 1)
    path = tmp_path / "x.csv"
    path.write_text(text.replace("\n", "\n\x1b[31m,1\n", 1), encoding="utf-8")
    for arguments in (["-t", "label"], ["-t", "nosuch"]):
        assert CONTROL.search(select(path, *arguments).output) is None
    assert r"n\x1b[2J2" in select(path, "-t", "label").stdout


# What goes wrong


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["given.csv is empty"]),
        ("a,y\n", ["given.csv", "no rows"]),
        ("a,b,y\n" + "1,2\n" * 9, ["given.csv has no readable rows", "line 2"]),
        ("y\n1\n2\n", ["cannot find columns in", "given.csv"]),
    ],
)
def test_a_file_without_rows_is_one_line_and_leaves_nothing(tmp_path, text, words):
    path, out = tmp_path / "given.csv", tmp_path / "out"
    path.write_text(text, encoding="utf-8")
    assert_fails(select(path, "-t", "y", "--out", out), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("name", "target", "options", "words"),
    [
        ("events.csv", "lable", [], ['"lable"', "events.csv", 'did you mean "label"']),
        ("events.csv", "label", ["--exclude", "nn"], ['"nn"', "events.csv"]),
        ("events.csv", "label", ["--model", "gaussian"], ["line 2", "is not a number"]),
        ("none.csv", "label", [], ["none.csv", "No such file"]),
        (".", "label", [], ["directory"]),
    ],
)
def test_a_wrong_file_or_column_is_one_line_too(csv_file, tmp_path, name, target, options, words):
    out = tmp_path / "out"
    assert_fails(select(csv_file.parent / name, "-t", target, "--out", out, *options), *words)
    assert not out.exists()


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("same", [], ["'one'", "has only one value"]),
        ("number", [], ["--model gaussian if", "--model probit if", '"number"']),
        ("amount", ["--model", "poisson"], ["negative", '"amount"']),
        ("amount", ["--model", "probit"], ["--model gaussian.", '"amount"']),
    ],
)
def test_a_target_that_does_not_fit_is_refused(tmp_path, target, options, words):
    path = write(tmp_path / "x.csv", target)
    assert_fails(select(path, "-t", target, "--out", tmp_path / "out", *options), *words, str(path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("top", ["0", "-1", "1.0", "0.0", "nan", "inf", "many", "", "²"])
def test_a_number_of_features_that_makes_no_sense_is_refused(csv_file, top):
    result = select(csv_file, "-t", "label", "--top", top)
    assert result.exit_code == 2
    assert "neither a number of features nor a fraction" in result.stderr


def test_as_many_as_are_there_and_why(csv_file, tmp_path):
    result = select(csv_file, "-t", "label", "--top", "auto", "--out", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert [row["feature"] for row in ROW.finditer(result.stdout)] == ["n2", "n5"]
    why = json.loads((tmp_path / "run" / "run.json").read_text())["why"]
    assert why.startswith("2 of 9 features are significantly non-zero: ")
    assert why in result.stdout
    assert 'top = "auto"' in (tmp_path / "run" / "run.toml").read_text()
    resumed = select("--resume", tmp_path / "run")
    assert why in resumed.stdout


def test_nothing_may_be_there(tmp_path):
    path = tmp_path / "noise.csv"
    rng = np.random.default_rng(0)
    noise = pl.DataFrame(rng.normal(size=(600, 5)))
    noise.with_columns(label=pl.Series(rng.choice(["a", "b"], 600))).write_csv(path)
    options = ("-t", "label", "--top", "auto", "--out", tmp_path / "run", "--report", "--transform")
    result = select(path, *options)
    assert result.exit_code == 0, result.output
    assert "0 of 5 features are significantly non-zero" in result.stdout
    assert "the 0 selected features" in result.stdout
    features, _, steps = read_run(tmp_path / "run")
    assert {row["selected"] for row in features} == {"False"}
    assert steps[-1]["selected"] == []
    assert (tmp_path / "run" / "report.html").exists()


def test_the_papers_form_does_not_know_how_many(csv_file):
    result = select(csv_file, "-t", "label", "--as-published", "--top", "auto")
    assert result.exit_code == 2
    assert "--top a number" in result.stderr


def test_of_twins_one_is_selected_and_the_others_are_named(tmp_path):
    rng = np.random.default_rng(0)
    table = pl.DataFrame({f"x{j}": rng.normal(size=3000) for j in range(5)})
    table = table.with_columns(
        copy=0.95 * pl.col("x0") + 0.3 * pl.Series(rng.normal(size=3000)),
        total=pl.col("x1") + pl.col("x2"),
        label=pl.col("x0") + 0.8 * pl.col("x1") - 0.8 * pl.col("x2") + 0.4 * pl.col("x3") > 0,
    )
    path, out = tmp_path / "twins.csv", tmp_path / "out"
    table.write_csv(path)
    shown = select(path, "-t", "label", "-k", 4, "--redundancy", "drop", "--out", out).stdout
    for line in ("redundant given x0: copy", "redundant given x1, x2: total"):
        assert f"\n{line}\n" in shown
    assert read_run(out)[1]["twins"] == {"x0": ["copy"], "x1": ["total"], "x2": ["total"]}
    assert select(path, "-t", "label", "-k", 4, "--out", tmp_path / "alike").exit_code == 0
    assert read_run(tmp_path / "alike")[1]["twins"] == read_run(out)[1]["twins"]


def test_the_papers_form_knows_no_twins(csv_file):
    result = select(csv_file, "-t", "label", "--as-published", "--redundancy", "drop")
    assert result.exit_code == 2
    assert "--redundancy drop" in result.stderr


def test_as_published_is_a_probit(csv_file):
    result = select(csv_file, "-t", "label", "--as-published", "--model", "gaussian")
    assert result.exit_code == 2
    assert "--model gaussian" in result.stderr


def test_debug_shows_where_and_the_same_last_line(csv_file):
    result = select(csv_file, "-t", "nosuch", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1].startswith('Error: no column "nosuch"')


@pytest.mark.parametrize("below", ["", "x", "x/y"])
def test_an_out_that_cannot_be_a_folder_is_named(csv_file, below, tmp_path):
    blocker = tmp_path / "file"
    blocker.touch()
    out = blocker / below
    assert_fails(select(csv_file, "-t", "label", "--out", out), str(out), "Not a directory")


def test_a_later_run_replaces_all_of_an_earlier_one(csv_file, run, tmp_path):
    out = tmp_path / "out"
    assert select(csv_file, "-t", "label", "--batch-size", 10, "--out", out).exit_code == 0
    (out / "mine").mkdir()
    assert select(csv_file, "-t", "label", "-k", 3, "--out", out, "--overwrite").exit_code == 0
    assert {path.name for path in out.iterdir()} == FILES | {"mine"}
    assert (out / "features.csv").read_bytes() == (run[1] / "features.csv").read_bytes()
    assert fires.load(out / "state.safetensors").selector.n_features_to_select == 3
    assert len(read_run(out)[2]) == 11


# Ctrl-C


def assert_interrupted(child, output, errors, out):
    assert child.returncode == 130
    (line,) = errors.splitlines()
    features, facts, steps = read_run(out)
    saved = fires.load(out / "state.safetensors")
    learnt = f"what was learnt from the first {facts['rows']:,} rows is shown above and saved in"
    assert line == f"Interrupted; {learnt} {out}."
    assert facts["ended_early"] == "interrupted"
    assert saved.selector.n_samples_seen_ == facts["rows"] == steps[-1]["rows"] > 0
    assert {path.name for path in out.iterdir()} == FILES
    assert len(ROW.findall(output)) == sum(row["selected"] == "True" for row in features)


def wait_for_steps(out, child):
    deadline = time.monotonic() + 120
    while not any(path.stat().st_size for path in out.glob("steps.jsonl")):
        assert child.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow  # in a pipe it is below, and SIGTERM in a file is met by the tests of resuming
def test_ctrl_c_in_a_file_saves_what_was_learnt(large_file, tmp_path):
    out = tmp_path / "out"
    child = process("select", large_file, "-t", "label", "--batch-size", 10, "--out", out)
    wait_for_steps(out, child)
    child.send_signal(signal.SIGINT)
    output, errors = child.communicate(timeout=120)
    assert_interrupted(child, output, errors, out)
    stream, pipeline = from_file(large_file, "label"), fires.OnlinePipeline(fires.FIRES())
    for batch in stream.batches(10):
        pipeline.partial_fit(batch.X, batch.y)
        if batch.position.rows == read_run(out)[1]["rows"]:
            break
    saved = fires.load(out / "state.safetensors")
    np.testing.assert_array_equal(saved.selector.weights_, pipeline.selector.weights_)
    np.testing.assert_array_equal(saved.predict(batch.X), pipeline.predict(batch.X))


def test_rows_of_a_pipe_are_learnt_from_before_it_ends_and_ctrl_c_ends_the_wait_for_more(
    large_file, tmp_path
):
    lines = large_file.read_bytes().splitlines(keepends=True)[:4_001]
    out, fifo = tmp_path / "out", tmp_path / "fifo"
    os.mkfifo(fifo)
    child = process("select", fifo, "-t", "label", "--batch-size", 10, "--out", out)
    with fifo.open("wb", buffering=0) as pipe:
        pipe.write(b"".join(lines[:3_000]))
        wait_for_steps(out, child)  # nothing more is written before
        pipe.write(b"".join(lines[3_000:]))
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    assert_interrupted(child, output, errors, out)
    n_rows = read_run(out)[1]["rows"]
    (tmp_path / "x.csv").write_bytes(b"".join(lines[: n_rows + 1]))
    whole = select(tmp_path / "x.csv", "-t", "label", "--batch-size", 10)
    assert ROW.findall(output) == ROW.findall(whole.stdout) != []


@pytest.mark.slow  # that of a run with a folder is met by the tests of any moment
def test_ctrl_c_before_there_is_a_batch_leaves_nothing(large_file, tmp_path):
    out, fifo = tmp_path / "out", tmp_path / "fifo"
    os.mkfifo(fifo)
    child = process("select", fifo, "-t", "label", "--out", out)
    with fifo.open("wb", buffering=0) as pipe:
        pipe.write(large_file.read_bytes()[:10_000])
        time.sleep(1.0)
        child.send_signal(signal.SIGINT)
        output, errors = child.communicate(timeout=120)
    assert (child.returncode, output, errors) == (130, "", "Interrupted.\n")
    assert not out.exists()


# Terminals, pipes, help


def in_terminal(columns, *arguments, **env):
    """What a terminal of this width is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {"TERM": "xterm-256color"} | env
    child = process(*arguments, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    sent = b""
    try:
        while data := os.read(ours, 65_536):
            sent += data
    except OSError:  # what Linux says when the other end is closed
        pass
    finally:
        os.close(ours)
    assert child.wait(timeout=120) == 0
    return sent.decode()


@pytest.mark.parametrize(
    ("columns", "env"), [(80, {"NO_COLOR": "1"}), pytest.param(120, {}, marks=pytest.mark.slow)]
)
def test_a_terminal_shows_a_bar_that_fits_its_width_in_colours_that_are_wanted(
    csv_file, columns, env
):
    sent = in_terminal(columns, "select", csv_file, "-t", "label", "-k", 3, **env)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent)
    lines = [line for line in re.split(r"[\r\n]+", plain) if line.strip()]
    assert max(map(len, lines)) <= columns
    bar = [line for line in lines if "rows/s" in line][-1]
    assert re.search(r"1,050 rows .*━.* [\d,]+ rows/s, stability [01]\.\d\d, accuracy 0\.\d\d", bar)
    assert len(ROW.findall("\n".join(lines))) == 3
    assert "\x1b[?25h" in sent
    coloured = re.search(r"\x1b\[[0-9;]*(?:3[0-8]|9[0-7])[0-9;]*m", sent)
    assert bool(coloured) != bool(env)


def shown_lines(sent):
    """What stands in the lines of a terminal in the end, without colours."""
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent)
    return [line.rstrip() for line in re.split(r"[\r\n]+", plain) if line.strip()]


@pytest.mark.parametrize(
    ("columns", "titles"),
    [
        (80, ["rank", "feature", "[95% interval]", "selected"]),
        (60, ["rank", "feature", "[95% interval]", "selected"]),
        (50, ["rank", "feature", "[95% interval]"]),
        (40, ["rank", "feature", "importance"]),
        (24, ["feature", "importance"]),
    ],
)
def test_a_narrow_terminal_has_room_for_the_names(tmp_path, monkeypatch, columns, titles):
    name = "n2_and_a_rather_long_name"
    path = tmp_path / "x.csv"
    table_of("label").rename({"n2": name}).write_csv(path)
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = shown_lines(select(path, "-t", "label", "-k", 2, "--quiet").stdout)
    head, scores = [place for place, line in enumerate(lines) if set(line) == {"─"}]
    assert re.split(r" {2,}", lines[head - 1].strip()) == titles
    assert len(lines[head]) <= columns
    assert len(lines[scores]) <= columns
    folded = "".join(part for line in lines[head:] for part in line.split() if part in name)
    assert name in folded
    assert not any("rows/s" in line for line in lines)  # quiet


@pytest.mark.slow
def test_a_narrow_terminal_has_room_for_the_selectors(csv_file):
    options = ("-t", "label", "-s", "fires", "--seeds", 1, "-k", 2)
    lines = shown_lines(in_terminal(40, "compare", csv_file, *options))
    (head,) = [place for place, line in enumerate(lines) if set(line) == {"─"}]
    assert lines[head - 1].split()[:2] == ["selector", "accuracy"]
    assert {line.split()[0] for line in lines[head + 1 : head + 4]} == {"fires", "all", "random"}


@pytest.mark.slow
def test_a_pipe_gets_plain_text_and_no_bar(csv_file, run):
    child = process("select", "-", "-t", "label", "-k", 3, stdin=subprocess.PIPE)
    output, errors = child.communicate(csv_file.read_text(encoding="utf-8"), timeout=120)
    assert (child.returncode, errors) == (0, "")
    assert CONTROL.search(output) is None
    assert ROW.findall(output) == ROW.findall(run[0])


@pytest.mark.parametrize("arguments", [["--help"], ["select", "--help"], ["--version"]])
def test_help_loads_nothing_heavy(arguments):
    code = (
        "import sys\nfrom fires.cli import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8", timeout=30
    )
    assert result.returncode == 0
    loaded = set(result.stderr.split())
    assert "click" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "numba", "polars", "rich", "safetensors"}


def test_a_run_loads_neither_pandas_nor_scipy_stats_which_are_there_all_the_same(csv_file):
    """scikit-learn names them, and a run needs none: that is half of the time to start."""
    unused = ["pandas", "scipy.stats", "numpy.f2py", "numpy.testing"]
    code = (
        "import sys\nfrom fires.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        f"print([name for name in {unused} if name in sys.modules])\n"
        "import numpy, pandas, scipy.stats\nfrom sklearn.utils.fixes import _mode\n"
        "numpy.testing.assert_equal(callable(numpy.f2py.get_include), True)\n"
        "print(pandas.Series([_mode([1, 1, 2]).mode.item()]).sum(), scipy.stats.norm.cdf(0.0))"
    )
    arguments = ["select", csv_file, "-t", "label", "--json"]
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, encoding="utf-8", timeout=60
    )
    assert result.stdout.splitlines()[1:] == ["[]", "1 0.5"], result.stderr


def test_options_are_completed():
    env = {"_FIRES_COMPLETE": "bash_complete", "COMP_WORDS": "fires select --ta", "COMP_CWORD": "2"}
    assert process(env=env).communicate(timeout=120)[0] == "plain,--target\n"
