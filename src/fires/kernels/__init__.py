"""The compiled loops."""

from fires.kernels.compiling import read_only
from fires.kernels.linear import accumulate, oriented, project, touched_columns
from fires.kernels.select import scan, top_k

__all__ = ["accumulate", "oriented", "project", "read_only", "scan", "top_k", "touched_columns"]
