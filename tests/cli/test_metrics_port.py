"""What Prometheus is told, by real requests."""

import json
import socket
import threading
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.cli.durable_runs import start, wait_for

from fires.cli import metrics_port
from fires.cli.metrics_port import MetricsPort, metrics_address
from fires.core.errors import InputError

pytest.importorskip("prometheus_client")


def asked(port, host="127.0.0.1"):
    with urlopen(f"http://{host}:{port}/metrics", timeout=120) as answer:
        text = answer.read().decode()
    lines = (line.split() for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, value in lines}


def test_numbers_are_those_of_the_last_batch():
    with MetricsPort(0) as metrics:
        assert asked(metrics.port) == {}
        metrics.update(rows=100, bad_rows=0, batches=1, alarms=0, stability=float("nan"))
        first = asked(metrics.port)
        metrics.update(rows=200, bad_rows=3, batches=2, alarms=1, stability=0.5)
        metrics.lag = lambda: 7
        metrics.update(selected_features=10)
        metrics.saved(0.25)
        second = asked(metrics.port)
    assert first == {
        "fires_rows_total": 100.0,
        "fires_bad_rows_total": 0.0,
        "fires_batches_total": 1.0,
        "fires_alarms_total": 0.0,
    }
    assert second.pop("fires_rows_per_second") > 0.0
    assert second.pop("fires_checkpoint_age_seconds") >= 0.0
    assert second == {
        "fires_rows_total": 200.0,
        "fires_bad_rows_total": 3.0,
        "fires_batches_total": 2.0,
        "fires_alarms_total": 1.0,
        "fires_stability": 0.5,
        "fires_lag": 7.0,
        "fires_selected_features": 10.0,
        "fires_checkpoint_seconds": 0.25,
    }


def test_speed_and_age_are_those_of_the_moment_they_are_asked_for(monkeypatch):
    with MetricsPort(0) as metrics:

        def told(now):
            monkeypatch.setattr(metrics_port.time, "monotonic", lambda: now)
            found = {one.name: one.samples[0].value for one in metrics.collect()}
            return found.get("fires_rows_per_second"), found.get("fires_checkpoint_age_seconds")

        metrics.update(rows=5_000)  # a run that was resumed
        assert told(1_000.0) == (None, None)
        monkeypatch.setattr(metrics_port.time, "monotonic", lambda: 1_004.0)
        metrics.saved(0.25)
        metrics.update(rows=5_500)
        assert told(1_010.0) == (50.0, 6.0)
        assert told(1_020.0) == (0.0, 16.0)  # the source is silent
        monkeypatch.undo()


def test_a_metric_that_nobody_knows_is_a_mistake():
    with MetricsPort(0) as metrics, pytest.raises(TypeError, match=r"no metric row$"):
        metrics.update(row=1)


def test_a_port_that_is_taken_is_one_line():
    with MetricsPort(0) as metrics:
        said = rf"^--metrics cannot listen on 127\.0\.0\.1:{metrics.port}: .*in use; give another"
        with pytest.raises(InputError, match=said):
            MetricsPort(metrics.port)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid"])
def test_so_is_an_address_of_another_machine(host):
    with pytest.raises(InputError, match=rf"^--metrics cannot listen on {host}:0: "):
        MetricsPort(0, host)


def test_after_closing_the_port_is_free_and_no_thread_is_left():
    before = threading.active_count()
    metrics = MetricsPort(0)
    assert asked(metrics.port) == {}
    metrics.__exit__()
    assert threading.active_count() <= before
    with pytest.raises(URLError):
        asked(metrics.port)
    with MetricsPort(metrics.port) as again:
        assert asked(again.port) == {}


def test_other_machines_cannot_ask_unless_that_is_wanted():
    with MetricsPort(0) as metrics:
        assert metrics._server.server_address[0] == "127.0.0.1"
    with MetricsPort(0, "0.0.0.0") as metrics:
        assert metrics._server.server_address[0] == "0.0.0.0"
        assert asked(metrics.port) == {}


@pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6")
def test_ipv6():
    try:
        metrics = MetricsPort(0, "::1")
    except InputError as error:
        pytest.skip(str(error))
    with metrics:
        assert asked(metrics.port, "[::1]") == {}


@pytest.mark.parametrize("text", ["", "x", "70000", "host:", ":9100", "a b:1", "1:2:3", "-1", "٣"])
def test_what_is_no_address_is_one_line(text):
    with pytest.raises(InputError, match="is not an address for metrics; give a port such as 9100"):
        metrics_address(text)


# A run


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def answers(port):
    try:
        return asked(port)
    except URLError:
        return {}


def test_the_numbers_of_a_run_are_there_before_its_first_batch_and_its_lag_grows_without_one(
    redis_server, tmp_path
):
    def entries(n):
        return [{"a": i % 7, "b": i % 5, "label": int(i % 5 > 2)} for i in range(n)]

    def begun(*arguments):
        return start(*arguments, "--metrics", port, "--quiet", "--keep-doubtful")

    def ended(child):
        child.terminate()
        _, errors = child.communicate(timeout=120)
        assert child.returncode == 0, errors
        return json.loads((out / "run.json").read_bytes())

    port, out = free_port(), tmp_path / "run"
    redis_server.write("events", entries(500))
    child = begun(redis_server.uri("events"), "-t", "label", "--out", out)
    try:
        wait_for(lambda: answers(port).get("fires_rows_total") == 500, child)
        before = ended(child)
        child = start("--resume", out, "--rate", "0.001")
        wait_for(lambda: "fires_rows_total" in answers(port), child)
        seen = asked(port)
        assert seen["fires_rows_total"] == before["rows"] == 500
        assert seen["fires_batches_total"] == 5
        assert seen["fires_selected_features"] == 2
        assert {"fires_bad_rows_total", "fires_alarms_total"} <= set(seen)
        redis_server.write("events", entries(200))
        wait_for(lambda: asked(port)["fires_rows_total"] == 600, child)
        lag = asked(port)["fires_lag"]
        redis_server.write("events", entries(300))
        seen = asked(port)  # while it waits for the time of the next batch
        assert (seen["fires_rows_total"], seen["fires_lag"]) == (600, lag + 300)
        ended(child)
    finally:
        child.kill()
        child.communicate()
