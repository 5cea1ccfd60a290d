"""A run whose rows are on a cluster: what learns on the driver, and what is written down of it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from fires.core import files
from fires.core.errors import InputError
from fires.core.types import Header, JsonObject
from fires.core.version import first_facts
from fires.evaluation.records import Step
from fires.integrations.spark.engine import MicroBatch, NoRows, completed
from fires.integrations.spark.rows import Layout
from fires.integrations.spark.store import HadoopStore
from fires.pipeline import OnlinePipeline
from fires.run.folder import RunFolder, refuse_one_class
from fires.run.run import Checkpoint, Run, newest_checkpoint
from fires.run.saved import known_before
from fires.run.sharded_scoring import ShardedTest
from fires.selectors.fires import FIRES
from fires.selectors.sharded import partial_fit_sharded
from fires.streams.base import Position

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_MODELS = ("auto", "probit", "logistic", "gaussian", "poisson")


class SparkRun:
    """A selector that learns from micro-batches on a cluster, with the folder of its run.

    What was learnt and the number of the micro-batch are one file, which is there whole or not at
    all: a checkpoint of the run folder, written after every micro-batch. A micro-batch that comes
    again is known by its number, and skipped. So each one counts once, whenever the driver dies.
    """

    def __init__(
        self,
        selector: FIRES,
        layout: Layout,
        path: Path | None = None,
        *,
        overwrite: bool = False,
        resume: bool | None = None,
        settings: JsonObject,
        options: str | None = None,
        store: HadoopStore | None = None,
    ) -> None:
        self.selector, self.layout, self.store = selector, layout.in_order(selector), store
        self.last, self.n_left_out = -1, 0
        self.cut: dict[str, int] | None = None
        self.run: Run | None = None
        self.error: Exception | None = None
        self.folder: RunFolder | None = None
        self._began = time.perf_counter()
        self._facts = first_facts({"engine": "spark", **settings}, "pyspark", "pyarrow")
        self._facts |= {"predictor": "the belief of the selector", "id": uuid4().hex[:12]}
        if path is None:
            return
        is_checked = resume is True  # whoever says so has seen to it that settings are the same
        if resume is None:
            resume = (path / "run.toml").exists() and not overwrite
        self.folder = RunFolder(path, overwrite=overwrite, resume=resume)
        try:
            saved = None
            if resume:
                saved, _ = newest_checkpoint(self.folder, "spark")
                self._facts |= known_before(path)
            options = options or _options(self._facts["settings"], selector)
            self.folder.begin(options, self._facts)
            if saved is not None:
                if not is_checked:
                    _refuse_other_settings(selector, saved.run.pipeline.selector, path)
                self._go_on(saved, path)
            elif overwrite and store is not None:  # what was there goes before its offsets
                store.publish(path)
        except BaseException:
            self.folder.__exit__()
            raise

    @property
    def names(self) -> tuple[str, ...]:
        """What the features are called."""
        names = self.selector.known_names
        if names is None:
            return tuple(f"x{place}" for place in range(self.selector.n_features_in_))
        return tuple(map(str, names))

    @property
    def goes_on(self) -> bool:
        """Whether it has been here before, on Spark."""
        return self.last >= 0

    def _go_on(self, saved: Checkpoint, path: Path) -> None:
        facts, run = saved.facts, saved.run
        self.selector, self.run, bookmark = run.pipeline.selector, run, facts["bookmark"]
        self.last, self.cut = int(bookmark["spark batch"]), bookmark["cut"]
        self.n_left_out = int(facts["left_out"])
        self.layout = Layout.from_json(facts["layout"], self.layout, str(path))
        run.keep(self.folder, self._at_source, before=facts, began=self._began)
        assert self.folder is not None
        selected = self.selector.get_support(indices=True)
        self.folder.go_on(facts, run.totals, selected, self.names)

    # --- learning ---------------------------------------------------------------------------

    def learn(self, frame: DataFrame, number: int) -> Step | None:
        """Learn from a micro-batch, unless that was done before, and save."""
        if number <= self.last:
            return None
        if not self.goes_on:
            self.layout = completed(frame, self.layout)
        if not self.layout.is_known:  # no rows yet
            return None
        with MicroBatch(frame, self.layout) as batch:
            step = self.take(batch)
        self.last = number
        self.save()
        return step

    def take(self, batch: MicroBatch) -> Step | None:
        """Learn from the rows of a micro-batch."""
        began, layout = time.perf_counter(), self.layout
        fitted = self.selector.is_fitted
        n_alarms = len(self.selector.alarms_) if fitted else 0
        totals = None if self.run is None else self.run.totals
        test = ShardedTest(self.selector, totals, sparse=layout.is_sparse)
        try:
            partial_fit_sharded(
                self.selector,
                test.beside(batch.evaluate),
                n_features=layout.n_features,
                names=None if fitted else layout.names,
                sparse=layout.is_sparse,
            )
        except NoRows:
            return None
        finally:
            self.n_left_out += batch.n_left_out
        if not self.selector.is_fitted:  # all rows had weight 0
            return None
        return self._record(batch.n_rows, time.perf_counter() - began, n_alarms, test)

    def _record(self, n_rows: int, seconds: float, n_alarms: int, test: ShardedTest) -> Step:
        if self.run is None:
            self.run = Run(OnlinePipeline(self.selector, None, None), self.selector.n_features_in_)
            self.run.keep(self.folder, self._at_source, began=self._began)
            if self.folder is not None:
                self.folder.start(self.names)
        self.run.latencies.add(seconds)
        self.run.pipeline.sync()
        totals = self.run.totals
        selected, rows = self.selector.get_support(indices=True), totals.n_rows + n_rows
        step = Step(
            index=totals.n_batches,
            position=Position(rows=rows, offset=rows),
            n_rows=n_rows,
            scores=test.scored(totals),
            selected=selected,
            stability=totals.window.update(selected),
            seconds_select=seconds,
            seconds_train=0.0,
            alarms=tuple(self.selector.alarms_[n_alarms:]),
            baselines={name: one.latest for name, one in totals.baselines.items()},
        )
        totals.add(step)
        self.run.record(step)
        return step

    def _at_source(self) -> Header:
        return {
            "bookmark": {"spark batch": self.last, "cut": self.cut},
            "layout": self.layout.as_json(),
            "left_out": self.n_left_out,
        }

    def save(self) -> None:
        """Write down what was learnt and the number of the micro-batch, in one step."""
        if self.folder is None or self.run is None:
            return
        self.run.checkpoint()
        if self.store is not None:
            self.store.publish(self.folder.path)

    # --- ending -----------------------------------------------------------------------------

    def finish(self, reason: str | None = None, *, all_rows: bool = False) -> None:
        """Write the result, and let go of the folder. Once is enough; more does nothing."""
        folder, self.folder = self.folder, None
        try:
            if all_rows:
                refuse_one_class(self.selector, f'"{self.layout.target}"', folder)
            if self.run is not None and folder is not None:
                self.run.pipeline.sync()
                self.run.finish(self.names, self.facts(reason))
                if self.store is not None:
                    self.store.publish(folder.path)
        finally:
            if folder is not None:
                folder.__exit__()
            if folder is not None and self.store is not None:  # it is kept elsewhere
                files.remove_tree(folder.path)

    def facts(self, reason: str | None = None) -> dict[str, Any]:
        """What is known of the run at its end, for ``run.json``."""
        assert self.run is not None
        more = {"rejected_rows": self.n_left_out, "doubts": [], "rejected_examples": []}
        more |= {"missing_values": self.selector.n_missing_, "target": None}
        return self._facts | self.run.facts(self.names, reason) | more


def _options(settings: JsonObject, selector: FIRES) -> str:
    """The text of ``run.toml``, as far as ``fires select`` has such options."""
    named = {"batch_rows": "batch-size", "weight": "# weight"}
    given = {named.get(name, name): value for name, value in settings.items() if value is not None}
    if selector.model in _MODELS:
        given["model"] = selector.model
    lines = [f"{name} = {json.dumps(value)}" for name, value in given.items()]
    return "\n".join(["# A run on Spark.", *lines]) + "\n"


def _refuse_other_settings(given: FIRES, known: FIRES, path: Path) -> None:
    """Raise an error if a run is to go on with a selector of other settings."""
    before, now = known.get_params(), given.get_params()
    for name, value in before.items():
        if name == "batch_size":  # Spark says how many rows a micro-batch has
            continue
        same = value is now[name] or np.array_equal(np.asarray(value), np.asarray(now[name]))
        if not same and isinstance(value, str | int | float | bool | None):
            raise InputError(
                f"{path} holds a run with {name}={value!r}, and {name}={now[name]!r} is asked for",
                hint="give the same selector, another folder, or overwrite=True",
            )
