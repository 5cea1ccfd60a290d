"""Screening: how strongly each feature, on its own, goes with the target."""

from __future__ import annotations

from collections.abc import Hashable
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import are_numbers
from fires.core.declared import Declared, Value, collect, restart
from fires.core.settings import check_choice
from fires.core.state import Arrays, State
from fires.core.types import Estimator, Floats, Header, Places
from fires.core.validation import as_numbers
from fires.rivals import moments
from fires.rivals.counting import check_forgetting, decay, grown
from fires.rivals.moments import MOMENTS, Moments
from fires.selectors.base import OnlineSelector

if TYPE_CHECKING:
    from fires.models.base import BaseModel


_EPS = float(np.finfo(np.float64).eps)


class Screening(OnlineSelector):
    r"""Features ranked one by one by their correlation with the target, or by its F statistic.

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

    Every batch is summed about its own means and merged into the running sums, so that an offset
    of a column or target costs no digits (Chan, Golub, LeVeque 1983). The scale and the offset of
    a column do not matter. A missing entry is left out of its column. A feature or target that has
    not varied yet scores 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    measure : {"correlation", "f"}, default="correlation"
        What features are ranked by. The order differs only if entries are missing: F also grows
        with the number of rows. It stays finite where a feature separates the classes perfectly.
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
        The score and the rank (1 is best) of every feature. Read-only, and yours to keep.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

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

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {"numeric": Value(bool)}
    _for_numbers = "say target='numbers'."

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

    def _weighting(self) -> tuple[Hashable, ...]:
        return (self.measure,)

    def _weights(self) -> Floats:
        m = self._moments_
        share = moments.by_numbers(m) if self._numeric_ else moments.by_classes(m)
        if self.measure == "correlation":
            return np.sqrt(share)
        groups = 2 if self._numeric_ else np.maximum((m.z > 0.0).sum(axis=0), 2)
        freedom = np.maximum(m.n - groups, 0.0) / (groups - 1)
        # A share of 1 is only known up to rounding, so F is bounded.
        weights: Floats = share / np.maximum(1.0 - share, _EPS) * freedom
        return weights

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        X, y, missing = batch.X, batch.y, batch.n_missing > 0
        assert y is not None
        if not hasattr(self, "_moments_"):
            self._numeric_ = are_numbers(y, batch.classes, self.target)
        mass, keep = decay(batch.weight, X.shape[0], self.forgetting)
        before: Moments | None = getattr(self, "_moments_", None)
        if self._numeric_:
            if batch.classes is not None:
                raise ValueError("classes is for class labels; this selector learns numbers.")
            numbers = as_numbers(y, "Screening")
            new = moments.of_numbers(X, numbers, mass, missing)
        else:
            codes, known = self._take_whole_labels(batch)
            new = moments.of_classes(X, codes, len(self.classes_), mass, missing)
            if before is not None and known is not None and len(known) < len(self.classes_):
                tables = (grown(table, known, self.classes_) for table in before[4:])
                before = Moments(*before[:4], *tables)
        with np.errstate(over="ignore", invalid="ignore"):
            merged = new if before is None else moments.merge(before, new, keep)
        if not all(np.isfinite(part).all() for part in merged):
            raise ValueError("Input X or y holds values so large that sums overflow; rescale them.")
        self._moments_ = merged

    def _restart_features(self, columns: Places) -> None:
        found = SimpleNamespace(**self._moments_._asdict())
        restart(found, MOMENTS, columns, self.n_features_in_)
        self._moments_ = Moments(**vars(found))

    def _check_parameters(self) -> None:
        check_choice("measure", self.measure, ("correlation", "f"))
        check_choice("target", self.target, ("auto", "classes", "numbers"))
        check_forgetting(self.forgetting)

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        return super()._state()[0], collect(self._moments_, MOMENTS)[1]

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        super()._restore(header, arrays, model)
        sizes = self._sizes()
        sizes["T"] = 1 if self._numeric_ else sizes["K"]
        parts = (part.read(name, header, arrays, sizes) for name, part in MOMENTS.items())
        self._moments_ = Moments(*parts)
