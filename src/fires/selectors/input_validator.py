"""The input checks that selectors and pipelines share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from fires.core import validation
from fires.core.batch import CheckedBatch, columns_present
from fires.core.errors import StateError
from fires.core.types import (
    Floats,
    GivenClasses,
    Header,
    Json,
    Labels,
    Matrix,
    OptionalArray,
    RowsLike,
)
from fires.kernels import scan
from fires.selectors.open_columns import Given, OpenColumns

if TYPE_CHECKING:
    from fires.columns import Columns


class InputValidator:
    """Checks what a caller passes against the columns learnt from.

    The result is a :class:`fires.core.batch.CheckedBatch`, which nobody checks again.
    """

    missing: str = "ignore"
    n_features_in_: int
    feature_names_in_: npt.NDArray[np.object_]
    columns_: Columns

    def all_or_nothing(self, learn: Callable[..., None], *batch: Any) -> None:
        """Learn; on any error, put the attributes back to what they were before."""
        before = self.__dict__.copy()
        try:
            learn(*batch)
        except BaseException:
            self.__dict__ = before
            raise

    def _admit(
        self,
        X: RowsLike,
        y: OptionalArray = None,
        classes: GivenClasses | None = None,
        sample_weight: OptionalArray = None,
        *,
        learn: bool = False,
    ) -> CheckedBatch:
        """Check a batch. The first one fixes the number of columns, and what they hold."""
        if learn:
            X, y, sample_weight = validation.weighted_rows(X, y, sample_weight, type(self).__name__)
        vocabulary = self._open_vocabulary()
        if vocabulary is not None:
            return self._admit_open(vocabulary, X, y, classes, sample_weight, learn)
        X, names = self._as_numbers(X, y, learn=learn)
        matrix = validation.as_matrix(X, type(self).__name__)
        if "n_features_in_" not in self.__dict__:
            known = self._known_names()
            known = names if known is None else known
            self.n_features_in_ = matrix.shape[1] if known is None else len(known)
            if known is not None:
                self.feature_names_in_ = known
        matrix = self._in_order(matrix, names)
        n_missing = self._refuse_strange(matrix)
        n_rows = matrix.shape[0]
        target = None if y is None else validation.as_target(y, n_rows, type(self).__name__)
        weight = validation.as_weights(sample_weight, n_rows)
        columns = self.__dict__.get("columns_")
        present = columns_present(matrix) if n_missing else None
        # In order, since keywords take time: this is done for every batch.
        return CheckedBatch(
            matrix, target, weight, n_missing, classes, None, None, columns, present
        )

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

    def _known_names(self) -> npt.NDArray[np.object_] | None:
        """The names of columns that are fixed; None if they have none."""
        return getattr(self, "feature_names_in_", None)

    # --- columns that come and go -------------------------------------------------------------

    def _open_vocabulary(self) -> OpenColumns | None:
        """The names of columns that may come and go; None if columns are fixed."""
        return None

    def _admit_open(
        self,
        vocabulary: OpenColumns,
        X: RowsLike,
        y: OptionalArray,
        classes: GivenClasses | None,
        sample_weight: OptionalArray,
        learn: bool,
    ) -> CheckedBatch:
        """Check a batch of columns that may come and go. The book itself is not changed."""
        owner = type(self).__name__
        if not learn:
            matrix, given = vocabulary.placed(X, owner)
            n_absent = matrix.size - given.told.size if isinstance(matrix, np.ndarray) else 0
            return CheckedBatch(matrix, n_missing=self._refuse_given(given) + n_absent)
        arranged = vocabulary.arrange(X, owner, y)
        matrix, n_rows = arranged.matrix, arranged.matrix.shape[0]
        n_missing = self._refuse_given(arranged.given)
        target = None if y is None else validation.as_target(y, n_rows, owner)
        weight = validation.as_weights(sample_weight, n_rows)
        n_absent, present = 0, None
        if isinstance(matrix, np.ndarray):
            n_absent = matrix.size - arranged.given.told.size
            present = columns_present(matrix) if n_missing or n_absent else None
        return CheckedBatch(
            *(matrix, target, weight, n_missing + n_absent, classes),
            present=present,
            n_absent=n_absent,
            vocabulary=arranged.vocabulary,
            source=arranged.source,
        )

    def _refuse_given(self, given: Given) -> int:
        """As :meth:`_refuse_strange`, for rows as they came."""
        counts = scan(given.told)
        if any(counts):
            owner, names = type(self).__name__, np.array(list(given.names), dtype=object)
            validation.refuse(given.matrix, counts, names, missing=self.missing, owner=owner)
        return counts[0]

    def _as_numbers(
        self, X: RowsLike, y: OptionalArray = None, *, learn: bool = False
    ) -> tuple[RowsLike, npt.NDArray[np.object_] | None]:
        """The rows and the names of their columns, with numbers for text, categories and dates."""
        known = self.__dict__.get("columns_")
        is_first = learn and known is None and "n_features_in_" not in self.__dict__
        if type(X) is np.ndarray or not (known or is_first) or not validation.is_table(X):
            return X, validation.column_names(X)
        if known is None and not validation.is_raw(X):
            return X, validation.column_names(X)
        # Here and not above, because polars takes a while to load.
        from fires.columns import Columns
        from fires.columns.kinds import as_polars

        frame = as_polars(X)
        if y is not None:
            y = validation.as_target(y, len(frame), type(self).__name__)
        if known is None:
            known = Columns.learn(frame, y=y)
            for column in known.left_out:
                raise ValueError(f"Column {column.name!r} {column.why}; leave it out.")
        else:
            frame = known.completed(frame, absent=isinstance(X, (list, tuple)))
        if learn:
            matrix, known = known.encode(frame)
            matrix, self.columns_ = known.by_target(matrix, y)
        else:
            matrix = known.transform(frame)
        return matrix, np.array(known.names, dtype=object)

    def _columns_state(self) -> Header | None:
        """What the columns hold, for a state file."""
        columns = self.__dict__.get("columns_") if self._open_vocabulary() is None else None
        return None if columns is None else columns.as_json()  # of open ones, the book has it

    def _restore_columns(self, saved: Json) -> None:
        """Take over what :meth:`_columns_state` gave."""
        if saved is None:
            return
        from fires.columns import Columns

        columns = Columns.from_json(saved)
        if list(columns.names) != list(getattr(self, "feature_names_in_", ())):
            raise StateError("the columns are not those that the features are named after")
        self.columns_ = columns

    def _in_order(self, matrix: Matrix, names: npt.NDArray[np.object_] | None) -> Matrix:
        """The columns in the order learnt from."""
        # After name_features, plain arrays without names are expected.
        apart = names is None and self.__dict__.get("_named_apart_", False)
        known = None if apart else self._known_names()
        owner = type(self).__name__
        order = validation.match_columns(names, matrix.shape[1], known, self.n_features_in_, owner)
        return matrix if order is None else matrix[:, order]

    def _refuse_strange(self, matrix: Matrix) -> int:
        """Raise if there are entries that cannot be used; return the number of missing ones."""
        counts = scan(matrix if isinstance(matrix, np.ndarray) else matrix.data)
        if any(counts):
            known = self._known_names()
            owner = type(self).__name__
            validation.refuse(matrix, counts, known, missing=self.missing, owner=owner)
        return counts[0]

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
        if hasattr(self, "n_features_in_") and len(named) != self.n_features_in_:
            raise ValueError(f"There are {self.n_features_in_} features and {len(named)} names.")
        validation.check_names(named)
        self.feature_names_in_, self._named_apart_ = named, True
        return self

    def _restore_names(self, names: npt.NDArray[np.object_]) -> None:
        if names.shape != (self.n_features_in_,):
            raise StateError(f"{self.n_features_in_} features have names of shape {names.shape}")
        validation.check_names(names)
        self.feature_names_in_ = names
