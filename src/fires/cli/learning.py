"""One run of ``fires select``: begun, or taken up again, and saved on the way."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING

from fires.cli.interrupts import EndsEarly, paced
from fires.cli.progress import Values, seen
from fires.cli.text import if_known
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.cli.metrics_port import MetricsPort
    from fires.core.named import RunNames
    from fires.core.types import Header
    from fires.evaluation.records import Step
    from fires.pipeline import OnlinePipeline
    from fires.predictors import Predictor
    from fires.run.checkpoints import Schedule
    from fires.run.emit import Emitter
    from fires.run.folder import RunFolder
    from fires.run.run import Checkpoint, Run
    from fires.selectors.fires import FIRES
    from fires.streams.base import Batch
    from fires.streams.table import Fault
    from fires.streams.table_stream import TableStream

CLASSES, NUMERIC = ("probit", "logistic"), ("gaussian", "poisson")
_LEAST_ROWS = 1000
_LOG = logging.getLogger("fires")


class Learning:
    """A run on the rows of a table, until they end or something ends them early.

    It is the stream that the run learns from: that of the table, as far as it goes.
    """

    def __init__(
        self,
        stream: TableStream,
        batch_size: int,
        folder: RunFolder | None = None,
        schedule: Schedule | None = None,
        *,
        emitter: Emitter | None = None,
        metrics: MetricsPort | None = None,
        rate: float | None = None,
        most_bad: int | float | None = None,
    ) -> None:
        self.stream, self.folder, self._batch_size = stream, folder, batch_size
        self.schema, self._then = stream.schema, stream
        self._schedule, self._emitter, self._metrics = schedule, emitter, metrics
        self._on_save = None if metrics is None else metrics.saved
        self._most_bad, self._n_bad = most_bad, stream.rejected.count
        self._began = time.perf_counter()
        self._run: Run | None = None
        self._first: list[Batch] = []
        self.names: Sequence[str] = ()
        batches = stream.batches(batch_size)
        self.source = EndsEarly(batches if rate is None else paced(batches, rate), self)
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

    def begin(
        self, selector: FIRES, model: str, scale: str | None, transform: str | None = None
    ) -> None:
        """Begin with the first batch, which says what kind of target it is."""
        from fires.core.named import RunNames
        from fires.run.run import Run

        names = RunNames() if self.stream.is_open else None
        self._name(names)
        if self.folder is not None:
            self.folder.start(self.names, transform=transform)
        self._first = list(islice(self.source, 1))
        if not self._first:
            ended = self.source.signal is not None
            raise KeyboardInterrupt if ended else InputError("there are no rows")
        pipeline = _pipeline(selector, model, scale, self.stream, self._first[0])
        self._keep(Run(pipeline, self.schema.n_features, names))

    def go_on(self, saved: Checkpoint, transform: str | None = None) -> None:
        """Go on where a checkpoint was."""
        run = saved.run
        self._name(run.names)
        selected = run.pipeline.selector.get_support(indices=True)
        if self.folder is not None:
            self.folder.go_on(saved.facts, run.totals, selected, self.names, transform=transform)
        self._keep(run, saved.facts)
        if self._metrics is not None:
            self._tell_metrics(self._metrics, len(selected))

    def _name(self, names: RunNames | None) -> None:
        """Let all who tell of features know what they are called."""
        self.names = self.schema.feature_names if names is None else names
        if self._emitter is not None:
            self._emitter.names = self.names

    def _keep(self, run: Run, before: Header | None = None) -> None:
        service = self._schedule, self._emitter, self._on_save
        run.keep(self.folder, self._at_source, *service, before=before, began=self._began)
        self._run = run

    def _at_source(self) -> Header:
        """Where the stream was after the last step, if it can be read again from there."""
        with suppress(InputError):
            return {"bookmark": self._then.bookmark()}
        return {"bookmark": None}

    def learn(self, show: Callable[[Values], None]) -> None:
        """Test on each batch and learn from it, to the end of the stream."""
        began, run = (time.perf_counter(), self.n_rows), self.run
        for step in run.steps(self, self._batch_size):
            # A stream replaces what it knows and never changes it: so this is how it is now, also
            # when it has read on for the next batch.
            self._then = copy.copy(self.stream)
            run.record(step)
            if step.alarms or step.waited:
                _log_step(step)
            if self._metrics is not None:
                self._tell_metrics(self._metrics, len(step.selected))
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
        most, n_all = self._most_bad, self._n_bad + self.n_rows
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

    def _tell_metrics(self, metrics: MetricsPort, n_selected: int) -> None:
        totals = self.run.totals
        metrics.update(
            rows=totals.n_rows,
            bad_rows=self.stream.rejected.count,
            batches=totals.n_batches,
            alarms=len(self.run.pipeline.selector.alarms_),
            stability=totals.window.value,
            selected_features=n_selected,
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
        speed = (totals.n_rows - n_before) / (time.perf_counter() - began)
        return seen(totals.n_rows, began, step.position.bytes, *more, before=n_before) | {
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
    """The selector, with its own learner for the predictor; as published, with a Perceptron."""
    from fires.core.classes import has_fractions
    from fires.pipeline import OnlinePipeline
    from fires.predictors import BayesLinear, Perceptron

    target = stream.target  # svmlight has none to speak of
    numeric = has_fractions(first.y) or (target is not None and target.is_numeric)
    if numeric and model == "auto":  # the first rows may hold whole numbers, by chance
        selector.set_params(model="gaussian")
    predictor: Predictor | str = "auto" if selector.update == "bayes" else Perceptron()
    if numeric and model in CLASSES:  # which the selector refuses, in words of its own
        predictor = BayesLinear("gaussian")
    return OnlinePipeline(selector, predictor, scale)
