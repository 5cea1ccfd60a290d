"""Fast-OSFS: OSFS that looks for redundant features only once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass
from fires.rivals.arriving.osfs import OSFS


class FastOSFS(OSFS):
    r"""Fast online streaming feature selection.

    As :class:`OSFS`, but a relevant new feature is tested for redundancy first. If it is
    redundant, it is dropped and nothing else is tested. If it stays, each older candidate is
    tested with the sets that hold it. Of two equal columns the earlier one is kept.

    Parameters and attributes are those of :class:`OSFS`.

    References
    ----------
    X. Wu, K. Yu, W. Ding, H. Wang, X. Zhu: "Online feature selection with streaming features". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(5), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, size=(300, 12)).astype(float)
    >>> y = np.where(X[:, 4] + X[:, 9] > 2, "yes", "no")
    >>> FastOSFS(test="g2").partial_fit_features(X, y).get_support(indices=True)
    array([4, 9])
    """

    def _prune(self) -> None:
        n_before = len(self._chosen_)
        self._prune_new()
        if len(self._chosen_) == n_before:
            self._prune_old()
