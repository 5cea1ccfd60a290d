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


def run_facts(stream: TableStream, started: float, **known: Any) -> dict[str, Any]:
    """When a command was run on a file, with what settings, and which rows it could not use.

    Parameters
    ----------
    stream : TableStream
        The rows of the file; it has come to its end.
    started : float
        What ``time.perf_counter`` said at the beginning.
    **known
        Settings that are known better now than when they were given.

    Returns
    -------
    dict
        JSON values. Settings are those given and the defaults of others, but for where the result
        goes.
    """
    seconds = time.perf_counter() - started
    began = datetime.now(UTC) - timedelta(seconds=seconds)
    context = click.get_current_context()
    settings = [option.name for option in context.command.params if option.expose_value]
    values = context.params | known
    return {
        "fires": __version__,
        "started": began.isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "rejected_rows": stream.rejected.count,
        "doubts": [vars(doubt) for doubt in getattr(stream, "doubts", ())],
        "rejected_examples": [list(example) for example in stream.rejected.examples],
        "versions": {"python": platform.python_version()}
        | {library: version(library) for library in _LIBRARIES},
        "settings": {
            name: values[name]
            for name in settings
            if name not in ("out", "overwrite", "as_json", "quiet", None)
        },
    }
