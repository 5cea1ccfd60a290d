"""A stream whose truth is known: which features matter, from which row on, and which are twins."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from fires.core.belief import Floats
from fires.core.types import Places, Seed
from fires.streams.synthetic.base import (
    BLOCK,
    LabelsBySet,
    Synthetic,
    check_share,
    check_within,
    directions,
)


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

    _purpose = "known truth"

    def __init__(
        self,
        n_samples: int = 20_000,
        n_features: int = 50,
        n_relevant: int = 5,
        *,
        n_twins: int = 0,
        twin_correlation: float = 0.95,
        positive_rate: float = 0.5,
        drift_at: float | Sequence[float] = (),
        drift_width: float = 0.0,
        recurring: bool = False,
        noise: float = 0.5,
        scaled: bool = False,
        random_state: Seed = 0,
    ) -> None:
        super().__init__(n_samples, n_features, n_relevant, drift_at, drift_width, recurring)
        n_ever = self._relevant.size
        if n_twins < 0 or n_ever + n_twins > n_features:
            raise ValueError(
                f"n_features={n_features} cannot hold {self._n_sets} x {n_relevant} relevant "
                f"features and n_twins={n_twins}."
            )
        check_share("twin_correlation", twin_correlation)
        check_share("positive_rate", positive_rate)
        check_within(0.0 <= noise < np.inf, "noise", "be finite and not negative", noise)
        rng = self._seeded(random_state, self._purpose)
        self._scale = 10.0 ** rng.uniform(-2.0, 3.0, n_features)
        self._offset = self._scale * rng.uniform(-5.0, 5.0, n_features)
        if scaled:
            self._scale, self._offset = np.ones(n_features), np.zeros(n_features)
        order = rng.permutation(n_features)
        self._relevant = np.sort(order[:n_ever].reshape(self._relevant.shape), axis=1)
        self._beta = directions(rng, self._relevant.shape)
        self._noise = noise
        self._threshold = NormalDist(0.0, float(np.hypot(1.0, noise))).inv_cdf(1.0 - positive_rate)
        self._twins: Places = order[n_ever : n_ever + n_twins]
        self._originals: Places = np.resize(self._relevant, n_twins)
        self._closeness = twin_correlation

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
        unexplained = self._noise * rng.standard_normal(len(z))
        rho = self._closeness
        z[:, self._twins] *= np.sqrt(1.0 - rho**2)
        z[:, self._twins] += rho * z[:, self._originals]
        return (
            self._offset + self._scale * z,
            lambda s: z[:, self._relevant[s]] @ self._beta[s] + unexplained > self._threshold,
        )


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

    _purpose = "drifting features"

    def __init__(
        self,
        n_samples: int = 20_000,
        n_features: int = 50,
        n_relevant: int = 5,
        *,
        drift_at: float = 0.5,
        positive_rate: float = 0.5,
        noise: float = 0.5,
        random_state: Seed = 0,
    ) -> None:
        if not 1 <= n_relevant <= n_features // 2:
            raise ValueError(
                f"n_relevant must lie between 1 and half of n_features={n_features}, "
                f"not {n_relevant}: the features that matter later are others."
            )
        super().__init__(
            n_samples,
            n_features,
            n_relevant,
            drift_at=drift_at,
            positive_rate=positive_rate,
            noise=noise,
            random_state=random_state,
        )
        self._block_rows = BLOCK
        self.change = int(self._starts[0])
