"""What every selector can do: say what it selects, reduce X to it, and be saved."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from fires.core import validation
from fires.core.settings import plain
from fires.core.state import State, write_state
from fires.core.version import __version__


class Selector(BaseEstimator, ABC):  # type: ignore[misc]
    """What selectors of streams of rows and of arriving features have in common."""

    _fitted_by: ClassVar[tuple[str, str]]  # the attribute that says so, and what has to be called

    n_features_in_: int
    n_missing_: int

    @abstractmethod
    def _selected(self) -> npt.NDArray[np.intp]:
        """The selected columns, ascending; not to be changed."""

    @abstractmethod
    def _content(self) -> State:
        """All that is to be saved besides the settings."""

    @abstractmethod
    def _take_content(
        self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], model: Any
    ) -> None:
        """Go on from :meth:`_content`; ``model`` is what the user passed to ``fires.load``."""

    def _plain(self, value: Any) -> Any:
        """A setting as JSON; :meth:`_revive` takes it back."""
        return plain(value)

    def _revive(self, value: Any, model: Any) -> Any:
        """A setting from JSON; ``model`` is what the user passed to ``fires.load``."""
        return value

    def _all_or_nothing(self, learn: Callable[..., None], *batch: Any) -> None:
        """Learn, or on any error be again what was before."""
        before = self.__dict__.copy()
        try:
            learn(*batch)
        except BaseException:
            self.__dict__ = before
            raise

    # --- what was learnt --------------------------------------------------------------------

    def get_support(self, indices: bool = False) -> npt.NDArray[Any]:
        """The selected ones of all features seen, as a mask or as ascending indices."""
        self._check_fitted()
        if indices:
            return self._selected().copy()
        mask = np.zeros(self.n_features_in_, dtype=bool)
        mask[self._selected()] = True
        return mask

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
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

    def _checked(self, X: Any) -> Any:
        """X with its columns in the order learnt from."""
        self._check_fitted()
        matrix = validation.as_matrix(X, type(self).__name__)
        return self._in_order(matrix, validation.column_names(X))

    def _in_order(self, matrix: Any, names: Any) -> Any:
        # Where names came on their own, arrays are what was announced.
        apart = names is None and getattr(self, "_named_apart_", False)
        known = None if apart else getattr(self, "feature_names_in_", None)
        owner = type(self).__name__
        order = validation.match_columns(names, matrix.shape[1], known, self.n_features_in_, owner)
        return matrix if order is None else matrix[:, order]

    def _check_fitted(self) -> None:
        attribute, call = self._fitted_by
        if attribute not in self.__dict__:
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: {call}.")

    # --- state ------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on to a file, for :func:`fires.load`.

        No code is in the file. It is written beside and moved into place, so a crash leaves the
        old file whole.
        """
        write_state(path, *self._saved())

    def _saved(self) -> State:
        """Everything a file holds: what a pipeline, too, puts into its own."""
        self._check_fitted()
        header, arrays = self._content()
        settings = self.get_params(deep=False)
        header |= {
            "params": {name: self._plain(value) for name, value in settings.items()},
            "class": type(self).__name__,
            "fires": __version__,
            "n_features": self.n_features_in_,
            "n_missing": self.n_missing_,
        }
        return header, arrays

    def _resume(
        self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], model: Any
    ) -> None:
        """Become what was saved."""
        settings = {name: self._revive(value, model) for name, value in header["params"].items()}
        self.set_params(**settings)
        self.n_features_in_ = header["n_features"]
        self.n_missing_ = header["n_missing"]
        self._take_content(header, arrays, model)


def same_kind(model: Any, found: str, wanted: str, what: str) -> Any:
    """What the user passed to ``fires.load``, if its class is the one that was saved."""
    if model is None:
        raise ValueError(
            f"This state was learnt with {what}, {wanted}: pass it again, "
            "fires.load(path, model=...)."
        )
    if found != wanted:
        raise ValueError(f"This state was learnt with {wanted}; model is a {found}.")
    return model
