"""The version, and a digest of the source code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__version__ = "0.1.0"
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba")


def first_facts(settings: dict[str, Any], *libraries: str) -> dict[str, Any]:
    """With what settings and versions a run is begun, and when."""
    import platform
    from datetime import UTC, datetime
    from importlib.metadata import version  # which takes a while to load

    versions = {library: version(library) for library in (*_LIBRARIES, *libraries)}
    return {
        "fires": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()} | versions,
        "settings": settings,
    }


def code() -> str:
    """A short digest of the package's source files as they are now.

    It changes with every edit, unlike the version. Reading the files takes some milliseconds.

    Examples
    --------
    >>> len(code())
    12
    """
    return _digest(Path(__file__).parents[1])


def _digest(folder: Path) -> str:
    import hashlib

    found = hashlib.sha256()
    # The catalogue of data sets and the like are code as well: what a run does follows from them.
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.toml")]):
        content = path.read_bytes()
        # The length is part of the digest, so that file boundaries cannot be confused.
        found.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()[:12]
