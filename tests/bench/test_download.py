"""What is downloaded: servers that fail, and the files that are published."""

import gzip
import hashlib
import io
import socket
import zipfile
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from fires.bench.datasets import files
from fires.bench.datasets.catalogue import CATALOGUE, READERS, Remote
from fires.bench.datasets.files import DataUnavailable, digest, fetch
from fires.bench.datasets.loading import describe, load

pytestmark = pytest.mark.usefixtures("cache_dir")


def damage(kind, server, info, change, monkeypatch):
    """Let the second of two files fail; return what the message must say."""
    body = server.answers["/b.csv"][1]
    if kind == "wrong checksum":
        server.answers["/b.csv"] = (200, body.replace(b"green", b"black"), None)
        return "SHA-256 mismatch"
    if kind == "truncated":
        server.answers["/b.csv"] = (200, body[:-5], len(body))
        return "IncompleteRead"
    if kind == "truncated, and the length says nothing":
        server.answers["/b.csv"] = (200, body[:-5], None)
        return "SHA-256 mismatch"
    if kind == "404":
        del server.answers["/b.csv"]
        return "404 Not Found"
    if kind == "500":
        server.answers["/b.csv"] = (500, b"oh", None)
        return "500 Internal Server Error"
    if kind == "no answer":
        monkeypatch.setattr(files, "_TIMEOUT", 0.2)
        server.answers["/b.csv"] = ("hang", b"", None)
        return "timed out"
    unknown = tuple(Remote(remote.url) for remote in info.remotes)
    if kind == "not the format, checksum unknown":
        change(info, remotes=unknown)
        server.answers["/b.csv"] = (200, b"<html>\nPlease, log, in, first\n</html>", None)
        return "sends something else"
    if kind == "another value, checksum unknown":
        change(info, remotes=unknown)
        server.answers["/b.csv"] = (200, body.replace(b"green", b"black"), None)
        return "names or values differ"
    assert kind == "no network"
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}/b.csv"
    closed = Remote(url, info.remotes[1].sha256)
    change(info, remotes=(info.remotes[0], closed))
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
    kind, toy, server, cache_dir, change, monkeypatch
):
    good = dict(server.answers)
    expected = damage(kind, server, toy, change, monkeypatch)
    with pytest.raises(DataUnavailable) as caught:
        load("toy")
    message = str(caught.value)
    assert expected in message
    assert "\n" not in message
    if "values" not in expected:
        assert message.startswith(f"Toy is not available: there is no toy.parquet in {cache_dir};")
        assert message.endswith('"fires data get Toy" makes that file where there is a network')
    assert not cache_dir.exists() or list(cache_dir.iterdir()) == []

    server.answers.update(good)
    monkeypatch.setitem(CATALOGUE, "toy", toy)
    assert load("toy").n_samples == 4


def test_a_download_that_fails_leaves_what_was_there(toy, server, change, monkeypatch):
    path = fetch(toy)
    before = path.read_bytes()
    damage("truncated", server, toy, change, monkeypatch)
    with pytest.raises(DataUnavailable):
        fetch(toy)
    assert path.read_bytes() == before
    assert load("toy").n_samples == 4


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


def serve(server, change, info, bodies):
    """The published files of a data set from this machine, their checksums kept."""
    remotes = []
    for number, (remote, body) in enumerate(zip(info.remotes, bodies, strict=True)):
        server.answers[f"/{number}"] = (200, body, None)
        remotes.append(replace(remote, url=f"{server.url}/{number}"))
    return change(info, remotes=tuple(remotes))


@pytest.mark.needs("madelon")
def test_madelon_as_published_byte_by_byte_becomes_the_table(server, change, real):
    frame = real("madelon")
    X, y = frame.drop("target").to_numpy(), frame["target"].to_numpy()
    bodies = [text_of(X[:2000]), lines_of(y[:2000]), text_of(X[2000:]), lines_of(y[2000:])]
    info = serve(server, change, describe("madelon"), bodies)
    made = pl.read_parquet(fetch(info))
    assert made.equals(frame)


@pytest.mark.needs("spambase")
def test_spambase_as_published_byte_by_byte_becomes_the_table(server, change, real):
    frame = real("spambase")
    rows = [",".join(f"{float(str(value)):g}" for value in row) for row in frame.to_numpy()]
    body = "".join(row + "\r\n" for row in rows).encode()
    info = serve(server, change, describe("spambase"), [body])
    made = pl.read_parquet(fetch(info))
    assert made.equals(frame)


@pytest.mark.needs("gisette")
def test_the_part_of_gisette_is_what_was_published(data_dir):
    info = describe("gisette")
    frame = pl.read_parquet(data_dir / info.part.file)
    bodies = text_of(frame.drop("target").to_numpy()), lines_of(frame["target"].to_numpy())
    found = [hashlib.sha256(body).hexdigest() for body in bodies]
    assert found == [remote.sha256 for remote in info.remotes[2:]]


def test_gisette_and_madelon_are_the_rows_to_train_with_then_those_to_validate_with():
    X = np.arange(12).reshape(4, 3)
    bodies = [text_of(X[:3]), b"1\n-1\n-1\n", text_of(X[3:]), b"1\n"]
    frame = READERS["Madelon"](bodies)
    assert frame.columns == ["x1", "x2", "x3", "target"]
    np.testing.assert_array_equal(frame.drop("target").to_numpy(), X)
    assert frame["target"].to_list() == [1, -1, -1, 1]


def test_dota_is_a_zip_of_two_files_with_the_winner_first():
    train, test = "-1,223,2,2,0,-1\n1,152,2,2,1,0\n", "1,131,8,3,0,0\n"
    body = zipped({"dota2Test.csv": test, "dota2Train.csv": train})
    frame = READERS["Dota"]([body])
    assert frame.columns == ["cluster_id", "game_mode", "game_type", "hero_1", "hero_2", "target"]
    assert frame["cluster_id"].to_list() == [223, 152, 131]
    assert frame["target"].to_list() == [-1, 1, 1]


def test_kdd_is_packed_text_with_a_full_stop_after_the_label():
    numbers = ",".join(["0.33"] * 37)
    body = gzip.compress(
        f"0,tcp,http,SF,{numbers},normal.\n5,udp,dns,REJ,{numbers},smurf.\n".encode()
    )
    frame = READERS["KDD"]([body])
    assert frame.width == 42
    assert frame["protocol_type"].to_list() == ["tcp", "udp"]
    assert frame["target"].to_list() == ["normal", "smurf"]
    assert frame["dst_host_srv_rerror_rate"].dtype == pl.Float32


@pytest.mark.needs("kdd")
def test_rows_of_kdd_as_published_become_those_of_the_table(real):
    frame = real("kdd")[::500]
    rates = frame.select(pl.selectors.float()).columns
    text = frame.with_columns(
        pl.col(rates).cast(pl.String).cast(pl.Float64),
        pl.selectors.categorical().cast(pl.String),
    ).with_columns(pl.col("target") + ".")
    body = gzip.compress(text.write_csv(include_header=False).encode(), 1)
    assert digest(READERS["KDD"]([body])) == digest(frame)


@pytest.mark.needs("dota")
def test_rows_of_dota_as_published_become_those_of_the_table(real):
    frame = real("dota")[::500]
    train, test = (
        part.select("target", pl.exclude("target")).write_csv(include_header=False)
        for part in (frame[:150], frame[150:])
    )
    body = zipped({"dota2Train.csv": train, "dota2Test.csv": test})
    assert digest(READERS["Dota"]([body])) == digest(frame)


def test_mnist_is_four_packed_files_of_bytes():
    images = np.arange(3 * 784).reshape(3, 784).astype(np.uint8)
    bodies = [
        gzip.compress(bytes(16) + images[:2].tobytes()),
        gzip.compress(bytes(8) + bytes([5, 0])),
        gzip.compress(bytes(16) + images[2:].tobytes()),
        gzip.compress(bytes(8) + bytes([9])),
    ]
    frame = READERS["MNIST"](bodies)
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
    frame = READERS["HAR"]([body])
    assert frame.columns == ["1 fBody-energy()-1,8", "2 fBody-energy()-1,8", "target"]
    np.testing.assert_array_equal(
        frame.drop("target").to_numpy(), [[0.25, -1.0], [-0.5, 1.0], [0.125, 0.0]]
    )
    assert frame["target"].to_list() == ["LAYING", "WALKING", "WALKING_UPSTAIRS"]
