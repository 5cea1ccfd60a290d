"""Streams whose truth is known: which features matter, and from which row on; River's generators.

All of them are seeded: rows depend on the settings and the seed and on nothing else, not on the
batch size, and every iteration gives them again. Our own are drawn in blocks, each from a seed of
its own, so that memory does not grow with the stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial
from itertools import islice
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from fires.core.belief import Floats
from fires.core.optional import require
from fires.core.randomness import generator
from fires.core.settings import check_declared, checked, number
from fires.core.types import Ints, Mask, Matrix, Numbers, Places, Seed
from fires.streams.base import Batch, CountedRows, Schema, check_count, numbered_columns
from fires.streams.table import stacked

# Rows drawn at a time, fewer where they are wide: part of what a seed means, never to be changed.
BLOCK, BLOCK_VALUES = 1_000, 1_000_000

SyntheticBlock = tuple[Matrix, Ints]
# The labels that all rows of a block would have if one set of features decided them.
LabelsBySet = Callable[[int], Mask]


def whole(default: int, least: int = 1) -> int:
    """A setting that is a whole number."""
    return checked(default, partial(check_count, least=least))


@dataclass(eq=False)
class Synthetic(CountedRows, ABC):
    """Sets of relevant features that take turns, and rows drawn in blocks.

    Set 0 decides the labels up to the first drift, and after every drift another one does: a new
    one, or, with ``recurring``, set 1 and set 0 in turn. Over the rows that a drift takes, each row
    belongs to the new set with a probability that grows from 0 to 1.
    """

    n_samples: int = whole(20_000)
    n_features: int = whole(50)
    n_relevant: int = whole(5)
    _: KW_ONLY
    drift_at: float | Sequence[float] = ()
    drift_width: float = number(0.0, high=1.0, ends="[)")
    recurring: bool = False
    random_state: Seed = 0

    _purpose: ClassVar[str]  # a part of the seed

    def __post_init__(self) -> None:
        check_declared(type(self), vars(self))
        n_features, n_samples = int(self.n_features), int(self.n_samples)
        self.n_samples = n_samples
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
        self._relevant: Places = np.empty((self._n_sets, self.n_relevant), dtype=np.intp)
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
        return np.asarray(self._turns[turn - is_old])


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Coefficients of random sign and similar size; each row has length 1."""
    signed = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.7, 1.3, shape)
    return np.asarray(signed / np.linalg.norm(signed, axis=1, keepdims=True))


@dataclass(eq=False)
class KnownTruth(Synthetic):
    r"""Two classes that a few of many features distinguish, some of which have copies.

    With independent standard normal :math:`z_j`, the relevant features :math:`R`, coefficients
    :math:`\beta` of random sign and length 1, and :math:`\varepsilon \sim \mathcal{N}(0, s^2)`:

    .. math::
        y = \Big[ \sum_{j \in R} \beta_j z_j + \varepsilon > c \Big], \qquad
        x_j = \text{offset}_j + \text{scale}_j\, z_j

    where :math:`s` is ``noise`` and :math:`c` is such that the positives have their rate. A copy
    :math:`t` of a relevant :math:`j` has :math:`z_t = \rho z_j + \sqrt{1 - \rho^2}\, z'_t`, with
    :math:`z'_t` independent of all else: it predicts the label, but adds nothing to j.
    All other features are irrelevant. With every drift, a disjoint :math:`R` and another
    :math:`\beta` take over; the distribution of x does not change.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many features matter at a time.
    n_twins : int
        How many features are noisy copies: one for each relevant feature in turn, starting with
        the first set, then a second one each.
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
        The relevant column that each noisy copy belongs to.

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
        """The relevant column that each noisy copy belongs to.

        Returns
        -------
        dict of int to int
            From the column of the copy to that of the original.
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

    A :class:`KnownTruth` with one abrupt drift and without copies, on scales that span five powers
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

    n_samples: int = whole(30_000)
    n_features: int = whole(20)
    n_relevant: int = whole(2)
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


@dataclass(eq=False)
class SparseWide(Synthetic):
    r"""Short texts as counts of words: very many features, few of them in a row, as CSR batches.

    A row has Poisson(``length``) words, each of which is the one of rank r with probability
    :math:`p_r \propto r^{-a}` (Zipf's law), where :math:`a` is ``exponent``; the columns have their
    ranks at random. So :math:`x_j`, how often word j is there, is Poisson with mean
    :math:`m_j = \text{length} \cdot p_{r(j)}`, independently of all others, and

    .. math::
        y = \Big[ \sum_{j \in R} \beta_j \frac{x_j - m_j}{\sqrt{m_j}} + \varepsilon > c \Big]

    with :math:`\beta` and :math:`\varepsilon` as in :class:`fires.streams.KnownTruth`. The
    threshold :math:`c` of each set is a quantile over 100,000 drawn rows, from which the share of
    positives inherits a standard error of 0.0016 (0.0003 at a rate of 0.01).

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many features matter at a time.
    head : int
        The relevant features are among this many most frequent ones. With the other defaults, the
        last of 100 is in one row of 25.
    length : float
        The expected number of words in a row.
    exponent : float
        Of Zipf's law; 0 makes all words equally frequent.
    positive_rate, drift_at, drift_width, recurring, random_state
        As in :class:`fires.streams.KnownTruth`.
    noise : float
        Standard deviation of what no feature explains, beside a signal of 1; above 0, since the
        rows in which no relevant word occurs would all be on one side of the threshold.

    Examples
    --------
    >>> stream = SparseWide(1_000, n_features=100_000)
    >>> batch = next(stream.batches(100))
    >>> batch.X.shape, batch.X.format, batch.X.nnz
    ((100, 100000), 'csr', 3839)
    """

    n_features: int = whole(100_000)
    n_relevant: int = whole(10)
    _: KW_ONLY
    head: int = 100
    length: float = number(50.0, wanted="finite and above 0")
    exponent: float = number(1.1, ends="[)")
    positive_rate: float = number(0.5, high=1.0)
    noise: float = number(0.5, wanted="finite and above 0")

    _purpose = "sparse wide"

    def _settle(self, rng: np.random.Generator) -> None:
        head, n_features = self.head, self.n_features
        if not self._relevant.size <= head <= n_features:
            raise ValueError(
                f"head must lie between the {self._n_sets} x {self.n_relevant} relevant features "
                f"and n_features={n_features}, not be {head}."
            )
        self._block_rows = BLOCK  # wide, but not full
        frequency = np.arange(1.0, n_features + 1.0) ** -self.exponent
        frequency /= frequency.sum()
        self._cumulated = np.cumsum(frequency)
        self._cumulated[-1] = 1.0  # of the numbers drawn from [0, 1), none lies beyond
        self._column = rng.permutation(n_features).astype(np.int32)  # of every rank
        ranks = rng.permutation(head)[: self._relevant.size].reshape(self._relevant.shape)
        self._relevant = self._column[ranks].astype(np.intp)
        self._mean = self.length * frequency[ranks]
        self._beta = directions(rng, self._relevant.shape)
        self._threshold = [self._drawn_threshold(rng, s) for s in range(self._n_sets)]

    def _drawn_threshold(self, rng: np.random.Generator, s: int) -> float:
        """Find the margin that the wanted share of rows exceeds while set s decides."""
        signal = self._signal(rng.poisson(self._mean[s], (100_000, self._mean.shape[1])), s)
        margin = signal + self.noise * rng.standard_normal(len(signal))
        return float(np.quantile(margin, 1.0 - self.positive_rate))

    def _signal(self, counts: Numbers, s: int) -> Floats:
        mean = self._mean[s]
        return np.asarray(((counts - mean) / np.sqrt(mean)) @ self._beta[s])

    def _draw(self, rng: np.random.Generator) -> tuple[sparse.csr_array, LabelsBySet]:
        n_rows = self._block_rows
        ends = np.append(0, np.cumsum(rng.poisson(self.length, n_rows))).astype(np.int32)
        ranks = np.searchsorted(self._cumulated, rng.random(ends[-1]), side="right")
        words = np.ones(ends[-1]), self._column[ranks], ends
        X = sparse.csr_array(words, shape=(n_rows, self.n_features))
        X.sum_duplicates()
        unexplained = self.noise * rng.standard_normal(n_rows)

        def labels(s: int) -> Mask:
            signal = self._signal(X[:, self._relevant[s]].toarray(), s)
            return signal - self._threshold[s] + unexplained > 0.0

        return X, labels


@dataclass(eq=False)
class _FromRiver(CountedRows, ABC):
    """The first rows of one of River's endless sources, as matrices."""

    n_samples: int = whole(10_000)
    _: KW_ONLY
    n_classes: int = whole(2, least=2)
    random_state: Seed = 0

    _purpose: ClassVar[str]  # a part of the seed

    def __post_init__(self) -> None:
        synth = require("river.datasets.synth", type(self).__name__)
        check_declared(type(self), vars(self))
        rng = generator(self.random_state, self._purpose)
        names, make, settings = self._settled(synth)
        self.n_samples, n_classes = int(self.n_samples), int(self.n_classes)
        self.schema = Schema(names, target="label", classes=tuple(range(n_classes)))
        # The model, and what is drawn from it.
        seeds = int(rng.integers(2**63)), int(rng.integers(2**63))
        self._source = make(*seeds, n_classes=n_classes, **settings)

    @abstractmethod
    def _settled(self, synth: Any) -> tuple[tuple[str, ...], Callable[..., Any], dict[str, int]]:
        """The columns, what of River makes the rows, and with what settings."""

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""
        # It begins again with the same seeds. What was handed out before is drawn once more.
        rows = islice(self._source, self._first, None)
        for start, stop, position in self._ranges(self.n_samples, batch_size):
            features, labels = zip(*islice(rows, stop - start), strict=True)
            values = np.array([list(x.values()) for x in features], dtype=np.float64)
            yield Batch(self._as_columns(values), np.array(labels, dtype=np.int64), position)

    def _as_columns(self, values: Floats) -> Floats:
        """Turn River's features into the columns of X."""
        return values


@dataclass(eq=False)
class RandomRBF(_FromRiver):
    r"""Classes that lie round random centres: River's ``synth.RandomRBF``.

    Each centre has a place :math:`c \in [0, 1]^J`, a class, a weight and a spread :math:`s`, all
    drawn uniformly. A row belongs to a centre drawn by weight; with a direction :math:`u` that is
    uniform in :math:`[-1, 1]^J`,

    .. math::
        x = c + s\, z\, \frac{u}{\lVert u \rVert}, \qquad z \sim \mathcal{N}(0, 1)

    The defaults are the paper's RBF: scikit-multiflow's settings, which are River's too. A row of
    10,000 features takes River about 10 ms; who needs the rows more than once keeps them.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_centroids : int
        How many centres there are.
    n_classes : int
        How many classes they have between them.
    random_state : int, Generator, RandomState or None
        The rows depend on it and on the settings but not on ``n_samples`` or the batch size, and
        every iteration gives them again.

    Attributes
    ----------
    schema : Schema
        The names of the columns, x0, x1, ..., and the classes 0, 1, ...
    n_samples : int
        How many rows there are.

    Examples
    --------
    >>> stream = RandomRBF(n_samples=250, n_features=20)
    >>> for batch in stream.batches(100):
    ...     print(batch.X.shape, batch.y[:5], batch.position.rows)
    (100, 20) [1 1 0 1 1] 100
    (100, 20) [0 0 1 0 1] 200
    (50, 20) [1 0 0 0 1] 250
    """

    n_features: int = whole(10_000)
    _: KW_ONLY
    n_centroids: int = whole(50)

    _purpose = "random rbf"

    def _settled(self, synth: Any) -> tuple[tuple[str, ...], Callable[..., Any], dict[str, int]]:
        settings = {"n_features": self.n_features, "n_centroids": self.n_centroids}
        return numbered_columns(self.n_features), synth.RandomRBF, settings


@dataclass(eq=False)
class RandomTree(_FromRiver):
    r"""Classes that a random decision tree tells apart: River's ``synth.RandomTree``.

    Numbers are uniform in [0, 1), categories are uniform too. Each category becomes a column of
    its own that is 1 in its rows and 0 elsewhere, so there are
    ``n_numbers + n_categorical * n_values`` columns. The defaults are the paper's RTG, of
    200 + 50 * 5 = 450 columns, with scikit-multiflow's settings, which are River's too: a tree of
    depth 5, with leaves from depth 3 on, where 15 % of the nodes are leaves.

    Parameters
    ----------
    n_samples : int
        How many rows there are.
    n_numbers, n_categorical : int
        How many features hold numbers, at least 1, and how many hold categories.
    n_values : int
        How many values each of the latter has.
    n_classes : int
        How many classes the leaves have between them.
    random_state : int, Generator, RandomState or None
        The rows depend on it and on the settings but not on ``n_samples`` or the batch size, and
        every iteration gives them again.

    Attributes
    ----------
    schema : Schema
        The names of the columns, num_0, num_1, ..., cat_0=0, cat_0=1, ..., and the classes.
    n_samples : int
        How many rows there are.

    Examples
    --------
    >>> stream = RandomTree(n_samples=1_000, n_numbers=2, n_categorical=1, n_values=3)
    >>> stream.schema.feature_names
    ('num_0', 'num_1', 'cat_0=0', 'cat_0=1', 'cat_0=2')
    >>> batch = next(stream.batches(2))
    >>> batch.X.round(2), batch.y
    (array([[0.72, 0.74, 0.  , 0.  , 1.  ],
           [0.83, 0.28, 0.  , 1.  , 0.  ]]), array([0, 1]))
    """

    n_numbers: int = whole(200)
    n_categorical: int = whole(50, least=0)
    _: KW_ONLY
    n_values: int = whole(5, least=2)

    _purpose = "random tree"

    def _settled(self, synth: Any) -> tuple[tuple[str, ...], Callable[..., Any], dict[str, int]]:
        n_numbers, n_categorical, n_values = self.n_numbers, self.n_categorical, self.n_values
        numbers = [f"num_{number}" for number in range(n_numbers)]
        hot = [f"cat_{c}={value}" for c in range(n_categorical) for value in range(n_values)]
        sizes = {"n_num_features": n_numbers, "n_cat_features": n_categorical}
        settings = sizes | {"n_categories_per_feature": n_values}
        return (*numbers, *hot), synth.RandomTree, settings

    def _as_columns(self, values: Floats) -> Floats:
        numbers, codes = np.split(values, [self.n_numbers], axis=1)
        categories = np.eye(self.n_values)[codes.astype(np.intp)]
        return np.hstack([numbers, categories.reshape(len(values), -1)])
