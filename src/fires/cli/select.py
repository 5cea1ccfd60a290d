"""``fires select``: from a file to the features that matter."""

from __future__ import annotations

import copy
import importlib
import logging
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, redirect_stdout, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import click

from fires.cli import interrupts
from fires.cli import options as shared
from fires.cli.options import as_toml, settings_facts, stream_facts
from fires.cli.progress import Values, logs, one_bar, seen
from fires.cli.reading import Notices
from fires.cli.report import live_page, write_wanted
from fires.cli.select_options import CLASSES, NUMERIC, Options, refuse_what_does_not_go_together
from fires.cli.text import EXPECTED, if_known, message, say, saying_where, tried
from fires.core.errors import InputError
from fires.core.optional import require

if TYPE_CHECKING:
    from fires.cli.metrics_port import MetricsPort
    from fires.core.types import Header
    from fires.evaluation.records import Step
    from fires.pipeline import OnlinePipeline
    from fires.predictors import Predictor
    from fires.run.checkpoints import Schedule
    from fires.run.emit import Emitter
    from fires.run.folder import RunFolder
    from fires.run.run import Checkpoint, Run
    from fires.streams.base import Batch
    from fires.streams.table import Fault
    from fires.streams.table_stream import TableStream

_LEAST_ROWS = 1000
_LOG = logging.getLogger("fires")


@shared.command("select", shared.debug, shared.config)
def command(options: Options = shared.part(Options)) -> None:
    """Rank the features of FILE by their importance for a target.

    FILE is CSV, TSV, NDJSON, ARFF, svmlight, Parquet or Arrow, compressed or not; several files or
    a pattern; - for standard input; kafka://HOST:PORT/TOPIC, redis://HOST:PORT/KEY, or a query
    ("duckdb:FILE?select ..."). It is read once, in bounded memory. A linear model on the selected
    features is tested on each batch before it learns from it. With --out, a run that was killed can
    be resumed without loss.

    Examples
    --------
    fires select events.csv --target label --top 20
    fires select events.parquet --target amount --out run/ --report
    fires select kafka://localhost:9092/events --target label --out run/
    fires select --resume run/
    """
    refuse_what_does_not_go_together(options)
    if options.engine == "spark":
        from fires.cli.spark_engine import select_on_spark

        select_on_spark(options)
    else:
        _select(options)


def _select(options: Options) -> None:
    """Learn in this process, print the result, and end with a code for scripts."""
    context = click.get_current_context()
    orders = interrupts.FromTheStart(context)
    context.with_resource(orders if options.folder else nullcontext())
    with interrupts.quick_imports():
        from fires.run.checkpoints import Schedule
        from fires.streams.registry import refuse_secrets

        importlib.import_module("fires.run.run")
        importlib.import_module("fires.selectors.fires")
        importlib.import_module("polars")
    for address in (*options.reading.files, options.emit or ""):  # before anything is written down
        refuse_secrets(address)
    for library in ("starlette", "uvicorn") if options.live else ():
        require(library, "--live", extra="serve")
    schedule = Schedule(options.checkpoint)
    interrupts.let_signals_through()
    with ExitStack() as stack:
        pages = stack.enter_context(ExitStack())  # shown until the folder is closed
        if options.log_level is not None:
            stack.enter_context(logs(options.log_level, as_json=options.as_json))
        folder, saved, facts = _open_folder(options, orders, stack)
        if options.live and options.folder is not None:
            pages.enter_context(live_page(options.folder))
        stream = _open_stream(options, folder, saved, facts)
        notices = Notices(stream, options.quiet)
        service = _service(options, stack, str(facts["id"]), stream)
        learning = Learning(stream, options, folder, schedule, *service)
        where = saying_where(options.reading.name, stream.schema.target, learning)
        is_program = options.as_json and not options.quiet and not sys.stderr.isatty()
        how = {"hidden": options.quiet, "as_json": is_program}
        with learning.source, one_bar("0 rows", total=stream.n_bytes, **how) as show, where:
            orders.hand_over(learning.source)
            learning.begin(saved)
            learning.learn(show)
        unsaved = _finish(learning, notices, facts, options.reading.name)
    from fires.cli.tables import print_result

    # Where records go to standard output, the result goes to standard error.
    with redirect_stdout(sys.stderr) if options.emit == "-" else nullcontext():
        how = {"live": stream.n_bytes is None, "is_saved": unsaved is None}
        print_result(learning.run, learning.names, facts, stream.rejected, options, **how)
        is_reported = unsaved is not None or write_wanted(options)
    _end(learning, options.folder, unsaved)
    if not is_reported:
        sys.exit(2)


class Learning:
    """A run on the rows of a table, until they end or something ends them early.

    It is the stream that the run learns from: that of the table, as far as it goes.
    """

    def __init__(
        self,
        stream: TableStream,
        options: Options,
        folder: RunFolder | None = None,
        schedule: Schedule | None = None,
        emitter: Emitter | None = None,
        metrics: MetricsPort | None = None,
    ) -> None:
        self.stream, self.folder, self._options = stream, folder, options
        self.schema, self._then = stream.schema, stream
        self._schedule, self._emitter, self._metrics = schedule, emitter, metrics
        self._label = stream.schema.target if options.transform else None
        self._n_bad = stream.rejected.count
        self._began = time.perf_counter()
        self._run: Run | None = None
        self._first: list[Batch] = []
        self.names: Sequence[str] = ()
        batches: Iterator[Batch] = stream.batches(options.batch_size)
        if options.rate is not None:
            batches = interrupts.paced(batches, options.rate)
        self.source = interrupts.EndsEarly(batches, self)
        self.source.on_request = self.save
        stream.on_idle, stream.on_fault = self._show_records, self._take_bad_rows
        if metrics is not None:
            metrics.lag = stream.lag

    @property
    def run(self) -> Run:
        """What has learnt; it is there once the first batch was read."""
        assert self._run is not None
        return self._run

    @property
    def n_rows(self) -> int:
        """How many rows were learnt from."""
        return 0 if self._run is None else self._run.totals.n_rows

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the batches, until Ctrl-C."""
        return chain(self._first, self.source)

    def begin(self, saved: Checkpoint | None = None) -> None:
        """Begin with the first batch, which says what kind of target it is, or at a checkpoint."""
        from fires.core.named import RunNames
        from fires.run.run import Run

        names = RunNames() if self.stream.is_open else None
        names = names if saved is None else saved.run.names
        self.names = self.schema.feature_names if names is None else names
        if self._emitter is not None:
            self._emitter.names = self.names
        if saved is not None:
            run = saved.run
            if self.folder is not None:
                selected = run.pipeline.selector.get_support(indices=True)
                known = saved.facts, run.totals, selected, self.names
                self.folder.go_on(*known, transform=self._label)
        else:
            if self.folder is not None:
                self.folder.start(self.names, transform=self._label)
            self._first = list(islice(self.source, 1))
            if not self._first:
                ended = self.source.signal is not None
                raise KeyboardInterrupt if ended else InputError("there are no rows")
            pipeline = _pipeline(self._options, self.stream, self._first[0])
            run = Run(pipeline, self.schema.n_features, names)
        on_save = None if self._metrics is None else self._metrics.saved
        service = self._schedule, self._emitter, on_save
        before = None if saved is None else saved.facts
        run.keep(self.folder, self._at_source, *service, before=before, began=self._began)
        self._run = run
        if saved is not None and self._metrics is not None:
            self._tell_metrics(self._metrics)

    def _at_source(self) -> Header:
        """Where the stream was after the last step, if it can be read again from there."""
        with suppress(InputError):
            return {"bookmark": self._then.bookmark()}
        return {"bookmark": None}

    def learn(self, show: Callable[[Values], None]) -> None:
        """Test on each batch and learn from it, to the end of the stream."""
        began, run = (time.perf_counter(), self.n_rows), self.run
        for step in run.steps(self, self._options.batch_size):
            # A stream replaces what it knows and never changes it: so this is how it is now, also
            # when it has read on for the next batch.
            if self.folder is not None:
                self._then = copy.copy(self.stream)
            run.record(step)
            for alarm in step.alarms:
                what = "all features" if alarm.feature is None else f"feature {alarm.feature}"
                _LOG.warning("alarm about %s after %d rows", what, step.position.rows)
            if step.waited:
                _LOG.info("batch %d was cut by time, with %d rows", step.index, step.n_rows)
            if self._metrics is not None:
                self._tell_metrics(self._metrics)
            show(partial(self._seen, step, *began))

    def save(self) -> None:
        """Write a checkpoint, if there is something to save."""
        if self._run is not None:
            self._run.save()

    def _take_bad_rows(self, faults: Sequence[Fault]) -> None:
        """Write down rows that cannot be used, and end a run in which they are too many."""
        if self.folder is not None:
            with self.source.undisturbed():
                (self._run or self.folder.records).quarantine(faults)
        self._n_bad += len(faults)
        most, n_all = self._options.max_bad, self._n_bad + self.n_rows
        if most is None or (isinstance(most, float) and n_all < _LEAST_ROWS):
            return
        if self._n_bad > (most * n_all if isinstance(most, float) else most):
            raise InputError(
                f"{self._n_bad:,} of {n_all:,} rows could not be used, more than --max-bad "
                f"{most} allows; the last: {faults[-1].reason}"
            )

    def _show_records(self) -> None:
        """Let others see all records, before more rows are waited for."""
        if self.folder is not None:
            with self.source.undisturbed():
                self.folder.records.flush()

    def _tell_metrics(self, port: MetricsPort) -> None:
        totals, selector = self.run.totals, self.run.pipeline.selector
        port.update(
            rows=totals.n_rows,
            bad_rows=self.stream.rejected.count,
            batches=totals.n_batches,
            alarms=len(selector.alarms_),
            stability=totals.window.value,
            selected_features=len(selector.get_support(indices=True)),
        )

    def _seen(self, step: Step, began: float, n_before: int) -> Header:
        """How far the run is, how fast, how stable and how good."""
        totals, n_bad = self.run.totals, self.stream.rejected.count
        more = [
            *if_known("stability {:.2f}", step.stability),
            *if_known("accuracy {:.2f}", totals.recent_scores.get("accuracy")),
            *if_known("R2 {:.2f}", totals.scores.get("r2")),
            *[f"{n_bad:,} bad row{'s' * (n_bad > 1)}"] * bool(n_bad),
        ]
        return seen(totals.n_rows, began, step.position.bytes, *more, before=n_before) | {
            "bad_rows": n_bad,
            "stability": step.stability,
            "scores": totals.recent_scores,
        }


def _pipeline(options: Options, stream: TableStream, first: Batch) -> OnlinePipeline:
    """The selector, with its own learner for the predictor; as published, with a Perceptron."""
    from fires.core.classes import has_fractions
    from fires.pipeline import OnlinePipeline
    from fires.predictors import BayesLinear, Perceptron

    selector, target = options.selector(), stream.target  # svmlight has none to speak of
    numeric = has_fractions(first.y) or (target is not None and target.is_numeric)
    if numeric and options.model == "auto":  # the first rows may hold whole numbers, by chance
        selector.set_params(model="gaussian")
    predictor: Predictor | str = "auto" if selector.update == "bayes" else Perceptron()
    if numeric and options.model in CLASSES:  # which the selector refuses, in words of its own
        predictor = BayesLinear("gaussian")
    return OnlinePipeline(selector, predictor, None if options.as_published else "standard")


def _open_folder(
    options: Options, orders: interrupts.FromTheStart, stack: ExitStack
) -> tuple[RunFolder | None, Checkpoint | None, Header]:
    """The folder of the run, the checkpoint that it goes on with, and what is known of it."""
    from fires.run.folder import RunFolder
    from fires.run.saved import known_before

    facts: Header = settings_facts(file=options.reading.files) | {"id": uuid4().hex[:12]}
    path, resume, saved = options.folder, options.resume is not None, None
    if path is None:
        return None, None, facts
    with orders.undisturbed():
        folder = RunFolder(path, overwrite=options.overwrite, resume=resume)
        stack.enter_context(folder)
        if resume:
            saved = _newest(folder, options.quiet)
            facts |= known_before(path)
        told = as_toml(click.get_current_context(), file=options.reading.files)
        folder.begin(told, facts)
    return folder, saved, facts


def _open_stream(
    options: Options, folder: RunFolder | None, saved: Checkpoint | None, facts: Header
) -> TableStream:
    """The rows, from the first or from where a checkpoint was."""
    sample, model = facts.pop("sample", None), options.model
    stream = options.reading.open(
        options.target,
        holds="numbers" if model in NUMERIC else "classes" if model in CLASSES else "auto",
        after=sample if saved is None else saved.facts["bookmark"],
        max_categories=options.max_categories,
        columns=options.columns,
        time=options.time,
    )
    if folder is not None and saved is None:
        # What the first rows decide, where there may be others at the next start. But a source
        # may be one that cannot be taken up again.
        with suppress(InputError):
            if (sample := stream.bookmark())["files"] is None:
                folder.note(facts | {"sample": sample})
    stream.max_wait = options.max_wait
    n_pixels = math.prod(map(int, (options.shape or "0").split("x")))
    if n_pixels not in (0, stream.schema.n_features):
        found = f"there are {stream.schema.n_features:,} features"
        raise InputError(f"--shape {options.shape} has {n_pixels:,} pixels, and {found}")
    return stream


def _service(
    options: Options, stack: ExitStack, run_id: str, stream: TableStream
) -> tuple[Emitter | None, MetricsPort | None]:
    """Open what the run is told to, until the end of the command."""
    emitter = port = None
    if options.emit is not None:
        from fires.run.emit import Emitter, open_sink

        names = stream.schema.feature_names
        emitter = Emitter(open_sink(options.emit), run_id, names, options.emit_every)
        stack.callback(emitter.close)
    if options.metrics is not None:
        from fires.cli.metrics_port import MetricsPort, metrics_address

        port = stack.enter_context(MetricsPort(*metrics_address(options.metrics)))
    return emitter, port


def _finish(learning: Learning, notices: Notices, facts: Header, name: str) -> OSError | None:
    """Save what was learnt, and say what is doubtful; returns what kept it from being saved.

    What is known of the run is added to the facts.
    """
    from fires.run.features import twin_names
    from fires.run.folder import refuse_one_class
    from fires.selectors.fires import FIRES

    stream, run, reason = learning.stream, learning.run, learning.source.reason
    selector, names = run.pipeline.selector, learning.names
    is_plain = stream.columns is None or run.names is not None
    known = names if is_plain else stream.columns.of_features
    found = run.watch.settled(known, stream.doubts)
    # A column that seems constant may have several categories, which all say the same. Of columns
    # that come and go, nobody has looked whether they change.
    columns = () if stream.columns is None else stream.columns.used
    several = {column.name for column in columns if len(column.categories) > 1}
    stream.doubts = tuple(
        doubt
        for doubt in found
        if doubt.kind != "constant" or (run.names is None and doubt.column not in several)
    )
    notices.tell(ended=True)
    if reason is None:
        refuse_one_class(selector, f'"{stream.schema.target}" of {name}', learning.folder)
    tried(learning.save)  # if it fails, the one before stays
    facts |= stream_facts(stream, run.seconds) | run.facts(known, reason)
    facts["target"] = None if stream.target is None else stream.target.column.as_json()
    facts["cautions"] = run.watch.cautions(run.totals.class_shares)
    if isinstance(selector, FIRES) and (selector.relations, selector.update) == ("linear", "bayes"):
        facts["hints"] = run.watch.hints(known)
    if twins := twin_names(selector, known):
        facts["twins"] = twins
    described = () if stream.columns is None else stream.describe()
    return tried(partial(run.finish, names, facts, described))


def _newest(folder: RunFolder, quiet: bool) -> Checkpoint | None:
    """The checkpoint that a run goes on with; says which, and what is wrong with later ones."""
    from fires.run.run import newest_checkpoint

    saved, damaged = newest_checkpoint(folder, "fires")
    for line in damaged:
        say(f"a checkpoint cannot be used: {line}")
    if saved is not None and saved.facts["bookmark"] is None:
        raise InputError(
            f"{folder.path} was learnt from a source that cannot be read again from the middle",
            hint="what it learnt can still be used; for a query, give --position COL",
        )
    if not quiet:
        rows = 0 if saved is None else saved.run.totals.n_rows
        where = f"after {rows:,} rows" if rows else "from the first row: it has no checkpoint yet"
        say(f"resuming {folder.path} {where}")
    return saved


def _end(learning: Learning, out: Path | None, unsaved: OSError | None) -> None:
    """Say what ended the run early, or why it could not be saved, with a code for scripts."""
    source = learning.source
    if source.reason is None and unsaved is None:
        return
    if isinstance(source.error, BrokenPipeError):
        raise source.error
    if unsaved is not None:
        kept = f", but could not be saved: {message(unsaved)}"
    else:
        kept = "" if out is None else f" and saved in {out}"
    learnt = f"what was learnt from the first {learning.n_rows:,} rows is shown above{kept}"
    if source.signal is None and not isinstance(source.error, (*EXPECTED, type(None))):
        say(f"{learnt}; the run was ended by a bug in fires:")
    source.tell_end(learnt, unsaved, saved=out is not None and unsaved is None)
