"""The pictures of docs/ideas: intervals that narrow with rows, and importance across a drift."""

import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from click.testing import CliRunner

from fires import FIRES
from fires.cli import main
from fires.report import ImportanceDisplay, TimelineDisplay

images = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")

rng = np.random.default_rng(0)
X = rng.normal(size=(4_000, 20))
y = 0.5 * X[:, 4] - 0.3 * X[:, 9] + rng.normal(size=4_000) > 0
figure, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharex=True, layout="constrained")
for n_rows, ax in zip((400, 4_000), axes, strict=True):
    selector = FIRES("auto").fit(X[:n_rows], y[:n_rows])
    ImportanceDisplay.from_selector(selector, n_features=8, ax=ax)
    ax.set_title(f"{n_rows:,} rows")
figure.savefig(images / "ideas-intervals.png", dpi=110)

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "run"
    CliRunner().invoke(main, ["demo", "--out", str(run)], catch_exceptions=False)
    display = TimelineDisplay.from_run(run)
    display.figure_.savefig(images / "ideas-drift.png", dpi=110)
