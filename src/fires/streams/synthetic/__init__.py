"""Streams whose truth is known: which features matter, and from which row on.

All of them are seeded: rows depend on the settings and the seed and on nothing else, not on the
batch size, and every iteration gives them again. They are drawn in blocks, each from a seed of its
own, so that memory does not grow with the stream.
"""

from fires.streams.synthetic.known_truth import DriftingFeatures, KnownTruth
from fires.streams.synthetic.sign_product import SignProduct
from fires.streams.synthetic.sparse_wide import SparseWide

__all__ = ["DriftingFeatures", "KnownTruth", "SignProduct", "SparseWide"]
