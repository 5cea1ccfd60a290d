"""What the records of a run say over time: scores, stability, speed, and the selected set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fires.core.types import Header
from fires.report.records import Records
from fires.report.rounding import rounded
from fires.report.spans import Spans, Whole
from fires.report.steps import SELECTED

_MOST_MEMBERS = 60


def scores(records: Records, facts: Mapping[str, Any]) -> Header:
    """How well the selected features and the baselines predict.

    Parameters
    ----------
    records : Records
        What the records add up to.
    facts : mapping
        What ``run.json`` says; at the end, it has the totals.

    Returns
    -------
    dict
        ``rows``, ``n_rows``, ``name``, ``series``, ``total`` and ``beaten``; ``by`` says what
        predicts, if that is no predictor beside the selector.
    """
    name, spans = records.score, records.scores
    total: dict[str, dict[str, float | None]] = records.total_scores()
    baselines = facts.get("baselines") or {}
    if "scores" in facts:  # the run has ended
        who = {SELECTED: facts["scores"]} | {of: one["scores"] for of, one in baselines.items()}
        known = {score: None for one in who.values() for score in one}
        total = {score: {of: one.get(score) for of, one in who.items()} for score in known}
    return {
        "rows": spans.rows.tolist(),
        "n_rows": spans.n_rows.tolist(),
        "name": name,
        "series": {
            who: _extent(spans, f"{who} {name}") for who in records.who if f"{who} {name}" in spans
        },
        "total": {
            score: {who: rounded(value) for who, value in of.items()} for score, of in total.items()
        },
        "beaten": {of: one["beaten"] for of, one in baselines.items() if one.get("beaten")},
        **({"by": facts["predictor"]} if "predictor" in facts else {}),
    }


def stability(records: Records, facts: Mapping[str, Any]) -> dict[str, Any]:
    """How stable the selected sets are.

    Parameters
    ----------
    records : Records
        What the records add up to.
    facts : mapping
        What ``run.json`` says.

    Returns
    -------
    dict
        ``rows``, ``mean``, ``min`` and ``max`` of the spans, ``low`` and ``high`` at their ends,
        ``total`` and ``now``.
    """
    spans = records.stability
    if not records.n_batches:
        empty: dict[str, Any] = {name: [] for name in ("rows", "mean", "min", "max", "low", "high")}
        return empty | {"total": None, "now": None}
    intervals = records.stays.intervals()
    now = rounded(intervals[-1])
    return {
        "rows": spans.rows.tolist(),
        **_extent(spans, "stability"),
        "low": rounded(intervals[:, 1]),
        "high": rounded(intervals[:, 2]),
        "total": rounded(facts.get("stability", spans.total("stability"))),
        "now": None if now[0] is None else now,
    }


def speed(records: Records) -> Header:
    """How long batches took."""
    if not records.n_batches:
        return {"rows": [], "seconds": [], "max": []}
    spans = records.stability
    extent = _extent(spans, "seconds")
    return {"rows": spans.rows.tolist(), "seconds": extent["mean"], "max": extent["max"]}


def members(records: Records, in_order: Whole, names: Sequence[str]) -> Header:
    """The selected set over time."""
    times = records.stays.times
    now = np.isin(in_order, records.stays.selected)
    were = np.flatnonzero(times)
    were = were[np.argsort(-times[were], kind="stable")]
    places = list(dict.fromkeys([*in_order[now].tolist(), *were.tolist()]))[:_MOST_MEMBERS]
    share, importance = records.members.shares(np.array(places, dtype=np.int64))
    return {
        "rows": [span.row for span in records.members.spans],
        "first_row": 0,
        "places": places,
        "names": [names[place] for place in places],
        "share": rounded(share, 2),
        "importance": rounded(importance),
    }


def _extent(spans: Spans, name: str) -> Header:
    return {
        "mean": rounded(spans.mean(name)),
        "min": rounded(spans.least(name)),
        "max": rounded(spans.greatest(name)),
    }
