"""Figures of what was found, as scikit-learn's displays: made from a run, drawn with matplotlib.

A display keeps what it shows as plain arrays, so that it can be drawn again, or otherwise. ``plot``
draws it onto axes of yours; without any, onto a new figure in the look of the page.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.belief import rank
from fires.core.errors import InputError, closest
from fires.core.optional import require
from fires.core.settings import check_count, check_number
from fires.core.types import Places
from fires.report import figures
from fires.report.figures import COLOURS, GREY, look
from fires.run.features import ByColumn, column_names, groups_of, has_intervals
from fires.run.saved import SavedRun

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from fires.selectors.fires import FIRES


_WIDTH = 7.0

# A run: its folder, what was read of it, or its summary.
RunLike: TypeAlias = str | os.PathLike[str] | SavedRun | dict[str, Any]


class _Display:
    """What displays share: the axes that they are drawn on."""

    ax_: Axes
    figure_: Figure | SubFigure

    @contextmanager
    def _axes(self, ax: Axes | None, height: float) -> Iterator[Axes]:
        """The axes to draw on; new ones have our look."""
        if ax is not None:
            self.ax_, self.figure_ = ax, ax.figure
            yield ax
            return
        pyplot = require("matplotlib.pyplot", type(self).__name__, "plot")
        with figures.style(own_font=False):
            self.figure_, self.ax_ = pyplot.subplots(figsize=(_WIDTH, height), layout="constrained")
            yield self.ax_


@dataclass(eq=False)
class ImportanceDisplay(_Display):
    """The importance of the best features as bars, each with its interval.

    Make it with :meth:`from_selector` or :meth:`from_run`.

    Parameters
    ----------
    names : sequence of str
        The features, the best first.
    importances : ndarray (n_features,)
        Their importances.
    low, high : ndarray (n_features,), optional
        The ends of the intervals. None for methods that have none.
    selected : ndarray of bool (n_features,), optional
        Which of them are selected; these bars are filled. By default, all.
    confidence : float, default=0.95
        The probability of the intervals.
    positive : str, optional
        The label that positive importances favour.

    Attributes
    ----------
    bars_ : matplotlib.container.BarContainer
        The bars.
    ax_, figure_ : matplotlib Axes and Figure
        Where they are.

    Examples
    --------
    >>> from fires import FIRES
    >>> X = np.random.default_rng(0).normal(size=(500, 4))
    >>> selector = FIRES(2).fit(X, X[:, 1] - 0.5 * X[:, 3] > 0)
    >>> display = ImportanceDisplay.from_selector(selector, n_features=3)  # doctest: +SKIP
    """

    names: Sequence[str]
    importances: Any
    _: KW_ONLY
    low: Any = None
    high: Any = None
    selected: Any = None
    confidence: float = 0.95
    positive: str | None = None

    def __post_init__(self) -> None:
        self.importances, self.low, self.high = map(
            _floats, (self.importances, self.low, self.high)
        )
        chosen = np.ones(len(self.names)) if self.selected is None else self.selected
        self.selected = np.asarray(chosen, dtype=bool)

    @classmethod
    def from_selector(
        cls,
        selector: Any,
        *,
        n_features: int = 20,
        confidence: float = 0.95,
        feature_names: Sequence[str] | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw what a selector has learnt.

        Parameters
        ----------
        selector : OnlineSelector, ArrivingFeatures or OnlinePipeline
            What has learnt. Features of one group, such as those that a category becomes, have one
            bar.
        n_features : int, default=20
            How many features: the selected ones, and as many others as there is room for, by rank.
        confidence : float, default=0.95
            The probability of the intervals.
        feature_names : sequence of str, optional
            What the features are called, where they came without names.
        ax : matplotlib Axes, optional
            What to draw on.
        **kwargs
            Properties of the bars.

        Returns
        -------
        ImportanceDisplay
        """
        check_count("n_features", n_features)
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        selector = getattr(selector, "selector", selector)  # of a pipeline
        support = selector.get_support()  # raises NotFittedError
        names = _names(selector, feature_names)
        seen: FIRES | ByColumn = selector
        if groups_of(selector) is not None:
            seen, names = ByColumn(selector), column_names(selector, names)
            support = seen.get_support()
        classes: Sequence[Hashable] = getattr(selector, "classes_", ())
        importances = getattr(seen, "importances_", None)
        low, high = seen.interval(confidence) if has_intervals(selector) else (None, None)
        shown = seen.weights_ if importances is None else importances
        table = {"names": names, "importances": shown, "low": low, "high": high}
        is_signed = len(classes) == 2 and importances is not None and seen is selector
        is_signed &= not np.any(getattr(selector, "unsigned_", False))
        more = {"confidence": confidence, "positive": str(classes[1]) if is_signed else None}
        best = cls._best(n_features, rank(seen.weights_), table | {"selected": support}, **more)
        return best.plot(ax, **kwargs)

    @classmethod
    def from_run(
        cls, run: RunLike, *, n_features: int = 20, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw what a run has come to.

        Parameters
        ----------
        run : path, SavedRun or dict
            The folder that ``fires select --out`` made, or its :mod:`fires.report.summary`.
        n_features, ax, **kwargs
            As in :meth:`from_selector`.

        Returns
        -------
        ImportanceDisplay
        """
        check_count("n_features", n_features)
        summary = _summary(run)
        now, facts = summary["now"], summary["run"]
        classes: Sequence[Hashable] = facts["classes"] or ()
        low, high = (now["low"], now["high"]) if facts["intervals"] else (None, None)
        table = {"names": now["name"], "importances": now["importance"], "low": low, "high": high}
        table["selected"] = now["selected"]
        unsigned = summary["groups"] or (summary.get("relations") or {}).get("unsigned")
        positive = str(classes[1]) if len(classes) == 2 and not unsigned else None
        return cls._best(n_features, now["rank"], table, positive=positive).plot(ax, **kwargs)

    @classmethod
    def _best(
        cls, n_features: int, ranks: npt.ArrayLike, table: dict[str, Any], **more: Any
    ) -> Self:
        """The display of the first features, of a table of all."""
        order = _first(ranks, table["selected"], n_features).tolist()
        for name, of in table.items():
            more[name] = None if of is None else [of[at] for at in order]
        return cls(**more)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw it.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            What to draw on; by default, a new figure.
        **kwargs
            Properties of the bars.

        Returns
        -------
        self
        """
        with self._axes(ax, min(1.0 + 0.24 * max(len(self.names), 2), 14.0)) as axes:
            places = np.arange(len(self.names))
            looks: dict[str, Any] = {"height": 0.7, "color": COLOURS[0]} | kwargs
            self.bars_ = axes.barh(places, self.importances, **looks)
            for place in np.flatnonzero(~self.selected).tolist():
                bar = self.bars_[place]
                bar.set(edgecolor=bar.get_facecolor(), fill=False, linewidth=1)
            if self.low is not None and self.high is not None:
                known = np.isfinite(self.low + self.high)
                dark = axes.xaxis.label.get_color()
                ends = self.low[known], self.high[known]
                axes.hlines(places[known], *ends, color=dark, linewidth=1.2, zorder=3)
            axes.axvline(0.0, color=GREY, linewidth=0.8)
            figures.name_rows(axes, self.names)
            axes.set_ylim(len(self.names) - 0.4, -0.6)
            within = toward = ""
            if self.low is not None:
                within = f" with {100 * self.confidence:.4g} % interval"
            if self.positive is not None:
                toward = f"\npositive values favour {figures.cut(self.positive, figures.SHORTER)}"
            # Below names there is room for a label that is wider than the axes.
            side: Literal["right", "center"] = "right" if figures.is_narrow(axes) else "center"
            axes.set_xlabel(f"importance{within}{toward}", parse_math=False, loc=side)
            if not self.selected.all():
                axes.set_title("filled: selected", loc="left", fontsize="small")
        return self


@dataclass(eq=False)
class TimelineDisplay(_Display):
    """The importance of some features over time, with bands and alarms.

    Make it with :meth:`from_run`.
    """

    names: Sequence[str]
    rows: Any
    importances: Any
    _: KW_ONLY
    uncertainties: Any = None
    alarms: Sequence[tuple[int, str | None]] = ()
    confidence: float = 0.95

    def __post_init__(self) -> None:
        self.rows = _floats(self.rows)
        shape = len(self.names), len(self.rows)
        self.importances = _floats(self.importances).reshape(shape)
        if self.uncertainties is not None:
            self.uncertainties = _floats(self.uncertainties).reshape(shape)

    @classmethod
    def from_run(
        cls,
        run: RunLike,
        *,
        n_features: int = 8,
        features: Sequence[str] | None = None,
        confidence: float = 0.95,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw how the importances of a run have changed."""
        check_count("n_features", n_features)
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        summary = _summary(run)
        timeline, events = summary["timeline"], summary["events"]
        series = timeline["series"][:n_features]
        if features is not None:
            known = {one["name"]: one for one in timeline["series"]}
            for name in (name for name in features if name not in known):
                hint = closest(name, list(known), "it was never among the features that mattered")
                raise InputError(f'the run keeps no history of a feature "{name}"', hint=hint)
            series = [known[name] for name in features]
        # NaN at rows that a series has nothing for.
        spread = np.full((2, len(series), len(timeline["rows"])), np.nan)
        for place, one in enumerate(series):
            at = timeline["coarse"] if one.get("coarse") else slice(None)
            spread[:, place, at] = _floats([one["importance"], one["uncertainty"]])
        alarms = [(one["row"], of) for one in events for of in one["features"] or (None,)]
        return cls(
            [one["name"] for one in series],
            timeline["rows"],
            spread[0],
            uncertainties=spread[1] if summary["run"]["intervals"] else None,
            alarms=alarms,
            confidence=confidence,
        ).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw it."""
        half_width = NormalDist().inv_cdf(0.5 + 0.5 * self.confidence)
        with self._axes(ax, 3.6) as axes:
            axes.axhline(0.0, color=GREY, linewidth=0.8)
            self.lines_, last = [], []
            for place, (name, values) in enumerate(zip(self.names, self.importances, strict=True)):
                known = np.isfinite(values)
                rows, values = self.rows[known], values[known]
                how = look(place)
                drawn = figures.line(axes, rows, values, how, name, place=place, **kwargs)
                self.lines_.append(drawn)
                last.append(values[-1] if len(values) else -np.inf)
                if self.uncertainties is not None:
                    ends = half_width * self.uncertainties[place, known]
                    axes.fill_between(
                        rows, values - ends, values + ends, color=drawn.get_color(), alpha=0.18,
                        linewidth=0,
                    )  # fmt: skip
                at = [row for row, feature in self.alarms if feature == name]
                if at and len(rows):
                    heights = np.interp(at, rows, values)
                    axes.plot(at, heights, "v", color=drawn.get_color(), markersize=8, zorder=4)
            marks = [
                axes.axvline(row, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
                for row, name in self.alarms
                if name is None
            ]
            # The first bands are wider than all that follows.
            low, high = (end(np.append(self.importances, 0.0)) for end in (np.nanmin, np.nanmax))
            room = 0.15 * (high - low) or 1.0
            axes.set_ylim(low - room, high + room)
            axes.set_ylabel("importance")
            figures.rows_axis(axes, float(self.rows[-1]) if len(self.rows) else 1.0)
            # As they are on top of each other at the end.
            order = np.argsort(-np.array(last), kind="stable")
            shown = [(self.names[place], self.lines_[place]) for place in order.tolist()]
            if any(name in self.names for _, name in self.alarms):
                (mark,) = axes.plot([], [], "v", color=GREY, markersize=7)
                shown.append(("alarm about it", mark))
            figures.legend_outside(axes, [*shown, *[("alarm about all", one) for one in marks[:1]]])
        return self


def _summary(run: RunLike) -> dict[str, Any]:
    """The summary of a run, unless it is one."""
    from fires.report.summary import folder_of, summarise

    if isinstance(run, dict):
        return run
    return summarise(folder_of(run, "a run is a path, a SavedRun or its summary"))


def _floats(values: Any) -> Any:
    """Numbers, NaN for None among them; None if there are none."""
    return None if values is None else np.array(values, dtype=np.float64)


def _names(selector: FIRES, given: Sequence[str] | None) -> tuple[str, ...]:
    """What the features of a selector are called."""
    n_features = selector.n_features_in_
    known = selector.known_names if given is None else given
    if known is None:
        return tuple(f"x{place}" for place in range(n_features))
    if len(known) != n_features:
        raise ValueError(f"feature_names has {len(known)} names for {n_features} features.")
    return tuple(map(str, known))


def _first(ranks: npt.ArrayLike, selected: npt.ArrayLike, n: int) -> Places:
    """The places of n features by rank; selected ones come before others, if not all have room."""
    by = np.array(ranks, dtype=np.float64)
    wanted = np.lexsort((by, ~np.asarray(selected, dtype=bool)))[:n]
    return wanted[np.argsort(by[wanted], kind="stable")]
