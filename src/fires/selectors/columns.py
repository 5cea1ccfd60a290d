"""The door for rows: checked, named, encoded and put into the order of the columns learnt from."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from fires.core import validation
from fires.core.batch import CheckedBatch, columns_present
from fires.core.declared import Value
from fires.core.errors import StateError
from fires.core.named import NamedRows
from fires.core.types import Floats, Header, Matrix, OptionalArray, RowsLike
from fires.kernels import scan

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
        n_missing = count_missing(matrix, stored, known.names, missing, owner)
        present = columns_present(matrix) if n_missing else None
        return CheckedBatch(matrix, n_missing=n_missing, known=known, present=present)

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
        if names is not None or known.names is not None or width != known.n_features:
            # After name_features, plain arrays without names are expected.
            called = None if names is None and known.named_apart else known.names
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
        # Here and not above, because polars takes a while to load.
        from fires.columns import Columns
        from fires.columns.kinds import as_polars

        frame = as_polars(X)
        if y is not None:
            y = validation.as_target(y, len(frame), owner)
        if known is None:
            known = Columns.learn(frame, y=y)
            for column in known.left_out:
                raise ValueError(f"Column {column.name!r} {column.why}; leave it out.")
        else:
            frame = known.completed(frame, absent=isinstance(X, (list, tuple)))
        if learn:
            matrix, known = known.encode(frame)
            matrix, known = known.by_target(matrix, y)
        else:
            matrix = known.transform(frame)
        return matrix, np.array(known.names, dtype=object), replace(self, encoder=known)

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


def count_missing(
    matrix: Matrix, stored: Floats, names: Iterable[str] | None, missing: str, owner: str
) -> int:
    """How many entries are missing; an error if there are some that cannot be used."""
    counts = scan(stored)
    if any(counts):
        called = None if names is None else np.array(list(names), dtype=object)
        validation.refuse(matrix, counts, called, missing=missing, owner=owner)
    return counts[0]


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
            f"X has none of the selected columns {listed}: they are taken for missing",
            UserWarning,
            stacklevel=validation.frames_of_ours(),
        )


def masked_frame(X: Any, selected: set[str]) -> Any:
    """A frame with zeros in the columns that are not selected."""
    others = [name for name in X.columns if name not in selected]
    if validation.is_frame(X, "pandas"):
        return X.assign(**dict.fromkeys(others, 0.0))
    import polars as pl

    return X.with_columns(pl.lit(0.0).alias(name) for name in others)
