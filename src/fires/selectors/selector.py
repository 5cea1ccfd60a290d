"""The base class of all selectors: what is selected, its names, and saving."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, overload

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fires.core import validation
from fires.core.declared import Declared, Value, collect, restore
from fires.core.errors import NotPassedAgain, StateError
from fires.core.settings import plain
from fires.core.state import Arrays, State, write_state
from fires.core.types import Estimator, Header, Mask, Matrix, OptionalArray, Places, RowsLike
from fires.core.version import __version__
from fires.selectors.input_validator import InputValidator

if TYPE_CHECKING:
    from fires.models.base import BaseModel


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
        known = getattr(self, "feature_names_in_", None)
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
        X, names = self._as_numbers(X)
        matrix = self._in_order(validation.as_matrix(X, type(self).__name__), names)
        if self.missing == "error":
            self._refuse_strange(matrix)
        return matrix

    def _check_fitted(self) -> None:
        attribute, call = self._fitted_by
        if attribute not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: {call}.")

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
        names = getattr(self, "feature_names_in_", None)
        header |= counted | {
            "params": {name: self._plain(value) for name, value in settings.items()},
            "class": type(self).__name__,
            "fires": __version__,
            "n_features": self.n_features_in_,
            "named_apart": getattr(self, "_named_apart_", False),
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
        if facts.named_apart:
            self._named_apart_ = True
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


def same_kind(model: Any, found: str, wanted: str, what: str) -> Any:
    """The model passed to ``fires.load``, if its class is the one that was saved."""
    if model is None:
        raise NotPassedAgain(
            f"This state was learnt with {what}, {wanted}: pass it again, "
            "fires.load(path, model=...)."
        )
    if found != wanted:
        raise ValueError(f"This state was learnt with {wanted}; model is a {found}.")
    return model
