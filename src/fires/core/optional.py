"""Optional libraries: imported where they are used, by those who can say what for."""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import Any

from fires.core.errors import MissingExtra


def require(module: str, who: str, extra: str | None = None) -> Any:
    """Import an optional library; without it, say what needs it and what to install.

    Examples
    --------
    >>> require("no_such_library", "NeuralNet", extra="torch")
    Traceback (most recent call last):
    ...
    fires.core.errors.MissingExtra: NeuralNet needs no_such_library: pip install 'fires[torch]'
    """
    spec = find_spec(module.partition(".")[0])
    if spec is None or spec.origin is None:  # a mere folder of that name is no library
        raise MissingExtra(who, module, extra or module)
    return importlib.import_module(module)
