"""Screening: how strongly each feature, on its own, goes with the target."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.belief import Floats
from fires.core.classes import are_numbers, encode
from fires.core.settings import check_choice, check_number
from fires.core.state import Arrays, State
from fires.core.validation import as_numbers
from fires.scaling.dense import ROUNDING
from fires.selectors.base import OnlineSelector

_EPS = float(np.finfo(np.float64).eps)


class Moments(NamedTuple):
    """Means of x and of targets z, and sums of products about them.

    A target has a row of its own. What depends on no column has one entry in place of one per
    column, until entries are missing and columns are no longer alike. A mean far from 0 is the
    sum of two numbers: its own rounding would else be as large as what is told apart.
    """

    n: Floats  # (1,) or (n_features,): the weight of the entries that are there
    x: Floats  # (n_features,), as the next two
    x_rest: Floats
    xx: Floats
    z: Floats  # (n_targets, 1 or n_features), as the next two
    z_rest: Floats
    zz: Floats
    xz: Floats  # (n_targets, n_features)


class Screening(OnlineSelector):
    r"""Features ranked one by one by their correlation with the target, or by its F statistic.

    With means and sums of products over all rows so far, the correlation of feature j is

    .. math::
        |r_j| = \frac{|S_{xy}|}{\sqrt{S_{xx} S_{yy}}}, \qquad
        S_{ab} = \sum_i w_i (a_i - \bar a)(b_i - \bar b)

    where of two classes one stands for 0 and the other for 1. For :math:`g` classes, of
    :math:`n_c` rows and mean :math:`\bar x_c` each, it is the correlation ratio :math:`\eta_j`,
    which for two is :math:`|r_j|`; F is that of the analysis of variance, or with :math:`r_j` in
    place of :math:`\eta_j` and :math:`g = 2` that of regression on one feature:

    .. math::
        \eta_j = \sqrt{\frac{\sum_c n_c (\bar x_c - \bar x)^2}{S_{xx}}}, \qquad
        F_j = \frac{\eta_j^2}{1 - \eta_j^2} \cdot \frac{n - g}{g - 1}

    Every batch is summed about its own means and merged into the running ones, so that an offset
    of a column or target costs no digits (Chan, Golub, LeVeque 1983). X may have any scale and
    any offset, per column: scores do not depend on them. A missing entry is left out of its
    column: rows count where the feature is there. A feature or target that did not vary yet
    scores 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    measure : {"correlation", "f"}, default="correlation"
        What features are ranked by. The order differs only if entries are missing: F also counts
        the rows that speak for it. It stays finite where a feature tells the classes apart
        without error.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" takes numbers if the first batch holds one that is not whole.
    forgetting : float, default=0.0
        In [0, 1): what was learnt counts less by this share with every further row; 0 keeps
        everything. About the last ``1 / forgetting`` rows matter, however they are cut into
        batches.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=100
        What :meth:`fit` cuts its data into.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        The score and the rank (1 is best) of every feature. Read-only, and yours to keep.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        What was seen.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance",
    The American Statistician 37(3), 1983. Screening by correlation: J. Fan, J. Lv, "Sure
    independence screening for ultrahigh dimensional feature space", JRSS B 70(5), 2008.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = Screening(2, measure="f")
    >>> for _ in range(10):
    ...     X = rng.normal(size=(50, 6))
    ...     selector = selector.partial_fit(X, np.digitize(X[:, 1] + X[:, 4], [-1.0, 1.0]))
    >>> selector.get_support(indices=True)
    array([1, 4])
    """

    _moments_: Moments
    _numeric_: bool

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        measure: str = "correlation",
        target: str = "auto",
        forgetting: float = 0.0,
        missing: str = "ignore",
        batch_size: int = 100,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.measure = measure
        self.target = target
        self.forgetting = forgetting
        self.missing = missing
        self.batch_size = batch_size

    def _weighting(self) -> tuple[Any, ...]:
        return (self.measure,)

    def _weights(self) -> Floats:
        m = self._moments_
        share = explained_by_numbers(m) if self._numeric_ else explained_by_classes(m)
        if self.measure == "correlation":
            return np.sqrt(share)
        groups = 2 if self._numeric_ else np.maximum((m.z > 0.0).sum(axis=0), 2)
        freedom = np.maximum(m.n - groups, 0.0) / (groups - 1)
        # A share of 1 is one to within rounding: no more can be told than this.
        weights: Floats = share / np.maximum(1.0 - share, _EPS) * freedom
        return weights

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        X, y, missing = batch.X, batch.y, batch.n_missing > 0
        assert y is not None
        if not hasattr(self, "_moments_"):
            self._numeric_ = are_numbers(y, batch.announced, self.target)
        mass, keep = faded(batch.weight, X.shape[0], self.forgetting)
        before: Moments | None = getattr(self, "_moments_", None)
        if self._numeric_:
            if batch.announced is not None:
                raise ValueError("classes is for class labels; this selector learns numbers.")
            numbers = as_numbers(y, "Screening")
            new = moments_of_numbers(X, numbers, mass, missing)
        else:
            codes, known = self._take_whole_labels(batch)
            new = moments_of_classes(X, codes, len(self.classes_), mass, missing)
            if before is not None and known is not None and len(known) < len(self.classes_):
                tables = (grown(table, known, self.classes_) for table in before[4:])
                before = Moments(*before[:4], *tables)
        with np.errstate(over="ignore", invalid="ignore"):
            merged = new if before is None else merge(before, new, keep)
        if not all(np.isfinite(part).all() for part in merged):
            raise ValueError("Input X or y holds values so large that sums overflow; rescale them.")
        self._moments_ = merged

    _for_numbers = "say target='numbers'."

    def _check_parameters(self) -> None:
        check_choice("measure", self.measure, ("correlation", "f"))
        check_choice("target", self.target, ("auto", "classes", "numbers"))
        check_forgetting(self.forgetting)

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        return {"numeric": self._numeric_}, self._moments_._asdict()

    def _restore(self, header: dict[str, Any], arrays: Arrays, model: Any) -> None:
        self._numeric_ = header["numeric"]
        self._moments_ = Moments(**{name: arrays[name] for name in Moments._fields})


# --- what methods that count share ----------------------------------------------------------


def faded(weight: Floats | None, n_rows: int, forgetting: float) -> tuple[Floats, float]:
    """What each row of a batch counts once its last was seen, and what is left of all before.

    A row of weight w is w rows in turn: together they count the sum of w powers of what one row
    leaves of another, and w may be a fraction all the same.

    Examples
    --------
    >>> mass, keep = faded(None, 3, 0.5)
    >>> mass, round(keep, 12)
    (array([0.25, 0.5 , 1.  ]), 0.125)
    >>> faded(np.array([1.0, 2.0]), 2, 0.5)[0]
    array([0.25, 1.5 ])
    """
    weight = np.ones(n_rows) if weight is None else weight
    if not forgetting:
        return weight, 1.0
    rate = np.log1p(-forgetting)
    after = np.append(np.cumsum(weight[::-1])[::-1][1:], 0.0)
    mass = np.exp(rate * after) * np.expm1(rate * weight) / -forgetting
    return mass, float(np.exp(rate * weight.sum()))


def check_forgetting(value: Any) -> None:
    """Raise if it is no share."""
    check_number("forgetting", value, high=1.0, ends="[)", wanted="a number from 0 to below 1")


def grown(table: Floats, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> Floats:
    """A table of one row per class with rows of zeros for the classes that are new.

    Examples
    --------
    >>> grown(np.array([[1.0], [2.0]]), np.array(["a", "c"]), np.array(["a", "b", "c"])).tolist()
    [[1.0], [0.0], [2.0]]
    """
    new = np.zeros((len(after), *table.shape[1:]))
    new[encode(before, after)] = table
    return new


def rows_by_class(codes: Any, n_classes: int, mass: Floats) -> Any:
    """A CSR matrix with a row per class, that sums the rows of a batch when multiplied with it."""
    places = (codes, np.arange(len(codes)))
    return sp.csr_array((mass, places), shape=(n_classes, len(codes)))


# --- moments --------------------------------------------------------------------------------


def moments_of_numbers(X: Any, y: Floats, mass: Floats, missing: bool) -> Moments:
    """Moments of one batch with a numeric target."""
    level = mass @ y / max(mass.sum(), 1e-300)
    u = y - level
    with np.errstate(over="ignore", invalid="ignore"):
        rows = sp.csr_array(np.stack([mass, mass * u, mass * (u * u)]))
        sums, x, x_rest, xx, xz = _summed(X, rows, missing)
        z = sums[1:2] / np.where(sums[0] > 0.0, sums[0], 1.0)
        zz = np.maximum(sums[2:] - sums[1:2] * z, 0.0)
        return Moments(sums[0], x, x_rest, xx, np.full_like(z, level), z, zz, xz[1:2])


def moments_of_classes(X: Any, codes: Any, n_classes: int, mass: Floats, missing: bool) -> Moments:
    """Moments of one batch whose targets are, class by class, 1 in the class and 0 elsewhere."""
    rows = sp.vstack([sp.csr_array(mass[None, :]), rows_by_class(codes, n_classes, mass)], "csr")
    with np.errstate(over="ignore", invalid="ignore"):
        sums, x, x_rest, xx, xz = _summed(X, rows, missing)
        z = sums[1:] / np.where(sums[0] > 0.0, sums[0], 1.0)
        return Moments(sums[0], x, x_rest, xx, z, np.zeros_like(z), sums[1:] * (1.0 - z), xz[1:])


def _summed(X: Any, rows: Any, missing: bool) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Sums over the entries that are there, in each column: of 1, and about its mean of x.

    ``rows`` has one row per sum, of which the first holds the weights. Returned are the sums of
    1, the mean in two parts, the spread about it, and the sums of x about the mean.
    """
    if not sp.issparse(X):
        return _settled(*_summed_dense(X, rows, missing))
    # Columns without entries add up to nothing: only the others are looked at.
    columns, places = np.unique(X.indices, return_inverse=True)
    touched = sp.csr_array((X.data, places, X.indptr), shape=(X.shape[0], len(columns)))
    sums, *about_mean = _settled(*_summed_sparse(touched, rows, missing))
    if missing:
        there = np.repeat(rows.sum(axis=1)[:, None], X.shape[1], axis=1)
        there[:, columns] = sums
        sums = there
    wide = [np.zeros((*part.shape[:-1], X.shape[1])) for part in about_mean]
    for part, of_touched in zip(wide, about_mean, strict=True):
        part[..., columns] = of_touched
    mean, rest, spread, crossed = wide
    return sums, mean, rest, spread, crossed


def _settled(
    sums: Floats, mean: Floats, spread: Floats, crossed: Floats
) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """The same about the mean as it is: what adds up about a rounded one tells how far it is."""
    rest = crossed[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    spread = np.maximum(spread - crossed[0] * rest, 0.0)
    return sums, mean, rest, spread, crossed - sums * rest


def _summed_dense(X: Any, rows: Any, missing: bool) -> tuple[Floats, Floats, Floats, Floats]:
    if not missing:
        sums, values, there = rows.sum(axis=1)[:, None], X, True
    else:
        there = ~np.isnan(X)
        sums, values = rows @ there.astype(np.float64), np.where(there, X, 0.0)
    weight = rows[:1]
    mean = (weight @ values)[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    t = (values - mean) * there
    return sums, mean, (weight @ (t * t))[0], rows @ t


def _summed_sparse(X: Any, rows: Any, missing: bool) -> tuple[Floats, Floats, Floats, Floats]:
    def like_x(data: Any) -> Any:
        return sp.csr_array((data, X.indices, X.indptr), shape=X.shape)

    there = ~np.isnan(X.data)
    values = np.where(there, X.data, 0.0).astype(np.float64, copy=False)
    totals = rows.sum(axis=1)[:, None]
    held = (rows @ like_x(np.ones(len(X.data)))).toarray()
    zeros = totals - held  # what the entries add up to that are zeros and not stored
    # Where none is, rounding must not leave a trace: it would be as far off as the mean is.
    zeros[:, np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]] = 0.0
    sums = zeros + (rows @ like_x(there.astype(np.float64))).toarray() if missing else totals
    weight = rows[:1]
    mean = (weight @ like_x(values)).toarray()[0] / np.where(sums[0] > 0.0, sums[0], 1.0)
    t = np.where(there, values - mean[X.indices], 0.0)
    spread = (weight @ like_x(t * t)).toarray()[0] + zeros[0] * mean * mean
    return sums, mean, spread, (rows @ like_x(t)).toarray() - zeros * mean


def merge(old: Moments, new: Moments, keep: float) -> Moments:
    """Moments of two parts of a stream together, of which the first counts ``keep`` of itself."""
    n = keep * old.n + new.n
    share = new.n / np.where(n > 0.0, n, 1.0)
    both = keep * old.n * share
    dx = (new.x - old.x) + (new.x_rest - old.x_rest)
    dz = (new.z - old.z) + (new.z_rest - old.z_rest)
    return Moments(
        n,
        *_two_parts(old.x, old.x_rest + share * dx),
        keep * old.xx + new.xx + both * dx * dx,
        *_two_parts(old.z, old.z_rest + share * dz),
        keep * old.zz + new.zz + both * dz * dz,
        keep * old.xz + new.xz + both * dx * dz,
    )


def _two_parts(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The sum of a and b, rounded, and what rounding took off (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def explained_by_numbers(m: Moments) -> Floats:
    """The squared correlation of each column with the target."""
    x, z = _root(m.xx, m.x, m.n), _root(m.zz[0], m.z[0], m.n)
    r = m.xz[0] / np.where(x > 0.0, x, np.inf) / np.where(z > 0.0, z, np.inf)
    share: Floats = np.minimum(r * r, 1.0)
    return share


def explained_by_classes(m: Moments) -> Floats:
    """The share of each column's spread that lies between the means of the classes."""
    x, n = _root(m.xx, m.x, m.n), m.n * m.z
    r = m.xz / np.where(x > 0.0, x, np.inf)
    between = (r * r / np.where(n > 0.0, n, np.inf)).sum(axis=0)
    share: Floats = np.minimum(between, 1.0)
    return np.where((m.z > 0.0).sum(axis=0) > 1, share, 0.0)


def _root(spread: Floats, mean: Floats, n: Floats) -> Floats:
    """The root of a spread, or 0 if it is no more than the rounding of a constant."""
    floor = n * np.maximum(ROUNDING * mean * mean, 1e-300)
    root: Floats = np.sqrt(np.where(spread > floor, spread, 0.0))
    return root
