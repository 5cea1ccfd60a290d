"""``fires select``: from a file to the features that matter."""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.config import as_toml
from fires.cli.interrupts import Interruptible, let_signals_through
from fires.cli.progress import Values, one_bar
from fires.cli.reading import Notices, Reading, rejected_lines
from fires.cli.run_facts import run_facts
from fires.cli.startup import quick_imports
from fires.cli.text import EXPECTED, message, printable, saying_where
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.columns import Doubt
    from fires.evaluation.records import Step
    from fires.evaluation.run_folder import RunFolder
    from fires.evaluation.totals import RunTotals
    from fires.pipeline import OnlinePipeline
    from fires.selectors.fires import FIRES
    from fires.streams.base import Batch
    from fires.streams.table_stream import Rejected, TableStream

_EXAMPLES = """\b
Examples:
  fires select events.csv --target label --top 20
  fires select events.parquet --target amount --model gaussian --out run/
  zcat events.csv.gz | fires select - --target label --exclude id,time --json
"""
_NUMERIC = ("gaussian", "poisson")
_MODELS = ("auto", "probit", "logistic", *_NUMERIC)


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
@options.out("features.csv, columns.csv, state.safetensors, run.json, run.toml and steps.jsonl.")
@options.overwrite
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
    """
    started = time.perf_counter()
    if as_published and model not in ("auto", "probit"):
        raise click.UsageError(f"--as-published is a probit; it does not go with --model {model}.")
    reading = Reading(**how)
    with quick_imports():
        from fires.evaluation.run_folder import RunFolder, alarm_rows, feature_rows
        from fires.evaluation.totals import RunTotals
        from fires.evaluation.watch import Watch
        from fires.selectors.fires import FIRES

        importlib.import_module("polars")
    let_signals_through()
    with ExitStack() as stack:
        folder = None
        if out is not None:
            folder = stack.enter_context(RunFolder(out, overwrite=overwrite))
        holds = "numbers" if model in _NUMERIC else "auto" if model == "auto" else "classes"
        stream = reading.open(target, max_categories=max_categories, holds=holds)
        notices = Notices(stream, quiet)
        settings: dict[str, Any] = {"random_state": seed, "batch_size": batch_size}
        if as_published:
            selector, scale = FIRES.as_published(top, **settings), None
        else:
            selector, scale = FIRES(top, model=model, **settings), "standard"
        names = stream.schema.feature_names
        totals = RunTotals(len(names))
        source = Interruptible(stream, batch_size, totals)
        with (
            source,
            one_bar("0 rows", "{task.fields[now]}", total=stream.n_bytes, hidden=quiet) as show,
            saying_where(reading.name, stream.schema.target, totals),
        ):
            pipeline = _pipeline(selector, model, scale, stream, source.first())
            watch = Watch(pipeline)
            source.watch = watch.see
            _learn(source, pipeline, batch_size, totals, folder, show)
        known = names if stream.columns is None else stream.columns.of_features
        found = watch.settled(known, getattr(stream, "doubts", ()))
        stream.doubts = tuple(doubt for doubt in found if not _varies(doubt, stream))
        notices.tell(ended=True)
        if source.reason is None:
            _refuse_one_class(selector, reading.name, stream.schema.target)
        run = run_facts(stream, started, file=reading.files) | {
            "ended_early": source.reason,
            "model": selector.model_,
            "classes": selector.classes_.tolist() if hasattr(selector, "classes_") else None,
            "n_features": len(set(known)),
            "missing_values": pipeline.n_missing_,
            "target": stream.target.column.as_json() if hasattr(stream, "target") else None,
            "alarms": alarm_rows(selector, known, totals),
        }
        unsaved = None
        if folder is not None:
            try:
                folder.write("run.toml", as_toml(click.get_current_context(), file=reading.files))
                columns = () if stream.columns is None else stream.describe()
                folder.finish(pipeline, names, totals, run, columns)
            except OSError as error:
                unsaved = error
    chosen = feature_rows(selector, names, totals, selector.get_support(indices=True))
    if as_json:
        click.echo(json.dumps({"features": chosen} | run | totals.as_dict(), ensure_ascii=False))
    else:
        _print_table(chosen, totals, run, stream.rejected)
        if folder is not None and unsaved is None and not quiet:
            click.echo(f"written to {out}: features.csv, state.safetensors, run.json, and more")
    _end(source, totals.n_rows, out, unsaved)


def _pipeline(
    selector: FIRES, model: str, scale: str | None, stream: TableStream, first: Batch
) -> OnlinePipeline:
    """A Perceptron if the target holds classes, a regression if it holds numbers."""
    from fires.core.classes import has_fractions
    from fires.pipeline import OnlinePipeline
    from fires.predictors import LinearRegressor, Perceptron

    target = getattr(stream, "target", None)  # svmlight has none to speak of
    fractions = has_fractions(first.y)
    numeric = model in _NUMERIC or fractions or (target is not None and target.is_numeric)
    if numeric and model == "auto" and not fractions:  # in the first rows, by chance
        selector.set_params(model="gaussian")
    return OnlinePipeline(selector, LinearRegressor() if numeric else Perceptron(), scale)


def _learn(
    source: Interruptible,
    pipeline: OnlinePipeline,
    batch_size: int,
    totals: RunTotals,
    folder: RunFolder | None,
    show: Callable[[Values], None],
) -> None:
    """Test on each batch and learn from it, to the end of the source."""
    from fires.evaluation.prequential import prequential
    from fires.evaluation.scoring import usual_baselines
    from fires.metrics.prediction import Scores
    from fires.predictors import Perceptron

    began = time.perf_counter()
    classes = isinstance(pipeline.predictor, Perceptron)
    scores = ("accuracy", "balanced_accuracy") if classes else ("r2", "mae")
    totals.whole = Scores(scores)
    totals.baselines = usual_baselines(pipeline.predictor, scores)
    for step in prequential(
        source,
        pipeline,
        batch_size=batch_size,
        scores=totals.whole,
        baselines=totals.baselines.values(),
    ):
        totals.add(step)
        if folder is not None:
            folder.record(step)
        show(partial(_seen, step, totals, began))


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


def _refuse_one_class(selector: FIRES, file: str, target: str) -> None:
    classes = getattr(selector, "classes_", None)
    if classes is not None and len(classes) == 1:
        raise InputError(
            f'the target column "{target}" of {file} holds one value only, '
            f"{classes[0].item()!r}: there is nothing to tell apart"
        )


def _print_table(
    chosen: list[dict[str, Any]], totals: RunTotals, run: dict[str, Any], rejected: Rejected
) -> None:
    from rich.console import Console

    from fires.cli.tables import alarm_lines, feature_table, score_table
    from fires.cli.worth import noise_lines, score_rows, share_lines, verdict_lines

    console = Console()
    console.print(feature_table(chosen, width=console.width))
    click.echo("\n" + _meaning(run["classes"]))
    for line in noise_lines(chosen, run["n_features"]):
        click.echo(line)
    if n_left_out := sum(row["rank"] > len(chosen) for row in chosen):
        is_not = "is not selected: it is" if n_left_out == 1 else "are not selected: they are"
        best = f"{n_left_out} of the best {len(chosen)}"
        click.echo(f"{best} {is_not} not surely better than those that are")
    facts = [f"{totals.n_rows:,} rows in {run['seconds']:.1f} s"]
    facts += _if_known("stability {:.3f}", totals.stability)
    click.echo(", ".join(facts))
    if rows := score_rows(totals, len(chosen), run["n_features"]):
        click.echo()
        console.print(score_table(rows))
        click.echo()
    for line in (*share_lines(totals), *verdict_lines(totals)):
        click.echo(line)
    for line in alarm_lines(run["alarms"]):
        click.echo(line)
    if n_missing := run["missing_values"]:
        were = "value was" if n_missing == 1 else "values were"
        click.echo(f"{n_missing:,} missing {were} left out of the learning")
    for line in rejected_lines(rejected):
        click.echo(printable(line))


def _meaning(classes: list[Any] | None) -> str:
    """What the sign of an importance says."""
    if classes is None:
        return "importance above 0: the target grows with the feature"
    names = [printable(str(label)) for label in classes]
    if len(names) == 2:
        return f'importance above 0 speaks for "{names[1]}", below 0 for "{names[0]}"'
    return "importance above 0 speaks for the class, below 0 against it"


def _if_known(text: str, value: float | None) -> list[str]:
    """The text with the value in it, or nothing where it is not defined."""
    return [] if value is None or value != value else [text.format(value)]


def _seen(step: Step, totals: RunTotals, started: float) -> dict[str, Any]:
    """How far the run is, how fast, how stable and how good."""
    now = [f"{totals.n_rows / (time.perf_counter() - started):,.0f} rows/s"]
    now += _if_known("stability {:.2f}", step.stability)
    now += _if_known("accuracy {:.2f}", totals.recent_scores.get("accuracy"))
    now += _if_known("R2 {:.2f}", totals.scores.get("r2"))
    return {
        "description": f"{totals.n_rows:,} rows",
        "completed": step.position.bytes,
        "now": ", ".join(now),
    }
