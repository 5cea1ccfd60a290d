"""A quick start: most of the time that a command takes on a small file goes into imports."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_NOT_NEEDED = ("scipy.stats", "pandas")


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import within it what a command needs, and no more.

    scikit-learn imports scipy.stats for one function, which none of ours calls, and pandas to see
    whether it is there: a third of all the time. So the base of scikit-learn comes first, with
    empty modules in the place of both. Afterwards they can be imported as usual, and scikit-learn
    finds the real scipy.stats when it needs it. A version of scikit-learn that takes more from
    them refuses the empty ones, and is imported in the usual way.

    Imports make much that lasts and little that does not: to look through it for garbage, now and
    again at the exit, is a quarter of the time. Where scikit-learn is loaded already there is
    nothing to gain, and nothing is changed.
    """
    if "sklearn" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        _import_scikit_learn()
        yield
    finally:
        gc.freeze()
        gc.enable()


def _import_scikit_learn() -> None:
    stand_ins = {name: ModuleType(name) for name in _NOT_NEEDED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("sklearn.base")
    except (ImportError, AttributeError):
        pass
    finally:
        for name in stand_ins:
            del sys.modules[name]
