"""``fires bench``: the paper's experiments, run again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.runner import Record
    from fires.bench.summary import Summary
    from fires.bench.tables import Table

_OUT = click.Path(path_type=Path, file_okay=False)
_JOBS_HELP = "Processes, with one thread each; by default as many as there are cores."


@click.group("bench")
def command() -> None:
    """The experiments of the paper (Haug et al., KDD 2020), run again."""


@command.command("kdd2020")
@click.option("--quick", is_flag=True, help="One setting, at most 3,000 rows: some minutes.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help=_JOBS_HELP)
@click.option(
    "--out",
    type=_OUT,
    metavar="DIR",
    help="Folder for results and tables.  [default: fires-kdd2020, with --quick "
    "fires-kdd2020-quick]",
)
@click.option("--datasets", metavar="A,B", help="Only these data sets; default: all but RBF.")
@click.option("--all-datasets", is_flag=True, help="RBF too, which takes longest.")
@click.option("--methods", metavar="X,Y", help="Only these methods.")
@click.option(
    "--protocol",
    type=click.Choice(["as-published", "honest", "both"]),
    default="both",
    show_default=True,
    help="The paper's order and scaling, or tested before learnt from, or one after the other.",
)
@click.option("--no-run", is_flag=True, help="Only write the tables anew, from what was run.")
@click.pass_context
def _kdd2020(
    ctx: click.Context,
    quick: bool,
    jobs: int | None,
    out: Path | None,
    datasets: str | None,
    all_datasets: bool,
    methods: str | None,
    protocol: str,
    no_run: bool,
) -> None:
    """Run the experiments and write tables, ours beside the published.

    Four batch sizes and three fractions of selected features, for each data set and method. Every
    result is kept in DIR/cells.jsonl as soon as it is there: a run that was stopped goes on when
    the same command is given again. Boosting and VFDT learn row by row, and take hours.
    """
    from fires.bench import kdd2020, tables
    from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
    from fires.bench.runner import finished, read_records, run_cells
    from fires.bench.summary import Summary
    from fires.streams.datasets import describe

    if datasets is not None and all_datasets:
        raise click.UsageError("--datasets and --all-datasets do not go together.")
    out = out or Path("fires-kdd2020-quick" if quick else "fires-kdd2020")
    jobs = jobs or kdd2020.cores()
    usual = DATASETS if all_datasets else kdd2020.USUAL_DATASETS
    cells = kdd2020.plan(
        usual if datasets is None else [describe(name).name for name in _names(datasets)],
        list(METHODS) if methods is None else [kdd2020.named_method(m) for m in _names(methods)],
        PROTOCOLS if protocol == "both" else (protocol,),
        quick=quick,
    )
    cells = list(dict.fromkeys(cells))
    n_failed = 0
    if not no_run:
        done = finished(cells, read_records(out))
        todo = [cell for cell in cells if cell not in done]
        missing = kdd2020.missing(todo)
        for line in missing.values():
            click.echo(printable(f"Left out: {line}"), err=True)
        todo = [c for c in todo if c.dataset not in missing and c.method not in missing]
        known = f", {len(done):,} of them done before" if done else ""
        click.echo(f"{len(done) + len(todo):,} cells{known}; results go to {out}", err=True)
        if todo:
            kdd2020.note_run(out, _command(ctx), jobs)
        with _bars([*done, *todo]) as progress:
            records = run_cells([*done, *todo], out, jobs, progress)
        n_failed = _n_failed(records)
    summary = Summary(out)
    if not summary.records:
        raise click.ClickException(f"there are no results in {out}")
    written = tables.write(out)
    _print_summary(summary)
    click.echo(f"\nwritten to {out}: {', '.join(path.name for path in written)}")
    _exit(n_failed, out / "cells.jsonl")


@command.command("tune")
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--target", "-t", metavar="COL", help="The column to predict; DATASET is a file then."
)
@click.option("--quick", is_flag=True, help="At most 3,000 rows.")
@click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N", help=_JOBS_HELP)
@click.option(
    "--out", type=_OUT, metavar="DIR", help="Folder for results.  [default: fires-tune-DATASET]"
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="N",
    help="Rows to learn from at once.",
)
@click.option(
    "--fraction",
    type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True),
    default=0.1,
    show_default=True,
    metavar="F",
    help="The share of features to select.",
)
@click.option(
    "--protocol",
    type=click.Choice(["as-published", "honest"]),
    help="As in kdd2020.  [default: as-published; for a file honest, which is the only one]",
)
def _tune(
    dataset: str,
    target: str | None,
    quick: bool,
    jobs: int | None,
    out: Path | None,
    batch_size: int,
    fraction: float,
    protocol: str | None,
) -> None:
    """Search learning rate and uncertainty penalty of FIRES as the paper did.

    DATASET is a data set of the paper or, with --target, a file. All 45 pairs of the paper's grid
    are tried with a linear model, and ordered by the harmonic mean of accuracy and stability.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    from fires.bench import kdd2020, tune
    from fires.bench.runner import run_cells
    from fires.core.storage import replace_file
    from fires.streams.datasets import describe, load

    if target is None:
        if Path(dataset).is_file():
            raise click.UsageError(f"{dataset} is a file: name the column to predict, --target.")
        dataset, name = describe(dataset).name, describe(dataset).name.lower()
        protocol = protocol or "as-published"
        load(dataset, n_rows=1)  # one line now, and not one for each trial
    else:
        tune.check_file(dataset, target)
        dataset, name = str(Path(dataset).resolve()), Path(dataset).stem
        protocol = protocol or "honest"
    out = out or Path(f"fires-tune-{name}")
    n_rows = kdd2020.QUICK_ROWS if quick else None
    trials = tune.grid(
        dataset,
        target,
        batch_size=batch_size,
        fraction=fraction,
        protocol=protocol,
        n_rows=n_rows,
    )
    with _bars(trials) as progress:
        records = run_cells(
            trials, out, jobs or kdd2020.cores(), progress, work=tune.run, file=tune.TRIALS
        )
    found = tune.table(records)
    about = f"{protocol}, batches of {batch_size}, {fraction:g} of the features. {tune.ABOUT}"
    replace_file(out / "tune.csv", found.csv().encode())
    page = f"# FIRES on {name}: learning rate and uncertainty penalty\n\n{about}\n\n"
    replace_file(out / "tune.md", f"{page}{found.markdown()}\n".encode())
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in found.columns:
        shown.add_column(title, justify="right" if title else "left")
    best, choice = found.rows[:10], [row for row in found.rows[10:] if row[-1] == "paper"]
    for number, row in enumerate([*best, *choice], start=1):
        shown.add_row(*row, end_section=number == len(best))
    Console().print(shown)
    click.echo(f"\n{about}\nwritten to {out}: tune.md, tune.csv")
    _exit(_n_failed(records), out / tune.TRIALS)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError("a list of names, separated by commas, must hold one at least.")
    return names


def _command(ctx: click.Context) -> str:
    """The command as it was given, but for where the results went."""
    words = [*ctx.command_path.split(), *_given(ctx)]
    return shlex.join(words)


def _given(ctx: click.Context) -> Iterator[str]:
    from click.core import ParameterSource

    for option in ctx.command.params:
        name = option.name
        if name is None or name == "out":
            continue
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            yield f"--{name.replace('_', '-')}"
            if not isinstance(ctx.params[name], bool):
                yield str(ctx.params[name])


def _n_failed(records: Sequence[Record]) -> int:
    return sum("error" in record for record in records)


def _exit(n_failed: int, where: Path) -> None:
    if n_failed:
        were = "cell" if n_failed == 1 else "cells"
        click.echo(f"{n_failed:,} {were} failed; {where} has the whole story", err=True)
        sys.exit(1)


def _print_summary(summary: Summary) -> None:
    """The mean rows of the tables, one line for each method."""
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    from fires.bench.tables import protocol_tables

    for protocol in summary.protocols:
        found = protocol_tables(summary, protocol)
        shown = RichTable(
            title=f"{protocol}: mean over the data sets",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            pad_edge=False,
        )
        shown.add_column("method", vertical="bottom", no_wrap=True)
        parts: list[dict[str, list[str]]] = []
        for table in found:
            if table.name.startswith("time"):
                continue
            quantity = table.name.split("-")[0]
            for title in (f"{quantity}\nours", "\npaper", "\ndiff."):
                shown.add_column(title, justify="right", vertical="bottom", no_wrap=True)
            parts.append(_means(table))
        for method in summary.methods:
            shown.add_row(method, *(t for part in parts for t in part.get(method, ["–"] * 3)))
        click.echo()
        Console().print(shown)


def _means(table: Table) -> dict[str, list[str]]:
    """Of each method in a table: ours, the published and the difference, all of them means."""
    start = next(number for number, row in enumerate(table.rows) if row[0] == "mean")
    block = table.rows[start : start + 3]
    return {name: [row[place] for row in block] for place, name in enumerate(table.columns)}


@contextmanager
def _bars(cells: Sequence[Any]) -> Iterator[Any]:
    """Bars on standard error, if that is a terminal: the data sets, and the cells of each."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    status = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=status,
        expand=True,
        transient=True,
        disable=not status.is_terminal,
    ) as progress:
        watch = _Watch(progress, cells)
        try:
            yield watch
        except KeyboardInterrupt:
            watch.say(
                f"{watch.n_ended:,} of {len(cells):,} done; the same command goes on from here"
            )
            raise


class _Watch:
    """Moves the bars, and says what failed."""

    def __init__(self, progress: Any, cells: Sequence[Any]) -> None:
        self._progress = progress
        self._left: dict[str, int] = {}
        for cell in cells:
            self._left[cell.dataset] = self._left.get(cell.dataset, 0) + 1
        self._total = dict(self._left)
        self._tasks: dict[str, Any] = {}
        self._all = progress.add_task("data sets", total=len(self._left))
        self.n_ended = 0

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        console = self._progress.console
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def began(self, cell: Any) -> None:
        if cell.dataset not in self._tasks:
            total = self._total[cell.dataset]
            done = total - self._left[cell.dataset]
            name = printable(Path(cell.dataset).name)
            self._tasks[cell.dataset] = self._progress.add_task(name, total=total, completed=done)

    def ended(self, cell: Any, record: Record) -> None:
        self.n_ended += 1
        self._left[cell.dataset] -= 1
        if "error" in record:
            self.say(f"Failed: {cell}: {record['error']}")
        task = self._tasks.get(cell.dataset)
        if task is not None:
            self._progress.update(task, advance=1)
        if not self._left[cell.dataset]:
            self._progress.advance(self._all)
            if task is not None:
                self._progress.remove_task(task)
