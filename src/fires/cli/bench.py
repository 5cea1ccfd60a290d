"""``fires bench``: the paper's experiments, run again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.progress import bars
from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.figures import Plan
    from fires.bench.runner import Record
    from fires.bench.summary import Summary
    from fires.bench.tables import Table

_OUT = click.Path(path_type=Path, file_okay=False)
_METHODS = (  # what makes them takes long to import
    "OnlineBoosting, VFDT, FIRES-GLM, FIRES-ANN, FIRES-SDT, OFS, EFS, FSDS, all-features, "
    "random-features"
)
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
    help="Folder for results, tables and figures.  [default: fires-kdd2020, with --quick "
    "fires-kdd2020-quick]",
)
@click.option(
    "--datasets",
    metavar="A,B",
    help="Only these of the data sets that `fires data list` shows.  [default: all but RBF]",
)
@click.option("--all-datasets", is_flag=True, help="RBF too, which takes longest.")
@click.option("--methods", metavar="X,Y", help=f"Only these of {_METHODS}.  [default: all]")
@click.option(
    "--protocol",
    type=click.Choice(["as-published", "honest", "both"]),
    default="both",
    show_default=True,
    help="The paper's order and scaling, or tested before learnt from, or one after the other.",
)
@click.option("--no-figures", is_flag=True, help="Tables only.")
@click.option("--no-run", is_flag=True, help="Write tables and figures anew, from what was run.")
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
    no_figures: bool,
    no_run: bool,
) -> None:
    """Run the experiments; write tables, ours beside the published, and figures.

    Four batch sizes and three fractions of selected features, for each data set and method. Every
    result is kept in DIR/cells.jsonl as soon as it is there: a run that was stopped goes on when
    the same command is given again. Boosting and VFDT learn row by row, and take hours.

    The figures, in DIR/figures, are the paper's, and as published: the pixels that tell MNIST's
    3, 8 and 9 apart; accuracy and stability over time and against each other, and with several
    penalties, on Gisette or, where a part of it is missing, on MNIST or else Madelon. They show
    those of the methods that are run, but Boosting and VFDT. They need matplotlib, the extra plot.
    """
    from fires.bench import figures, kdd2020, tables
    from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
    from fires.bench.datasets.loading import describe
    from fires.bench.runner import CELLS, finished, outdated, read_records, run_cells
    from fires.bench.summary import Summary

    if datasets is not None and all_datasets:
        raise click.UsageError("--datasets and --all-datasets do not go together.")
    out = out or Path("fires-kdd2020-quick" if quick else "fires-kdd2020")
    jobs = jobs or kdd2020.cores()
    names, chosen = [*(DATASETS if all_datasets else kdd2020.USUAL_DATASETS)], [*METHODS]
    if datasets is not None:
        names = [describe(name).name for name in _names(datasets, "--datasets")]
    if methods is not None:
        chosen = [kdd2020.named_method(name) for name in _names(methods, "--methods")]
    protocols = PROTOCOLS if protocol == "both" else (protocol,)
    cells = list(dict.fromkeys(kdd2020.plan(names, chosen, protocols, quick=quick)))
    missing: dict[str, str] = {}
    n_failed: dict[str, int] = {}
    if not no_run:
        done = finished(cells, records := read_records(out))
        missing = kdd2020.missing([cell for cell in cells if cell not in done])
        _say_left_out(missing.values())
        cells = [c for c in cells if c in done or not {c.dataset, c.method} & missing.keys()]
        if not cells:
            why = "" if missing else ": --quick leaves OnlineBoosting out where features are many"
            raise click.ClickException(f"there is nothing to run{why}")
        _say_again("cell", outdated(cells, records))
        click.echo(f"{_count('cell', cells, done)}; results go to {out}", err=True)
        if len(cells) > len(done):
            kdd2020.note_run(out, _command(ctx), jobs)
        with bars(cells) as progress:
            n_failed[CELLS] = _n_failed(run_cells(cells, out, jobs, progress))
    summary = Summary(out)
    if not summary.records:
        raise click.ClickException(f"there are no results in {out}")
    written = tables.write(out)
    drawn: list[Path] = []
    if not no_figures:
        names, chosen = ([w for w in words if w not in missing] for words in (names, chosen))
        plan = None if no_run else figures.plan(names, chosen, protocols, quick=quick)
        drawn, n_failed[figures.RUNS] = _draw(plan, out, jobs)
    _print_summary(summary)
    click.echo(f"\nwritten to {out}: {_listed(written, drawn)}")
    _exit(n_failed, out)


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
@options.batch_size()
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
    from fires.bench.datasets.loading import describe
    from fires.bench.runner import outdated, read_records, run_cells
    from fires.core.state import replace_file
    from fires.streams.base import InputError

    n_rows = kdd2020.QUICK_ROWS if quick else None
    if target is None:
        if Path(dataset).is_file():
            raise click.UsageError(f"{dataset} is a file: name the column to predict, --target.")
        dataset, name = describe(dataset).name, describe(dataset).name.lower()
        protocol = protocol or "as-published"
        if why := kdd2020.why_not(dataset):  # one line now, and not one for each trial
            raise InputError(why)
    else:
        tune.check_file(dataset, target, n_rows)
        dataset, name = str(Path(dataset).resolve()), Path(dataset).stem
        protocol = protocol or "honest"
    out = out or Path(f"fires-tune-{name}")
    trials = tune.grid(
        dataset,
        target,
        batch_size=batch_size,
        fraction=fraction,
        protocol=protocol,
        n_rows=n_rows,
    )
    _say_again("trial", outdated(trials, read_records(out, tune.TRIALS)))
    with bars(trials) as progress:
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
    _exit({tune.TRIALS: _n_failed(records)}, out)


def _names(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise click.UsageError(f"{option} needs one name at least; commas go between several.")
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


def _exit(n_failed: Mapping[str, int], folder: Path) -> None:
    """End with code 1 if something failed, and say in which file of the folder it stands."""
    for name, count in n_failed.items():
        if count:
            were = "cell" if count == 1 else "cells"
            click.echo(f"{count:,} {were} failed; {folder / name} has the whole story", err=True)
    if any(n_failed.values()):
        sys.exit(1)


def _say_left_out(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(printable(f"Left out: {line}"), err=True)


def _say_again(what: str, counts: Mapping[str, int]) -> None:
    for why, n in counts.items():
        are = f"{what} is" if n == 1 else f"{what}s are"
        click.echo(f"{n:,} {are} run again: {why}", err=True)


def _count(what: str, cells: Sequence[Any], done: Collection[Any]) -> str:
    known = f", {len(done):,} of them done before" if done else ""
    return f"{len(cells):,} {what}{'s' * (len(cells) != 1)}{known}"


def _draw(plan: Plan | None, out: Path, jobs: int) -> tuple[list[Path], int]:
    """Run what the figures need, and draw them: the files, and how many runs failed.

    Without a plan they are drawn from what was run before.
    """
    from fires.bench import figure_data, figures
    from fires.bench.runner import finished, outdated, read_records, run_cells
    from fires.core.errors import MissingExtra
    from fires.core.optional import require

    try:
        require("matplotlib", "drawing them", "plot")
    except MissingExtra as error:
        _say_left_out([f"figures: {error}"])
        return [], 0
    n_failed = 0
    if plan is not None:
        _say_left_out(plan.left_out)
        if not plan.cells:
            return [], 0
        done = finished(plan.cells, kept := read_records(out, figures.RUNS))
        _say_again("run", outdated(plan.cells, kept))
        click.echo(f"{_count('run', plan.cells, done)}, for the figures", err=True)
        with bars(plan.cells) as progress:
            records = run_cells(
                plan.cells, out, jobs, progress, work=figure_data.run, file=figures.RUNS
            )
        n_failed = _n_failed(records)
    drawn = figures.draw(out)
    _say_left_out(drawn.left_out)
    return drawn.files, n_failed


def _listed(tables: Sequence[Path], figures: Sequence[Path]) -> str:
    """What was written, in one line: pages by their names, the rest by its number."""
    parts = [path.name for path in tables if path.suffix == ".md"]
    for files, what in ((tables, "tables"), (figures, "figures")):
        kinds = dict.fromkeys(path.suffix for path in files if path.suffix != ".md")
        if kinds:
            n = sum(path.suffix != ".md" for path in files) // len(kinds)
            where = f" in {files[-1].parent.name}" if what == "figures" else ""
            parts.append(f"{n} {what if n > 1 else what[:-1]} as {' and '.join(kinds)}{where}")
    return ", ".join(parts)


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
        if burst := [f"{method} on {name}" for name, method in summary.divergences(protocol)]:
            click.echo(f"ceased to be finite, see tables.md: {', '.join(burst)}")


def _means(table: Table) -> dict[str, list[str]]:
    """Of each method in a table: ours, the published and the difference, all of them means."""
    start = next(number for number, row in enumerate(table.rows) if row[0] == "mean")
    block = table.rows[start : start + 3]
    return {name: [row[place] for row in block] for place, name in enumerate(table.columns)}
