"""The door for rows: checked, named, encoded and put into the order of the columns learnt from."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.declared import Value
from fires.core.errors import StateError
from fires.core.named import NamedRows
from fires.core.types import Floats, GivenClasses, Header, Labels, Matrix, OptionalArray, RowsLike
from fires.selectors.open_columns import OpenColumns, encoded, scanned

if TYPE_CHECKING:
    from fires.columns import Columns


@dataclass(frozen=True, eq=False)
class FixedColumns:
    """Columns that every batch has: how many, their names, and what text in them is encoded with.

    Objects are not changed: a batch that was admitted has the next one.

    Examples
    --------
    >>> batch = FixedColumns().admit(np.eye(2), None, "FIRES", "ignore", learn=True)
    >>> batch.known.n_features
    2
    """

    n_features: int | None = None  # None before the first batch
    names: npt.NDArray[np.object_] | None = None
    named_apart: bool = False  # whether rows come without these names
    encoder: Columns | None = None

    @property
    def width(self) -> int:
        """How many numbers per feature a learner has."""
        assert self.n_features is not None
        return self.n_features

    def admit(
        self, X: RowsLike, y: OptionalArray, owner: str, missing: str, *, learn: bool
    ) -> CheckedBatch:
        """Check rows. The first ones fix the number of columns, and what they hold."""
        matrix, known = self.rows(X, owner, y, learn=learn)
        stored = matrix if isinstance(matrix, np.ndarray) else matrix.data
        batch = CheckedBatch(matrix, known=known)
        return scanned(batch, matrix, stored, known.names, owner, missing)

    def rows(
        self, X: RowsLike, owner: str, y: OptionalArray = None, *, learn: bool = False
    ) -> tuple[Matrix, FixedColumns]:
        """The rows as numbers in the order learnt from, and what is known of the columns then."""
        known, names = self, None
        if type(X) is not np.ndarray:
            X, names, known = self._encoded(X, y, owner, learn)
        matrix = validation.as_matrix(X, owner)
        width = matrix.shape[1]
        if known.n_features is None:
            called = names if known.names is None else known.names
            n_features = width if called is None else len(called)
            known = replace(known, n_features=n_features, names=called)
        # After name_features, plain arrays without names are expected.
        called = None if names is None and known.named_apart else known.names
        if names is not None or called is not None or width != known.n_features:
            order = validation.match_columns(names, width, called, known.width, owner)
            matrix = matrix if order is None else matrix[:, order]
        return matrix, known

    def _encoded(
        self, X: RowsLike, y: OptionalArray, owner: str, learn: bool
    ) -> tuple[RowsLike, npt.NDArray[np.object_] | None, FixedColumns]:
        """The rows with numbers for text, categories and dates, and the names of their columns."""
        known = self.encoder
        if known is None:
            may_encode = learn and self.n_features is None and validation.is_raw(X)
        else:
            may_encode = validation.is_table(X)
        if not may_encode:
            return X, validation.column_names(X), self
        from fires.columns.kinds import as_polars  # polars takes a while to load

        frame = as_polars(X)
        if known is not None:
            frame = known.completed(frame, absent=isinstance(X, (list, tuple)))
        matrix, names, known = encoded(frame, known, y, owner, learn=learn)
        return matrix, np.array(names, dtype=object), replace(self, encoder=known)

    def beside(self, other: FixedColumns, *, named_apart: bool = True) -> FixedColumns:
        """With what another object knows of the same columns; rows may come without its names."""
        names, apart = self.names, self.named_apart
        if names is None and other.names is not None:
            names, apart = other.names, named_apart
        n_features = other.n_features if self.n_features is None else self.n_features
        encoder = other.encoder or self.encoder
        if n_features == self.n_features and names is self.names and encoder is self.encoder:
            return self
        return FixedColumns(n_features, names, apart, encoder)

    def state(self) -> Header:
        """What a state file holds of it, besides their number."""
        return {
            "feature_names": None if self.names is None else self.names.tolist(),
            "named_apart": self.named_apart,
            "columns": None if self.encoder is None else self.encoder.as_json(),
        }

    @classmethod
    def read(cls, header: Mapping[str, Any], n_features: int) -> Self:
        """What :meth:`state` wrote; StateError if it does not fit."""
        names, encoder = header["feature_names"], None
        if names is not None:
            names = np.array(names, dtype=object)
            if names.shape != (n_features,):
                raise StateError(f"{n_features} features have names of shape {names.shape}")
            validation.check_names(names)
        if header["columns"] is not None:
            from fires.columns import Columns

            encoder = Columns.from_json(header["columns"])
            if names is None or list(encoder.names) != names.tolist():
                raise StateError("the columns are not those that the features are named after")
        return cls(n_features, names, Value(bool).read("named_apart", header, {}, {}), encoder)


KnownColumns = FixedColumns | OpenColumns


def forget(estimator: object) -> None:
    """Delete what was learnt: all attributes whose names end with an underscore."""
    learnt = vars(estimator)
    for name in [name for name in learnt if name.endswith("_")]:
        del learnt[name]


class InputValidator:
    """Checks what a caller passes against the columns learnt from.

    The result is a :class:`fires.core.batch.CheckedBatch`, which nobody checks again.
    """

    missing: str = "ignore"
    time: str | None = None  # the column with the time of each row
    _known_: KnownColumns | None = None

    @property
    def known_columns(self) -> KnownColumns:
        """What is known of the columns so far."""
        return self._known_ or self._first_columns()

    def _first_columns(self) -> KnownColumns:
        """What is known of the columns before the first batch."""
        return FixedColumns()

    @property
    def n_features_in_(self) -> int:
        """How many columns there are."""
        columns = self._known_
        if columns is None or columns.n_features is None:
            raise AttributeError("n_features_in_ is there only after the first batch.")
        return columns.n_features

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns, in the order learnt from."""
        names = self.known_names
        if names is None:
            raise AttributeError("feature_names_in_ is there only where columns have names.")
        return names

    @property
    def known_names(self) -> npt.NDArray[np.object_] | None:
        """The names of the columns, in the order learnt from; None if they have none."""
        return None if self._known_ is None else self.known_columns.names

    @property
    def knows_columns(self) -> bool:
        """Whether the number of columns is known."""
        return self._known_ is not None and self._known_.n_features is not None

    @property
    def encoder(self) -> Columns | None:
        """What text in fixed columns was encoded with; None if there was none."""
        columns = self.known_columns
        return columns.encoder if isinstance(columns, FixedColumns) else None

    @property
    def columns_(self) -> Columns:
        """What text, categories and dates were encoded with."""
        encoder = self.known_columns.encoder
        if encoder is None:
            raise AttributeError("columns_ is there only where columns were encoded.")
        return encoder

    def name_features(self, names: Sequence[str] | npt.NDArray[np.object_]) -> Self:
        """Name the columns of a stream of plain arrays, before or after its first batch.

        Examples
        --------
        >>> from fires import FIRES
        >>> selector = FIRES(1).name_features(["age", "size"])
        >>> selector.partial_fit(np.array([[0.0, 1.0], [1.0, 1.0]]), [0, 1]).feature_names_in_
        array(['age', 'size'], dtype=object)
        """
        named: npt.NDArray[np.object_] = np.asarray(list(names), dtype=object)
        known = self.known_columns
        if self.knows_columns and len(named) != known.n_features:
            raise ValueError(f"There are {known.n_features} features and {len(named)} names.")
        validation.check_names(named)
        if isinstance(known, FixedColumns):
            self._known_ = replace(known, names=named, named_apart=True)
        return self

    def all_or_nothing(self, learn: Callable[..., None], *batch: Any) -> None:
        """Learn; on any error, put the attributes back to what they were before."""
        before = vars(self).copy()
        try:
            learn(*batch)
        except BaseException:
            self.__dict__ = before
            raise

    def _admit(
        self,
        known: KnownColumns,
        X: RowsLike,
        y: OptionalArray = None,
        classes: GivenClasses | None = None,
        sample_weight: OptionalArray = None,
        *,
        learn: bool = False,
        times: Floats | None = None,
    ) -> CheckedBatch:
        """Check a batch of known columns; what is known of them then is ``batch.known``."""
        owner = type(self).__name__
        if learn and sample_weight is not None:
            X, y, sample_weight = validation.weighted_rows(X, y, sample_weight, owner)
        if times is None and self.time is not None:
            X, times = self._without_time(X, learn=learn)
        batch = known.admit(X, y, owner, self.missing, learn=learn)
        n_rows, batch.classes, batch.times = batch.X.shape[0], classes, times
        if y is not None:
            batch.y = validation.as_target(y, n_rows, owner)
        if sample_weight is not None:
            batch.weight = validation.as_weights(sample_weight, n_rows)
        return batch

    def _without_time(self, X: Any, *, learn: bool = False) -> tuple[Any, Floats | None]:
        """X without the column of the time, and what that says, in seconds since 1970."""
        if self.time is None:
            return X, None
        from fires.columns.kinds import split_time  # polars takes a while to load

        return split_time(X, self.time, needed=learn)

    def _teaches(self, X: RowsLike, sample_weight: OptionalArray) -> bool:
        """Whether a row counts: from a batch whose weights are all 0, nothing is learnt."""
        rows = X, None, sample_weight
        return sample_weight is None or bool(len(validation.weighted_rows(*rows, "")[2]))

    def _cut(
        self, X: RowsLike, y: OptionalArray, sample_weight: OptionalArray, size: int
    ) -> Iterator[tuple[RowsLike, Labels | None, Floats | None]]:
        """Rows, targets and weights in slices; those whose weights are all 0 teach nothing."""
        owner = type(self).__name__
        X, n_rows = validation.as_rows(X, owner)
        weight = validation.as_weights(sample_weight, n_rows)
        target = None if y is None else validation.as_target(y, n_rows, owner)
        for start in range(0, max(n_rows, 1), size):
            part = slice(start, start + size)
            w = None if weight is None else weight[part]
            if w is None or w.any():
                yield validation.take_rows(X, part), None if target is None else target[part], w


# --- what is passed to transform and mask ---------------------------------------------------------


def warn_absent(X: RowsLike, selected: Sequence[str]) -> None:
    """Warn of selected columns that X does not have."""
    present: Iterable[Any] = ()
    if isinstance(X, NamedRows):
        present = X.names
    elif isinstance(X, Mapping):
        present = X
    elif isinstance(X, (list, tuple)):
        present = {name for row in X for name in row}
    elif validation.is_table(X):
        present = X.columns  # type: ignore[union-attr]
    here = set(present)
    absent = [name for name in selected if name not in here]
    if absent:
        listed = ", ".join(map(repr, absent[:5])) + ", ..." * (len(absent) > 5)
        warnings.warn(
            f"X lacks the selected columns {listed}: they count as missing",
            UserWarning,
            stacklevel=validation.frames_of_ours(),
        )


def framed(X: Any, values: Any, names: Any) -> Any:
    """Values as a frame, if X is one: of its kind, with its index."""
    if validation.is_frame(X, "pandas"):
        if sp.issparse(values):
            return type(X).sparse.from_spmatrix(values, index=X.index, columns=names)
        return type(X)(values, index=X.index, columns=names)
    if validation.is_frame(X, "polars"):
        return type(X)({name: values[:, i] for i, name in enumerate(names)})
    return values


def masked_frame(X: Any, selected: set[str]) -> Any:
    """A frame with zeros in the columns that are not selected."""
    others = [name for name in X.columns if name not in selected]
    if validation.is_frame(X, "pandas"):
        return X.assign(**dict.fromkeys(others, 0.0))
    import polars as pl

    return X.with_columns(pl.lit(0.0).alias(name) for name in others)
