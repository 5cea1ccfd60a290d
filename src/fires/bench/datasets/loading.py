"""The ten data sets of the paper, by name, as streams."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.bench.datasets.catalogue import CATALOGUE, Info
from fires.bench.datasets.files import DataUnavailable, fetch, find, not_at_hand, read_table
from fires.core.errors import InputError, MissingExtra, closest, plain_name
from fires.core.output import enumeration
from fires.core.randomness import generator
from fires.core.types import Floats, Label
from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, Schema, Stream

__all__ = ["CATALOGUE", "DataUnavailable", "Dataset", "describe", "load"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as a stream, with the facts that a report should name.

    It is made by :func:`fires.bench.datasets.loading.load`.
    """

    info: Info
    n_samples: int
    notes: tuple[str, ...]
    complete: bool
    path: Path | None
    _stream: Stream = field(repr=False)
    _low_and_span: tuple[Floats, Floats] | None = field(default=None, repr=False)

    @property
    def schema(self) -> Schema:
        """The names of the columns, and the two classes; the greater is the positive one."""
        return self._stream.schema

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order, as float64; the last batch may be shorter."""
        for batch in self._stream.batches(batch_size):
            if self._low_and_span is not None:
                low, span = self._low_and_span
                # A new one: what else a batch may refer to are rows before they were scaled.
                batch = Batch((np.asarray(batch.X) - low) / span, batch.y, batch.position)
            yield batch

    def to_arrays(
        self, dtype: npt.DTypeLike = np.float64
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]:
        """All rows at once."""
        X = np.empty((self.n_samples, self.schema.n_features), dtype=dtype)
        y = np.empty(self.n_samples, dtype=np.int64)
        for batch in self.batches(1_000):
            stop = batch.position.rows
            X[stop - batch.n_rows : stop] = batch.X
            y[stop - batch.n_rows : stop] = batch.y
        return X, y

    def in_memory(self, *, scaled: bool = False) -> Dataset:
        """The same rows, made once and kept as float32: to generate them takes long."""
        X, y = self.to_arrays(np.float32)
        names, target, classes = astuple(self.schema)
        kept = from_arrays(X, y, names, target=target, classes=classes)
        return replace(self, _stream=kept, _low_and_span=low_and_span(X) if scaled else None)


def low_and_span(X: npt.NDArray[np.generic]) -> tuple[Floats, Floats]:
    """The least value of each column, and how far above it the greatest is; 1 if it is not."""
    low, high = (edge.astype(np.float64) for edge in (X.min(axis=0), X.max(axis=0)))
    return low, np.where(high > low, high - low, 1.0)


def load(
    name: str,
    *,
    preprocessing: Literal["online", "as-published"] = "online",
    n_rows: int | None = None,
    seed: int = 0,
    positive: Label | None = None,
    labels: Sequence[Label] | None = None,
    download: bool = True,
) -> Dataset:
    r"""A data set of the paper as a binary stream.

    Files are looked for in the folder that the environment variable ``FIRES_DATA_DIR`` names and
    in the cache (``FIRES_CACHE_DIR``, or a folder of the user's); what is in neither is downloaded
    into the cache. A file must hold what the catalogue says, value by value where it has a
    checksum.

    Text becomes codes in order of first appearance in the file (KDD's protocol, service and flag);
    numbers that stand for categories stay as they are. Rows keep the order of the file, except
    those of Spambase, which is sorted by class: they are shuffled. KDD and Dota are samples of
    100,000 rows, in random order: in its file, KDD consists of long runs of one label.

    Parameters
    ----------
    name : str
        HAR, Spambase, Usenet, Gisette, Madelon, Dota, KDD, MNIST, RBF or RTG.
    preprocessing : {"online", "as-published"}
        The values as they are, for those who scale while the stream flows; or, as in the paper,
        all of the rows looked at beforehand and each column scaled to [0, 1]:
        :math:`(x - \min) / (\max - \min)`, and 0 where a column is constant. "All rows" are the
        paper's, whatever ``n_rows`` says; only a generated stream is as long as is asked for, and
        is then kept in memory as float32.
    n_rows : int, optional
        At most so many rows: the first.
    seed : int
        Decides the sample, the shuffling, or the generated stream.
    positive : label, optional
        The label that becomes 1, all others 0. By default MNIST's 3, HAR's WALKING (and no stairs)
        and KDD's normal; the others have two labels and keep them.
    labels : sequence of labels, optional
        Use the rows with these labels only.
    download : bool
        Whether what is not at hand may be downloaded.

    Returns
    -------
    Dataset
        The stream, with what was done to its rows.

    Raises
    ------
    DataUnavailable
        If the data set cannot be had, or its file holds something else.
    InputError
        If there is no such data set or no such label.

    Examples
    --------
    >>> dataset = load("rtg", n_rows=1_000, seed=1)
    >>> dataset.schema.n_features, dataset.schema.classes, dataset.complete
    (450, (0, 1), True)
    >>> [batch.X.shape for batch in dataset.batches(400)]
    [(400, 450), (400, 450), (200, 450)]
    >>> load("mnst")
    Traceback (most recent call last):
    ...
    fires.core.errors.InputError: there is no data set "mnst"; did you mean MNIST?
    """
    info = describe(name)
    if preprocessing not in ("online", "as-published"):
        raise InputError(f"preprocessing must be online or as-published, not {preprocessing!r}")
    if n_rows is not None and (not isinstance(n_rows, (int, np.integer)) or n_rows < 1):
        raise InputError(f"n_rows must be a whole number above 0, not {n_rows!r}")
    scaled = preprocessing == "as-published"
    if info.make is not None:
        if positive is not None or labels is not None:
            raise InputError(f"{info.name} is generated: it has no other labels to choose from")
        n_samples, notes = n_rows or info.n_rows, (f"generated with seed {seed}",)
        try:
            made = info.make(n_samples, random_state=seed)
        except MissingExtra as error:
            raise DataUnavailable(str(error)) from error
        dataset = Dataset(info, n_samples, notes, True, None, made)
        return dataset.in_memory(scaled=True) if scaled else dataset
    if positive is None and info.one_against_rest:
        positive = info.positive
    _check_labels(info, positive, labels)
    found = find(info)
    if found is None and not download:
        raise not_at_hand(info, "downloading was not allowed")
    path, file = found or (fetch(info), info.whole)
    assert file is not None
    told = [info.note] * bool(info.note)
    if file is info.part:
        told.append(f"incomplete: {file.n_rows:,} of {info.n_rows:,} rows")
    frame = _in_order(read_table(path, info, file), info, labels, seed, told)

    target, classes = frame["target"], tuple(sorted(file.counts))
    if positive is not None:
        target, classes = target.cast(pl.String) == str(positive), (0, 1)
        told.append(f"1 is {positive}, 0 the rest")
    y = target.to_numpy().astype(np.int64)
    frame = frame.drop("target")
    X = frame.to_numpy(order="c")
    n_samples = min(n_rows or len(y), len(y))
    if n_samples < len(y):
        told.append(f"cut to {n_samples:,} rows")
    stream = from_arrays(X[:n_samples], y[:n_samples], frame.columns, classes=classes)
    scale = low_and_span(X) if scaled else None
    return Dataset(info, n_samples, tuple(told), file is info.whole, path, stream, scale)


def _in_order(
    frame: pl.DataFrame, info: Info, labels: Sequence[Label] | None, seed: int, notes: list[str]
) -> pl.DataFrame:
    """The rows that the stream consists of, in its order; what is done to them is noted."""
    frame = frame.with_columns([_codes(column) for column in frame.drop("target")])
    if labels is not None:
        frame = frame.filter(pl.col("target").cast(pl.String).is_in(list(map(str, labels))))
        notes.append(f"only rows labelled {enumeration(labels)}")
    rng = generator(seed, "data set", info.name)
    if info.sampled and frame.height > info.n_rows:
        notes.append(
            f"{info.n_rows:,} of {frame.height:,} rows, drawn with seed {seed}, in random order"
        )
        frame = frame[rng.permutation(frame.height)[: info.n_rows]]
    if info.sorted_by_class:
        notes.append(f"shuffled with seed {seed}, as the file is sorted by class")
        frame = frame[rng.permutation(frame.height)]
    return frame


def describe(name: str) -> Info:
    """What is known of a data set; upper and lower case are the same."""
    return CATALOGUE[named(name, [info.name for info in CATALOGUE.values()], "data set").lower()]


def named(name: str, known: Iterable[str], what: str) -> str:
    """One of several names, in upper or lower case, with - or a space."""
    names = {plain_name(one): one for one in known}
    if plain_name(name) not in names:
        hint = closest(name, names.values(), f"there are {enumeration(names.values())}")
        raise InputError(f'there is no {what} "{name}"', hint=hint)
    return names[plain_name(name)]


def _check_labels(info: Info, positive: Label | None, labels: Sequence[Label] | None) -> None:
    """Raise unless the data set has these labels, and two classes can be made of them."""
    assert info.whole is not None
    known = [str(label) for label in info.whole.counts]
    chosen = known if labels is None else [str(label) for label in labels]
    for label in [*chosen, *([] if positive is None else [str(positive)])]:
        if label not in known:
            raise InputError(f'{info.name} has no label "{label}"; it has {enumeration(known)}')
    if len(set(chosen)) < 2:
        raise InputError(f"labels must be two or more of those of {info.name}, not {chosen}")
    if positive is not None and str(positive) not in chosen:
        raise InputError(f"the positive label, {positive}, is not one of {enumeration(chosen)}")


def _codes(column: pl.Series) -> pl.Series:
    """Numbers as they are; of text, the codes 0, 1, 2, ... in order of first appearance."""
    if column.dtype.is_numeric():
        return column
    text = column.cast(pl.String)
    return text.cast(pl.Enum(text.unique(maintain_order=True))).to_physical()
