"""Optional libraries: without them everything else works, and what needs them says so."""

import math
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from fires import FIRES
from fires.core.errors import MissingExtra
from fires.core.optional import require
from fires.models import NeuralNet

WITHOUT_TORCH = """
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != "torch":
            return self.finder.find_spec(name, path, target)
        looked_for.append(name)
looked_for = []
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""
LEARN = """
import numpy as np
from fires import FIRES
from fires.models import Linear, NeuralNet, SoftTree, TorchModel
X = np.arange(12.0).reshape(6, 2) % 5
selector = FIRES(1, model=Linear("logistic")).partial_fit(X, [0, 1, 0, 1, 0, 1])
"""


def run(code, **where):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, **where
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_is_there_is_given():
    assert require("math", "anybody") is math
    assert require("os.path", "anybody") is os.path


def test_what_is_missing_is_named_with_what_to_install():
    with pytest.raises(MissingExtra, match=r"^Page needs no_such: pip install '\.\[serve\]'$"):
        require("no_such", "Page", extra="serve")
    with pytest.raises(MissingExtra, match=r"needs no_such: .*\.\[no_such\]") as caught:
        require("no_such.part", "Page")
    assert caught.value.name == "no_such"
    assert isinstance(caught.value, ImportError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_folder_of_that_name_is_no_library(tmp_path, monkeypatch):
    """A project may well keep its notes in a folder called redis."""
    (tmp_path / "no_such_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtra):
        require("no_such_library", "Somebody")


def test_a_library_that_is_broken_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("raise OSError('half of it is missing')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(OSError, match="half of it"):
        require("broken_library", "Somebody")


@pytest.fixture(scope="module")
def said_without_torch(tmp_path_factory):
    """Each line that one process without torch has to say."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("state")
    path, of_a_net = str(folder / "state"), str(folder / "net")
    X = np.arange(12.0).reshape(6, 2) % 5
    FIRES(1, model=NeuralNet((2,), n_draws=1)).partial_fit(X, [0, 1] * 3).save(of_a_net)
    ask = f"""
import fires
from fires.core.errors import MissingExtra
print(looked_for)
for make in (NeuralNet, NeuralNet.as_published, SoftTree, lambda: TorchModel(None)):
    try: make()
    except MissingExtra as error: print(error)
selector.save({path!r})
print((fires.load({path!r}).weights_ == selector.weights_).all())
try: fires.load({of_a_net!r})
except ImportError as error: print(error)
"""
    return run(WITHOUT_TORCH + LEARN + ask).splitlines()


def test_without_torch_its_models_say_what_to_install(said_without_torch):
    assert said_without_torch[1:5] == [
        f"{who} needs torch: pip install '.[torch]'"
        for who in ("NeuralNet", "NeuralNet", "SoftTree", "TorchModel")
    ]


def test_without_torch_the_linear_models_learn_and_are_saved(said_without_torch):
    assert said_without_torch[5] == "True"


def test_torch_is_not_even_looked_for_where_it_is_not_used(said_without_torch):
    assert said_without_torch[0] == "[]"


def test_a_state_that_needs_torch_says_so(said_without_torch):
    assert said_without_torch[6:] == ["NeuralNet needs torch: pip install '.[torch]'"]
