"""Screening and chi-squared: how strongly each feature, on its own, goes with the target.

They come from running moments of columns and targets, and from counts.
"""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.classes import grown
from fires.core.declared import Array, Declared, Value
from fires.core.settings import choice, number
from fires.core.types import CsrRows, Floats, Matrix
from fires.kernels.moments import ROUNDING
from fires.rivals.arrays import as_dense, decay, entries, rows_by_class, with_entries
from fires.rivals.base import BatchSelector, TargetSelector, settings

_EPS = float(np.finfo(np.float64).eps)
_PER_CLASS = ("z", "z_rest", "zz", "xz", "within")
_LATE = "measure cannot become 't' once something was learnt."


class Moments(NamedTuple):
    """Means of x and of targets z, and sums of products about these means.

    Each target has its own row. Numbers that are the same for every column are stored once, until
    entries are missing and columns differ. A mean is stored as the sum of two numbers: a mean far
    from 0 would otherwise have a rounding error as large as the differences of interest.
    """

    n: Floats  # (1,) or (n_features,): the weight of the entries
    x: Floats  # (n_features,), as the next two
    x_rest: Floats
    xx: Floats
    z: Floats  # (n_targets, 1 or n_features), as the next two
    z_rest: Floats
    zz: Floats
    xz: Floats  # (n_targets, n_features)
    within: Floats | None = None  # the same: about the means of each class, for measure="t"


@settings
class Screening(TargetSelector):
    r"""Features ranked one by one by their correlation with the target, or by its F or t statistic.

    With means and sums of products over all rows so far, the correlation of feature j is

    .. math::
        |r_j| = \frac{|S_{xy}|}{\sqrt{S_{xx} S_{yy}}}, \qquad
        S_{ab} = \sum_i w_i (a_i - \bar a)(b_i - \bar b)

    where two classes count as 0 and 1. For :math:`g` classes with :math:`n_c` rows and means
    :math:`\bar x_c`, it is the correlation ratio :math:`\eta_j`; for two classes that is
    :math:`|r_j|`. F is the statistic of the analysis of variance. For a numeric target it is that
    of regression on one feature: :math:`r_j` in place of :math:`\eta_j`, and :math:`g = 2`.

    .. math::
        \eta_j = \sqrt{\frac{\sum_c n_c (\bar x_c - \bar x)^2}{S_{xx}}}, \qquad
        F_j = \frac{\eta_j^2}{1 - \eta_j^2} \cdot \frac{n - g}{g - 1}

    t is Welch's statistic of a class against the others, with forgetting that of Wang and Barbu,

    .. math::
        t_j = \max_c \frac{|\bar x_c - \bar x_{\neq c}|}
            {\sqrt{s_c^2 / n_c + s_{\neq c}^2 / n_{\neq c}}}, \qquad
        s_c^2 = \frac{1}{n_c} \sum_{i \in c} w_i (x_i - \bar x_c)^2

    For more than two classes, that it is the greatest is our choice.

    Every batch is summed about its own means and merged into the running sums, so that an offset
    of a column or target costs no digits (Chan, Golub, LeVeque 1983). The scale and the offset of
    a column do not matter. A missing entry is left out of its column. A feature or target that has
    not varied yet scores 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    measure : {"correlation", "f", "t"}, default="correlation"
        What features are ranked by. The order by F differs from that by correlation only if entries
        are missing: F also grows with the number of rows. t lets the spread differ from class to
        class; it is not for numbers. F and t stay finite where a feature separates the classes
        perfectly.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes.
    forgetting : float, default=0.0
        In [0, 1): every new row reduces the weight of older rows by this share; 0 keeps
        everything. About the last ``1 / forgetting`` rows matter. How they are cut into batches
        does not.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        The score and the rank (1 is best) of every feature. A read-only copy.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    References
    ----------
    T. F. Chan, G. H. Golub, R. J. LeVeque, "Algorithms for Computing the Sample Variance",
    The American Statistician 37(3), 1983. Screening by correlation: J. Fan, J. Lv, "Sure
    independence screening for ultrahigh dimensional feature space", JRSS B 70(5), 2008. With
    forgetting, by t: M. Wang, A. Barbu, "Online Feature Screening for Data Streams With Concept
    Drift", TKDE 2022.

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

    measure: str = choice("correlation", "f", "t")
    forgetting: float = number(0.0, high=1.0, ends="[)")

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {
        "n": Array("1|J", low=0.0),
        "x": Array("J"),
        "x_rest": Array("J"),
        "xx": Array("J", low=0.0),
        "z": Array("T", "1|J"),
        "z_rest": Array("T", "1|J"),
        "zz": Array("T", "1|J", low=0.0),
        "xz": Array("T", "J"),
        "within": Array("T", "J", low=0.0, optional=True),
    }
    _within_: Floats | None = field(init=False, default=None)

    def _weights(self) -> Floats:
        m = self._moments()
        if self.measure == "t":
            return by_welch(m)
        share = by_numbers(m) if self._numeric_ else by_classes(m)
        if self.measure == "correlation":
            return np.sqrt(share)
        groups = 2 if self._numeric_ else np.maximum((m.z > 0.0).sum(axis=0), 2)
        freedom = np.maximum(m.n - groups, 0.0) / (groups - 1)
        # A share of 1 is only known up to rounding, so F is bounded.
        return share / np.maximum(1.0 - share, _EPS) * freedom

    def _moments(self) -> Moments:
        return Moments(*(getattr(self, f"_{name}_") for name in Moments._fields))

    # --- learning ---------------------------------------------------------------------------

    def _step(self, batch: CheckedBatch) -> None:
        before = self._moments() if self.is_fitted else None
        mass, keep = decay(batch.weight, batch.n_rows, self.forgetting)
        goal, known = self._goal(batch)
        if self.measure == "t" and self._numeric_:
            raise ValueError("measure='t' is for classes; for numbers use 'correlation' or 'f'.")
        if self._numeric_:
            new = of_numbers(batch.X, goal, mass, batch.n_missing > 0)
        else:
            rows = rows_by_class(goal, len(self.classes_), mass)
            new = of_classes(batch.X, rows, mass, batch.n_missing > 0, within=self.measure == "t")
        if before is not None and known is not None:
            known_of = {
                name: grown(table, known, self.classes_)
                for name, table in before._asdict().items()
                if name in _PER_CLASS and table is not None
            }
            before = before._replace(**known_of)
        with np.errstate(over="ignore", invalid="ignore"):
            m = new if before is None else merge(before, new, keep)
        if not all(np.isfinite(part).all() for part in m if part is not None):
            raise ValueError("Input X or y holds values so large that sums overflow; rescale them.")
        for name, part in m._asdict().items():
            setattr(self, f"_{name}_", part)


# --- the moments of a batch ---------------------------------------------------------------------


def of_numbers(X: Matrix, y: Floats, mass: Floats, missing: bool) -> Moments:
    """Moments of one batch with a numeric target."""
    level = mass @ y / max(mass.sum(), 1e-300)
    u = y - level
    with np.errstate(over="ignore", invalid="ignore"):
        rows = sp.csr_array(np.stack([mass, mass * u, mass * (u * u)]))
        sums, x, x_rest, xz, (xx,) = _summed(X, rows, missing)
        z = sums[1:2] / np.where(sums[0] > 0.0, sums[0], 1.0)
        zz = np.maximum(sums[2:] - sums[1:2] * z, 0.0)
        return Moments(sums[0], x, x_rest, xx, np.full_like(z, level), z, zz, xz[1:2])


def of_classes(
    X: Matrix, by_class: CsrRows, mass: Floats, missing: bool, *, within: bool
) -> Moments:
    """Moments of one batch of classes: each class is a target, 1 in the class and 0 elsewhere."""
    rows = sp.vstack([sp.csr_array(mass[None, :]), by_class], "csr")
    with np.errstate(over="ignore", invalid="ignore"):
        n_spreads = rows.shape[0] if within else 1
        sums, x, x_rest, xz, spread = _summed(X, rows, missing, spreads=n_spreads)
        z = sums[1:] / np.where(sums[0] > 0.0, sums[0], 1.0)
        of_z = z, np.zeros_like(z), sums[1:] * (1.0 - z)
        own = spread[1:] if within else None
        return Moments(sums[0], x, x_rest, spread[0], *of_z, xz[1:], own)


def _summed(X: Matrix, rows: CsrRows, missing: bool, *, spreads: int = 1) -> tuple[Floats, ...]:
    """Weighted sums of 1 and of x minus its mean, over the entries of each column.

    Each row of ``rows`` holds the factors of one sum; the first holds the weights. Returned are
    the sums of 1, the mean in two parts, the sums of x about the mean, and the spread of so many
    sums, each about its own mean.
    """
    stored, totals, weight = entries(X), rows.sum(axis=1)[:, None], rows[:1]
    sums, zeros, values = totals, np.zeros_like(totals), stored
    if not isinstance(X, np.ndarray):  # the sums over zeros that are not stored
        zeros = totals - as_dense(rows @ with_entries(X, np.ones(len(stored))))
        # A column that stores all its entries has none: remove what rounding left.
        zeros[:, np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]] = 0.0
    if missing:
        present = ~np.isnan(stored)
        values = np.where(present, stored, 0.0)
        sums = zeros + as_dense(rows @ with_entries(X, present.astype(np.float64)))
    count = np.where(sums[0] > 0.0, sums[0], 1.0)
    mean = as_dense(weight @ with_entries(X, values))[0] / count
    t = values - (mean if isinstance(X, np.ndarray) else mean[X.indices])
    if missing:
        t = np.where(present, t, 0.0)
    squares = as_dense(rows[:spreads] @ with_entries(X, t * t)) + zeros[:spreads] * mean * mean
    crossed = as_dense(rows @ with_entries(X, t)) - zeros * mean
    # Sums about a rounded mean show how far it is off: the same sums about the exact one.
    off = crossed[:spreads] / np.where(sums > 0.0, sums, 1.0)[:spreads]
    spread = np.maximum(squares - crossed[:spreads] * off, 0.0)
    return sums, mean, off[0], crossed - sums * off[0], spread


def merge(old: Moments, new: Moments, keep: float) -> Moments:
    """Moments of two parts of a stream together."""
    n = keep * old.n + new.n
    share = new.n / np.where(n > 0.0, n, 1.0)
    both = keep * old.n * share
    dx = (new.x - old.x) + (new.x_rest - old.x_rest)
    dz = (new.z - old.z) + (new.z_rest - old.z_rest)
    within = None
    if new.within is not None:
        if old.within is None:
            raise ValueError(_LATE)
        n_old, n_new = keep * old.n * old.z, new.n * new.z
        apart = dx + _from_mean(new) - _from_mean(old)
        joint = n_old * n_new / np.where(n_old + n_new > 0.0, n_old + n_new, 1.0)
        within = keep * old.within + new.within + joint * apart * apart
    return Moments(
        n,
        *_two_parts(old.x, old.x_rest + share * dx),
        keep * old.xx + new.xx + both * dx * dx,
        *_two_parts(old.z, old.z_rest + share * dz),
        keep * old.zz + new.zz + both * dz * dz,
        keep * old.xz + new.xz + both * dx * dz,
        within,
    )


def _from_mean(m: Moments) -> Floats:
    """How far the mean of each class is from that of all; 0 for a class without rows."""
    n = m.n * m.z
    return np.asarray(m.xz / np.where(n > 0.0, n, np.inf))


def _two_parts(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum of a and b, and the rounding error (Knuth's TwoSum)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def by_numbers(m: Moments) -> Floats:
    """The squared correlation of each column with the target."""
    x, z = _root(m.xx, m.x, m.n), _root(m.zz[0], m.z[0], m.n)
    r = m.xz[0] / np.where(x > 0.0, x, np.inf) / np.where(z > 0.0, z, np.inf)
    return np.asarray(np.minimum(r * r, 1.0))


def by_classes(m: Moments) -> Floats:
    """The share of each column's variance that lies between the class means."""
    x, n = _root(m.xx, m.x, m.n), m.n * m.z
    r = m.xz / np.where(x > 0.0, x, np.inf)
    between = (r * r / np.where(n > 0.0, n, np.inf)).sum(axis=0)
    share: Floats = np.minimum(between, 1.0)
    return np.where((m.z > 0.0).sum(axis=0) > 1, share, 0.0)


def by_welch(m: Moments) -> Floats:
    """Welch's t of each column: the greatest over the classes, each against all others."""
    n, d, within = m.n * m.z, _from_mean(m), m.within
    if within is None:
        raise ValueError(_LATE)
    others = m.n - n
    known = (n > 0.0) & (others > 0.0) & (_root(m.xx, m.x, m.n) > 0.0)
    n, others = np.where(known, n, 1.0), np.where(known, others, 1.0)
    back = n * d / others  # how far the mean of the others is on the other side
    spread = np.maximum(m.xx - within - n * d * d - others * back * back, 0.0)
    square = (d + back) ** 2
    # Perfect separation is only known up to rounding, so t is bounded.
    variance = np.maximum(within / n**2 + spread / others**2, _EPS * square / (n + others))
    t2 = np.divide(square, variance, out=np.zeros_like(square), where=known & (square > 0.0))
    return np.asarray(np.sqrt(t2.max(axis=0)))


def _root(spread: Floats, mean: Floats, n: Floats) -> Floats:
    """The root of a spread, or 0 if it is no greater than the rounding error of a constant."""
    floor = n * np.maximum(ROUNDING * mean * mean, 1e-300)
    return np.sqrt(np.where(spread > floor, spread, 0.0))


_LONGEST_UNIT = 1e100  # beyond it, the unit of the counts is reset to 1


@settings
class ChiSquared(BatchSelector):
    r"""Incremental chi-squared ranking (Katakis, Tsoumakas, Vlahavas, PCI 2005).

    For each feature and class, it counts the rows in which the feature is present, that is, not 0.
    Let A be the rows of the class with the feature, B other rows with it, C the rows of the class
    without it, D other rows without it, and N all rows. Then

    .. math::
        \chi^2 = \frac{N (AD - BC)^2}{(A + B)(C + D)(A + C)(B + D)}

    or 0 if a factor below the line is 0. With two classes both have the same value. With more, the
    greatest counts, or the mean weighted by the shares of the classes; the paper does not say
    which.

    Made for words in documents and other features that are mostly 0. The size of an entry does not
    matter. A feature that is never 0, such as a standardised one, scores 0. A missing entry is
    left out: it is neither present nor absent.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    aggregate : {"max", "mean"}, default="max"
        How the values of several classes are combined.
    forgetting : float, default=0.0
        In [0, 1): every new row reduces older counts by this share; 0 keeps everything. About the
        last ``1 / forgetting`` rows matter. How they are cut into batches does not.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X is left out, or refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        Chi-squared and the rank (1 is best) of every feature. A read-only copy.
    classes_ : ndarray
        The labels seen, sorted.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    References
    ----------
    I. Katakis, G. Tsoumakas, I. Vlahavas, "On the utility of incremental feature selection for
    the classification of textual data streams", PCI 2005.

    Examples
    --------
    >>> spam = np.array([[1, 0, 2], [1, 1, 0], [3, 1, 1]])
    >>> ham = np.array([[0, 1, 1], [0, 0, 0], [0, 1, 1]])
    >>> selector = ChiSquared(1).partial_fit(spam, ["spam"] * 3).partial_fit(ham, ["ham"] * 3)
    >>> selector.weights_
    array([6., 0., 0.])
    """

    aggregate: str = choice("max", "mean")
    forgetting: float = number(0.0, high=1.0, ends="[)")

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {
        "present": Array("K", "J", low=0.0),
        "missing": Array("K", "1|J", low=0.0),
        "rows": Array("K", low=0.0),
        "unit": Value(float, low=1.0, high=_LONGEST_UNIT),
    }

    def _weights(self) -> Floats:
        present = self._present_ / self._unit_
        rows = np.maximum(self._rows_[:, None] - self._missing_, 0.0) / self._unit_
        values = chi_squared(present, rows)
        if self.aggregate == "max":
            return np.asarray(values.max(axis=0))
        total = rows.sum(axis=0)
        return np.asarray((rows * values).sum(axis=0) / np.where(total > 0.0, total, 1.0))

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        self._present_ = np.zeros((0, self.n_features_in_))
        self._missing_, self._rows_, self._unit_ = np.zeros((0, 1)), np.zeros(0), 1.0

    def _step(self, batch: CheckedBatch) -> None:
        X, n_features = batch.X, self.n_features_in_
        codes, before = self._take_whole_labels(batch)
        n_classes = len(self.classes_)
        mass, keep = decay(batch.weight, X.shape[0], self.forgetting)
        if len(self._rows_) < n_classes:
            tables = self._present_, self._missing_, self._rows_
            self._present_, self._missing_, self._rows_ = (
                grown(table, before, self.classes_) for table in tables
            )
        if batch.n_missing and self._missing_.shape[1] < n_features:
            self._missing_ = np.repeat(self._missing_, n_features, axis=1)
        rows, stored = rows_by_class(codes, n_classes, mass), entries(X)
        gaps = np.isnan(stored)
        present = rows @ with_entries(X, ((stored != 0.0) & ~gaps).astype(np.float64))
        missing = rows @ with_entries(X, gaps.astype(np.float64)) if batch.n_missing else None

        # Nothing can fail from here on, so the tables are changed in place: a batch costs no more
        # than its entries. For the same reason old counts are not shrunk. New rows count in a
        # growing unit instead.
        if self._unit_ < _LONGEST_UNIT * keep:
            self._unit_ /= keep
        else:
            for table in (self._present_, self._missing_, self._rows_):
                table *= keep / self._unit_
            self._unit_ = 1.0
        self._rows_ += self._unit_ * rows.sum(axis=1)
        _add(self._present_, self._unit_, present)
        if missing is not None:
            _add(self._missing_, self._unit_, missing)


def chi_squared(present: Floats, rows: Floats) -> Floats:
    """Chi-squared of every class and feature."""
    n, n_present = rows.sum(axis=0), present.sum(axis=0)
    margins = n_present * np.maximum(n - n_present, 0.0) * rows * np.maximum(n - rows, 0.0)
    cross = n * present - n_present * rows  # AD - BC
    return np.where(margins > 0.0, n * cross**2, 0.0) / np.where(margins > 0, margins, 1)


def _add(table: Floats, unit: float, counts: Matrix) -> None:
    """Add counts to a table in place; only stored counts cost time."""
    if isinstance(counts, np.ndarray):
        table += unit * counts
    else:
        rows = np.repeat(np.arange(len(table)), np.diff(counts.indptr))
        table[rows, counts.indices] += unit * counts.data
