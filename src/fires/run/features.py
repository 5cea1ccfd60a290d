"""What was learnt, feature by feature or column by column, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core.belief import rank
from fires.core.named import RunNames
from fires.core.output import csv_text
from fires.core.types import Floats, Header, Labels, Mask, Places

if TYPE_CHECKING:
    import polars as pl

    from fires.run.totals import Change, RunTotals
    from fires.selectors.fires import FIRES


class ByColumn:
    """A selector as its users see it: one entry for each group of features.

    Examples
    --------
    >>> from fires import FIRES
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> selector = FIRES(1, groups=["town", "town", "age"]).fit(X, X[:, 1] > 0)
    >>> seen = ByColumn(selector)
    >>> seen.ranking_, seen.get_support()
    (array([1, 2]), array([ True, False]))
    """

    def __init__(self, selector: FIRES) -> None:
        self._selector = selector
        groups = selector.groups_
        assert groups is not None
        self.groups = groups
        belief = selector.group_belief()
        self.importances_: Floats = belief.mu
        self.uncertainties_: Floats = belief.sigma
        self.first = np.unique(self.groups, return_index=True)[1]
        self.weights_: Floats = selector.weights_[self.first]
        self.ranking_ = rank(self.weights_)

    @property
    def classes_(self) -> Labels:
        """The classes that the selector tells apart."""
        return self._selector.classes_

    def get_support(self) -> Mask:
        """Which groups are selected."""
        return self._selector.get_support()[self.first]

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """The interval of each importance; not below 0 for several features, or without a sign."""
        half_width = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * self.uncertainties_
        unsigned = (np.bincount(self.groups) > 1) | self._selector.unsigned_[self.first]
        low = self.importances_ - half_width
        return np.where(unsigned, np.maximum(low, 0.0), low), self.importances_ + half_width

    @property
    def class_importances_(self) -> Floats:
        """For each class, how much the groups matter for it."""
        by_class = self._selector.class_importances_
        several = np.bincount(self.groups) > 1
        squares = np.array([np.bincount(self.groups, weights=row * row) for row in by_class])
        return np.asarray(np.where(several, np.sqrt(squares), by_class[:, self.first]))


def classes_of(selector: FIRES) -> list[Any] | None:
    """The classes that a selector tells apart; None if its target holds numbers."""
    return selector.classes_.tolist() if len(selector.label_index) else None


def groups_of(selector: FIRES) -> Places | None:
    """The group of each feature; None if there are no groups, as in every rival."""
    return getattr(selector, "groups_", None)


def has_intervals(selector: FIRES) -> bool:
    """Whether the uncertainty of an importance is a standard deviation."""
    from fires.models.linear import Linear  # who only reads what was written needs no model

    learns_by_bayes = getattr(selector, "update", None) == "bayes"
    return learns_by_bayes and isinstance(selector.model_, str | Linear)


def column_names(selector: FIRES, names: Sequence[str]) -> tuple[str, ...]:
    """What the groups of a selector are called."""
    groups = selector.groups_
    assert groups is not None
    return tuple(selector.called(place, names) for place in range(groups.max() + 1))


def feature_rows(
    selector: FIRES, names: Sequence[str], totals: RunTotals, columns: Places | None = None
) -> list[Header]:
    """Features as plain values, best first."""
    return _feature_table(selector, names, totals, columns).to_dicts()


def features_csv(selector: FIRES, names: Sequence[str], totals: RunTotals) -> str:
    """All features as CSV, with those at the end that came and went, and were forgotten."""
    import polars as pl

    table = _feature_table(selector, names, totals)
    if isinstance(names, RunNames):
        met = pl.DataFrame({"feature": list(names), "share_selected": _shares(totals, names)})
        gone = met.join(table, on="feature", how="anti", maintain_order="left")
        gone = gone.with_columns(selected=pl.lit(False), absent=pl.lit(True))
        table = pl.concat([table, gone], how="diagonal")
    return csv_text(table.columns, table.iter_rows())


def _feature_table(
    selector: FIRES, names: Sequence[str], totals: RunTotals, columns: Places | None = None
) -> pl.DataFrame:
    """The columns of :func:`feature_rows`: a million features are too many for a dict each."""
    import polars as pl

    share, absent = _shares(totals, names), None
    if isinstance(names, RunNames):
        known = selector.feature_names_in_.tolist()
        share = share[names.places(known)]
        names, absent = known, np.isin(known, selector.absent_)
    seen: FIRES | ByColumn = selector
    if groups_of(selector) is not None:  # what the user knows are columns
        seen = by_column = ByColumn(selector)
        columns = None if columns is None else np.unique(by_column.groups[columns])
        names, share = column_names(selector, names), share[by_column.first]
    ranking = seen.ranking_
    order = np.argsort(ranking)
    if columns is not None:
        order = columns[np.argsort(ranking[columns])]
    by_class = seen.class_importances_
    low, high = seen.interval()
    is_known = has_intervals(selector)
    table = {
        "rank": ranking[order],
        "feature": [names[column] for column in order.tolist()],
        "weight": seen.weights_[order],
        "importance": seen.importances_[order],
        "uncertainty": seen.uncertainties_[order],
        "low": low[order] if is_known else None,
        "high": high[order] if is_known else None,
        "above_noise": selector.is_significant()[order] if is_known else None,
        "selected": seen.get_support()[order],
        "share_selected": share[order],
    }
    if absent is not None:
        table["absent"] = absent[order]
    if getattr(selector, "relations_", "linear") != "linear":
        table["relation"] = _relations(selector)[order]
    by_class = by_class[:, order]
    if len(by_class) >= 3:
        # The class whose coefficient is the importance; by gradient, that is a mean of all.
        own = by_class == table["importance"]
        best = np.where(own.any(axis=0), own, np.abs(by_class)).argmax(axis=0)
        table["class"] = seen.classes_[best].tolist()
    return pl.DataFrame(table)


def _relations(selector: FIRES) -> Labels:
    """What the effect of each feature is made of, or that of a column."""
    n, known = selector.n_features_in_, selector.known_names
    ends = [end for pair in selector.pairs_ for end in pair[:2]]
    kind = selector.curved_ + 2 * np.isin(np.arange(n) if known is None else known, ends)
    if (groups := groups_of(selector)) is not None:
        features, kind = kind, np.zeros(groups.max() + 1, dtype=np.int64)
        np.bitwise_or.at(kind, groups, features)
    return np.array(["line", "curve", "line, pairs", "curve, pairs"])[kind]


def _shares(totals: RunTotals, names: Sequence[str]) -> Floats:
    """The share of batches that selected each feature, also of those that none ever did."""
    share = totals.share_selected
    return np.pad(share, (0, max(len(names) - len(share), 0)))


def alarm_rows(selector: FIRES, names: Sequence[str], totals: RunTotals) -> list[Header]:
    """The alarms of a run as plain values."""
    known = selector.feature_names_in_ if isinstance(names, RunNames) else names
    return [
        alarm._asdict()
        | {"feature": None if alarm.feature is None else known[alarm.feature]}
        | _change_row(totals.changes.by_batch.get(alarm.batch), names)
        for alarm in selector.alarms_
    ]


def twin_names(selector: FIRES, names: Sequence[str]) -> dict[str, list[str]]:
    """Which selected feature stands for which others, by name."""

    def called(feature: int | str) -> str:
        return str(feature if isinstance(feature, str) else names[feature])

    found = selector.twins_ if has_intervals(selector) and selector.score == "auto" else {}
    return {called(one): list(map(called, others)) for one, others in found.items()}


def _change_row(change: Change | None, names: Sequence[str]) -> Header:
    if change is None:
        return {}
    return {
        "left": list(dict.fromkeys(names[column] for column in change.left)),
        "came": list(dict.fromkeys(names[column] for column in change.came)),
        "flipped": [names[column] for column in change.flipped],
        "before": change.before | {"batches": change.n_before},
        "after": change.after | {"batches": change.n_after},
    }
