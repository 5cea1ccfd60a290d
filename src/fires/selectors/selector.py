"""What all selectors share: what is selected, its names, and saving."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Literal,
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
from fires.core.declared import Declared, Value, collect, restore
from fires.core.errors import StateError
from fires.core.settings import check_declared, plain
from fires.core.state import Arrays, State, write_state
from fires.core.types import Estimator, Header, Mask, Matrix, OptionalArray, Places, RowsLike
from fires.core.version import __version__
from fires.kernels import scan
from fires.selectors.columns import FixedColumns, InputValidator, KnownColumns, warn_absent
from fires.selectors.open_columns import OpenColumns

if TYPE_CHECKING:
    from fires.models.base import BaseModel


Kind = TypeVar("Kind")


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(field,))
def settings(kind: type[Kind]) -> type[Kind]:
    """Let the annotated names of a class be its settings, as scikit-learn's ``__init__`` has them.

    What is learnt is declared with ``field(init=False)``.
    """
    return dataclass(eq=False, repr=False, kw_only=True)(kind)


class Selector(InputValidator, BaseEstimator, ABC):  # type: ignore[misc]
    """What selectors share, whether rows or columns arrive.

    A subclass lists in ``_learnt`` what it learns, see :mod:`fires.core.declared`: the entry ``x``
    stands for the attribute ``_x_``. That is enough to be saved and loaded. What its bases list is
    learnt, too.
    """

    _fitted_by: ClassVar[tuple[str, str]]  # the attribute that shows it, and the method to call
    _learnt: ClassVar[Declared] = {}
    _counted: ClassVar[Declared] = {}  # what the base class itself learns

    n_missing_: int

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        listed = (vars(base).get("_learnt", {}) for base in reversed(cls.__mro__))
        cls._learnt = {name: part for learnt in listed for name, part in learnt.items()}

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

    def _read_columns(self, header: Mapping[str, Any]) -> KnownColumns:
        """What a file says of the columns."""
        return FixedColumns.read(header, header["n_features"])

    def _check_learnt(self) -> None:
        """Raise StateError if parts of a loaded state do not fit each other."""

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
        names = self.known_names
        if input_features is not None:
            from sklearn.utils.validation import _check_feature_names_in  # loads pandas and more

            names = _check_feature_names_in(self, input_features)
        if names is None:  # of a million columns, only the selected ones are named
            return np.array([f"x{j}" for j in self._selected()], dtype=object)
        return names[self._selected()]

    def _checked(self, X: RowsLike) -> Matrix:
        """X with its columns in the order learnt from."""
        self._check_fitted()
        known, owner = self.known_columns, type(self).__name__
        if isinstance(known, OpenColumns):
            if known.absent == "missing":
                warn_absent(X, self.get_feature_names_out().tolist())
            open_rows: Matrix = self._admit(known, X).X
            return open_rows
        matrix, known = known.rows(self._without_time(X)[0], owner)
        if self.missing == "error":
            stored = matrix if isinstance(matrix, np.ndarray) else matrix.data
            validation.refuse(matrix, scan(stored), known.names, missing="error", owner=owner)
        return matrix

    def _check_fitted(self) -> None:
        shown_by, call = self._fitted_by
        if shown_by not in vars(self):
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
        header |= counted | {
            "params": {name: self._plain(value) for name, value in settings.items()},
            "class": type(self).__name__,
            "fires": __version__,
            "n_features": self.n_features_in_,
        }
        header |= self.known_columns.state()
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
        Value(int, low=0).read("n_features", header, arrays, {})
        self._known_ = self._read_columns(header)
        restore(self, self._counted, header, arrays, self._sizes(), "{}_")
        try:
            self._check_parameters()
        except ValueError as error:
            raise StateError(str(error)) from None
        self._restore(header, arrays, model)
        self._check_learnt()
        return self
