"""What holds for all tests: reproducible examples, and no deadline, since loops are compiled."""

import atexit
import gc
import os
import sys
import threading
from pathlib import Path

# Before they are loaded: threads that wait for so small matrices take several times the CPU.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what tests and benchmarks share
from tests.sampling import kept_cases, mark_others_slow
from tests.streams.brokers import kafka, redis_server  # noqa: F401 - fixtures

# What a terminal shows depends on these, and tests are not about the caller's terminal.
for _name in ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR"):
    os.environ.pop(_name, None)

# Nothing here has to outlive a power cut, and a disk takes milliseconds for each promise.
os.fsync = lambda descriptor: None

# Real data, where it lies beside the repository; tests that need it are skipped elsewhere.
_DATA = Path(__file__).parents[2] / "shared" / "data"
if _DATA.is_dir():
    os.environ.setdefault("FIRES_DATA_DIR", str(_DATA))


def pytest_configure(config):
    """Without the slow tests, laws are tried on fewer examples: vectors stand beside most."""
    is_fast = config.option.markexpr == "not slow"
    settings.register_profile(
        "fires",
        deadline=None,
        derandomize=True,
        max_examples=30 if is_fast else 60,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("fires")


@pytest.hookimpl(tryfirst=True)  # before those marked slow are left out
def pytest_collection_modifyitems(items):
    """Of tests with many cases, some run each time."""
    mark_others_slow(items, kept_cases())


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Modules and cases stay to the end: the garbage collector need not look through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # libraries look for leaks at the very end


class Spy:
    """A predictor that keeps what it is shown, and always says the same."""

    def __init__(self):
        self.trained, self.tested = [], []

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        self.trained.append((X.copy(), y, sample_weight))
        self.classes_ = np.unique(y) if classes is None else np.asarray(classes)
        return self

    def predict(self, X):
        self.tested.append(X.copy())
        return np.full(X.shape[0], self.classes_[0])


@pytest.fixture
def spy():
    return Spy()


@pytest.fixture
def spies():
    return Spy


@pytest.fixture
def in_threads(monkeypatch):
    """What ``fires bench`` runs in other processes runs in threads of this one: nothing to load."""
    from fires.bench import worker

    def start(self, pipe, work):
        thread = threading.Thread(target=worker.answer_all, args=(pipe, work), daemon=True)
        thread.start()
        return thread

    monkeypatch.setattr(worker.Worker, "start", start)
