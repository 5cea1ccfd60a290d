"""A batch on a model's device, and the products of its rows with the input weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from torch import Tensor, dtype

    Columns = slice | Tensor
    InputSlopes = tuple[Columns, Tensor, Tensor]

# Numbers handled at once; on a processor they should fit into its cache.
AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 26}
"""By device; its keys are the devices there are."""


@dataclass(frozen=True)
class DeviceBatch:
    """A batch as tensors."""

    rows: DeviceRows
    y: Tensor
    weight: Tensor
    level: Tensor | None = None


class DeviceRows(ABC):
    """The rows of a batch as tensors."""

    matrix: Tensor | None
    columns: Columns
    n_columns: int

    @abstractmethod
    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """``X @ (mu + sigma * noise)`` for every draw."""

    @abstractmethod
    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[InputSlopes]:
        """The slopes in mu and sigma of the features shown, part by part."""


class DenseRows(DeviceRows):
    """Dense rows; features are handled in parts that fit into the cache."""

    matrix: Tensor

    def __init__(self, X: Tensor) -> None:
        self.matrix, self.columns, self.n_columns = X, slice(None), X.shape[1]

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """See :class:`DeviceRows`."""
        dtype = self.matrix.dtype
        Z: Tensor = self.matrix.new_zeros(len(self.matrix), noise[0].numel())
        for part in _parts(noise):
            r = noise[part]
            theta = mu[part].to(dtype)[:, None, :].addcmul(sigma[part].to(dtype)[:, None, :], r)
            Z.addmm_(self.matrix[:, part], theta.view(len(r), -1))
        return Z.view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[InputSlopes]:
        """See :class:`DeviceRows`."""
        flat = slope.reshape(len(slope), -1)
        for part in _parts(noise):
            G = (self.matrix[:, part].T @ flat).view(noise[part].shape)
            yield part, G.sum(1), G.mul_(noise[part]).sum(1)


def _parts(noise: Tensor) -> Iterator[slice]:
    size = max(1, AT_ONCE[noise.device.type] // max(noise[0].numel(), 1))
    for first in range(0, len(noise), size):
        yield slice(first, first + size)


class SparseRows(DeviceRows):
    """Sparse rows; the cost depends on the entries, not on the width of X."""

    columns: Tensor
    matrix = None

    def __init__(self, X: sp.csr_array, dtype: dtype, device: str) -> None:
        columns, local = np.unique(X.indices, return_inverse=True)
        small = sp.csr_array((X.data, local, X.indptr), shape=(X.shape[0], len(columns)))
        self.columns, self.n_columns = _integers(columns, device), len(columns)
        self._by_row, self._by_column = (
            _entries(part, dtype, device) for part in (small, sp.csr_array(small.T))
        )

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """See :class:`DeviceRows`."""
        theta = mu.to(noise.dtype)[:, None, :].addcmul(sigma.to(noise.dtype)[:, None, :], noise)
        return _sum(theta.flatten(1), self._by_row).view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[InputSlopes]:
        """See :class:`DeviceRows`."""
        G = _sum(slope.flatten(1).contiguous(), self._by_column).view(noise.shape)
        yield self.columns, G.sum(1), G.mul_(noise).sum(1)


def _entries(X: sp.csr_array, dtype: dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    values = torch.tensor(X.data, dtype=dtype, device=device)
    return _integers(X.indices, device), _integers(X.indptr, device), values


def _integers(values: npt.NDArray[np.generic], device: str) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.int64, device=device)


def _sum(table: Tensor, entries: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """A sparse matrix times a dense one."""
    import torch

    indices, offsets, values = entries
    if len(indices) == 0:
        return table.new_zeros(len(offsets) - 1, table.shape[1])
    return torch.nn.functional.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
    )
