"""The contract of a stream: batches with names and positions, the same in every pass, and after."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from fires.checks.data import as_plain
from fires.checks.running import NamedCheck, expect, list_checks, no_global_randomness, run_checks
from fires.core.errors import InputError
from fires.core.types import Labels

if TYPE_CHECKING:
    from fires.streams.base import Batch, Bookmark

N_BATCHES = 5


def check_stream(stream: Any, **options: Any) -> None:
    """Check that a stream keeps the contract of :class:`~fires.streams.base.Stream`.

    Parameters
    ----------
    stream : Stream
        Its first batches are read, several times over.
    **options
        As in :func:`stream_checks`.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires.streams import KnownTruth
    >>> check_stream(KnownTruth(90, 5, 2))
    """
    run_checks(stream, stream_checks(stream, **options))


def stream_checks(
    stream: Any, *, batch_size: int = 20, skip: Collection[str] = ()
) -> list[NamedCheck]:
    """The checks of :func:`check_stream`, one by one."""
    contracts: list[object] = [StreamContract(stream, batch_size)]
    with suppress(AttributeError, InputError):  # it has none, or says why it has none
        contracts.append(BookmarkContract(stream, batch_size, json.dumps(stream.bookmark())))
    return list_checks(contracts, skip)


@dataclass(frozen=True)
class StreamContract:
    """What holds for every stream."""

    _stream: Any
    _batch_size: int

    def _batches(self, batch_size: int | None = None, n_batches: int = N_BATCHES) -> list[Batch]:
        """Its first batches."""
        return _first_batches(self._stream, batch_size or self._batch_size, n_batches)

    def columns_have_names(self) -> None:
        """Every column of X has a name of its own, which is not that of the target."""
        schema = self._stream.schema
        names = (*schema.feature_names, schema.target)
        expect(all(isinstance(name, str) for name in names), f"{names} are not all text")
        expect(len(set(names)) == len(names), f"a name occurs twice in {names}")

    def batches_have_the_size_asked_for(self) -> None:
        """All batches but the last have ``batch_size`` rows, and each row has one target."""
        *full, last = self._batches()
        sizes = [batch.n_rows for batch in full]
        expect(set(sizes) <= {self._batch_size}, f"batches of {sizes} rows, not {self._batch_size}")
        expect(0 < last.n_rows <= self._batch_size, f"the last batch has {last.n_rows} rows")
        for batch in (*full, last):
            shape = (batch.n_rows, self._stream.schema.n_features)
            expect(batch.X.shape == shape, f"X has the shape {batch.X.shape}, not {shape}")
            expect(batch.y.shape == shape[:1], f"y has the shape {batch.y.shape}, not {shape[:1]}")

    def rows_are_numbers(self) -> None:
        """X is float64, C-ordered or CSR, and nowhere infinite."""
        for batch in self._batches():
            values: Any = batch.X.data if sp.issparse(batch.X) else batch.X
            expect(batch.X.dtype == np.float64, f"X is of {batch.X.dtype}")
            expect(values.flags.c_contiguous, "X is not C-ordered")
            expect(not np.isinf(values).any(), "X holds infinity")

    def labels_are_those_announced(self) -> None:
        """Where the schema knows all classes, no other label occurs."""
        classes = self._stream.schema.classes
        if classes is not None:
            found = {label for batch in self._batches() for label in batch.y.tolist()}
            expect(found <= set(classes), f"the labels {found} occur, and {classes} are announced")

    def positions_increase(self) -> None:
        """A position counts the rows up to the end of its batch, and never goes back."""
        batches = self._batches()
        counted = np.cumsum([batch.n_rows for batch in batches])
        assert_array_equal([batch.position.rows for batch in batches], counted)
        for one, next_one in pairwise(batch.position for batch in batches):
            places = [(position.file, position.offset) for position in (one, next_one)]
            expect(places == sorted(places), f"{next_one} follows {one}")
            expect(one.bytes <= next_one.bytes, f"{next_one} follows {one}")

    def a_second_pass_is_the_same(self) -> None:
        """Each call of ``batches`` starts from the beginning and hands out the same rows."""
        expect_same_rows(self._batches(), self._batches())

    def the_cut_into_batches_does_not_matter(self) -> None:
        """Batches of another size hold the same rows."""
        half = max(self._batch_size // 2, 1)
        whole = self._batches(2 * half)
        expect_same_rows(self._batches(half, 2 * len(whole)), whole)

    def what_was_handed_out_does_not_change(self) -> None:
        """A batch may be kept: reading on, or again, does not write into it."""
        kept = [(batch, as_plain(batch.X).copy(), batch.y.copy()) for batch in self._batches()]
        self._batches()
        for batch, X, y in kept:
            assert_array_equal(as_plain(batch.X), X)
            assert_array_equal(batch.y, y)

    def a_batch_size_that_makes_no_sense_is_refused(self) -> None:
        """A batch has at least one row, and a whole number of them."""
        for size, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
            try:
                next(iter(self._stream.batches(size)))
            except error as refusal:
                expect("batch_size" in str(refusal), f"{size} rows are refused with {refusal!r}")
            else:
                raise AssertionError(f"batch_size={size} was accepted")

    def global_random_numbers_are_neither_read_nor_moved(self) -> None:
        """What is drawn comes from the stream's own generator."""
        passes = []
        for seed in (1, 2):
            with no_global_randomness(seed):
                passes.append(self._batches())
        expect_same_rows(passes[0], passes[1])


@dataclass(frozen=True)
class BookmarkContract(StreamContract):
    """What holds for a stream that can be left and taken up again."""

    _unread: str  # its bookmark before it was read, as JSON

    def _left(self) -> tuple[list[Batch], list[Bookmark]]:
        """The first batches, and the bookmark behind each, as it is read from JSON."""
        batches, bookmarks = [], []
        with closing(self._stream.batches(self._batch_size)) as reader:
            for batch in islice(reader, N_BATCHES):
                batches.append(batch)
                bookmarks.append(json.dumps(self._stream.bookmark()))
        return batches, [json.loads(bookmark) for bookmark in bookmarks]

    def a_bookmark_holds_json_values(self) -> None:
        """What a bookmark holds is the same after it was written down and read again."""
        self._batches(n_batches=1)
        bookmark = self._stream.bookmark()
        read = json.loads(json.dumps(bookmark))
        expect(read == bookmark, f"{bookmark} is {read} after it was written down")

    def going_on_after_any_batch_gives_the_rest(self) -> None:
        """Rows, targets and positions are those of a stream that was not left."""
        batches, bookmarks = self._left()
        for n_read, bookmark in enumerate(bookmarks, start=1):
            rest = batches[n_read:]
            later = self._stream.after(bookmark)
            expect_same_batches(_first_batches(later, self._batch_size, len(rest)), rest)

    def a_stream_can_be_left_again_and_again(self) -> None:
        """A stream that was taken up goes on from its own bookmark, batch by batch."""
        batches, bookmarks = self._left()
        bookmark = bookmarks[0]
        for expected in batches[1:]:
            later = self._stream.after(bookmark)
            expect_same_batches(_first_batches(later, self._batch_size, 1), [expected])
            bookmark = json.loads(json.dumps(later.bookmark()))

    def a_bookmark_of_nothing_read_starts_at_the_beginning(self) -> None:
        """Before its first batch, the stream after a bookmark is the whole stream."""
        later = self._stream.after(json.loads(self._unread))
        expect(later.bookmark() == json.loads(self._unread), "taking it up has changed where it is")
        expect_same_batches(_first_batches(later, self._batch_size), self._batches())

    def a_bookmark_does_not_change(self) -> None:
        """Reading on does not write into a bookmark, nor into the stream that it is of."""
        with closing(self._stream.batches(self._batch_size)) as reader:
            batches = [next(reader)]
            bookmark = self._stream.bookmark()
            text = json.dumps(bookmark)
            _first_batches(self._stream.after(bookmark), self._batch_size)
            batches += islice(reader, N_BATCHES - 1)
        expect(json.dumps(bookmark) == text, f"{text} is {json.dumps(bookmark)} now")
        expect_same_batches(batches, self._batches())


def _first_batches(stream: Any, batch_size: int, n_batches: int = N_BATCHES) -> list[Batch]:
    with closing(stream.batches(batch_size)) as reader:
        return list(islice(reader, n_batches))


def expect_same_batches(found: list[Batch], expected: list[Batch]) -> None:
    """Expect two lists of batches to be the same, with all that comes with the rows."""
    expect(len(found) == len(expected), f"{len(found)} batches, not {len(expected)}")
    for one, other in zip(found, expected, strict=True):
        expect(one.position == other.position, f"{one.position} is not {other.position}")
        assert_array_equal(as_plain(one.X), as_plain(other.X))
        assert_array_equal(one.y, other.y)


def expect_same_rows(one: list[Batch], other: list[Batch]) -> None:
    """Expect two lists of batches to hold the same rows, however these are cut into batches."""
    for found, expected in zip(_rows(one), _rows(other), strict=True):
        assert_array_equal(found, expected)


def _rows(batches: list[Batch]) -> tuple[Labels, Labels]:
    X = np.concatenate([as_plain(batch.X) for batch in batches])
    return X, np.concatenate([batch.y for batch in batches])
