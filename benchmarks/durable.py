"""What it costs to save a run every second, and how soon one of a million features goes on.

A run is learnt with a checkpoint every second, and with none but the last, in turns and in one warm
process. What is judged is the share of the time that goes into checkpoints: the seconds within
them, the disk included, by the clock on the wall.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Row, show, shown

N_FEATURES, N_ROWS, N_TIMES, SHARE = 10_000, 2_000, 20, 0.05
MILLION, SECONDS = 1_000_000, 1.0


def main() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        _write_wide(path / "wide.parquet")
        _learn([path / "wide.parquet"], path / "warm", "1000000")
        for turn in range(2):
            what = f"J = {N_FEATURES:,}, {N_ROWS * N_TIMES:,} rows"
            files = [path / "wide.parquet"] * N_TIMES
            alone, _, _ = _learn(files, path / f"alone {turn}", "1000000")
            total, saving, n_saved = _learn(files, path / f"saved {turn}", "1s")
            share = saving / total
            good = f"< {SHARE:.0%} in checkpoints", share < SHARE
            rows += [
                Row("no checkpoint but the last", what, shown(alone)),
                Row("a checkpoint every second", what, shown(total), f"{share:.1%}", *good),
                Row("one of them", f"{n_saved} in all", shown(saving / n_saved)),
            ]
        _write_sparse(path / "million.svm")
        _learn([path / "million.svm"], path / "million", "1000000")
        seconds = min(_resume(path / "million.svm", path / "million") for _ in range(3))
        good = f"< {SECONDS:.0f} s", seconds < SECONDS
        rows.append(Row("taken up again", f"J = {MILLION:,}, sparse", shown(seconds), "", *good))
    return show("durable: checkpoints, and runs taken up again", rows)


def _write_wide(path: Path) -> None:
    import polars as pl

    X = np.random.default_rng(0).standard_normal((N_ROWS, N_FEATURES))
    frame = pl.DataFrame(X, schema=[f"feature {j}" for j in range(N_FEATURES)])
    label = pl.Series("label", X[:, 3] - X[:, 7] > 0)
    frame.with_columns(label).write_parquet(path, compression="uncompressed")


def _write_sparse(path: Path) -> None:
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(f"0 1:1 {MILLION}:1\n")
        for _ in range(1_000):
            columns = np.unique(rng.integers(4, MILLION, size=50)).tolist()
            value = rng.standard_normal()
            others = " ".join(f"{column}:1" for column in columns)
            file.write(f"{int(value > 0)} 3:{value:.4f} {others}\n")


def _run(folder: Any, path: Any, every: str, after: Any = None) -> Any:
    from fires.cli.select import Learning
    from fires.cli.select_options import Options
    from fires.run.checkpoints import Schedule
    from fires.streams.files import from_file

    stream = from_file(path, "label", after=after)
    return Learning(stream, Options(), folder, Schedule(every))


def _learn(files: list[Path], out: Path, every: str) -> tuple[float, float, int]:
    """Seconds of a run, those within checkpoints, and how many there were."""
    from fires.run.folder import RunFolder

    saving: list[float] = []
    with RunFolder(out) as folder:
        folder.begin("", {})
        write = folder.checkpoint

        def checkpoint(*arguments: Any, **more: Any) -> None:
            started = time.perf_counter()
            write(*arguments, **more)
            saving.append(time.perf_counter() - started)

        folder.checkpoint = checkpoint  # type: ignore[method-assign]
        started = time.perf_counter()
        durable = _run(folder, files if len(files) > 1 else files[0], every)
        durable.begin()
        durable.learn(bool)
        durable.save()
        return time.perf_counter() - started, sum(saving), len(saving)


def _resume(path: Path, out: Path) -> float:
    """Seconds until a run is where it was."""
    from fires.run.folder import RunFolder
    from fires.run.run import newest_checkpoint

    started = time.perf_counter()
    with RunFolder(out, resume=True) as folder:
        saved, _ = newest_checkpoint(folder)
        assert saved is not None
        _run(folder, path, "10s", saved.facts["bookmark"]).begin(saved)
        return time.perf_counter() - started
