"""The paper's data sets. What needs the real files is skipped where they are not at hand."""

import contextlib
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler

from fires.bench.datasets.catalogue import CATALOGUE, DataFile, Info
from fires.bench.datasets.files import DataUnavailable, digest
from fires.bench.datasets.loading import load
from fires.core import optional
from fires.streams import InputError

DATA = Path(os.environ.get("FIRES_DATA_DIR") or "nowhere")
AT_HAND = [info for info in CATALOGUE.values() if info.whole and (DATA / info.whole.file).is_file()]

pytestmark = pytest.mark.usefixtures("cache_dir")


# --- Streams ----------------------------------------------------------------------------------


@st.composite
def tables(draw):
    n_rows = draw(st.integers(2, 12))
    column = st.lists(st.sampled_from(["tcp", "udp", "icmp", "", "ä"]), min_size=n_rows)
    number = st.lists(st.integers(-1000, 1000), min_size=n_rows)
    labels = [0, 1, *draw(st.lists(st.integers(0, 1), min_size=n_rows))]
    columns = {"text": draw(column), "number": draw(number), "target": labels}
    return pl.DataFrame({name: values[:n_rows] for name, values in columns.items()})


@pytest.fixture
def put(tmp_path, change, nothing_at_hand):
    """Make a table into the data set "toy"."""
    folder = tmp_path / "cache"
    folder.mkdir()

    def put(frame, **changes):
        frame.write_parquet(folder / "toy.parquet")
        counts = dict(frame["target"].value_counts().iter_rows())
        table = DataFile("toy.parquet", counts, digest(frame))
        n_features = frame.width - 1
        info = Info("Toy", frame.height, n_features, "", 1, "", "", whole=table)
        return change(info, **changes)

    return put


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(frame=tables(), batch_size=st.integers(1, 15), n_rows=st.integers(1, 20))
def test_text_becomes_pandas_codes_and_numbers_stay(put, frame, batch_size, n_rows):
    put(frame)
    dataset = load("toy", n_rows=n_rows)
    codes, _ = pd.factorize(frame["text"].to_numpy())
    expected = np.column_stack([codes, frame["number"]])[:n_rows]
    batches = list(dataset.batches(batch_size))
    assert all(batch.X.dtype == np.float64 for batch in batches)
    np.testing.assert_array_equal(np.concatenate([b.X for b in batches]), expected)
    np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), frame["target"][:n_rows])
    assert batches[-1].position.rows == dataset.n_samples == min(n_rows, frame.height)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(frame=tables(), n_rows=st.integers(1, 20))
def test_as_published_each_column_of_the_whole_set_spans_0_to_1(put, frame, n_rows):
    put(frame)
    raw, _ = load("toy").to_arrays()
    scaled, _ = load("toy", preprocessing="as-published").to_arrays()
    np.testing.assert_allclose(scaled, MinMaxScaler().fit_transform(raw), atol=1e-12)
    np.testing.assert_array_equal(scaled.min(axis=0), 0.0)
    constant = raw.min(axis=0) == raw.max(axis=0)
    np.testing.assert_array_equal(scaled.max(axis=0), np.where(constant, 0.0, 1.0))
    cut, _ = load("toy", preprocessing="as-published", n_rows=n_rows).to_arrays()
    np.testing.assert_array_equal(cut, scaled[:n_rows])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    frame=tables(),
    seed=st.integers(0, 2**32),
    n_rows=st.integers(1, 12),
    fewer=st.integers(1, 12),
)
def test_a_sample_holds_rows_of_the_file_and_a_smaller_one_is_its_beginning(
    put, frame, seed, n_rows, fewer
):
    frame = frame.with_columns(number=pl.int_range(pl.len()))
    codes, _ = pd.factorize(frame["text"].to_numpy())  # of the file, whatever was drawn
    n_rows = min(n_rows, frame.height)
    put(frame, n_rows=n_rows)
    X, y = load("toy", seed=seed).to_arrays()
    rows = X[:, 1].astype(int)
    assert len(set(rows)) == len(rows) == n_rows
    np.testing.assert_array_equal(X[:, 0], codes[rows])
    np.testing.assert_array_equal(y, frame["target"].to_numpy()[rows])
    less, _ = load("toy", seed=seed, n_rows=fewer).to_arrays()
    np.testing.assert_array_equal(less, X[:fewer])
    if n_rows < frame.height:
        note = f"{n_rows} of {frame.height} rows, drawn with seed {seed}, in random order"
        assert note in load("toy", seed=seed).notes


def test_different_seeds_draw_different_samples_and_orders(put):
    frame = pl.DataFrame({"x": range(200), "target": [0, 1] * 100})
    put(frame, n_rows=100)
    a, b, again = (load("toy", seed=seed).to_arrays()[0] for seed in (1, 2, 1))
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, b)
    put(frame, sorted_by_class=True)
    a, b, again = (load("toy", seed=seed).to_arrays()[0] for seed in (1, 2, 1))
    np.testing.assert_array_equal(a, again)
    assert not np.array_equal(a, b)
    assert set(a[:, 0]) == set(range(200))


def test_the_global_random_state_is_neither_read_nor_moved(put):
    put(pl.DataFrame({"x": range(200), "target": [0, 1] * 100}), n_rows=100, sorted_by_class=True)
    before, ours = random.getstate(), np.random.get_state()  # noqa: NPY002
    load("toy", n_rows=10)
    assert random.getstate() == before
    np.testing.assert_array_equal(np.random.get_state()[1], ours[1])  # noqa: NPY002


def test_one_label_against_the_rest_and_only_some_of_them(put):
    frame = pl.DataFrame({"x": range(8), "target": ["a", "b", "c", "a", "b", "c", "a", "d"]})
    put(frame, positive="b")
    assert load("toy").to_arrays()[1].tolist() == [0, 1, 0, 0, 1, 0, 0, 0]
    assert load("toy", positive="a").to_arrays()[1].tolist() == [1, 0, 0, 1, 0, 0, 1, 0]
    dataset = load("toy", positive="c", labels=["c", "d"])
    X, y = dataset.to_arrays()
    assert (X[:, 0].tolist(), y.tolist()) == ([2.0, 5.0, 7.0], [1, 1, 0])
    assert dataset.schema.classes == (0, 1)
    assert dataset.notes == ("only rows labelled c and d", "1 is c, 0 the rest")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"positive": 11}, r'MNIST has no label "11"; it has 0, 1, .* 8 and 9'),
        ({"labels": [3, "x"]}, 'MNIST has no label "x"'),
        ({"labels": [3]}, r"labels must be two or more of those of MNIST, not \['3'\]"),
        ({"labels": []}, "labels must be two or more"),
        ({"labels": [8, 9]}, "the positive label, 3, is not one of 8 and 9"),
        ({"n_rows": 0}, "n_rows must be a whole number above 0, not 0"),
        ({"n_rows": 2.5}, "n_rows must be a whole number above 0"),
        ({"preprocessing": "none"}, "preprocessing must be online or as-published, not 'none'"),
    ],
)
def test_what_cannot_be_asked_for_is_one_line(options, message, nothing_at_hand):
    with pytest.raises(InputError, match=message) as caught:
        load("mnist", **options, download=False)
    assert not isinstance(caught.value, DataUnavailable)


def test_a_name_that_is_not_there_is_one_line():
    with pytest.raises(InputError, match=r'no data set "madelone"; did you mean Madelon\?'):
        load("madelone")
    with pytest.raises(InputError, match=r"there are HAR, Spambase, .* RBF and RTG"):
        load("quite another")
    with pytest.raises(InputError, match="RTG is generated: it has no other labels"):
        load("rtg", positive=0)


def test_what_must_not_be_downloaded_is_not(toy, server, cache_dir):
    with pytest.raises(DataUnavailable, match="downloading was not allowed"):
        load("toy", download=False)
    assert server.seen == []


# --- The catalogue and the real files ---------------------------------------------------------


def test_the_catalogue_is_the_paper_s_table():
    """Kind, rows and features; the paper counts one feature more in HAR."""
    paper = {
        "HAR": (10_299, 561, "cont."),
        "Spambase": (4_601, 57, "cont."),
        "Usenet": (5_931, 658, "cat."),
        "Gisette": (7_000, 5_000, "cont."),
        "Madelon": (2_600, 500, "cont."),
        "Dota": (100_000, 116, "cat."),
        "KDD": (100_000, 41, "cont., cat."),
        "MNIST": (70_000, 784, "cont."),
        "RBF": (10_000, 10_000, "cont."),
        "RTG": (10_000, 450, "cont., cat."),
    }
    ours = {i.name: (i.n_rows, i.n_features, i.kinds) for i in CATALOGUE.values()}
    assert ours == paper


@pytest.mark.parametrize("info", CATALOGUE.values(), ids=lambda info: info.name)
def test_the_facts_of_a_data_set_agree_with_each_other(info):
    assert info.licence
    assert info.source
    if info.whole is None:
        assert info.make is not None
        return
    assert info.whole.n_rows == info.n_rows or (info.sampled and info.name in ("Dota", "KDD"))
    assert info.positive in info.whole.counts
    assert info.one_against_rest or info.positive == max(info.whole.counts)
    assert (info.read is None) == (info.remotes == ()) == (info.name == "Usenet")
    for remote in info.remotes:
        assert remote.url.startswith("https://")
    # What is downloaded is checked before it is read, or when it has been.
    assert info.whole.digest or all(remote.sha256 for remote in info.remotes)


@pytest.mark.parametrize("info", AT_HAND, ids=lambda info: info.name)
def test_the_real_files_are_the_streams_of_the_paper(info):
    dataset = load(info.name, preprocessing="as-published", download=False)
    assert (dataset.n_samples, dataset.schema.n_features) == (info.n_rows, info.n_features)
    assert dataset.complete
    low, high = np.inf, -np.inf
    labels = []
    for batch in dataset.batches(5_000):
        low, high = np.minimum(low, batch.X.min(axis=0)), np.maximum(high, batch.X.max(axis=0))
        labels.append(batch.y)
    assert set(low) == {0.0}
    assert set(high) - {0.0} == {1.0}

    y = np.concatenate(labels)
    assert np.unique(y).tolist() == list(dataset.schema.classes)
    share = info.whole.counts[info.positive] / info.whole.n_rows
    assert (y == dataset.schema.classes[1]).mean() == pytest.approx(share, abs=0.005)
    assert np.count_nonzero(np.diff(y)) > 100


@pytest.mark.needs("dota")
def test_a_sample_of_a_real_file_holds_its_rows_once(real):
    frame = real("dota").cast(pl.Int16)
    X, y = load("dota", download=False).to_arrays(np.int16)
    names = frame.drop("target").columns
    chosen = pl.DataFrame(X, schema=names).with_columns(target=pl.Series(y.astype(np.int16)))
    assert Counter(chosen.hash_rows()) <= Counter(frame.select(chosen.columns).hash_rows())
    assert chosen.height == 100_000


@pytest.mark.needs("kdd")
def test_few_rows_of_kdd_are_like_many():
    _, y = load("kdd", download=False).to_arrays()
    few = load("kdd", n_rows=3_000, download=False)
    _, less = few.to_arrays()
    assert less.mean() == pytest.approx(y.mean(), abs=0.03)  # its first 3,000 are all normal
    assert 400 < np.count_nonzero(np.diff(less)) < 1_500  # in the file there are long runs
    assert few.notes[-3:] == (
        "100,000 of 494,021 rows, drawn with seed 0, in random order",
        "1 is normal, 0 the rest",
        "cut to 3,000 rows",
    )


@pytest.mark.needs("spambase")
def test_spambase_is_shuffled_whole(real):
    dataset = load("spambase", download=False)
    X, y = dataset.to_arrays()
    frame = real("spambase")
    assert np.count_nonzero(np.diff(frame["target"])) == 1
    assert np.count_nonzero(np.diff(y)) > 2_000
    assert dataset.notes == ("shuffled with seed 0, as the file is sorted by class",)
    rows = np.column_stack([X, y])
    original = frame.to_numpy()
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], original[np.lexsort(original.T)])


@pytest.mark.needs("mnist")
def test_mnist_3_8_and_9_with_any_of_them_against_the_others(real):
    dataset = load("mnist", positive=8, labels=(3, 8, 9), download=False)
    assert dataset.notes == ("only rows labelled 3, 8 and 9", "1 is 8, 0 the rest")
    frame = real("mnist").filter(pl.col("target").is_in([3, 8, 9]))
    X, y = dataset.to_arrays(np.uint8)
    np.testing.assert_array_equal(X, frame.drop("target").to_numpy())
    np.testing.assert_array_equal(y, frame["target"] == 8)
    assert (len(y), y.sum()) == (7_141 + 6_825 + 6_958, 6_825)


@pytest.mark.needs("mnist")
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_mnist_needs_no_gigabytes():
    code = (
        "from fires.bench.datasets.loading import load\n"
        "rows = sum(b.n_rows for b in load('mnist', preprocessing='as-published').batches(100))\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(rows, status['VmHWM'].split()[0])"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows, peak = map(int, output.split())
    assert rows == 70_000
    assert peak < 800_000  # kB, all libraries included; in float64 it would take 440,000 more


@pytest.mark.needs("gisette")
def test_gisette_is_incomplete_and_says_so():
    dataset = load("gisette", download=False)
    if not (DATA / "gisette.parquet").is_file():
        assert not dataset.complete
        assert dataset.n_samples == 1_000
        assert dataset.notes == ("incomplete: 1,000 of 7,000 rows",)
    assert dataset.schema.n_features == 5_000


def test_what_is_absent_leaves_the_others_usable(nothing_at_hand):
    usable = []
    for name in ("HAR", "RTG", "Usenet"):
        with contextlib.suppress(DataUnavailable):
            usable.append(load(name, n_rows=5, download=False).info.name)
    assert usable == ["RTG"]


# --- Generated --------------------------------------------------------------------------------


def test_generated_data_sets_have_the_paper_s_width_and_any_length():
    for name, width in (("rbf", 10_000), ("rtg", 450)):
        dataset = load(name, n_rows=12, seed=3)
        X, y = dataset.to_arrays()
        assert X.shape == (12, width)
        assert dataset.notes == ("generated with seed 3",)
        assert dataset.path is None
        assert not np.array_equal(X, load(name, n_rows=12, seed=4).to_arrays()[0])
        assert set(y) <= set(dataset.schema.classes)
        scaled = load(name, n_rows=12, seed=3, preprocessing="as-published")
        assert scaled.schema == dataset.schema
        expected = MinMaxScaler().fit_transform(X)
        np.testing.assert_allclose(scaled.to_arrays()[0], expected, atol=1e-5)
    assert load("rtg").n_samples == 10_000


def test_without_river_a_generated_data_set_is_unavailable_like_any_other(monkeypatch):
    monkeypatch.setattr(optional, "find_spec", lambda name: None)
    with pytest.raises(DataUnavailable, match=r"RandomTree needs river.*'\.\[river\]'"):
        load("rtg")
