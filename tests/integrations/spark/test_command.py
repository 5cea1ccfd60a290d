"""``fires select --engine spark``, and what it says where Spark cannot run."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.integrations.spark.conftest import write_files

from fires.cli import main
from fires.core.errors import InputError
from fires.integrations.spark import check_java


def test_the_command_selects_and_goes_on(spark, tmp_path):
    write_files(tmp_path / "files", 4)
    run, command = str(tmp_path / "run"), ["select", str(tmp_path / "files")]
    options = ["--engine", "spark", "--target", "label", "--top", "2", "--batch-size", "200"]
    done = CliRunner().invoke(main, [*command, *options, "--as-published", "--out", run, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert sorted(row["feature"] for row in found["features"]) == ["f3", "f5"]
    assert (found["rows"], found["batches"]) == (600, 3)

    # There is nothing more to learn: each row counts once.
    again = CliRunner().invoke(main, ["select", "--resume", run, "--json"])
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["rows"] == 600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kafka://host/topic"], "reads CSV, JSON, Parquet, ORC and libsvm"),
        (["nothing.parquet"], "Spark cannot read nothing.parquet"),
        (["x.parquet", "--emit", "-"], "--emit cannot be used with --engine spark"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(spark, arguments, said):
    options = ["--engine", "spark", "--target", "label"]
    done = CliRunner().invoke(main, ["select", *arguments, *options])
    assert done.exit_code != 0
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_java_one_line_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(InputError) as refused:
        check_java()
    assert str(refused.value) == (
        "Spark needs Java, and there is none; install Java 17 or later, or set JAVA_HOME"
    )


def test_an_old_java_is_named(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_392\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match=r"needs Java 17 or later, and .*java is 8"):
        check_java()
