"""The look of the figures: ours and nobody else's, whatever matplotlib is set to."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fires.core.files import replace_file
from fires.core.optional import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Look(NamedTuple):
    """The colour, dashes and mark of a line or point, and what to say of it besides."""

    colour: str
    dashes: str
    mark: str
    note: str = ""


# Colours that stay apart for the colour-blind (Okabe and Ito); dashes and marks in grey print too.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#7f4fc9", "#8c564b")
GREY = "#808080"
FAINT = 0.18  # how much is seen of a band
DPI = 130  # a PNG of the busiest figure stays below 200 KB
_DASHES, _MARKS = ("-", "--", "-."), "os^DvP*X"
_STYLE = resources.files("fires.report").joinpath("figures.mplstyle")


def look(place: int) -> Look:
    """The look of the line or point at a place: no two of the first 24 are alike."""
    turn, place = divmod(place, len(COLOURS))
    return Look(COLOURS[place], _DASHES[turn % len(_DASHES)], _MARKS[place])


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        What to write.
    folder : Path
        Where to.
    name : str
        The name of the files, without their endings.

    Returns
    -------
    list of Path
        What was written.
    """
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
