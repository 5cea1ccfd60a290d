"""How the paper's figures look: nothing is computed here but what the eye needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from fires.bench.cells import DIGITS, WINDOW, Run
from fires.core.types import Floats, Mask
from fires.evaluation.records import defined_mean
from fires.report.figures import COLOURS, Look, level, line, look, new_figure, rows_axis

LOOKS = {
    "FIRES-GLM": Look("#0072b2", "-", "o"),
    "FIRES-ANN": Look("#d55e00", "-", "s"),
    "FIRES-SDT": Look("#009e73", "-", "^"),
    "FIRES-ANN authors": Look("#d55e00", "-.", "s"),
    "FIRES-SDT authors": Look("#009e73", "-.", "^"),
    "OFS": Look("#cc79a7", "--", "D"),
    "EFS": Look("#b8860b", "--", "v"),
    "FSDS": Look("#56b4e9", "--", "P"),
    "random features": Look("#808080", ":", "*", "drawn once"),
    "all features": Look("#000000", ":", "", "no stability"),
}
_MAJORITY = Look("#999999", "-", "")
_SMALL: dict[str, str | int] = {"loc": "left", "fontsize": 8, "color": "#555555"}
_LARGEST = 900.0  # the area of a circle, in square points


class Pixels(NamedTuple):
    """The weight of every pixel of an image, and whether it is selected; row after row."""

    weights: Floats
    selected: Mask


def discriminative_features(
    pixels: Mapping[str, Sequence[Pixels]], means: Sequence[Sequence[Floats]], settings: str
) -> Any:
    """Weights and selected pixels of several methods for several digits, as images."""
    height = 1.15 * (len(pixels) + 1) + 1.1
    with new_figure("Which pixels tell a digit from two others", settings, height) as figure:
        widths = [1.0, 1.0, 0.1] * len(DIGITS)
        panels = figure.subplots(
            len(pixels) + 1, len(widths) - 1, width_ratios=widths[:-1], squeeze=False
        )
        for gap in panels[:, 2::3].flat:
            gap.set_axis_off()
        for place, digit in enumerate(DIGITS):
            others = " and ".join(str(other) for other in DIGITS if other != digit)
            heads = [(f"all {digit}", f"all {others}"), Pixels._fields]
            heads += [("", "")] * (len(pixels) - 1)
            shown = [means[place], *(found[place] for found in pixels.values())]
            pairs = panels[:, 3 * place : 3 * place + 2]
            for row in zip(pairs, shown, heads, strict=True):
                for panel, value, head in zip(*row, strict=True):
                    panel.set(xticks=[], yticks=[], title=head)
                    panel.spines[:].set(visible=True, color="#bbbbbb")
                    panel.imshow(np.reshape(value, (28, 28)), cmap="Greys")
        for panel, name in zip(panels[:, 0], ["mean image", *pixels], strict=True):
            panel.set_ylabel(name)
        notes = ["Each panel goes from white, its least value, to black, its greatest."]
        if "FSDS" in pixels:
            notes.append("FSDS does not look at the labels: it shows the same for every digit.")
        figure.supxlabel("\n".join(notes), fontsize=8)
    return figure


def over_time(runs: Mapping[str, Run], settings: str, majority: float) -> Any:
    """Accuracy and stability of several methods while the stream flows."""
    with new_figure("Accuracy and stability over time", settings, 5.6) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True)
        # Not more points than the eye can follow; each stands for the steps before it.
        every = max(1, round(max(len(run.seen) for run in runs.values()) / 35))
        n_accuracies = max(WINDOW, every)
        for place, (name, run) in enumerate(runs.items()):
            shown = np.arange(len(run.seen))[::-every][::-1]  # the last step is always there
            accuracy = _moving_mean(run.accuracy, n_accuracies)
            for axes, values in ((upper, accuracy), (lower, _moving_mean(run.stability, every))):
                if np.isnan(values).all():  # the stability of all features
                    continue
                its, label = LOOKS[name], _named(name, run)
                line(axes, run.seen[shown], values[shown], its, label, place=place)
                if run.diverged_at is not None:
                    axes.plot(run.seen[-1], values[-1], "x", color=its.colour, markersize=10)
        level(upper, majority, _MAJORITY, "majority class", linewidth=0.8)
        upper.set_ylabel("accuracy")
        upper.set_title(
            f"mean of the last {n_accuracies} batches, or of as many as there are", **_SMALL
        )
        lower.set_ylabel("stability")
        mean = f"; mean of the last {every}" if every > 1 else ""
        lower.set_title(f"of the sets selected in the last {WINDOW} batches{mean}", **_SMALL)
        rows_axis(lower)
        figure.align_ylabels()
        handles = upper.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=8)
    return figure


def accuracy_against_stability(runs: Mapping[str, Run], settings: str, majority: float) -> Any:
    """Mean accuracy against mean stability; the area of a circle is the variance of the accuracy.

    A run that did not come to the end has no means that could be compared with those of others:
    only the legend names it.
    """
    with new_figure("Accuracy against stability", settings, 5.2) as figure:
        axes = figure.subplots()
        named = {name: _named(name, run).replace(" (", "\n(") for name, run in runs.items()}
        ended = {name: run for name, run in runs.items() if run.diverged_at is None}
        points = {
            name: (
                defined_mean(run.stability),
                defined_mean(run.accuracy),
                float(np.nanvar(run.accuracy)),
            )
            for name, run in ended.items()
            if not np.isnan(run.stability).all()
        }
        widest = max((variance for *_, variance in points.values()), default=0.0) or 1.0
        for name, (x, y, variance) in points.items():
            _circle(axes, x, y, variance / widest, LOOKS[name], named[name])
        for name in (name for name in ended if name not in points):  # all features: no stability
            level(axes, defined_mean(runs[name].accuracy), LOOKS[name], named[name])
        level(axes, majority, _MAJORITY, "majority class", linewidth=0.8)
        for name in (name for name in runs if name not in ended):
            axes.plot([], [], "x", color=LOOKS[name].colour, label=named[name])
        axes.margins(0.12, 0.15)
        areas = "area of a circle: variance of the accuracy over steps"
        axes.set_title(f"{areas}; the largest is {widest:.2g}", **_SMALL)
        axes.set_xlabel(f"stability (window of {WINDOW} batches, mean over steps)")
        axes.set_ylabel("accuracy (mean over steps)")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def _circle(axes: Any, x: float, y: float, share: float, its: Look, label: str) -> None:
    """A point with its mark, and a circle whose area is a share of the largest."""
    axes.scatter(x, y, s=_LARGEST * share, color=its.colour, alpha=0.35, linewidth=0)
    axes.scatter(x, y, s=16, zorder=3, color=its.colour, marker=its.mark or "o", label=label)


def field(panels: Mapping[str, Mapping[str, tuple[float, float, float]]], settings: str) -> Any:
    """Accuracy against stability of many methods; the area of a circle is the cost."""
    with new_figure("Accuracy against stability", settings, 6.4) as figure:
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (title, points) in zip(all_axes, panels.items(), strict=True):
            dearest = max((cost for *_, cost in points.values()), default=1.0)
            for place, (name, (x, y, cost)) in enumerate(points.items()):
                # Points have no dashes: of those with one colour, each has another mark.
                its = look(place)._replace(mark=look(place + place // len(COLOURS)).mark)
                _circle(axes, x, y, cost / dearest, its, name)
            axes.margins(0.12)
            axes.set(xlabel="stability", ylabel=title)
            area = f"area of a circle: processor time; the largest is {dearest:.2g} ms per batch"
        all_axes[0].set_title(area, **_SMALL)
        handles = all_axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def effect_of_penalty(runs: Mapping[float, Run], settings: str) -> Any:
    r"""Mean accuracy and stability of FIRES-GLM against :math:`\lambda_s`, the penalty."""
    title = "FIRES-GLM: effect of the penalty on uncertainty"
    with new_figure(title, settings, 4.4) as figure:
        parts = figure.subplots(2, 1, sharex=True)
        means_of = {
            "accuracy": [defined_mean(run.accuracy) for run in runs.values()],
            "stability": [defined_mean(run.stability) for run in runs.values()],
        }
        looks = zip(("#d55e00", "#0072b2"), "os", strict=True)
        for axes, (what, means), (colour, mark) in zip(parts, means_of.items(), looks, strict=True):
            axes.plot(list(runs), means, color=colour, marker=mark, markersize=4)
            axes.axvline(0.01, color="#808080", linestyle=":", label="default, 0.01")
            axes.set_ylabel(f"{what}\n(mean over steps)")
            # Differences in the third digit must not look like cliffs.
            low, high = np.nanmin(means), np.nanmax(means)
            room = max(0.005, 0.025 - (high - low) / 2)
            axes.set_ylim(low - room, min(high + room, 1.003))
        parts[0].legend()
        parts[1].set_xscale("log")
        parts[1].minorticks_off()
        parts[1].set_xlabel(r"$\lambda_s$, the penalty on uncertainty")
        figure.align_ylabels()
    return figure


def _named(name: str, run: Run) -> str:
    end, note = run.diverged_at, LOOKS[name].note
    note = note if end is None else f"not finite after row {end:,}"
    return f"{name} ({note})" if note else name


def _moving_mean(values: Floats, size: int) -> Floats:
    """The mean of the last ``size`` values at each place, as far as they are there and defined."""
    defined = pl.Series(values).fill_nan(None)
    return defined.rolling_mean(size, min_samples=1).to_numpy()
