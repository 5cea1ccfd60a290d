"""Memory as a time: evidence fades by when rows were, and the column of the time is no feature."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FIRES, OnlinePipeline
from fires.core.batch import CheckedBatch
from fires.core.duration import seconds_of
from fires.core.errors import InputError
from fires.models.families import FAMILIES
from fires.predictors import Perceptron
from fires.selectors.clock import Clock
from fires.selectors.columns import FixedColumns
from fires.selectors.sharded import Sharded

START = 1.7e9
NAMES = [f"c{place}" for place in range(6)]


def table(seed=0, n=3000, step=30.0):
    """Rows that come every so many seconds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 6)), columns=NAMES)
    y = (frame["c1"] - 0.6 * frame["c4"] + 0.7 * rng.normal(size=n) > 0).astype(int)
    return frame.assign(when=START + step * np.arange(n)), y.to_numpy()


def cut(frame, y, size=100):
    return [(frame.iloc[i : i + size], y[i : i + size]) for i in range(0, len(y), size)]


def learnt(selector, batches):
    for X, y in batches:
        selector.partial_fit(X, y)
    return selector


# --- how far evidence fades -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        *[("90s", 90.0), ("5m", 300.0), ("12h", 43_200.0), ("7d", 604_800.0), ("2 w", 1_209_600.0)],
        *[(".5h", 1800.0), (timedelta(days=1), 86_400.0), ("7", None), ("0s", None), ("d", None)],
        *[(7, None), (None, None), (timedelta(), None), ("-1h", None), ("1y", None), ("n s", None)],
    ],
)
def test_what_a_duration_is(given, seconds):
    assert seconds_of(given) == seconds


def test_between_batches_evidence_fades_by_the_time_that_has_passed():
    rng, clock, left, now = np.random.default_rng(0), Clock(at=0.0), 1.0, 0.0
    for _ in range(50):
        n = int(rng.integers(1, 200))
        times = now + np.sort(rng.uniform(0.0, 400.0, n)) + rng.choice([0.0, 3000.0], p=[0.9, 0.1])
        clock, kept = clock.after(times, float(n), 5000.0)
        left *= kept * np.exp(-clock.rate * n)
        now = clock.at
        assert left == pytest.approx(np.exp(-now / 5000.0), rel=1e-9)


@pytest.mark.parametrize("times", [[], [np.nan, np.nan], [900.0], [1000.0, 1000.0]])
def test_nothing_fades_where_no_time_has_passed(times):
    clock, kept = Clock(1000.0, 0.1).after(np.array(times), 10.0, 500.0)
    assert (clock, kept) == (Clock(1000.0), 1.0)


def test_one_row_with_a_wrong_time_does_no_harm_and_a_clock_can_be_set_back():
    times = np.append(np.arange(1000.0, 1100.0), 4e9)
    assert Clock(950.0).after(times, 101.0, 1e5)[0].at == 1050.0
    assert Clock(4e9).after(np.arange(100.0), 100.0, 1e5)[0] == Clock(49.5)


def test_no_row_fades_by_more_than_one_e():
    clock, kept = Clock(0.0).after(np.array([0.0, 1e6, 2e6, 3e6]), 4.0, 10.0)
    assert (clock.rate, kept) == (1.0, 1.0)


# --- the selector ---------------------------------------------------------------------------------


def test_at_a_constant_rate_it_is_memory_in_rows():
    frame, y = table()
    batches = cut(frame, y)
    by_time = learnt(FIRES(2, memory="10h", time="when"), batches)  # 1,200 rows
    by_rows = learnt(FIRES(2, memory=1200), cut(frame.drop(columns="when"), y))
    assert_allclose(by_time.importances_, by_rows.importances_, rtol=2e-3, atol=1e-4)
    assert_allclose(by_time.uncertainties_, by_rows.uncertainties_, rtol=2e-3)
    assert_array_equal(by_time.get_support(), by_rows.get_support())
    assert list(by_time.feature_names_in_) == NAMES


def test_a_gap_of_a_week_forgets():
    frame, y = table()
    batches, late = cut(frame, y), frame.iloc[:1].assign(when=START + 30.0 * 3000 + 7 * 86_400)
    before = learnt(FIRES(2, memory="7d", time="when"), batches)
    kept = before.uncertainties_.copy()
    after = before.partial_fit(late, y[:1]).uncertainties_
    # Evidence is precision; the prior of the leading features is wide.
    assert_allclose((kept / after)[:6] ** 2, np.exp(-1.0), rtol=0.05)


def test_where_rows_come_faster_less_is_forgotten():
    slow, fast = (
        learnt(FIRES(2, memory="10h", time="when"), cut(*table(step=step))).uncertainties_
        for step in (120.0, 5.0)
    )
    assert (fast < 0.75 * slow).all()


def kinds(batch):
    date = pd.to_datetime(batch["when"], unit="s")
    yield "seconds", batch
    yield "dates", batch.assign(when=date)
    yield "texts", batch.assign(when=date.dt.strftime("%Y-%m-%d %H:%M:%S"))
    yield "zones", batch.assign(when=date.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    yield "polars", pl.DataFrame({name: batch[name].to_numpy() for name in batch.columns})
    yield "dicts", batch.to_dict("records")


@pytest.mark.parametrize("place", range(1, 6))
def test_times_are_dates_texts_or_seconds_in_frames_and_dicts(place):
    batches = cut(*table(n=600))
    expected = learnt(FIRES(2, memory="1h", time="when"), batches)
    given = [(list(kinds(X))[place][1], y) for X, y in batches]
    found = learnt(FIRES(2, memory=timedelta(hours=1), time="when"), given)
    assert_allclose(found.importances_, expected.importances_, rtol=1e-9)
    assert_allclose(found.transform(given[0][0]), expected.transform(batches[0][0]))
    assert found._clock_ == expected._clock_


def test_rows_to_apply_it_to_need_no_time():
    frame, y = table(n=500)
    selector = FIRES(2, memory="1h", time="when").fit(frame, y)
    without = frame.drop(columns="when")
    assert_array_equal(selector.transform(without), selector.transform(frame))
    assert list(selector.mask(frame).columns) == NAMES
    whole = learnt(FIRES(2, memory="1h", time="when"), cut(frame, y))
    assert_array_equal(selector.importances_, whole.importances_)


@pytest.mark.parametrize("columns", ["fixed", "open"])
def test_it_goes_on_to_the_bit_after_loading(tmp_path, columns):
    batches = cut(*table(n=1000))
    selector = FIRES(2, memory=timedelta(hours=2), time="when", columns=columns)
    pipeline = OnlinePipeline(selector, Perceptron())
    for X, y in batches[:5]:
        pipeline.partial_fit(X, y)
    pipeline.save(tmp_path / "state")
    again = fires.load(tmp_path / "state")
    for X, y in batches[5:]:
        for one in (pipeline, again):
            one.partial_fit(X, y)
    assert again.selector.memory == "7200.0s"
    assert_array_equal(again.selector.importances_, pipeline.selector.importances_)
    assert_array_equal(again.selector.uncertainties_, pipeline.selector.uncertainties_)
    assert again.selector._clock_ == pipeline.selector._clock_
    assert_array_equal(again.predict(batches[0][0]), pipeline.predict(batches[0][0]))


def test_sparse_rows_fade_by_time_too():
    """The variances of columns that are rarely there are kept as of when they were last there."""
    X, y = table()
    times, dense = X["when"].to_numpy(), X[NAMES].to_numpy()
    dense = np.where(np.abs(dense) > 0.4, dense, 0.0)
    settings = {"memory": "10h", "time": "when", "scale": None, "fit_intercept": False}
    found = []
    for form in (np.asarray, sp.csr_array):
        selector = FIRES(2, **settings)
        for i in range(0, len(y), 100):
            rows = slice(i, i + 100)
            known = FixedColumns(6)
            batch = CheckedBatch(form(dense[rows]), y[rows], known=known, times=times[rows])
            selector.learn(batch)
        found.append(selector)
    assert_allclose(found[0].importances_, found[1].importances_, rtol=1e-6)
    assert_allclose(found[0].uncertainties_, found[1].uncertainties_, rtol=1e-6)


def test_a_batch_that_is_refused_changes_nothing():
    batches = cut(*table(n=400))
    selector = learnt(FIRES(2, memory="1h", time="when", scale=None), batches[:3])
    before = selector.importances_.copy(), selector.uncertainties_.copy(), selector._clock_
    X, y = batches[3]
    far = X.assign(when=X["when"] + 9e6, c0=1e200)
    with pytest.raises(ValueError, match="overflow"):
        selector.partial_fit(far, y)
    assert_array_equal(selector.importances_, before[0])
    assert_array_equal(selector.uncertainties_, before[1])
    assert selector._clock_ == before[2]


# --- what does not go -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"memory": "7d"}, "memory as a time needs time"),
        ({"time": "when"}, "memory as a time needs time"),
        ({"memory": "7y", "time": "when"}, "a number of rows above 1, or a time such as '7d'"),
        ({"memory": timedelta(0)}, "a number of rows above 1, or a time"),
        ({"memory": "7d", "time": 3}, 'no column "3" with the time'),
        ({"memory": "7d", "time": "when", "update": "gradient"}, "update='bayes'"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(settings, message):
    frame, y = table(n=100)
    with pytest.raises(ValueError, match=message) as error:
        FIRES(2, **settings).partial_fit(frame, y)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: X.drop(columns="when"),
        lambda X: X[NAMES].to_numpy(),
        lambda X: X.assign(when="yesterday"),
        lambda X: X[NAMES].to_dict("records"),
    ],
)
def test_rows_to_learn_from_need_a_time(change):
    frame, y = table(n=100)
    with pytest.raises(InputError, match='no column "when" with the time of each row'):
        FIRES(2, memory="7d", time="when").partial_fit(change(frame), y)


def test_a_few_rows_without_a_time_are_no_matter():
    frame, y = table(n=300)
    some = frame.assign(when=frame["when"].where(np.arange(300) % 3 != 1))
    whole, gaps = (learnt(FIRES(2, memory="1h", time="when"), cut(one, y)) for one in (frame, some))
    assert_allclose(gaps.importances_, whole.importances_, rtol=0.02)


def test_shards_refuse():
    frame, y = table(n=100)
    with pytest.raises(InputError, match="give memory a number of rows"):
        Sharded(FIRES(2, memory="7d", time="when")).partial_fit(frame, y)


@pytest.mark.parametrize("family", ["probit", "gaussian", "poisson"])
def test_every_family_fades(family):
    frame, y = table(n=1500)
    target = y + (0.25 if FAMILIES[family].kind == "numbers" else 0)
    slow, fast = (
        learnt(FIRES(2, model=family, memory=memory, time="when"), cut(frame, target))
        for memory in ("1h", "4w")
    )
    assert (fast.uncertainties_ < slow.uncertainties_).all()
