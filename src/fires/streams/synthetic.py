"""Streams whose truth is known: which features matter, and from which row on.

All of them are seeded: rows depend on the settings and the seed and on nothing else, not on the
batch size, and every iteration gives them again. They are drawn in blocks, each from a seed of its
own, so that memory does not grow with the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar

import numpy as np

from fires.core.belief import Floats
from fires.core.randomness import generator
from fires.core.settings import check_declared, number
from fires.core.types import Ints, Mask, Matrix, Places, Seed
from fires.streams.base import Batch, CountedRows, Schema, check_count, numbered_columns
from fires.streams.cutting import stacked

# Rows drawn at a time, fewer where they are wide: part of what a seed means, never to be changed.
BLOCK, BLOCK_VALUES = 1_000, 1_000_000

SyntheticBlock = tuple[Matrix, Ints]
# The labels that all rows of a block would have if one set of features decided them.
LabelsBySet = Callable[[int], Mask]


@dataclass(eq=False)
class Synthetic(CountedRows, ABC):
    """Sets of relevant features that take turns, and rows drawn in blocks.

    Set 0 decides the labels up to the first drift, and after every drift another one does: a new
    one, or, with ``recurring``, set 1 and set 0 in turn. Over the rows that a drift takes, each row
    belongs to the new set with a probability that grows from 0 to 1.
    """

    n_samples: int = 20_000
    n_features: int = 50
    n_relevant: int = 5
    _: KW_ONLY
    drift_at: float | Sequence[float] = ()
    drift_width: float = number(0.0, high=1.0, ends="[)")
    recurring: bool = False
    random_state: Seed = 0

    _purpose: ClassVar[str]  # a part of the seed

    def __post_init__(self) -> None:
        check_declared(type(self), vars(self))
        self.n_samples = n_samples = check_count("n_samples", self.n_samples, 1)
        n_features = check_count("n_features", self.n_features, 1)
        n_relevant = check_count("n_relevant", self.n_relevant, 1)
        shares = np.atleast_1d(np.asarray(self.drift_at, dtype=np.float64))
        if shares.ndim > 1 or not ((shares > 0.0) & (shares <= 1.0)).all():
            raise ValueError(f"drift_at must lie in (0, 1], not {self.drift_at}.")
        self._starts = np.round(shares * n_samples).astype(np.intp)
        self._width = round(self.drift_width * n_samples)
        ends = self._starts[self._starts < n_samples] + self._width
        if (np.diff(self._starts) < max(self._width, 1)).any() or (ends > n_samples).any():
            raise ValueError(
                f"drift_at={self.drift_at} must ascend, each drift ending before the next one and "
                f"before the stream does; with drift_width={self.drift_width} one takes "
                f"{self._width} rows."
            )
        self._turns = np.arange(len(self._starts) + 1)
        if self.recurring:
            self._turns %= 2
        self._n_sets = int(self._turns.max()) + 1
        self._relevant: Places = np.empty((self._n_sets, n_relevant), dtype=np.intp)
        self._block_rows = min(BLOCK, max(BLOCK_VALUES // n_features, 1))
        self.schema = Schema(numbered_columns(n_features), target="label", classes=(0, 1))
        rng = generator(self.random_state, self._purpose)
        # A generator moves on when it is used: its seed is drawn once, so that rows come again.
        self._seed = int(rng.integers(2**63))
        self._settle(rng)

    @abstractmethod
    def _settle(self, rng: np.random.Generator) -> None:
        """Draw what is the same for all rows: which features matter, and how."""

    @property
    def drifts(self) -> tuple[int, ...]:
        """Tell the rows from which on other features begin to decide."""
        return tuple(self._starts[self._starts < self.n_samples].tolist())

    def relevant_at(self, row: int) -> Places:
        """Tell the columns that decide the label of a row."""
        if not 0 <= row < self.n_samples:
            raise IndexError(f"The stream has rows 0 to {self.n_samples - 1}; there is no {row}.")
        turn = int(np.searchsorted(self._starts, row, side="right"))
        lasts = turn > 0 and row < self._starts[turn - 1] + self._width
        return np.unique(self._relevant[self._turns[turn - lasts : turn + 1]])

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""
        block = lru_cache(maxsize=1)(self._block)
        for start, stop, position in self._ranges(self.n_samples, batch_size):
            yield Batch(*self._rows(start, stop, block), position)

    def _rows(
        self, start: int, stop: int, block: Callable[[int], SyntheticBlock]
    ) -> SyntheticBlock:
        size = self._block_rows
        parts = []
        for place in range(start // size, (stop - 1) // size + 1):
            X, y = block(place)
            within = slice(max(start - place * size, 0), stop - place * size)
            parts.append((X[within], y[within]))
        Xs, ys = zip(*parts, strict=True)
        # Always a copy: what is done to a batch must not reach the next one.
        return stacked(Xs), np.concatenate(ys)

    def _block(self, number: int) -> SyntheticBlock:
        """Draw the rows from ``number * _block_rows`` on, even those after the stream's end."""
        rng = generator(self._seed, "block", str(number))
        X, labels_by_set = self._draw(rng)
        sets = self._sets(number, rng)
        y = np.empty(len(sets), dtype=np.int64)
        for chosen in np.unique(sets).tolist():
            rows = sets == chosen
            y[rows] = labels_by_set(chosen)[rows]
        return X, y

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> tuple[Matrix, LabelsBySet]:
        """Draw the features of a block, and all that is needed to give them labels."""

    def _sets(self, number: int, rng: np.random.Generator) -> Places:
        """Which set decides each row of a block."""
        rows = number * self._block_rows + np.arange(self._block_rows)
        turn = np.searchsorted(self._starts, rows, side="right")
        since = rows - np.append(self._starts, -self.n_samples)[turn - 1]  # long ago for turn 0
        is_old = rng.random(len(rows)) >= (since + 1) / (self._width + 1)
        sets: Places = self._turns[turn - is_old]
        return sets


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Coefficients of random sign and similar size; each row has length 1."""
    signed = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.7, 1.3, shape)
    directions: Floats = signed / np.linalg.norm(signed, axis=1, keepdims=True)
    return directions


@dataclass(eq=False)
class KnownTruth(Synthetic):
    r"""Two classes told apart by a few of many features, some of which have twins.

    With independent standard normal :math:`z_j`, the relevant features :math:`R`, coefficients
    :math:`\beta` of random sign and length 1, and :math:`\varepsilon \sim \mathcal{N}(0, s^2)`:

    .. math::
        y = \Big[ \sum_{j \in R} \beta_j z_j + \varepsilon > c \Big], \qquad
        x_j = \text{offset}_j + \text{scale}_j\, z_j

    where :math:`s` is ``noise`` and :math:`c` is such that the positives have their rate. A twin
    :math:`t` of a relevant :math:`j` has :math:`z_t = \rho z_j + \sqrt{1 - \rho^2}\, z'_t`, with
    :math:`z'_t` independent of all else: it tells of the label, and nothing that j does not.
    All other features are irrelevant. With every drift another, disjoint :math:`R` and another
    :math:`\beta` take over; x itself does not change.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many features matter at a time.
    n_twins : int
        How many features are twins: one for each relevant feature in turn, those of the first set
        first, and then a second one.
    twin_correlation : float
        :math:`\rho`, in (0, 1).
    positive_rate : float
        The expected share of the label 1, in (0, 1): 0.5 is balanced, 0.01 is rare.
    drift_at : float or sequence of float
        The share of the rows before each drift, in (0, 1]; none by default, and one at 1 never
        comes.
    drift_width : float
        The share of the rows over which a drift takes place: 0 is abrupt. Otherwise, the chance
        that a row belongs to the new set grows evenly over them.
    recurring : bool
        Two sets take turns, instead of a new one with every drift.
    noise : float
        Standard deviation of what no feature explains, beside a signal of 1.
    scaled : bool
        Whether all features have mean 0 and variance 1. Otherwise scales span five powers of ten
        and offsets are several scales wide: features cannot be compared as they come.
    random_state : int, Generator, RandomState or None
        The rows depend on it and the settings alone.

    Attributes
    ----------
    schema : Schema
        The names of the columns, x0, x1, ..., and the classes 0 and 1.
    n_samples : int
        How many rows there are.
    twins : dict of int to int
        The relevant column that each twin copies.

    Examples
    --------
    >>> stream = KnownTruth(9_000, n_features=20, n_relevant=2, n_twins=2, drift_at=[1/3, 2/3])
    >>> stream.drifts, [stream.relevant_at(row).tolist() for row in (0, 3_000, 6_000)]
    ((3000, 6000), [[5, 11], [4, 10], [12, 18]])
    >>> stream.twins
    {2: 11, 16: 5}
    >>> again = KnownTruth(9_000, 20, 2, drift_at=[1/3, 2/3], drift_width=0.1, recurring=True)
    >>> [again.relevant_at(row).tolist() for row in (0, 3_000, 3_900, 8_999)]
    [[5, 11], [4, 5, 10, 11], [4, 10], [5, 11]]
    """

    _: KW_ONLY
    n_twins: int = 0
    twin_correlation: float = number(0.95, high=1.0)
    positive_rate: float = number(0.5, high=1.0)
    noise: float = number(0.5, ends="[)")
    scaled: bool = False

    _purpose = "known truth"

    def _settle(self, rng: np.random.Generator) -> None:
        n_features, n_twins = self.n_features, self.n_twins
        n_ever = self._relevant.size
        if n_twins < 0 or n_ever + n_twins > n_features:
            raise ValueError(
                f"n_features={n_features} cannot hold {self._n_sets} x {self.n_relevant} relevant "
                f"features and n_twins={n_twins}."
            )
        self._scale = 10.0 ** rng.uniform(-2.0, 3.0, n_features)
        self._offset = self._scale * rng.uniform(-5.0, 5.0, n_features)
        if self.scaled:
            self._scale, self._offset = np.ones(n_features), np.zeros(n_features)
        order = rng.permutation(n_features)
        self._relevant = np.sort(order[:n_ever].reshape(self._relevant.shape), axis=1)
        self._beta = directions(rng, self._relevant.shape)
        spread = float(np.hypot(1.0, self.noise))
        self._threshold = NormalDist(0.0, spread).inv_cdf(1.0 - self.positive_rate)
        self._twins: Places = order[n_ever : n_ever + n_twins]
        self._originals: Places = np.resize(self._relevant, n_twins)

    @property
    def twins(self) -> dict[int, int]:
        """Say which relevant column each twin copies.

        Returns
        -------
        dict of int to int
            From the column of the twin to that of the original.
        """
        return dict(sorted(zip(self._twins.tolist(), self._originals.tolist(), strict=True)))

    def _draw(self, rng: np.random.Generator) -> tuple[Floats, LabelsBySet]:
        z = rng.standard_normal((self._block_rows, len(self._scale)))
        unexplained = self.noise * rng.standard_normal(len(z))
        rho = self.twin_correlation
        z[:, self._twins] *= np.sqrt(1.0 - rho**2)
        z[:, self._twins] += rho * z[:, self._originals]
        return (
            self._offset + self._scale * z,
            lambda s: z[:, self._relevant[s]] @ self._beta[s] + unexplained > self._threshold,
        )


@dataclass(eq=False)
class DriftingFeatures(KnownTruth):
    r"""Two classes told apart by a few features, and from some row on by others.

    A :class:`KnownTruth` with one abrupt drift and without twins, on scales that span five powers
    of ten: what the demo shows.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many features matter at a time; at most half of them.
    drift_at : float
        The share of the rows before the change, in (0, 1]; 1 is a stream without one.
    positive_rate : float
        The expected share of the label 1, in (0, 1).
    noise : float
        Standard deviation of what no feature explains, beside a signal of 1.
    random_state : int, Generator, RandomState or None
        The rows depend on it and on nothing else: not on the batch size, and every iteration
        gives them again.

    Attributes
    ----------
    schema : Schema
        The names of the columns, x0, x1, ..., and the classes 0 and 1.
    n_samples : int
        How many rows there are.
    change : int
        The first row that other features decide; ``n_samples`` if there is none.

    Examples
    --------
    >>> stream = DriftingFeatures(n_samples=1_000, n_features=20, n_relevant=2)
    >>> stream.relevant_at(0), stream.relevant_at(999)
    (array([10, 11]), array([3, 6]))
    >>> for batch in stream.batches(400):
    ...     print(batch.X.shape, batch.position.rows)
    (400, 20) 400
    (400, 20) 800
    (200, 20) 1000
    """

    _: KW_ONLY
    drift_at: float = 0.5

    _purpose = "drifting features"

    def _settle(self, rng: np.random.Generator) -> None:
        if self.n_relevant > self.n_features // 2:
            raise ValueError(
                f"n_relevant must lie between 1 and half of n_features={self.n_features}, "
                f"not {self.n_relevant}: the features that matter later are others."
            )
        super()._settle(rng)
        self._block_rows = BLOCK
        self.change = int(self._starts[0])


@dataclass(eq=False)
class SignProduct(Synthetic):
    r"""The label is the product of some features' signs: a linear model sees nothing.

    With independent standard normal :math:`x_j` and the relevant features :math:`R`:

    .. math::
        y = \Big[ \prod_{j \in R} \operatorname{sign} x_j > 0 \Big]

    and then turned around with probability ``flip``. Of two or more relevant features no single
    one tells anything: each is independent of the label.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many signs are multiplied.
    flip : float
        The share of wrong labels, in [0, 0.5).
    drift_at, drift_width, recurring, random_state
        As in :class:`fires.streams.KnownTruth`.

    Examples
    --------
    >>> stream = SignProduct(1_000)
    >>> i, j = stream.relevant_at(0)
    >>> for batch in stream.batches(500):
    ...     print(bool((batch.y == (batch.X[:, i] * batch.X[:, j] > 0)).all()))
    True
    True
    """

    n_samples: int = 30_000
    n_features: int = 20
    n_relevant: int = 2
    _: KW_ONLY
    flip: float = number(0.0, high=0.5, ends="[)")

    _purpose = "sign product"

    def _settle(self, rng: np.random.Generator) -> None:
        if self._relevant.size > self.n_features:
            raise ValueError(
                f"n_features={self.n_features} cannot hold {self._n_sets} x {self.n_relevant} "
                "relevant ones."
            )
        order = rng.permutation(self.n_features)[: self._relevant.size]
        self._relevant = order.reshape(self._relevant.shape)

    def _draw(self, rng: np.random.Generator) -> tuple[Floats, LabelsBySet]:
        X = rng.standard_normal((self._block_rows, self.n_features))
        flipped = rng.random(len(X)) < self.flip
        return X, lambda s: (np.sign(X[:, self._relevant[s]]).prod(axis=1) > 0) != flipped
