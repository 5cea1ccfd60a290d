"""What the commands of ``fires bench`` share: options, and how cells are run and counted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.progress import bars
from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.worker import Job, Record

out = partial(options.out, file_okay=False)
PROTOCOLS = ("as-published", "test-then-train", "honest")
jobs = click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes, with one thread each; by default as many as there are cores.",
)


def protocols(option: str) -> tuple[str, ...]:
    """The protocols that an option stands for."""
    from fires.bench.cells import PROTOCOLS, TEST_THEN_TRAIN

    meant = {"both": tuple(PROTOCOLS), "test-then-train": (TEST_THEN_TRAIN,)}
    return meant.get(option, (option,))


def run(
    cells: Sequence[Job], out: Path, jobs: int, what: str, count: str = "", **options: Any
) -> list[Record]:
    """Run what has not been run yet, with bars; say first which cells are run again."""
    from fires.bench.runner import CELLS, finished, outdated, read_records, run_cells

    kept = read_records(out, options.get("file", CELLS))
    for why, n in outdated(cells, kept).items():
        click.echo(f"{several(n, what)} {'is' if n == 1 else 'are'} run again: {why}", err=True)
    if count:
        done = finished(cells, kept)
        before = f", {len(done):,} of them done before" if done else ""
        click.echo(f"{several(len(cells), what)}{before}{count}", err=True)
    with bars(cells) as progress:
        return run_cells(cells, out, jobs, progress, **options)


def several(n: int, what: str) -> str:
    """A number of things."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def finish(records: Mapping[str, Sequence[Record]], folder: Path) -> None:
    """End with code 1 if something failed, and say in which file it stands."""
    n_failed = {name: sum("error" in one for one in found) for name, found in records.items()}
    for name, n in n_failed.items():
        if n:
            what = f"{several(n, 'cell')} failed; {folder / name} has the whole story"
            click.echo(what, err=True)
    if any(n_failed.values()):
        sys.exit(1)


def say_left_out(lines: Iterable[str]) -> None:
    """Say on standard error what is missing."""
    for line in lines:
        click.echo(printable(f"Left out: {line}"), err=True)
