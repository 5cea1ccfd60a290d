"""Sparse rows in svmlight files: a label, and an index and a value for each entry that is not 0."""

from __future__ import annotations

import io
import re
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import Any

import numpy as np
from scipy import sparse

from fires.columns.schema import Doubt
from fires.core.errors import InputError
from fires.core.types import CsrRows, Floats
from fires.streams import table as tables
from fires.streams.base import Batch, Bookmark, Position, Schema
from fires.streams.byte_sources import plain_errors, read_so_far, refuse_others
from fires.streams.table import BlockStream, Left
from fires.streams.text import Block, Lines, TextSource

ENDINGS = {".svm", ".svmlight", ".libsvm"}
MAX_FEATURES = 10_000_000  # each has a name and a belief of its own
# Columns that any file may have; with more than it has bytes, those that occur are enough.
_MANY = 1_000_000

NOT_SVMLIGHT = "not a label with pairs of index:value, the indices ascending"
INFINITE = "a value is infinite"
NO_LABEL = "the label is not a finite number"
NOT_WHOLE = "the label is not a whole number, as those before it are"

_NUMBER = rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_LINE = re.compile(
    rb"\s*(?P<labels>%b(?:,%b)*)(?:\s+qid:\d+)?(?:\s+\d+:%b)+\s*(?:#.*)?"
    % (_NUMBER, _NUMBER, _NUMBER)
)
_COMMENT = re.compile(rb"#[^\n]*")
_ZERO_INDEX = re.compile(rb"[ \t]0+:")
_INDEX = re.compile(rb"[ \t](\d+):")
_LAST_INDEX = re.compile(rb"^.*[ \t](\d+):", re.MULTILINE)
_FRACTION = re.compile(rb"\n[+-]?+(?:\d{0,18}+[^\d\s]|\d{19})")  # a label that is no whole number


def looks_like_svmlight(line: bytes) -> bool:
    """Tell by its first line whether a text is svmlight.

    Examples
    --------
    >>> looks_like_svmlight(b"+1 qid:3 5:0.5 9:1 # a comment"), looks_like_svmlight(b"a,b")
    (True, False)
    """
    return _LINE.fullmatch(line) is not None


class SvmlightStream(BlockStream):
    """The rows of a svmlight file, in order, as CSR matrices.

    When it is opened, the file is read once to count the columns.
    """

    columns = target = None
    column_names: tuple[str, ...] = ()  # it has none
    doubts: tuple[Doubt, ...] = ()
    is_open = False

    def __init__(self, text: TextSource, block_size: int, after: Bookmark | None = None) -> None:
        if text.source.n_bytes is None:
            raise InputError(
                f"{text.name}: svmlight cannot be read from a stream; save it to a file, and give "
                "its name"
            )
        first = _LINE.fullmatch(text.first_line("#"))
        if first and b"," in first["labels"]:
            raise InputError(f"{text.name} has several labels in a row, which cannot be learnt")
        super().__init__(text.name, text.source.n_bytes)
        self._text, self._cut, self._block_size = text, Lines(block_size), block_size
        known = None if after is None else after.get("svmlight")
        # What was found out: zero_based, whole_labels, n_features and, of too many, those used.
        self.counted: dict[str, Any] = known if known is not None else self._count()
        least, used = int(not self.counted["zero_based"]), self.counted.get("used")
        indices = range(self.counted["n_features"]) if used is None else used
        self.schema = Schema(tuple(str(least + index) for index in indices))
        self._begin(Left(Position()))
        if after is not None:
            self._begin(Left.from_json(after, text.name))
            refuse_others([text.source.identity], after.get("files"), self._left.position)

    def _count(self) -> dict[str, Any]:
        """Find out what there is in the file."""
        found: dict[str, Any] = {"zero_based": False, "whole_labels": True, "used": None}
        greatest, n_bytes = -1, 0
        try:
            with closing(self._text.blocks(self._cut, Position(), again=True)) as blocks:
                for block in blocks:
                    greatest = max(greatest, self._look_at(block, found))
                    n_bytes += len(block.data)
        except InputError:  # damage; the rows before it are read again, and then it is met again
            if greatest < 0:
                raise
        if greatest < 0:
            raise InputError(f"{self.name} has no row with an entry")
        found["n_features"] = greatest + found["zero_based"]
        if found["n_features"] > max(_MANY, n_bytes):  # those that occur, maybe in comments
            used, least = set[int](), int(not found["zero_based"])
            with suppress(InputError):
                for block in self._text.blocks(self._cut, Position(), again=True):
                    used.update(int(index) - least for index in _INDEX.findall(block.data))
            found["used"] = sorted(i for i in used if 0 <= i < found["n_features"])
        return found

    def _look_at(self, block: Block, found: dict[str, Any]) -> int:
        """Find the greatest index in a block: the last of a line, since they ascend."""
        data = _COMMENT.sub(b"", block.data) if b"#" in block.data else block.data
        found["zero_based"] |= _ZERO_INDEX.search(data) is not None
        found["whole_labels"] &= _FRACTION.search(b"\n" + data) is None
        greatest = max(map(int, _LAST_INDEX.findall(data)), default=-1)
        if greatest > MAX_FEATURES:
            line = int(block.lines[0]) + data.count(b"\n", 0, data.index(b"%d:" % greatest))
            raise InputError(
                f"{self.name}: index {greatest} in line {line} is too large; at most "
                f"{MAX_FEATURES:,} columns can be read"
            )
        return greatest

    def after(self, bookmark: Bookmark) -> SvmlightStream:
        """The stream that goes on where this one was; see :meth:`TableStream.after`."""
        return SvmlightStream(self._text, self._block_size, bookmark)

    def bookmark(self) -> Bookmark:
        """Where the last batch ends; see :meth:`TableStream.bookmark`."""
        files = read_so_far([self._text.source.identity], self._left.position)
        return self._left.as_json() | {"svmlight": self.counted, "files": files}

    def lag(self) -> None:
        """How many rows wait in the source: that is not known."""

    def surprises(self) -> list[str]:
        """Say what the user should know about the columns."""
        return []

    def _batch(self, rows: Batch, left: Left) -> tuple[Left, Batch]:
        return left, Batch(rows.X, rows.y, left.position)

    def _blocks(self) -> Generator[Batch]:
        return tables.read_ahead(self._parsed(self._left.position))

    def _parsed(self, start: Position) -> Generator[Batch]:
        blocks = tables.read_ahead(self._text.blocks(self._cut, start, again=False))
        with plain_errors(self.name), closing(blocks):
            for block in blocks:
                yield from self._rows(block)

    def _rows(self, block: Block) -> Iterator[Batch]:
        """Parse a block; what is wrong in it is found by halving."""
        whole = self.counted["whole_labels"]
        try:
            X, y = self._load(block.data)
        except ValueError:
            if len(block.ends) == 1:
                yield tables.no_rows([(0, block.fault(0, NOT_SVMLIGHT))])
            else:
                for half in block.halves():
                    yield from self._rows(half)
            return
        lines = block.data.removesuffix(b"\n").split(b"\n")  # not those blank, or a comment
        records = np.flatnonzero([line.partition(b"#")[0].strip() != b"" for line in lines])
        wrong = np.zeros(len(y), np.int64)  # 0 where nothing is, otherwise which reason
        wrong[np.repeat(np.arange(len(y)), np.diff(X.indptr))[np.isinf(X.data)]] = 3
        if whole:  # those in lines that were added since are none perhaps
            wrong[y != np.round(y)] = 2
        wrong[~np.isfinite(y)] = 1
        reasons = "", NO_LABEL, NOT_WHOLE, INFINITE
        faults = [block.fault(int(records[i]), reasons[wrong[i]]) for i in np.flatnonzero(wrong)]
        if faults:
            X, y, records = X[wrong == 0], y[wrong == 0], records[wrong == 0]
        y = y.astype(np.int64) if whole else y
        found = tables.among(block.lines[records], faults)
        if len(y) or found:
            yield Batch(X, y, end=tables.of_rows(block.end, records), faults=found)

    def _load(self, data: bytes) -> tuple[CsrRows, Floats]:
        """Parse lines; a ValueError says that one of them is wrong."""
        from sklearn.datasets import load_svmlight_file

        counted, used = self.counted, self.counted.get("used")
        X, y = load_svmlight_file(
            io.BytesIO(data), n_features=counted["n_features"], zero_based=counted["zero_based"]
        )
        if used is not None:
            columns = np.searchsorted(used[:-1], X.indices)
            if (np.array(used)[columns] != X.indices).any():
                raise ValueError("an index that did not occur before")
            X = sparse.csr_matrix((X.data, columns, X.indptr), (len(y), len(used)))
        return X, y
