"""Curves and pairs over time, as a page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from fires.core.types import Header
from fires.report.features import evenly
from fires.report.folder import Snapshot
from fires.report.records import well_formed
from fires.report.wording import rounded

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
