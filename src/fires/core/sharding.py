"""A batch in several shards: learning from it in rounds of sums.

A batch may lie in several *shards*: the partitions of an engine, or slices for several processes.
A step of learning is then a few *rounds*. In each, the driver sends a task to all shards. A task is
a pure function of one shard that can be pickled, and what it returns for all shards adds up. Only
sums travel, about as many numbers as there are features, never rows.

A learner does not know where its shards are: one function, ``evaluate``, is all that an engine has
to give. It calls a task for every shard, and returns the sums:

>>> import numpy as np
>>> from fires.core.batch import CheckedBatch
>>> def count(shard):
...     return {"rows": np.array(float(shard.n_rows)), "max value": shard.X.max(axis=0)}
>>> shards = Shards([CheckedBatch(np.ones((2, 1))), CheckedBatch(np.full((3, 1), 7.0))])
>>> sums = shards.evaluate(count)
>>> print(sums["rows"], sums["max value"])
5.0 [7.]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.classes import Labels, merge_classes
from fires.core.types import Floats, Ints, Places

_BLOCK = 1 << 19  # entries of dense rows that are worked on at a time
# What a task returns, by name: arrays, and CSR where a shard has touched a few columns only.
# :func:`add_up` says how the parts of several shards combine.
Sums = dict[str, Any]


# What is computed for every shard: pure, and it can be pickled. It holds what the shards need: the
# belief, the scale, the known labels. An engine sends it out once for all shards of a round.
Task = Callable[[CheckedBatch], Sums]
# Calls a task for every shard and adds up, in shard order: :func:`add_up`.
Evaluate = Callable[[Task], Sums]


def weight_of(shard: CheckedBatch) -> Floats:
    """How often each row of a shard counts."""
    return np.ones(shard.n_rows) if shard.weight is None else shard.weight


def known_of(shard: CheckedBatch) -> tuple[Floats, Labels]:
    """How often each row of a shard counts, and its target."""
    assert shard.y is not None
    return weight_of(shard), shard.y


def counting(shard: CheckedBatch) -> CheckedBatch:
    """The rows of a shard that count: one of weight 0 is absent."""
    if shard.weight is None or shard.weight.all():
        return shard
    return shard.part(np.flatnonzero(shard.weight))


def blocks_of(shard: CheckedBatch) -> list[CheckedBatch]:
    """A shard in parts: dense rows a few at a time, so that they stay in the cache."""
    n = shard.n_rows
    if isinstance(shard.X, np.ndarray):
        n = max(_BLOCK // shard.X.shape[1] // 4 * 4, 16)
    if shard.n_rows <= n:
        return [shard]
    return [shard.part(slice(start, start + n)) for start in range(0, shard.n_rows, n)]


def add_up(parts: Iterable[Sums]) -> Sums:
    """Combine what the shards returned, in shard order; sums of sums combine in the same way.

    Names that begin with "list", "set" or "max" are no sums, nor are "moments": weight, mean and
    sum of squared deviations of each column.

    Examples
    --------
    >>> one = {"n": np.array(2), "set labels": np.array(["b"]), "list rows": np.array([2])}
    >>> two = {"n": np.array(3), "set labels": np.array(["a"]), "list rows": np.array([3])}
    >>> for name, value in add_up([one, two]).items():
    ...     print(name, value)
    n 5
    set labels ['a' 'b']
    list rows [2 3]
    """
    total: Sums = {}
    lists: dict[str, list[npt.NDArray[np.generic]]] = {}
    for part in parts:
        for name, value in part.items():
            if name.startswith("list "):
                lists.setdefault(name, []).append(value)
            elif name.startswith("set "):
                total[name] = merge_classes(total.get(name), value)
            elif name not in total:
                total[name] = value
            elif name.startswith("max "):
                one = total[name]
                total[name] = one.maximum(value) if sp.issparse(one) else np.maximum(one, value)
            elif name.startswith("moments "):
                total[name] = _joint_moments(total[name], value)
            else:
                total[name] = total[name] + value
    return total | {name: np.concatenate(values) for name, values in lists.items()}


def _joint_moments(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Weight, mean and sum of squared deviations of the rows of both."""
    (count, mean, square), (more, middle, spread) = one, other
    with np.errstate(all="ignore"):  # overflow is found when sums are checked
        both = count + more
        share = np.divide(more, both, out=np.zeros_like(both), where=both > 0.0)
        delta = middle - mean
        return np.stack(
            [both, mean + share * delta, square + spread + delta * delta * count * share]
        )


def at_columns(columns: Places, lines: Floats, n_columns: int) -> sp.csr_array:
    """Lines of numbers for some of so many columns, in the form that adds up.

    Examples
    --------
    >>> at_columns(np.array([2, 0]), np.array([[1.0, 5.0]]), 3).toarray()
    array([[5., 0., 1.]])
    """
    ends, places = np.arange(len(lines) + 1) * len(columns), np.tile(columns, len(lines))
    found = sp.csr_array((lines.ravel(), places, ends), shape=(len(lines), n_columns))
    found.eliminate_zeros()  # so do sums
    return found


def columns_of(total: sp.csr_array) -> tuple[Ints, Floats]:
    """The columns that there is something of, and their lines."""
    columns = np.unique(total.indices).astype(np.int64)
    return columns, total[:, columns].toarray()


class Shards(list[CheckedBatch]):
    """The shards of a batch in this process.

    Examples
    --------
    >>> batch = CheckedBatch(np.arange(5.0)[:, None])
    >>> [len(shard.X) for shard in Shards.cut(batch, 2)]
    [3, 2]
    """

    @classmethod
    def cut(cls, batch: CheckedBatch, n: int) -> Shards:
        """Cut a batch into slices of about the same number of rows."""
        edges = [-(-batch.n_rows * i // n) for i in range(n + 1)]
        return cls(batch.part(slice(*edge)) for edge in pairwise(edges))

    def evaluate(self, task: Task) -> Sums:
        """Call a task for every shard, one after the other, and add up."""
        return add_up(map(task, self))
