"""A stream like text, whose truth is known: very many features, few of them in a row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from fires.core.belief import Floats
from fires.core.types import Numbers, Seed
from fires.streams.synthetic.base import (
    BLOCK,
    LabelsBySet,
    Synthetic,
    check_share,
    check_within,
    directions,
)


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

    def __init__(
        self,
        n_samples: int = 20_000,
        n_features: int = 100_000,
        n_relevant: int = 10,
        *,
        head: int = 100,
        length: float = 50.0,
        exponent: float = 1.1,
        positive_rate: float = 0.5,
        drift_at: float | Sequence[float] = (),
        drift_width: float = 0.0,
        recurring: bool = False,
        noise: float = 0.5,
        random_state: Seed = 0,
    ) -> None:
        super().__init__(n_samples, n_features, n_relevant, drift_at, drift_width, recurring)
        if not self._relevant.size <= head <= n_features:
            raise ValueError(
                f"head must lie between the {self._n_sets} x {n_relevant} relevant features and "
                f"n_features={n_features}, not be {head}."
            )
        check_within(0.0 < length < np.inf, "length", "be finite and above 0", length)
        check_within(0.0 <= exponent < np.inf, "exponent", "be finite and not negative", exponent)
        check_share("positive_rate", positive_rate)
        check_within(0.0 < noise < np.inf, "noise", "be finite and above 0", noise)
        self._block_rows = BLOCK  # wide, but not full
        rng = self._seeded(random_state, "sparse wide")
        frequency = np.arange(1.0, n_features + 1.0) ** -exponent
        frequency /= frequency.sum()
        self._cumulated = np.cumsum(frequency)
        self._cumulated[-1] = 1.0  # of the numbers drawn from [0, 1), none lies beyond
        self._column = rng.permutation(n_features).astype(np.int32)  # of every rank
        ranks = rng.permutation(head)[: self._relevant.size].reshape(self._relevant.shape)
        self._relevant = self._column[ranks].astype(np.intp)
        self._mean = length * frequency[ranks]
        self._beta = directions(rng, self._relevant.shape)
        self._length, self._noise = length, noise
        self._threshold = [
            self._drawn_threshold(rng, s, positive_rate) for s in range(self._n_sets)
        ]

    def _drawn_threshold(self, rng: np.random.Generator, s: int, positive_rate: float) -> float:
        """Find the margin that the wanted share of rows exceeds while set s decides."""
        signal = self._signal(rng.poisson(self._mean[s], (100_000, self._mean.shape[1])), s)
        margin = signal + self._noise * rng.standard_normal(len(signal))
        return float(np.quantile(margin, 1.0 - positive_rate))

    def _signal(self, counts: Numbers, s: int) -> Floats:
        mean = self._mean[s]
        signal: Floats = ((counts - mean) / np.sqrt(mean)) @ self._beta[s]
        return signal

    def _draw(self, rng: np.random.Generator) -> tuple[sparse.csr_array, LabelsBySet]:
        n_rows = self._block_rows
        ends = np.append(0, np.cumsum(rng.poisson(self._length, n_rows))).astype(np.int32)
        ranks = np.searchsorted(self._cumulated, rng.random(ends[-1]), side="right")
        words = np.ones(ends[-1]), self._column[ranks], ends
        X = sparse.csr_array(words, shape=(n_rows, self.schema.n_features))
        X.sum_duplicates()
        unexplained = self._noise * rng.standard_normal(n_rows)
        return (
            X,
            lambda s: (
                self._signal(X[:, self._relevant[s]].toarray(), s)
                - self._threshold[s]
                + unexplained
                > 0.0
            ),
        )
