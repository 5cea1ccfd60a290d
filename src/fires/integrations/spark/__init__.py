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
import re
import shutil
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

from fires.core.errors import InputError
from fires.integrations.spark.keyed import select_by_key, select_stream_by_key
from fires.integrations.spark.rows import library
from fires.integrations.spark.select import select_frame, select_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "select_by_key",
    "select_frame",
    "select_stream",
    "select_stream_by_key",
    "spark_session",
]

# Otherwise workers run whatever is called python3, without us.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)


_LEAST_JAVA = 17
_HINT = f"install Java {_LEAST_JAVA} or later, or set JAVA_HOME"


def spark_session(master: str = "local[*]", **settings: str) -> SparkSession:
    """The session of Spark, which is made if there is none.

    Parameters
    ----------
    master : str
        Where to run: ``local[2]`` on two cores here, or the address of a cluster. In
        ``local[2,4]`` a task may fail three times before the query does.
    **settings
        Of Spark, with ``_`` for each dot: ``spark_driver_memory="4g"``.

    Returns
    -------
    pyspark.sql.SparkSession

    Raises
    ------
    InputError
        If there is no Java that Spark runs on.
    MissingExtra
        If pyspark is not installed.
    """
    spark, _ = library("pyspark").sql.SparkSession, library("pyarrow")
    running: SparkSession | None = spark.getActiveSession()
    if running is not None:
        return running
    check_java()
    builder = spark.builder.master(master).appName("fires")
    if hasattr(socket, "AF_UNIX"):
        # A round is a short job. Over TCP it would wait 40 ms for an answer that is held back.
        builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    return builder.getOrCreate()


def check_java() -> None:
    """Raise an error of one line unless there is a Java that Spark runs on."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=os.path.join(home, "bin") if home else None)
    if java is None:
        where = f" in JAVA_HOME ({home})" if home else ""
        raise InputError(f"Spark needs Java, and there is none{where}", hint=_HINT)
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    if found is None or int(found[1]) < _LEAST_JAVA:
        which = f"{java} is {found[1]}" if found else f"{java} does not report its version"
        raise InputError(f"Spark needs Java {_LEAST_JAVA} or later, and {which}", hint=_HINT)
