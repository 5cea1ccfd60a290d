"""``python -m benchmarks`` runs every part, ``python -m benchmarks step sparse`` those named."""

from __future__ import annotations

import argparse
import os
from importlib import import_module
from importlib.util import find_spec
from typing import Any

PARTS = ("step", "kernels", "sparse", "imports", "reader")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed, as ratios.")
    parser.add_argument("part", nargs="*", help=f"{', '.join(PARTS)}; all of them by default")
    asked = parser.parse_args().part
    if unknown := set(asked) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")

    # Before NumPy is loaded: several thread pools in one process slow each other down.
    for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{pool}_NUM_THREADS"] = "1"

    rows: list[Any] = []
    for part in PARTS:
        if part in (asked or PARTS) and find_spec(f"benchmarks.{part}"):
            rows += import_module(f"benchmarks.{part}").main() or []
    judged = [row for row in rows if getattr(row, "reached", None) is not None]
    print(f"{sum(row.reached for row in judged)} of {len(judged)} figures reached.")


if __name__ == "__main__":
    main()
