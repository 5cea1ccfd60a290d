"""The records of some batches as arrays, read from lines of ``steps.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.report.following import Follower
from fires.report.spans import Numbers, Whole

if TYPE_CHECKING:
    import polars as pl

SELECTED = "selected"
"""Whose scores are those of the pipeline, beside the baselines."""

SCORES = ("accuracy", "r2", "mae")
"""Scores that are read of each batch: the first is shown over time. If there is none of them, it is
the first that there is."""


@dataclass(frozen=True)
class Known:
    """Importances that were written down with some of the batches."""

    batches: Whole
    places: Whole
    importance: Numbers
    uncertainty: Numbers


class StepBlock:
    """Records that follow each other."""

    def __init__(
        self, frame: pl.DataFrame, who: Iterable[str] = (), score_names: Iterable[str] = ()
    ) -> None:
        self._frame, self.who, self.score_names = frame, tuple(who), tuple(score_names)
        self.last = int(frame["index"][-1])
        self.rows: Whole = frame["rows"].to_numpy()
        self.n_rows: Numbers = frame["n_rows"].to_numpy().astype(np.float64)
        self.stability = _numbers(frame["stability"])
        self.seconds = _numbers(frame["seconds_select"]) + _numbers(frame["seconds_train"])
        self.n_waited = int(frame["waited"].sum())
        self.n_present = _numbers(frame["present"])
        missing = frame["missing"].drop_nulls()
        self.n_missing = int(missing[-1]) if len(missing) else None

    def __len__(self) -> int:
        return len(self._frame)

    @cached_property
    def scores(self) -> dict[tuple[str, str], Numbers]:
        """Of each one who predicts, and each score that is shown: a number for each batch."""
        found = {}
        who = {SELECTED: self._frame["scores"]}
        if "baselines" in self._frame.columns:
            baselines = self._frame["baselines"].struct
            who |= {name: baselines.field(name) for name in baselines.fields}
        for name, of in who.items():
            for score in of.struct.fields:
                found[name, score] = _numbers(of.struct.field(score))
        return found

    @cached_property
    def changed(self) -> Whole:
        """The batches after which another set was selected, counted from the first of the block."""
        return np.flatnonzero(self._frame["came"].is_not_null().to_numpy())

    @cached_property
    def starts(self) -> Whole:
        """The first batch of the block, and those that changed the set."""
        return np.union1d(0, self.changed)

    @cached_property
    def sets(self) -> list[Whole]:
        """The set that is selected after each of :attr:`starts`."""
        return _arrays(self._frame["selected"].gather(self.starts))

    @property
    def n_places(self) -> int:
        """One more than the last place that is told of."""
        told = [*self.sets, *self.came, self.known.places]
        told.append(np.array([at for one in self.alarms if (at := one["feature"]) is not None]))
        places = np.concatenate(told)
        if len(places) and places.min() < 0:
            raise ValueError("there is no feature of a negative number")
        return 1 + int(places.max(initial=-1))

    @cached_property
    def came(self) -> list[Whole]:
        """The features that came with each of :attr:`changed`."""
        return _arrays(self._frame["came"].gather(self.changed))

    @cached_property
    def known(self) -> Known:
        """The importances that were written down."""
        names = ("selected", "importance", "uncertainty")
        is_known = self._frame["importance"].list.len().fill_null(0) > 0
        places, *numbers = (self._frame[name].filter(is_known) for name in names)
        return Known(
            np.repeat(np.flatnonzero(is_known.to_numpy()), places.list.len().to_numpy()),
            places.explode().to_numpy(),
            *(_numbers(of.explode()) for of in numbers),
        )

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """What was noticed, in order."""
        return [alarm for alarms in self._frame["alarms"].drop_nulls() for alarm in alarms]


def read_block(follower: Follower, block: bytes) -> StepBlock:
    """Read some lines."""
    import polars as pl

    places, numbers = pl.List(pl.Int64), pl.List(pl.Float64)
    whole, number = pl.Int64, pl.Float64
    alarm = {"row": whole, "batch": whole, "feature": whole, "strength": number}
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        "index": whole,
        "rows": whole,
        "n_rows": whole,
        "stability": number,
        "seconds_select": number,
        "seconds_train": number,
        "missing": whole,
        "present": whole,
        "waited": pl.Boolean,
        "selected": places,
        "came": places,
        "importance": numbers,
        "uncertainty": numbers,
        "alarms": pl.List(pl.Struct(alarm)),
    }
    # Which scores and baselines there are differs from run to run, and hardly within one.
    scores: dict[str, None] = {}
    baselines: dict[str, None] = {}
    for line in (block[: block.find(b"\n")], block[block.rfind(b"\n", 0, -1) + 1 :]):
        with suppress(
            ValueError, LookupError, TypeError, RecursionError
        ):  # parsed tells which line is damaged
            record = json.loads(line)
            scores |= dict.fromkeys(record["scores"])
            baselines |= dict.fromkeys(record.get("baselines", ()))
    known = [name for name in SCORES if name in scores] or list(scores)[:1]
    shown = pl.Struct(dict.fromkeys(known, number))
    schema["scores"] = shown
    if baselines:
        schema["baselines"] = pl.Struct(dict.fromkeys(baselines, shown))
    frame = follower.parsed(block, schema, "rows")
    return StepBlock(frame, (SELECTED, *baselines), scores)


def _numbers(series: pl.Series) -> Numbers:
    """Floats, with NaN for null."""
    numbers: Numbers = series.to_numpy()
    return numbers


def _arrays(lists: pl.Series) -> list[Whole]:
    """Lists as arrays."""
    lengths = lists.list.len()
    flat = lists.filter(lengths > 0).explode().to_numpy().astype(np.int64)
    ends = np.cumsum(lengths.to_numpy())
    return [flat[end - n : end] for end, n in zip(ends.tolist(), lengths.to_list(), strict=True)]
