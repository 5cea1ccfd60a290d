"""Long series in few spans: nothing that stands out is lost, and memory has a bound."""

import json
from unittest import mock

import numpy as np
import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fires.report.records import BadRows, Follower, Records, Spans, read_block, rounded


def width_of(n_batches, most):
    """How many batches a span has: a power of two, and no more spans than that."""
    return next(2**power for power in range(60) if n_batches <= 2**power * most)


NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.just(float("nan")))


@given(
    values=st.lists(st.tuples(NUMBERS, st.integers(1, 100)), min_size=1, max_size=200),
    cuts=st.lists(st.integers(0, 200), max_size=8),
    most=st.sampled_from([2, 4, 16]),
)
def test_spans_keep_least_greatest_and_mean_however_batches_come(values, cuts, most):
    series, weight = (np.array(of, dtype=np.float64) for of in zip(*values, strict=True))
    rows = np.cumsum(weight).astype(np.int64)
    spans = Spans(most)
    for part in np.split(np.arange(len(values)), sorted(cuts)):
        if len(part):
            known = ~np.isnan(series[part])
            some = {"batch": part, "last rows": rows[part]}
            some |= {"sum s": series[part] * weight[part], "sum n s": known * weight[part]}
            some |= {"min s": series[part], "max s": series[part]}
            spans.reserve(int(part[-1]) + 1)
            spans.add(pl.DataFrame(some).fill_nan(None))
    width = width_of(len(values), most)
    assert spans.width == width
    assert len(spans.frame) == len(spans.rows) <= most
    means, least, greatest = spans.extent("s")
    for i, start in enumerate(range(0, len(values), width)):
        here = slice(start, start + width)
        some, by = series[here], weight[here]
        known = ~np.isnan(some)
        assert spans.rows[i] == rows[here][-1]
        if known.any():
            assert least[i] == some[known].min()
            assert greatest[i] == some[known].max()
            np.testing.assert_allclose(
                means[i], np.average(some[known], weights=by[known]), rtol=1e-9, atol=1e-6
            )
        else:
            assert np.isnan(means[i])
            assert not np.isfinite(least[i])


@given(st.floats(-1e12, 1e12))
@example(0.0)
@example(-0.0)
@example(9.9995)
@example(1e-5)
@example(123456.0)
def test_numbers_have_four_digits_and_are_the_nearest(value):
    (short,) = rounded([value])
    assert short == float(f"{short:.4g}")
    size = abs(value)
    if size > 1e-300:
        assert abs(short - value) <= 0.5001 * 10 ** (np.floor(np.log10(size)) - 3)


def test_numbers_half_way_do_not_depend_on_the_last_bits_of_a_sum():
    assert len(set(rounded([0.71125, 0.71125 - 1e-16, 0.71125 + 1e-16]))) == 1
    assert str(rounded(-0.0)) == "0.0"


def blocks_of(path, sets, size=1 << 21):
    """The records of a run with these sets, in blocks."""
    with path.open("w") as file:
        before = []
        for index, now in enumerate(sets):
            step = {"index": index, "rows": index + 1, "n_rows": 1, "scores": {"accuracy": 0.5}}
            step |= {"selected": now, "stability": None, "seconds_select": 0.1, "seconds_train": 0}
            if now != before:
                step |= {"came": sorted(set(now) - set(before)), "importance": [1.0] * len(now)}
                step |= {"left": sorted(set(before) - set(now)), "uncertainty": [0.1] * len(now)}
                before = now
            file.write(json.dumps(step) + "\n")
    follower = Follower(path, size)
    for block in follower.blocks():
        yield read_block(follower, block)


def records_of(path, sets, n_features, size=1 << 21):
    """What these records add up to."""
    records = Records(n_features)
    for block in blocks_of(path, sets, size):
        records.add(*block[:2])
    return records


@settings(max_examples=12)
@given(
    sets=st.lists(st.sets(st.integers(0, 5), max_size=4).map(sorted), min_size=1, max_size=60),
    size=st.integers(300, 5_000),
)
def test_members_are_counted_in_spans(tmp_path_factory, sets, size):
    path = tmp_path_factory.mktemp("members") / "steps.jsonl"
    with mock.patch("fires.report.records.N_MEMBER_SPANS", 4):
        records = records_of(path, sets, 6, size)
    rows, share, _ = records.shares(np.arange(6))
    width = width_of(len(sets), 4)
    for i, start in enumerate(range(0, len(sets), width)):
        some = sets[start : start + width]
        wanted = [sum(place in one for one in some) / len(some) for place in range(6)]
        np.testing.assert_allclose(share[:, i], wanted)
        assert rows[i] == start + len(some)
    assert records.times.tolist() == [sum(p in one for one in sets) for p in range(6)]
    assert records.selected.tolist() == sets[-1]


def test_a_span_keeps_so_many_features_and_no_more(tmp_path):
    sets = [[0, *range(10 * i + 1, 10 * i + 11)] for i in range(600)]
    with mock.patch("fires.report.records.N_MEMBER_SPANS", 2):
        records = records_of(tmp_path / "steps.jsonl", sets, 6_001, 50_000)
    frame = records.members.frame.drop_nulls("place")
    assert frame["batch"].unique_counts().to_list() == [2_000, 881]
    commonest = frame.filter(place=0, batch=0)  # it is not lost
    assert commonest["sum times"].to_list() == [512]


def test_reasons_without_end_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "quarantine.ndjson"
    with path.open("w") as file:
        for i in range(3_000):
            reason = "common" if i % 2 == 0 else f"reason {i}"
            file.write(json.dumps({"line": i, "reason": reason, "raw": "x" * 1_000}) + "\n")
    bad = BadRows(path)
    bad.refresh()
    told = bad.as_dict()
    assert told["count"] == 3_000
    assert len(told["reasons"]) == 20
    assert told["reasons"][0] == {"reason": "common", "count": 1_500, "line": 0, "raw": "x" * 200}
    assert len(bad._reasons) == 1_000


def test_the_records_of_a_long_run_take_no_more_memory_than_those_of_a_short_one(tmp_path):
    def size(n_steps):
        sets = [[i // 7 % 8] for i in range(n_steps)]
        records = records_of(tmp_path / f"{n_steps}.jsonl", sets, 8)
        assert len(records.shares(np.arange(8))[0]) <= 200
        assert len(records.series.frame) <= 256
        assert len(records._recent) <= 12
        return records.members.frame.estimated_size()

    assert size(40_000) < 1.2 * size(20_000)


def test_blocks_give_what_polars_reads(tmp_path):
    path = tmp_path / "steps.jsonl"
    ((block, scores, n_named),) = blocks_of(path, [[1, 2], [1, 2], [], [3]])
    frame = pl.read_ndjson(path)
    for name in ("rows", "selected", "came"):
        assert block[name].to_list() == frame[name].to_list()
    assert scores == ["accuracy"]
    assert n_named == 4
