"""Each choice on and off: the page of ablations.

``python -m benchmarks.answer.ablations`` measures every variant with five seeds and writes
``docs/ablations.md``. A variant is a name and the settings in which it differs from the default.
Variants named on the command line are measured, and their rows replaced; all, if none is named.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import numpy as np

from benchmarks.answer.figures import Bench, Maker, workers

_OURS = "benchmarks.answer.variants"
VARIANTS: dict[str, Maker] = {
    "default": Maker(),
    "update: gradient, rate 0.01": Maker(settings={"update": "gradient"}),
    "update: gradient, rate 1": Maker(settings={"update": "gradient", "learning_rate": 1.0}),
    "memory: 1,000 rows": Maker(settings={"memory": 1_000.0}),
    "memory: 3,333 rows": Maker(settings={"memory": 3_333.0}),
    "memory: 30,000 rows": Maker(settings={"memory": 30_000.0}),
    "no alarm": Maker(settings={"drift": None}),
    "score: omega": Maker(settings={"score": "omega"}),
    "no bond": Maker(f"{_OURS}:WithoutBond"),
    "no forward selection": Maker(f"{_OURS}:WithoutForward"),
    "no stretch": Maker(f"{_OURS}:WithoutStretch"),
    "no covariance": Maker(f"{_OURS}:WithoutCovariance"),
}
"""What is compared: the name of a variant, and what makes its selectors."""

PARTS = ("datasets", "drift", "coverage", "numbers", "robust", "imbalance")
N_SEEDS = 5
ROOT = Path(__file__).parents[2]
PAGE, VALUES = ROOT / "docs" / "ablations.md", ROOT / "docs" / "ablations.json"

Found = dict[str, dict[str, dict[str, list[float]]]]  # variant -> part -> headline -> per seed

ABOVE = """# Ablations

Each design choice, switched off or changed. Each number is a mean over five seeds, with the
standard deviation in brackets. A seed is another order of the rows of a data set, or another
stream. Written by `python -m benchmarks.answer.ablations`; the sources of `benchmarks/answer/`
describe each part.
"""


def headlines(bench: Bench, part: str) -> dict[str, list[float]]:
    """The figures of a part that stand on the page, with one value for each seed."""
    figures = import_module(f"benchmarks.answer.{part}").measure(bench)
    return {figure.headline: list(figure.values) for figure in figures if figure.headline}


def page(found: Found) -> str:
    """One table for each part: variants down, headlines across."""
    tables = [ABOVE]
    for part in PARTS:
        rows = {name: parts[part] for name, parts in found.items() if part in parts}
        if rows:
            title = import_module(f"benchmarks.answer.{part}").TITLE
            tables.append(
                f"## {part.capitalize()}\n\n{title[0].upper()}{title[1:]}.\n\n{_table(rows)}"
            )
    return "\n".join(tables)


def _table(rows: Mapping[str, Mapping[str, list[float]]]) -> str:
    columns = list(next(iter(rows.values())))
    lines = ["| variant | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, values in rows.items():
        cells = [_cell(values[column]) if column in values else "" for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _cell(values: list[float]) -> str:
    mean, spread = float(np.mean(values)), float(np.std(values, ddof=1))
    digits = 4 if abs(mean) < 1.5 else 1 if abs(mean) < 100 else 0
    return f"{mean:.{digits}f} ({spread:.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answer.ablations")
    parser.add_argument("variant", nargs="*", help=", ".join(VARIANTS))
    parser.add_argument("--part", action="append", help=f"{', '.join(PARTS)}; all by default")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    asked = parser.parse_args()
    if unknown := set(asked.variant) - set(VARIANTS):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    before: Found = json.loads(VALUES.read_text("utf-8")) if VALUES.exists() else {}
    found: Found = {name: before.get(name, {}) for name in VARIANTS}
    with workers(asked.jobs) as pool:
        for name in asked.variant or VARIANTS:
            bench = Bench(VARIANTS[name], N_SEEDS, pool)
            for part in asked.part or PARTS:
                found[name][part] = headlines(bench, part)
                print(f"{name}: {part}", flush=True)
                # After every part, so that little is lost when it is stopped.
                VALUES.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
                PAGE.write_text(page(found), "utf-8")


if __name__ == "__main__":
    main()
