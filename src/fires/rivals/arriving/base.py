"""The base class of selectors for arriving features: the rows stay, columns are added."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import validation
from fires.core.classes import merge_classes
from fires.core.declared import Array, Declared, Value
from fires.core.errors import StateError
from fires.core.randomness import rewound
from fires.core.settings import how_many
from fires.core.state import Arrays, State
from fires.core.types import Floats, Header, Json, Labels, Matrix, OptionalArray, Places, RowsLike
from fires.rivals.arrays import as_dense
from fires.rivals.base import settings
from fires.selectors.columns import FixedColumns
from fires.selectors.selector import Selector

ArrivingColumns = Iterator[tuple[int, Floats]]

_AT_ONCE = 64  # columns that are dense at one time


class Chosen:
    """The C selected columns and their weights, as a part of a declared state."""

    def write(self, name: str, value: dict[int, float], header: Header, arrays: Arrays) -> None:
        """See :class:`fires.core.declared.Part`."""
        arrays[name] = np.array(list(value), dtype=np.int64)
        arrays["worth"] = np.array(list(value.values()), dtype=np.float64)

    def read(
        self, name: str, header: Mapping[str, Json], arrays: Arrays, sizes: dict[str, int]
    ) -> dict[int, float]:
        """See :class:`fires.core.declared.Part`."""
        places = Array("C", dtype="int64", low=0, high="J").read(name, header, arrays, sizes)
        worth = Array("C").read("worth", header, arrays, sizes)
        if (np.diff(places) <= 0).any():
            raise StateError(f"{name} is not ascending")
        sizes["1+C"] = 1 + len(places)
        return dict(zip(places.tolist(), worth.tolist(), strict=True))


@settings
class ArrivingFeatures(Selector):
    """A selector for a fixed set of rows to which new columns keep arriving.

    The opposite of :class:`~fires.selectors.base.OnlineSelector`: all rows and the target are known
    from the start. Features arrive one by one or in blocks, and each is looked at once. The result
    is a set, not a ranking: the features the method finds worth keeping, or the best
    ``n_features_to_select`` of them. A method stores no columns unless its docstring says so.

    A subclass writes ``_start`` and ``_arrive``, and adds to ``_learnt`` what is to be saved. If
    one of them raises an error, the selector is put back to what it was before the call.
    """

    n_features_to_select: int | float | None = field(default=None, kw_only=False)

    _counted: ClassVar[Declared] = {"n_missing": Value(int, low=0), "n_samples": Value(int, low=1)}
    _learnt: ClassVar[Declared] = {"chosen": Chosen(), "digest": Value(str, optional=True)}
    _fitted_by = ("n_missing_", "call partial_fit_features with the first columns")
    _supervised = True

    n_samples_: int = field(init=False, default=0)
    _chosen_: dict[int, float] = field(init=False)  # the selected columns, ascending: their weights
    _names_: dict[str, None] = field(init=False)
    _digest_: str | None = field(init=False, default=None)
    _n_columns_: int = field(init=False, default=0)
    _rng_: np.random.Generator | None = field(init=False, default=None)

    # --- what a subclass writes -------------------------------------------------------------

    @abstractmethod
    def _start(self, y: Labels) -> None:
        """Take in the target, which is empty without supervision, before the first columns."""

    @abstractmethod
    def _arrive(self, columns: ArrivingColumns) -> None:
        """Look at new columns (index, values) and change ``_chosen_``, but no array in place."""

    # --- learning ---------------------------------------------------------------------------

    def partial_fit_features(self, X_new: RowsLike, y: OptionalArray = None) -> Self:
        """Look at new columns of the same rows."""
        self.all_or_nothing(self._take_columns, X_new, y)
        return self

    def _take_columns(self, X_new: RowsLike, y: OptionalArray) -> None:
        self._check_parameters()
        self._resolve_k()
        owner = type(self).__name__
        batch = FixedColumns().admit(X_new, None, owner, "ignore", learn=False)
        matrix, names = batch.X, batch.known.names
        is_first = self._n_columns_ == 0
        if is_first:
            self.n_samples_, self._names_ = matrix.shape[0], {}
        elif matrix.shape[0] != self.n_samples_:
            raise ValueError(
                f"X_new has {matrix.shape[0]} rows and the columns before had {self.n_samples_}: "
                "the rows stay the same while columns arrive."
            )
        new = self._check_names(names)
        target = self._check_target(y) if self._supervised else np.empty(0)
        if is_first:
            self.n_missing_, self._chosen_ = 0, {}
            self._start(target)
        self._chosen_ = dict(self._chosen_)
        with rewound(self._rng_):
            self._arrive(_columns(matrix, self._n_columns_))
        self.n_missing_ += batch.n_missing
        self._n_columns_ += matrix.shape[1]
        self._known_ = FixedColumns(self._n_columns_)
        self._names_.update(new)  # changes in place, so it comes last

    def _check_names(self, names: npt.NDArray[np.object_] | None) -> dict[str, None]:
        if self._n_columns_ and (names is None) == bool(self._names_):
            raise ValueError(
                "X_new has no column names, but the columns before had some."
                if names is None
                else "X_new has column names, but the columns before had none."
            )
        new = dict.fromkeys([] if names is None else names.tolist())
        twice = next((name for name in new if name in self._names_), None)
        if twice is not None:
            raise ValueError(f"Column names must be unique; {twice!r} has arrived before.")
        return new

    def _check_target(self, y: OptionalArray) -> npt.NDArray[np.generic]:
        """The target; an error if it differs from that of earlier calls."""
        target = validation.as_target(y, self.n_samples_, type(self).__name__)
        if (target == target[0]).all():
            raise ValueError("y is the same in every row: there is nothing to predict.")
        digest = _digest(target)
        if self._digest_ not in (None, digest):
            raise ValueError(
                "y is not the y of the calls before: the target stays the same while columns "
                "arrive."
            )
        self._digest_ = digest
        return target

    # --- what was learnt --------------------------------------------------------------------

    @property
    def weights_(self) -> Floats:
        """The weight of every selected column, greater for better, and 0 for all others."""
        self._check_fitted()
        weights = np.zeros(self.n_features_in_)
        weights[list(self._chosen_)] = list(self._chosen_.values())
        return weights

    @property
    def known_columns(self) -> FixedColumns:
        """What is known of the columns so far; an array of their names is made here only."""
        if not self._n_columns_ or not self._names_:
            return FixedColumns(self._n_columns_ or None)
        return FixedColumns(self._n_columns_, np.array(list(self._names_), dtype=object))

    def _selected(self) -> Places:
        selected = np.fromiter(self._chosen_, np.intp, len(self._chosen_))
        k = self._resolve_k()
        if k is None:
            return selected
        worth = np.fromiter(self._chosen_.values(), np.float64, len(self._chosen_))
        return np.sort(selected[np.argsort(-worth, kind="stable")[:k]])  # ties to the lower index

    def transform(self, X: RowsLike) -> Matrix:
        """X reduced to the selected columns."""
        return self._checked(X)[:, self._selected()]

    def _resolve_k(self) -> int | None:
        k = self.n_features_to_select
        wanted = None if k is None else how_many(k, self._n_columns_)
        if k is not None and wanted is None:
            raise ValueError(
                "n_features_to_select must be a positive integer, a fraction between 0 and 1 or "
                f"None; got {k!r}."
            )
        return wanted

    # --- state ------------------------------------------------------------------------------

    def saved(self) -> State:
        """See :meth:`Selector.saved`."""
        header, arrays = super().saved()
        return header | {"names": list(self._names_), "feature_names": None}, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays, model: Any = None) -> Self:
        """See :meth:`Selector.restore`."""
        names = header["names"]
        if names and len(names) != header["n_features"]:
            raise StateError(f"{header['n_features']} columns have {len(names)} names")
        validation.check_names(np.array(names, dtype=object))
        self._names_, self._n_columns_ = dict.fromkeys(names), header["n_features"]
        return super().restore(header, arrays, model)

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"N": self.n_samples_}


def _columns(matrix: Matrix, start: int) -> ArrivingColumns:
    """The columns with their indices, each as a dense float64 array."""
    by_column: Any = matrix if isinstance(matrix, np.ndarray) else sp.csc_array(matrix)
    for first in range(0, matrix.shape[1], _AT_ONCE):
        block = as_dense(by_column[:, first : first + _AT_ONCE])
        yield from enumerate(np.array(block.T, np.float64, order="C"), start + first)


def _digest(y: Labels) -> str:
    """A fingerprint of the target. It does not depend on the type of the numbers."""
    if y.dtype.kind in "biuf":
        content = (y.astype(np.float64) + 0.0).tobytes()  # -0.0 is 0.0
    else:
        content = json.dumps([str(label) for label in y.tolist()]).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


# --- what several methods need ------------------------------------------------------------------


def as_numbers(y: Labels, owner: str) -> Floats:
    """The target as numbers. Of two text labels, the greater is 1 and the other 0."""
    if y.dtype.kind in "biuf":
        return validation.as_numbers(y, owner)
    return two_classes(y, f"{owner} learns numbers or two classes")


def two_classes(y: Labels, wanted: str) -> Floats:
    """1 for the greater of two labels, 0 for the other one."""
    labels = merge_classes(None, y)
    if len(labels) > 2:
        known = f"{labels[:5].tolist()}{'...' if len(labels) > 5 else ''}"
        raise ValueError(f"{wanted}; these are {len(labels)}: {known}")
    return np.where(y == labels[-1], 1.0, 0.0)


def centred(x: Floats) -> Floats:
    """A column minus its mean, scaled so that its square cannot overflow; missing entries are 0.

    A column without spread becomes exactly 0.
    """
    x = scaled(x)
    missing = np.isnan(x)
    x -= x[~missing].mean() if not missing.all() else 0.0
    x[missing] = 0.0
    return x


def scaled(x: Floats) -> Floats:
    """A column shifted and scaled to lie in [-1, 1]; missing entries stay missing.

    The first entry is subtracted. So a column of equal values becomes exactly 0.
    """
    present = x[~np.isnan(x)]
    if len(present) == 0:
        return x.copy()
    shifted: Floats = x - present[0]
    size = float(np.nanmax(np.abs(shifted)))
    if size > 0.0:
        shifted /= size
    return shifted
