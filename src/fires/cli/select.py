"""``fires select``: from a file to the features that matter."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.config import as_toml, read_config
from fires.cli.durable import NUMERIC, BadRows, DurableRun, MostBad
from fires.cli.interrupts import Interruptible, let_signals_through
from fires.cli.progress import one_bar
from fires.cli.reading import Notices, Reading
from fires.cli.run_facts import settings_facts, stream_facts
from fires.cli.selection import print_selection
from fires.cli.startup import quick_imports
from fires.cli.text import EXPECTED, message, printable, saying_where
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.columns import Doubt
    from fires.evaluation.run_folder import Checkpoint, RunFolder
    from fires.selectors.fires import FIRES
    from fires.streams.table_stream import TableStream

_EXAMPLES = """\b
Examples:
  fires select events.csv --target label --top 20
  fires select events.parquet --target amount --model gaussian --out run/
  zcat events.csv.gz | fires select - --target label --exclude id,time --json
"""
_MODELS = ("auto", "probit", "logistic", *NUMERIC)


@click.command("select", epilog=_EXAMPLES)
@options.target()
@options.top
@options.batch_size()
@options.choice(
    "--model",
    _MODELS,
    "What the target is: classes (probit, logistic), numbers (gaussian) or counts (poisson).",
)
@options.count(
    "--max-categories", 1000, "Categories of a text column that get a code of their own."
)
@options.count("--seed", 0, "For models that draw random numbers; the linear ones do not.", least=0)
@click.option(
    "--as-published",
    is_flag=True,
    help="The paper to the letter: a probit without intercept. Nothing is scaled, for the "
    "Perceptron neither.",
)
@options.reading
@options.out(
    "the result, and for what a later --resume needs: features.csv, columns.csv, "
    "state.safetensors, run.json, run.toml, steps.jsonl, checkpoints and more."
)
@options.overwrite
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="DIR",
    is_eager=True,
    callback=lambda ctx, option, path: resume_options(ctx, path),
    help="Go on with the run in a folder that --out has made, wherever it ended; FILE and options "
    "are those of the run.",
)
@click.option(
    "--checkpoint",
    metavar="N|TIME",
    default="10s",
    show_default=True,
    help="How often to save the run while it goes on: every so many batches, or 10s, 5m, ... "
    "Time is stretched so that saving takes a twentieth of it at most.",
)
@click.option(
    "--transform",
    is_flag=True,
    help="Also write the selected columns of all rows to --out, a Parquet file a checkpoint.",
)
@click.option(
    "--max-bad",
    type=MostBad(),
    help="End the run if more rows than this cannot be used: a number, or a share of all rows.",
)
@click.option(
    "--max-wait",
    type=click.FloatRange(min=0.0, min_open=True),
    metavar="SECONDS",
    help="Learn from fewer rows than a batch has if no more come for so long.",
)
@options.config
@options.as_json
@options.quiet
@options.debug
def command(
    target: str | None,
    top: int | float,
    batch_size: int,
    model: str,
    max_categories: int,
    seed: int,
    as_published: bool,
    out: Path | None,
    overwrite: bool,
    resume: Path | None,
    checkpoint: str,
    transform: bool,
    max_bad: int | float | None,
    max_wait: float | None,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Rank the features of FILE by how much they tell about a target.

    FILE is text with a header (CSV, TSV), NDJSON, svmlight, Parquet or Arrow, text packed or not,
    or - for standard input; fires columns FILE shows how it is understood. Several files, or a
    pattern such as "events/*.csv", are read one after the other. They are read once, in bounded
    memory, batch by batch, a pipe as it fills. Rows that cannot be used are counted, shown and
    left out.

    While it reads, a Perceptron that sees nothing but the selected features is tested on each
    batch before it learns from it. Its accuracy says what the selection is worth, beside that of
    a Perceptron on all features, and of saying the most common class of the rows before; balanced
    accuracy counts every class alike. Where the target holds numbers or counts, it is a linear
    regression, with R2 (1 is perfect, 0 no better than the mean of the rows before) and MAE, the
    mean absolute error. svmlight needs no --target.

    Whatever ends the run early, Ctrl-C or an error: what was learnt until then is shown and saved.
    With --out, even a run that was killed goes on with --resume, and loses nothing.
    """
    if as_published and model not in ("auto", "probit"):
        raise click.UsageError(f"--as-published is a probit; it does not go with --model {model}.")
    out = resume or out
    if transform and out is None:
        raise click.UsageError("--transform needs a folder to write to: give --out.")
    reading = Reading(**how)
    if resume is not None and reading.reads_once:
        raise InputError(
            f"{resume} was learnt from {reading.name}, which cannot be read again from the middle",
            hint="what it had learnt is in its state.safetensors, for fires.load",
        )
    with quick_imports():
        from fires.evaluation.checkpoints import Schedule
        from fires.evaluation.run_folder import RunFolder, alarm_rows, feature_rows
        from fires.selectors.fires import FIRES

        importlib.import_module("polars")
    schedule = Schedule(checkpoint)
    let_signals_through()
    with ExitStack() as stack:
        folder, saved, unsaved = None, None, None
        facts = settings_facts(file=reading.files)
        if out is not None:
            folder = RunFolder(out, overwrite=overwrite, resume=resume is not None)
            stack.enter_context(folder)
        if folder is not None and resume is not None:
            saved = _newest(folder, quiet)
            facts["started"] = started_before(resume) or facts["started"]
        if folder is not None:
            folder.begin(as_toml(click.get_current_context(), file=reading.files), facts)
        holds = "numbers" if model in NUMERIC else "auto" if model == "auto" else "classes"
        after = None if saved is None else saved.facts["bookmark"]
        stream = reading.open(target, max_categories=max_categories, holds=holds, after=after)
        notices = Notices(stream, quiet)
        stream.max_wait = max_wait
        durable = DurableRun(stream, batch_size, folder, schedule)
        source, names = durable.source, stream.schema.feature_names
        label = stream.schema.target if transform else None
        write = None if folder is None else lambda faults: folder.records.quarantine(faults)
        stream.on_fault = BadRows(max_bad, lambda: durable.n_rows, stream.rejected.count, write)
        with (
            source,
            one_bar("0 rows", "{task.fields[now]}", total=stream.n_bytes, hidden=quiet) as show,
            saying_where(reading.name, stream.schema.target, durable),
        ):
            if folder is not None and saved is not None:
                folder.go_on(saved, names, transform=label)
                durable.go_on(*saved)
            else:
                settings: dict[str, Any] = {"random_state": seed, "batch_size": batch_size}
                selector = FIRES(top, model=model, **settings)
                if as_published:
                    selector = FIRES.as_published(top, **settings)
                durable.begin(selector, model, None if as_published else "standard", label)
            durable.learn(show)
        run, totals = durable.run, durable.run.totals
        selector, pipeline = run.pipeline.selector, run.pipeline
        known = names if stream.columns is None else stream.columns.of_features
        found = run.watch.settled(known, getattr(stream, "doubts", ()))
        settled = tuple(doubt for doubt in found if not _varies(doubt, stream))
        _tried(durable.save)  # if it fails, the one before stays
        stream.doubts = settled
        notices.tell(ended=True)
        if source.reason is None:
            _refuse_one_class(selector, reading.name, stream.schema.target, folder)
        facts |= stream_facts(stream, durable.seconds) | {
            "ended_early": source.reason,
            "model": selector.model_,
            "classes": selector.classes_.tolist() if hasattr(selector, "classes_") else None,
            "n_features": len(set(known)),
            "missing_values": pipeline.n_missing_,
            "target": stream.target.column.as_json() if hasattr(stream, "target") else None,
            "alarms": alarm_rows(selector, known, totals),
        }
        if folder is not None:
            columns = () if stream.columns is None else stream.describe()
            finish = partial(folder.finish, pipeline, names, totals, facts, columns)
            unsaved = _tried(finish)
    chosen = feature_rows(selector, names, totals, selector.get_support(indices=True))
    if as_json:
        click.echo(json.dumps({"features": chosen} | facts | totals.as_dict(), ensure_ascii=False))
    else:
        print_selection(chosen, totals, facts, stream.rejected)
        if folder is not None and unsaved is None and not quiet:
            click.echo(f"written to {out}: features.csv, state.safetensors, run.json, and more")
    _end(source, totals.n_rows, out, unsaved)


def resume_options(ctx: click.Context, path: Path | None) -> Path | None:
    """Take the options of a run from its folder."""
    if path is None:
        return None
    if not (path / "run.toml").is_file():
        why = "has no run.toml" if path.is_dir() else "is no folder"
        hint = "give the folder that fires select --out has made"
        raise InputError(f"{path} holds no run to go on with: it {why}", hint=hint)
    read_config(ctx, path / "run.toml")
    return path


def _newest(folder: RunFolder, quiet: bool) -> Checkpoint | None:
    """The checkpoint that a run goes on with; says which, and what is wrong with later ones."""
    saved, damaged = folder.newest_checkpoint()
    for line in damaged:
        click.echo(printable(f"a checkpoint cannot be used: {line}"), err=True)
    if not quiet:
        rows = 0 if saved is None else saved.run.totals.n_rows
        where = f"after {rows:,} rows" if rows else "with the first row: it has no checkpoint yet"
        click.echo(printable(f"{folder.path} goes on {where}"), err=True)
    return saved


def started_before(path: Path) -> str | None:
    """When the run in a folder was begun, if that can be read."""
    try:
        return str(json.loads((path / "run.json").read_bytes())["started"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _tried(write: Callable[[], None]) -> OSError | None:
    """What went wrong when something was written, if anything did."""
    try:
        write()
    except OSError as error:
        return error
    return None


def _end(source: Interruptible, n_rows: int, out: Path | None, unsaved: OSError | None) -> None:
    """Say what ended the run early, or why it could not be saved, with a code for scripts."""
    if source.reason is None and unsaved is None:
        return
    if unsaved is not None:
        kept = f", but could not be saved: {message(unsaved)}"
    else:
        kept = "" if out is None else f" and saved in {out}"
    learnt = f"what was learnt from the first {n_rows:,} rows is shown above{kept}"
    if source.signal is not None:
        click.echo(printable(f"Interrupted; {learnt}."), err=True)
        sys.exit(128 + source.signal)
    if source.error is None:
        raise InputError(learnt) from unsaved
    if not isinstance(source.error, EXPECTED):
        click.echo(printable(f"{learnt}; what ended the run is our fault:"), err=True)
        raise source.error
    raise InputError(f"{source.reason}; {learnt}") from source.error


def _varies(doubt: Doubt, stream: TableStream) -> bool:
    """Whether a column that seems constant has several categories, which all say the same."""
    columns = () if stream.columns is None else stream.columns.used
    several = {column.name for column in columns if len(column.categories) > 1}
    return doubt.kind == "constant" and doubt.column in several


def _refuse_one_class(selector: FIRES, file: str, target: str, folder: RunFolder | None) -> None:
    classes = getattr(selector, "classes_", None)
    if classes is not None and len(classes) == 1:
        if folder is not None:
            folder.discard()
        raise InputError(
            f'the target column "{target}" of {file} holds one value only, '
            f"{classes[0].item()!r}: there is nothing to tell apart"
        )
