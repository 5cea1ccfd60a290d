"""What ``fires select`` can be told of the learner: memory, drift, groups."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from datetime import UTC, datetime, timedelta

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import fires
from fires import FIRES, OnlinePipeline
from fires.cli import main
from fires.cli.text import twin_lines
from fires.report.summary import Summary

START = datetime(2024, 3, 30, tzinfo=UTC)


def select(*arguments):
    return CliRunner().invoke(main, ["select", *map(str, arguments), "-t", "label", "-q"])


def resume(*arguments):
    return CliRunner().invoke(main, ["select", *map(str, arguments)])


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({f"n{j}": rng.normal(size=n) for j in range(5)})
    town = rng.choice(["Bonn", "Ulm", "Trier", "Mainz"], n)
    signal = 2.0 * frame["n2"] - frame["n4"] + (town == "Ulm") + rng.normal(size=n)
    return frame.with_columns(
        town=pl.Series(town),
        label=pl.Series(np.digitize(signal, [-1.0, 1.0])),
        when=pl.datetime_range(START, START + timedelta(seconds=30 * (n - 1)), "30s", eager=True),
    )


@pytest.fixture
def path(tmp_path):
    table().drop("when").write_csv(tmp_path / "rows.csv")
    return tmp_path / "rows.csv"


@pytest.fixture
def timed(tmp_path):
    table().write_csv(tmp_path / "timed.csv", datetime_format="%d/%m/%Y %H:%M:%S")
    return tmp_path / "timed.csv"


def run(out):
    with (out / "features.csv").open(encoding="utf-8", newline="") as file:
        features = {row["feature"]: row for row in csv.DictReader(file)}
    settings = tomllib.loads((out / "run.toml").read_text(encoding="utf-8"))
    return features, settings, json.loads((out / "run.json").read_text(encoding="utf-8"))


def selector_of(out):
    return fires.load(out / "state.safetensors").selector


def test_memory_and_drift_are_those_of_the_library(path, tmp_path):
    out = tmp_path / "out"
    assert select(path, "--memory", 800, "--drift", "none", "--out", out).exit_code == 0
    learnt = selector_of(out)
    assert (learnt.memory, learnt.drift, learnt.time) == (800.0, None, None)
    _, settings, facts = run(out)
    assert (settings["memory"], settings["drift"]) == (800.0, "none")
    assert (facts["settings"]["memory"], facts["settings"]["drift"]) == (800.0, "none")
    again = tmp_path / "again"
    assert resume("--config", out / "run.toml", "--out", again, "-q").exit_code == 0
    assert run(again)[0] == run(out)[0]


# --- groups ---------------------------------------------------------------------------------------


def test_columns_of_a_group_are_ranked_and_selected_together(path, tmp_path):
    out = tmp_path / "out"
    how = ("--groups", "n2,n3", "--groups", "town,n0", "-k", 2, "--report")
    result = select(path, *how, "--out", out)
    assert result.exit_code == 0, result.stderr
    features, settings, _ = run(out)
    assert set(features) == {"n2, n3", "town, n0", "n1", "n4"}
    assert [name for name, row in features.items() if row["selected"] == "True"] == ["n2, n3", "n4"]
    assert settings["groups"] == ["n2,n3", "town,n0"]
    learnt = selector_of(out)
    assert learnt.groups == [["n2", "n3"], ["town", "n0"]]
    assert {"n2", "n3", "n4"} == set(learnt.get_feature_names_out())
    summary = Summary(out)
    summary.refresh()
    told = summary.as_dict()
    assert {one["name"] for one in told["groups"]} == {"n2, n3", "town, n0"}
    assert told["counts"]["features"] == 4
    assert any(name.startswith("town (") for one in told["groups"] for name in one["features"])


def test_a_group_is_explained_by_its_name_or_that_of_a_column(path, tmp_path):
    out = tmp_path / "out"
    assert select(path, "--groups", "n2,n3", "-k", 2, "--out", out).exit_code == 0
    told = [CliRunner().invoke(main, ["explain", str(out), name]) for name in ("n2", "n2, n3")]
    for one in told:
        assert one.exit_code == 0, one.stderr
        assert one.stdout.startswith("n2, n3: ")
    assert [one.stdout.splitlines()[1:] for one in told] == [told[0].stdout.splitlines()[1:]] * 2
    assert "rank 1 of 5" in told[0].stdout
    assert "favour" not in told[0].stdout


def test_a_column_of_several_features_is_a_group_beside_others(path, tmp_path):
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    assert select(path, "--out", alone).exit_code == 0
    assert select(path, "--groups", "n0,n1", "--out", beside).exit_code == 0
    assert set(run(alone)[0]) - set(run(beside)[0]) == {"n0", "n1"}
    assert run(alone)[0]["town"] == run(beside)[0]["town"] | {"rank": run(alone)[0]["town"]["rank"]}


def test_groups_in_the_library_go_by_name_or_number():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    selector = FIRES(1, groups=[["x1", "x3"]]).fit(X, X[:, 3] > 0)
    assert selector.get_support(indices=True).tolist() == [1, 3]
    assert selector.why().startswith("1 of 3 groups")


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (["n2,n9"], 'groups: no column "n9"; there is n0, n1, n2, n3, n4, town\n'),
        (["n2,label"], 'groups: no column "label"; there is n0'),
    ],
)
def test_a_column_that_is_not_there_is_one_line(path, groups, said):
    result = select(path, *(part for one in groups for part in ("--groups", one)))
    assert result.exit_code != 0
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


# --- memory as a time -----------------------------------------------------------------------------


def test_the_time_is_no_feature_and_the_memory_goes_by_it(timed, tmp_path):
    out = tmp_path / "out"
    assert select(timed, "--memory", "10h", "--time", "when", "--out", out).exit_code == 0
    features, settings, _ = run(out)
    assert "when" not in features
    assert (settings["memory"], settings["time"]) == ("10h", "when")
    by_rows = tmp_path / "by_rows"
    assert select(timed, "--memory", 1200, "--exclude", "when", "--out", by_rows).exit_code == 0
    for name, row in run(by_rows)[0].items():
        assert float(features[name]["uncertainty"]) == pytest.approx(
            float(row["uncertainty"]), rel=0.01
        )
    shorter = tmp_path / "shorter"
    assert select(timed, "--memory", "1h", "--time", "when", "--out", shorter).exit_code == 0
    wider = [
        float(row["uncertainty"]) > 1.3 * float(features[name]["uncertainty"])
        for name, row in run(shorter)[0].items()
    ]
    assert all(wider)


@pytest.mark.parametrize("kind", ["csv", "parquet", "ndjson"])
def test_the_rows_of_any_file_carry_their_time(tmp_path, kind):
    frame, out = table(500), tmp_path / "out"
    file = tmp_path / f"rows.{kind}"
    getattr(frame, f"write_{kind}")(file)
    result = select(file, "--memory", "2h", "--time", "when", "--out", out, "--columns", "open")
    assert result.exit_code == 0, result.stderr
    pipeline = OnlinePipeline(FIRES(10, memory="2h", time="when", columns="open"))
    for start in range(0, 500, 100):
        part = frame.slice(start, 100)
        pipeline.partial_fit(part.drop("label"), part["label"].to_numpy())
    assert selector_of(out)._clock_ == pytest.approx(pipeline.selector._clock_)


def test_a_run_goes_on_as_if_nothing_had_happened(tmp_path):
    timed = tmp_path / "timed.csv"
    table().drop("town").write_csv(timed, datetime_format="%d/%m/%Y %H:%M:%S")
    text = timed.read_text(encoding="utf-8").splitlines(keepends=True)
    how = ("--memory", "2h", "--time", "when", "--groups", "n0,n1")
    assert select(timed, *how, "--out", tmp_path / "whole").exit_code == 0
    timed.write_text("".join(text[:1501]), encoding="utf-8")
    assert select(timed, *how, "--out", tmp_path / "parts").exit_code == 0
    timed.write_text("".join(text), encoding="utf-8")
    result = resume("--resume", tmp_path / "parts", "-q")
    assert result.exit_code == 0, result.stderr
    assert run(tmp_path / "parts")[0] == run(tmp_path / "whole")[0]
    assert selector_of(tmp_path / "parts")._clock_ == selector_of(tmp_path / "whole")._clock_


def test_what_is_settled_is_settled(path, tmp_path):
    assert select(path, "--out", tmp_path / "out").exit_code == 0
    for option in (("--memory", "900"), ("--drift", "none"), ("--groups", "n0,n1")):
        result = resume("--resume", tmp_path / "out", *option)
        assert result.exit_code == 2
        assert f"{option[0]} cannot be used with --resume" in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--memory", "7d"], "--memory 7d and --time COL must be given together."),
        (["--time", "when"], "--memory 7d and --time COL must be given together."),
        (["--memory", "1"], "1"),
        (["--memory", "7y"], "'7y' is not a valid number of rows, nor a time such as 7d."),
        (["--memory", "-3d"], "'-3d' is not a valid number of rows"),
        (["--memory", "7d", "--time", "whem"], 'no column "whem" in'),
        (["--memory", "7d", "--time", "town"], 'no column "town" with the time of each row'),
        (["--memory", "7d", "--time", "label"], 'the column "label" is the time of the rows'),
        (["--memory", "900", "--as-published"], "--memory and --drift cannot be used with it."),
        (["--drift", "none", "--as-published"], "--memory and --drift cannot be used with it."),
        (
            ["--groups", "n0,n1", "--columns", "open"],
            "--groups cannot be used with --columns open.",
        ),
        (["--memory", "7d", "--time", "when", "--engine", "spark"], "--time cannot be used with"),
    ],
)
def test_what_makes_no_sense_is_one_line(timed, options, said):
    result = select(timed, *options)
    assert result.exit_code != 0
    assert said in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_dates_that_may_be_read_in_two_ways_are_asked_about(tmp_path):
    frame = table(200).with_columns(when=pl.lit("03/04/2024"))
    frame.write_csv(tmp_path / "rows.csv")
    how = (tmp_path / "rows.csv", "--memory", "7d", "--time", "when")
    assert "use --dates day-first" in select(*how).stderr
    assert select(*how, "--dates", "day-first").exit_code == 0


def test_all_of_a_wide_table_is_timed(tmp_path):
    rng = np.random.default_rng(0)
    wide = pl.DataFrame({f"c{j}": rng.normal(size=300) for j in range(1200)})
    seconds = 1.7e9 + 60.0 * np.arange(300)
    wide = wide.with_columns(label=pl.Series(rng.integers(0, 2, 300)), when=pl.Series(seconds))
    wide.write_csv(tmp_path / "wide.csv")
    out = tmp_path / "out"
    how = ("--memory", "1h", "--time", "when", "--out", out)
    assert select(tmp_path / "wide.csv", *how).exit_code == 0
    clock = selector_of(out)._clock_
    assert_allclose([clock.at, clock.rate], [1.7e9 + 60.0 * 249.5, 1.0 / 60.0], rtol=1e-9)


def test_where_columns_are_open_a_file_may_have_no_time(tmp_path):
    frame, out = table(600), tmp_path / "out"
    for number, part in enumerate((frame[:250], frame[250:430].drop("when"), frame[430:])):
        part.write_csv(tmp_path / f"part{number}.csv")
    how = ("--memory", "2h", "--time", "when", "--columns", "open", "--out", out)
    result = select(tmp_path / "part*.csv", *how)
    assert result.exit_code == 0, result.stderr
    assert selector_of(out).n_samples_seen_ == 600
    late = frame["when"][-100:].dt.epoch("us").to_numpy() / 1e6
    assert selector_of(out)._clock_.at == np.median(late)


def test_every_option_of_every_command_says_what_it_does():
    waiting, seen = [main], 0
    while waiting:
        command = waiting.pop()
        waiting += getattr(command, "commands", {}).values()
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.help, f"{command.name} {option.opts}"
                seen += 1
    assert seen > 100


def test_the_help_of_select_fits_on_a_screen_and_every_option_is_in_one_group():
    short = CliRunner().invoke(main, ["select", "--help"]).output
    assert len(short.splitlines()) <= 40
    assert "--decimal" not in short
    whole = CliRunner().invoke(main, ["select", "--help-all"]).output
    assert "Other options" not in whole
    for option in main.commands["select"].params:
        if isinstance(option, click.Option):
            assert re.search(rf"{max(option.opts, key=len)}[ ,]", whole)
    titles = [line for line in whole.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        *("Usual options:", "What to select:", "How to read FILE:", "Stream sources:"),
        *("Run and resume:", "Output:"),
    ]


def test_the_list_of_commands_is_whole():
    shown = CliRunner().invoke(main, ["--help"]).output
    assert "..." not in shown.replace("[ARGS]...", "")
    for name in main.commands:
        assert f"\n  {name} " in shown


def test_what_leaves_nothing_to_select_says_so(tmp_path):
    path = tmp_path / "x.csv"
    pl.DataFrame({"a": [0.1, 0.7] * 60, "b": [0.3, 0.2, 0.9] * 40, "y": [0, 1] * 60}).write_csv(
        path
    )
    shown = CliRunner().invoke(main, ["select", str(path), "-t", "y", "-k", "2", "-q"]).output
    assert "--top 2 leaves nothing to select: there are 2 features\n" in shown


def test_features_that_stand_for_the_same_others_share_a_line():
    assert twin_lines({"a": ["c"], "b": ["c"], "d": ["e"]}) == [
        "redundant given a, b: c",
        "redundant given d: e",
    ]


@pytest.mark.parametrize(
    ("name", "head", "said"),
    [
        ("x.png", b"\x89PNG\r\n\x1a\n", "is a binary file, not a table"),
        ("x.db", b"SQLite format 3\0", "is a SQLite database; name a query"),
        ("https://x.org/x.csv", None, "is a URL; download it first: curl"),
    ],
)
def test_what_is_no_table_is_called_by_its_name(tmp_path, name, head, said):
    path = name
    if head is not None:
        (tmp_path / name).write_bytes(head + bytes(range(256)))
        path = str(tmp_path / name)
    result = CliRunner().invoke(main, ["select", path, "-t", "y"])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert f"{path} {said}" in result.stderr


def test_a_target_of_floats_that_are_whole_is_numeric_also_in_a_file(tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "x.csv"
    X = rng.normal(size=(300, 2))
    y = np.round(50 * X[:, 0] + 100)
    rows = [f"{a:.3f},{b:.3f},{t:.1f}" for (a, b), t in zip(X, y, strict=True)]
    path.write_text("\n".join(["a,b,y", *rows]), encoding="utf-8")
    result = CliRunner().invoke(main, ["select", str(path), "-t", "y", "-k", "1", "-q"])
    assert result.exit_code == 0, result.stderr
    assert "R2" in result.stdout
