"""Streams at the sizes of the paper and of text: River's generators, and sparse counts of words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import islice

import numpy as np
from scipy import sparse

from fires.core.belief import Floats
from fires.core.optional import require
from fires.core.randomness import generator
from fires.core.settings import number
from fires.core.types import Mask, Numbers, Seed
from fires.streams import synthetic
from fires.streams.base import Batch, CountedRows, Schema, check_count, numbered_columns


@dataclass(eq=False)
class SparseWide(synthetic.Synthetic):
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

    n_features: int = 100_000
    n_relevant: int = 10
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
        self._block_rows = synthetic.BLOCK  # wide, but not full
        frequency = np.arange(1.0, n_features + 1.0) ** -self.exponent
        frequency /= frequency.sum()
        self._cumulated = np.cumsum(frequency)
        self._cumulated[-1] = 1.0  # of the numbers drawn from [0, 1), none lies beyond
        self._column = rng.permutation(n_features).astype(np.int32)  # of every rank
        ranks = rng.permutation(head)[: self._relevant.size].reshape(self._relevant.shape)
        self._relevant = self._column[ranks].astype(np.intp)
        self._mean = self.length * frequency[ranks]
        self._beta = synthetic.directions(rng, self._relevant.shape)
        self._threshold = [self._drawn_threshold(rng, s) for s in range(self._n_sets)]

    def _drawn_threshold(self, rng: np.random.Generator, s: int) -> float:
        """Find the margin that the wanted share of rows exceeds while set s decides."""
        signal = self._signal(rng.poisson(self._mean[s], (100_000, self._mean.shape[1])), s)
        margin = signal + self.noise * rng.standard_normal(len(signal))
        return float(np.quantile(margin, 1.0 - self.positive_rate))

    def _signal(self, counts: Numbers, s: int) -> Floats:
        mean = self._mean[s]
        signal: Floats = ((counts - mean) / np.sqrt(mean)) @ self._beta[s]
        return signal

    def _draw(self, rng: np.random.Generator) -> tuple[sparse.csr_array, synthetic.LabelsBySet]:
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


class _FromRiver(CountedRows):
    """The first rows of one of River's endless sources, as matrices."""

    def __init__(self, n_samples: int, names: tuple[str, ...], n_classes: int) -> None:
        self.n_samples = check_count("n_samples", n_samples, 1)
        self.schema = Schema(names, target="label", classes=tuple(range(n_classes)))
        self._source: Iterable[tuple[dict[str | int, float], int]] = ()

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

    def __init__(
        self,
        n_samples: int = 10_000,
        n_features: int = 10_000,
        *,
        n_centroids: int = 50,
        n_classes: int = 2,
        random_state: Seed = 0,
    ) -> None:
        synth = require("river.datasets.synth", "RandomRBF", "river")
        rng = generator(random_state, "random rbf")
        n_classes = check_count("n_classes", n_classes, 2)
        n_features = check_count("n_features", n_features, 1)
        super().__init__(n_samples, numbered_columns(n_features), n_classes)
        self._source = synth.RandomRBF(
            seed_model=_seed(rng),
            seed_sample=_seed(rng),
            n_classes=n_classes,
            n_features=n_features,
            n_centroids=check_count("n_centroids", n_centroids, 1),
        )


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

    def __init__(
        self,
        n_samples: int = 10_000,
        n_numbers: int = 200,
        n_categorical: int = 50,
        *,
        n_values: int = 5,
        n_classes: int = 2,
        random_state: Seed = 0,
    ) -> None:
        synth = require("river.datasets.synth", "RandomTree", "river")
        rng = generator(random_state, "random tree")
        n_classes = check_count("n_classes", n_classes, 2)
        self._n_numbers = check_count("n_numbers", n_numbers, 1)
        self._n_values = check_count("n_values", n_values, 2)
        n_categorical = check_count("n_categorical", n_categorical, 0)
        numbers = [f"num_{number}" for number in range(n_numbers)]
        hot = [f"cat_{c}={value}" for c in range(n_categorical) for value in range(n_values)]
        super().__init__(n_samples, (*numbers, *hot), n_classes)
        self._source = synth.RandomTree(
            seed_tree=_seed(rng),
            seed_sample=_seed(rng),
            n_classes=n_classes,
            n_num_features=n_numbers,
            n_cat_features=n_categorical,
            n_categories_per_feature=n_values,
        )

    def _as_columns(self, values: Floats) -> Floats:
        numbers, codes = np.split(values, [self._n_numbers], axis=1)
        categories = np.eye(self._n_values)[codes.astype(np.intp)]
        return np.hstack([numbers, categories.reshape(len(values), -1)])


def _seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**63))
