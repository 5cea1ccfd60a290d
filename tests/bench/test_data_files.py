"""The files of the data sets: where they are looked for, made, kept, and refused."""

import errno
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fires.bench.datasets import files as data_files
from fires.bench.datasets.catalogue import CATALOGUE, DataFile
from fires.bench.datasets.files import DataUnavailable, digest, fetch, find, get
from fires.bench.datasets.loading import describe, load

pytestmark = pytest.mark.usefixtures("cache_dir")


def test_what_is_not_at_hand_is_downloaded_once_and_found_afterwards(toy, server, cache_dir):
    dataset = load("toy")
    X, y = dataset.to_arrays()
    np.testing.assert_array_equal(X, [[0, 10], [1, 20], [0, 30], [2, 15]])
    np.testing.assert_array_equal(y, [1, 0, 1, 0])
    assert dataset.path == cache_dir / "toy.parquet"
    assert dataset.complete
    assert [file.name for file in cache_dir.iterdir()] == ["toy.parquet"]
    assert server.seen == ["/a.csv", "/b.csv"]

    server.answers.clear()
    np.testing.assert_array_equal(load("toy").to_arrays()[0], X)
    assert get(toy) == dataset.path
    assert len(server.seen) == 2


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), None])
def test_a_file_that_cannot_be_written_whole_is_not_written(fault, toy, cache_dir, monkeypatch):
    def fail(*_):
        raise fault or KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("fires.core.state.os.replace", fail)
        with pytest.raises(KeyboardInterrupt if fault is None else DataUnavailable) as caught:
            load("toy")
    if fault:
        path = cache_dir / "toy.parquet"
        assert str(caught.value) == f"Toy cannot be written to {path}: No space left on device"
    assert list(cache_dir.iterdir()) == []
    assert load("toy").n_samples == 4


def test_a_cache_that_cannot_be_made_is_one_line(toy, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FIRES_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataUnavailable, match=r"Toy cannot be written to .*: Not a directory"):
        load("toy")


def test_a_damaged_file_in_the_cache_is_refused_and_get_replaces_it(toy, server, cache_dir):
    path = fetch(toy)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataUnavailable, match=r"toy\.parquet cannot be read: ") as caught:
        load("toy")
    assert "\n" not in str(caught.value)
    told = []
    assert get(toy, told.append) == path
    assert told == [remote.url for remote in toy.remotes]
    assert load("toy").n_samples == 4


def test_the_user_s_own_file_is_used_first_and_never_written(
    toy, server, tmp_path, monkeypatch, toy_text
):
    folder = tmp_path / "data"
    folder.mkdir()
    fetch(toy)
    monkeypatch.setenv("FIRES_DATA_DIR", str(folder))
    assert load("toy").path.parent != folder
    toy.read([toy_text]).write_parquet(folder / "toy.parquet")
    assert load("toy").path == get(toy) == folder / "toy.parquet"

    toy.read([toy_text.replace(b"green", b"black")]).write_parquet(folder / "toy.parquet")
    before, seen = (folder / "toy.parquet").read_bytes(), len(server.seen)
    for call in (lambda: load("toy"), lambda: get(toy)):
        with pytest.raises(DataUnavailable, match=r"data/toy\.parquet is not the Toy of the"):
            call()
    assert (folder / "toy.parquet").read_bytes() == before
    assert len(server.seen) == seen


def test_a_part_is_used_where_the_whole_is_not_at_hand(
    toy, server, tmp_path, monkeypatch, change, toy_text
):
    part = toy.read([toy_text])[:2]
    part.write_parquet(tmp_path / "part.parquet")
    monkeypatch.setenv("FIRES_DATA_DIR", str(tmp_path))
    table = DataFile("part.parquet", {0: 1, 1: 1}, digest(part))
    info = change(toy, part=table)

    dataset = load("toy")
    assert not dataset.complete
    assert dataset.n_samples == 2
    assert "incomplete: 2 of 4 rows" in dataset.notes
    assert server.seen == []
    get(info)  # is after the whole
    assert load("toy").complete


@pytest.mark.parametrize(
    ("frame", "difference"),
    [
        (lambda f: f[:3], "it has 3 rows, not 4"),
        (lambda f: f.drop("size"), "it has 1 features, not 2"),
        (lambda f: f.rename({"target": "label"}), 'it has no column "target"'),
        (lambda f: f.with_columns(target=pl.lit(1)), '0 rows have the label "0", not 2'),
        (lambda f: f.rename({"size": "width"}), "names or values differ"),
        (lambda f: f[::-1], "names or values differ"),
        (
            lambda f: f.with_columns(size=pl.Series([1, None, None, 2])),
            '2 values of "size" are missing',
        ),
    ],
)
def test_a_file_that_holds_something_else_is_refused(frame, difference, toy, cache_dir, toy_text):
    cache_dir.mkdir()
    frame(toy.read([toy_text])).write_parquet(cache_dir / "toy.parquet")
    with pytest.raises(DataUnavailable) as caught:
        load("toy")
    where = cache_dir / "toy.parquet"
    assert str(caught.value).startswith(f"{where} is not the Toy of the catalogue: {difference}")


def test_a_data_set_without_a_server_asks_for_its_file(nothing_at_hand, cache_dir):
    for call in (lambda: load("usenet"), lambda: get(describe("usenet"))):
        with pytest.raises(DataUnavailable) as caught:
            call()
        assert str(caught.value) == (
            f"Usenet is not available: there is no usenet.parquet in {cache_dir}; no server is "
            "known to have it; put the file there, or name its folder in FIRES_DATA_DIR"
        )


def test_the_folders_are_those_of_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRES_DATA_DIR", "")
    assert data_files.data_folder() is None
    monkeypatch.setenv("FIRES_DATA_DIR", "~/data")
    assert data_files.data_folder() == Path.home() / "data"
    monkeypatch.delenv("FIRES_CACHE_DIR")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    for platform, variable, usual in [
        ("linux", "XDG_CACHE_HOME", ".cache"),
        ("darwin", "XDG_CACHE_HOME", "Library/Caches"),
        ("win32", "LOCALAPPDATA", "AppData/Local"),
    ]:
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.delenv(variable, raising=False)
        assert data_files.cache_folder() == tmp_path / usual / "fires"
        monkeypatch.setenv(variable, str(tmp_path / "x"))
        assert data_files.cache_folder() == tmp_path / "x" / "fires"


@pytest.mark.needs("spambase")
def test_one_bit_that_the_reader_does_not_notice_is_noticed(cache_dir, nothing_at_hand, data_dir):
    """Parquet pages have no checksum here; polars reads another number and says nothing."""
    content = bytearray((data_dir / "spambase.parquet").read_bytes())
    cache_dir.mkdir()
    unnoticed = 0
    for place in range(4_900, 5_100, 10):
        content[place] ^= 1
        (cache_dir / "spambase.parquet").write_bytes(content)
        try:
            pl.read_parquet(cache_dir / "spambase.parquet")
            unnoticed += 1
        except pl.exceptions.PolarsError:
            pass
        with pytest.raises(DataUnavailable):
            load("spambase", download=False)
        content[place] ^= 1
    assert unnoticed > 0


def test_find_sees_nothing_where_nothing_is(nothing_at_hand):
    assert all(find(info) is None for info in CATALOGUE.values())
