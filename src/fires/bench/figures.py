"""The figures of the paper: what they show is computed first, kept as JSON, and then drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from fires.bench.cells import METHODS, Cell
from fires.core.belief import Floats
from fires.core.errors import MissingExtra
from fires.core.optional import require
from fires.core.storage import replace_file
from fires.core.version import __version__
from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step
from fires.streams import datasets

BATCH_SIZE, FRACTION, WINDOW = 100, 0.1, 10
PENALTIES = tuple(10.0**power for power in range(-4, 5))
DIGITS = (3, 8, 9)
DIGIT_ROWS, DIGIT_FRACTION = 1_000, 0.147  # M = 115 of 784 pixels
DIGIT_METHODS = ("FIRES-ANN", "OFS", "EFS", "FSDS")
QUICK_ROWS = 3_000

# Colours that stay apart for the colour-blind (Okabe and Ito); dashes and marks in grey print too.
_LOOK: dict[str, tuple[str, str, str]] = {
    "FIRES-GLM": ("#0072b2", "-", "o"),
    "FIRES-ANN": ("#d55e00", "-", "s"),
    "FIRES-SDT": ("#009e73", "-", "^"),
    "OFS": ("#cc79a7", "--", "D"),
    "EFS": ("#b8860b", "--", "v"),
    "FSDS": ("#56b4e9", "--", "P"),
    "random features": ("#808080", ":", "*"),
    "all features": ("#000000", ":", ""),
}
_OTHER = ("#000000", "-", "")
_DPI = 200
_LARGEST = 900.0  # the area of a circle, in square points
_STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "axes.axisbelow": True,
    "lines.linewidth": 1.5,
    "legend.frameon": False,
    "svg.hashsalt": "fires",  # else the names inside an SVG are random
    "image.interpolation": "nearest",
}


@dataclass(frozen=True, eq=False)
class Run:
    """What a method did over time: one entry per step.

    Parameters
    ----------
    rows : ndarray
        Rows seen by the end of each step.
    accuracy, stability : ndarray
        Of each step; NaN where it is undefined.
    stopped : str
        Why the method did not come to the end of the stream; empty if it did.
    """

    rows: Floats
    accuracy: Floats
    stability: Floats
    stopped: str = ""

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """The run whose records these are, up to where the method fails if it does.

        The paper's own net does: its parameters grow until they are no numbers any more.
        """
        found, stopped = [], ""
        try:
            for step in steps:
                found.append((step.position.rows, step.scores["accuracy"], step.stability))
        except ValueError as error:
            stopped = str(error)
        rows, accuracy, stability = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return cls(rows, accuracy, stability, stopped)

    def as_dict(self) -> dict[str, Any]:
        """The run as JSON values; NaN is None."""
        series = {name: getattr(self, name).tolist() for name in ("rows", "accuracy", "stability")}
        plain = {k: [None if v != v else v for v in values] for k, values in series.items()}
        return plain | {"stopped": self.stopped}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The run of :meth:`as_dict`."""
        names = ("rows", "accuracy", "stability")
        rows, accuracy, stability = (np.array(values[n], dtype=np.float64) for n in names)
        return cls(rows, accuracy, stability, values["stopped"])


class Pixels(NamedTuple):
    """The weight of every pixel of an image, and whether it is selected; row after row."""

    weights: Any
    selected: Any


class Drawn(NamedTuple):
    """What :func:`draw` wrote, and one line for each thing that it could not show."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


Progress = Callable[[int, int, str], object]


def draw(folder: str | Path, *, quick: bool = False, progress: Progress | None = None) -> Drawn:
    """Compute and draw all figures of the paper, as PNG and SVG.

    All follow the paper's own order and scaling ("as-published"). Those that the paper draws from
    Gisette are drawn from MNIST, or else from Madelon, as long as Gisette is not there as a whole;
    their titles say so, and their numbers are those of one cell of the tables.

    Parameters
    ----------
    folder : path
        Where to; made if it is not there. What is computed is kept in ``figure-data`` within, so
        that a run that was killed goes on where it was.
    quick : bool
        At most 3,000 rows.
    progress : callable (done, total, what), optional
        Called before each run of a method.

    Returns
    -------
    Drawn
        The files, and what was left out for want of a data set or a library.
    """
    require("matplotlib", "fires bench", "plot")
    folder = Path(folder)
    (folder / "figure-data").mkdir(parents=True, exist_ok=True)
    over_time_methods = tuple(_LOOK)
    total = len(DIGITS) * len(DIGIT_METHODS) + len(over_time_methods) + len(PENALTIES)
    work = _Work(folder / "figure-data", total, progress)
    files: list[Path] = []

    digits = _digits(work)
    if digits is not None:
        files += save(discriminative_features(*digits), folder, "discriminative-features")

    data, name = _in_place_of_gisette(work, quick)
    if data is not None:
        settings = (
            f"{name}\nbatches of {BATCH_SIZE}, {FRACTION:.0%} of the features, "
            "order and scaling as published"
        )
        runs = {}
        for method in over_time_methods:
            cell = Cell(name, method, BATCH_SIZE, FRACTION, n_rows=data.n_samples)
            found = work.kept(f"over time, {method}", data, cell, partial(_run, data, cell))
            if found is not None:
                runs[method] = Run.from_dict(found)
                if runs[method].stopped:
                    rows = int(runs[method].rows.max(initial=0.0))
                    work.note(f"{method} failed after {rows:,} rows of {name}")
        files += save(over_time(runs, settings), folder, "over-time")
        files += save(accuracy_against_stability(runs, settings), folder, "accuracy-stability")

        effect = []
        cell = Cell(name, "FIRES-GLM", BATCH_SIZE, FRACTION, n_rows=data.n_samples)
        for penalty in PENALTIES:
            found = work.kept(
                f"lambda_s {penalty:g}", data, cell, partial(_run, data, cell, penalty)
            )
            effect.append(Run.from_dict(found))
        files += save(effect_of_penalty(PENALTIES, effect, settings), folder, "uncertainty-penalty")
    return Drawn(tuple(files), tuple(work.notes))


# --- what is shown --------------------------------------------------------------------------------


class _Work:
    """Things to compute, each kept in a file of its own, and what cannot be computed here."""

    def __init__(self, folder: Path, total: int, progress: Progress | None) -> None:
        self.folder, self.total, self.progress = folder, total, progress
        self.done = 0
        self.notes: list[str] = []

    def note(self, line: str) -> None:
        """Say once what is missing, however often it is."""
        if line not in self.notes:
            self.notes.append(line)

    def kept(
        self, what: str, data: datasets.Dataset, cell: Cell, compute: Callable[[], Any]
    ) -> Any:
        """What was computed with these settings before, or is now; None if it cannot be."""
        if self.progress is not None:
            self.progress(self.done, self.total, what)
        self.done += 1
        path = self.folder / f"{what.replace(', ', '-').replace(' ', '-')}.json"
        settings = asdict(cell) | {"what": what, "data": list(data.notes), "fires": __version__}
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            before = {}
        if before.get("settings") == settings:
            return before["result"]
        try:
            result = compute()
        except MissingExtra as error:
            self.note(f"{cell.method} is not in the figures: {error}")
            return None
        content = json.dumps({"settings": settings, "result": result}, allow_nan=False)
        replace_file(path, content.encode())
        return result


def _digits(work: _Work) -> tuple[dict[str, list[Pixels]], list[tuple[Floats, Floats]], str] | None:
    """Of every method the pixels for each digit against the two others; and the mean images."""
    pixels: dict[str, list[Pixels]] = {}
    means = []
    for digit in DIGITS:
        try:
            data = datasets.load(
                "MNIST",
                preprocessing="as-published",
                labels=DIGITS,
                positive=digit,
                n_rows=DIGIT_ROWS,
            )
        except datasets.DataUnavailable as error:
            work.note(f"discriminative features are not drawn: {error}")
            return None
        X, y = data.to_arrays()
        means.append((X[y == 1].mean(axis=0), X[y == 0].mean(axis=0)))
        for method in DIGIT_METHODS:
            cell = Cell("MNIST", method, BATCH_SIZE, DIGIT_FRACTION, n_rows=DIGIT_ROWS)
            what = f"digit {digit}, {method}"
            found = work.kept(what, data, cell, partial(_pixels, data, cell))
            if found is not None:
                pixels.setdefault(method, []).append(Pixels(*found))
    names = ", ".join(map(str, DIGITS[:-1])) + f" and {DIGITS[-1]}"
    settings = (
        f"MNIST, the rows labelled {names}, each digit against the others\nafter the first "
        f"{DIGIT_ROWS:,} rows in batches of {BATCH_SIZE}, scaled as published; "
        f"{int(DIGIT_FRACTION * 784)} of 784 pixels selected"
    )
    return pixels, means, settings


def _pixels(data: datasets.Dataset, cell: Cell) -> list[list[float]]:
    selector = METHODS[cell.method].selector(cell)
    *_, last = prequential(
        data,
        selector,
        batch_size=cell.batch_size,
        order=cell.protocol,
        preprocess=None,
        keep_weights=True,
    )
    assert last.weights is not None
    selected = np.zeros(len(last.weights))
    selected[last.selected] = 1.0
    return [last.weights.tolist(), selected.tolist()]


def _in_place_of_gisette(work: _Work, quick: bool) -> tuple[datasets.Dataset | None, str]:
    """The data set that three figures are drawn from, and how their titles call it."""
    n_rows = QUICK_ROWS if quick else None
    titles = {
        "Gisette": "Gisette",
        "MNIST": "MNIST, 3 against the rest (90% of the rows)",
        "Madelon": "Madelon",
    }
    for name, title in titles.items():
        try:
            data = datasets.load(name, preprocessing="as-published", n_rows=n_rows)
        except datasets.DataUnavailable as error:
            work.note(str(error))
            continue
        if data.complete:
            why = "" if name == "Gisette" else "Gisette incomplete: drawn from "
            return data, f"{why}{title}, {data.n_samples:,} rows"
        work.note(f"{name} is incomplete: its figures are drawn from another data set")
    return None, ""


def _run(data: datasets.Dataset, cell: Cell, penalty: float | None = None) -> dict[str, Any]:
    method = METHODS[cell.method]
    selector = method.selector(cell)
    if penalty is not None:
        selector.set_params(uncertainty_penalty=penalty)
    steps = prequential(
        data,
        selector,
        method.predictor(cell),
        batch_size=cell.batch_size,
        order=cell.protocol,
        preprocess=None,
        window=WINDOW,
    )
    return Run.of(steps).as_dict()


# --- how it is shown ------------------------------------------------------------------------------


def save(figure: Any, folder: str | Path, name: str) -> list[Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes."""
    paths = [Path(folder) / f"{name}.{kind}" for kind in ("png", "svg")]
    with _style():
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(path, dpi=_DPI, metadata=metadata)
    return paths


def discriminative_features(
    pixels: Mapping[str, Sequence[Pixels]], means: Sequence[tuple[Any, Any]], settings: str
) -> Any:
    """Weights and selected pixels of several methods for several digits, as images.

    Parameters
    ----------
    pixels : mapping of str to sequence of Pixels
        Of each method, for each of :data:`DIGITS`.
    means : sequence of (array, array)
        For each digit the mean image of its rows, and of the rows of the others.
    settings : str
        What the title says besides.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with _style():
        figure = _figure(7.0, 1.15 * (len(pixels) + 1) + 1.1)
        figure.suptitle(_title("Which pixels tell a digit from two others", settings), fontsize=9)
        widths = [1.0, 1.0, 0.1] * len(DIGITS)
        panels = figure.subplots(
            len(pixels) + 1, len(widths) - 1, width_ratios=widths[:-1], squeeze=False
        )
        for gap in panels[:, 2::3].flat:
            gap.set_axis_off()
        for row, name in enumerate(["mean image", *pixels]):
            panels[row, 0].set_ylabel(name, fontsize=9)
            for place, digit in enumerate(DIGITS):
                pair = panels[row, 3 * place : 3 * place + 2]
                shown = means[place] if row == 0 else pixels[name][place]
                for panel, values in zip(pair, shown, strict=True):
                    panel.set(xticks=[], yticks=[])
                    panel.spines[:].set(visible=True, color="#bbbbbb")
                    panel.imshow(np.reshape(values, (28, 28)), cmap="Greys")
                if row < 2:
                    others = " and ".join(str(other) for other in DIGITS if other != digit)
                    heads = (f"all {digit}", f"all {others}") if row == 0 else Pixels._fields
                    for panel, head in zip(pair, heads, strict=True):
                        panel.set_title(head)
        figure.supxlabel(
            "Each panel from white, its least value, to black, its greatest. FSDS does not look at "
            "the labels:\nit shows the same for every digit.",
            fontsize=8,
        )
    return figure


def over_time(runs: Mapping[str, Run], settings: str) -> Any:
    """Accuracy and stability of several methods while the stream flows.

    Parameters
    ----------
    runs : mapping of str to Run
        Of each method.
    settings : str
        What the title says besides.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with _style():
        figure = _figure(7.0, 5.4)
        figure.suptitle(_title("Accuracy and stability over time", settings), fontsize=9)
        upper, lower = figure.subplots(2, 1, sharex=True)
        # Not more points than the eye can follow; each stands for the steps before it.
        every = max(1, round(max(len(run.rows) for run in runs.values()) / 35))
        smooth = max(WINDOW, every)
        for place, (name, run) in enumerate(runs.items()):
            shown = np.arange(len(run.rows))[::-every][::-1]  # the last step is always there
            series = ((upper, _moving_mean(run.accuracy, smooth)), (lower, run.stability))
            for axes, values in series:
                if np.isnan(values).all():  # the stability of all features
                    continue
                look = _line(name, place, len(shown))
                axes.plot(run.rows[shown], values[shown], label=_named(name, run), **look)
                if run.stopped:
                    axes.plot(run.rows[-1], values[-1], "x", color=look["color"], markersize=10)
        upper.set_ylabel(f"accuracy (mean of\n{smooth} batches)")
        lower.set_ylabel(f"stability (of the sets of\n{WINDOW} batches)")
        lower.set_xlabel("rows seen")
        lower.xaxis.set_major_formatter("{x:,.0f}")
        figure.legend(*upper.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def accuracy_against_stability(runs: Mapping[str, Run], settings: str) -> Any:
    """Mean accuracy against mean stability; the area of a circle is the variance of the accuracy.

    Parameters are those of :func:`over_time`.
    """
    with _style():
        figure = _figure(7.0, 5.0)
        figure.suptitle(_title("Accuracy against stability", settings), fontsize=9)
        axes, beside = figure.subplots(1, 2, width_ratios=[3.0, 1.0])
        beside.set_axis_off()
        points = {
            name: (np.nanmean(run.stability), np.nanmean(run.accuracy), np.nanvar(run.accuracy))
            for name, run in runs.items()
            if not np.isnan(run.stability).all()
        }
        widest = max([variance for *_, variance in points.values()], default=1.0) or 1.0
        for name, (x, y, variance) in points.items():
            colour, _, mark = _LOOK.get(name, _OTHER)
            size = _LARGEST * variance / widest
            axes.scatter(x, y, s=size, color=colour, alpha=0.35, linewidth=0)
            axes.scatter(x, y, s=14, color=colour, marker=mark, label=_named(name, runs[name]))
        for name in runs.keys() - points.keys():  # a set of all features has no stability
            colour, dashes, _ = _LOOK.get(name, _OTHER)
            level = np.nanmean(runs[name].accuracy)
            axes.axhline(level, color=colour, linestyle=dashes, label=f"{name}\n(no stability)")
        axes.margins(0.12, 0.15)
        axes.set_xlabel(f"stability (mean over steps, window {WINDOW})")
        axes.set_ylabel("accuracy (mean over steps)")
        beside.add_artist(
            beside.legend(*axes.get_legend_handles_labels(), loc="upper left", borderaxespad=0.0)
        )
        shares = (0.1, 0.5, 1.0)
        circles = [
            beside.scatter([], [], s=_LARGEST * share, color="#808080", alpha=0.35, linewidth=0)
            for share in shares
        ]
        beside.legend(
            circles,
            [f"{share * widest:.2g}" for share in shares],
            loc="lower left",
            title="Area of the circles:\nvariance of the accuracy",
            alignment="left",
            labelspacing=2.4,
            handletextpad=1.5,
            borderaxespad=1.0,
        )
    return figure


def effect_of_penalty(penalties: Sequence[float], runs: Sequence[Run], settings: str) -> Any:
    r"""Mean accuracy and stability against :math:`\lambda_s`, the penalty on uncertainty.

    Parameters
    ----------
    penalties : sequence of float
        The values tried.
    runs : sequence of Run
        With each of them.
    settings : str
        What the title says besides.

    Returns
    -------
    matplotlib.figure.Figure
    """
    with _style():
        figure = _figure(7.0, 4.4)
        heading = "FIRES-GLM: effect of the penalty on uncertainty"
        figure.suptitle(_title(heading, settings), fontsize=9)
        parts = figure.subplots(2, 1, sharex=True)
        for axes, what, colour, mark in zip(
            parts, ("accuracy", "stability"), ("#d55e00", "#0072b2"), "os", strict=True
        ):
            means = [np.nanmean(getattr(run, what)) for run in runs]
            axes.plot(penalties, means, color=colour, marker=mark, markersize=4)
            axes.axvline(0.01, color="#808080", linestyle=":", label="default, 0.01")
            axes.set_ylabel(f"{what}\n(mean over steps)")
            # Differences in the third digit must not look like cliffs.
            low, high = np.nanmin(means), np.nanmax(means)
            room = max(0.005, 0.025 - (high - low) / 2)
            axes.set_ylim(low - room, min(high + room, 1.003))
        parts[0].legend()
        parts[1].set_xscale("log")
        parts[1].set_xlabel(r"$\lambda_s$, the penalty on uncertainty")
    return figure


@contextmanager
def _style() -> Iterator[None]:
    """Our look and nobody else's, for as long as it lasts."""
    style = require("matplotlib.style", "fires bench", "plot")
    with style.context(["default", _STYLE]):
        yield


def _figure(width: float, height: float) -> Any:
    figure = require("matplotlib.figure", "fires bench", "plot")
    return figure.Figure(figsize=(width, height), layout="constrained")


def _title(heading: str, settings: str) -> str:
    return f"{heading}\n{settings}"


def _named(name: str, run: Run) -> str:
    return f"{name}\n(fails at row {run.rows[-1]:,.0f})" if run.stopped else name


def _line(name: str, place: int, n_steps: int) -> dict[str, Any]:
    colour, dashes, mark = _LOOK.get(name, _OTHER)
    every = max(1, n_steps // 8)
    # Marks of different lines at different steps, so that lines that coincide can be told apart.
    start = place * every // max(1, len(_LOOK))
    return {
        "color": colour,
        "linestyle": dashes,
        "marker": mark,
        "markersize": 4,
        "markevery": (start, every),
    }


def _moving_mean(values: Floats, size: int) -> Floats:
    """The mean of the last ``size`` values at each place, as far as they are there and defined.

    Examples
    --------
    >>> _moving_mean(np.array([np.nan, 1.0, 3.0, 5.0]), 2)
    array([nan,  1.,  2.,  4.])
    """
    means = np.full(len(values), np.nan)
    for stop in range(1, len(values) + 1):
        last = values[max(0, stop - size) : stop]
        if not np.isnan(last).all():
            means[stop - 1] = np.nanmean(last)
    return means
