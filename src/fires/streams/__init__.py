"""Where batches come from: arrays, files, queries, brokers, synthetic streams with known truth."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fires.core.named import NamedRows
from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, InputError, Position, Schema, Stream
from fires.streams.files import from_file
from fires.streams.generated import RandomRBF, RandomTree
from fires.streams.synthetic import DriftingFeatures, KnownTruth, SignProduct, SparseWide

if TYPE_CHECKING:
    from fires.streams.kafka import from_kafka
    from fires.streams.redis import from_redis
    from fires.streams.sql import from_sql

__all__ = [
    "Batch",
    "DriftingFeatures",
    "InputError",
    "KnownTruth",
    "NamedRows",
    "Position",
    "RandomRBF",
    "RandomTree",
    "Schema",
    "SignProduct",
    "SparseWide",
    "Stream",
    "from_arrays",
    "from_file",
    "from_kafka",
    "from_redis",
    "from_sql",
]


def __getattr__(name: str) -> Any:
    """Sources that load polars: only when they are asked for."""
    if name in ("from_kafka", "from_redis", "from_sql"):
        module = import_module(f"fires.streams.{name.removeprefix('from_')}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
