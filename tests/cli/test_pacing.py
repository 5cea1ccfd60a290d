"""Rows that are handed out as if they came live. The clock is one that moves when it is told."""

from types import SimpleNamespace

import pytest

from fires.cli import interrupts


class Clock:
    def __init__(self):
        self.now, self.slept = 1_000.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


def batches(clock, *sizes, takes=0.0):
    for size in sizes:
        clock.now += takes
        yield SimpleNamespace(n_rows=size)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(interrupts, "time", clock)
    return clock


def handed_out(clock, source, rate, works=()):
    """When each batch comes, to one that works so many seconds on each of them."""
    times, works = [], iter(works)
    for _ in interrupts.paced(source, rate):
        times.append(clock.now - 1_000.0)
        clock.now += next(works, 0.0)
    return pytest.approx(times)


def test_each_batch_comes_when_the_rows_before_it_are_due(clock):
    assert handed_out(clock, batches(clock, 100, 100, 50, 100), 50) == [0.0, 2.0, 4.0, 5.0]


def test_what_work_and_reading_take_is_part_of_the_time(clock):
    source = batches(clock, *[100] * 4, takes=0.25)
    assert handed_out(clock, source, 100, [0.5] * 4) == [0.25, 1.25, 2.25, 3.25]


def test_after_a_pause_of_the_consumer_rows_do_not_come_in_a_burst(clock):
    times = handed_out(clock, batches(clock, *[10] * 5), 10, [0.0, 60.0])
    assert times == [0.0, 1.0, 61.0, 62.0, 63.0]


def test_after_a_pause_of_the_source_neither(clock):
    def source():
        yield from batches(clock, 10, 10)
        yield from batches(clock, 10, takes=60.0)
        yield from batches(clock, 10, 10)

    assert handed_out(clock, source(), 10) == [0.0, 1.0, 62.0, 63.0, 64.0]


def test_one_that_is_slower_than_the_rate_never_waits(clock):
    handed_out(clock, batches(clock, *[10] * 5), 10, [3.0] * 5)
    assert clock.slept == []


def test_while_it_waits_nothing_is_asked_of_the_source(clock):
    asked = []

    def source():
        for number in range(3):
            asked.append(number)
            yield SimpleNamespace(n_rows=1)

    def interrupted(seconds):
        raise KeyboardInterrupt

    clock.sleep = interrupted
    rows = interrupts.paced(source(), 1.0)
    next(rows)
    with pytest.raises(KeyboardInterrupt):
        next(rows)
    assert asked == [0]
