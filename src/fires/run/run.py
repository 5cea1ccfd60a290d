"""A run: a pipeline on its way along a stream, to be left after any batch and taken up again.

The one :class:`Run` serves ``fires select``, ``fires demo`` and Spark. The command takes its steps
from :meth:`Run.steps`; Spark makes them of micro-batches, with :mod:`fires.run.sharded_scoring`.
Both call :meth:`Run.keep` once, with the folder and a function that says what a checkpoint holds
of the source; then :meth:`Run.record` for each step; and :meth:`Run.finish` at the end. A
checkpoint is written by :meth:`Run.save`, when it is due, or by :meth:`Run.checkpoint`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from fires.columns.columns import ColumnFacts
from fires.core.errors import InputError
from fires.core.named import RunNames
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Header
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step
from fires.evaluation.scoring import usual_baselines
from fires.metrics.prediction import Scores
from fires.pipeline import OnlinePipeline
from fires.predictors.built_in import BuiltIn
from fires.run.checkpoints import Schedule
from fires.run.emit import Emitter
from fires.run.features import alarm_rows, classes_of
from fires.run.folder import RunFolder
from fires.run.records import Latencies
from fires.run.relations import relations_of
from fires.run.totals import RunTotals
from fires.run.watch import ColumnWatch
from fires.streams.base import Batch, Stream
from fires.streams.table import Fault

_LOG = logging.getLogger("fires")

# What a checkpoint holds of the source: its ``bookmark``, and whatever else belongs to it.
AtSource = Callable[[], Header]


class Run:
    """What learns from a stream, what is known of it so far, and where that is written down.

    Examples
    --------
    >>> from fires import FIRES
    >>> from fires.streams import KnownTruth
    >>> stream = KnownTruth(600, 5, 2, random_state=0)
    >>> run = Run(OnlinePipeline(FIRES(2)), 5)
    >>> steps = run.steps(stream, 100)
    >>> [next(steps).index for _ in range(3)]
    [0, 1, 2]
    >>> header, arrays = run.saved()
    >>> Run.from_saved(header, arrays).totals.n_rows
    300
    """

    def __init__(
        self, pipeline: OnlinePipeline, n_features: int, names: RunNames | None = None
    ) -> None:
        predictor = pipeline.wrapped_predictor
        classes = isinstance(predictor, BuiltIn) and predictor.has_labels
        scores = ("accuracy", "balanced_accuracy") if classes else ("r2", "mae")
        self.pipeline, self.watch = pipeline, ColumnWatch(classes=classes)
        self.latest: Batch | None = None
        self.folder: RunFolder | None = None
        self.latencies = Latencies()
        self._began, self._seconds = time.perf_counter(), 0.0
        self._is_saved = self._is_whole = True  # not whole: a batch is half learnt or recorded
        self._learnt: State | None = None  # what the pipeline saved, until it learns again
        self._at_source: AtSource = dict
        self._schedule: Schedule | None = None
        self._emitter: Emitter | None = None
        self._on_save: Callable[[float], object] | None = None
        self.names: RunNames | None = None
        if pipeline.open_names is not None:
            self.names = RunNames() if names is None else names
        self.totals = RunTotals(n_features if self.names is None else None)
        if predictor is None:
            return
        self.totals.whole = Scores(scores)
        see_all = self.names is None
        self.totals.baselines = usual_baselines(predictor, scores, see_all=see_all)

    def steps(self, stream: Stream, batch_size: int) -> Iterator[Step]:
        """Test on each batch and learn from it, to the end of the stream."""

        def batches(batch_size: int) -> Iterator[Batch]:
            for batch in stream.batches(batch_size):
                self.latencies.begin()
                self.latest, self._learnt, self._is_whole = batch, None, False
                self.watch.see(batch)
                yield batch

        watched: Any = SimpleNamespace(schema=stream.schema, batches=batches)
        for step in prequential(
            watched,
            self.pipeline,
            batch_size=batch_size,
            scores=self.totals.whole or (),
            window=self.totals.window,
            first_index=self.totals.n_batches,
            baselines=self.totals.baselines,
            names=self.names,
        ):
            self.totals.add(step)
            yield step

    # --- what is written down ---------------------------------------------------------------

    def keep(
        self,
        folder: RunFolder | None,
        at_source: AtSource,
        schedule: Schedule | None = None,
        emitter: Emitter | None = None,
        on_save: Callable[[float], object] | None = None,
        *,
        before: Mapping[str, Any] | None = None,
        began: float | None = None,
    ) -> None:
        """From here on, write the run down; ``before`` is what its last checkpoint held."""
        self.folder, self._at_source, self._on_save = folder, at_source, on_save
        self._schedule, self._emitter = schedule, emitter
        self._began = self._began if began is None else began
        if before is not None:
            self._seconds = float(before["seconds"])
            self.latencies.restore(before["latencies"])
            if emitter is not None and before["emitted"] is not None:
                emitter.restore(before["emitted"])

    @property
    def seconds(self) -> float:
        """How long the run has taken, with what it took before it was taken up again."""
        return self._seconds + time.perf_counter() - self._began

    def record(self, step: Step) -> None:
        """Tell of a step, write it down, and save the run if that is due."""
        self._is_saved, self._is_whole = False, False  # if it fails, the last checkpoint stays
        if self._emitter is not None:
            self._emitter.step(step, self.pipeline.selector)
        if self.folder is not None:
            full = self.folder.add(step, self.pipeline, self.latest)
            if (told := self.folder.records.told) is not None:
                self.totals.changes.look(step.selected, *told)
            self._is_whole = True
            if full or (self._schedule is not None and self._schedule.is_due()):
                self.save()
        self.latencies.end()

    def quarantine(self, faults: Sequence[Fault]) -> None:
        """Write down rows that could not be used."""
        if self.folder is not None:
            is_whole, self._is_whole = self._is_whole, False
            self.folder.records.quarantine(faults)
            self._is_whole = is_whole

    def save(self) -> None:
        """Write a checkpoint, unless the last is still true, or a batch half learnt or recorded."""
        if self.folder is None or self._is_saved or not self._is_whole:
            return
        started, n_rows = time.perf_counter(), self.totals.n_rows
        self.checkpoint()
        self._is_saved = True
        if self.totals.changes.by_batch:  # for those who look on
            names = self.names or self.pipeline.selector.feature_names_in_.tolist()
            rows = alarm_rows(self.pipeline.selector, names, self.totals)
            self.folder.note({"alarms": rows})
        took = time.perf_counter() - started
        _LOG.info("checkpoint after %d rows, in %.3f s", n_rows, took)
        if self._on_save is not None:
            self._on_save(took)
        if self._schedule is not None:
            self._schedule.written(took)

    def checkpoint(self) -> None:
        """Write all that is needed to go on after the last record."""
        assert self.folder is not None
        if self._emitter is not None:
            self._emitter.flush()
        header, arrays = self.saved()
        facts: Header = {
            "seconds": self.seconds,
            "latencies": self.latencies.state(),
            "emitted": None if self._emitter is None else self._emitter.state(),
        }
        self.folder.checkpoint(self.totals.n_batches, header | self._at_source() | facts, arrays)

    def facts(self, names: Sequence[str], reason: str | None = None) -> Header:
        """What is known of the run at its end, for ``run.json``; ``names`` are those of columns."""
        selector, relations = self.pipeline.selector, relations_of(self.pipeline)
        return {
            **({} if relations is None else {"relations": relations}),
            "seconds": round(self.seconds, 3),
            "ended_early": reason,
            "model": selector.model_,
            "classes": classes_of(selector),
            "n_features": len(set(names)),
            "missing_values": self.pipeline.n_missing_,
            "latency": self.latencies.as_dict(),
            "alarms": alarm_rows(selector, names, self.totals),
            "why": selector.why(),
        }

    def finish(
        self, names: Sequence[str], facts: Header, columns: Sequence[ColumnFacts] = ()
    ) -> None:
        """Write the result."""
        if self.folder is not None:
            learnt = self._learnt if self._is_saved else None
            self.folder.finish(self.pipeline, names, self.totals, facts, columns, learnt)

    def saved(self) -> State:
        """Everything needed to go on after the last batch."""
        self._learnt = self.pipeline.saved()
        parts = {"pipeline": self._learnt, "totals": self.totals.saved()}
        parts["watch"] = self.watch.saved()
        arrays: Arrays = {}
        for name, (_, learnt) in parts.items():
            arrays |= under(name, learnt)
        header = {name: part for name, (part, _) in parts.items()}
        return header | {"names": None if self.names is None else list(self.names)}, arrays

    @classmethod
    def from_saved(cls, header: dict[str, Any], arrays: Arrays, where: str = "the run") -> Run:
        """The run that gave this :meth:`saved`."""
        learnt = part_of("pipeline", arrays)
        pipeline = OnlinePipeline.from_state(header["pipeline"], learnt, None, None, where)
        run = cls(pipeline, pipeline.selector.n_features_in_)
        run.totals = RunTotals.from_saved(header["totals"], part_of("totals", arrays))
        run.watch.restore(header["watch"], part_of("watch", arrays))
        if run.names is not None:
            run.names = RunNames(map(str, header["names"]))
            run.names.follow(pipeline.open_names or ())
        return run


class Checkpoint(NamedTuple):
    """Where a run can go on."""

    run: Run
    facts: dict[str, Any]


def newest_checkpoint(folder: RunFolder, engine: str) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that can be used, and what is wrong with later ones."""
    saved, damaged = folder.checkpoints.newest(
        lambda header, arrays, where: Checkpoint(Run.from_saved(header, arrays, where), header)
    )
    if saved is not None:
        of_spark = "spark batch" in (saved.facts["bookmark"] or {})
        if of_spark != (engine == "spark"):
            raise InputError(
                f"{folder.path} holds a run of {'Spark' if of_spark else 'one process'}: "
                "resume it the way it was started"
            )
    return saved, damaged
