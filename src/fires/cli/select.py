"""``fires select``: from a file to the features that matter."""

from __future__ import annotations

import importlib
import json
import math
import platform
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from fires.cli import options
from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.evaluation.records import Step
    from fires.evaluation.totals import Tally
    from fires.streams.base import Batch
    from fires.streams.files import FileStream

_EXAMPLES = """\b
Examples:
  fires select events.csv --target label --top 20
  fires select events.parquet --target amount --model gaussian --out run/
  zcat events.csv.gz | fires select - --target label --exclude id,time --json
"""
_MODELS = ("auto", "probit", "logistic", "gaussian", "poisson")


@click.command("select", epilog=_EXAMPLES)
@click.argument("file", metavar="FILE")
@click.option("--target", "-t", required=True, metavar="COL", help="The column to predict.")
@options.top
@options.batch_size()
@click.option(
    "--model",
    type=click.Choice(_MODELS),
    default="auto",
    show_default=True,
    help="What the target is: classes (probit, logistic), numbers (gaussian) or counts (poisson).",
)
@options.exclude
@click.option(
    "--max-categories",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Categories of a text column that get a code of their own.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Folder for features.csv, state.safetensors, run.json and steps.jsonl.",
)
@options.as_json
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="For models that draw random numbers; the linear ones do not.",
)
@click.option(
    "--as-published",
    is_flag=True,
    help="The paper to the letter: no scaling, no intercept, a probit.",
)
@options.debug
def command(
    file: str,
    target: str,
    top: int | float,
    batch_size: int,
    model: str,
    exclude: str,
    max_categories: int,
    out: Path | None,
    as_json: bool,
    seed: int,
    as_published: bool,
) -> None:
    """Rank the features of FILE by how much they tell about a target.

    FILE is a CSV or TSV file with a header, packed with gzip or not, a Parquet file, or - for
    standard input. It is read once, in bounded memory, batch by batch, a pipe as it fills; text
    columns become categories, dates become numbers. Rows that cannot be used are counted, shown
    and left out.

    While it reads, a Perceptron that sees nothing but the selected features is tested on each
    batch before it learns from it: its accuracy says what the selection is worth.

    Ctrl-C ends the run early; what was learnt until then is shown and saved.
    """
    started = time.perf_counter()
    began = datetime.now(UTC).isoformat(timespec="seconds")
    from fires import FIRES
    from fires.evaluation.following import follow
    from fires.evaluation.run_folder import RunFolder
    from fires.evaluation.totals import Tally
    from fires.predictors import Perceptron
    from fires.streams.base import InputError
    from fires.streams.files import from_file

    importlib.import_module("polars")
    if sys.platform != "win32":
        # Once loaded, polars lets system calls go on after Ctrl-C: to wait for rows would not end.
        signal.siginterrupt(signal.SIGINT, True)
    if as_published and model not in ("auto", "probit"):
        raise click.UsageError(f"--as-published is a probit; it does not go with --model {model}.")
    stream = from_file(
        file,
        target,
        exclude=[name for name in exclude.split(",") if name],
        max_categories=max_categories,
        numeric_target=model in ("gaussian", "poisson"),
    )
    names = stream.schema.feature_names
    if as_published:
        selector = FIRES.as_published(top, random_state=seed, batch_size=batch_size)
    else:
        selector = FIRES(top, model=model, random_state=seed, batch_size=batch_size)
    selector.name_features(names)
    predictor = None if model in ("gaussian", "poisson") else Perceptron()
    tally = Tally(len(names))
    source = _Interruptible(stream)
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder(out)) if out is not None else None
        try:
            with source, _progress(stream) as show:
                for step in follow(source, selector, predictor, batch_size=batch_size):
                    tally.add(step)
                    if folder is not None:
                        folder.record(step)
                    show(step, tally)
        except InputError:
            raise
        except ValueError as error:  # the selector knows neither the file nor its columns
            message = re.sub(r"\by\b", f'the target "{target}"', str(error), count=1)
            where = f"{file}, after {tally.n_rows:,} rows" if tally.n_rows else file
            raise InputError(f"{where}: {message}") from error
        if source.interrupted and not tally.n_batches:
            raise KeyboardInterrupt
        classes = getattr(selector, "classes_", None)
        if classes is not None and len(classes) == 1 and not source.interrupted:
            raise InputError(
                f'the target column "{target}" of {file} holds one value only, '
                f"{classes[0].item()!r}: there is nothing to tell apart"
            )
        run = _run_facts(stream, selector, began, started, source.interrupted) | {
            "settings": {
                "file": file,
                "target": target,
                "top": top,
                "batch_size": batch_size,
                "model": model,
                "exclude": exclude,
                "max_categories": max_categories,
                "seed": seed,
                "as_published": as_published,
            }
        }
        if folder is not None:
            folder.finish(selector, names, tally, run)
    if as_json:
        _print_json(selector, names, tally, run)
    else:
        _print_table(selector, names, tally, run, stream.rejected.unit)
        if out is not None:
            click.echo(f"written to {out}: features.csv, state.safetensors, run.json, steps.jsonl")
    if source.interrupted:
        saved = f"; what was learnt is saved in {out}" if out is not None else ""
        click.echo(f"Interrupted after {tally.n_rows:,} rows{saved}.", err=True)
        sys.exit(130)


def _run_facts(
    stream: FileStream, selector: Any, began: str, started: float, interrupted: bool
) -> dict[str, Any]:
    from importlib.metadata import version

    from fires import __version__

    return {
        "fires": __version__,
        "started": began,
        "seconds": round(time.perf_counter() - started, 3),
        "interrupted": interrupted,
        "model": selector.model_,
        "classes": selector.classes_.tolist() if hasattr(selector, "classes_") else None,
        "n_features": selector.n_features_in_,
        "missing_values": selector.n_missing_,
        "rejected_rows": stream.rejected.count,
        "rejected_examples": [list(example) for example in stream.rejected.examples],
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("numpy", "scikit-learn", "numba", "polars")},
    }


def _print_json(selector: Any, names: tuple[str, ...], tally: Tally, run: dict[str, Any]) -> None:
    from fires.evaluation.run_folder import feature_rows

    chosen = [row for row in feature_rows(selector, names, tally) if row["selected"]]
    click.echo(json.dumps({"features": chosen} | run | tally.as_dict(), ensure_ascii=False))


def _print_table(
    selector: Any, names: tuple[str, ...], tally: Tally, run: dict[str, Any], unit: str
) -> None:
    from rich.console import Console

    from fires.cli.tables import feature_table

    n_selected = int(selector.get_support().sum())
    Console().print(feature_table(selector, names, tally.share_selected, n_selected))
    accuracy = tally.scores.get("accuracy", math.nan)
    facts = [f"{tally.n_rows:,} rows in {run['seconds']:.1f} s"]
    facts += [f"stability {tally.stability:.3f}"] * (tally.stability == tally.stability)
    facts += [f"accuracy {accuracy:.3f} on the selected features"] * (accuracy == accuracy)
    click.echo("\n" + ", ".join(facts))
    if n_missing := run["missing_values"]:
        were = "value was" if n_missing == 1 else "values were"
        click.echo(f"{n_missing:,} missing {were} left out of the learning")
    if n_rejected := run["rejected_rows"]:
        click.echo(f"{n_rejected:,} row{'s' * (n_rejected > 1)} could not be used:")
        for place, reason in run["rejected_examples"]:
            click.echo(f"  {unit} {place}: {printable(reason)}")
        if n_rejected > len(run["rejected_examples"]):
            click.echo("  ...")


class _Interruptible:
    """A stream that Ctrl-C ends: at once while it waits for rows, else after the batch.

    What is learnt from a batch is learnt whole, so the state can be saved and used. A second
    Ctrl-C stops the program wherever it is.
    """

    def __init__(self, stream: FileStream) -> None:
        self.schema = stream.schema
        self.interrupted = False
        self._stream = stream
        self._waits = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._stop)

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def batches(self, batch_size: int) -> Iterator[Batch]:
        source = self._stream.batches(batch_size)
        while not self.interrupted:
            try:
                self._waits = True
                batch = next(source, None)
                self._waits = False
            except KeyboardInterrupt:
                self.interrupted = True
                return
            if batch is None:
                return
            yield batch

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.interrupted = self.interrupted, True
        if again or self._waits:
            self._waits = False
            raise KeyboardInterrupt


@contextmanager
def _progress(stream: FileStream) -> Iterator[Any]:
    """A bar on standard error, if that is a terminal: how far, how fast, how stable, how good."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    status = Console(stderr=True)
    if not status.is_terminal:
        yield lambda step, tally: None
        return
    with Progress(
        TextColumn("{task.fields[rows]} rows"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[now]}"),
        console=status,
        expand=True,
    ) as progress:
        task = progress.add_task("", total=stream.n_bytes, rows="0", now="")
        started = shown = time.perf_counter()
        last: tuple[Step, Tally] | None = None

        def draw(step: Step, tally: Tally) -> None:
            parts = [f"{tally.n_rows / (time.perf_counter() - started):,.0f} rows/s"]
            parts += [f"stability {step.stability:.2f}"] * (step.stability == step.stability)
            recent = tally.recent_scores.get("accuracy", math.nan)
            parts += [f"accuracy {recent:.2f}"] * (recent == recent)
            progress.update(
                task,
                completed=step.position.bytes,
                rows=f"{tally.n_rows:,}",
                now=", ".join(parts),
            )

        def show(step: Step, tally: Tally) -> None:
            nonlocal shown, last
            last = step, tally
            if time.perf_counter() - shown > 0.1:  # to draw after each batch takes longer than it
                draw(*last)
                shown = time.perf_counter()

        yield show
        if last is not None:
            draw(*last)
