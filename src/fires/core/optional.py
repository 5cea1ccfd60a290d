"""Optional libraries: imported where they are used, with an error that says what to install."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from types import ModuleType

from fires.core.errors import MissingExtra


def require(module: str, who: str, extra: str | None = None) -> ModuleType:
    """Import an optional library, or raise an error that says what to install.

    Examples
    --------
    >>> require("no_such_library", "NeuralNet", extra="torch")
    Traceback (most recent call last):
    ...
    fires.core.errors.MissingExtra: NeuralNet needs no_such_library: pip install '.[torch]'
    """
    library = module.partition(".")[0]
    spec = find_spec(library)
    if spec is None or spec.origin is None:  # a folder of that name is not a library
        raise MissingExtra(who, library, extra or library)
    return importlib.import_module(module)
