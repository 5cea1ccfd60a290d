"""``fires select`` says where a straight line does not show what a column does."""

import json

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

from fires.cli import main


def table(path, seed=0, kind="curve"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((1_500, 6))
    effect = {
        "curve": X[:, 2] ** 2 - 1.0,
        "pair": 1.5 * np.sign(X[:, 0] * X[:, 1]),
        "line": X[:, 2],
    }
    y = effect[kind] + rng.standard_normal(1_500) > 0.0
    pl.DataFrame({f"c{j}": X[:, j] for j in range(6)} | {"y": y}).write_csv(path)
    return str(path)


def said(*arguments):
    result = CliRunner().invoke(main, ["select", *arguments, "-t", "y", "--top", "2"])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("curve", "c2 has a nonlinear effect: try --relations curves"),
        ("pair", "c0 and c1 interact: try "),
    ],
)
def test_a_hint_names_the_column_and_the_option(kind, line, tmp_path):
    path = table(tmp_path / "x.csv", kind=kind)
    assert line in said(path)
    assert "--relations" not in said(path, "--relations", "auto")
    assert "--relations" not in said(path, "--as-published")


def test_where_lines_show_all_there_is_no_hint(tmp_path):
    path = table(tmp_path / "x.csv", kind="line")
    assert "--relations" not in said(path)
    assert json.loads(said(path, "--json"))["hints"] == []


def test_a_hint_survives_a_resumed_run(tmp_path):
    path, out = table(tmp_path / "x.csv"), tmp_path / "out"
    said(path, "--out", str(out))
    result = CliRunner().invoke(main, ["select", "--resume", str(out), "--json"])
    assert json.loads(result.stdout)["hints"][0].startswith("c2 has a nonlinear effect")
