"""A run folder as plain numbers: all that its page shows, and nothing that is drawn.

    {"version": 1, "run": {...}, "counts": {...}, "sentence": [...], "now": {...}, ...}

Numbers have four significant digits; what is not known is None. Its size has a bound, whatever the
length of the run and however many features there are. Names are as the run has them: whoever shows
them has to escape them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np

from fires.core.errors import InputError
from fires.core.events import CHANGE, event_rows
from fires.core.files import damaged
from fires.core.types import Floats, Header, Indices, Ints, Mask, Numbers
from fires.report.records import (
    INTERVAL,
    SCORES,
    SELECTED,
    BadRows,
    Facts,
    Follower,
    Records,
    Result,
    Snapshot,
    Snapshots,
    read_block,
    read_result,
    rounded,
    well_formed,
    whole,
)
from fires.run.records import QUARANTINE, STEPS
from fires.run.saved import SavedRun, group_titles, read_names

VERSION = 1
# Text, and between it ``{"feature": name}``.
Sentence: TypeAlias = list[str | dict[str, str]]
_DOUBT = ("column", "kind", "why")
_MOST_PIXELS, _MOST_MEMBERS = 50_000, 60


def summarise(folder: Path) -> Header:
    """Sum up a run.

    Parameters
    ----------
    folder : Path
        The folder that ``fires select --out`` has made. The run may still go on.

    Returns
    -------
    dict
        JSON values; see :meth:`Summary.as_dict`.

    Raises
    ------
    InputError
        If the folder holds no run, or if it is damaged.
    """
    summary = Summary(folder)
    summary.refresh()
    return summary.as_dict()


def folder_of(run: str | os.PathLike[str] | SavedRun, wanted: str) -> Path:
    """The folder of a run, however it is given."""
    if isinstance(run, SavedRun):
        return run.path
    if not isinstance(run, str | os.PathLike):
        raise TypeError(f"{wanted}; got {type(run).__name__}.")
    return Path(run)


def side_by_side(folders: Sequence[Path]) -> list[Summary]:
    """Several runs, with names that tell them apart: ``monday/run`` and ``tuesday/run``."""
    paths = [folder.resolve() for folder in folders]
    names = [path.name for path in paths]
    if len(set(names)) < len(set(paths)):
        top = Path(os.path.commonpath(paths))
        names = [path.relative_to(top).as_posix() for path in paths]
    return list(map(Summary, folders, names))


class Summary:
    """Follows a run, and sums it up whenever it is asked to."""

    def __init__(self, folder: Path, name: str | None = None) -> None:
        self._folder, self._facts = folder, Facts(folder)
        self._name = folder.resolve().name if name is None else name
        self._begin()

    def _begin(self) -> None:
        """Know nothing of the records yet."""
        self._names: list[str] = []
        self._steps = Follower(self._folder / STEPS)
        self._records = Records(0)
        self._snapshots = Snapshots(self._folder)
        self._bad = BadRows(self._folder / QUARANTINE)
        self._result = Result()

    def refresh(self) -> bool:
        """Read what is new in the folder."""
        before = self._facts.known.get("id")
        changed = self._facts.refresh()
        if self._facts.is_gone:  # what was read of it stays
            return changed
        if self._facts.known.get("id") != before or self._steps.is_other() or self._bad.is_other():
            self._begin()
            changed = True
        self._names = self._names or self._read_names()
        if self._names:
            changed |= self._read_records()
        changed |= self._snapshots.refresh() | self._bad.refresh()
        if changed:
            if self._facts.known["settings"].get("columns") == "open":  # others may have come
                self._names = self._read_names() or self._names
            self._records.grow(len(self._names))
            ended = self._facts.has_ended and bool(self._names)
            titles = group_titles(self._facts.known["settings"])
            self._result = read_result(self._folder, self._names, titles) if ended else Result()
        return changed

    def _read_records(self) -> bool:
        changed = False
        with damaged(self._steps.path):
            for lines in self._steps.blocks():
                frame, scores, n_named = read_block(self._steps, lines)
                if n_named > len(self._names):  # names are written before records
                    self._names = self._read_names()
                if n_named > len(self._names):
                    raise InputError(f"{self._folder}: its files belong to different runs")
                self._records.grow(len(self._names))
                self._records.add(frame, scores)
                changed = True
        return changed

    def _read_names(self) -> list[str]:
        try:
            return list(map(well_formed, read_names(self._folder)))
        except FileNotFoundError:
            return []

    # --- what is told ----------------------------------------------------------------------------

    def as_dict(self) -> Header:
        """The summary."""
        records, names, facts = self._records, self._names, self._facts.known
        shots = self._snapshots.until(records.n_batches, len(names))
        features = Features(records, shots, self._result, names)
        above_noise = features.above_noise
        counts = self._counts(above_noise)
        stability, alarms = self._stability(), self._alarms()
        events = event_rows(alarms)
        event = self._replaced(events)
        doubts = facts.get("doubts") or []
        twins = [
            {"feature": doubt["column"], "of": doubt["other"], "why": doubt["why"]}
            for doubt in doubts
            if doubt["kind"] == "copy"
        ]
        twins += [
            {"feature": other, "of": one, "why": "redundant: it adds nothing to the selected ones"}
            for one, others in (facts.get("twins") or {}).items()
            for other in others
        ]
        return {
            "version": VERSION,
            "run": self._facts.as_dict(records.n_batches, records.score_names)
            | {"name": self._name, "shape": self._facts.shape, "intervals": self._has_intervals},
            "counts": counts,
            "sentence": sentence(
                counts,
                self._since(above_noise, event),
                stability["total"],
                has_ended=self._facts.has_ended,
                event=event,
            ),
            "now": features.now(above_noise, intervals=self._has_intervals),
            "rank_before_row": None if features.before is None else features.before.rows,
            "timeline": features.timeline(),
            "members": self._members(features.in_order),
            "ranks": features.ranks(),
            "relations": relations_over_time(shots, facts, records.n_rows),
            "scores": self._scores(),
            "stability": stability,
            "alarms": alarms,
            "events": events,
            "drift": features.drift(),
            "picture": self._picture(features),
            "twins": twins,
            "groups": [
                {"name": column, "features": [names[place] for place in places]}
                for column, places in self._result.groups.items()
            ],
            "doubts": [{name: doubt[name] for name in _DOUBT} for doubt in doubts],
            "health": self._health(),
        }

    @property
    def _has_intervals(self) -> bool:
        if self._result.counts:
            return self._result.above_noise is not None
        return not self._facts.known["settings"].get("as_published")

    def _counts(self, above_noise: Mask | None) -> dict[str, Any]:
        records, facts = self._records, self._facts.known
        n_above = n_both = None
        if above_noise is not None and records.n_batches:
            n_above, n_both = int(above_noise.sum()), int(above_noise[records.selected].sum())
        return {
            "rows": records.n_rows,
            "batches": records.n_batches,
            "features": len(self._names),
            "selected": len(records.selected),
            "above_noise": n_above,
            "significant_selected": n_both,
            "changes": records.n_changes,
            "bad": facts.get("rejected_rows", self._bad.count),
            "missing": facts.get("missing_values", records.n_missing),
            "alarms": records.n_alarms,
        } | self._result.counts

    def _since(self, above_noise: Mask | None, event: dict[str, Any] | None) -> int | None:
        """The row from which on all that an event added, or all that matter, are selected."""
        matter = self._records.selected
        wanted = above_noise if event is None else np.isin(self._names, event["came"])
        if wanted is not None and wanted[matter].any():
            matter = matter[wanted[matter]]
        return int(self._records.since[matter].max()) if len(matter) else None

    def _replaced(self, events: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
        """The last event after which others were selected, if they still are."""
        now = {self._names[place] for place in self._records.selected.tolist()}
        told = [one for one in events if one.get("left") and now.issuperset(one["came"] or [""])]
        return max(told, key=lambda one: one["row"], default=None)

    # --- over time -------------------------------------------------------------------------------

    def _scores(self) -> Header:
        """How well the selected features and the baselines predict."""
        records, facts = self._records, self._facts.known
        baselines = facts.get("baselines") or {}
        if "scores" in facts:  # the run has ended
            who = {SELECTED: facts["scores"]} | {of: one["scores"] for of, one in baselines.items()}
        else:
            names = records.score_names
            who = {of: {score: records.total(of, score) for score in names} for of in records.who}
        known = dict.fromkeys(score for one in who.values() for score in one)
        rows, told = records.series.rows, records.score_names
        name = next((name for name in (*SCORES, *told) if name in told), None)  # shown over time
        return {
            "rows": rows,
            "n_rows": np.diff(rows, prepend=0).tolist(),
            "name": name,
            "series": {
                of: self._extent(f"{of} {name}")
                for of in records.who
                if f"sum {of} {name}" in records.series.frame.columns
            },
            "total": {
                score: {of: rounded(one.get(score)) for of, one in who.items()} for score in known
            },
            "beaten": {of: one["beaten"] for of, one in baselines.items() if one.get("beaten")},
            **({"by": facts["predictor"]} if "predictor" in facts else {}),
        }

    def _stability(self) -> dict[str, Any]:
        """How stable the selected sets are: over the spans, with intervals at their ends."""
        records, facts = self._records, self._facts.known
        intervals = rounded([records.series.column(name) for name in INTERVAL])
        total = facts.get("stability", records.series.total("stability"))
        now = [of[-1] for of in intervals if of]
        return {
            "rows": records.series.rows,
            **self._extent("stability"),
            "low": intervals[1],
            "high": intervals[2],
            "total": rounded(total) if records.n_batches else None,
            "now": now if now and now[0] is not None else None,
        }

    def _members(self, in_order: Ints) -> Header:
        """The selected set: the features that are in it, and those that were for longest."""
        records, times = self._records, self._records.times
        now = np.isin(in_order, records.selected)
        were = np.flatnonzero(times)
        were = were[np.argsort(-times[were], kind="stable")]
        places = list(dict.fromkeys([*in_order[now].tolist(), *were.tolist()]))[:_MOST_MEMBERS]
        rows, share, importance = records.shares(np.array(places, dtype=np.int64))
        return {
            "rows": rows,
            "first_row": 0,
            "places": places,
            "names": [self._names[place] for place in places],
            "share": rounded(share, 2),
            "importance": rounded(importance),
        }

    def _extent(self, name: str) -> Header:
        extent = rounded(self._records.series.extent(name))
        return dict(zip(("mean", "min", "max"), extent, strict=True))

    # --- the rest --------------------------------------------------------------------------------

    def _alarms(self) -> list[Header]:
        """The last alarms; of the first ones about an event, what it was followed by."""
        told = {}
        for one in self._facts.known.get("alarms") or []:
            change = {name: one[name] for name in CHANGE if name in one}
            for name in change.keys() & {"before", "after"}:
                change[name] = {score: rounded(of) for score, of in one[name].items()}
            told[one["batch"]] = change
        found = []
        for alarm in self._records.alarms:
            place = alarm["feature"]
            row = alarm | {"place": place, "strength": rounded(alarm["strength"])}
            row |= {"feature": None if place is None else self._names[place]}
            found.append(row | told.get(alarm["batch"], {}))
        return found

    def _picture(self, features: Features) -> Header | None:
        shape = self._facts.shape
        if shape is None or not 0 < shape[0] * shape[1] == len(self._names) <= _MOST_PIXELS:
            return None
        return {
            "shape": shape,
            "importance": rounded(features.importance),
            "selected": self._records.selected.tolist(),
        }

    def _health(self) -> Header:
        records, seconds = self._records, self._facts.seconds
        latency = self._facts.known.get("latency") or records.latencies.as_dict()
        took = self._extent("seconds")
        return {
            "rows_per_second": rounded(records.n_rows / seconds) if seconds > 0.0 else None,
            "latency": None
            if latency["p50"] is None
            else {name: rounded(value) for name, value in latency.items()},
            "speed": {"rows": records.series.rows, "seconds": took["mean"], "max": took["max"]},
            "bad": self._bad.as_dict(),
            "waited": records.n_waited,
        }


def sentence(
    counts: dict[str, Any],
    since: int | None,
    stability: float | None,
    *,
    has_ended: bool,
    event: dict[str, Any] | None = None,
) -> Sentence:
    """What matters now, since when all of it is selected, and whom it has replaced."""
    n_features, n_selected = counts["features"], counts["selected"]
    if not counts["batches"]:
        return ["No row has been read yet."]
    parts: Sentence = [_carrying(n_features, n_selected, counts["above_noise"], has_ended)]
    if (n_both := counts.get("significant_selected", 0)) and n_both < counts["above_noise"]:
        parts.append(f", {n_both:,} of them selected")
    if counts["batches"] == 1:
        parts.append(" after one batch")
    elif since is not None and n_selected < n_features:
        parts.append(f"; {'the same set since' if event is None else 'by'} row {since:,}")
        if event is not None:
            parts += [" ", *_named(event["came"]), " replaced ", *_named(event["left"])]
    return [*parts, "." if stability is None else f"; stability {stability:.2f}."]


def _named(names: Sequence[str]) -> Sentence:
    """The first two of some names, and how many more there are."""
    more = len(names) - 2
    first, *second = ({"feature": name} for name in names[:2])
    between = ", " if more > 0 else " and "
    named: Sentence = [first, between, *second] if second else [first]
    return [*named, f" and {more:,} more"] if more > 0 else named


def _carrying(n_features: int, n_selected: int, n_above: int | None, has_ended: bool) -> str:
    """How many features matter."""
    yet = "" if has_ended else " yet"
    if n_features == 1:
        if n_above is None:
            return "There is one feature"
        what = "predicts the target" if n_above else f"is not significant{yet}"
        return f"The one feature {what}"
    of_all = f"of {n_features:,} features"
    if n_above is None:
        return f"{n_selected:,} {of_all} {'is' if n_selected == 1 else 'are'} selected"
    if n_above == 0:
        return f"None {of_all} is significant{yet}"
    if n_above == n_features:
        return f"All {n_features:,} features predict the target"
    return f"{n_above:,} {of_all} {'predicts' if n_above == 1 else 'predict'} the target"


# --- what is known of each feature ---------------------------------------------------------------

_MAX_FEATURES, _MOST_DRIFT = 2_000, 500
_AGO = 0.1  # of the run: so long ago is the rank that the present one is held against
_REACH = NormalDist().inv_cdf(0.975)
# What a page of less than 1 MB, and of less than 300 KB for an ordinary run, has room for:
_FINE, _FINE_POINTS = 30, 4_000
_COARSE, _COARSE_POINTS = 2_000, 8
_RANKED, _TOP, _MOST_RANKS = 40, 10, 20
_FAIR_ROWS = 2_000  # a mean of fewer says little


class Features:
    """All features of a run.

    Importance, uncertainty and rank are those of the last snapshot; of the selected features, those
    of the last record that tells them, which is newer; and when a run has ended, its result.
    """

    def __init__(
        self, records: Records, shots: Sequence[Snapshot], result: Result, names: Sequence[str]
    ) -> None:
        self._records, self._shots, self._result, self._names = records, shots, result, names
        self.selected = np.zeros(len(names), dtype=bool)
        self.selected[records.selected] = True
        self.importance, self.uncertainty, self.rank = np.full((3, len(names)), np.nan)
        if shots:
            self._know(shots[-1].places, shots[-1].importance, shots[-1].uncertainty)
            self.rank[shots[-1].places] = shots[-1].rank
        if records.known is not None and (not shots or records.known[0] > shots[-1].index):
            self._know(*records.known[1:])
        if result.numbers:
            self.rank = result.numbers["rank"]
            known = np.flatnonzero(~np.isnan(result.numbers["importance"]))
            numbers = (result.numbers[name][known] for name in ("importance", "uncertainty"))
            self._know(known, *numbers)
            self.importance[np.isnan(self.rank)] = np.nan  # they were forgotten
        old = [shot for shot in shots if shot.rows <= (1.0 - _AGO) * records.n_rows]
        self.before = old[-1] if old else None

    def _know(self, places: Indices, importance: Numbers, uncertainty: Numbers) -> None:
        self.importance[places], self.uncertainty[places] = importance, uncertainty

    def _named(self, places: Sequence[int]) -> list[str]:
        return [self._names[place] for place in places]

    # --- now -------------------------------------------------------------------------------------

    @cached_property
    def in_order(self) -> Ints:
        """All features whose rank or importance is known, the best first."""
        known = np.flatnonzero(~np.isnan(self.importance) | self.selected)
        return known[np.argsort(np.nan_to_num(self.rank[known], nan=np.inf), kind="stable")]

    @property
    def above_noise(self) -> Mask | None:
        """Which features are significant, as the run says; None if it does not."""
        if self._result.counts or not self._shots:
            return self._result.above_noise
        if (told := self._shots[-1].significant) is None:
            return None
        above = np.zeros(len(self._names), dtype=bool)
        above[self._shots[-1].places] = told
        return above

    def now(self, above_noise: Mask | None, *, intervals: bool) -> Header:
        """The table of features."""
        order = self.in_order
        if len(order) > _MAX_FEATURES:
            is_in = self.selected[order]
            is_in[np.flatnonzero(~is_in)[: max(_MAX_FEATURES - int(is_in.sum()), 0)]] = True
            order = order[is_in][:_MAX_FEATURES]
        records, result, places = self._records, self._result, order.tolist()
        importance, uncertainty = self.importance[order], self.uncertainty[order]
        half_width = uncertainty * (_REACH if intervals else np.nan)
        ranks_before, drifts = np.full((2, len(self._names)), np.nan)
        if self.before is not None:
            ranks_before[self.before.places] = self.before.rank
        if self._drifts is not None:
            drifts[self._drifts[1]] = self._drifts[4]
        selected = self.selected[order]
        low = importance - half_width
        if "low" in result.numbers:  # an importance without a sign is not below 0
            low = np.fmax(low, result.numbers["low"][order])
        table: dict[str, Any] = {
            "place": places,
            "name": self._named(places),
            "rank": whole(self.rank[order]),
            "importance": rounded(importance),
            "low": rounded(low),
            "high": rounded(importance + half_width),
            "uncertainty": rounded(uncertainty),
            "above_noise": [None] * len(order)
            if above_noise is None
            else above_noise[order].tolist(),
            "selected": selected.tolist(),
            "rank_before": whole(ranks_before[order]),
            "since": whole(np.where(selected, records.since[order], np.nan)),
            "share": rounded(records.times[order] / max(records.n_batches, 1)),
            "drift": rounded(drifts[order]),
            "alarms": records.alarms_of[order].tolist(),
        }
        if result.classes is not None:
            table["class"] = result.classes[order].tolist()
        for name, of in result.of_columns.items():
            found: Any = [of.get(result.columns[place]) for place in places]
            table[name] = rounded(found) if name == "missing" else found
        return table

    # --- over time -------------------------------------------------------------------------------

    def _by_interest(self) -> Ints:
        """Those with a course over time: the selected ones by rank, then by their greatest ever."""
        greatest = np.full(len(self._names), np.nan)
        for shot in self._shots:
            greatest[shot.places] = np.fmax(greatest[shot.places], np.abs(shot.importance))
        present = np.flatnonzero(~np.isnan(greatest))
        selected = self.selected[present]
        rank = np.nan_to_num(self.rank[present], nan=np.inf)
        return present[
            np.lexsort((present, np.where(selected, rank, -greatest[present]), ~selected))
        ]

    def timeline(self) -> Header:
        """Importances over time: of the first few at every snapshot, of the others at some."""
        shots, places = self._shots, self._by_interest()
        coarse = evenly(len(shots), _COARSE_POINTS)
        n_fine = max(_FINE, _FINE_POINTS // max(len(shots), 1))
        series: list[Header] = []
        for some, which in ((places[:n_fine], None), (places[n_fine:_COARSE], coarse)):
            these = shots if which is None else [shots[place] for place in which]
            numbers = [rounded(_over_time(these, some, of)) for of in ("importance", "uncertainty")]
            for place, importance, uncertainty in zip(some.tolist(), *numbers, strict=True):
                one = {"place": place, "name": self._names[place]}
                one |= {"importance": importance, "uncertainty": uncertainty}
                series.append(one if which is None else one | {"coarse": True})
        return {
            "rows": [shot.rows for shot in shots],
            "batches": [shot.index for shot in shots],
            "coarse": coarse,
            "series": series,
        }

    def ranks(self) -> Header:
        """The ranks of the best features over time."""
        some = [self._shots[place] for place in evenly(len(self._shots), _RANKED)]
        tops = [shot.places[np.argsort(shot.rank)[:_TOP]] for shot in some]
        now = tops[-1].tolist() if tops else []
        seen, times = np.unique(np.concatenate([*tops, []]).astype(np.int64), return_counts=True)
        others = seen[np.argsort(-times, kind="stable")].tolist()
        places = list(dict.fromkeys([*now, *others]))[:_MOST_RANKS]
        ranks = _over_time(some, np.array(places, dtype=np.int64), "rank")
        return {
            "rows": [shot.rows for shot in some],
            "places": places,
            "names": self._named(places),
            "rank": [whole(line) for line in ranks],
        }

    # --- then and now ----------------------------------------------------------------------------

    @cached_property
    def _drifts(self) -> tuple[list[int], Ints, Floats, Floats, Floats] | None:
        """Two rows; columns, how far they moved, how their spread changed, the farther of both."""
        told = [shot for shot in self._shots if len(shot.moments) == 2]
        fair = next((shot for shot in told if shot.rows >= _FAIR_ROWS), told[0] if told else None)
        if fair is None or fair is told[-1]:
            return None
        places, moved, spread = drift(fair, told[-1])
        with np.errstate(divide="ignore"):
            far = np.fmax(np.abs(moved), np.abs(np.log(spread)))
        return [fair.rows, told[-1].rows], places, moved, spread, far

    def drift(self) -> Header | None:
        """Which columns have moved."""
        if self._drifts is None:
            return None
        rows, places, moved, spread, far = self._drifts
        order = np.lexsort((places, -np.nan_to_num(far, nan=-1.0, posinf=np.inf)))
        first = np.lexsort((np.arange(len(order)), ~self.selected[places[order]]))
        order = order[np.sort(first[:_MOST_DRIFT])]
        places = places[order]
        return {
            "from_row": rows[0],
            "to_row": rows[1],
            "place": places.tolist(),
            "name": self._named(places.tolist()),
            "drift": rounded(far[order]),
            "moved": rounded(moved[order]),
            "spread": rounded(spread[order]),
            "importance": rounded(self.importance[places]),
            "selected": self.selected[places].tolist(),
            "alarms": self._records.alarms_of[places].tolist(),
        }


def drift(then: Snapshot, now: Snapshot) -> tuple[Ints, Floats, Floats]:
    """How far columns have moved, in standard deviations, and how their spread has changed."""
    places, a, b = np.intersect1d(then.places, now.places, True, return_indices=True)
    (mean_then, sd_then), (mean_now, sd_now) = then.moments[:, a], now.moments[:, b]
    shift = mean_now - mean_then
    both = np.sqrt(0.5 * (sd_now**2 + sd_then**2))
    with np.errstate(divide="ignore", invalid="ignore"):
        moved = np.where(shift == 0.0, 0.0, shift / both)
        spread = np.where(both == 0.0, 1.0, sd_now / sd_then)
    return places.astype(np.int64), moved, spread


def evenly(n: int, most: int) -> list[int]:
    """Places in a list, evenly apart, the first and the last among them."""
    places = np.linspace(0, n - 1, min(n, most)).round().astype(int)
    return [int(place) for place in np.unique(places)]


def _over_time(shots: Sequence[Snapshot], places: Ints, what: str) -> Floats:
    """Numbers of some features, a row each, at each snapshot; NaN where it has none of them."""
    greatest = [int(shot.places.max(initial=0)) for shot in shots]
    line = np.full(1 + max([int(places.max(initial=0)), *greatest]), -1)
    line[places] = np.arange(len(places))
    table = np.full((len(places), len(shots)), np.nan)
    for column, shot in enumerate(shots):
        lines = line[shot.places]
        table[lines[lines >= 0], column] = vars(shot)[what][lines >= 0]
    return table


# --- curves and pairs ----------------------------------------------------------------------------

_Moments: TypeAlias = list[tuple[int, dict[str, Any]]]
_MOMENTS = 6  # of a curve that are shown


def relations_over_time(
    shots: Sequence[Snapshot], facts: Mapping[str, Any], n_rows: int
) -> dict[str, Any] | None:
    """The curves and pairs there are now, with what they were before; None if there are none.

    ``rows``, ``values`` and ``effect`` have an entry for each of at most six moments, the last one
    now; a pair has been there since the row ``since``.
    """
    told = {shot.rows: shot.relations for shot in shots}
    told |= {n_rows: found} if (found := facts.get("relations")) else {}
    moments = list(told.items())
    now = moments[-1][1] if moments else {}
    if not now.get("curves") and not now.get("pairs"):
        return None
    return {
        "curves": [_curve(moments, one) for one in now["curves"]],
        "pairs": [_pair(moments, one) for one in now["pairs"]],
        "unsigned": list(map(well_formed, now["unsigned"])),
    }


def _same(moments: _Moments, what: str, one: dict[str, Any], *keys: str) -> list[Any]:
    """At which rows there was a curve, or a pair, with what it was; None where there was none."""
    own = [one.get(key) for key in keys]
    return [
        (row, next((of for of in then.get(what, ()) if [of.get(k) for k in keys] == own), None))
        for row, then in moments
    ]


def _curve(moments: _Moments, one: dict[str, Any]) -> Header:
    found = [at for at in _same(moments, "curves", one, "feature", "class") if at[1] is not None]
    some = [found[place] for place in evenly(len(found), _MOMENTS)]
    return {
        "name": well_formed(one["feature"]),
        "class": None if one.get("class") is None else well_formed(one["class"]),
        "rows": [row for row, _ in some],
        "values": [rounded(of["values"]) for _, of in some],
        "effect": [rounded(of["effect"]) for _, of in some],
        "low": rounded(one["low"]),
        "high": rounded(one["high"]),
    }


def _pair(moments: _Moments, one: dict[str, Any]) -> Header:
    since = moments[-1][0]
    for row, of in reversed(_same(moments, "pairs", one, "first", "second")):
        if of is None:
            break
        since = row
    numbers = {name: rounded(one[name]) for name in ("importance", "low", "high")}
    ends = {name: well_formed(one[name]) for name in ("first", "second")}
    return ends | numbers | {"since": since}
