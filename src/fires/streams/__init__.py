"""Where batches come from: arrays, files, synthetic streams with known truth."""

from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, InputError, Position, Schema, Stream
from fires.streams.files import from_file
from fires.streams.synthetic import DriftingFeatures

__all__ = [
    "Batch",
    "DriftingFeatures",
    "InputError",
    "Position",
    "Schema",
    "Stream",
    "from_arrays",
    "from_file",
]
