"""Alarms that are about one event are one, in the library and in the words of the command."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.cli.text import alarm_lines
from fires.core.events import JOINED, event_rows
from fires.drift import Alarm, Event, events

ALARMS = st.lists(
    st.tuples(st.integers(0, 5000), st.none() | st.integers(0, 9), st.floats(5.0, 90.0)),
    max_size=20,
)


def row(at, feature=None, strength=20.0, **change):
    return {"row": at, "batch": at // 100, "feature": feature, "strength": strength} | change


@given(ALARMS)
def test_every_alarm_is_in_one_event_and_events_are_apart(drawn):
    at = np.cumsum([gap for gap, *_ in drawn]).tolist()
    alarms = [Alarm(a, i, *one[1:]) for i, (a, one) in enumerate(zip(at, drawn, strict=True))]
    found = events(alarms)
    assert sum(event.n_alarms for event in found) == len(alarms)
    for before, after in pairwise(found):
        assert after.row - before.last_row > JOINED
    for event in found:
        inside = [alarm for alarm in alarms if event.row <= alarm.row <= event.last_row]
        assert len(inside) == event.n_alarms
        named = {alarm.feature for alarm in inside} - {None}
        assert event.features == tuple(sorted(named))


@pytest.mark.parametrize(
    ("feature", "strength", "word"),
    [
        *[(None, 14.5, "weak"), (None, 17.5, "clear"), (None, 28.0, "strong")],
        *[(3, 5.1, "weak"), (3, 6.25, "clear"), (3, 10.0, "strong")],
    ],
)
def test_severity_goes_by_the_limit_of_an_alarm(feature, strength, word):
    (event,) = events([Alarm(100, 0, feature, strength)])
    assert event.severity == word
    assert isinstance(event, Event)


def test_what_an_event_changed_is_told_of_its_first_alarm():
    change = {"left": ["a"], "came": ["b"]}
    first, second = event_rows([row(100, "x", **change), row(300, "y", 60.0), row(9000)])
    assert (first["features"], first["severity"]) == (["x", "y"], "strong")
    assert (first["left"], first["came"]) == (["a"], ["b"])
    assert second["features"] == []


def test_the_command_tells_the_strongest_first_and_counts_the_rest():
    alarms = [
        row(1000, strength=16.0, left=["a"], came=["b"]),
        row(1500, "c", 5.5),
        row(20_000, strength=60.0, left=[], came=[], flipped=["x", "y"]),
        *[row(at, strength=15.0, left=[], came=[]) for at in range(30_000, 42_000, 2000)],
    ]
    assert alarm_lines(alarms) == [
        "alarm at row 20,000 (batch 200): concept drift, all features (strong)",
        "  changed sign: x, y",
        "alarm at row 1,000 (batch 10): concept drift, c (weak, 2 alarms up to row 1,500)",
        "  dropped: a; added: b",
        "and 6 more events that did not change the set",
    ]
    strong = row(50_000, strength=70.0, left=[], came=[])
    assert alarm_lines([*alarms, strong])[:2] == [
        "alarm at row 50,000 (batch 500): concept drift, all features (strong)",
        "  the selected features did not change",
    ]
    assert alarm_lines([]) == []
    assert alarm_lines(alarms[-2:]) == [
        "alarm at row 38,000 (batch 380): concept drift, all features (weak)",
        "  the selected features did not change",
        "and 1 more event that did not change the set",
    ]
    many = [row(2000 * i, left=["a"], came=["b"]) for i in range(1, 15)]
    assert alarm_lines(many)[-1] == "and 4 more events"
