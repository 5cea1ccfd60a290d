"""Are two columns related, given others? Fisher's z for numbers, G² and chi² for categories; OSFS.

Missing entries (NaN in numbers, the code -1 in categories) are left out. Two columns are compared
on the rows in which both have entries. A test given other columns combines such pairs for numbers;
for categories it uses the rows in which all columns have entries.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc, gammaln, log_ndtr, ndtri

from fires.core.classes import NO_CLASSES
from fires.core.declared import Array, Declared, Sizes, Value, collect
from fires.core.settings import choice, count, number
from fires.core.state import Arrays, State
from fires.core.types import Floats, Header, Ints, JsonObject, Labels
from fires.kernels.contingency import Codes, contingency
from fires.kernels.correlation import NEARLY_ONE, correlations, separates
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures, as_numbers, scaled
from fires.rivals.base import settings

MOST_LEVELS = 256


# The stored columns of a method: the target first, then the C selected ones.
NUMBERS = Array("1+C", "N", low=-1.0, high=1.0, missing=True)
CODES = Array("1+C", "N", dtype="int16", low=-1, high=MOST_LEVELS - 1)


class StoredColumns:
    """The stored columns, in the form that "numbers" in the header says."""

    write = NUMBERS.write

    def read(self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes) -> Any:
        """See :class:`fires.core.declared.Part`."""
        return (NUMBERS if header["numbers"] else CODES).read(name, header, arrays, sizes)


class Independence(ABC):
    """Tests of columns against the first one, the target, given some of the others."""

    columns: npt.NDArray[Any]

    @abstractmethod
    def _separate(self, place: int, given: tuple[int, ...], alpha: float) -> bool:
        """Whether some columns make another one independent of the target."""

    def separated(self, place: int, most: int, alpha: float, by: int | None = None) -> bool:
        """Whether up to ``most`` other columns, with this one, do so; the smallest sets first."""
        fixed = () if by is None else (by,)
        others = [i for i in range(1, len(self.columns)) if i not in (place, by)]
        return any(
            self._separate(place, (*fixed, *part), alpha)
            for size in range(1, most + 1)
            for part in combinations(others, size - len(fixed))
        )


# --- numbers ------------------------------------------------------------------------------------


def fisher_z(r: Floats | float, n: Floats | Ints | float, n_given: int = 0) -> Floats:
    r"""Fisher's statistic of a (partial) correlation: standard normal if the columns are unrelated.

    .. math:: W = \sqrt{n - |S| - 3} \; \operatorname{atanh} r_{xy \cdot S}

    0 where the rows do not suffice for a test.
    """
    r = np.clip(r, -NEARLY_ONE, NEARLY_ONE)
    return np.sqrt(np.maximum(np.asarray(n) - n_given - 3.0, 0.0)) * np.arctanh(r)


def surprise_of_z(W: Floats | float) -> Floats:
    r"""-log p of a two-sided z-test, :math:`-\log 2 (1 - \Phi(|W|))`, without underflow."""
    return np.asarray(np.maximum(-np.log(2.0) - log_ndtr(-np.abs(W)), 0.0))


@dataclass(frozen=True, eq=False)
class FisherZ(Independence):
    """Tests of columns of numbers against a target, given some of the other columns."""

    declared: ClassVar[Declared] = {
        "columns": NUMBERS,
        "r": Array("1+C", "1+C", low=-1.0, high=1.0),
        "n": Array("1+C", "1+C", dtype="int64", low=0),
    }

    columns: Floats
    r: Floats
    n: Ints

    @classmethod
    def of(cls, target: Floats) -> Self:
        """A test that knows the target and no other column."""
        present = int((~np.isnan(target)).sum())
        return cls(target[np.newaxis], np.ones((1, 1)), np.full((1, 1), present, dtype=np.int64))

    def relevance(self, x: Floats) -> float:
        """-log p of the column's correlation with the target."""
        r, n = correlations(x, self.columns[:1])
        return float(surprise_of_z(fisher_z(r[0], n[0])))

    def plus(self, x: Floats) -> Self:
        """The same test with one more column."""
        r, n = correlations(x, self.columns)
        present = int((~np.isnan(x)).sum())
        return type(self)(
            np.vstack([self.columns, x]),
            np.block([[self.r, r[:, np.newaxis]], [r, np.ones(1)]]),
            np.block([[self.n, n[:, np.newaxis]], [n, np.array([present])]]),
        )

    def without(self, place: int) -> Self:
        """The same test without one column."""
        keep = np.delete(np.arange(len(self.columns)), place)
        pairs = np.ix_(keep, keep)
        return type(self)(self.columns[keep], self.r[pairs], self.n[pairs])

    def _separate(self, place: int, given: tuple[int, ...], alpha: float) -> bool:
        bound = float(-ndtri(alpha / 2.0))
        return separates(self.r, self.n, place, np.array(given, dtype=np.int64), bound)


# --- categories ---------------------------------------------------------------------------------


def as_column(x: npt.NDArray[Any], numbers: bool, what: str) -> npt.NDArray[Any]:
    """A column of numbers within [-1, 1], or of the codes of categories."""
    return scaled(x) if numbers else as_codes(x, what)


def as_target(y: Labels, numbers: bool, owner: str) -> npt.NDArray[Any]:
    """The target in the form of :func:`as_column`."""
    return as_column(as_numbers(y, owner) if numbers else NO_CLASSES.take(y)[1], numbers, "y")


def as_codes(x: npt.NDArray[np.generic], what: str) -> Codes:
    """A column of categories as codes from 0, with -1 for missing entries."""
    present = ~np.isnan(x)
    levels, places = np.unique(x[present], return_inverse=True)
    if len(levels) > min(MOST_LEVELS, max(20, len(x) // 2)):
        raise ValueError(
            f"{what} has {len(levels)} different values in {len(x)} rows: this measure is for "
            "categories, so cut numbers into a few intervals first."
        )
    codes = np.full(len(x), -1, dtype=np.int16)
    codes[present] = places
    return codes


def surprise_of_chi2(statistic: float, freedom: float) -> float:
    r"""-log p of a chi² test: of the upper tail of the distribution, without underflow."""
    if freedom <= 0:
        return 0.0
    tail = chdtrc(freedom, statistic)
    if tail > 1e-290:
        return float(max(-np.log(tail), 0.0))
    a, x = freedom / 2.0, statistic / 2.0  # where the tail underflows, its leading term
    return float(x + gammaln(a) - (a - 1.0) * np.log(x))


@dataclass(frozen=True, eq=False)
class Contingency(Independence):
    r"""Tests of columns of categories against a target, given some of the other columns.

    The statistic is compared with a chi² distribution of
    :math:`(|x| - 1)(|y| - 1) \prod_S |s|` degrees of freedom, where :math:`|x|` is the number of
    different values of a column.
    """

    declared: ClassVar[Declared] = {"columns": CODES, "chi2": Value(bool)}

    columns: Codes
    chi2: bool

    def relevance(self, x: Codes) -> float:
        """-log p of the column's relation with the target."""
        return self._surprise(x, self.columns[:0])

    def plus(self, x: Codes) -> Self:
        """The same test with one more column."""
        return type(self)(np.vstack([self.columns, x]), self.chi2)

    def without(self, place: int) -> Self:
        """The same test without one column."""
        return type(self)(np.delete(self.columns, place, axis=0), self.chi2)

    def _separate(self, place: int, given: tuple[int, ...], alpha: float) -> bool:
        surprise = self._surprise(self.columns[place], self.columns[list(given)])
        return bool(surprise < -np.log(alpha))

    def _surprise(self, x: Codes, given: Codes) -> float:
        y = self.columns[0]
        levels = [float(codes.max()) + 1.0 for codes in (x, y, *given)]
        freedom = (levels[0] - 1.0) * (levels[1] - 1.0) * np.prod(levels[2:])
        return surprise_of_chi2(contingency(x, y, given, self.chi2), float(freedom))


@settings
class OSFS(ArrivingFeatures):
    r"""Online streaming feature selection.

    At first there are no candidates. A new feature :math:`X` is

    1. dropped if it is independent of the target :math:`T` (relevance);
    2. otherwise added; then each candidate :math:`F`, the oldest first and :math:`X` last, is
       dropped if some set :math:`S` of at most ``max_subset`` other candidates makes it
       independent: :math:`F \perp T \mid S` (redundancy).

    Numbers are tested by Fisher's z,

    .. math:: |\sqrt{n - |S| - 3} \; \operatorname{atanh} r_{FT \cdot S}| < \Phi^{-1}(1 - \alpha/2)

    and categories by G² or chi² with :math:`(|F| - 1)(|T| - 1) \prod_S |s|` degrees of freedom. The
    choice depends on the order of arrival: of two equal columns OSFS keeps the later one,
    :class:`FastOSFS` the earlier one.

    The cost grows with the number of candidates to the power ``max_subset``. No set is tried
    twice: old candidates are tested only with sets that hold :math:`X`, which gives the same
    result. The columns of the candidates and their correlations are stored.

    The scale of a column does not matter. Missing entries are left out: a correlation uses the rows
    in which both columns have entries, a count those in which all have. With too few rows for
    Fisher's z, no feature is dropped as redundant. The degrees of freedom of G² and chi² grow with
    every column in the set: with few rows per combination of values, these tests find every
    feature independent.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the smallest p-value on their own. A
        fraction is a share of all columns seen.
    test : {"fisher_z", "g2", "chi2"}, default="fisher_z"
        Fisher's z for columns of numbers and a target of numbers or two classes; G² or chi² for
        columns of few different values and a target of classes.
    alpha : float, default=0.01
        The level of the tests.
    max_subset : int, default=3
        The size of the largest set :math:`S`.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        -log p of each selected column's own relation with the target; 0 for all others.

    References
    ----------
    X. Wu, K. Yu, W. Ding, H. Wang, X. Zhu: "Online feature selection with streaming features". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(5), 2013.

    Examples
    --------
    >>> import fires
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> X[:, 7] = X[:, 2] + 0.01 * rng.normal(size=200)
    >>> y = X[:, 2] + X[:, 5] + rng.normal(size=200)
    >>> OSFS().partial_fit_features(X, y).get_support(indices=True)
    array([5, 7])
    >>> fires.FastOSFS().partial_fit_features(X, y).get_support(indices=True)
    array([2, 5])
    """

    test: str = choice("fisher_z", "g2", "chi2")
    alpha: float = number(0.01, high=1.0)
    max_subset: int = count(3)

    _learnt: ClassVar[Declared] = {"numbers": Value(bool)}

    _evidence_: FisherZ | Contingency = field(init=False)  # as the target is

    def _start(self, y: Labels) -> None:
        self._numbers_ = self.test == "fisher_z"
        target = as_target(y, self._numbers_, type(self).__name__)
        if self._numbers_:
            self._evidence_ = FisherZ.of(target)
        else:
            self._evidence_ = Contingency(target[np.newaxis], self.test == "chi2")

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            column = as_column(x, self._numbers_, f"Column {j} of X")
            relevance = self._evidence_.relevance(column)
            if relevance >= -np.log(self.alpha):
                self._evidence_ = self._evidence_.plus(column)
                self._chosen_[j] = relevance
                self._prune()

    def _prune(self) -> None:
        """Drop redundant candidates after one was added."""
        self._prune_old()
        self._prune_new()

    def _prune_old(self) -> None:
        place = 1
        while place < (new := len(self._evidence_.columns) - 1):
            if self._evidence_.separated(place, int(self.max_subset), self.alpha, by=new):
                self._drop(place)
            else:
                place += 1

    def _prune_new(self) -> None:
        new = len(self._evidence_.columns) - 1
        if self._evidence_.separated(new, int(self.max_subset), self.alpha):
            self._drop(new)

    def _drop(self, place: int) -> None:
        self._evidence_ = self._evidence_.without(place)
        del self._chosen_[list(self._chosen_)[place - 1]]  # column 0 is the target

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        header, arrays = super()._state()
        more_header, more = collect(self._evidence_, self._evidence_.declared)
        return header | more_header, arrays | more

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        kind: type[FisherZ | Contingency] = FisherZ if self._numbers_ else Contingency
        sizes, parts = self._sizes() | {"1+C": 1 + len(self._chosen_)}, kind.declared.items()
        self._evidence_ = kind(*(part.read(name, header, arrays, sizes) for name, part in parts))


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
