"""What is said while kernels are compiled, and which edits make them compile again."""

import gc
import logging
from types import FunctionType, SimpleNamespace

import numba
import numpy as np
import pandas as pd
import pytest
from numba.core.dispatcher import Dispatcher

from fires import FIRES
from fires.kernels import compiling
from fires.kernels.compiling import compiled, compiled_with, inner, read_only

LINE = "compiling kernels, once per machine"
KEPT = []  # numba keeps weak references to all loops; River's checks stumble over dead ones


@compiled
def _twice(x):
    return 2.0 * x


@inner
def _thrice(x):
    return 3.0 * x


def _both(x):
    return other(x) + _thrice(x)  # noqa: F821


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(compiling, "time", SimpleNamespace(monotonic=lambda: now.seconds))
    return now


def event_of(module):
    return SimpleNamespace(
        data={"dispatcher": SimpleNamespace(py_func=SimpleNamespace(__module__=module))}
    )


def compiles(listener, clock, seconds, module="fires.kernels.moments"):
    listener.on_start(event_of(module))
    clock.seconds += seconds
    listener.on_start(event_of("numba.np.arrayobj"))
    listener.on_end(event_of("numba.np.arrayobj"))
    listener.on_end(event_of(module))


def test_one_line_is_said_once_compiling_has_taken_a_second(clock, caplog):
    caplog.set_level(logging.INFO, "fires")
    listener = compiling._Compiling()
    compiles(listener, clock, 0.6)
    clock.seconds += 100.0  # between two kernels nothing is compiled
    assert not caplog.messages
    compiles(listener, clock, 0.6)
    assert caplog.messages == [LINE]
    compiles(listener, clock, 60.0)
    assert caplog.messages == [LINE]


def test_nothing_is_said_of_loops_that_are_not_ours(clock, caplog):
    caplog.set_level(logging.INFO, "fires")
    compiles(compiling._Compiling(), clock, 60.0, module="fireside.loops")
    assert not caplog.messages


def test_nothing_is_said_of_a_loop_from_the_cache(tmp_path, monkeypatch):
    """Numba tells a listener of what it compiles, and of nothing that it loads."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    seen, listener = [], compiling._Compiling()
    monkeypatch.setattr(listener, "notify", lambda event: seen.append(event.is_start))
    numba.core.event.register("numba:compile", listener)
    try:
        for _ in range(2):
            KEPT.append(compiled(FunctionType(_twice.py_func.__code__, globals(), "_twice")))
            assert KEPT[-1](2.0) == 4.0
    finally:
        numba.core.event.unregister("numba:compile", listener)
    assert seen == [True, False]


@pytest.mark.parametrize("enabled", [True, False])
def test_the_garbage_collector_is_as_it_was(clock, enabled):
    listener = compiling._Compiling()
    was = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        listener.on_start(event_of("fires.kernels.moments"))
        assert not gc.isenabled()
        listener.on_end(event_of("fires.kernels.moments"))
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()


@pytest.fixture
def contents(monkeypatch):
    """What the files hold, by their names; kernels look no further."""
    monkeypatch.setattr(compiling, "_content", lambda file: read.append(file) or file.encode())
    read = []
    return read


def test_a_kernel_is_compiled_again_only_after_an_edit_of_a_file_it_uses(contents):
    from fires.kernels import assimilate, forward
    from fires.models.families import gaussian, probit

    for family in (probit, gaussian):
        loop = family.FAMILY.assimilate
        contents.clear()
        compiling._digest(loop.py_func)
        assert contents == sorted([assimilate.__file__, family.__file__])
    contents.clear()
    compiling._digest(forward._forward.py_func)
    assert contents == [forward.__file__]


def test_a_kernel_that_calls_those_of_another_file_is_named_after_both():
    from fires.kernels import linear, second_order, sequential

    files = [loop.py_func for loop in (second_order._move, sequential.find_best, linear.row)]
    digest = compiling._digest(*files)
    assert second_order.second_order.py_func.__qualname__ == f"second_order_{digest}"


def test_an_open_name_is_filled_in():
    loop = compiled_with(_both, "both", other=_twice)
    KEPT.append(loop)
    assert loop(2.0) == 10.0
    assert loop.py_func.__qualname__.startswith("both_")


def test_without_a_folder_for_the_cache_loops_are_compiled_in_every_process(monkeypatch):
    def njit(function, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    real = numba.njit
    monkeypatch.setattr(numba, "njit", njit)
    KEPT.extend(compile_it(lambda x: x + 1.0) for compile_it in (compiled, inner))
    assert [loop(1.0) for loop in KEPT[-2:]] == [2.0, 2.0]


def test_views_for_kernels_are_read_only_and_what_they_show_is_not():
    array = np.zeros(3)
    (view,) = read_only(array)
    assert view.base is array
    assert not view.flags.writeable
    assert array.flags.writeable


def n_forms():
    """In how many forms each loop has been compiled or loaded."""
    loops = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {id(loop): len(loop.signatures) for loop in loops}


def learn_twice(selector, X, y, later=None, **options):
    for rows in (X, X if later is None else later):
        selector.partial_fit(rows, y, **options)


LATER = ["a", "b", "c"], ["a", "b", "c", "new"]  # a column comes with the second batch
GRADIENT = {"update": "gradient", "score": "omega"}


@pytest.mark.parametrize("settings", [{}, GRADIENT], ids=["bayes", "gradient"])
def test_open_columns_need_no_forms_of_their_own(settings):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 4)), np.arange(30) % 3
    first, wider = (pd.DataFrame(X[:, : len(names)], columns=names) for names in LATER)
    learn_twice(FIRES(1, columns="open", **settings), wider, y)
    before = n_forms()
    learn_twice(FIRES(1, columns="open", **settings), first, y, wider)
    assert n_forms() == before


@pytest.mark.parametrize("settings", [{"model": "poisson"}, GRADIENT], ids=["counts", "gradient"])
def test_read_only_targets_and_weights_need_no_forms_of_their_own(settings):
    rng = np.random.default_rng(0)
    X, y, weight = rng.normal(size=(30, 4)), np.arange(30.0) % 2, np.ones(30)
    learn_twice(FIRES(1, **settings), X, y, sample_weight=weight)
    before = n_forms()
    y.flags.writeable = weight.flags.writeable = False
    learn_twice(FIRES(1, **settings), X, y, sample_weight=weight)
    assert n_forms() == before
