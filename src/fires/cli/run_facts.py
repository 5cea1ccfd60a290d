"""What a command notes down about its run, for whoever reads the result later."""

from __future__ import annotations

import platform
import time
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import click

from fires.core.version import __version__

if TYPE_CHECKING:
    from fires.streams.table_stream import TableStream

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "polars")
_NO_SETTINGS = {"out", "overwrite", "as_json", "quiet", "log_level", "live", None}
_NO_SETTINGS |= {"resume", "accept_loss"}


def settings_facts(**known: Any) -> dict[str, Any]:
    """With what settings and versions a command is run, and when it began."""
    context = click.get_current_context()
    values = context.params | known
    return {
        "fires": __version__,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"python": platform.python_version()}
        | {library: version(library) for library in _LIBRARIES},
        "settings": {
            str(option.name): values[str(option.name)]
            for option in context.command.params
            if option.expose_value and option.name not in _NO_SETTINGS
        },
    }


def stream_facts(stream: TableStream, seconds: float) -> dict[str, Any]:
    """How long a command took, and which rows and columns it could not use."""
    return {
        "seconds": round(seconds, 3),
        "rejected_rows": stream.rejected.count,
        "doubts": [vars(doubt) for doubt in getattr(stream, "doubts", ())],
        "rejected_examples": [list(example) for example in stream.rejected.examples],
    }


def run_facts(stream: TableStream, started: float, **known: Any) -> dict[str, Any]:
    """All of it, for a command that writes it down at its end."""
    seconds = time.perf_counter() - started
    began = datetime.now(UTC) - timedelta(seconds=seconds)
    facts = settings_facts(**known) | {"started": began.isoformat(timespec="seconds")}
    return facts | stream_facts(stream, seconds)
