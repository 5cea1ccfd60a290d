"""A plugin of pytest for ``benchmarks.mutants``: which functions each test calls, or which to run.

It is loaded from a folder of its own into trees that may be older than it, so it stands alone.

``MUTANTS_MAP``: a folder. Every process writes what each of its tests has called, and how long it
took. ``MUTANTS_RUN``: a JSON list of tests. These are run, in this order; the first that fails is
written to the file ``MUTANTS_FAILED``.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

_SOURCES = f"{os.sep}src{os.sep}fires{os.sep}"


class Calls:
    """Records the code of every Python function that is called, in the set ``seen``."""

    def __init__(self):
        self.seen = set()
        if sys.version_info >= (3, 12):
            self._monitor()
        else:  # unlike a profile hook, a trace function is not told of functions written in C
            threading.settrace(self._trace)
            sys.settrace(self._trace)

    def _trace(self, frame, event, arg):
        self.seen.add(frame.f_code)

    def _monitor(self):
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "mutants")
        start = monitoring.events.PY_START

        def called(code, offset):
            self.seen.add(code)
            return monitoring.DISABLE  # until the next set is begun: once is enough

        monitoring.register_callback(monitoring.PROFILER_ID, start, called)
        monitoring.set_events(monitoring.PROFILER_ID, start)

    def begin(self):
        """Begin a new set; returns the old one."""
        before, self.seen = self.seen, set()
        if sys.version_info >= (3, 12):
            sys.monitoring.restart_events()
        elif sys.gettrace() is None:  # a test has removed it
            sys.settrace(self._trace)
        return before


class Mapping:
    """Writes down what each test calls; a fixture belongs to every test that uses it."""

    def __init__(self, folder):
        self.folder, self.calls, self.passed = folder, Calls(), False
        self.tests, self.fixtures, self.functions, self.numbers = {}, {}, {}, {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        """One test, with its fixtures."""
        self.calls.begin()
        self.passed, started = False, time.perf_counter()
        result = yield
        seconds, seen = time.perf_counter() - started, self.calls.begin()
        known = getattr(item, "_fixtureinfo", None)
        for fixtures in known.name2fixturedefs.values() if known else ():
            seen = seen.union(*(self.fixtures.get(fixture, ()) for fixture in fixtures))
        if self.passed:
            numbers = {self.number(code) for code in seen} - {None}
            self.tests[item.nodeid] = [round(seconds, 4), sorted(numbers)]
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef):
        """A fixture, which may be shared with later tests."""
        before = self.calls.begin()
        try:
            return (yield)
        finally:
            within = self.calls.begin()
            self.fixtures.setdefault(fixturedef, set()).update(within)
            self.calls.seen |= before | within

    def pytest_runtest_logreport(self, report):
        """Only what passes without a mutant says something with one."""
        if report.when == "call":
            self.passed = report.passed

    def number(self, code):
        """The number of a function, ``file:name``; None if it is not of fires."""
        if code not in self.numbers:
            _, ours, file = code.co_filename.rpartition(_SOURCES)
            name = f"{file}:{code.co_qualname.replace('<locals>.', '')}"
            is_function = ours and not code.co_name.startswith("<")
            functions = self.functions
            number = functions.setdefault(name, len(functions)) if is_function else None
            self.numbers[code] = number
        return self.numbers[code]

    def pytest_sessionfinish(self):
        """Write all of it; with xdist, each worker does."""
        name = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.json"
        found = {"functions": list(self.functions), "tests": self.tests}
        Path(self.folder, name).write_text(json.dumps(found))


class Chosen:
    """Runs the tests of a list, in its order."""

    def __init__(self, path):
        self.wanted = json.loads(Path(path).read_text())

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        """Leave those of the list."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[name] for name in self.wanted if name in found]

    def pytest_runtest_logreport(self, report):
        """Tell which one has failed."""
        if report.failed:
            Path(os.environ["MUTANTS_FAILED"]).write_text(report.nodeid)


def pytest_configure(config):
    if "MUTANTS_RUN" in os.environ:
        config.pluginmanager.register(Chosen(os.environ["MUTANTS_RUN"]))
    elif "MUTANTS_MAP" in os.environ and not getattr(config.option, "numprocesses", None):
        config.pluginmanager.register(Mapping(os.environ["MUTANTS_MAP"]))
