"""How long the page of the largest run takes: 1,000,000 steps and 100,000 features.

The folder of the run is written here, in the form that ``docs/runs.md`` tells: lines of some 400
bytes, 20 selected features, importances with every tenth line, a set that changes now and then,
some alarms, and 128 snapshots of 10,000 features. What is measured is a process of its own, from
its start to its end, and the most memory that it had; then how long a headless chromium, if there
is one, takes from the request for the page to the first paint.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.timing import Row, show, shown

N_STEPS, N_FEATURES, N_SELECTED = 1_000_000, 100_000, 20
SECONDS, MEGABYTES, PAGE_BYTES, PAINT_SECONDS = 10.0, 500.0, 1_000_000, 1.0
_CHANGES_EVERY, _ALARMS_EVERY = 200, 5_000

_SUMMARY = """
import json, sys
from pathlib import Path
from fires.report.summary import summarise
text = json.dumps(summarise(Path(sys.argv[1])), separators=(",", ":"), allow_nan=False)
Path(sys.argv[2]).write_text(text)
"""
_PAGE = """
import sys
from pathlib import Path
from fires.report.page import write_page
write_page([Path(sys.argv[1])], Path(sys.argv[2]))
"""


def main() -> list[Row]:
    rows = []
    size = f"{N_STEPS:,} steps, {N_FEATURES:,} features"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        n_bytes = write_run(run, N_STEPS, N_FEATURES)
        rows.append(Row("steps.jsonl", size, "", f"{n_bytes / 1e6:.0f} MB"))
        for what, program in {"summary": _SUMMARY, "page": _PAGE}.items():
            made = Path(folder) / f"{what}.html"
            seconds, megabytes = _measured(program, run, made)
            length = made.stat().st_size
            rows += [
                _row(f"{what}: time", size, shown(seconds), seconds / SECONDS, f"{SECONDS:.0f} s"),
                _row(
                    f"{what}: memory",
                    size,
                    f"{megabytes:.0f} MB",
                    megabytes / MEGABYTES,
                    f"{MEGABYTES:.0f} MB",
                ),
                _row(f"{what}: size", size, f"{length / 1e3:.0f} KB", length / PAGE_BYTES, "1 MB"),
            ]
        painted = _first_paint(made)
        if painted is not None:
            share = painted / PAINT_SECONDS
            rows.append(_row("page: first paint", size, shown(painted), share, "1 s"))
    return show("report: the page of the largest run", rows)


def _first_paint(page: Path) -> float | None:
    """Seconds until a browser shows something of the page: the median of five loads."""
    from tests.report.browser import Chromium, program

    found = program() if find_spec("playwright") else None
    if found is None:
        return None
    chromium, seconds = Chromium(found), []
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    try:
        for _ in range(5):
            with chromium.tab() as tab:
                tab.open(page)
                while (milliseconds := tab.page.evaluate(paint)) is None:
                    time.sleep(0.05)
                seconds.append(milliseconds / 1e3)
    finally:
        chromium.close()
    return median(seconds)


def _row(what: str, size: str, found: str, share: float, most: str) -> Row:
    return Row(what, size, found, f"{share:.0%}", f"< {most}", share < 1.0)


def _measured(program: str, *arguments: Path) -> tuple[float, float]:
    """Seconds that a program takes, and the most memory that it has."""
    started = time.perf_counter()
    watcher = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [sys.executable, "-c", watcher, program, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    unit = 1 if sys.platform == "darwin" else 1024
    return time.perf_counter() - started, int(done.stdout) * unit / 1e6


def write_run(run: Path, n_steps: int, n_features: int) -> int:
    """Write the folder of a run that has ended; gives the bytes of its records."""
    from fires.run.records import VERSION

    run.mkdir(parents=True)
    rng = np.random.default_rng(0)
    names = [f"feature {place}" for place in range(n_features)]
    (run / "names.json").write_text(json.dumps(names))
    n_bytes = _write_steps(run / "steps.jsonl", n_steps, n_features, rng)
    _write_snapshots(run, n_steps, n_features, rng)
    with (run / "features.csv").open("w") as file:
        titles = "rank,feature,weight,importance,uncertainty,low,high,above_noise,selected"
        file.write(f"{titles},share_selected\n")
        values = _importances(np.arange(n_features), rng)
        order = np.argsort(-np.abs(values))
        for rank, (place, value) in enumerate(zip(order, values[order].tolist(), strict=True), 1):
            ends = f"{value},0.0054321,{value - 0.01},{value + 0.01},{abs(value) > 0.03}"
            file.write(f"{rank},{names[place]},{abs(value)},{ends},False,0.0\n")
    facts = {"status": "ended", "records": VERSION, "fires": "0", "id": "benchmark"}
    facts |= {"started": "2026-01-01T00:00:00+00:00", "settings": {"target": "label"}}
    facts |= {"seconds": 1e-3 * n_steps, "stability": 0.99, "model": "probit"}
    (run / "run.json").write_text(json.dumps(facts | {"classes": ["no", "yes"]}))
    return n_bytes


def _write_steps(path: Path, n_steps: int, n_features: int, rng: np.random.Generator) -> int:
    accuracy = rng.normal(0.8, 0.04, size=(n_steps, 3)).clip(0.0, 1.0).round(2).tolist()
    seconds = (1e-4 * rng.lognormal(size=(n_steps, 2))).round(9).tolist()
    selected: list[int] = []
    with path.open("w") as file:
        for index in range(n_steps):
            mine, others, constant = accuracy[index]
            scores = f'{{"accuracy": {mine}, "balanced_accuracy": {mine}}}'
            line = f'{{"index": {index}, "rows": {100 * (index + 1)}, "n_rows": 100, '
            line += f'"scores": {scores}, "selected": '
            changed = ""
            if index % _CHANGES_EVERY == 0:
                before = set(selected)
                now = set(rng.choice(selected, N_SELECTED - 1, False).tolist() if selected else ())
                while len(now) < N_SELECTED:
                    now.add(int(n_features * rng.random() ** 4))
                selected = sorted(now)
                came, left = sorted(now - before), sorted(before - now)
                changed = f', "came": {came}, "left": {left}'
            line += f'{selected}, "stability": 0.98, "seconds_select": {seconds[index][0]}, '
            line += f'"seconds_train": {seconds[index][1]}, "baselines": {{"majority": '
            line += f'{{"accuracy": {constant}, "balanced_accuracy": 0.5}}, "all": '
            line += f'{{"accuracy": {others}, "balanced_accuracy": {others}}}}}{changed}'
            if index % _ALARMS_EVERY == 7:
                feature = selected[0] if index % (2 * _ALARMS_EVERY) == 7 else "null"
                line += f', "alarms": [{{"row": {100 * index}, "batch": {index}, '
                line += f'"feature": {feature}, "strength": 9.5}}]'
            if index % 10 == 0:
                importance = rng.normal(size=N_SELECTED).round(6).tolist()
                line += f', "importance": {importance}, "uncertainty": {[0.012345] * N_SELECTED}'
            file.write(line + "}\n")
    return path.stat().st_size


def _write_snapshots(run: Path, n_steps: int, n_features: int, rng: np.random.Generator) -> None:
    from fires.core.state import write_state
    from fires.run.records import SNAPSHOTS, VERSION, stride

    (run / SNAPSHOTS).mkdir()
    n_kept = min(n_features, 10_000)
    mean = rng.normal(size=n_features)
    for index in range(0, n_steps, stride(n_steps - 1)):
        # Those of noise are others each time, nearly.
        some = rng.choice(n_features - n_kept // 2, n_kept // 2, replace=False) + n_kept // 2
        features = np.append(np.arange(n_kept // 2), np.sort(some)).astype(np.int32)
        importance = _importances(features, rng).astype(np.float32)
        arrays = {
            "features": features,
            "importance": importance,
            "uncertainty": rng.uniform(0.004, 0.006, n_kept).astype(np.float32),
            "rank": np.argsort(np.argsort(-np.abs(importance))).astype(np.int32) + 1,
            "selected": np.zeros(n_kept, dtype=bool),
            "mean": mean[features] + rng.normal(size=n_kept),
            "deviation": rng.random(n_kept) + 0.5,
        }
        facts = {"records": VERSION, "index": index, "rows": 100 * (index + 1)}
        write_state(run / SNAPSHOTS / f"{index:012d}.safetensors", facts, arrays)


def _importances(places: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Noise, and a few of the first features that stand out of it."""
    return rng.normal(size=len(places)) * np.where(places < 50, 0.3, 0.005)
