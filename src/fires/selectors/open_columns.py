"""Columns that come and go: their names, rows put into their order, and which are there now.

Columns are known by their names, and their order is that of their arrival. A row that has no value
for a column says nothing about it: the entry is missing. With ``absent="zero"`` it is a zero, and
rows are sparse. That is right for words.

Whoever learns from such rows keeps one number for each column. Where columns have come or gone
since the batch before, ``source`` says which place each one had: see
:func:`fires.core.declared.rearrange`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import validation
from fires.core.batch import CheckedBatch, columns_present
from fires.core.declared import Array, Declared, Value, rearrange
from fires.core.errors import InputError, StateError
from fires.core.named import NamedRows, Names
from fires.core.types import Floats, Header, Mask, Matrix, OptionalArray, Places, RowsLike
from fires.kernels import scan
from fires.kernels.lookup import ManyNames
from fires.kernels.select import placed

if TYPE_CHECKING:
    import polars as pl

    from fires.columns import Columns


_NOTHING: Places = np.empty(0, dtype=np.intp)
_ROWS = 100.0  # without an entry, before a column rests
_TIMES = 10.0  # as long as is usual for it
_GAPS = 2.0  # as long as the longest of its gaps
_FADE = 0.02  # of each row with a column, which its longest gap gets shorter by
_NEVER = -1.0
_LOOKS = 8  # so often within forget_after, stale ones are looked for among sparse columns
_LEAST_WIDTH = 1024  # of sparse rows, for which columns that are not known yet cost nothing


class Presence:
    """When each column was there, and so which are there now, and which rest.

    A column rests when it has had no entry for 100 rows, for ten times as long as is usual for it,
    and for twice as long as in its longest gap: neither a rare column nor that of a source which
    takes turns with others is taken for gone. A gap is forgotten after fifty times as many rows
    with the column. It is the batches that are counted: a column is there in all rows of a batch in
    which it has an entry. While all columns always are, nothing is noted.
    Objects are not changed: :meth:`after` gives the next one.

    Examples
    --------
    >>> presence = Presence(2, rows=500.0).after(np.array([True, False]), 100.0)
    >>> presence.resting
    array([False,  True])
    """

    learnt: ClassVar[Declared] = {
        "rows": Array(low=0.0),
        "first": Array("J"),
        "last": Array("J"),
        "seen": Array("J", low=0.0),
        "gap": Array("J", low=0.0, optional=True),
        "looked": Array(low=0.0, optional=True),
    }

    def __init__(self, n_features: int = 0, rows: float = 0.0) -> None:
        self.rows = rows
        self.first = np.full(n_features, 0.0 if rows else _NEVER)  # rows before it came
        self.last = np.full(n_features, rows or _NEVER)  # rows when it was last there
        self.seen = np.full(n_features, rows)  # rows of the batches in which it was there
        self.gap = np.zeros(n_features)  # rows of the longest gap, as far as it still counts
        self.is_noted = n_features > 0  # whether columns may be absent
        self.looked = rows  # rows when stale columns were last looked for
        self.arrived: Places = np.empty(0, dtype=np.intp)

    def with_batch(self, batch: CheckedBatch, n_before: int, *, forgets: bool) -> Presence:
        """What is known with the columns of a batch, after so many rows."""
        known, source, is_sparse = self, batch.source, sp.issparse(batch.X)
        notes = self.is_noted or source is not None or batch.present is not None
        if is_sparse:
            notes = forgets and isinstance(batch.known, OpenColumns)
        if not notes:
            return self
        if not self.is_noted:
            width = batch.X.shape[1] if source is None else int(source.max()) + 1
            known = Presence(width, float(n_before))
        if source is not None:
            known = known.rearranged(source)
        # A copy of what is known of a million words takes longer than a step: they are noted when
        # nothing can fail any more.
        present: slice | Mask = slice(None) if batch.present is None else batch.present
        return known if is_sparse else known.after(present, float(batch.n_rows))

    def after(self, present: slice | Mask, n_rows: float) -> Presence:
        """What is known after one more batch."""
        other, is_here = copy.copy(self), np.zeros(len(self.last), dtype=np.bool_)
        other.is_noted, other.rows, is_here[present] = True, self.rows + n_rows, True
        ended, came = np.where(self.never, 0.0, self.rows - self.last), is_here & self.never
        other.gap = np.where(is_here, np.maximum(self.gap - _FADE * n_rows, ended), self.gap)
        other.arrived, other.first = np.flatnonzero(came), np.where(came, self.rows, self.first)
        other.last = np.where(is_here, other.rows, self.last)
        other.seen = self.seen + n_rows * is_here
        return other

    @property
    def never(self) -> Mask:
        """The columns that have never had an entry."""
        return np.asarray(self.last == _NEVER)

    @property
    def resting(self) -> Mask:
        """The columns that are not there: see above."""
        usual = (self.last - self.first) / np.maximum(self.seen, 1.0)
        rest_after = np.maximum(_ROWS, np.maximum(_TIMES * usual, _GAPS * self.gap))
        return np.asarray((self.rows - self.last >= rest_after) | self.never)

    def stale(self, batch: CheckedBatch, n_features: int, forget_after: int) -> Places:
        """The columns to forget after a batch: none, or those that were absent for too long.

        Those that never were there count from the batch with which they became known.
        """
        is_sparse, never = batch.known.absent == "zero", self.never
        if is_sparse:  # noted in place
            self.rows += float(batch.n_rows)
            self.last[batch.X.indices] = self.rows
            if self.rows - self.looked < forget_after / _LOOKS:
                return _NOTHING
            self.looked, never = self.rows, self.never
        since = np.where(never, np.maximum(self.first, 0.0), self.last)
        is_stale = self.rows - since >= forget_after
        if is_sparse:  # of these, there may be room for names that are still to come
            is_stale &= ~never
        stale = np.flatnonzero(is_stale[:n_features])
        return stale if len(stale) < n_features else _NOTHING

    def rearranged(self, source: Places) -> Self:
        """For other columns: see :func:`fires.core.declared.rearrange`."""
        fresh = Presence(len(source))
        fresh.first[:] = self.rows
        return rearrange(self, self.learnt, source, fresh)


Given: TypeAlias = tuple[NamedRows, Floats]  # rows as they came, and the entries that they have


class OpenColumns:
    """The columns seen so far. Objects are not changed: :meth:`admit` gives a batch the next one.

    Examples
    --------
    >>> columns = OpenColumns("missing")
    >>> rows = [{"a": 1.0}, {"b": 2.0}]
    >>> batch = columns.admit(rows, None, "FIRES", "ignore", learn=True)
    >>> batch.X
    array([[ 1., nan],
           [nan,  2.]])
    >>> batch = batch.known.admit({"c": 3.0, "a": 4.0}, None, "FIRES", "ignore", learn=True)
    >>> batch.X, batch.known.known, batch.source
    (array([[ 4., nan,  3.]]), ['a', 'b', 'c'], array([ 0,  1, -1]))
    """

    named_apart = False

    def __init__(self, absent: str, names: Iterable[str] = (), width: int = 0) -> None:
        self.absent = absent
        self._names = ManyNames(names) if absent == "zero" else Names(names)
        self._array: npt.NDArray[np.object_] | None = None
        self.n_features = len(self._names)
        self.width = max(width, self.n_features)
        self.stale: Places = _NOTHING
        self.encoder: Columns | None = None
        # A book that only grows, and where its columns are in this one.
        self._followed: tuple[Names | None, Places] = None, _NOTHING

    @property
    def known(self) -> list[str]:
        """The names, in the order of their arrival."""
        return self._names[: self.n_features]

    @property
    def names(self) -> npt.NDArray[np.object_]:
        """The names as an array; with a million words, making it takes longer than a batch."""
        if self._array is None or len(self._array) != self.n_features:
            self._array = np.array(self.known, dtype=object)
        return self._array

    def named(self, places: Places) -> list[str]:
        """The names of some columns."""
        return self._names.at(places)

    def dropping(self, columns: Places) -> OpenColumns:
        """A book that forgets some columns with the next batch."""
        other = copy.copy(self)
        other.stale = columns
        return other

    def state(self) -> Header:
        """What a state file holds of it, besides the number of columns."""
        encoder = None if self.encoder is None else self.encoder.as_json()
        saved = {"width": self.width, "stale": self.stale.tolist(), "encoder": encoder}
        named: Header = {"feature_names": self.known, "named_apart": False, "columns": None}
        return named | {"open": saved}

    @classmethod
    def read(cls, header: Mapping[str, Any], absent: str) -> Self:
        """What :meth:`state` wrote; StateError if it does not fit."""
        saved, names, n = header["open"], header["feature_names"], header["n_features"]
        validation.check_names(np.array(names, dtype=object))
        if len(names) != n:
            raise StateError(f"{n} features have {len(names)} names")
        width = Value(int, low=n, high=4 * n + 4096).read("width", saved, {}, {})
        stale = {"stale": np.array(saved["stale"], dtype=np.int64)}
        columns = cls(absent, names, width)
        columns.stale = Array("*", dtype="int64", low=0, high="J").read(
            "stale", {}, stale, {"J": n}
        )
        if saved.get("encoder") is not None:
            from fires.columns import Columns

            columns.encoder = Columns.from_json(saved["encoder"])
        return columns

    def admit(
        self, X: RowsLike, y: OptionalArray, owner: str, missing: str, *, learn: bool
    ) -> CheckedBatch:
        """Check rows, and put them into the order of the columns; new ones join if it learns."""
        if learn:
            (given, told), known, source, places = self._arranged(X, owner, y)
        else:
            (given, told), _ = self._given(X, owner, None, learn=False)
            known, source = self, None
            places = self._places(*given, self._found)
        batch = CheckedBatch(known._placed(given.matrix, places), known=known, source=source)
        if isinstance(batch.X, np.ndarray):
            batch.n_absent = batch.X.size - told.size
        return scanned(batch, given.matrix, told, given.names, owner, missing)

    def _arranged(
        self, X: RowsLike, owner: str, y: OptionalArray
    ) -> tuple[Given, OpenColumns, Places | None, Places]:
        """Rows as they came, the columns with new ones, where these were, and where rows go."""
        columns, source = copy.copy(self), None
        if len(self._names) > self.n_features:  # a batch was refused, and has left its names
            columns._names.cut(self.n_features)
            columns._followed = None, _NOTHING
        if len(self.stale):
            stays = np.ones(self.n_features, dtype=np.bool_)
            stays[self.stale] = False
            source = kept = np.flatnonzero(stays)
            columns._names, columns._array = self._names.only(kept), None
            columns.stale, columns.n_features = _NOTHING, len(kept)
            columns.encoder = _without(self.encoder, self._names.at(self.stale))
            columns._followed = None, _NOTHING
        given, columns.encoder = columns._given(X, owner, y, learn=True)
        places = columns._places(*given[0], columns._names.add)
        columns.n_features = len(columns._names)
        if not columns.n_features and self.absent == "missing":
            raise InputError(f"{owner}: X has no columns with an entry")
        # What learns from these rows has room for some columns, even if all texts are empty.
        if columns.n_features > columns.width or source is not None or not columns.width:
            before = np.arange(self.width) if source is None else source
            columns.width = self._room(columns.n_features)
            source = np.full(columns.width, -1)
            source[: len(before)] = before
            source = None if not self.width else source
        return given, columns, source, places

    def _room(self, n: int) -> int:
        if self.absent == "missing":
            return n
        if n > self.width:
            return max(n, 2 * self.width, _LEAST_WIDTH)
        return self.width if 4 * n > self.width else max(2 * n, _LEAST_WIDTH)

    def _found(self, names: Iterable[str]) -> Places:
        """The place of each name; -1 for one that is not known."""
        places = self._names.places(names)
        places[places >= self.n_features] = -1
        return places

    def _places(
        self, given: Matrix, names: Sequence[str], look_up: Callable[[Iterable[str]], Places]
    ) -> Places:
        """The place of each name.

        Of a book that only grows, those that have no entry here may be left out, with place -1.
        """
        if not isinstance(names, Names) or isinstance(given, np.ndarray):
            return look_up(names)
        followed, places = self._followed
        if followed is not names:
            places = _NOTHING
        if len(places) < len(names):
            more = np.full(max(len(names), 2 * len(places)), -1)
            more[: len(places)] = places
            places = more
        at = places[given.indices]
        # A place that is not known was given by a batch that was refused then.
        new = np.unique(given.indices[(at < 0) | (at >= self.n_features)])
        places[new] = look_up(names.at(new))
        self._followed = names, places
        return places

    def _placed(self, given: Matrix, places: Places) -> Matrix:
        """Values in their places; those of place -1 are left out."""
        if self.absent == "zero":
            rows = sp.csr_array(given) if isinstance(given, np.ndarray) else given
            return placed(rows, places, self.width)
        given = given if isinstance(given, np.ndarray) else given.toarray()
        in_order = len(places) == self.width and (places == np.arange(self.width)).all()
        return given if in_order else placed(given, places, self.width, np.nan)

    # --- what a user may pass -----------------------------------------------------------------

    def _given(
        self, X: RowsLike, owner: str, y: OptionalArray, *, learn: bool
    ) -> tuple[Given, Columns | None]:
        """Rows as they came, and what text is encoded with from here on."""
        if isinstance(X, NamedRows):
            if not isinstance(X.names, Names):
                validation.check_names(np.array(list(X.names), dtype=object))
            return _given(validation.as_matrix(X.matrix, owner), X.names), self.encoder
        if isinstance(X, Mapping):
            X = [X]
        if not validation.is_table(X):
            raise InputError(
                f"{owner} has open columns, which go by name, and X has no names",
                hint="pass a frame, dicts, or fires.streams.NamedRows(X, names).",
            )
        if isinstance(X, (list, tuple)):
            given = _of_dicts(X, owner, self.absent)
            if given is not None:
                return given, self.encoder
            return self._encoded(X, None, owner, y, learn)
        names = validation.column_names(X)
        if names is None:
            raise InputError(f"{owner} has open columns, whose names must be text")
        raw = dict(validation.raw_columns(X))
        encodes = () if self.encoder is None else self.encoder.known
        for name, kind in raw.items():
            if 0 <= self._names.place(name) < self.n_features and name not in encodes:
                raise InputError(
                    f"Column {name!r} does not hold numbers but {kind}; before, it did"
                )
        raw |= {name: None for name in names if name in encodes}
        if not raw:
            return _given(validation.as_matrix(X, owner), names.tolist()), self.encoder
        return self._encoded(X, [name for name in names if name in raw], owner, y, learn)

    def _encoded(
        self, X: Any, raw: list[str] | None, owner: str, y: OptionalArray, learn: bool
    ) -> tuple[Given, Columns | None]:
        """Rows of which some columns (None for all) are text, categories or dates."""
        from fires.columns.kinds import as_polars

        frame = as_polars(X if raw is None else X[raw])
        matrix, names, known = encoded(frame, self.encoder, y, owner, learn=learn)
        if raw is not None and len(others := [name for name in X.columns if name not in raw]):
            matrix = np.hstack([matrix, validation.as_matrix(X[others], owner)])
            names += others
        told = matrix if raw is not None else matrix[~np.isnan(matrix)]
        return (NamedRows(matrix, names), told), known


def scanned(
    batch: CheckedBatch, given: Matrix, told: Floats, names: Any, owner: str, missing: str
) -> CheckedBatch:
    """A batch of entries that may be learnt from, as they were told in the rows given."""
    counts = scan(told)
    if any(counts):
        validation.refuse(given, counts, names, missing=missing, owner=owner)
    batch.n_missing = counts[0] + batch.n_absent
    batch.present = columns_present(batch.X) if batch.n_missing else None
    return batch


def encoded(
    frame: pl.DataFrame, known: Columns | None, y: OptionalArray, owner: str, *, learn: bool
) -> tuple[Floats, list[str], Columns | None]:
    """Text, categories and dates as numbers, their names, and what encodes them from here on."""
    from fires.columns import Columns  # polars takes a while to load

    if not learn:
        part = Columns([]) if known is None else known.among(frame.columns)
        used = frame.select([column.name for column in part.used])
        matrix = part.transform(used) if part.used else np.empty((len(frame), 0))
        return matrix, [*part.names], known
    target = None if y is None else validation.as_target(y, len(frame), owner)
    after = Columns.learn(frame, y=target) if known is None else known.extended(frame, target)
    for column in after.left_out:
        if column.name in frame.columns and (known is None or column.name not in known.known):
            raise InputError(f"Column {column.name!r} {column.why}; leave it out")
    matrix, after = after.encode(frame)
    matrix, part = after.among(frame.columns).by_target(matrix, target)
    return matrix, [*part.names], after.knowing(part.statistics)


def _without(encoder: Columns | None, features: list[str]) -> Columns | None:
    """What encodes the columns, without those whose features are all gone."""
    if encoder is None:
        return None
    gone, of_features = set(features), zip(encoder.names, encoder.of_features, strict=True)
    stay = {column for name, column in of_features if name not in gone}
    return encoder.forgetting({column.name for column in encoder.used} - stay)


def _given(matrix: Matrix, names: Sequence[str]) -> Given:
    if isinstance(names, Names) and len(names) > matrix.shape[1]:  # later rows have added names
        names = names if sp.issparse(matrix) else names[: matrix.shape[1]]
    elif len(names) != matrix.shape[1]:
        raise InputError(f"X has {matrix.shape[1]} columns and {len(names)} names")
    return NamedRows(matrix, names), matrix if isinstance(matrix, np.ndarray) else matrix.data


def _of_dicts(rows: Sequence[Any], owner: str, absent: str) -> Given | None:
    """Dicts of numbers as a matrix with names; None if there is something else in them."""
    try:
        values = list(chain.from_iterable(row.values() for row in rows))
        lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    except AttributeError:
        raise InputError(f"{owner}: X is a list of dicts and of something else") from None
    numbers = _numbers(values)
    if numbers is None:
        return None
    names = Names()
    places = names.add(chain.from_iterable(rows))
    if not len(names):
        raise InputError(f"{owner}: the rows of X are empty dicts")
    if not all(isinstance(name, str) for name in names):
        raise InputError(f"{owner} has open columns, whose names must be text")
    if absent == "zero":
        starts = np.concatenate([[0], np.cumsum(lengths)])
        shape = (len(rows), len(names))
        return _given(sp.csr_array((numbers, places, starts), shape=shape), list(names))
    out = np.full((len(rows), len(names)), np.nan)
    out[np.repeat(np.arange(len(rows)), lengths), places] = numbers
    return NamedRows(out, list(names)), numbers


def _numbers(values: list[Any]) -> Floats | None:
    """Values as numbers, with NaN for None; None if some are text or the like."""
    kinds = set(map(type, values))
    if not all(kind is type(None) or issubclass(kind, (Real, np.bool_)) for kind in kinds):
        return None
    return np.array(values, dtype=np.float64)
