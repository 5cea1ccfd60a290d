"""A quick start: what a command does not need is not loaded."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

_NOT_NEEDED = ("scipy.stats", "pandas")


def import_scikit_learn() -> None:
    """Import the base of scikit-learn without the large modules that it names and seldom uses.

    scikit-learn 1.9 imports scipy.stats for one function, which none of ours calls, and pandas
    to see whether it is there: together that takes longer than all the rest of ``fires select`` on
    a small file. Empty modules stand in for them meanwhile; afterwards both can be imported as
    usual, and scikit-learn finds the real scipy.stats when it needs it. A version of scikit-learn
    that takes more from them refuses the empty ones, and is imported later, in the usual way.
    """
    stand_ins = {name: ModuleType(name) for name in _NOT_NEEDED if name not in sys.modules}
    sys.modules.update(stand_ins)
    try:
        importlib.import_module("sklearn.base")
    except (ImportError, AttributeError):
        pass
    finally:
        for name in stand_ins:
            del sys.modules[name]
