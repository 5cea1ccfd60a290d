"""What a selector does about columns that come and go."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.declared import collect, restore
from fires.core.errors import StateError
from fires.core.named import NamedRows
from fires.core.settings import check_choice, check_count
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Header, Mask, Matrix, Places, RowsLike
from fires.kernels.select import keep_columns
from fires.selectors.base import OnlineSelector
from fires.selectors.open_columns import OpenColumns
from fires.selectors.presence import Presence

if TYPE_CHECKING:
    pass


_STALE = 2  # of so many sparse columns, one must be stale before all are put in new places
_LOOKS = 8  # so often within forget_after, stale ones are looked for among sparse columns


class ChangingColumns(OnlineSelector):
    """A selector whose columns may come and go, if ``columns`` is "open".

    A subclass calls :meth:`_attend` before it learns and :meth:`_forget_stale` afterwards. Its
    numbers per column have the width of the book, which may be more than there are names.
    """

    columns: str
    absent: str
    forget_after: int | None
    _presence_: Presence
    _open_: OpenColumns

    @abstractmethod
    def _rearrange(self, source: Places) -> None:
        """Put what was learnt into other places: see :func:`fires.core.declared.rearrange`."""

    @property
    def absent_(self) -> list[str]:
        """The names of the columns that are known but have not come lately; they rest."""
        self._check_fitted()
        presence = self.__dict__.get("_presence_")
        if presence is None or not self._is_open or self.absent == "zero":
            return []
        resting = np.flatnonzero(presence.resting[: self.n_features_in_])
        return [self._open_.known[place] for place in resting]

    @property
    def _is_open(self) -> bool:
        return self.columns == "open"

    @property
    def _width(self) -> int:
        """How many numbers per feature a learner has."""
        vocabulary = self.__dict__.get("_open_")
        return self.n_features_in_ if vocabulary is None else vocabulary.width

    def _open_vocabulary(self) -> OpenColumns | None:
        if self.columns != "open":
            return None
        return self.__dict__.get("_open_") or OpenColumns(self.absent)

    # A property and no __getattr__, with which Python would be slow to find any attribute.
    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns, in the order learnt from."""
        names: npt.NDArray[np.object_] | None = self.__dict__.get("feature_names_in_")
        if names is None and "_open_" in self.__dict__:
            # With a million words, making an array of names takes longer than a batch.
            seen = self.__dict__.setdefault("_seen_", {})
            names = seen.get("names")
            if names is None or len(names) != self._open_.n_known:
                names = seen["names"] = np.array(self._open_.known, dtype=object)
        if names is None:
            raise AttributeError("feature_names_in_ is there only where columns have names.")
        return names

    @feature_names_in_.setter
    def feature_names_in_(self, names: Sequence[str] | npt.NDArray[np.object_]) -> None:
        self.__dict__["feature_names_in_"] = names

    @feature_names_in_.deleter
    def feature_names_in_(self) -> None:
        del self.__dict__["feature_names_in_"]

    def _known_names(self) -> npt.NDArray[np.object_] | None:
        return self.__dict__.get("feature_names_in_")

    def _check_columns(self) -> None:
        """Raise if one of the settings for columns makes no sense."""
        check_choice("columns", self.columns, ("fixed", "open"), "'fixed' or 'open'")
        check_choice("absent", self.absent, ("missing", "zero"), "'missing' or 'zero'")
        if self.forget_after is not None:
            check_count("forget_after", self.forget_after)
        if self.columns == "fixed":
            for name, is_set in (
                ("absent", self.absent != "missing"),
                ("forget_after", self.forget_after is not None),
            ):
                if is_set:
                    raise ValueError(f"{name} is for columns='open'.")
        if "n_samples_seen_" in self.__dict__ and self._is_open != ("_open_" in self.__dict__):
            raise ValueError("columns cannot change between 'fixed' and 'open' after a batch.")
        vocabulary = self.__dict__.get("_open_")
        if vocabulary is not None and vocabulary.absent != self.absent:
            raise ValueError(f"absent was {vocabulary.absent!r} and cannot change after a batch.")

    # --- learning ---------------------------------------------------------------------------

    def known(self, batch: CheckedBatch) -> CheckedBatch:
        """See :meth:`OnlineSelector.known`."""
        if batch.vocabulary is not None:
            self.n_features_in_ = batch.vocabulary.n_known
        return super().known(batch)

    def _take(self, batch: CheckedBatch) -> None:
        if batch.vocabulary is not None:
            self._open_, self.n_features_in_ = batch.vocabulary, batch.vocabulary.n_known
        super()._take(batch)

    def _attend(self, batch: CheckedBatch) -> None:
        """Take note of which columns are there, and go by their new places."""
        known, source = self.__dict__.get("_presence_"), batch.source
        present: slice | Mask = slice(None) if batch.present is None else batch.present
        is_sparse = sp.issparse(batch.X)
        if is_sparse:
            notes = self.forget_after is not None and batch.vocabulary is not None
        else:
            notes = not (known is None and source is None and batch.present is None)
        if source is not None:
            self._rearrange(source)
        if not notes:
            return
        if known is None:
            n_before = batch.X.shape[1] if source is None else int(source.max()) + 1
            known = Presence(n_before, float(getattr(self, "n_samples_seen_", 0)))
        if source is not None:
            known = known.rearranged(source)
        # A copy of what is known of a million words takes longer than a step: they are noted when
        # nothing can fail any more.
        self._presence_ = known if is_sparse else known.after(present, float(batch.n_rows))

    def _resting(self) -> Mask | None:
        """The columns that are not there, of dense rows; None if all are."""
        presence = self.__dict__.get("_presence_")
        if presence is None or (self._is_open and self.absent == "zero"):
            return None
        resting = presence.resting
        return resting if resting.any() else None

    def _forget_stale(self, batch: CheckedBatch) -> None:
        """Let the next batch begin without the columns that were absent for too long."""
        if self.forget_after is None or "_presence_" not in self.__dict__ or not self._is_open:
            return
        if self.absent == "zero":
            self._presence_.note(batch.X.indices, float(batch.n_rows))
            if not self._presence_.is_due(self.forget_after / _LOOKS):
                return
        stale = self._presence_.absent_for(float(self.forget_after))
        stale = stale[stale < self.n_features_in_]
        if self.absent == "zero":  # of these, there may be room for names that are still to come
            stale = stale[~self._presence_.never[stale]]
        if not 0 < len(stale) < self.n_features_in_:
            return
        # Of a million words, some are stale after each batch; to put all others into new places
        # takes longer than a step. But what is selected must not be stale.
        many = _STALE * len(stale) >= self.n_features_in_ or self.absent == "missing"
        if many or np.isin(self._selected(), stale).any():
            self._open_ = self._open_.dropping(stale)

    # --- applying it ------------------------------------------------------------------------

    def _checked(self, X: RowsLike) -> Matrix:
        if not self._is_open:
            return super()._checked(X)
        self._check_fitted()
        checked: Matrix = self._admit(X).X
        return checked

    def transform(self, X: RowsLike) -> Matrix:
        """X reduced to the selected columns."""
        if self._is_open:
            self._check_fitted()
            self._say_absent(X)
        return super().transform(X)

    def mask(self, X: RowsLike) -> Any:
        """X in its full width, with zeros in the columns that are not selected.

        A predictor that sees masked rows keeps working when the selected set changes.
        """
        if not self._is_open:
            return super().mask(X)
        self._check_fitted()
        self._say_absent(X)
        for library in ("pandas", "polars"):
            if validation.is_frame(X, library):
                return _masked_frame(X, set(self.get_feature_names_out()), library)
        masked = keep_columns(self._checked(X), self._selected())
        return masked[:, : self.n_features_in_]

    def _say_absent(self, X: RowsLike) -> None:
        """Warn of selected columns that X does not have."""
        if self.absent == "zero":
            return
        present = set(_names_of(X))
        absent = [name for name in self.get_feature_names_out() if name not in present]
        if absent:
            listed = ", ".join(map(repr, absent[:5])) + ", ..." * (len(absent) > 5)
            warnings.warn(
                f"X has none of the selected columns {listed}: they are taken for missing",
                UserWarning,
                stacklevel=3,
            )

    # --- state ------------------------------------------------------------------------------

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"J": self._width}

    def _changing_state(self) -> State:
        """What is known of columns that come and go."""
        header: Header = {}
        if self._is_open:
            vocabulary = self._open_
            encoder = None if vocabulary.encoder is None else vocabulary.encoder.as_json()
            header["open"] = {
                "width": vocabulary.width,
                "stale": vocabulary.stale.tolist(),
                "encoder": encoder,
            }
        presence = self.__dict__.get("_presence_")
        return header, {} if presence is None else under(
            "presence", collect(presence, Presence.learnt)[1]
        )

    def _restore_names(self, names: npt.NDArray[np.object_]) -> None:
        super()._restore_names(names)
        if self._is_open:  # the book has them
            del self.feature_names_in_
            self._open_ = OpenColumns(self.absent, names.tolist())

    def _restore_changing(self, header: Header, arrays: Arrays) -> None:
        """Go on from :meth:`_changing_state`."""
        if self._is_open:
            saved = header.get("open")
            if "_open_" not in self.__dict__ or not isinstance(saved, dict):
                raise StateError("columns are open, and their book is missing")
            width, stale = saved.get("width"), saved.get("stale")
            n = self.n_features_in_
            if not (isinstance(width, int) and n <= width <= 4 * n + 4096):
                raise StateError(f"a width of {width!r} for {n} columns")
            if not (isinstance(stale, list) and all(isinstance(j, int) for j in stale)):
                raise StateError("the places of stale columns are no numbers")
            if any(not 0 <= place < n for place in stale):
                raise StateError("stale columns are not among the columns")
            if saved.get("encoder") is not None:
                from fires.columns import Columns

                self._open_.encoder = Columns.from_json(saved["encoder"])
            self._open_.width = width
            self._open_.stale = np.array(stale, dtype=np.intp)
        if parts := part_of("presence", arrays):
            presence = Presence(self._width)
            restore(presence, Presence.learnt, {}, parts, {"J": self._width})
            self._presence_ = presence


def _names_of(X: RowsLike) -> Iterable[Hashable]:
    """What the columns of X are called."""
    if isinstance(X, NamedRows):
        return X.names
    if isinstance(X, Mapping):
        return X
    if isinstance(X, (list, tuple)):
        return {name for row in X for name in row}
    return getattr(X, "columns", ())


def _masked_frame(X: Any, selected: set[str], library: str) -> Any:
    """A frame with zeros in the columns that are not selected."""
    if library == "pandas":
        return X.assign(**{name: 0.0 for name in X.columns if name not in selected})
    import polars as pl

    zeros = [pl.lit(0.0).alias(name) for name in X.columns if name not in selected]
    return X.with_columns(zeros)
