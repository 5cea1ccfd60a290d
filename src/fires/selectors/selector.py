"""What all selectors share: the door for input, what is selected, its names, and saving."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, is_dataclass
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypeVar,
    dataclass_transform,
    overload,
)

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fires.core import validation
from fires.core.batch import CheckedBatch, columns_present
from fires.core.declared import Declared, Value, collect, restore
from fires.core.errors import StateError
from fires.core.settings import check_declared, plain
from fires.core.state import Arrays, State, write_state
from fires.core.types import (
    Estimator,
    Floats,
    GivenClasses,
    Header,
    Json,
    Labels,
    Mask,
    Matrix,
    OptionalArray,
    Places,
    RowsLike,
)
from fires.core.version import __version__
from fires.kernels import scan
from fires.selectors.open_columns import OpenColumns, warn_absent

if TYPE_CHECKING:
    from fires.columns import Columns
    from fires.models.base import BaseModel


Kind = TypeVar("Kind")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def settings(kind: type[Kind]) -> type[Kind]:
    """Let the annotated names of a class be its settings, as scikit-learn's ``__init__`` has them.

    What is learnt is declared with ``field(init=False)``.
    """
    return dataclass(eq=False, repr=False, kw_only=True)(kind)


class KnownColumns(NamedTuple):
    """What an estimator knows of the columns it learns from."""

    n_features: int | None  # None before the first batch
    names: npt.NDArray[np.object_] | None
    encoder: Columns | None
    named_apart: bool = False  # whether rows come without these names


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
    n_features_in_: int
    _column_names_: npt.NDArray[np.object_] | None = None
    _named_apart_ = False  # whether rows come without these names
    _encoder_: Columns | None = None

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns, in the order learnt from."""
        names = self._known_names()
        if names is None:
            raise AttributeError("feature_names_in_ is there only where columns have names.")
        return names

    @property
    def known_names(self) -> npt.NDArray[np.object_] | None:
        """The names of the columns, in the order learnt from; None if they have none."""
        return self._known_names()

    @property
    def knows_columns(self) -> bool:
        """Whether the number of columns is known."""
        return "n_features_in_" in vars(self)

    @property
    def encoder(self) -> Columns | None:
        """What text, categories and dates were encoded with; None if there were none."""
        return self._encoder_

    @property
    def columns_(self) -> Columns:
        """What text, categories and dates were encoded with."""
        encoder = self._known_encoder()
        if encoder is None:
            raise AttributeError("columns_ is there only where columns were encoded.")
        return encoder

    def known_columns(self) -> KnownColumns:
        """What is known of the columns so far."""
        n_features, names = vars(self).get("n_features_in_"), self._known_names()
        return KnownColumns(n_features, names, self._known_encoder(), self._named_apart_)

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
        X: RowsLike,
        y: OptionalArray = None,
        classes: GivenClasses | None = None,
        sample_weight: OptionalArray = None,
        *,
        learn: bool = False,
    ) -> CheckedBatch:
        """Check a batch. The first one fixes the number of columns, and what they hold."""
        owner = type(self).__name__
        if learn and sample_weight is not None:
            X, y, sample_weight = validation.weighted_rows(X, y, sample_weight, owner)
        vocabulary = self._open_vocabulary()
        if vocabulary is None:
            batch = self._admit_rows(X, y, owner, learn)
        else:
            batch = self._admit_open(vocabulary, X, y, owner, learn)
        n_rows, batch.classes = batch.X.shape[0], classes
        if y is not None:
            batch.y = validation.as_target(y, n_rows, owner)
        if sample_weight is not None:
            batch.weight = validation.as_weights(sample_weight, n_rows)
        return batch

    def _admit_rows(self, X: RowsLike, y: OptionalArray, owner: str, learn: bool) -> CheckedBatch:
        """Check rows of fixed columns."""
        names = None
        if type(X) is not np.ndarray:
            X, names = self._as_numbers(X, y, learn=learn)
        matrix = validation.as_matrix(X, owner)
        if not self.knows_columns:
            known = self._known_names()
            known = names if known is None else known
            self.n_features_in_ = matrix.shape[1] if known is None else len(known)
            self._column_names_ = known
        named = names is not None or self._column_names_ is not None
        if named or matrix.shape[1] != self.n_features_in_:
            matrix = self._in_order(matrix, names)
        n_missing = self._refuse_strange(matrix)
        present = columns_present(matrix) if n_missing else None
        return CheckedBatch(matrix, n_missing=n_missing, columns=self._encoder_, present=present)

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
        """The names of the columns; None if they have none."""
        return self._column_names_

    def _known_encoder(self) -> Columns | None:
        """What text, categories and dates are encoded with; None if nothing is."""
        return self._encoder_

    # --- columns that come and go -------------------------------------------------------------

    def _open_vocabulary(self) -> OpenColumns | None:
        """The names of columns that may come and go; None if columns are fixed."""
        return None

    def _admit_open(
        self, vocabulary: OpenColumns, X: RowsLike, y: OptionalArray, owner: str, learn: bool
    ) -> CheckedBatch:
        """Check rows of columns that may come and go. The book itself is not changed."""
        found = vocabulary.arrange(X, owner, y) if learn else vocabulary.placed(X, owner)
        matrix, given, n_absent, present = found.matrix, found.given, 0, None
        n_missing = self._refuse_strange(given.matrix, given.told, given.names)
        if isinstance(matrix, np.ndarray):
            n_absent = matrix.size - given.told.size
            present = columns_present(matrix) if n_missing or n_absent else None
        return CheckedBatch(
            matrix,
            n_missing=n_missing + n_absent,
            present=present,
            n_absent=n_absent,
            vocabulary=found.vocabulary,
            source=found.source,
        )

    def _as_numbers(
        self, X: RowsLike, y: OptionalArray = None, *, learn: bool = False
    ) -> tuple[RowsLike, npt.NDArray[np.object_] | None]:
        """The rows and the names of their columns, with numbers for text, categories and dates."""
        known = self._encoder_
        if known is None:
            may_encode = learn and not self.knows_columns and validation.is_raw(X)
        else:
            may_encode = validation.is_table(X)
        if not may_encode:
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
            matrix, known = known.by_target(matrix, y)
            self._encoder_ = known
        else:
            matrix = known.transform(frame)
        return matrix, np.array(known.names, dtype=object)

    def _columns_state(self) -> Header | None:
        """What the columns hold, for a state file."""
        columns = self._encoder_ if self._open_vocabulary() is None else None
        return None if columns is None else columns.as_json()  # of open ones, the book has it

    def _restore_columns(self, saved: Json) -> None:
        """Take over what :meth:`_columns_state` gave."""
        if saved is None:
            return
        from fires.columns import Columns

        columns = Columns.from_json(saved)
        names = self._known_names()
        if names is None or list(columns.names) != list(names):
            raise StateError("the columns are not those that the features are named after")
        self._encoder_ = columns

    def _in_order(self, matrix: Matrix, names: npt.NDArray[np.object_] | None) -> Matrix:
        """The columns in the order learnt from."""
        # After name_features, plain arrays without names are expected.
        known = None if names is None and self._named_apart_ else self._known_names()
        owner = type(self).__name__
        order = validation.match_columns(names, matrix.shape[1], known, self.n_features_in_, owner)
        return matrix if order is None else matrix[:, order]

    def _refuse_strange(
        self, matrix: Matrix, told: Floats | None = None, names: Sequence[str] | None = None
    ) -> int:
        """Raise if there are entries that cannot be used; return the number of missing ones."""
        if told is None:
            told = matrix if isinstance(matrix, np.ndarray) else matrix.data
        counts = scan(told)
        if any(counts):
            known = self._known_names() if names is None else np.array(list(names), dtype=object)
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
        if self.knows_columns and len(named) != self.n_features_in_:
            raise ValueError(f"There are {self.n_features_in_} features and {len(named)} names.")
        validation.check_names(named)
        self._column_names_, self._named_apart_ = named, True
        return self

    def _restore_names(self, names: npt.NDArray[np.object_]) -> None:
        if names.shape != (self.n_features_in_,):
            raise StateError(f"{self.n_features_in_} features have names of shape {names.shape}")
        validation.check_names(names)
        self._column_names_ = names


class Selector(InputValidator, BaseEstimator, ABC):  # type: ignore[misc]
    """What selectors share, whether rows or columns arrive.

    A subclass lists in ``_learnt`` what it learns, see :mod:`fires.core.declared`: the entry ``x``
    stands for the attribute ``_x_``. That is enough to be saved and loaded.
    """

    _fitted_by: ClassVar[tuple[str, str]]  # the attribute that shows it, and the method to call
    _learnt: ClassVar[Declared] = {}
    _counted: ClassVar[Declared] = {}  # what the base class itself learns

    n_missing_: int

    @abstractmethod
    def _selected(self) -> Places:
        """The indices of the selected columns, ascending; callers must not change them."""

    def _check_parameters(self) -> None:
        """Raise if a setting makes no sense. Called again whenever a setting has changed."""
        if is_dataclass(self):
            check_declared(self, self.get_params(deep=False))

    def _state(self) -> State:
        """What was learnt, as JSON values and arrays."""
        return collect(self, self._learnt, "_{}_")

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        """Go on from :meth:`_state`; ``model`` is what the user passed to ``fires.load``."""
        restore(self, self._learnt, header, arrays, self._sizes(), "_{}_")

    def _sizes(self) -> dict[str, int]:
        """The sizes that the letters in declared shapes stand for."""
        return {"J": self.n_features_in_}

    def _plain(self, value: Any) -> Any:
        """A setting as JSON; :meth:`_from_plain` takes it back."""
        return plain(value)

    def _from_plain(self, value: Any, model: Any) -> Any:
        """A setting from JSON; ``model`` is what the user passed to ``fires.load``."""
        return value

    # --- what was learnt --------------------------------------------------------------------

    @overload
    def get_support(self, indices: Literal[False] = False) -> Mask: ...
    @overload
    def get_support(self, indices: Literal[True]) -> Places: ...
    def get_support(self, indices: bool = False) -> Mask | Places:
        """Mask or indices of the selected features."""
        self._check_fitted()
        if indices:
            return self._selected().copy()
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self._selected()] = True
        return mask

    @property
    def n_features_selected_(self) -> int:
        """How many features are selected."""
        self._check_fitted()
        return len(self._selected())

    def get_feature_names_out(
        self, input_features: OptionalArray = None
    ) -> npt.NDArray[np.object_]:
        """The names of the selected features."""
        self._check_fitted()
        known = self._known_names()
        if input_features is None:
            if known is None:
                return np.array([f"x{j}" for j in self._selected()], dtype=object)
            names = known
        else:
            names = np.asarray(input_features, dtype=object)
            if known is not None and not np.array_equal(names, known):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != self.n_features_in_:
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(names)}"
                )
        out: npt.NDArray[np.object_] = names[self._selected()]
        return out

    def _checked(self, X: RowsLike) -> Matrix:
        """X with its columns in the order learnt from."""
        self._check_fitted()
        vocabulary = self._open_vocabulary()
        if vocabulary is not None:
            if vocabulary.absent == "missing":
                warn_absent(X, self.get_feature_names_out())
            open_rows: Matrix = self._admit(X).X
            return open_rows
        X, names = self._as_numbers(X)
        matrix = self._in_order(validation.as_matrix(X, type(self).__name__), names)
        if self.missing == "error":
            self._refuse_strange(matrix)
        return matrix

    def _check_fitted(self) -> None:
        if not self.is_fitted:
            call = self._fitted_by[1]
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: {call}.")

    @property
    def is_fitted(self) -> bool:
        """Whether something was learnt."""
        return self._fitted_by[0] in vars(self)

    # --- state ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on to a file, for :func:`fires.load`.

        The file holds no code. It is written under another name and then moved into place, so a
        crash leaves the old file whole.
        """
        write_state(path, *self.saved())

    def saved(self) -> State:
        """Everything that goes into a file, this selector's own or a pipeline's."""
        self._check_fitted()
        header, arrays = self._state()
        counted, more = collect(self, self._counted, "{}_")
        settings = self.get_params(deep=False)
        names = self._known_names()
        header |= counted | {
            "params": {name: self._plain(value) for name, value in settings.items()},
            "class": type(self).__name__,
            "fires": __version__,
            "n_features": self.n_features_in_,
            "named_apart": self._named_apart_,
            "feature_names": None if names is None else names.tolist(),
            "columns": self._columns_state(),
        }
        return header, arrays | more

    def restore(
        self, header: dict[str, Any], arrays: Arrays, model: BaseModel | Estimator | None = None
    ) -> Self:
        """Take over what was :meth:`saved`, after all of it has been checked."""
        known = set(self.get_params(deep=False))
        unknown = sorted(set(header["params"]) - known)
        if unknown:
            raise StateError(f"settings unknown here: {unknown}")
        params = header["params"].items()
        self.set_params(**{name: self._from_plain(value, model) for name, value in params})
        facts = SimpleNamespace()
        restore(facts, _FACTS, header, arrays, {})
        self.n_features_in_ = facts.n_features
        self._named_apart_ = facts.named_apart
        names = header["feature_names"]
        if names is not None:
            self._restore_names(np.array(names, dtype=object))
        self._restore_columns(header["columns"])
        restore(self, self._counted, header, arrays, self._sizes(), "{}_")
        try:
            self._check_parameters()
        except ValueError as error:
            raise StateError(str(error)) from None
        self._restore(header, arrays, model)
        return self


_FACTS: Declared = {"n_features": Value(int, low=0), "named_apart": Value(bool)}
