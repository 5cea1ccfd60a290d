"""The two ways in which every experiment is run, and what one run of them records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np

from fires import FIRES
from fires.core.belief import Floats
from fires.core.errors import Diverged
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step
from fires.streams.base import Stream

if TYPE_CHECKING:
    from fires.bench.results import Record
    from fires.models import NeuralNet, SoftTree
    from fires.models.base import BaseModel
    from fires.predictors.base import Predictor
    from fires.selectors.base import OnlineSelector


class Protocol(NamedTuple):
    """How a stream is scaled and used, and how FIRES is set up for it."""

    order: str
    scaled_before: Literal["online", "as-published"]
    scaled_while: str | None
    make_fires: Callable[..., FIRES]
    make_model: Callable[[type[NeuralNet] | type[SoftTree]], BaseModel]
    about: str


# "honest" is what files of results, and options, call the order test-then-train.
AS_PUBLISHED, TEST_THEN_TRAIN = "as-published", "honest"
PROTOCOLS: Mapping[str, Protocol] = {
    AS_PUBLISHED: Protocol(
        order="as-published",
        scaled_before="as-published",
        scaled_while=None,
        make_fires=FIRES.as_published,
        make_model=lambda kind: kind.as_published(),
        about="As published: each column scaled to [0, 1] over the whole set beforehand, "
        "and the selector sees a batch, with its labels, before the batch is tested.",
    ),
    TEST_THEN_TRAIN: Protocol(
        order="test-then-train",
        scaled_before="online",
        scaled_while="minmax",
        make_fires=partial(FIRES, update="gradient", score="omega"),
        make_model=lambda kind: kind(),
        about="Honest: scaled to [0, 1] by what the batches before have shown, and each batch "
        "tested before anything is learnt from it. FIRES learns by gradient, as in the paper, but "
        "standardises and learns an intercept, and its nets and trees are in the scaled form of "
        "docs/models.md.",
    ),
}
WINDOW = 10  # sets that make up a stability, as in the paper
_SERIES = ("seen", "accuracy", "stability")


@dataclass(frozen=True, eq=False)
class Run:
    """What a method did over time: one entry per step."""

    seen: Floats
    accuracy: Floats
    stability: Floats
    diverged_at: int | None = None
    seconds: Floats | None = None

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """The run whose records these are, up to where the method ceases to be finite."""
        found, seen, diverged_at = [], 0, None
        try:
            for step in steps:
                seen = step.position.rows
                seconds = step.seconds_select, step.seconds_train
                found.append((seen, step.scores["accuracy"], step.stability, *seconds))
        except Diverged:
            diverged_at = seen
        rows, accuracy, stability, *times = np.array(found, dtype=np.float64).reshape(-1, 5).T
        return cls(rows, accuracy, stability, diverged_at, np.array(times))

    def as_record(self) -> Record:
        """The run as JSON values: NaN is None, and only a run that diverged says where."""
        series = {name: getattr(self, name).tolist() for name in _SERIES}
        plain = {name: [None if v != v else v for v in values] for name, values in series.items()}
        return plain | ({} if self.diverged_at is None else {"diverged_at": self.diverged_at})

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The run of :meth:`as_record`."""
        seen, accuracy, stability = (np.array(record[n], dtype=np.float64) for n in _SERIES)
        return cls(seen, accuracy, stability, record.get("diverged_at"))


def run_of(
    stream: Stream, selector: OnlineSelector, predictor: Predictor, batch_size: int, protocol: str
) -> Run:
    """Run a selector and a predictor over a stream."""
    way = PROTOCOLS[protocol]
    steps = prequential(
        stream,
        selector,
        predictor,
        batch_size=batch_size,
        order=way.order,
        preprocess=way.scaled_while,
        window=WINDOW,
    )
    return Run.of(steps)
