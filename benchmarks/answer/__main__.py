"""``python -m benchmarks.answer`` measures every part, or those named."""

from __future__ import annotations

import argparse
import ast
import time
from importlib import import_module
from typing import Any

from benchmarks.answer.figures import Bench, Maker, show, workers

PARTS = (
    "datasets",
    "predictors",
    "drift",
    "erics",
    "coverage",
    "numbers",
    "robust",
    "sparse",
    "imbalance",
    "categories",
    "chosen",
    "field",
    "nets",
    "relations",
    "null",
    "words",
)


def settings(text: str) -> dict[str, Any]:
    """``"update=gradient,memory=2000"`` as a dictionary; what is no number or name is text."""
    found = {}
    for pair in filter(None, text.split(",")):
        name, _, value = pair.partition("=")
        try:
            found[name.strip()] = ast.literal_eval(value.strip())
        except (SyntaxError, ValueError):
            found[name.strip()] = value.strip()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answer", description=__doc__)
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; all of them by default")
    parser.add_argument("--with", dest="settings", type=settings, default={}, help="key=value,...")
    parser.add_argument("--selector", default="fires:FIRES", help="module:name; fires:FIRES")
    parser.add_argument(
        "--seeds", type=int, help="seeds (row orders); by default what a part needs"
    )
    parser.add_argument("--first", type=int, default=0, help="the first seed; 0")
    parser.add_argument("--only", default="", help="only figures whose name has this in it")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    asked = parser.parse_args()
    if unknown := set(asked.part) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    reached = n_judged = 0
    with workers(asked.jobs) as pool:
        bench = Bench(
            Maker(asked.selector, asked.settings), asked.seeds, pool, asked.only, asked.first
        )
        for name in asked.part or PARTS:
            part, began = import_module(f"benchmarks.answer.{name}"), time.perf_counter()
            figures = [figure for figure in part.measure(bench) if bench.wanted(figure.what)]
            show(f"{name}: {part.TITLE} ({time.perf_counter() - began:.0f} s)", figures)
            verdicts = [figure.reached for figure in figures if figure.reached is not None]
            reached, n_judged = reached + sum(verdicts), n_judged + len(verdicts)
    print(f"{reached} of {n_judged} figures reached.")


if __name__ == "__main__":
    main()
