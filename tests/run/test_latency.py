import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.run.records import Latencies


def of(times):
    latencies = Latencies()
    latencies.add(np.array(times))
    return latencies


@given(
    st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=300),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_quantiles_are_those_of_numpy_to_one_percent(times, share):
    exact = np.quantile(times, share, method="inverted_cdf")
    assert of(times).quantile(share) == pytest.approx(exact, rel=0.0101)


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_so_are_the_percentiles_of_many_batches(spread):
    times = np.random.default_rng(0).lognormal(-7.0, spread, size=100_000)
    told = of(times.tolist()).as_dict()
    p50, p99 = np.percentile(times, [50, 99])
    assert told == {
        "p50": pytest.approx(p50, rel=0.012),
        "p99": pytest.approx(p99, rel=0.012),
        "max": times.max(),
    }


def test_memory_is_bounded_and_odd_times_do_no_harm():
    latencies = of([0.0, -1e-9, 1e9, *np.geomspace(1e-9, 1e9, 20_000).tolist()])
    assert len(latencies.state()["counts"]) < 1_400
    assert latencies.quantile(1e-9) == pytest.approx(1e-6, rel=0.011)
    assert latencies.as_dict()["max"] == 1e9


def test_a_resumed_run_goes_on():
    times = np.random.default_rng(1).exponential(size=500).tolist()
    resumed = Latencies()
    resumed.restore(json.loads(json.dumps(of(times[:200]).state())))
    for seconds in times[200:]:
        resumed.add(seconds)
    whole = of(times)
    assert resumed.state() == whole.state()
    assert resumed.as_dict() == whole.as_dict()


def test_without_batches_nothing_is_known():
    latencies = Latencies()
    latencies.end()
    assert math.isnan(latencies.quantile(0.5))
    assert latencies.as_dict() == {"p50": None, "p99": None, "max": None}


def test_a_batch_counts_from_when_it_is_at_hand_to_when_it_is_done(monkeypatch):
    clock = iter([10.0, 12.0, 20.0, 21.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    latencies = Latencies()
    for _ in range(2):
        latencies.begin()
        latencies.end()
    latencies.end()  # the time between batches is nobody's
    assert latencies.as_dict()["max"] == 2.0
    assert latencies.quantile(0.5) == pytest.approx(1.0, rel=0.0101)
