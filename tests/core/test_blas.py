"""Systems of leading features are solved on one thread."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from fires import FIRES
from fires.core.blas import one_thread


def n_threads():
    return max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        if n_threads() < 2:
            pytest.skip("BLAS has one thread here")
        yield


def test_only_larger_systems_are_limited():
    with one_thread(99):
        assert n_threads() == 2
    with one_thread(100):
        assert n_threads() == 1
    assert n_threads() == 2


def test_the_last_one_out_brings_the_threads_back():
    with one_thread(200):
        with one_thread(200):
            assert n_threads() == 1
        assert n_threads() == 1
    assert n_threads() == 2


def test_another_thread_of_python_waits_and_leaves_what_it_found():
    inside, seen = threading.Event(), []

    def other():
        inside.wait()
        with one_thread(200):
            seen.append(threading.current_thread())

    waiting = threading.Thread(target=other)
    waiting.start()
    with one_thread(200):
        inside.set()
        waiting.join(0.2)
        assert seen == []
        assert n_threads() == 1
    waiting.join()
    assert seen == [waiting]
    assert n_threads() == 2


@pytest.mark.parametrize("ask", ["importances_", "get_support", "predicted"])
def test_a_wide_belief_is_solved_on_one_thread(ask, monkeypatch):
    rng, used = np.random.default_rng(0), []
    X = rng.normal(size=(300, 120))
    y = X[:, 0] + rng.normal(size=300) > 0
    for of in (np.linalg.solve, np.linalg.inv, np.linalg.cholesky):

        def noted(*arrays, of=of):
            used.append(n_threads())
            return of(*arrays)

        monkeypatch.setattr(np.linalg, of.__name__, noted)
    selector = FIRES(5)
    for start in range(0, 300, 50):
        selector.partial_fit(X[start : start + 50], y[start : start + 50])
        if ask == "predicted":
            selector._learner_.predicted(X[:5], surely=False)
            selector._learner_.predicted(X[:5])
        else:
            value = getattr(selector, ask)
            _ = value() if callable(value) else value
    assert used
    assert set(used) == {1}
    assert n_threads() == 2


@pytest.mark.parametrize(("given", "used"), [(None, "1"), ("2", "2")])
def test_the_command_uses_one_thread_unless_told_otherwise(given, used):
    environment = {key: value for key, value in os.environ.items() if "OPENBLAS" not in key}
    if given is not None:
        environment["OPENBLAS_NUM_THREADS"] = given
    code = (
        "import os, sys; sys.argv = ['fires', '--version']\n"
        "from fires.cli import main\n"
        "assert 'numpy' not in sys.modules\n"
        "try: main()\n"
        "except SystemExit: print(os.environ['OPENBLAS_NUM_THREADS'])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert ended.stdout.split()[-1] == used
