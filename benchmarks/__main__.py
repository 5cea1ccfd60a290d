"""``python -m benchmarks`` runs every part, ``python -m benchmarks step sparse`` those named."""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context

from benchmarks import run

PARTS = (
    "peers",
    "step",
    "bayes",
    "kernels",
    "sparse",
    "words",
    "imports",
    "first_use",
    "reader",
    "command",
    "rivals",
    "models",
    "harness",
    "river",
    "brokers",
    "durable",
    "live",
    "report",
    "spark",
    "sharded_answer",
    "auto",
    "sharding",
    "spark_keys",
    "open_columns",
    "twins",
    "weights",
)
LIMITS = ("first_use",)
"""Parts whose figures hold on any machine: where one is missed, the command fails."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, as ratios.")
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; all of them by default")
    asked = parser.parse_args().part
    if unknown := set(asked) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")

    # Before NumPy is loaded: several thread pools in one process slow each other down.
    for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{pool}_NUM_THREADS"] = "1"

    reached = judged = missed = 0
    for part in PARTS:
        if part in (asked or PARTS) and find_spec(f"benchmarks.{part}"):
            # In a process of its own, so that no part inherits the memory of another.
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
                figures = process.submit(run, part).result()
            reached, judged = reached + sum(figures), judged + len(figures)
            missed += figures.count(False) if part in LIMITS else 0
    print(f"{reached} of {judged} figures reached.")
    sys.exit(min(missed, 1))


if __name__ == "__main__":
    main()
