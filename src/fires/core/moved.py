"""Imports by name: public names, loaded when first used, and documented paths that have moved."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Old module: the module that has its names now.
MOVED: dict[str, str] = {
    "fires.models.balance": "fires.models.target",
    "fires.evaluation.recording": "fires.run.records",
    "fires.evaluation.run_names": "fires.core.named",
}


def imported(module: str, name: str) -> Any:
    """What a module calls by this name; the module is loaded here."""
    return getattr(importlib.import_module(module), name)


def lazy(
    package: str, modules: Mapping[str, str], parts: Collection[str] = ()
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package whose names are loaded from these modules when used.

    Its parts are modules of its own.
    """

    def load(name: str) -> Any:
        if name in parts:
            return importlib.import_module(f"{package}.{name}")
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(modules[name], package), name)

    return load


class _Moved(MetaPathFinder, Loader):
    """Imports the new module under the old name; a table of strings, so no import edge."""

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        """The new one comes in its place."""
        sys.modules[module.__name__] = importlib.import_module(MOVED[module.__name__])


# From here on, imports look into the table after they have found nothing else.
sys.meta_path.append(_Moved())
