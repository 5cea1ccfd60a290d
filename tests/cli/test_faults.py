"""Whatever file operation fails, or is the last one before a kill: the run goes on as if not."""

import json
import subprocess
import sys

import pytest
from tests.cli import faults

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked")
SCENARIOS = ("begin", "resume", "overwrite")


def start(name, first, step):
    command = [sys.executable, faults.__file__, name, str(first), str(step)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=faults.environment(), **streams)


def outcome(*programs):
    """The points, and the cases tried by several programs; none may have gone wrong."""
    found = []
    for program in programs:
        output, errors = program.communicate(timeout=3600)
        assert program.returncode == 0, errors
        found.append(json.loads(output))
        assert found[-1]["wrong"] == []
    return found[0]["points"], sum(one["cases"] for one in found)


def test_a_fault_at_some_calls_loses_nothing():
    """Of a run that was killed and goes on; the slow test is about all calls and all runs."""
    points, cases = outcome(start("resume", 60, 300))
    assert 50 < points <= 300
    assert cases >= 6


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_every_call_loses_nothing(name):
    points, cases = outcome(start(name, 0, 2), start(name, 1, 2))
    assert cases == points * len(faults.KINDS)
    print(f"{name}: {points} points, {cases} cases")
