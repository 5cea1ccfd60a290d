"""One run of ``fires select``: begun, or taken up again, and saved on the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from fires.cli.interrupts import Interruptible
from fires.cli.progress import Values
from fires.cli.selection import if_known
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.evaluation.checkpoints import Schedule
    from fires.evaluation.records import Step
    from fires.evaluation.run import Run
    from fires.evaluation.run_folder import RunFolder
    from fires.pipeline import OnlinePipeline
    from fires.selectors.fires import FIRES
    from fires.streams.base import Batch
    from fires.streams.table import Fault
    from fires.streams.table_stream import TableStream

NUMERIC = ("gaussian", "poisson")
_LEAST_ROWS = 1000


class MostBad(click.ParamType[int | float]):
    """How many rows may be unusable: a number, or a share of all rows.

    Examples
    --------
    >>> MostBad().convert("100", None, None), MostBad().convert("0.05", None, None)
    (100, 0.05)
    """

    name = "N|SHARE"

    def convert(self, value: Any, param: Any, ctx: Any) -> int | float:
        """The number that a text stands for."""
        if not isinstance(value, str):
            return value  # type: ignore[no-any-return]
        try:
            most = int(value) if value.isdigit() else float(value)
        except ValueError:
            most = -1
        if not (0 <= most < 1 if isinstance(most, float) else most >= 0):
            self.fail(f"{value!r} is neither a number of rows nor a share below 1.", param)
        return most


class BadRows:
    """Counts the rows that cannot be used, and ends a run in which they are too many.

    Parameters
    ----------
    most : int, float or None
        How many there may be: a number, or a share of all rows, once there are 1,000.
    n_rows : callable () -> int
        How many rows could be used so far.
    count : int
        How many could not, so far.
    write : callable, optional
        Where they are written down.
    """

    def __init__(
        self,
        most: int | float | None,
        n_rows: Callable[[], int],
        count: int = 0,
        write: Callable[[Sequence[Fault]], None] | None = None,
    ) -> None:
        self.count = count
        self._most, self._n_rows, self._write = most, n_rows, write

    def __call__(self, faults: Sequence[Fault]) -> None:
        """Take notice of more of them."""
        if self._write is not None:
            self._write(faults)
        self.count += len(faults)
        n_all = self.count + self._n_rows()
        if self._most is None or (isinstance(self._most, float) and n_all < _LEAST_ROWS):
            return
        limit = self._most * n_all if isinstance(self._most, float) else self._most
        if self.count > limit:
            raise InputError(
                f"{self.count:,} of {n_all:,} rows could not be used, more than --max-bad "
                f"{self._most} allows; the last: {faults[-1].reason}"
            )


class DurableRun:
    """A run on a stream, with its folder if it has one.

    Parameters
    ----------
    stream : TableStream
        The rows; it begins where the run is.
    batch_size : int
        Rows of a batch.
    folder : RunFolder, optional
        Where the run is written down.
    schedule : Schedule, optional
        When checkpoints are due.

    Attributes
    ----------
    run : Run
        What learns.
    source : Interruptible
        The stream, as far as it is read.
    """

    run: Run

    def __init__(
        self,
        stream: TableStream,
        batch_size: int,
        folder: RunFolder | None = None,
        schedule: Schedule | None = None,
    ) -> None:
        self.stream, self.folder, self._batch_size = stream, folder, batch_size
        self._schedule, self._facts = schedule, dict[str, Any]()
        self._began, self._seconds = time.perf_counter(), 0.0
        self._is_saved = True
        self.source = Interruptible(stream, batch_size, self)

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
        """Begin with the first batch, which says what kind of target it is.

        Parameters
        ----------
        selector : FIRES
            What selects.
        model : str
            The model that the user asked for.
        scale : str or None
            The scale of the pipeline.
        transform : str, optional
            The name of the target, if the selected columns are to be written.
        """
        from fires.evaluation.run import Run

        if self.folder is not None:
            self.folder.start(self.stream.schema.feature_names, transform=transform)
        pipeline = _pipeline(selector, model, scale, self.stream, self.source.first())
        self.run = Run(pipeline, self.stream.schema.n_features)

    def go_on(self, run: Run, facts: dict[str, Any]) -> None:
        """Go on where a checkpoint was.

        Parameters
        ----------
        run : Run
            As it was then.
        facts : dict
            What else was saved.
        """
        self.run = run
        self._seconds = float(facts["seconds"])

    def learn(self, show: Callable[[Values], None]) -> None:
        """Test on each batch and learn from it, to the end of the stream.

        Parameters
        ----------
        show : callable
            What is told how it goes on.
        """
        began = time.perf_counter(), self.run.totals.n_rows
        selector = self.run.pipeline.selector
        for step in self.run.steps(self.source, self._batch_size):
            self._is_saved = False
            if self.folder is not None:
                self._record(step, selector)
            show(partial(self._seen, step, *began))

    def _record(self, step: Step, selector: FIRES) -> None:
        assert self.folder is not None
        records = self.folder.records
        records.add(step, selector)
        full = False
        batch = self.run.latest
        if records.transformed is not None and batch is not None:
            records.transformed.add(batch.X, batch.y, step.position.rows, step.selected)
            full = records.transformed.is_full
        if full or (self._schedule is not None and self._schedule.is_due()):
            self.save()

    def save(self) -> None:
        """Write a checkpoint, unless the last one is still true, or a batch is half learnt."""
        if self.folder is None or self._is_saved or not self.run.is_between_batches:
            return
        started = time.perf_counter()
        self.folder.checkpoint(self.run, self.stream.bookmark(), seconds=self.seconds)
        self._is_saved = True
        if self._schedule is not None:
            self._schedule.written(time.perf_counter() - started)

    def _seen(self, step: Step, began: float, n_before: int) -> dict[str, Any]:
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
        }


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
