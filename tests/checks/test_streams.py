"""Every stream keeps the contract of ``fires.checks``, and a broken one is told so."""

import gzip
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from fires.checks import check_stream, stream_checks
from fires.streams import (
    DriftingFeatures,
    KnownTruth,
    RandomRBF,
    RandomTree,
    SignProduct,
    SparseWide,
    from_arrays,
    from_file,
)
from fires.streams.arrays import ArrayStream

X = np.arange(380.0).reshape(95, 4) % 7.0
Y = np.where(X[:, 1] > 3, "yes", "no")
MADE = {
    "arrays": lambda: from_arrays(X, Y, classes=["no", "yes"]),
    "columns": lambda: from_arrays(np.asfortranarray(X), Y),
    "ints": lambda: from_arrays(X.astype(int), X[:, 0]),
    "CSR": lambda: from_arrays(sp.csr_array(X), Y),
    "frame": lambda: from_arrays(pl.DataFrame(X, schema=list("abcd")), Y),
    "known truth": lambda: KnownTruth(95, 5, 2),
    "drift": lambda: DriftingFeatures(95, 6, 2),
    "sign product": lambda: SignProduct(95, 5),
    "sparse and wide": lambda: SparseWide(95, 1_000),
}
if find_spec("river"):
    MADE |= {"RBF": lambda: RandomRBF(95), "tree": lambda: RandomTree(95)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One table in all kinds of files."""
    path = tmp_path_factory.mktemp("tables")
    table = pl.DataFrame(X, schema=list("abcd")).with_columns(label=pl.Series(Y))
    table.write_csv(path / "table.csv")
    table.write_csv(path / "table.tsv", separator="\t")
    table.write_parquet(path / "table.parquet")
    (path / "table.csv.gz").write_bytes(gzip.compress((path / "table.csv").read_bytes()))
    table.write_ipc(path / "table.arrow")
    table.write_ndjson(path / "table.ndjson")
    lines = [f"{int(y == 'yes')} 1:{a} 3:{b}" for (a, b, *_), y in zip(X, Y, strict=True)]
    (path / "table.svm").write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "RBF")) for name in MADE]
)
def test_contract(name):
    stream = MADE[name]()
    for _, check in stream_checks(stream):
        check()


@pytest.mark.parametrize("kind", ["csv", "tsv", "csv.gz", "parquet", "arrow", "ndjson", "svm"])
def test_contract_of_files(folder, kind):
    check_stream(from_file(folder / f"table.{kind}", target="label"))


def test_contract_of_several_files(folder):
    kinds = ["csv", "csv.gz", "parquet", "ndjson"]
    check_stream(from_file([folder / f"table.{kind}" for kind in kinds], "label"), batch_size=70)


class Changed:
    """A stream over arrays, some of whose batches are changed."""

    def __init__(self, change):
        self.inner = from_arrays(X, Y)
        self.schema, self.change, self.n_passes = self.inner.schema, change, 0

    def batches(self, batch_size):
        self.n_passes += 1
        for batch in self.inner.batches(batch_size):
            yield self.change(self, batch)


def shifted(stream, batch):
    return type(batch)(batch.X + stream.n_passes, batch.y, batch.position)


def without_position(stream, batch):
    return type(batch)(batch.X, batch.y)


def narrow(stream, batch):
    return type(batch)(batch.X[:, :3], batch.y, batch.position)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (shifted, "a_second_pass_is_the_same"),
        (without_position, "positions_increase"),
        (narrow, "batches_have_the_size_asked_for"),
    ],
)
def test_a_broken_stream_is_told_what_it_fails(change, sentence):
    with pytest.raises(AssertionError, match=f"^Changed fails {sentence}: "):
        check_stream(Changed(change))


class Forgetful(ArrayStream):
    """Its bookmark is wrong in some way."""

    def __init__(self, row):
        stream = from_arrays(X, Y)
        super().__init__(stream._X, stream._y, stream.schema)
        self.row = row

    def bookmark(self):
        rows = super().bookmark()["position"]["rows"]
        return {"position": {"rows": self.row(rows)}}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (lambda rows: max(rows - 20, 0), "going_on_after_any_batch_gives_the_rest"),
        (lambda rows: min(rows, 40), "going_on_after_any_batch_gives_the_rest"),
        (lambda rows: max(rows, 1), "a_bookmark_of_nothing_read_starts_at_the_beginning"),
        (lambda rows: (rows,), "a_bookmark_holds_json_values"),
    ],
)
def test_a_bookmark_that_is_wrong_is_told_so(row, sentence):
    with pytest.raises(AssertionError, match=f"^Forgetful fails {sentence}"):
        check_stream(Forgetful(row))
