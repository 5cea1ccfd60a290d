"""What the records of a run add up to: read as they come, in memory that does not grow.

Series, members and windows are kept in few spans of batches, whatever their number: whenever there
are too many spans, each two that follow each other become one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, reduce
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from fires.core.types import Floats, Ints
from fires.metrics.stability import stability_interval
from fires.report.reading import SCORES, Known, StepBlock
from fires.run.records import Latencies

N_SPANS, N_MEMBER_SPANS = 256, 200
_MOST_FEATURES = 2_000  # of a span
_MOST_ALARMS = 200
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows
_WINDOW = 10
"""How many of the last sets a stability is of. A set that stays as many batches has settled."""
_SETTLED_KEPT = 20

Span = TypeVar("Span")


class Spans(Generic[Span]):
    """Batches in few spans of equal width, a power of two; the last one may have fewer."""

    def __init__(self, most: int, then: Callable[[Span, Span], Span]) -> None:
        self._most, self._then = most, then  # what makes one span of two that follow each other
        self.n_batches, self.width = 0, 1
        self.spans: list[Span] = []

    def add(self, n_batches: int, pieces: Callable[[list[int]], Iterable[Span]]) -> None:
        """Add the next batches; ``pieces`` makes spans of those between each two of some cuts."""
        first, self.n_batches = self.n_batches, self.n_batches + n_batches
        while self.n_batches > self.width * self._most:
            self.width *= 2
            pairs = (self.spans[at : at + 2] for at in range(0, len(self.spans), 2))
            self.spans = [reduce(self._then, pair) for pair in pairs]
        borders = range(-first % self.width or self.width, n_batches, self.width)
        added = list(pieces([0, *borders, n_batches]))
        if first % self.width:  # the last one was not at its end
            added[0] = self._then(self.spans.pop(), added[0])
        self.spans += added


# --- series of numbers ---------------------------------------------------------------------------


class SeriesSpan(NamedTuple):
    """Sum, weight, least and greatest of each of some series."""

    row: int
    series: dict[str, Floats]

    def then(self, later: SeriesSpan) -> SeriesSpan:
        """One span of this one and the next."""
        joined = self.series | later.series
        for name in self.series.keys() & later.series.keys():
            one, two = self.series[name], later.series[name]
            ends = np.fmin(one[2], two[2]), np.fmax(one[3], two[3])
            joined[name] = np.array([*one[:2] + two[:2], *ends])
        return SeriesSpan(later.row, joined)


class Series(Spans[SeriesSpan]):
    """Means, least and greatest values of some series of numbers, one for each batch."""

    def __init__(self, most: int) -> None:
        super().__init__(most, SeriesSpan.then)

    def add_series(self, rows: Ints, series: dict[str, tuple[Floats, Floats]]) -> None:
        """Add the next batches: of each series its values, and how much each counts."""
        values, weights = np.array(list(series.values())).transpose(1, 0, 2)
        counted = np.where(np.isnan(values), 0.0, weights)
        sums = np.nan_to_num(values) * counted

        def pieces(cuts: list[int]) -> Iterator[SeriesSpan]:
            # fmin and fmax leave out NaN.
            ways = (np.add, sums), (np.add, counted), (np.fmin, values), (np.fmax, values)
            extents = np.array([way.reduceat(of, cuts[:-1], axis=1) for way, of in ways])
            for end, extent in zip(cuts[1:], extents.transpose(2, 1, 0), strict=True):
                yield SeriesSpan(int(rows[end - 1]), dict(zip(series, extent, strict=True)))

        self.add(len(rows), pieces)

    @property
    def rows(self) -> list[int]:
        """The rows up to the end of each span."""
        return [span.row for span in self.spans]

    def extent(self, name: str) -> Floats:
        """Mean, least and greatest value of a series in each span; NaN where there is none."""
        nothing = np.array([0.0, 0.0, np.nan, np.nan])
        found = np.array([span.series.get(name, nothing) for span in self.spans]).reshape(-1, 4)
        return np.array([_quotient(found[:, 0], found[:, 1]), found[:, 2], found[:, 3]])

    def total(self, name: str) -> float:
        """The mean of a series over all batches; NaN if there is none."""
        found = [span.series[name][:2] for span in self.spans if name in span.series]
        return float(_quotient(*np.sum([np.zeros(2), *found], axis=0)))


def _quotient(sums: Floats, weights: Floats) -> Floats:
    quotient: Floats = np.full(np.shape(sums), np.nan)
    np.divide(sums, weights, out=quotient, where=weights > 0.0)
    return quotient


# --- the selected set ----------------------------------------------------------------------------


class MemberSpan(NamedTuple):
    """How often features were selected in some batches, and the sum of what is known of them."""

    n_batches: int
    row: int
    places: Ints
    sums: Floats
    """Of each feature: times selected, sum of importances, and how many these were."""

    def then(self, later: MemberSpan) -> MemberSpan:
        """One span of this one and the next."""
        n_batches = self.n_batches + later.n_batches
        places, sums = np.append(self.places, later.places), np.hstack([self.sums, later.sums])
        return _member_span(n_batches, later.row, places, sums)


def _member_span(n_batches: int, row: int, places: Ints, sums: Floats) -> MemberSpan:
    """A span of features that may be named several times: that adds up."""
    each, which = np.unique(places, return_inverse=True)
    total = np.array([np.bincount(which, of, len(each)) for of in sums])
    if len(each) > _MOST_FEATURES:
        most = np.sort(np.argsort(-total[0], kind="stable")[:_MOST_FEATURES])
        each, total = each[most], total[:, most]
    return MemberSpan(n_batches, row, each, total)


class Members(Spans[MemberSpan]):
    """The selected set over time."""

    def __init__(self, most: int) -> None:
        super().__init__(most, MemberSpan.then)

    def add_block(self, block: StepBlock) -> None:
        """Add the next batches."""

        def piece(begin: int, end: int) -> MemberSpan:
            first = int(np.searchsorted(block.starts, begin, "right")) - 1
            some = slice(first, int(np.searchsorted(block.starts, end)))
            here = block.sets[some]
            lasts = np.diff(np.clip(np.append(block.starts[some], end), begin, end))
            known = slice(*np.searchsorted(block.known.batches, [begin, end]).tolist())
            importance = block.known.importance[known]
            n_named = sum(map(len, here))
            sums = np.zeros((3, n_named + len(importance)))
            sums[0, :n_named] = np.repeat(lasts, [len(one) for one in here])
            sums[1:, n_named:] = np.nan_to_num(importance), ~np.isnan(importance)
            places = np.concatenate([*here, block.known.places[known]])
            return _member_span(end - begin, int(block.rows[end - 1]), places, sums)

        self.add(block.n_batches, lambda cuts: map(piece, cuts[:-1], cuts[1:]))

    def shares(self, places: Ints) -> tuple[Floats, Floats]:
        """Of some features, a row each: the share of each span, and the mean importance."""
        found = np.zeros((3, len(places), len(self.spans)))
        for j, span in enumerate(self.spans):
            _, mine, its = np.intersect1d(places, span.places, True, return_indices=True)
            found[:, mine, j] = span.sums[:, its]
            found[0, :, j] /= span.n_batches
        return found[0], _quotient(found[1], found[2])


class Stay(NamedTuple):
    """A set that was selected for some batches."""

    batch: int
    row: int
    features: Ints


class Window:
    """The last ten sets at the end of a span, and of how many features they are."""

    def __init__(self, sets: Sequence[Ints], n_features: int) -> None:
        self._sets, self._n_features = sets, n_features

    @cached_property
    def interval(self) -> tuple[float, float, float]:
        """Their stability, and the ends of its 95 % interval."""
        sets, n_features = self._sets, self._n_features
        is_one = len(sets) > 1 and len({id(one) for one in sets}) == 1
        if is_one and 0 < len(sets[0]) < n_features:
            return 1.0, 1.0, 1.0  # nearly always, and at no cost
        # Only how many there are beside the selected ones matters, not which.
        each, where = np.unique(np.concatenate(sets), return_inverse=True)
        masks = np.zeros((len(sets), max(n_features, len(each))), dtype=bool)
        masks[np.repeat(np.arange(len(sets)), list(map(len, sets))), where] = True
        value, _, low, high = stability_interval(masks)
        return value, low, high


class Stays:
    """How long sets of features stay selected: who came when, what lasted, how stable it was."""

    def __init__(self, n_features: int, most: int) -> None:
        self.n_changes = 0
        self.times = np.zeros(n_features, dtype=np.int64)
        self.since = np.zeros(n_features, dtype=np.int64)
        self._recent: list[Stay] = []  # those of the last ten sets
        self._settled: list[Stay] = []  # the last ones that have lasted, each another set
        self.windows: Spans[Window] = Spans(most, lambda _, later: later)

    @property
    def now(self) -> Stay:
        """The set that is selected now."""
        return self._recent[-1] if self._recent else Stay(0, 0, np.empty(0, dtype=np.int64))

    @property
    def settled(self) -> list[Stay]:
        """The last sets that have lasted, each another one than the one before it."""
        return _settled(self._settled, self._recent, self.windows.n_batches)

    def add_block(self, block: StepBlock) -> None:
        """Add the next batches."""
        first = self.windows.n_batches
        lasts = np.diff(np.append(block.starts, block.n_batches))
        n_each = list(map(len, block.sets))
        np.add.at(self.times, np.concatenate(block.sets), np.repeat(lasts, n_each))
        self.n_changes += int((block.changed + first > 0).sum())
        for at, came in zip(block.changed.tolist(), block.came, strict=True):
            self.since[came] = block.rows[at]
        is_new = np.isin(block.starts, block.changed)
        is_new[0] |= not self._recent
        for place in np.flatnonzero(is_new).tolist():
            at = int(block.starts[place])
            self._settled = _settled(self._settled, self._recent, first + at)
            self._recent.append(Stay(first + at, int(block.rows[at]), block.sets[place]))
        # Where columns come and go, each record tells how many there were.
        counts = np.where(np.isnan(block.n_present), len(self.times), block.n_present)
        begins = np.array([stay.batch for stay in self._recent])

        def window(end: int) -> Window:
            some = np.arange(max(first + end - _WINDOW, 0), first + end)
            which = np.searchsorted(begins, some, "right") - 1
            return Window([self._recent[at].features for at in which], int(counts[end - 1]))

        self.windows.add(block.n_batches, lambda cuts: map(window, cuts[1:]))
        old = int(np.sum(begins <= self.windows.n_batches - _WINDOW))
        del self._recent[: max(old - 1, 0)]

    def intervals(self) -> Floats:
        """The stability at the end of each span, and the ends of its 95 % interval."""
        return np.array([span.interval for span in self.windows.spans]).reshape(-1, 3)


def _settled(before: list[Stay], stays: Sequence[Stay], until: int) -> list[Stay]:
    """The last sets that lasted, with the last of some, which was selected until some batch."""
    if not stays or until - stays[-1].batch < _WINDOW:
        return before
    if before and np.array_equal(before[-1].features, stays[-1].features):
        return before
    return [*before[1 - _SETTLED_KEPT :], stays[-1]]


# --- all of it -----------------------------------------------------------------------------------


class Records:
    """What is known of all batches so far."""

    def __init__(self, n_features: int) -> None:
        self.n_batches = self.n_rows = self.n_waited = self.n_missing = self.n_alarms = 0
        self.series = Series(N_SPANS)
        self.score_names: dict[str, None] = {}
        self.who: dict[str, None] = {}
        self.members = Members(N_MEMBER_SPANS)
        self.stays = Stays(n_features, N_SPANS)
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_MOST_ALARMS)
        self.alarms_of = np.zeros(n_features, dtype=np.int64)
        self.latencies = Latencies()
        self.known: tuple[int, Known] | None = None
        """The last batch whose importances were written down, and these."""

    @property
    def selected(self) -> Ints:
        """The features that are selected now."""
        return self.stays.now.features

    @property
    def score(self) -> str | None:
        """The score that is shown over time."""
        return next(
            (name for name in (*SCORES, *self.score_names) if name in self.score_names), None
        )

    def total(self, who: str, score: str) -> float:
        """The mean over all rows, of scores for which that is exact; NaN for others."""
        return self.series.total(f"{who} {score}") if score in _MEANS else np.nan

    def grow(self, n_features: int) -> None:
        """Have room for more features: where columns come and go, there will be more."""
        more = (0, n_features - len(self.alarms_of))
        self.alarms_of, stays = np.pad(self.alarms_of, more), self.stays
        stays.times, stays.since = np.pad(stays.times, more), np.pad(stays.since, more)

    def add(self, block: StepBlock) -> None:
        """Add the next batches."""
        if block.n_places > len(self.alarms_of):
            self.grow(block.n_places)
        if len(block.known.batches):
            batch = block.known.batches[-1]
            last = block.known.batches == batch
            self.known = self.n_batches + int(batch), Known(*(of[last] for of in block.known))
        self.n_batches = block.last + 1  # also of those whose records are lost
        self.n_rows = int(block.rows[-1])
        self.n_waited += block.n_waited
        self.n_missing = self.n_missing if block.n_missing is None else block.n_missing
        self.who |= dict.fromkeys(block.who)
        self.score_names |= dict.fromkeys(block.score_names)
        self.latencies.add_all(block.seconds)
        each = np.ones(block.n_batches)
        series = {name: (values, block.n_rows) for name, values in block.scores.items()}
        series |= {"stability": (block.stability, each), "seconds": (block.seconds, each)}
        self.series.add_series(block.rows, series)
        self.members.add_block(block)
        self.stays.add_block(block)
        self._add_alarms(block.alarms)

    def _add_alarms(self, alarms: Iterable[dict[str, Any]]) -> None:
        for alarm in alarms:
            self.n_alarms += 1
            self.alarms.append(alarm)
            if alarm["feature"] is not None:
                self.alarms_of[alarm["feature"]] += 1
