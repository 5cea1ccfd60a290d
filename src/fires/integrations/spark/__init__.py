"""FIRES on Apache Spark: a stream, or a frame, that is too much for one machine.

    from fires.integrations.spark import select_frame, select_stream
    query = select_stream(df, FIRES(20), target="label", run="run/")    # a streaming DataFrame
    result = select_frame(df, FIRES(20), target="label")                # a bounded one

The belief is on the driver. It goes out to the partitions, and their sums come back:
:mod:`fires.core.sharding`. It needs the extra ``spark`` and Java 17 or later. Workers run the
Python that imports this module, unless ``PYSPARK_PYTHON`` says otherwise: import it before the
session is made.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fires.integrations.spark.frame import select_frame
    from fires.integrations.spark.keyed import select_by_key, select_stream_by_key
    from fires.integrations.spark.session import spark_session
    from fires.integrations.spark.stream import select_stream

__all__ = [
    "select_by_key",
    "select_frame",
    "select_stream",
    "select_stream_by_key",
    "spark_session",
]

_WHERE = {
    "select_by_key": "keyed",
    "select_frame": "frame",
    "select_stream": "stream",
    "select_stream_by_key": "keyed",
    "spark_session": "session",
}

# Otherwise workers run whatever is called python3, without us.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
