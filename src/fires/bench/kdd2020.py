"""The experiments of Haug et al. (KDD 2020): which cells there are, and what is needed for them."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

from fires.bench.cells import BATCH_SIZES, DATASETS, FRACTIONS, METHODS, PROTOCOLS, Cell
from fires.bench.datasets import loading as datasets
from fires.core.errors import InputError, MissingExtra
from fires.core.files import make_folder, replace_file
from fires.core.version import code, first_facts

QUICK_ROWS, QUICK_BATCH_SIZES, QUICK_FRACTIONS = 3_000, (100,), (0.1,)
# River learns row by row, at 3 to 28 ms a row for boosting: more than this, nobody waits for.
BOOSTED_ROWS, BOOSTED_FEATURES = 500, 1_000
# Ten thousand columns cost more time than all other data sets together.
USUAL_DATASETS = tuple(name for name in DATASETS if name != "RBF")
RUNS = "runs.json"
_SLOW = ("VFDT", "OnlineBoosting")


def plan(
    names: Sequence[str] = USUAL_DATASETS,
    methods: Sequence[str] = tuple(METHODS),
    protocols: Iterable[str] = PROTOCOLS,
    *,
    quick: bool = False,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    fractions: Sequence[float] = FRACTIONS,
    rows: int | None = None,
) -> list[Cell]:
    """All cells, data set by data set; the methods that learn row by row come last.

    Methods that select nothing do not depend on the fraction: they are run once for each batch
    size.
    """
    if quick:
        batch_sizes, fractions, rows = QUICK_BATCH_SIZES, QUICK_FRACTIONS, QUICK_ROWS
    cells = []
    for name, protocol in product(names, protocols):
        of_it = [m for m in methods if protocol in METHODS[m].protocols]
        for method in sorted(of_it, key=lambda m: _SLOW.index(m) if m in _SLOW else -1):
            boosted = quick and method == "OnlineBoosting"
            if boosted and datasets.describe(name).n_features > BOOSTED_FEATURES:
                continue
            n_rows = BOOSTED_ROWS if boosted else rows
            shares = fractions if METHODS[method].selects else (None,)
            cells += [
                Cell(name, method, size, share, protocol, n_rows=n_rows)
                for size, share in product(batch_sizes, shares)
            ]
    return cells


def missing(cells: Iterable[Cell]) -> dict[str, str]:
    """The data sets and methods of these cells that cannot be had here, with one line each."""
    why = {}
    for name in dict.fromkeys(cell.method for cell in cells):
        needs = METHODS[name].needs
        if needs is not None and find_spec(needs) is None:
            why[name] = str(MissingExtra(name, needs, needs))
    for name in dict.fromkeys(cell.dataset for cell in cells):
        try:
            datasets.load(name, n_rows=1)
        except InputError as error:
            why[name] = str(error) if name in str(error) else f"{name}: {error}"
    return why


def note_run(folder: Path, command: str, jobs: int) -> None:
    """Add to ``runs.json`` what the tables have to say about how their numbers were made."""
    make_folder(folder)
    known = first_facts({}, "polars", *filter(find_spec, ("torch", "river")))
    facts = {
        "date": known["started"][:10],
        "code": code(),
        "command": command,
        "jobs": jobs,
        "cores": cores(),
        "machine": f"{platform.system()} {platform.machine()}",
        "versions": {"fires": known["fires"]} | known["versions"],
    }
    runs = read_runs(folder)
    if facts not in runs:
        text = json.dumps([*runs, facts], indent=1, ensure_ascii=False) + "\n"
        replace_file(folder / RUNS, text.encode())


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """What :func:`note_run` wrote."""
    try:
        runs: list[dict[str, Any]] = json.loads((folder / RUNS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise InputError(f"{folder / RUNS} was not written by fires bench: {error}") from error
    return runs


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
