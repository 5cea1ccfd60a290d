"""What figures of runs and comparisons are made of: each function draws onto axes it is given.

The displays of :mod:`fires.report.displays` and the paper's figures (:mod:`fires.bench.drawing`)
are put together from these. Names of features may be anything: none is taken for mathematics, and
long ones are cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires.core.optional import require
from fires.core.types import Floats
from fires.report.figure_style import COLOURS, GREY, Look

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection, QuadMesh
    from matplotlib.container import BarContainer
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox


LONGEST, SHORTER = 28, 16
"""The most characters of a name that are shown, in wide axes and in narrow ones."""

_NARROW, _BELOW = 4.0, 0.5  # inches: axes narrower than that; what ticks and title take below them
_SMALLEST = 5.0  # points: letters below that cannot be read


def is_narrow(axes: Axes) -> bool:
    """Whether names beside the axes would leave little of them."""
    return bool(_inches(axes).width < _NARROW)


def _inches(axes: Axes) -> Bbox:
    """The place of the axes in their figure, in inches."""
    return axes.get_window_extent().transformed(axes.figure.dpi_scale_trans.inverted())


def cut(name: str, longest: int = LONGEST) -> str:
    """A name in one line, its middle left out if it is long."""
    # What has no shape of its own would be drawn as a box; ends of names often tell them apart.
    name = "".join(sign if sign.isprintable() else " " for sign in str(name))
    ends = (longest - 1) * 2 // 5
    return name if len(name) <= longest else f"{name[: longest - 1 - ends]}…{name[-ends:]}"


def rows_axis(axes: Axes, last: float | None = None) -> None:
    """Let the horizontal axis count rows, from 0 on."""
    ticker = require("matplotlib.ticker", "drawing figures", "plot")
    axes.set_xlim(0, last)
    most = 3 if is_narrow(axes) else 5
    axes.xaxis.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 5, 10], integer=True))
    axes.xaxis.set_major_formatter(
        ticker.FuncFormatter(lambda x, _: f"{x / 1e6:,.6g} M" if x >= 1e6 else f"{x:,.0f}")
    )
    axes.set_xlabel("rows seen")


def line(
    axes: Axes, rows: Floats, values: Floats, look: Look, label: str, *, place: int = 0, **how: Any
) -> Line2D:
    """A line over rows; its marks are few, and at other rows than those of other lines.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        What to draw on.
    rows, values : array-like
        Where, and how much; NaN leaves a gap.
    look : Look
        Colour, dashes and mark.
    label : str
        What the legend calls it.
    place : int
        The how manieth line it is, so that lines that coincide can be told apart by their marks.
    **how
        Other properties of the line.

    Returns
    -------
    matplotlib.lines.Line2D
    """
    every = max(1, len(rows) // 8)
    looks: dict[str, Any] = {
        "color": look.colour,
        "linestyle": look.dashes,
        "marker": look.mark,
        "markersize": 4,
        "markevery": (place * every // 8 % every, every),
    }
    (drawn,) = axes.plot(rows, values, label=label, **(looks | how))
    return drawn


def level(axes: Axes, value: float, look: Look, label: str, **how: Any) -> Line2D:
    """A line at one height, to compare others with.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        What to draw on.
    value : float
        The height.
    look, label, **how
        As in :func:`line`.

    Returns
    -------
    matplotlib.lines.Line2D
    """
    looks = {"color": look.colour, "linestyle": look.dashes, "label": label}
    return axes.axhline(value, **(looks | how))


def point(
    axes: Axes,
    x: float,
    y: float,
    look: Look,
    label: str,
    *,
    spreads: tuple[float, float] = (np.nan, np.nan),
    **how: Any,
) -> PathCollection:
    """A point that stands for a method, with how far it spreads.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        What to draw on.
    x, y : float
        Where it is.
    look, label, **how
        As in :func:`line`.
    spreads : pair of float
        To both sides of ``x`` and of ``y``; NaN if not known.

    Returns
    -------
    matplotlib.collections.PathCollection
    """
    across, along = (None if np.isnan(spread) else spread for spread in spreads)
    if across is not None or along is not None:
        axes.errorbar(
            x, y, xerr=across, yerr=along, color=look.colour, linewidth=1, capsize=2, fmt="none"
        )
    looks: dict[str, Any] = {
        "s": 16,
        "color": look.colour,
        "marker": look.mark or "o",
        "label": label,
        "zorder": 3,
    }
    return axes.scatter(x, y, **(looks | how))


def alarm_lines(axes: Axes, rows: Sequence[float]) -> list[Line2D]:
    """Mark the rows at which something has changed."""
    return [axes.axvline(row, color=GREY, linestyle=":", linewidth=1.2, zorder=1) for row in rows]


def bars(
    axes: Axes,
    names: Sequence[str],
    values: npt.ArrayLike,
    *,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
    selected: npt.ArrayLike | None = None,
    **how: Any,
) -> BarContainer:
    """One bar for each name, the first on top, with its interval; what is not selected is empty."""
    lengths = np.asarray(values, dtype=np.float64)
    filled = np.ones(len(lengths), dtype=bool) if selected is None else np.asarray(selected, bool)
    places = np.arange(len(lengths))
    looks: dict[str, Any] = {"height": 0.7, "color": COLOURS[0]} | how
    drawn = axes.barh(places, lengths, **looks)
    for bar, is_filled in zip(drawn, filled.tolist(), strict=True):
        if not is_filled:
            bar.set(edgecolor=bar.get_facecolor(), fill=False, linewidth=1)
    if low is not None and high is not None:
        ends = np.array([low, high], dtype=np.float64)
        known = np.isfinite(ends).all(axis=0)
        dark = axes.xaxis.label.get_color()
        axes.hlines(places[known], *ends[:, known], color=dark, linewidth=1.2, zorder=3)
    axes.axvline(0.0, color=GREY, linewidth=0.8)
    name_rows(axes, names)
    axes.set_ylim(len(lengths) - 0.4, -0.6)
    return drawn


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write names beside the rows of a figure, the first at height 0."""
    longest = SHORTER if is_narrow(axes) else LONGEST
    points = 0.7 * 72.0 * _inches(axes).height / max(len(names), 1)
    every = int(np.ceil(_SMALLEST / points))  # if not all of them can be read, some of them
    shown = np.arange(0, len(names), every)
    axes.set_yticks(shown, [cut(names[place], longest) for place in shown.tolist()])
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    for text in axes.get_yticklabels():
        text.set(parse_math=False, fontsize=min(text.get_fontsize(), every * points))


def raster(
    axes: Axes, names: Sequence[str], edges: npt.ArrayLike, values: Floats, shares: Floats
) -> QuadMesh | None:
    """One row for each name, coloured where it was there: the greater the value, the darker."""
    colours = require("matplotlib.colors", "drawing figures", "plot")
    # From pale, not white, to dark, so that what was there is always seen.
    scale = colours.LinearSegmentedColormap.from_list("fires", ["#bcd9ec", "#0072b2", "#06283d"])
    name_rows(axes, names)
    axes.grid(visible=False)
    if not values.size:
        return None
    known = np.array([_filled(row) for row in values])
    shown = np.ma.masked_where(~(shares > 0.0), known)
    greatest = float(shown.max()) if shown.count() else 0.0
    mesh = axes.pcolormesh(
        np.asarray(edges, dtype=np.float64),
        np.arange(len(names) + 1) - 0.5,
        shown,
        cmap=scale,
        vmin=0.0,
        vmax=greatest or 1.0,
        alpha=0.3 + 0.7 * np.nan_to_num(shares),  # type: ignore[arg-type] # an array is fine
        rasterized=True,
    )
    axes.set_ylim(len(names) - 0.5, -0.5)
    return mesh


def _filled(values: Floats) -> Floats:
    """The values of neighbours where there are none; 0 if there are none at all."""
    known = np.flatnonzero(np.isfinite(values))
    if not len(known):
        return np.zeros_like(values)
    filled: Floats = np.interp(np.arange(len(values)), known, values[known])
    return filled


def legend_outside(axes: Axes, named: Sequence[tuple[str, Artist]]) -> None:
    """A legend to the right of the axes, or below them where they are narrow."""
    transforms = require("matplotlib.transforms", "drawing figures", "plot")
    where: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5), "fontsize": 8}
    longest = LONGEST
    if is_narrow(axes):
        inches = axes.figure.dpi_scale_trans
        below = axes.transAxes + transforms.ScaledTranslation(0.0, -_BELOW, inches)
        where = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "bbox_transform": below}
        columns = 1 if len(named) <= 3 else 2
        where |= {"ncols": columns, "fontsize": 7, "columnspacing": 1.0, "borderpad": 0.0}
        longest = LONGEST if columns == 1 else SHORTER + 6
    # A label that begins with _ would be left out.
    names = [f"{' ' * name.startswith('_')}{cut(name, longest)}" for name, _ in named]
    drawn = axes.legend([artist for _, artist in named], names, frameon=False, **where)
    for text in drawn.get_texts():
        text.set_parse_math(False)


def fewer_spans(
    rows: npt.ArrayLike, values: npt.ArrayLike, n_rows: npt.ArrayLike, most: int = 40
) -> tuple[Floats, Floats]:
    """Means over neighbouring spans, by their rows: not more points than the eye can follow."""
    rows, values, n_rows = (np.asarray(given, dtype=np.float64) for given in (rows, values, n_rows))
    if not len(rows):
        return rows, values
    parts = min(most, len(rows))
    first = np.arange(parts) * len(rows) // parts
    weights = np.where(np.isnan(values), 0.0, n_rows)
    sums = np.add.reduceat(weights * np.nan_to_num(values), first)
    mass = np.add.reduceat(weights, first)
    means = np.divide(sums, mass, out=np.full(parts, np.nan), where=mass > 0.0)
    return rows[np.append(first[1:], len(rows)) - 1], means
