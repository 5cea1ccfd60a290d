"""A stream in which features tell of the label together, and none of them alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fires.core.belief import Floats
from fires.core.types import Seed
from fires.streams.synthetic.base import LabelsBySet, Synthetic, check_within


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

    def __init__(
        self,
        n_samples: int = 30_000,
        n_features: int = 20,
        n_relevant: int = 2,
        *,
        flip: float = 0.0,
        drift_at: float | Sequence[float] = (),
        drift_width: float = 0.0,
        recurring: bool = False,
        random_state: Seed = 0,
    ) -> None:
        super().__init__(n_samples, n_features, n_relevant, drift_at, drift_width, recurring)
        if self._relevant.size > n_features:
            raise ValueError(
                f"n_features={n_features} cannot hold {self._n_sets} x {n_relevant} relevant ones."
            )
        check_within(0.0 <= flip < 0.5, "flip", "lie in [0, 0.5)", flip)
        rng = self._seeded(random_state, "sign product")
        order = rng.permutation(n_features)[: self._relevant.size]
        self._relevant = order.reshape(self._relevant.shape)
        self._flip = flip

    def _draw(self, rng: np.random.Generator) -> tuple[Floats, LabelsBySet]:
        X = rng.standard_normal((self._block_rows, self.schema.n_features))
        flipped = rng.random(len(X)) < self._flip
        return X, lambda s: (np.sign(X[:, self._relevant[s]]).prod(axis=1) > 0) != flipped
