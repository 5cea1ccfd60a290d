"""The paper's data sets. What needs the real files is skipped where they are not at hand."""

import contextlib
import errno
import gzip
import hashlib
import io
import os
import random
import socket
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import MinMaxScaler

from fires.core import optional, storage
from fires.streams import InputError, data_files, download
from fires.streams.catalogue import CATALOGUE, Info, Table
from fires.streams.data_files import DataUnavailable, digest, fetch, find, get
from fires.streams.datasets import describe, load
from fires.streams.download import Remote

DATA = Path(os.environ.get("FIRES_DATA_DIR") or "nowhere")
AT_HAND = [info for info in CATALOGUE.values() if info.table and (DATA / info.table.file).is_file()]


def needs(name):
    info = describe(name)
    files = [table.file for table in (info.table, info.part) if table]
    there = any((DATA / file).is_file() for file in files)
    return pytest.mark.skipif(not there, reason=f"{info.name} is not at hand")


def real(name):
    return pl.read_parquet(DATA / describe(name).table.file)


@pytest.fixture(autouse=True)
def cache_dir(tmp_path, monkeypatch):
    """No test sees what an earlier one, or a user, has downloaded."""
    monkeypatch.setenv("FIRES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nothing_at_hand(monkeypatch):
    monkeypatch.delenv("FIRES_DATA_DIR", raising=False)


# --- A server that can fail -------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        status, body, promised = self.server.answers.get(self.path, (404, b"gone", None))
        if status == "hang":
            self.server.released.wait(30)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """HTTP on this machine: ``answers[path] = (status, body, length it promises)``."""
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.answers, server.seen = {}, []
        server.released = threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


TOY = b"1,red,10\n0,blue,20\n1,red,30\n0,green,15\n"
OTHER = TOY.replace(b"green", b"black")


def read_toy(files):
    names = ["target", "colour", "size"]
    frame = pl.read_csv(b"".join(files), has_header=False, new_columns=names)
    return frame.select("colour", "size", "target")


@pytest.fixture
def toy(server, monkeypatch, nothing_at_hand):
    """A data set of four rows in two files on the server, in the catalogue for a while."""
    half = len(TOY) // 2 + 1
    parts = {"/a.csv": TOY[:half], "/b.csv": TOY[half:]}
    for path, body in parts.items():
        server.answers[path] = (200, body, None)
    info = Info(
        name="Toy",
        n_rows=4,
        n_features=2,
        kinds="cont., cat.",
        positive=1,
        source="a server",
        licence="none",
        table=Table("toy.parquet", 2, {0: 2, 1: 2}, digest(read_toy([TOY]))),
        remotes=tuple(
            Remote(server.url + path, hashlib.sha256(body).hexdigest())
            for path, body in parts.items()
        ),
        read=read_toy,
    )
    monkeypatch.setitem(CATALOGUE, "toy", info)
    return info


def change(monkeypatch, info, **changes):
    changed = replace(info, **changes)
    monkeypatch.setitem(CATALOGUE, info.name.lower(), changed)
    return changed


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


def damage(kind, server, info, monkeypatch):
    """Let the second of two files fail; return what the message must say."""
    body = server.answers["/b.csv"][1]
    if kind == "wrong checksum":
        server.answers["/b.csv"] = (200, OTHER[-len(body) :], None)
        return "SHA-256 is wrong"
    if kind == "truncated":
        server.answers["/b.csv"] = (200, body[:-5], len(body))
        return "IncompleteRead"
    if kind == "truncated, and the length says nothing":
        server.answers["/b.csv"] = (200, body[:-5], None)
        return "SHA-256 is wrong"
    if kind == "404":
        del server.answers["/b.csv"]
        return "404 Not Found"
    if kind == "500":
        server.answers["/b.csv"] = (500, b"oh", None)
        return "500 Internal Server Error"
    if kind == "no answer":
        monkeypatch.setattr(download, "_TIMEOUT", 0.2)
        server.answers["/b.csv"] = ("hang", b"", None)
        return "timed out"
    unknown = tuple(Remote(remote.url) for remote in info.remotes)
    if kind == "not the format, checksum unknown":
        change(monkeypatch, info, remotes=unknown)
        server.answers["/b.csv"] = (200, b"<html>\nPlease, log, in, first\n</html>", None)
        return "sends something else"
    if kind == "another value, checksum unknown":
        change(monkeypatch, info, remotes=unknown)
        server.answers["/b.csv"] = (200, OTHER[-len(body) :], None)
        return "names or values are others"
    assert kind == "no network"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/b.csv"
    closed = Remote(url, info.remotes[1].sha256)
    change(monkeypatch, info, remotes=(info.remotes[0], closed))
    return "refused"


@pytest.mark.parametrize(
    "kind",
    [
        "wrong checksum",
        "truncated",
        "truncated, and the length says nothing",
        "404",
        "500",
        "no answer",
        "not the format, checksum unknown",
        "another value, checksum unknown",
        "no network",
    ],
)
def test_a_download_that_fails_is_one_line_and_leaves_nothing(
    kind, toy, server, cache_dir, monkeypatch
):
    good = dict(server.answers)
    expected = damage(kind, server, toy, monkeypatch)
    with pytest.raises(DataUnavailable) as caught:
        load("toy")
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message
    if "values" not in expected:
        assert message.startswith(f"Toy is not at hand: there is no toy.parquet in {cache_dir};")
        assert message.endswith('"fires data get Toy" makes that file where there is a network')
    assert not cache_dir.exists() or list(cache_dir.iterdir()) == []

    server.answers.update(good)
    monkeypatch.setitem(CATALOGUE, "toy", toy)
    assert load("toy").n_samples == 4


def test_a_download_that_fails_leaves_what_was_there(toy, server, monkeypatch):
    path = fetch(toy)
    before = path.read_bytes()
    damage("truncated", server, toy, monkeypatch)
    with pytest.raises(DataUnavailable):
        fetch(toy)
    assert path.read_bytes() == before
    assert load("toy").n_samples == 4


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), None])
def test_a_file_that_cannot_be_written_whole_is_not_written(fault, toy, cache_dir, monkeypatch):
    def fail(*_):
        raise fault or KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(storage.os, "replace", fail)
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


def test_the_user_s_own_file_is_used_first_and_never_written(toy, server, tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    fetch(toy)
    monkeypatch.setenv("FIRES_DATA_DIR", str(folder))
    assert load("toy").path.parent != folder
    read_toy([TOY]).write_parquet(folder / "toy.parquet")
    assert load("toy").path == get(toy) == folder / "toy.parquet"

    read_toy([OTHER]).write_parquet(folder / "toy.parquet")
    before, seen = (folder / "toy.parquet").read_bytes(), len(server.seen)
    for call in (lambda: load("toy"), lambda: get(toy)):
        with pytest.raises(DataUnavailable, match=r"data/toy\.parquet is not the Toy of the"):
            call()
    assert (folder / "toy.parquet").read_bytes() == before
    assert len(server.seen) == seen


def test_a_part_is_used_where_the_whole_is_not_at_hand(toy, server, tmp_path, monkeypatch):
    part = read_toy([TOY])[:2]
    part.write_parquet(tmp_path / "part.parquet")
    monkeypatch.setenv("FIRES_DATA_DIR", str(tmp_path))
    table = Table("part.parquet", 2, {0: 1, 1: 1}, digest(part))
    info = change(monkeypatch, toy, part=table)

    dataset = load("toy")
    assert not dataset.complete
    assert dataset.n_samples == 2
    assert "incomplete: 2 of 4 rows" in dataset.notes
    assert server.seen == []
    get(info)  # is after the whole
    assert load("toy").complete


def test_what_must_not_be_downloaded_is_not(toy, server, cache_dir):
    with pytest.raises(DataUnavailable, match="it was not to be downloaded"):
        load("toy", download=False)
    assert server.seen == []


@pytest.mark.parametrize(
    ("frame", "difference"),
    [
        (lambda f: f[:3], "it has 3 rows, not 4"),
        (lambda f: f.drop("size"), "it has 1 features, not 2"),
        (lambda f: f.rename({"target": "label"}), 'it has no column "target"'),
        (lambda f: f.with_columns(target=pl.lit(1)), '0 rows have the label "0", not 2'),
        (lambda f: f.rename({"size": "width"}), "names or values are others"),
        (lambda f: f[::-1], "names or values are others"),
        (
            lambda f: f.with_columns(size=pl.Series([1, None, None, 2])),
            '2 values of "size" are missing',
        ),
    ],
)
def test_a_file_that_holds_something_else_is_refused(frame, difference, toy, cache_dir):
    cache_dir.mkdir()
    frame(read_toy([TOY])).write_parquet(cache_dir / "toy.parquet")
    with pytest.raises(DataUnavailable) as caught:
        load("toy")
    where = cache_dir / "toy.parquet"
    assert str(caught.value).startswith(f"{where} is not the Toy of the catalogue: {difference}")


def test_a_data_set_without_a_server_asks_for_its_file(nothing_at_hand, cache_dir):
    for call in (lambda: load("usenet"), lambda: get(describe("usenet"))):
        with pytest.raises(DataUnavailable) as caught:
            call()
        assert str(caught.value) == (
            f"Usenet is not at hand: there is no usenet.parquet in {cache_dir}; no server is known "
            "to have it; put the file there, or name its folder in FIRES_DATA_DIR"
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


# --- What is published, read ------------------------------------------------------------------


def text_of(X):
    """Numbers as the NIPS 2003 challenge wrote them: a blank after each."""
    return "".join(" ".join(map(str, row)) + " \n" for row in X.tolist()).encode()


def lines_of(y):
    return "".join(f"{label}\n" for label in y.tolist()).encode()


def zipped(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def serve(server, monkeypatch, info, bodies):
    """The published files of a data set from this machine, their checksums kept."""
    remotes = []
    for number, (remote, body) in enumerate(zip(info.remotes, bodies, strict=True)):
        server.answers[f"/{number}"] = (200, body, None)
        remotes.append(replace(remote, url=f"{server.url}/{number}"))
    return change(monkeypatch, info, remotes=tuple(remotes))


@needs("madelon")
def test_madelon_as_published_byte_by_byte_becomes_the_table(server, monkeypatch):
    frame = real("madelon")
    X, y = frame.drop("target").to_numpy(), frame["target"].to_numpy()
    bodies = [text_of(X[:2000]), lines_of(y[:2000]), text_of(X[2000:]), lines_of(y[2000:])]
    info = serve(server, monkeypatch, describe("madelon"), bodies)
    made = pl.read_parquet(fetch(info))
    assert made.equals(frame)


@needs("spambase")
def test_spambase_as_published_byte_by_byte_becomes_the_table(server, monkeypatch):
    frame = real("spambase")
    rows = [",".join(f"{float(str(value)):g}" for value in row) for row in frame.to_numpy()]
    body = "".join(row + "\r\n" for row in rows).encode()
    info = serve(server, monkeypatch, describe("spambase"), [body])
    made = pl.read_parquet(fetch(info))
    assert made.equals(frame)


@needs("gisette")
def test_the_part_of_gisette_is_what_was_published():
    info = describe("gisette")
    frame = pl.read_parquet(DATA / info.part.file)
    bodies = text_of(frame.drop("target").to_numpy()), lines_of(frame["target"].to_numpy())
    found = [hashlib.sha256(body).hexdigest() for body in bodies]
    assert found == [remote.sha256 for remote in info.remotes[2:]]


def test_gisette_and_madelon_are_the_rows_to_train_with_then_those_to_validate_with():
    X = np.arange(12).reshape(4, 3)
    bodies = [text_of(X[:3]), b"1\n-1\n-1\n", text_of(X[3:]), b"1\n"]
    frame = download.read_nips(bodies)
    assert frame.columns == ["x1", "x2", "x3", "target"]
    np.testing.assert_array_equal(frame.drop("target").to_numpy(), X)
    assert frame["target"].to_list() == [1, -1, -1, 1]


def test_dota_is_a_zip_of_two_files_with_the_winner_first():
    train, test = "-1,223,2,2,0,-1\n1,152,2,2,1,0\n", "1,131,8,3,0,0\n"
    body = zipped({"dota2Test.csv": test, "dota2Train.csv": train})
    frame = download.read_dota([body])
    assert frame.columns == ["cluster_id", "game_mode", "game_type", "hero_1", "hero_2", "target"]
    assert frame["cluster_id"].to_list() == [223, 152, 131]
    assert frame["target"].to_list() == [-1, 1, 1]


def test_kdd_is_packed_text_with_a_full_stop_after_the_label():
    numbers = ",".join(["0.33"] * 37)
    body = gzip.compress(
        f"0,tcp,http,SF,{numbers},normal.\n5,udp,dns,REJ,{numbers},smurf.\n".encode()
    )
    frame = download.read_kdd([body])
    assert frame.width == 42
    assert frame["protocol_type"].to_list() == ["tcp", "udp"]
    assert frame["target"].to_list() == ["normal", "smurf"]
    assert frame["dst_host_srv_rerror_rate"].dtype == pl.Float32


@needs("kdd")
def test_rows_of_kdd_as_published_become_those_of_the_table():
    frame = real("kdd")[::500]
    rates = frame.select(pl.selectors.float()).columns
    text = frame.with_columns(
        pl.col(rates).cast(pl.String).cast(pl.Float64),
        pl.selectors.categorical().cast(pl.String),
    ).with_columns(pl.col("target") + ".")
    body = gzip.compress(text.write_csv(include_header=False).encode(), 1)
    assert digest(download.read_kdd([body])) == digest(frame)


@needs("dota")
def test_rows_of_dota_as_published_become_those_of_the_table():
    frame = real("dota")[::500]
    train, test = (
        part.select("target", pl.exclude("target")).write_csv(include_header=False)
        for part in (frame[:150], frame[150:])
    )
    body = zipped({"dota2Train.csv": train, "dota2Test.csv": test})
    assert digest(download.read_dota([body])) == digest(frame)


def test_mnist_is_four_packed_files_of_bytes():
    images = np.arange(3 * 784).reshape(3, 784).astype(np.uint8)
    bodies = [
        gzip.compress(bytes(16) + images[:2].tobytes()),
        gzip.compress(bytes(8) + bytes([5, 0])),
        gzip.compress(bytes(16) + images[2:].tobytes()),
        gzip.compress(bytes(8) + bytes([9])),
    ]
    frame = download.read_mnist(bodies)
    assert frame.columns == [*(f"p{pixel}" for pixel in range(784)), "target"]
    np.testing.assert_array_equal(frame.drop("target").to_numpy(), images)
    assert frame["target"].to_list() == [5, 0, 9]


def test_har_is_a_zip_of_texts_with_names_that_repeat():
    folder = "UCI HAR Dataset"
    body = zipped(
        {
            f"{folder}/features.txt": "1 fBody-energy()-1,8\n2 fBody-energy()-1,8\n",
            f"{folder}/activity_labels.txt": "1 WALKING\n2 WALKING_UPSTAIRS\n6 LAYING\n",
            f"{folder}/train/X_train.txt": "  2.5e-001 -1.0e+000\n -5.0e-001  1.0e+000\n",
            f"{folder}/train/y_train.txt": "6\n1\n",
            f"{folder}/test/X_test.txt": "  1.25e-001  0.0e+000\n",
            f"{folder}/test/y_test.txt": "2\n",
        }
    )
    frame = download.read_har([body])
    assert frame.columns == ["1 fBody-energy()-1,8", "2 fBody-energy()-1,8", "target"]
    np.testing.assert_array_equal(
        frame.drop("target").to_numpy(), [[0.25, -1.0], [-0.5, 1.0], [0.125, 0.0]]
    )
    assert frame["target"].to_list() == ["LAYING", "WALKING", "WALKING_UPSTAIRS"]


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
def put(tmp_path, monkeypatch, nothing_at_hand):
    """Make a table into the data set "toy"."""
    folder = tmp_path / "cache"
    folder.mkdir()

    def put(frame, **changes):
        frame.write_parquet(folder / "toy.parquet")
        counts = dict(frame["target"].value_counts().iter_rows())
        table = Table("toy.parquet", frame.width - 1, counts, digest(frame))
        n_features = frame.width - 1
        info = Info("Toy", frame.height, n_features, "", 1, "", "", table=table)
        return change(monkeypatch, info, **changes)

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


@pytest.mark.parametrize("preprocessing", ["online", "as-published"])
def test_a_block_that_a_batch_was_cut_from_holds_its_rows(put, preprocessing):
    """Consumers may read the rows to come from it, so they must be those of the batches."""
    put(pl.DataFrame({"x": [3.5, 1.5, 2.5, 9.5], "z": [0.5, 1.0, 1.5, 0.0], "target": [0, 1] * 2}))
    for batch in load("toy", preprocessing=preprocessing).batches(2):
        if batch.block is not None:
            rows = slice(batch.start, batch.start + batch.n_rows)
            np.testing.assert_array_equal(batch.block.X[rows], batch.X)
            np.testing.assert_array_equal(batch.block.y[rows], batch.y)


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
    if info.table is None:
        assert info.make is not None
        return
    assert info.table.n_features == info.n_features
    assert info.table.n_rows == info.n_rows or (info.sampled and info.name in ("Dota", "KDD"))
    assert info.positive in info.table.counts
    assert info.one_against_rest or info.positive == max(info.table.counts)
    assert (info.read is None) == (info.remotes == ()) == (info.name == "Usenet")
    for remote in info.remotes:
        assert remote.url.startswith("https://")
    # What is downloaded is checked before it is read, or when it has been.
    assert info.table.digest or all(remote.sha256 for remote in info.remotes)


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
    share = info.table.counts[info.positive] / info.table.n_rows
    assert (y == dataset.schema.classes[1]).mean() == pytest.approx(share, abs=0.005)
    assert np.count_nonzero(np.diff(y)) > 100


@needs("dota")
def test_a_sample_of_a_real_file_holds_its_rows_once():
    frame = real("dota").cast(pl.Int16)
    X, y = load("dota", download=False).to_arrays(np.int16)
    names = frame.drop("target").columns
    chosen = pl.DataFrame(X, schema=names).with_columns(target=pl.Series(y.astype(np.int16)))
    assert Counter(chosen.hash_rows()) <= Counter(frame.select(chosen.columns).hash_rows())
    assert chosen.height == 100_000


@needs("kdd")
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


@needs("spambase")
def test_spambase_is_shuffled_whole():
    dataset = load("spambase", download=False)
    X, y = dataset.to_arrays()
    frame = real("spambase")
    assert np.count_nonzero(np.diff(frame["target"])) == 1
    assert np.count_nonzero(np.diff(y)) > 2_000
    assert dataset.notes == ("shuffled with seed 0, as the file is sorted by class",)
    rows = np.column_stack([X, y])
    original = frame.to_numpy()
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], original[np.lexsort(original.T)])


@needs("mnist")
def test_mnist_3_8_and_9_with_any_of_them_against_the_others():
    dataset = load("mnist", positive=8, labels=(3, 8, 9), download=False)
    assert dataset.notes == ("only rows labelled 3, 8 and 9", "1 is 8, 0 the rest")
    frame = real("mnist").filter(pl.col("target").is_in([3, 8, 9]))
    X, y = dataset.to_arrays(np.uint8)
    np.testing.assert_array_equal(X, frame.drop("target").to_numpy())
    np.testing.assert_array_equal(y, frame["target"] == 8)
    assert (len(y), y.sum()) == (7_141 + 6_825 + 6_958, 6_825)


@needs("mnist")
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_mnist_needs_no_gigabytes():
    code = (
        "from fires.streams.datasets import load\n"
        "rows = sum(b.n_rows for b in load('mnist', preprocessing='as-published').batches(100))\n"
        "status = dict(line.split(':', 1) for line in open('/proc/self/status'))\n"
        "print(rows, status['VmHWM'].split()[0])"
    )
    command = [sys.executable, "-W", "ignore", "-c", code]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    rows, peak = map(int, output.split())
    assert rows == 70_000
    assert peak < 800_000  # kB, all libraries included; in float64 it would take 440,000 more


@needs("gisette")
def test_gisette_is_incomplete_and_says_so():
    dataset = load("gisette", download=False)
    if not (DATA / "gisette.parquet").is_file():
        assert not dataset.complete
        assert dataset.n_samples == 1_000
        assert dataset.notes == ("incomplete: 1,000 of 7,000 rows",)
    assert dataset.schema.n_features == 5_000


@needs("spambase")
def test_one_bit_that_the_reader_does_not_notice_is_noticed(cache_dir, nothing_at_hand):
    """Parquet pages have no checksum here; polars reads another number and says nothing."""
    content = bytearray((DATA / "spambase.parquet").read_bytes())
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
    with pytest.raises(DataUnavailable, match=r"RandomTree needs river.*'fires\[river\]'"):
        load("rtg")


def test_find_sees_nothing_where_nothing_is(nothing_at_hand):
    assert all(find(info) is None for info in CATALOGUE.values())
