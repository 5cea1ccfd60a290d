"""A plugin of pytest: the processor time of each test, its processes included, in a file each.

``python -m pytest -p tests.costs -n 4 -m "not slow"`` writes costs.<worker>.jsonl into the folder
that the variable FIRES_COSTS names.
"""

import json
import os
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    """Write down the time of a test and of the processes that it has waited for."""
    before = sum(os.times()[:4])
    result = yield
    line = json.dumps([item.nodeid, round(sum(os.times()[:4]) - before, 3)])
    with Path(os.environ["FIRES_COSTS"], f"costs.{os.getpid()}.jsonl").open("a") as file:
        file.write(line + "\n")
    return result
