"""What is known of the ten data sets of the paper, and how their published files are read.

``catalogue.toml`` holds sizes, classes, licences, checksums and addresses, and says where each
number is from. A reader takes the contents of the files that the authors publish, in the order of
the catalogue, and gives one table: features, and the column ``target``.
"""

from __future__ import annotations

import gzip
import io
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires.core.types import Label
from fires.streams.base import Stream
from fires.streams.synthetic import RandomRBF, RandomTree

if TYPE_CHECKING:
    import polars as pl


_TEXT = resources.files("fires.bench.datasets").joinpath("catalogue.toml").read_text("utf-8")
# The catalogue as it is written, by the names of the data sets.
FACTS = {facts["name"]: facts for facts in tomllib.loads(_TEXT)["datasets"]}


def _read_spambase(files: Sequence[bytes]) -> pl.DataFrame:
    """``spambase.data``: numbers between commas, the label last."""
    rows = _numbers(files[0], np.float32, delimiter=",")
    return _table(FACTS["Spambase"]["features"].split(), rows[:, :-1], rows[:, -1].astype(np.int8))


def _read_nips(files: Sequence[bytes]) -> pl.DataFrame:
    """Madelon, Gisette: data and labels to train with, then those to validate with."""
    X = np.vstack([_numbers(file, np.int16) for file in files[::2]])
    y = np.concatenate([_numbers(file, np.int8)[:, 0] for file in files[1::2]])
    return _table([f"x{column}" for column in range(1, X.shape[1] + 1)], X, y)


def _read_dota(files: Sequence[bytes]) -> pl.DataFrame:
    """A ZIP of two files: the team that won, three codes, and one column for each hero."""
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
        parts = [archive.read(f"dota2{part}.csv") for part in ("Train", "Test")]
    rows = np.vstack([_numbers(part, np.int16, delimiter=",") for part in parts])
    heroes = [f"hero_{number}" for number in range(1, rows.shape[1] - 3)]
    names = ["cluster_id", "game_mode", "game_type", *heroes]
    return _table(names, rows[:, 1:], rows[:, 0].astype(np.int8))


def _read_kdd(files: Sequence[bytes]) -> pl.DataFrame:
    """The packed 10 % file: text and numbers between commas, a full stop after the label."""
    import polars as pl

    frame = pl.read_csv(
        gzip.decompress(files[0]),
        has_header=False,
        new_columns=[*FACTS["KDD"]["features"].split(), "target"],
        infer_schema_length=None,
    )
    return frame.with_columns(
        pl.selectors.float().cast(pl.Float32), pl.col("target").str.strip_suffix(".")
    )


def _read_mnist(files: Sequence[bytes]) -> pl.DataFrame:
    """Packed IDX files: images and labels to train with, then those to test with."""
    bodies = [gzip.decompress(file) for file in files]
    X = np.vstack([np.frombuffer(b, np.uint8, offset=16).reshape(-1, 784) for b in bodies[::2]])
    y = np.concatenate([np.frombuffer(body, np.uint8, offset=8) for body in bodies[1::2]])
    return _table([f"p{pixel}" for pixel in range(784)], X, y)


def _read_har(files: Sequence[bytes]) -> pl.DataFrame:
    """A ZIP of texts. Some of the features share a name, so each keeps the number before it."""
    with zipfile.ZipFile(io.BytesIO(files[0])) as archive:
        train, test = (
            [archive.read(f"UCI HAR Dataset/{part}/{kind}_{part}.txt") for kind in "Xy"]
            for part in ("train", "test")
        )
        names, activities = (
            archive.read(f"UCI HAR Dataset/{name}.txt").decode().splitlines()
            for name in ("features", "activity_labels")
        )
    X = np.vstack([_numbers(part[0], np.float64) for part in (train, test)])
    codes = np.concatenate([_numbers(part[1], np.int8)[:, 0] for part in (train, test)])
    label = dict(line.split() for line in activities)
    return _table(names, X, np.array([label[str(code)] for code in codes]))


def _numbers(
    text: bytes, dtype: npt.DTypeLike, delimiter: str | None = None
) -> npt.NDArray[np.generic]:
    """The matrix a text spells out; any blanks separate the numbers, or the delimiter does."""
    return np.loadtxt(io.BytesIO(text), dtype=dtype, delimiter=delimiter, ndmin=2)


def _table(
    names: Sequence[str], X: npt.NDArray[np.generic], y: npt.NDArray[np.generic]
) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(X, schema=list(names)).with_columns(target=pl.Series(y))


# What reads the published files of a data set.
READERS: dict[str, Callable[[Sequence[bytes]], pl.DataFrame]] = {
    "HAR": _read_har,
    "Spambase": _read_spambase,
    "Gisette": _read_nips,
    "Madelon": _read_nips,
    "Dota": _read_dota,
    "KDD": _read_kdd,
    "MNIST": _read_mnist,
}


@dataclass(frozen=True)
class Remote:
    """A file on a server, and the SHA-256 of what it should hold, where that is known."""

    url: str
    sha256: str | None = None


@dataclass(frozen=True)
class DataFile:
    """What a Parquet file of a data set should hold beside its features: the column ``target``."""

    file: str
    counts: Mapping[Any, int]
    digest: str | None = None

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Info:
    """A data set of the paper."""

    name: str
    n_rows: int
    n_features: int
    kinds: str
    positive: Label
    source: str
    licence: str
    whole: DataFile | None = None
    part: DataFile | None = None
    sorted_by_class: bool = False
    remotes: Sequence[Remote] = ()
    read: Callable[[Sequence[bytes]], pl.DataFrame] | None = field(default=None, repr=False)
    make: Callable[..., Stream] | None = field(default=None, repr=False)
    note: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the paper took a random sample of the rows."""
        return self.whole is not None and self.n_rows < self.whole.n_rows

    @property
    def one_against_rest(self) -> bool:
        """Whether there are more than two labels, of which one is the positive class."""
        return self.whole is not None and len(self.whole.counts) > 2


def _info(facts: Mapping[str, Any]) -> Info:
    """A data set as ``catalogue.toml`` has it, with what reads or makes it."""
    made: dict[str, Any] = {
        kind: DataFile(**facts[kind] | {"counts": dict(facts[kind]["counts"])})
        for kind in ("whole", "part")
        if kind in facts
    }
    made["remotes"] = tuple(Remote(**remote) for remote in facts.get("remotes", ()))
    made["read"] = READERS.get(facts["name"])
    made["make"] = {"RBF": RandomRBF, "RTG": RandomTree}.get(facts["name"])
    plain = {key: value for key, value in facts.items() if key != "features"}
    return Info(**plain | made)


# The data sets in the paper's order, under their names in lower case.
CATALOGUE: dict[str, Info] = {name.lower(): _info(facts) for name, facts in FACTS.items()}
