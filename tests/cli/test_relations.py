"""``fires select --relations``: what is printed, written down and explained, and what goes on."""

import json
import random
import re

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from tests.cli.durable_runs import assert_same, facts, finished, killed_again_and_again
from tests.report import runs

from fires import load
from fires.cli import main
from fires.core.output import csv_rows
from fires.core.state import read_state


def fires(*arguments):
    return CliRunner().invoke(main, list(map(str, arguments)))


def select(run, *options):
    """The run of the table that a run was of, printed."""
    source = json.loads((run / "run.json").read_bytes())["settings"]["file"][0]
    return fires("select", source, "-t", "label", "--top", 5, "-q", *options)


@pytest.fixture(scope="module")
def run():
    return runs.of_relations()


@pytest.fixture(scope="module")
def known(run):
    return json.loads((run / "run.json").read_bytes())


def test_curves_and_pairs_are_named_below_the_table(run):
    printed = select(run, "--relations", "auto").stdout
    assert "\nnonlinear effects: dose, price\ninteraction: age x income\n" in printed
    assert 'favour class "yes", negative ones "no"; no sign: ' in printed
    (unsigned,) = re.findall("no sign: (.*)", printed)
    assert set(unsigned.split(", ")) == {"age", "income", "dose"}


def test_where_lines_are_wanted_or_found_nothing_more_is_shown(run):
    printed = select(run, "--json").stdout
    assert "relation" not in json.loads(printed)["features"][0]
    assert "relations" not in json.loads(printed)
    straight = runs.of_classes()
    source = json.loads((straight / "run.json").read_bytes())["settings"]["file"][0]
    plain, auto = (
        fires("select", source, "-t", "label", "-q", "--relations", how).stdout.splitlines()
        for how in ("linear", "auto")
    )
    seconds = re.compile(r"rows in [\d.]+ s")
    assert [seconds.sub("", line) for line in auto] == [seconds.sub("", line) for line in plain]


def test_numbers_are_in_json_in_run_json_and_in_the_table(run, known):
    document = json.loads(select(run, "--relations", "auto", "--json").stdout)
    found = document["relations"]
    assert found == known["relations"]
    assert found["kind"] == "pairs"
    assert [row["relation"] for row in document["features"]] == [
        row["relation"] for row in csv_rows(run / "features.csv") if row["selected"] == "True"
    ]
    relation = {row["feature"]: row["relation"] for row in csv_rows(run / "features.csv")}
    assert relation["dose"] == relation["price"] == "curve"
    assert relation["age"] == relation["income"] == "line, pairs"
    assert relation["height"] == relation["town"] == "line"
    (pair,) = found["pairs"]
    assert {pair["first"], pair["second"]} == {"age", "income"}
    assert 0.0 < pair["low"] < pair["importance"] < pair["high"]
    curves = {one["feature"]: one for one in found["curves"]}
    assert list(curves) == ["dose", "price"]
    for one in curves.values():
        values, effect, low, high = (np.array(one[k]) for k in ("values", "effect", "low", "high"))
        assert len(values) == 21
        assert (np.diff(values) > 0.0).all()
        assert ((low < effect) & (effect < high)).all()


def test_curves_are_those_of_the_pipeline_in_the_units_of_the_data(run, known):
    pipeline = load(run / "state.safetensors")
    for one in known["relations"]["curves"]:
        curve = pipeline.curve(one["feature"], n_points=21)
        for name, values in curve._asdict().items():
            np.testing.assert_allclose(one[name], values, rtol=1e-4)
    prices = known["relations"]["curves"][1]["values"]
    assert prices[-1] > 4.0  # exp of a normal variable at its quantile 0.977, not a score


def test_of_three_classes_a_curve_is_of_one(tmp_path):
    table, score = runs.relations_table(1_500)
    names = np.array(["low", "mid", "high"])
    table = table.with_columns(label=pl.Series(names[np.digitize(score, [-2.0, 2.0])]))
    table.write_csv(tmp_path / "x.csv")
    result = fires("select", tmp_path / "x.csv", "-t", "label", "--relations", "curves", "--json")
    curves = json.loads(result.stdout)["relations"]["curves"]
    assert curves
    assert {one["class"] for one in curves} <= {"low", "mid", "high"}


@pytest.mark.parametrize("option", ["--engine spark", "--as-published", "--columns open"])
def test_what_curves_do_not_go_with_is_refused_in_one_line(run, option):
    result = select(run, "--relations", "curves", *option.split())
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == f"Error: --relations cannot be used with {option}."


def test_the_configuration_file_says_it_too(run, tmp_path):
    assert 'relations = "auto"' in (run / "run.toml").read_text()
    result = fires("select", "--config", run / "run.toml", "--out", tmp_path / "again")
    assert result.exit_code == 0, result.output
    assert facts(tmp_path / "again")["belief"] == facts(run)["belief"]
    settled = fires("select", "--resume", run, "--relations", "linear")
    assert "--relations cannot be used with --resume" in settled.stderr


def shots_of(run):
    return {path.name: read_state(path) for path in sorted((run / "snapshots").iterdir())}


@pytest.mark.slow  # what is saved of curves is tested with the states
def test_a_run_with_curves_that_is_killed_ends_as_one_that_is_not(run, tmp_path):
    options = ("-t", "label", "--top", 5, "--relations", "auto", "--checkpoint", 3)
    source = json.loads((run / "run.json").read_bytes())["settings"]["file"][0]
    reference, out = tmp_path / "reference", tmp_path / "out"
    finished(source, *options, "--out", reference)
    arguments = (source, *options, "--rate", 800)
    assert killed_again_and_again(out, arguments, 1, random.Random(0), 1.5) == 1
    assert_same(out, reference)
    shots = shots_of(out)
    assert shots[max(shots)][0]["relations"]["curves"]


def test_only_snapshots_with_curves_or_pairs_have_them(run):
    facts = [one[0] for one in shots_of(run).values()]
    assert "relations" not in facts[0]
    assert facts[-1]["relations"]["pairs"]
    assert not any("relations" in one[0] for one in shots_of(runs.of_classes()).values())


def test_explain_tells_the_curve_of_a_column(run, known):
    lines = fires("explain", run, "dose").stdout.splitlines()
    at = lines.index("effect by value, with its 95% band:")
    (one,) = [one for one in known["relations"]["curves"] if one["feature"] == "dose"]
    points = [line.partition(":") for line in lines[at + 1 :]]
    assert [float(value) for value, *_ in points] == pytest.approx(one["values"][::2], rel=1e-3)
    effects = [float(line.split()[0]) for *_, line in points]
    assert effects == pytest.approx(one["effect"][::2], rel=1e-2)
    assert not any("favour" in line for line in lines)
    told = json.loads(fires("explain", run, "dose", "--json").stdout)
    assert told["curves"] == [one]
    assert told["unsigned"] is True
    assert 'favour "yes"' in fires("explain", run, "price").stdout


def test_predict_mentions_once_that_contributions_lack_interactions(run):
    (source,) = json.loads((run / "run.json").read_bytes())["settings"]["file"]
    lines = fires("predict", run, source, "--explain").stderr.splitlines()
    assert lines[:-1] == ["contributions do not include interactions: 1 found"]


def test_explain_names_the_pairs_of_a_column(run, known):
    (pair,) = known["relations"]["pairs"]
    for name in ("age", "income"):
        lines = fires("explain", run, name).stdout.splitlines()
        assert lines[-1].startswith(
            f"interaction age x income: importance {pair['importance']:.4g}"
        )
        told = json.loads(fires("explain", run, name, "--json").stdout)
        assert told["pairs"] == [pair]
    told = json.loads(fires("explain", run, "height", "--json").stdout)
    assert (told["curves"], told["pairs"], told["unsigned"]) == ([], [], False)


def test_explain_of_a_run_with_lines_is_as_before():
    told = json.loads(fires("explain", runs.of_classes(), "x2", "--json").stdout)
    assert told.keys().isdisjoint(("curves", "pairs", "unsigned", "relation"))
