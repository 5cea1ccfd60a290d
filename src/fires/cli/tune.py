"""``fires bench tune``: the paper's grid search."""

from __future__ import annotations

from pathlib import Path

import click

from fires.cli import bench_runs as runs
from fires.cli import options


@click.command("tune")
@click.argument("dataset", metavar="DATASET")
@click.option(
    "--target", "-t", metavar="COL", help="The column to predict; DATASET is a file then."
)
@click.option("--quick", is_flag=True, help="At most 3,000 rows.")
@runs.jobs
@runs.out("results.  [default: fires-tune-DATASET]")
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
    type=click.Choice(runs.PROTOCOLS),
    help="As in kdd2020.  [default: as-published; for a file honest, which is the only one]",
)
def command(
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
    are tried with a linear model, and ordered by the harmonic mean of accuracy and stability; of
    R2 and stability, where the target holds numbers.
    """
    from rich.console import Console

    from fires.bench import kdd2020, tune
    from fires.bench.datasets.loading import describe
    from fires.cli.tables import text_table
    from fires.core.files import replace_file
    from fires.run.folder import refuse_foreign
    from fires.streams.base import InputError

    n_rows, numeric = kdd2020.QUICK_ROWS if quick else None, False
    if target is None:
        if Path(dataset).is_file():
            raise click.UsageError(f"{dataset} is a file: name the column to predict, --target.")
        dataset, name = describe(dataset).name, describe(dataset).name.lower()
        if why := kdd2020.why_unavailable(dataset):  # one line now, and not one for each trial
            raise InputError(why)
    else:
        numeric = tune.check_file(dataset, target, n_rows)
        dataset, name = str(Path(dataset).resolve()), Path(dataset).stem
    (protocol,) = runs.protocols(protocol or ("as-published" if target is None else "honest"))
    out = out or Path(f"fires-tune-{name}")
    refuse_foreign(out, tune.TRIALS)
    trials = tune.grid(
        dataset,
        target,
        batch_size=batch_size,
        fraction=fraction,
        protocol=protocol,
        n_rows=n_rows,
        numeric=numeric,
    )
    n_jobs = jobs or kdd2020.cores()
    records = runs.run(trials, out, n_jobs, "trial", work=tune.run, file=tune.TRIALS)
    found = tune.table(records)
    meaning = tune.ABOUT_NUMBERS if numeric else tune.ABOUT
    about = f"{protocol}, batches of {batch_size}, {fraction:g} of the features. {meaning}"
    replace_file(out / "tune.csv", found.csv().encode())
    page = f"# FIRES on {name}: learning rate and uncertainty penalty\n\n{about}\n\n"
    replace_file(out / "tune.md", f"{page}{found.markdown()}\n".encode())
    shown = text_table(found.columns, left=[""], wrapped=found.columns)
    best, choice = found.rows[:10], [row for row in found.rows[10:] if row[-1] == "paper"]
    for number, row in enumerate([*best, *choice], start=1):
        shown.add_row(*row, end_section=number == len(best))
    Console().print(shown)
    click.echo(f"\n{about}\nwritten to {out}: tune.md, tune.csv")
    runs.finish({tune.TRIALS: records}, out)
