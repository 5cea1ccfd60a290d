"""Does a selector stand by its choice? The stability of Nogueira, Sechidis and Brown.

S. Nogueira, K. Sechidis and G. Brown, "On the Stability of Feature Selection Algorithms",
Journal of Machine Learning Research 18(174), 2018.
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.types import Ints


def as_indices(selected: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """The indices of a set of features."""
    given = np.asarray(selected)
    if given.dtype == bool:
        return np.flatnonzero(given)
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
        raise ValueError(
            "A set of features must be a list of integer indices or a mask of booleans, not "
            f"{given.dtype} of shape {given.shape}."
        )
    if len(set(given.tolist())) < given.size:
        raise ValueError("An index occurs twice in one set; a 0-1 mask must be boolean.")
    return given.astype(np.int64)


class StabilityInterval(NamedTuple):
    """A stability, the variance of that estimate, and the ends of its interval."""

    value: float
    variance: float
    low: float
    high: float


def stability(supports: npt.ArrayLike) -> float:
    r"""How much several selections agree, beyond what chance alone would give.

    With :math:`z_{ij} = 1` if set :math:`i` of :math:`r` holds feature :math:`j` of
    :math:`J`, the share :math:`p_j` of the sets that hold feature :math:`j`, and the mean
    size :math:`\bar k = \sum_j p_j` of a set:

    .. math::
        S = 1 - \frac{\frac{1}{J} \sum_j \frac{r}{r-1}\, p_j (1 - p_j)}
                     {\frac{\bar k}{J} \left(1 - \frac{\bar k}{J}\right)}

    It is 1 if all sets are the same, 0 on average if they are drawn at random, and never
    less than :math:`-1/(r-1)`. The sets may differ in size.

    Parameters
    ----------
    supports : array-like of shape (n_sets, n_features)
        One mask per row, of booleans or of zeros and ones.

    Returns
    -------
    float
        NaN where it is undefined: for fewer than two sets, and if all sets are empty or all
        sets hold every feature. Leave NaN out of averages; it is not 0.

    Examples
    --------
    >>> stability([[1, 1, 0, 0], [1, 0, 1, 0]])
    0.0
    >>> stability([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 0, 1]])
    0.6571428571428571
    >>> stability([[1, 1, 0, 0]])
    nan
    """
    return _of_masks(_masks(supports))


def stability_interval(supports: npt.ArrayLike, confidence: float = 0.95) -> StabilityInterval:
    r"""Give the stability with its asymptotic confidence interval.

    With the symbols of :func:`stability` and the size :math:`k_i` of set :math:`i`:

    .. math::
        \phi_i &= \frac{\frac{1}{J} \sum_j z_{ij} p_j - \frac{k_i \bar k}{J^2}
                  + \frac{S}{2} \left(\frac{2 k_i \bar k}{J^2} - \frac{k_i}{J}
                  - \frac{\bar k}{J} + 1\right)}
                  {\frac{\bar k}{J} \left(1 - \frac{\bar k}{J}\right)} \\
        \operatorname{Var} &= \frac{4}{r^2} \sum_i (\phi_i - \bar\phi)^2, \qquad
        S \pm \Phi^{-1}\!\left(\tfrac{1 + c}{2}\right) \sqrt{\operatorname{Var}}

    where :math:`c` is ``confidence``. The interval is **for independent repetitions only**:
    seeds, bootstraps, folds. Consecutive sets of a stream, such as those of a sliding window,
    depend on each other, and for them it claims far too much. It is asymptotic in the number
    of sets and not cut at 1.

    Parameters
    ----------
    supports : array-like of shape (n_sets, n_features)
        As in :func:`stability`.
    confidence : float
        How sure the interval is to hold the stability, in (0, 1).

    Returns
    -------
    StabilityInterval
        ``(value, variance, low, high)``; all NaN where :func:`stability` is NaN.

    Examples
    --------
    >>> sets = [[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]]
    >>> value, variance, low, high = stability_interval(sets)
    >>> print(f"{value:.3f} in [{low:.3f}, {high:.3f}]")
    0.467 in [0.182, 0.751]
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}.")
    masks = _masks(supports)
    S, (r, J) = _of_masks(masks), masks.shape
    if math.isnan(S):
        return StabilityInterval(S, S, S, S)
    p = masks.mean(axis=0)
    k = masks.sum(axis=1) / J
    k_bar = k.mean()
    phi = ((masks @ p) / J - k * k_bar + S / 2.0 * (2.0 * k * k_bar - k - k_bar + 1.0)) / (
        k_bar * (1.0 - k_bar)
    )
    variance = float(4.0 / r**2 * np.sum((phi - phi.mean()) ** 2))
    half_width = NormalDist().inv_cdf((1.0 + confidence) / 2.0) * math.sqrt(variance)
    return StabilityInterval(S, variance, S - half_width, S + half_width)


class _Sets:
    """The last sets of features, and in how many of them each feature is."""

    def __init__(self) -> None:
        self.sets: deque[Ints] = deque()
        self.counts: Ints = np.zeros(0, dtype=np.int64)
        self.n_features = self.total = self.squares = 0  # features there are; sums of counts

    def push(self, features: Ints, size: int) -> None:
        """Add a set, and let the oldest go if there are more than so many."""
        short = int(features.max(initial=-1)) + 1 - len(self.counts)
        if short > 0:  # at least twice as many, so that growing costs little
            room = np.zeros(max(short, len(self.counts)), dtype=np.int64)
            self.counts = np.append(self.counts, room)
        self.sets.append(features)
        oldest = [(self.sets.popleft(), -1)] if len(self.sets) > size else []
        for ids, more in [(features, 1), *oldest]:
            counts = self.counts[ids]
            self.n_features += more * int((counts == (more < 0)).sum())
            self.total += more * len(ids)
            self.squares += len(ids) + 2 * more * int(counts.sum())  # (c + 1)^2 = c^2 + 2 c + 1
            self.counts[ids] += more

    def joined(self) -> tuple[Ints, Ints]:
        """How long each set is, and all of them behind one another."""
        lengths = np.array([len(features) for features in self.sets], dtype=np.int64)
        return lengths, np.concatenate([self.counts[:0], *self.sets])


class StabilityWindow:
    r"""The stability of the last ``size`` selections, kept up to date at the cost of one set.

    With the number :math:`c_j` of the :math:`n` sets in the window that hold feature
    :math:`j`, :math:`S_1 = \sum_j c_j` and :math:`S_2 = \sum_j c_j^2`:

    .. math::
        S = 1 - \frac{n}{n-1} \cdot
            \frac{\left(S_1 / n - S_2 / n^2\right) / J}
                 {\frac{\bar k}{J} \left(1 - \frac{\bar k}{J}\right)},
        \qquad \bar k = \frac{S_1}{n}

    The sums are exact integers, so the value is that of :func:`stability` on the same sets,
    to the last bit, however long the stream. While the window fills, :math:`n <` ``size``.

    Parameters
    ----------
    size : int
        The number of sets that count, at least 2 (the paper takes 10).
    n_features : int, optional
        The number of features there are to select from. Without it, features come and go: each
        set is given with those that were ``present`` for it. Then :math:`J` is the number of
        different features that were present, or selected, somewhere in the window.

    Examples
    --------
    >>> window = StabilityWindow(size=3, n_features=4)
    >>> window.update([0, 1])
    nan
    >>> window.update([0, 2])
    0.0
    >>> window.update(np.array([True, False, True, False]))
    0.3333333333333333
    >>> window.update([0, 2])
    1.0
    >>> window = StabilityWindow(size=3)
    >>> _ = window.update([0, 1], present=[0, 1, 2])
    >>> window.update([0, 3], present=[0, 3]), window.n_features
    (0.0, 4)
    """

    def __init__(self, size: int, n_features: int | None = None) -> None:
        self.size = operator.index(size)
        self._width = None if n_features is None else operator.index(n_features)
        for name, value, least in (("size", self.size, 2), ("n_features", self._width, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}.")
        self._selected = _Sets()
        self._present = _Sets()  # with the selected; if they may change

    @property
    def n_features(self) -> int:
        """The number of features there are to select from."""
        return self._present.n_features if self._width is None else self._width

    @property
    def value(self) -> float:
        """The stability of the sets in the window; NaN where it is undefined."""
        known = self._selected
        return _from_sums(len(known.sets), self.n_features, known.total, known.squares)

    def update(self, selected: npt.ArrayLike, present: npt.ArrayLike | None = None) -> float:
        """Add a set, let the oldest go if the window is full, and give the new stability.

        Parameters
        ----------
        selected : array-like of int, or of bool
            The indices of the selected features, each once, in any order; or a mask of
            length ``n_features``, which costs a pass over all features.
        present : array-like of int, optional
            The features that the set was selected from, where features come and go. A feature has
            the same index for good.

        Returns
        -------
        float
            NaN where it is undefined: after the first set, and if all sets in the window are
            empty or all hold every feature.
        """
        if (present is None) != (self._width is not None):
            raise ValueError("present goes with a window without n_features, and with no other.")
        if present is None:
            indices = self._indices(selected)
        else:
            indices = as_indices(selected)
            candidates = np.union1d(indices, as_indices(present))
            if candidates.min(initial=0) < 0:
                raise ValueError(f"Indices must not be negative, got {candidates[0]}.")
            self._present.push(candidates, self.size)
        self._selected.push(indices, self.size)
        return self.value

    def _indices(self, selected: npt.ArrayLike) -> Ints:
        """Check a selection of a fixed number of features."""
        given, width = np.asarray(selected), self.n_features
        if given.dtype == bool and given.shape != (width,):
            raise ValueError(f"A mask must have shape ({width},), got {given.shape}.")
        indices = as_indices(given)
        if len(indices) and not 0 <= (low := indices.min()) <= indices.max() < width:
            raise ValueError(f"Indices must lie in 0..{width - 1}, got {low}..{indices.max()}.")
        return indices

    def state(self) -> dict[str, Ints]:
        """Everything there is to save, as arrays; :meth:`from_state` takes it back.

        Returns
        -------
        dict of str to ndarray

        Examples
        --------
        >>> window = StabilityWindow(size=2, n_features=4)
        >>> _ = window.update([0, 1]), window.update([0])
        >>> window.state()
        {'size': array(2), 'n_features': array(4),
         'lengths': array([2, 1]), 'indices': array([0, 1, 0])}
        >>> StabilityWindow.from_state(window.state()).value == window.value
        True
        """
        state = {"size": np.array(self.size), "n_features": np.array(self._width or 0)}
        state["lengths"], state["indices"] = self._selected.joined()
        if self._width is None:
            state["lengths_present"], state["present"] = self._present.joined()
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, Ints]) -> StabilityWindow:
        """Rebuild the window that gave this :meth:`state`.

        Parameters
        ----------
        state : mapping of str to ndarray
            What :meth:`state` gave.

        Returns
        -------
        StabilityWindow
            It goes on as the other one would.
        """
        window = cls(int(state["size"]), int(state["n_features"]) or None)
        sets = _parted(state["lengths"], state["indices"], window.size)
        present_ids: Sequence[Ints | None] = [None] * len(sets)
        if window._width is None:
            present_ids = _parted(state["lengths_present"], state["present"], window.size)
        for selected, present in zip(sets, present_ids, strict=True):
            window.update(selected, present)
        return window


def _parted(lengths: Ints, indices: Ints, size: int) -> list[Ints]:
    """The sets that :meth:`_Sets.joined` put behind one another."""
    if len(lengths) > size or lengths.sum() != len(indices):
        raise ValueError(
            f"Not the state of a window of size {size}: "
            f"{len(lengths)} sets with {lengths.sum()} indices, {len(indices)} given."
        )
    ends = np.cumsum(lengths)
    return [indices[start:end] for start, end in zip(ends - lengths, ends, strict=True)]


def _masks(supports: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Check the supports and make them one boolean matrix."""
    try:
        given = np.asarray(supports)
    except ValueError:
        raise ValueError("supports must be masks of one length; these differ.") from None
    if given.shape == (0,):
        given = given.reshape(0, 0)
    if given.ndim != 2:
        raise ValueError(f"supports must have shape (n_sets, n_features), got {given.shape}.")
    if given.dtype.kind not in "biuf" or ((given != 0) & (given != 1)).any():
        raise ValueError("supports must hold masks: booleans, or zeros and ones.")
    return given.astype(bool)


def _of_masks(masks: npt.NDArray[np.bool_]) -> float:
    counts, (r, J) = masks.sum(axis=0, dtype=np.int64), masks.shape
    return _from_sums(r, J, int(counts.sum()), int(counts @ counts))


def _from_sums(r: int, J: int, s1: int, s2: int) -> float:
    """Compute S from the sums of c and of c^2, in integers: the one rounding is the last."""
    spread = (r - 1) * s1 * (r * J - s1)
    if spread == 0:
        return math.nan
    return (spread - r * J * (r * s1 - s2)) / spread
