"""``fires select``: from a file to the features that matter."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import click
from click.core import ParameterSource

from fires.cli import options
from fires.cli.config import as_toml, read_config, settings_facts, stream_facts
from fires.cli.durable import NUMERIC, BadRows, DurableRun, MostBad, Service
from fires.cli.interrupts import FromTheStart, let_signals_through, quick_imports
from fires.cli.progress import Values, json_progress, logs, one_bar
from fires.cli.reading import Notices, Reading
from fires.cli.report import LivePage, as_shape, write_report
from fires.cli.selection import print_selection, say_lost
from fires.cli.text import EXPECTED, message, printable, say, saying_where
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.cli.spark_engine import Given
    from fires.columns import Doubt
    from fires.core.types import Header
    from fires.run.emit import Every
    from fires.run.folder import Checkpoint, RunFolder
    from fires.streams.table_stream import TableStream

_EXAMPLES = """\b
Examples:
  fires select events.csv --target label --top 20
  fires select events.csv --target label --top auto
  fires select events.parquet --target amount --model gaussian --out run/
  zcat events.csv.gz | fires select - --target label --exclude id,time --json
  fires select kafka://localhost:9092/events --target label --out run/
  fires select "duckdb:warehouse.db?select * from events" --position id --target label --out run/
  fires select events.parquet --target label --out run/ --report --live
  fires select "logs/*.csv" --target label --columns open --forget-after 100000
  fires select --resume run/
"""
_MODELS = ("auto", "probit", "logistic", *NUMERIC)
_MAY_CHANGE = {
    *("resume", "accept_loss", "checkpoint", "max_bad", "max_wait", "until_end", "rate"),
    *("emit", "emit_every", "metrics", "log_level", "as_json", "quiet", "debug"),
    *("report", "live", "shape", "engine", "master"),
}
"""What may be said anew when a run goes on."""
_OF_OTHER_FILES = {"file", "sep", "no_header", "exclude", "batch_size", "encoding", "decimal"}
"""What may be said of other files, with which a run goes on elsewhere."""


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
@options.choice(
    "--columns",
    ("fixed", "open"),
    "Whether all files have the columns of the first; open: new ones join, absent ones rest.",
)
@options.choice(
    "--absent",
    ("missing", "zero"),
    "With --columns open: what it means that a row does not have a column.",
)
@click.option(
    "--forget-after",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --columns open: forget a column that has been absent for so many rows.",
)
@options.choice(
    "--redundancy",
    ("ignore", "drop"),
    "Of features that say the same, such as copies and sums of others: drop all but one.",
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
    "are those of the run. With another --engine than before, FILE is what comes next.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --resume: go on though records are lost, with those that are left.",
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
@options.choice("--engine", ("fires", "spark"), "What reads and learns: this program, or Spark.")
@click.option(
    "--master",
    metavar="WHERE",
    default="local[*]",
    show_default=True,
    help="With --engine spark: where Spark runs, such as local[2] or spark://HOST:7077.",
)
@options.sources
@options.service
@options.showing
@options.config
@options.as_json
@options.quiet
@options.debug
def command(
    target: str | None,
    top: int | float | str,
    batch_size: int,
    model: str,
    max_categories: int,
    seed: int,
    as_published: bool,
    columns: str,
    absent: str,
    forget_after: int | None,
    redundancy: str,
    out: Path | None,
    overwrite: bool,
    resume: Path | None,
    accept_loss: bool,
    checkpoint: str,
    transform: bool,
    max_bad: int | float | None,
    max_wait: float | None,
    engine: str,
    master: str,
    rate: float | None,
    emit: str | None,
    emit_every: str,
    metrics: str | None,
    log_level: str | None,
    report: bool,
    live: bool,
    shape: str | None,
    as_json: bool,
    quiet: bool,
    **how: Any,
) -> None:
    """Rank the features of FILE by how much they tell about a target.

    FILE is text with a header (CSV, TSV), NDJSON, ARFF, svmlight, Parquet or Arrow, text packed or
    not, or - for standard input; fires columns FILE shows how it is understood. Several files, or a
    pattern such as "events/*.csv", are read one after the other. It can also be a topic
    (kafka://HOST:PORT/TOPIC), a stream of Redis (redis://HOST:PORT/KEY) or a query
    ("duckdb:FILE?select ...", "sqlite:FILE?select ..."). Rows are read once, in bounded memory,
    batch by batch, as they come. Those that cannot be used are counted, shown and left out.

    While it reads, a Perceptron that sees nothing but the selected features is tested on each
    batch before it learns from it. Its accuracy says what the selection is worth, beside that of
    a Perceptron on all features, and of saying the most common class of the rows before; balanced
    accuracy counts every class alike. Where the target holds numbers or counts, it is a linear
    regression, with R2 (1 is perfect, 0 no better than the mean of the rows before) and MAE, the
    mean absolute error. svmlight needs no --target.

    Whatever ends the run early, Ctrl-C or an error: what was learnt until then is shown and saved.
    With --out, even a run that was killed goes on with --resume, and loses nothing.
    """
    context = click.get_current_context()
    orders = FromTheStart(context)
    context.with_resource(orders if out or resume else nullcontext())
    opened = _open_columns(columns, absent, forget_after, as_published, engine)
    if as_published:
        _refuse_what_is_not_the_papers(model, top, redundancy)
    reading, out = Reading(**how), resume or out
    _refuse_what_needs_a_folder(out, transform=transform, report=report, live=live)
    _refuse_what_is_settled(resume, engine, reading)
    if engine == "spark":
        from fires.cli.spark_engine import select_on_spark

        given = cast("Given", context.params)
        select_on_spark(reading.file, master, resume, given)
        return
    with quick_imports():
        from fires.run.checkpoints import Schedule
        from fires.run.folder import RunFolder
        from fires.run.saved import known_before
        from fires.selectors.fires import FIRES
        from fires.streams.registry import refuse_secrets

        importlib.import_module("polars")
    for address in (*reading.files, emit or ""):  # before anything is written down
        refuse_secrets(address)
    schedule = Schedule(checkpoint)
    let_signals_through()
    with ExitStack() as stack:
        page = stack.enter_context(LivePage(live))
        if log_level is not None:
            stack.enter_context(logs(log_level, as_json=as_json))
        folder, saved, moved = None, None, False
        facts = settings_facts(file=reading.files) | {"id": uuid4().hex[:12]}
        if out is not None:
            with orders.undisturbed():
                how_opened = {"resume": resume is not None, "accept_loss": accept_loss}
                folder = RunFolder(out, overwrite=overwrite, **how_opened)
                stack.enter_context(folder)
                if resume is not None:
                    saved = _newest(folder, quiet)
                    moved = saved is not None and "spark batch" in saved.facts["bookmark"]
                    facts |= known_before(resume)
                folder.begin(as_toml(context, file=reading.files), facts, moved=moved)
            page.show(out)
        sample = facts.pop("sample", None)
        after = (sample if saved is None else saved.facts["bookmark"]) if not moved else None
        holds = _holds(model, saved if moved else None)
        column_options = {"max_categories": max_categories, "columns": columns}
        stream = reading.open(target, holds=holds, after=after, **column_options)
        _note_sample(None if saved else folder, facts, stream)
        stream.max_wait = max_wait
        as_shape(shape, [stream.schema.n_features])
        notices = Notices(stream, quiet)
        service = _service(stack, facts["id"], stream, emit, emit_every, metrics)
        durable = DurableRun(stream, batch_size, folder, schedule, service, rate)
        stream.on_fault = BadRows(max_bad, durable)
        label = stream.schema.target if transform else None
        where = saying_where(reading.name, stream.schema.target, durable)
        with durable.source, _progress(stream.n_bytes, as_json, quiet) as show, where:
            orders.hand_over(durable.source)
            if saved is not None:
                durable.go_on(_moved_here(saved, stream) if moved else saved, label)
                say_lost(folder)
            else:
                settings: dict[str, Any] = {"random_state": seed, "batch_size": batch_size}
                selector = FIRES(top, model=model, redundancy=redundancy, **settings, **opened)
                if as_published and not isinstance(top, str):
                    selector = FIRES.as_published(top, **settings)
                durable.begin(selector, model, None if as_published else "standard", label)
            durable.learn(show)
        unsaved = _finish(durable, notices, facts, reading.name)
    _print(durable, facts, as_json, None if quiet or unsaved else out, to_stderr=emit == "-")
    reported = True
    if report and out is not None and unsaved is None:
        reported = _report(out, shape, quiet or as_json, to_stderr=emit == "-")
    _end(durable, out, unsaved)
    if not reported:
        sys.exit(2)


def _note_sample(folder: RunFolder | None, facts: Header, stream: TableStream) -> None:
    """Note what the first rows decide, where there may be others at the next start."""
    with suppress(InputError):  # a source that cannot be taken up again
        if folder is not None and (sample := stream.bookmark())["files"] is None:
            folder.note(facts | {"sample": sample})


def _holds(model: str, moved: Checkpoint | None) -> str:
    """What the target holds, by the model, or by what has learnt from other files."""
    if moved is not None:
        return "classes" if hasattr(moved.run.pipeline.selector, "classes_") else "numbers"
    return "numbers" if model in NUMERIC else "auto" if model == "auto" else "classes"


def _progress(
    n_bytes: int | None, as_json: bool, quiet: bool
) -> AbstractContextManager[Callable[[Values], None]]:
    """A bar for a person; objects for a program, which has no terminal."""
    if as_json and not quiet and not sys.stderr.isatty():
        return json_progress()
    return one_bar("0 rows", "{task.fields[now]}", total=n_bytes, hidden=quiet)


def _service(
    stack: ExitStack,
    run_id: str,
    stream: TableStream,
    emit: str | None,
    emit_every: str,
    metrics: str | None,
) -> Service:
    """Open what the run is told to, until the end of the command."""
    from fires.run.emit import Emitter, open_sink

    emitter = port = None
    if emit is not None:
        names = stream.schema.feature_names
        emitter = Emitter(open_sink(emit), run_id, names, cast("Every", emit_every))
        stack.callback(emitter.close)
    if metrics is not None:
        from fires.cli.metrics_port import MetricsPort, metrics_address

        port = stack.enter_context(MetricsPort(*metrics_address(metrics)))
    return Service(emitter, port)


def _finish(durable: DurableRun, notices: Notices, facts: Header, name: str) -> OSError | None:
    """Save what was learnt, and say what is doubtful; returns what kept it from being saved.

    What is known of the run is added to the facts.
    """
    from fires.run.features import alarm_rows, twin_names
    from fires.run.folder import refuse_one_class

    stream, run, folder = durable.stream, durable.run, durable.folder
    selector, names = run.pipeline.selector, durable.names
    is_plain = stream.columns is None or run.names is not None
    known = names if is_plain else stream.columns.of_features
    found = run.watch.settled(known, getattr(stream, "doubts", ()))
    if run.names is not None:  # nobody has looked whether they change
        found = [doubt for doubt in found if doubt.kind != "constant"]
    stream.doubts = tuple(doubt for doubt in found if not _varies(doubt, stream))
    notices.tell(ended=True)
    if durable.source.reason is None:
        refuse_one_class(selector, f'"{stream.schema.target}" of {name}', folder)
    _tried(durable.save)  # if it fails, the one before stays
    facts |= stream_facts(stream, durable.seconds) | {
        "ended_early": durable.source.reason,
        "model": selector.model_,
        "classes": selector.classes_.tolist() if hasattr(selector, "classes_") else None,
        "n_features": len(set(known)),
        "missing_values": run.pipeline.n_missing_,
        "target": stream.target.column.as_json() if hasattr(stream, "target") else None,
        "latency": durable.latencies.as_dict(),
        "alarms": alarm_rows(selector, known, run.totals),
        "why": selector.why(),
        "cautions": run.watch.cautions(run.totals.class_shares),
    }
    if selector.redundancy == "drop":
        facts["twins"] = twin_names(selector, known)
    if folder is None:
        return None
    columns = () if stream.columns is None else stream.describe()
    return _tried(partial(folder.finish, run.pipeline, names, run.totals, facts, columns))


def _print(
    durable: DurableRun, facts: Header, as_json: bool, out: Path | None, *, to_stderr: bool
) -> None:
    """Show the result: where records go to standard output, on standard error."""
    from fires.run.features import feature_rows

    stream, totals = durable.stream, durable.run.totals
    selector, names = durable.run.pipeline.selector, durable.names
    chosen = feature_rows(selector, names, totals, selector.get_support(indices=True))
    with redirect_stdout(sys.stderr) if to_stderr else nullcontext():
        if as_json:
            document = {"features": chosen} | facts | totals.as_dict()
            click.echo(json.dumps(document, ensure_ascii=False))
            return
        print_selection(chosen, totals, facts, stream.rejected, live=stream.n_bytes is None)
        if out is not None:
            click.echo(f"written to {out}: features.csv, state.safetensors, run.json, and more")


def _report(out: Path, shape: str | None, quiet: bool, *, to_stderr: bool) -> bool:
    """Write the page of the run; whether that could be done. The result is there in any case."""
    try:
        line = write_report((out,), shape=shape)
    except OSError as error:
        say(f"Error: {message(error)}; once it can be written, fires report {out} does so")
        return False
    if not quiet:
        click.echo(line, err=to_stderr)
    return True


def _open_columns(
    columns: str, absent: str, forget_after: int | None, as_published: bool, engine: str
) -> dict[str, Any]:
    """The settings of a selector whose columns come and go; none if they are fixed."""
    if columns == "fixed":
        for option, is_given in (("absent zero", absent == "zero"), ("forget-after", forget_after)):
            if is_given:
                raise click.UsageError(f"--{option} goes with --columns open only.")
        return {}
    for option, is_given in (
        ("--as-published", as_published),
        ("--engine spark", engine == "spark"),
    ):
        if is_given:
            raise click.UsageError(f"{option} does not go with --columns open.")
    return {"columns": columns, "absent": absent, "forget_after": forget_after}


def _refuse_what_is_not_the_papers(model: str, top: int | float | str, redundancy: str) -> None:
    if model not in ("auto", "probit"):
        raise click.UsageError(f"--as-published is a probit; it does not go with --model {model}.")
    if top == "auto":
        raise click.UsageError("--as-published does not know how sure it is: give --top a number.")
    if redundancy == "drop":
        raise click.UsageError("--as-published does not go with --redundancy drop.")


def _refuse_what_needs_a_folder(out: Path | None, **wanted: bool) -> None:
    for option, is_wanted in wanted.items():
        if is_wanted and out is None:
            raise click.UsageError(f"--{option} needs a folder to write to: give --out.")


def _refuse_what_is_settled(resume: Path | None, engine: str, reading: Reading) -> None:
    """Raise an error if the command line says what the run has settled.

    With another engine than before, a run goes on with other files: how far the old ones were read
    is known to the engine that has read them, and rows must not be learnt from twice.
    """
    context = click.get_current_context()
    if resume is None:
        if context.params["accept_loss"]:
            raise click.UsageError("--accept-loss goes with --resume only.")
        return
    before = (context.default_map or {}).get("engine", "fires")
    moves = engine != before
    if moves and context.get_parameter_source("file") is not ParameterSource.COMMANDLINE:
        raise click.UsageError(
            f"{resume} has learnt with --engine {before}: to go on with --engine {engine}, name "
            "the files that come next. Those that it has learnt from are not read again."
        )
    may_change = _MAY_CHANGE | (_OF_OTHER_FILES if moves else set())
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if source is ParameterSource.COMMANDLINE and option.name not in may_change:
            given = option.opts[0] if isinstance(option, click.Option) else "FILE"
            raise click.UsageError(
                f"{given} does not go with --resume: it is settled by {resume / 'run.toml'}."
            )
    if engine == "fires" and not moves and reading.reads_once:
        raise InputError(
            f"{resume} was learnt from {reading.name}, which cannot be read again from the middle",
            hint="what it had learnt is in its state.safetensors, for fires.load",
        )


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
        say(f"a checkpoint cannot be used: {line}")
    if saved is not None and saved.facts["bookmark"] is None:
        raise InputError(
            f"{folder.path} was learnt from what cannot be read again from the middle",
            hint="what it had learnt can be used all the same; of a query, give --position COL",
        )
    if not quiet:
        rows = 0 if saved is None else saved.run.totals.n_rows
        where = f"after {rows:,} rows" if rows else "with the first row: it has no checkpoint yet"
        say(f"{folder.path} goes on {where}")
    return saved


def _moved_here(saved: Checkpoint, stream: TableStream) -> Checkpoint:
    """A run that was on Spark, in one process: its columns must be those of the files now."""
    names = list(stream.schema.feature_names)
    selector = saved.run.pipeline.selector
    is_vector = any(kind != "number" for kind, *_ in saved.facts["layout"]["parts"])
    known = [str(name) for name in selector.feature_names_in_]
    if len(names) != len(known) or (names != known and not is_vector):
        pairs = zip([*names, "nothing"], [*known, "nothing"], strict=False)
        now, then = next((a, b) for a, b in pairs if a != b)
        raise InputError(
            f"the run has learnt from {len(known):,} features, and the files hold {len(names):,}: "
            f'where it had "{then}", they have "{now}"',
            hint="name the files with the same columns, in the same order",
        )
    return saved._replace(run=saved.run.in_one_process())


def _tried(write: Callable[[], None]) -> OSError | None:
    """What went wrong when something was written, if anything did."""
    try:
        write()
    except OSError as error:
        return error
    return None


def _end(durable: DurableRun, out: Path | None, unsaved: OSError | None) -> None:
    """Say what ended the run early, or why it could not be saved, with a code for scripts."""
    source, trouble = durable.source, durable.trouble
    if source.reason is None and unsaved is None and trouble is None:
        return
    if isinstance(source.error, BrokenPipeError):
        raise source.error
    if unsaved is not None:
        kept = f", but could not be saved: {message(unsaved)}"
    else:
        kept = "" if out is None else f" and saved in {out}"
    learnt = f"what was learnt from the first {durable.n_rows:,} rows is shown above{kept}"
    if source.signal is not None:
        click.echo(printable(f"Interrupted; {learnt}."), err=True)
        sys.exit(source.exit_code(saved=out is not None and unsaved is None))
    if source.error is None and unsaved is None and trouble is not None:
        raise InputError(f"{message(trouble)}; {learnt}") from trouble
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
