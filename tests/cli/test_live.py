"""Runs on streams that do not end: killed, taken up again, their sources restarted meanwhile."""

import json
import signal
import sqlite3

import numpy as np
import pytest
from click.testing import CliRunner
from tests.cli.durable_runs import (
    assert_same,
    checkpoints,
    facts,
    finished,
    kill,
    lines_of,
    start,
    wait_for,
)

from fires.cli import main

OPTIONS = ("--target", "label", "--batch-size", "10", "--checkpoint", "20", "--keep-doubtful")
SLOW = (*OPTIONS, "--rate", "3000")


def events(n_rows, first=0, seed=0):
    """Objects with an id, numbers and a label; some messages are none."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(first, first + n_rows):
        x = rng.normal(size=4).round(5).tolist()
        label = "yes" if x[1] - x[2] > 0 else "no"
        rows.append({"id": i, **{f"x{j}": value for j, value in enumerate(x)}, "label": label})
    return rows


def with_faults(rows):
    texts = [json.dumps(row) for row in rows]
    for place in range(7, len(texts), 90):
        texts[place] = texts[place][:-9]
    return texts


def run(*arguments):
    return CliRunner().invoke(main, ["select", *map(str, arguments)])


def killed_behind_a_checkpoint(out, *arguments):
    child = start(*arguments, "--out", out)
    wait_for(lambda: len(checkpoints(out)) == 2, child)
    kill(child)


# Brokers


@pytest.mark.slow  # tests of streams stop the server; runs are killed below
def test_redis_is_read_on_after_a_kill_and_a_restart(tmp_path, redis_server):
    redis_server.write("events", with_faults(events(3_000)))
    uri, reference, out = redis_server.uri("events"), tmp_path / "reference", tmp_path / "out"
    finished(uri, *OPTIONS, "--until-end", "--out", reference)
    killed_behind_a_checkpoint(out, uri, *SLOW)
    redis_server.stop()
    redis_server.start()
    child = start("--resume", out)
    seen = checkpoints(out)
    wait_for(lambda: checkpoints(out) != seen, child)
    redis_server.stop()  # while it is read
    redis_server.start()
    kill(child)
    finished("--resume", out, "--until-end", "--rate", "1000000")
    assert_same(out, reference)
    bad = lines_of(out / "quarantine.ndjson")
    assert len(bad) == 34
    assert all(row["id"] and row["raw"].startswith('{"id"') for row in bad)


@pytest.mark.slow  # a kill is met below, and a broker that is gone in the tests of streams
def test_kafka_is_read_on_after_a_kill_and_without_its_broker_for_a_while(tmp_path, kafka):
    kafka.create("events")
    kafka.write("events", with_faults(events(3_000)))
    uri, reference, out = kafka.uri("events"), tmp_path / "reference", tmp_path / "out"
    finished(uri, *OPTIONS, "--until-end", "--out", reference)
    killed_behind_a_checkpoint(out, uri, *SLOW)
    child = start("--resume", out)
    seen = checkpoints(out)
    wait_for(lambda: checkpoints(out) != seen, child)
    kafka.down()
    kafka.up()
    kill(child)
    finished("--resume", out, "--until-end", "--rate", "1000000")
    assert_same(out, reference)
    assert {row["partition"] for row in lines_of(out / "quarantine.ndjson")} == {0}


@pytest.mark.parametrize("broker", ["kafka", pytest.param("redis_server", marks=pytest.mark.slow)])
def test_columns_are_read_alike_after_a_kill_before_the_first_checkpoint(tmp_path, broker, request):
    broker = request.getfixturevalue(broker)
    if hasattr(broker, "create"):
        broker.create("events", 2)
    broker.write("events", map(json.dumps, events(150)))
    out = tmp_path / "out"
    child = start(broker.uri("events"), *OPTIONS, "--batch-size", "500", "--out", out)
    wait_for(lambda: "sample" in facts_now(out), child)
    kill(child)
    later = [row | {"x0": "text", "new": 1} for row in events(850, first=150)]
    broker.write("events", map(json.dumps, later))
    result = run("--resume", out, "--until-end")
    assert result.exit_code == 0, result.output
    assert 'column "x0": 85% of its values are not numbers, such as "text"' in result.stderr
    assert "new" not in (out / "columns.csv").read_text()
    assert facts(out)["run"]["rows"] == 1_000
    assert "sample" not in facts(out)["run"]


def facts_now(out):
    """What ``run.json`` says while the run goes on."""
    try:
        return json.loads((out / "run.json").read_bytes())
    except FileNotFoundError:
        return {}


@pytest.mark.slow
def test_each_row_of_several_partitions_counts_once(tmp_path, kafka):
    kafka.create("events", 3)
    kafka.write("events", events(2_000), partition=lambda i: i % 3)
    uri, out = kafka.uri("events"), tmp_path / "out"
    killed_behind_a_checkpoint(out, uri, *SLOW, "--top", "10", "--transform")
    finished("--resume", out, "--until-end", "--rate", "1000000")
    ids = sorted(row["id"] for row in facts(out)["transformed"])
    assert ids == list(range(2_000))


@pytest.mark.slow
def test_a_partition_that_is_new_ends_the_run_and_is_named(tmp_path, kafka):
    kafka.create("events", 2)
    kafka.write("events", events(1_000), partition=lambda i: i % 2)
    uri, out = kafka.uri("events"), tmp_path / "out"
    finished(uri, *OPTIONS, "--until-end", "--out", out)
    kafka.delete("events")  # the cluster cannot add one to a topic
    kafka.create("events", 3)
    kafka.write("events", events(1_500), partition=lambda i: i % 2)
    result = run("--resume", out)
    assert result.exit_code == 2
    assert "partition 2" in result.stderr


def test_messages_that_are_gone_end_the_run_and_are_named(tmp_path, kafka):
    kafka.create("events")
    kafka.write("events", events(500))
    out = tmp_path / "out"
    finished(kafka.uri("events"), *OPTIONS, "--until-end", "--out", out)
    kafka.write("events", events(500, 500))
    kafka.forget("events", 900)
    result = run("--resume", out)
    assert result.exit_code == 2
    assert "partition 0" in result.stderr
    assert "900" in result.stderr


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)]
)
def test_a_run_that_waits_for_messages_says_so_saves_and_leaves(tmp_path, redis_server, number):
    redis_server.write("events", [json.dumps(row) for row in events(50)])
    out = tmp_path / "out"
    child = start(redis_server.uri("events"), *OPTIONS, "--out", out)
    assert child.stderr.readline() == (
        f"waiting for the first 100 rows of {redis_server.uri('events')}, to determine the types "
        "of its columns\n"
    )
    redis_server.write("events", [json.dumps(row) for row in events(455, 50)])
    wait_for(lambda: (out / "steps.jsonl").exists(), child)
    wait_for(lambda: len(lines_of(out / "steps.jsonl")) == 50, child)  # also the last of them
    child.send_signal(number)
    _, errors = child.communicate(timeout=120)
    assert (child.returncode, "the first 500 rows" in errors) == (0, True)
    redis_server.write("events", [json.dumps(row) for row in events(95, 505)])
    finished("--resume", out, "--until-end")
    assert facts(out)["run"]["rows"] == 600


@pytest.mark.slow
def test_rows_are_not_kept_waiting_longer_than_asked(tmp_path, redis_server):
    redis_server.write("events", [json.dumps(row) for row in events(205)])
    out = tmp_path / "out"
    arguments = (redis_server.uri("events"), *OPTIONS, "--max-wait", "0.1", "--out", out)
    child = start(*arguments, "--log-level", "info")
    wait_for(lambda: (out / "steps.jsonl").exists(), child)
    # The file is there before its first line is.
    wait_for(lambda: any(row["rows"] == 205 for row in lines_of(out / "steps.jsonl")), child)
    assert lines_of(out / "steps.jsonl")[-1]["waited"] is True
    child.terminate()
    _, errors = child.communicate(timeout=120)
    assert "INFO batch 20 was cut by time, with 5 rows" in errors


def test_secrets_are_refused_before_anything_is_written(tmp_path):
    out = tmp_path / "out"
    for arguments in (
        ("redis://ann:s3cr3t@localhost/events",),
        ("kafka://ann:s3cr3t@localhost/events",),
        ("x.csv", "--emit", "redis://ann:s3cr3t@localhost/events"),
    ):
        result = run(*arguments, *OPTIONS, "--out", out)
        assert result.exit_code == 2
        assert "holds a user or a password" in result.stderr
        assert "s3cr3t" not in result.output
        assert not out.exists()


def test_what_is_selected_goes_to_a_broker(tmp_path, redis_server, kafka):
    kafka.create("selected")
    path = tmp_path / "x.ndjson"
    path.write_text("\n".join(json.dumps(row) for row in events(500)))
    for where in (redis_server.uri("selected"), kafka.uri("selected")):
        finished(path, *OPTIONS, "--top", "2", "--emit", where, "--emit-every", "batch")
    entries = [json.loads(e[b"data"]) for _, e in redis_server.client.xrange("selected")]
    assert [entry["rows"] for entry in entries] == list(range(10, 501, 10))
    assert {row["feature"] for row in entries[-1]["features"]} == {"x1", "x2"}


# A file that grows


@pytest.mark.slow  # rotations are met by the tests of streams, kills by those of resuming
def test_a_file_that_grows_is_read_on_after_a_kill_and_a_rotation(tmp_path):
    path, out, reference = tmp_path / "app.csv", tmp_path / "out", tmp_path / "reference"
    names = ["id", "x0", "x1", "x2", "x3", "label"]
    lines = [",".join(str(row[name]) for name in names) + "\n" for row in events(2_000)]
    whole = tmp_path / "whole.csv"
    whole.write_text("".join([",".join(names) + "\n", *lines]))
    finished(whole, *OPTIONS, "--out", reference)
    path.write_text("".join([",".join(names) + "\n", *lines[:800]]))
    child = start(path, *OPTIONS, "--follow", "--out", out)
    wait_for(lambda: checkpoints(out), child)
    kill(child)
    with path.open("a") as file:
        file.writelines(lines[800:1_200])
    path.rename(tmp_path / "app.csv.1")
    path.write_text("".join([",".join(names) + "\n", *lines[1_200:1_700]]))
    child = start("--resume", out)
    wait_for(lambda: lines_of(out / "steps.jsonl")[-1]["rows"] == 1_700, child)
    with path.open("a") as file:
        file.writelines(lines[1_700:])
    wait_for(lambda: lines_of(out / "steps.jsonl")[-1]["rows"] == 2_000, child)
    child.terminate()
    child.communicate(timeout=120)
    assert child.returncode == 0
    assert facts(out)["belief"] == facts(reference)["belief"]
    assert facts(out)["steps"] == facts(reference)["steps"]


# Queries


def write_events(path, rows):
    with sqlite3.connect(path) as database:
        database.execute("create table if not exists events (id, x0, x1, x2, x3, label)")
        values = [tuple(row.values()) for row in rows]
        database.executemany("insert into events values (?, ?, ?, ?, ?, ?)", values)
    database.close()


@pytest.mark.slow
def test_a_query_is_read_on_where_it_was(tmp_path):
    path, out, reference = tmp_path / "app.db", tmp_path / "out", tmp_path / "reference"
    write_events(path, reversed(events(2_000)))
    query = (f"sqlite:{path}?select * from events", "--position", "id")
    finished(*query, *OPTIONS, "--out", reference)
    killed_behind_a_checkpoint(out, *query, *SLOW)
    finished("--resume", out, "--rate", "1000000")
    assert_same(out, reference)
    write_events(path, events(300, first=2_000))
    assert run("--resume", out).exit_code == 0
    assert facts(out)["run"]["rows"] == 2_300


def test_without_a_position_a_query_cannot_be_read_on(tmp_path):
    path, out = tmp_path / "app.db", tmp_path / "out"
    write_events(path, events(500))
    assert run(f"sqlite:{path}?select * from events", *OPTIONS, "--out", out).exit_code == 0
    result = run("--resume", out)
    assert result.exit_code == 2
    assert "cannot be read again from the middle" in result.stderr
    assert "--position COL" in result.stderr
