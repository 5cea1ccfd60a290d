"""What figures of runs and of the paper are made of: one look, and parts drawn onto given axes.

The displays of :mod:`fires.report.displays` and the paper's figures (:mod:`fires.bench.figures`)
are put together from these. Names of features may be anything: none is taken for mathematics, and
long ones are cut. The look is ours and nobody else's, whatever matplotlib is set to.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fires.core.files import replace_file
from fires.core.optional import require
from fires.core.types import Floats

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.transforms import Bbox


class Look(NamedTuple):
    """The colour, dashes and mark of a line or point, and what to say of it besides."""

    colour: str
    dashes: str
    mark: str
    note: str = ""


# Colours that stay apart for the colour-blind (Okabe and Ito); dashes and marks in grey print too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f4fc9", "#8c564b")
GREY = "#808080"
DPI = 130  # a PNG of the busiest figure stays below 200 KB
_DASHES, _MARKS = ("-", "--", "-."), "os^DvP*X"
_STYLE = resources.files("fires.report").joinpath("figures.mplstyle")
# The most characters of a name that are shown, in wide axes and in narrow ones.
LONGEST, SHORTER = 28, 16

_NARROW, _BELOW = 4.0, 0.5  # inches: axes narrower than that; what ticks and title take below them
_SMALLEST = 5.0  # points: letters below that cannot be read


def look(place: int) -> Look:
    """The look of the line or point at a place: no two of the first 24 are alike."""
    turn, place = divmod(place, len(COLOURS))
    return Look(COLOURS[place], _DASHES[turn % len(_DASHES)], _MARKS[place])


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes."""
    paths = [folder / f"{name}.{kind}" for kind in ("png", "svg")]
    with style():
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            picture = io.BytesIO()
            figure.savefig(picture, format=path.suffix[1:], dpi=DPI, metadata=metadata)
            replace_file(path, picture.getvalue())
    return paths


@contextmanager
def style(*, own_font: bool = True) -> Iterator[None]:
    """Our look and nobody else's, for as long as it lasts."""
    looks = require("matplotlib.style", "drawing figures", "plot")
    settings = require("matplotlib", "drawing figures", "plot").rcParams
    fonts = {} if own_font else {key: settings[key] for key in ("font.family", "font.sans-serif")}
    with looks.context(["default", str(_STYLE), fonts]):
        yield


@contextmanager
def new_figure(title: str, settings: str, height: float) -> Iterator[Any]:
    """An empty figure, and our look while it is drawn."""
    with style():
        matplotlib = require("matplotlib.figure", "drawing figures", "plot")
        figure = matplotlib.Figure(figsize=(7.0, height), layout="constrained")
        figure.suptitle(f"{title}\n{settings}")
        yield figure


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
    """A line over rows; its marks are few, and at other rows than those of other lines."""
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
    """A line at one height, to compare others with."""
    return axes.axhline(value, color=look.colour, linestyle=look.dashes, label=label, **how)


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
