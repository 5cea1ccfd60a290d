"""A run folder as plain numbers: all that its page shows, and nothing that is drawn.

    {"version": 1, "run": {...}, "counts": {...}, "sentence": [...], "now": {...}, ...}

Numbers have four significant digits; what is not known is None. Its size has a bound, whatever the
length of the run and however many features there are. Names are as the run has them: whoever shows
them has to escape them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fires.core.errors import InputError
from fires.core.events import CHANGE, event_rows
from fires.core.files import damaged
from fires.core.types import Header, Ints, Mask
from fires.report.features import Features, relations_over_time
from fires.report.folder import Facts, Result, Snapshots, read_result
from fires.report.records import (
    SELECTED,
    BadRows,
    Follower,
    Records,
    read_block,
    rounded,
    well_formed,
)
from fires.run.records import QUARANTINE, STEPS
from fires.run.saved import group_titles, read_names

VERSION = 1
# Text, and between it ``{"feature": name}``.
Sentence: TypeAlias = list[str | dict[str, str]]
_DOUBT = ("column", "kind", "why")
_MOST_PIXELS, _MOST_MEMBERS = 50_000, 60
_MILLION = 1_000_000


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
        if self._facts.known.get("id") != before or self._steps.is_other():
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
        rows, name = records.series.rows, records.score
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
        intervals = rounded(records.intervals)
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
        parts.append(f"; {'the same set since' if event is None else 'by'} row {row_text(since)}")
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


def row_text(row: int) -> str:
    """The number of a row, as one says it."""
    if row < _MILLION:
        return f"{row:,}"
    millions = row / _MILLION
    return f"{millions:,.0f} M" if millions >= 100 else f"{millions:.3g} M"


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
