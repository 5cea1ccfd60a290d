"""What is loaded when, and that the public names are there."""

import importlib
import os
import pkgutil
import subprocess
import sys

import pytest

import fires
from fires.core import moved

HEAVY = ["numpy", "scipy", "sklearn", "numba", "polars", "pandas", "torch", "matplotlib", "rich"]


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | environment,
    ).stdout


def test_importing_fires_loads_none_of_the_libraries_behind_it():
    code = f"import fires, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert run(code).strip() == "[]"


def test_the_page_of_a_run_needs_no_model(tmp_path):
    """``fires report`` and ``fires serve`` start in a third of the time, with half the memory."""
    heavy = ["sklearn", "scipy", "numba", "pandas"]
    code = (
        "import sys, fires.cli.report, fires.report.live, fires.report.page, fires.report.summary\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert run(code).strip() == "[]"


@pytest.mark.slow  # all modules together are below
@pytest.mark.parametrize("first", ["fires.evaluation.loop", "fires.run.run", "fires"])
def test_no_module_hides_a_name_of_its_package(first):
    code = f"import {first}; from fires.evaluation import prequential; print(callable(prequential))"
    assert run(code).strip() == "True"


def test_learning_and_saving_load_neither_torch_nor_polars_nor_what_isinstance_needs(tmp_path):
    """scikit-learn's feature selection takes 50 MB, and as long as all of a small run."""
    code = (
        "import sys; from fires.pipeline import OnlinePipeline\n"
        "from fires.selectors.fires import FIRES\n"
        "from fires.rivals.cancelout import CancelOut\n"
        "CancelOut()\n"
        "model = OnlinePipeline(FIRES(1)).partial_fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])\n"
        f"model.save({str(tmp_path / 'state')!r})\n"
        "unused = ('sklearn.feature_selection', 'polars', 'torch')\n"
        "print([n for n in unused if n in sys.modules])\n"
    )
    assert run(code).strip() == "[]"


@pytest.mark.parametrize("name", fires.__all__)
def test_every_public_name_is_there(name):
    assert getattr(fires, name) is not None
    assert name in dir(fires)


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'FIRE'"):
        fires.FIRE  # noqa: B018


# As on a machine without any writable folder: numba refuses to be told to cache there.
NO_CACHE = "import numba.core.caching as c; c.CacheImpl._locator_classes = []\n"


def test_loops_are_compiled_where_no_cache_can_be_written():
    code = NO_CACHE + (
        "from fires import FIRES; from fires.kernels.compiling import compiled\n"
        "@compiled\n"
        "def twice(x): return 2 * x\n"
        "FIRES(1)\n"
        "print(twice(21), len(twice.signatures))\n"
    )
    assert run(code).strip() == "42 1"


@pytest.mark.slow  # it compiles everything
def test_a_selector_learns_where_no_cache_can_be_written():
    code = NO_CACHE + (
        "import numpy as np; from fires import FIRES\n"
        "X = np.arange(12.0).reshape(6, 2)\n"
        "print(FIRES(1).partial_fit(X, [0, 1, 0, 1, 0, 1]).get_support().sum())\n"
    )
    assert run(code).strip() == "1"


@pytest.mark.slow
@pytest.mark.xfail(reason="FIRES has a setting named score, which the check takes for a method")
def test_scikit_learn_s_array_api_check_passes_where_it_is_switched_on():
    """It is skipped elsewhere, as it must be switched on before SciPy is imported."""
    code = (
        "from fires import FIRES\n"
        "from sklearn.utils.estimator_checks import check_estimator\n"
        "done = check_estimator(FIRES(2), on_skip=None)\n"
        "print([c['status'] for c in done if 'array_api' in c['check_name']])\n"
    )
    assert run(code, SCIPY_ARRAY_API="1").strip() == "['passed']"


def test_no_module_hides_a_public_name():
    """A module named like a function would take its place once somebody imports it."""
    for module in pkgutil.walk_packages(fires.__path__, "fires."):
        if "__main__" not in module.name:
            importlib.import_module(module.name)
    assert callable(fires.load)
    assert callable(fires.stability)
    assert callable(fires.evaluation.prequential)


def test_scikit_learn_knows_a_selector_for_what_it_is():
    from sklearn.feature_selection import SelectorMixin

    assert isinstance(fires.FIRES(), SelectorMixin)


def test_a_documented_path_that_has_moved_is_still_there(monkeypatch):
    from fires.core import version

    monkeypatch.setitem(moved.MOVED, "fires.an_old_path", "fires.core.version")
    assert importlib.import_module("fires.an_old_path") is version
    assert version.__spec__.name == version.__name__ == "fires.core.version"
    del sys.modules["fires.an_old_path"]


@pytest.mark.parametrize("old", sorted(moved.MOVED))
def test_every_moved_path_leads_somewhere(old):
    assert importlib.import_module(old) is importlib.import_module(moved.MOVED[old])
