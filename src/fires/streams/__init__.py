"""Where batches come from: arrays, files, queries, brokers, synthetic streams with known truth."""

from typing import TYPE_CHECKING

from fires.core.moved import lazy
from fires.core.named import NamedRows
from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, InputError, Position, Schema, Stream
from fires.streams.synthetic import (
    DriftingFeatures,
    KnownTruth,
    RandomRBF,
    RandomTree,
    SignProduct,
    SparseWide,
)

if TYPE_CHECKING:
    from fires.streams.files import from_file
    from fires.streams.kafka import from_kafka
    from fires.streams.redis import from_redis
    from fires.streams.sql import from_sql
    from fires.streams.words import Words

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
    "Words",
    "from_arrays",
    "from_file",
    "from_kafka",
    "from_redis",
    "from_sql",
]

# Sources load polars, and words a kernel.
_SOURCES = {"from_file": ".files", "from_kafka": ".kafka", "from_redis": ".redis"}
__getattr__ = lazy(__name__, _SOURCES | {"from_sql": ".sql", "Words": ".words"})
