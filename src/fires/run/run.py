"""A run: a pipeline on its way along a stream, to be left after any batch and taken up again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fires.core.named import RunNames
from fires.core.state import Arrays, State, part_of, under
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step
from fires.evaluation.scoring import usual_baselines
from fires.metrics.prediction import Scores
from fires.pipeline import OnlinePipeline
from fires.predictors import LinearRegressor, Perceptron
from fires.run.totals import RunTotals
from fires.run.watch import ColumnWatch
from fires.streams.base import Batch, Schema, Stream


class Run:
    """What learns from a stream, and what is known of it so far.

    Examples
    --------
    >>> from fires import FIRES
    >>> from fires.streams import KnownTruth
    >>> stream = KnownTruth(600, 5, 2, random_state=0)
    >>> run = Run(OnlinePipeline(FIRES(2), Perceptron()), 5)
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
        classes = isinstance(pipeline.predictor, Perceptron)
        scores = ("accuracy", "balanced_accuracy") if classes else ("r2", "mae")
        self.pipeline, self.watch = pipeline, ColumnWatch(classes=classes)
        self.latest: Batch | None = None
        self.is_between_batches = True
        self.names: RunNames | None = None
        if pipeline.open_names is not None:
            self.names = RunNames() if names is None else names
        self.totals = RunTotals(n_features if self.names is None else None)
        if pipeline.predictor is None:
            return
        self.totals.whole = Scores(scores)
        see_all = self.names is None
        self.totals.baselines = usual_baselines(pipeline.predictor, scores, see_all=see_all)

    def steps(self, stream: Stream, batch_size: int) -> Iterator[Step]:
        """Test on each batch and learn from it, to the end of the stream."""
        for step in prequential(
            _Watched(stream, self),
            self.pipeline,
            batch_size=batch_size,
            scores=self.totals.whole or (),
            window=self.totals.window,
            first_index=self.totals.n_batches,
            baselines=self.totals.baselines,
            names=self.names,
        ):
            n_rows = self.totals.n_rows + step.n_rows
            if step.position.rows != n_rows:  # it has been elsewhere before, with other files
                step = replace(step, position=replace(step.position, rows=n_rows))
            self.totals.add(step)
            self.is_between_batches = True
            yield step

    def on_cluster(self) -> Run:
        """The same run on a cluster: the selector scales, and its belief predicts."""
        selector = self.pipeline.to_cluster()
        run = Run(OnlinePipeline(selector, None, None), selector.n_features_in_)
        run.totals = self.totals
        if "all" in run.totals.baselines:
            run.totals.baselines["all"].predictor = None
        return run

    def in_one_process(self) -> Run:
        """The same run where a predictor can learn: it begins to, on the features selected now."""
        selector = self.pipeline.selector
        predictor = Perceptron() if hasattr(selector, "classes_") else LinearRegressor()
        run = Run(self.pipeline.handed_back(predictor), selector.n_features_in_)
        fresh, run.totals = run.totals, self.totals
        if run.totals.whole is None:
            run.totals.whole, run.totals.baselines = fresh.whole, fresh.baselines
        else:
            run.totals.baselines["all"].predictor = predictor.fresh()
        return run

    def saved(self) -> State:
        """Everything needed to go on after the last batch."""
        parts = {name: getattr(self, name).saved() for name in _PARTS}
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


_PARTS = ("pipeline", "totals", "watch")


class _Watched:
    """A stream whose batches are looked at before they are learnt from."""

    def __init__(self, stream: Stream, run: Run) -> None:
        self._stream, self._run = stream, run

    @property
    def schema(self) -> Schema:
        """The names of the columns."""
        return self._stream.schema

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the batches."""
        for batch in self._stream.batches(batch_size):
            self._run.latest, self._run.is_between_batches = batch, False
            self._run.watch.see(batch)
            yield batch
