"""The pictures of docs/relations.md: a stream with curves and a pair, a run, and its curves.

python examples/relations.py FOLDER                                       # relations-curves.png
python -m tests.report.screenshots FOLDER/run FOLDER --panel curves        # relations-page.png
fires select madelon.parquet -t target -k 20 --relations auto --out FOLDER/madelon
python -m tests.report.screenshots FOLDER/madelon FOLDER --panel pairs     # relations-pairs.png
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from fires.cli import main as fires
from fires.report.summary import summarise

N_ROWS = 20_000
NAMES = ["age", "income", "height", "dose", "hour", "price", "left", "right", "up", "down"]


def events() -> pl.DataFrame:
    """A line (height), three curves, a pair of which neither matters alone, four of no use.

    The best dose moves from -0.7 to 0.7 on the way.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N_ROWS, len(NAMES)))
    best = np.linspace(-0.7, 0.7, N_ROWS)
    effect = X[:, 2] + 1.5 * X[:, 0] * X[:, 1] - (X[:, 3] - best) ** 2 + 1.5
    effect += 1.5 * np.sin(1.5 * X[:, 4]) + 0.8 * X[:, 5]
    X[:, 5] = np.exp(X[:, 5])
    label = np.where(effect + rng.normal(size=N_ROWS) > 0, "well", "ill")
    return pl.DataFrame(X.round(4), schema=NAMES).with_columns(label=pl.Series(label))


def draw(ax: Axes, curve: dict[str, Any]) -> None:
    """The curve of a feature with its band; earlier ones are grey, the older the fainter."""
    *earlier, (values, effect) = zip(curve["values"], curve["effect"], strict=True)
    for place, then in enumerate(earlier):
        ax.plot(*then, color="grey", linewidth=1.0, alpha=0.25 + 0.5 * place / len(earlier))
    ax.plot(values, effect, linewidth=2.0)
    ax.fill_between(values, curve["low"], curve["high"], alpha=0.18, linewidth=0)
    ax.set(xlabel=curve["name"], ylabel="effect with 95 % band")


def main(folder: Path) -> None:
    """Learn from the stream, and draw its curves."""
    folder.mkdir(parents=True, exist_ok=True)
    source, run = folder / "events.csv", folder / "run"
    events().write_csv(source)
    options = ["--target", "label", "--top", "6", "--relations", "auto", "--overwrite"]
    fires(["select", str(source), *options, "--out", str(run)], standalone_mode=False)
    for name in ("dose", "income"):
        print()
        fires(["explain", str(run), name], standalone_mode=False)
    figure, axes = plt.subplots(1, 3, figsize=(10.0, 2.8), layout="constrained")
    curves = {curve["name"]: curve for curve in summarise(run)["relations"]["curves"]}
    for ax, name in zip(axes, ("dose", "hour", "price"), strict=True):
        draw(ax, curves[name])
    figure.savefig(folder / "relations-curves.png", dpi=100)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
