"""Where batches come from: arrays, files, synthetic streams with known truth."""

from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, InputError, Position, Schema, Stream
from fires.streams.files import from_file
from fires.streams.generated import RandomRBF, RandomTree
from fires.streams.synthetic import DriftingFeatures, KnownTruth, SignProduct, SparseWide

__all__ = [
    "Batch",
    "DriftingFeatures",
    "InputError",
    "KnownTruth",
    "Position",
    "RandomRBF",
    "RandomTree",
    "Schema",
    "SignProduct",
    "SparseWide",
    "Stream",
    "from_arrays",
    "from_file",
]
