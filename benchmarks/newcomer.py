"""From a clone to a report on one's own CSV, by the clock on the wall: ten minutes at most.

``python -m benchmarks.newcomer`` clones this repository into a temporary folder, runs ``make demo``
there, writes a small CSV, and makes a report of it: what a newcomer does first.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT, MINUTES = Path(__file__).parents[1], 10


def write_csv(path: Path) -> None:
    """A table such as somebody might have: numbers, a category, a date, a label."""
    rng = np.random.default_rng(0)
    lines = ["age,income,town,since,clicks,churned"]
    for day in range(5_000):
        age, income, clicks = rng.integers(18, 80), rng.lognormal(10, 0.5), rng.poisson(4)
        churned = rng.random() < 1 / (1 + np.exp(0.05 * age - 0.3 * clicks))
        town, since = rng.choice(["Ulm", "Bonn", "Kiel"]), f"20{10 + day % 14}-0{1 + day % 9}-15"
        lines.append(f"{age},{income:.0f},{town},{since},{clicks},{'yes' if churned else 'no'}")
    path.write_text("\n".join(lines), encoding="utf-8")


def main() -> None:
    began = time.perf_counter()

    def run(*command: str, cwd: Path) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  $ {' '.join(command)}", flush=True)
        subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL)

    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "fires"
        run("git", "clone", "--quiet", str(ROOT), str(clone), cwd=ROOT)
        run("make", "demo", cwd=clone)
        write_csv(clone / "churn.csv")
        select = ("select", "churn.csv", "--target", "churned", "--out", "mine", "--report")
        run(".venv/bin/fires", *select, cwd=clone)
        assert (clone / "mine" / "report.html").stat().st_size > 100_000
    seconds = time.perf_counter() - began
    print(f"{seconds:6.1f} s  the report is there ({MINUTES} minutes asked)")


if __name__ == "__main__":
    main()
