"""What the records of a run add up to: read as they come, in memory that does not grow.

Series and members are kept in few spans of batches, whatever their number: whenever there are too
many spans, each two that follow each other become one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import polars.selectors as cs

from fires.core.types import Floats, Ints
from fires.metrics.stability import stability_interval
from fires.report.reading import SCORES, SELECTED
from fires.run.records import Latencies

N_SPANS, N_MEMBER_SPANS = 256, 200
_MOST_FEATURES = 2_000  # of a span
_MOST_ALARMS = 200
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows
_WINDOW = 10
"""How many of the last sets a stability is of. A set that stays as many batches has settled."""
_SETTLED_KEPT = 20
INTERVAL = ("last stability", "last low", "last high")
"""The stability at the end of a span, and the ends of its 95 % interval."""
_WAYS = {"sum": pl.Expr.sum, "min": pl.Expr.min, "max": pl.Expr.max, "last": pl.Expr.last}
_OF_MEMBERS = ("last rows", "sum times", "sum importance", "sum known")


class Spans:
    """Batches in few spans of equal width, a power of two; the last one may have fewer.

    ``batch`` is the first of a span. The name of any other column begins with what makes one number
    of several: sum, min, max or last.
    """

    def __init__(self, most: int, columns: Sequence[str] = (), by: Sequence[str] = ()) -> None:
        self._most, self._by, self.width = most, by, 1
        self.frame = pl.DataFrame(schema=dict.fromkeys(("batch", *by, *columns), pl.Int64))

    def reserve(self, n_batches: int) -> None:
        """Have room for so many batches in all."""
        if n_batches > self.width * self._most:
            while n_batches > self.width * self._most:
                self.width *= 2
            self.frame = self._joined(self.frame)

    def add(self, frame: pl.DataFrame) -> None:
        """Add the next batches."""
        begin = int(frame["batch"][0]) // self.width * self.width
        done, last = (
            self.frame.filter((pl.col("batch") < begin) == is_done) for is_done in (True, False)
        )
        added = self._joined(pl.concat([last, frame], how="diagonal_relaxed"))
        self.frame = pl.concat([done, added], how="diagonal_relaxed")

    def _joined(self, frame: pl.DataFrame) -> pl.DataFrame:
        begin = pl.col("batch") // self.width * self.width
        found = frame.group_by(begin, *self._by, maintain_order=True).agg(
            way(cs.starts_with(f"{name} ").as_expr()) for name, way in _WAYS.items()
        )
        if self._by and len(found) > _MOST_FEATURES:
            rank = pl.col("sum times").rank("ordinal", descending=True).over("batch")
            found = found.filter(pl.col("place").is_null() | (rank <= _MOST_FEATURES))
        return found

    def column(self, name: str) -> Floats:
        """A column, with NaN where there is nothing."""
        column = self.frame.get_column(name, default=None)
        found = np.nan if column is None else column.cast(pl.Float64).to_numpy()
        return np.full(len(self.frame), found)

    @property
    def rows(self) -> list[int]:
        """The rows up to the end of each span."""
        return list(map(int, self.column("last rows")))

    def extent(self, name: str) -> Floats:
        """Mean, least and greatest value of a series in each span; NaN where there is none."""
        total, n, low, high = (self.column(f"{of} {name}") for of in ("sum", "sum n", "min", "max"))
        with np.errstate(invalid="ignore"):
            return np.array([total / n, low, high])

    def total(self, name: str) -> float:
        """The mean of a series over all batches; NaN if there is none."""
        total, n = (np.nansum(self.column(f"{of} {name}")) for of in ("sum", "sum n"))
        return float(total / n) if n else np.nan


class Stay(NamedTuple):
    """A set that was selected for some batches."""

    batch: int
    row: int
    features: Ints


class Records:
    """What is known of all batches so far."""

    def __init__(self, n_features: int) -> None:
        self.n_batches = self.n_rows = self.n_waited = self.n_missing = 0
        self.n_alarms = self.n_changes = self._n_read = 0
        self.score_names: dict[str, None] = {}
        self.who: dict[str, None] = {}
        self.series, self.members = Spans(N_SPANS), Spans(N_MEMBER_SPANS, _OF_MEMBERS, ["place"])
        # Of each feature: in how many sets it was, since which row, and how many alarms it raised.
        self.times, self.since, self.alarms_of = np.zeros((3, n_features), dtype=np.int64)
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_MOST_ALARMS)
        self.latencies = Latencies()
        self.known: tuple[int, Ints, Floats, Floats] | None = None
        """The last batch whose importances were written down, and these."""
        self._recent: list[Stay] = []  # those of the last ten sets
        self._settled: list[Stay] = []  # the last ones that have lasted, each another set

    @property
    def now(self) -> Stay:
        """The set that is selected now."""
        return self._recent[-1] if self._recent else Stay(0, 0, np.empty(0, dtype=np.int64))

    @property
    def selected(self) -> Ints:
        """The features that are selected now."""
        return self.now.features

    @property
    def settled(self) -> list[Stay]:
        """The last sets that have lasted, each another one than the one before it."""
        return _settled(self._settled, [*self._recent, Stay(self._n_read, 0, self.now.features)])

    @property
    def score(self) -> str | None:
        """The score that is shown over time."""
        return next(
            (name for name in (*SCORES, *self.score_names) if name in self.score_names), None
        )

    def total(self, who: str, score: str) -> float:
        """The mean over all rows, of scores for which that is exact; NaN for others."""
        return self.series.total(f"{who} {score}") if score in _MEANS else np.nan

    def shares(self, places: Ints) -> tuple[list[int], Floats, Floats]:
        """The rows of spans; of some features, the share of each span and the mean importance."""
        frame, place = self.members.frame, pl.col("place")
        spans, some = frame.filter(place.is_null()), frame.filter(place.is_in(places.tolist()))
        begins, order = spans["batch"].to_numpy(), np.argsort(places)
        lines = order[np.searchsorted(places, some["place"].to_numpy(), sorter=order)]
        found = np.zeros((3, len(places), len(spans)))
        sums = some.select(cs.starts_with("sum ")).to_numpy()
        found[:, lines, np.searchsorted(begins, some["batch"].to_numpy())] = sums.T
        share = found[0] / np.diff(np.append(begins, self._n_read))
        with np.errstate(invalid="ignore"):
            return spans["last rows"].to_list(), share, found[1] / found[2]

    def grow(self, n_features: int) -> None:
        """Have room for more features: where columns come and go, there will be more."""
        more = (0, max(n_features - len(self.times), 0))
        self.times, self.since, self.alarms_of = (
            np.pad(of, more) for of in (self.times, self.since, self.alarms_of)
        )

    def add(self, frame: pl.DataFrame, score_names: Collection[str]) -> None:
        """Add the next batches, as :func:`fires.report.reading.read_block` gives them."""
        first, end = self._n_read, self._n_read + len(frame)
        frame = frame.with_columns(batch=pl.int_range(first, end, dtype=pl.Int64))
        last, rows = int(frame["index"][-1]), int(frame["rows"][-1])
        for spans in (self.series, self.members):
            spans.reserve(end)
        self._add_members(frame, first, end)
        # Nothing has changed up to here if they are damaged.
        self.n_batches, self.n_rows = last + 1, rows  # also of those whose records are lost
        self._n_read = end
        self.n_waited += int(frame["waited"].sum())
        self.n_missing = [self.n_missing, *frame["missing"].drop_nulls()][-1]
        self.score_names |= dict.fromkeys(score_names)
        self.latencies.add((frame["seconds_select"] + frame["seconds_train"]).to_numpy())
        alarms = [one for alarms in frame["alarms"].drop_nulls() for one in alarms]
        self.n_alarms += len(alarms)
        self.alarms += alarms
        told = [alarm["feature"] for alarm in alarms if alarm["feature"] is not None]
        np.add.at(self.alarms_of, np.array(told, dtype=np.int64), 1)
        self._add_series(frame, self._add_stays(frame, first))

    def _add_members(self, frame: pl.DataFrame, first: int, end: int) -> None:
        """Who was selected for how long, and the importances that were written down."""
        batch, changed = pl.col("batch"), pl.col("came").is_not_null()
        sets = frame.filter(changed | (batch % self.members.width == 0) | (batch == first))
        lasts = np.diff(np.append(sets["batch"].to_numpy(), end))
        sets = sets.select(batch, pl.col("selected").alias("place"), pl.Series("sum times", lasts))
        sets = sets.explode("place")
        importance = pl.col("importance")
        known = frame.filter(importance.list.len() > 0)
        names = ("selected", "importance", "uncertainty")
        each = known.select(batch, *names).explode(names)
        np.add.at(self.times, sets["place"].to_numpy(), sets["sum times"].to_numpy())
        if len(known):
            last = each.filter(batch == known["batch"][-1])
            numbers = last["importance"].to_numpy(), last["uncertainty"].to_numpy()
            self.known = int(known["index"][-1]), last["selected"].to_numpy(), *numbers
        sums = importance.alias("sum importance"), importance.is_not_null().alias("sum known")
        each = each.select(batch, pl.col("selected").alias("place"), *sums)
        rows = frame.select(batch, pl.col("rows").alias("last rows"))
        self.members.add(pl.concat([rows, sets, each], how="diagonal"))

    def _add_stays(self, frame: pl.DataFrame, first: int) -> Floats:
        """The sets that were selected; gives the stability at the end of each span."""
        came = frame.select("rows", "came").drop_nulls().explode("came").drop_nulls()
        self.since[came["came"].to_numpy()] = came["rows"].to_numpy()
        is_new = pl.col("came").is_not_null() | (pl.col("batch") == 0)
        new = frame.filter(is_new).select("batch", "rows", "selected")
        self.n_changes += int((new["batch"] > 0).sum())
        for batch, row, places in new.iter_rows():
            self._recent.append(Stay(batch, row, np.array(places, dtype=np.int64)))
        self._settled = _settled(self._settled, self._recent)
        # Where columns come and go, each record tells how many there were.
        n_features = frame["present"].fill_null(len(self.times)).to_numpy()
        ends = np.arange(first + 1, self._n_read + 1)
        begins = np.array([stay.batch for stay in self._recent])
        intervals = np.full((len(frame), 3), np.nan)
        for end in ends[(ends % self.series.width == 0) | (ends == self._n_read)].tolist():
            window = np.searchsorted(begins, np.arange(max(end - _WINDOW, 0), end), "right") - 1
            sets = [self._recent[at].features for at in window.tolist()]
            intervals[end - first - 1] = _interval(sets, int(n_features[end - first - 1]))
        old = int(np.sum(begins <= self._n_read - _WINDOW))
        del self._recent[: max(old - 1, 0)]
        return intervals

    def _add_series(self, frame: pl.DataFrame, intervals: Floats) -> None:
        """Scores, stability and seconds of each batch."""
        scores = {SELECTED: pl.col("scores")}
        if "baselines" in frame.columns:
            others = frame["baselines"].struct.fields
            scores |= {who: pl.col("baselines").struct.field(who) for who in others}
        self.who |= dict.fromkeys(scores)
        series = {
            f"{who} {score}": (of.struct.field(score), pl.col("n_rows"))
            for who, of in scores.items()
            for score in frame["scores"].struct.fields
        }
        seconds = pl.col("seconds_select") + pl.col("seconds_train")
        series |= {"stability": (pl.col("stability"), pl.lit(1)), "seconds": (seconds, pl.lit(1))}
        columns = [
            pl.col("batch"),
            pl.col("rows").alias("last rows"),
            *map(pl.Series, INTERVAL, intervals.T),
        ]
        for name, (value, weight) in series.items():
            columns += [
                (value * weight).alias(f"sum {name}"),
                (value.is_not_null() * weight).alias(f"sum n {name}"),
                value.alias(f"min {name}"),
                value.alias(f"max {name}"),
            ]
        self.series.add(frame.select(columns))


def _interval(sets: Sequence[Ints], n_features: int) -> tuple[float, float, float]:
    """The stability of some sets, and the ends of its 95 % interval."""
    is_one = len(sets) > 1 and len(set(map(id, sets))) == 1
    if is_one and 0 < len(sets[0]) < n_features:
        return 1.0, 1.0, 1.0  # nearly always, and at no cost
    # Only how many there are beside the selected ones matters, not which.
    each, where = np.unique(np.concatenate(sets), return_inverse=True)
    masks = np.zeros((len(sets), max(n_features, len(each))), dtype=bool)
    masks[np.repeat(np.arange(len(sets)), list(map(len, sets))), where] = True
    value, _, low, high = stability_interval(masks)
    return value, low, high


def _settled(before: list[Stay], stays: list[Stay]) -> list[Stay]:
    """The last sets that lasted, with those of some, each of which ends where the next begins."""
    found = list(before)
    for stay, then in pairwise(stays):
        if then.batch - stay.batch >= _WINDOW and not (
            found and np.array_equal(found[-1].features, stay.features)
        ):
            found.append(stay)
    return found[-_SETTLED_KEPT:]
