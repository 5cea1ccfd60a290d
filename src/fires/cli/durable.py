"""One run of ``fires select``: begun, or taken up again, and saved on the way."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from fires.cli.interrupts import Interruptible
from fires.cli.progress import Values
from fires.cli.selection import if_known
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.cli.metrics_port import MetricsPort
    from fires.core.types import Header
    from fires.evaluation.records import Step
    from fires.pipeline import OnlinePipeline
    from fires.run.checkpoints import Schedule
    from fires.run.emit import Emitter
    from fires.run.folder import Checkpoint, RunFolder
    from fires.run.run import Run
    from fires.selectors.fires import FIRES
    from fires.streams.base import Batch
    from fires.streams.table import Fault
    from fires.streams.table_stream import TableStream

NUMERIC = ("gaussian", "poisson")
_LEAST_ROWS = 1000
_LOG = logging.getLogger("fires")


class MostBad(click.ParamType[int | float]):
    """How many rows may be unusable: a number, or a share of all rows."""

    name = "N|SHARE"

    def convert(
        self, value: float | str, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """The number that a text stands for."""
        if not isinstance(value, str):
            return value
        try:
            most = int(value) if value.isdigit() else float(value)
        except ValueError:
            most = -1
        if not (0 <= most < 1 if isinstance(most, float) else most >= 0):
            self.fail(f"{value!r} is neither a number of rows nor a share below 1.", param)
        return most


class BadRows:
    """Counts the rows that cannot be used, and ends a run in which they are too many."""

    def __init__(self, most: int | float | None, durable: DurableRun) -> None:
        self._most, self._durable = most, durable
        self._count = durable.stream.rejected.count

    def __call__(self, faults: Sequence[Fault]) -> None:
        """Take notice of more of them."""
        if self._durable.folder is not None:
            with self._durable.source.undisturbed(), self._durable.recording():
                self._durable.folder.records.quarantine(faults)
        self._count += len(faults)
        n_all = self._count + self._durable.n_rows
        if self._most is None or (isinstance(self._most, float) and n_all < _LEAST_ROWS):
            return
        limit = self._most * n_all if isinstance(self._most, float) else self._most
        if self._count > limit:
            raise InputError(
                f"{self._count:,} of {n_all:,} rows could not be used, more than --max-bad "
                f"{self._most} allows; the last: {faults[-1].reason}"
            )


@dataclass(frozen=True)
class Service:
    """Who else is told of a run."""

    emitter: Emitter | None = None
    metrics: MetricsPort | None = None


_ALONE = Service()


class DurableRun:
    """A run on a stream, with its folder if it has one."""

    run: Run
    names: Sequence[str] = ()

    def __init__(
        self,
        stream: TableStream,
        batch_size: int,
        folder: RunFolder | None = None,
        schedule: Schedule | None = None,
        service: Service = _ALONE,
        rate: float | None = None,
    ) -> None:
        from fires.run.records import Latencies

        self.stream, self.folder, self._batch_size = stream, folder, batch_size
        self._then = stream
        self._schedule, self._service = schedule, service
        self._began, self._seconds = time.perf_counter(), 0.0
        self._is_saved, self._is_whole = True, True
        self.trouble: OSError | None = None
        self.latencies = Latencies()
        self.source = Interruptible(stream, batch_size, self, rate)
        self.source.watch, self.source.on_request = self.latencies.begin, self.save
        stream.on_idle = self._show_records
        if service.metrics is not None:
            service.metrics.lag = stream.lag

    @property
    def n_rows(self) -> int:
        """How many rows were learnt from."""
        return self.run.totals.n_rows if hasattr(self, "run") else 0

    @property
    def seconds(self) -> float:
        """How long the run has taken, with what it took before it was taken up again."""
        return self._seconds + time.perf_counter() - self._began

    def begin(
        self, selector: FIRES, model: str, scale: str | None, transform: str | None = None
    ) -> None:
        """Begin with the first batch, which says what kind of target it is."""
        from fires.core.named import RunNames
        from fires.run.run import Run

        names = RunNames() if getattr(self.stream, "is_open", False) else None
        self._name(self.stream.schema.feature_names if names is None else names)
        if self.folder is not None:
            self.folder.start(self.names, transform=transform)
        pipeline = _pipeline(selector, model, scale, self.stream, self.source.first())
        self.run = Run(pipeline, self.stream.schema.n_features, names)

    def go_on(self, saved: Checkpoint, transform: str | None = None) -> None:
        """Go on where a checkpoint was."""
        names = saved.run.names
        self._name(self.stream.schema.feature_names if names is None else names)
        if self.folder is not None:
            self.folder.go_on(saved, self.names, transform=transform)
        self.run, facts = saved
        self._seconds = float(facts["seconds"])
        self.latencies.restore(facts["latencies"])
        if self._service.emitter is not None and facts["emitted"] is not None:
            self._service.emitter.restore(facts["emitted"])
        self._tell_metrics(len(self.run.pipeline.selector.get_support(indices=True)))

    def _name(self, names: Sequence[str]) -> None:
        """Let all who tell of features know what they are called."""
        self.names = names
        if self._service.emitter is not None:
            self._service.emitter.names = names

    def learn(self, show: Callable[[Values], None]) -> None:
        """Test on each batch and learn from it, to the end of the stream."""
        began = time.perf_counter(), self.run.totals.n_rows
        selector = self.run.pipeline.selector
        for step in self.run.steps(self.source, self._batch_size):
            # A stream replaces what it knows and never changes it: so this is how it is now, also
            # when it has read on for the next batch.
            self._then, self._is_saved = copy.copy(self.stream), False
            with self.recording():
                if self._service.emitter is not None:
                    self._service.emitter.step(step, selector)
                if self.folder is not None:
                    self._record(step)
            self.latencies.end()
            _log_step(step)
            self._tell_metrics(len(step.selected))
            show(partial(self._seen, step, *began))

    @contextmanager
    def recording(self) -> Iterator[None]:
        """What could not be written down is not saved as if it were: the last checkpoint stays."""
        try:
            yield
        except BaseException:
            self._is_whole = False
            raise

    def _record(self, step: Step) -> None:
        assert self.folder is not None
        records = self.folder.records
        self.folder.add(step, self.run.pipeline)
        full, batch = False, self.run.latest
        if records.transformed is not None and batch is not None:
            rows = step.position.rows
            records.transformed.add(batch.X, batch.y, rows, step.selected, batch.names)
            full = records.transformed.is_full
        if full or (self._schedule is not None and self._schedule.is_due()):
            self.save()

    def _show_records(self) -> None:
        """Let others see all records, before more rows are waited for."""
        if self.folder is not None:
            with self.source.undisturbed():
                self.folder.records.flush()

    def save(self) -> None:
        """Write a checkpoint, unless the last is still true, or a batch half learnt or recorded."""
        is_ready = self._is_whole and not self._is_saved and self.run.is_between_batches
        if self.folder is None or not is_ready:
            return
        from fires.core.files import is_transient

        started, emitter = time.perf_counter(), self._service.emitter
        try:
            if emitter is not None:
                emitter.flush()
            self._save_now(emitter)
        except OSError as error:
            if not is_transient(error):
                raise
            _LOG.warning("no checkpoint after %d rows: %s", self.n_rows, error)
            self.trouble = error
        else:
            self._is_saved, self.trouble = True, None
            took = time.perf_counter() - started
            _LOG.info("checkpoint after %d rows, in %.3f s", self.n_rows, took)
            if self._service.metrics is not None:
                self._service.metrics.update(checkpoint_seconds=took)
        if self._schedule is not None:
            self._schedule.written(time.perf_counter() - started)

    def _save_now(self, emitter: Emitter | None) -> None:
        assert self.folder is not None
        bookmark = None
        with suppress(InputError):  # of some sources, nothing can be read again from the middle
            bookmark = self._then.bookmark()
        self.folder.checkpoint(
            self.run,
            bookmark,
            seconds=self.seconds,
            latencies=self.latencies.state(),
            emitted=None if emitter is None else emitter.state(),
        )

    def _tell_metrics(self, n_selected: int) -> None:
        if self._service.metrics is None:
            return
        totals = self.run.totals
        self._service.metrics.update(
            rows=totals.n_rows,
            bad_rows=self.stream.rejected.count,
            batches=totals.n_batches,
            alarms=len(self.run.pipeline.selector.alarms_),
            stability=totals.window.value,
            selected_features=n_selected,
        )

    def _seen(self, step: Step, began: float, n_before: int) -> Header:
        """How far the run is, how fast, how stable and how good."""
        totals = self.run.totals
        speed = (totals.n_rows - n_before) / (time.perf_counter() - began)
        now = [f"{speed:,.0f} rows/s"]
        now += if_known("stability {:.2f}", step.stability)
        now += if_known("accuracy {:.2f}", totals.recent_scores.get("accuracy"))
        now += if_known("R2 {:.2f}", totals.scores.get("r2"))
        if n_bad := self.stream.rejected.count:
            now.append(f"{n_bad:,} bad row{'s' * (n_bad > 1)}")
        return {
            "description": f"{totals.n_rows:,} rows",
            "completed": step.position.bytes,
            "now": ", ".join(now),
            "rows": totals.n_rows,
            "bad_rows": n_bad,
            "rows_per_second": round(speed, 1),
            "stability": step.stability,
            "scores": totals.recent_scores,
        }


def _log_step(step: Step) -> None:
    for alarm in step.alarms:
        what = "all features" if alarm.feature is None else f"feature {alarm.feature}"
        _LOG.warning("alarm about %s after %d rows", what, step.position.rows)
    if step.waited:
        _LOG.info("batch %d was cut by time, with %d rows", step.index, step.n_rows)


def _pipeline(
    selector: FIRES, model: str, scale: str | None, stream: TableStream, first: Batch
) -> OnlinePipeline:
    """A Perceptron if the target holds classes, a regression if it holds numbers."""
    from fires.core.classes import has_fractions
    from fires.pipeline import OnlinePipeline
    from fires.predictors import LinearRegressor, Perceptron

    target = getattr(stream, "target", None)  # svmlight has none to speak of
    fractions = has_fractions(first.y)
    numeric = model in NUMERIC or fractions or (target is not None and target.is_numeric)
    if numeric and model == "auto" and not fractions:  # in the first rows, by chance
        selector.set_params(model="gaussian")
    return OnlinePipeline(selector, LinearRegressor() if numeric else Perceptron(), scale)
