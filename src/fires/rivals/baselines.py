"""Baselines that learn nothing: all features, a random set, or a given set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared, Random
from fires.core.randomness import generator, random_state
from fires.core.settings import flag, plain
from fires.core.types import Floats, Seed
from fires.rivals.base import Rival, settings


@settings
class _Baseline(Rival):
    """A selector whose weights do not depend on the data; y is ignored."""

    missing: str = "ignore"
    batch_size: int = 100

    _supervised = False
    _learnt: ClassVar[Declared] = {"weights": Array("J", low=0.0, high=1.0)}

    _weights_: Floats = field(init=False)

    def _weights(self) -> Floats:
        return self._weights_.copy()

    def _step(self, batch: CheckedBatch) -> None:
        """Nothing is learnt."""


@settings
class AllFeatures(_Baseline):
    """Selects every feature: the baseline that shows what selection costs or gains.

    X may have any scale. Every weight is 1.

    Parameters
    ----------
    missing : {"ignore", "error"}, default="ignore"
        Whether missing entries of X are refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Examples
    --------
    >>> AllFeatures().partial_fit(np.zeros((2, 3))).get_support(indices=True)
    array([0, 1, 2])
    """

    def _resolve_k(self) -> int:
        return self.n_features_in_

    def _start(self, batch: CheckedBatch) -> None:
        self._weights_ = np.ones(self.n_features_in_)


@settings
class RandomFeatures(_Baseline):
    """Selects random features: the baseline that a selector has to beat.

    With the first batch, a weight between 0 and 1 is drawn for every feature. The set then stays
    the same for the whole stream; a greater ``n_features_to_select`` only adds to it. X may have
    any scale.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    redraw : bool, default=False
        Draw again with every batch: the least stable of all selectors.
    random_state : int, Generator, RandomState or None
        Where the weights are drawn from.
    missing : {"ignore", "error"}, default="ignore"
        Whether missing entries of X are refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Examples
    --------
    >>> selector = RandomFeatures(2, random_state=0)
    >>> first = selector.partial_fit(np.zeros((2, 8))).get_support(indices=True)
    >>> then = selector.partial_fit(np.ones((2, 8))).get_support(indices=True)
    >>> len(first), bool((first == then).all())
    (2, True)
    """

    n_features_to_select: int | float = field(default=10, kw_only=False)
    redraw: bool = flag(False)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {"rng": Random()}

    _rng_: np.random.Generator = field(init=False)

    def _start(self, batch: CheckedBatch) -> None:
        self._rng_ = generator(self.random_state, "random features")
        self._weights_ = self._rng_.random(self.n_features_in_)

    def _step(self, batch: CheckedBatch) -> None:
        if self.redraw and self.is_fitted:
            self._weights_ = self._rng_.random(self.n_features_in_)


@settings
class FixedFeatures(_Baseline):
    """Selects a given set of features: an expert's choice, or the truth where it is known.

    These features have weight 1, all others 0. X may have any scale.

    Parameters
    ----------
    features : sequence of str or of int
        Names of columns, or their indices from 0. Names need named columns, see
        :meth:`name_features`.
    missing : {"ignore", "error"}, default="ignore"
        Whether missing entries of X are refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Examples
    --------
    >>> selector = FixedFeatures(["size"]).name_features(["age", "size", "weight"])
    >>> selector.partial_fit(np.zeros((2, 3))).get_feature_names_out()
    array(['size'], dtype=object)
    """

    features: Sequence[int | str] | int | str = field(default=(), kw_only=False)

    def _resolve_k(self) -> int:
        # The first batch calls this before the features have been looked up.
        return int(self._weights_.sum()) if self.is_fitted else 1

    def _step(self, batch: CheckedBatch) -> None:
        given = self.features
        listed = [given] if isinstance(given, (str, int, np.integer)) else given
        known = self.n_features_in_, self.known_names, type(self).__name__
        try:
            places = validation.as_columns(listed, *known)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"features must hold indices below n_features={self.n_features_in_}, or names "
                f"where columns have names, from a data frame or name_features. {error}"
            ) from None
        if not len(places):
            raise ValueError("features must hold at least one name or index; got none.")
        self._weights_ = np.zeros(self.n_features_in_)
        self._weights_[places] = 1.0

    def _plain(self, value: Any) -> Any:
        return plain(sorted(value) if isinstance(value, (set, frozenset)) else value)
