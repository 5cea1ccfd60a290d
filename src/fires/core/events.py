"""Alarms that are about one event, and what it has changed."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

SLOPE_LIMIT = 14.0  # of an alarm about all features together
DEVIATIONS = 4.8  # of the score of a coefficient, for an alarm among fifty or fewer
JOINED = 1000  # rows after an alarm within which another one is about the same event
_SEVERITIES, _LEAST = ("weak", "clear", "strong"), (1.25, 2.0)  # from so many limits on


class Event(NamedTuple):
    """A change that one or more alarms are about: each comes within 1,000 rows of the last."""

    row: int  # of the first alarm, as the batch
    last_row: int
    batch: int
    features: tuple[Any, ...]  # sorted; empty if only all features together have raised alarms
    strength: float  # of the strongest alarm, as a multiple of its limit
    n_alarms: int

    @property
    def severity(self) -> str:
        """The strength in a word: strong from 2 on, clear from 1.25 on, or weak."""
        return _SEVERITIES[bisect(_LEAST, self.strength)]


def events(alarms: Iterable[tuple[int, int, Any, float]]) -> list[Event]:
    """The events that alarms are about, in order: see :class:`fires.drift.Alarm`.

    Examples
    --------
    >>> alarms = [(500, 4, None, 20.0), (900, 8, 3, 12.0), (5000, 49, 1, 5.5)]
    >>> for event in events(alarms):
    ...     event.row, event.last_row, event.features, event.n_alarms, event.severity
    (500, 900, (3,), 2, 'strong')
    (5000, 5000, (1,), 1, 'weak')
    """
    found: list[Event] = []
    for row, batch, feature, strength in alarms:
        new = Event(row, row, batch, (), 0.0, 0)
        if found and row - found[-1].last_row <= JOINED:
            new = found.pop()
        named = new.features if feature is None else tuple(sorted({*new.features, feature}))
        times = max(new.strength, strength / (SLOPE_LIMIT if feature is None else DEVIATIONS))
        found.append(Event(new.row, row, new.batch, named, times, new.n_alarms + 1))
    return found


def event_rows(alarms: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Events as plain values, the strongest first, with what is told of their first alarms."""
    found = []
    told = {one["batch"]: {name: one[name] for name in CHANGE if name in one} for one in alarms}
    for event in events((a["row"], a["batch"], a["feature"], a["strength"]) for a in alarms):
        row = event._asdict() | {"severity": event.severity, "features": list(event.features)}
        found.append(row | {"strength": float(f"{event.strength:.4g}")} | told[event.batch])
    return sorted(found, key=lambda row: -row["strength"])


# What is told of an event: features, and the scores before and after.
CHANGE = ("left", "came", "flipped", "before", "after")
