"""The base class of selectors that learn from rows: input checks, weights, support, state."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator
from functools import cache
from operator import attrgetter, is_not
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils import Tags

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.belief import rank
from fires.core.classes import KnowsClasses, class_rows, has_fractions
from fires.core.declared import Declared, Value
from fires.core.errors import StateError, TargetError
from fires.core.settings import check_choice, check_count, how_many
from fires.core.state import Arrays, State
from fires.core.types import (
    Codes,
    CsrRows,
    Estimator,
    Floats,
    Labels,
    Matrix,
    OptionalArray,
    OptionalClasses,
    Places,
    RowsLike,
)
from fires.kernels import top_k
from fires.kernels.select import keep_columns
from fires.selectors.columns import FixedColumns, forget, framed, masked_frame, warn_absent
from fires.selectors.open_columns import OpenColumns
from fires.selectors.selector import Selector

if TYPE_CHECKING:
    from fires.models.base import BaseModel


_Array = TypeVar("_Array", bound=npt.NDArray[np.generic])
_SIGNS: Floats = np.array([-1.0, 1.0])


class OnlineSelector(KnowsClasses, TransformerMixin, Selector):  # type: ignore[misc]
    """A feature selector that learns batch by batch, with scikit-learn's interface.

    A subclass writes ``_learn`` and ``_weights``, and lists in ``_learnt`` what is to be saved.
    Its ``_learn`` gets a checked batch. If it raises an error, the selector is put back to what it
    was before the batch.
    """

    _fitted_by = ("n_samples_seen_", "call partial_fit or fit with a batch first")
    _counted: ClassVar[Declared] = {
        "n_samples_seen": Value(int, low=0),
        "n_missing": Value(int, low=0),
    }
    _supervised = True
    # Whether a weight is a number of rows, or says how much a row counts beside others.
    _weights_repeat_rows = False

    # For methods that do not have this setting.
    batch_size: int = 100

    n_features_to_select: int | float | str
    n_samples_seen_: int
    _checked_: tuple[Any, ...] | None = None  # the settings that were checked last
    _seen_: dict[Hashable, Any]  # what was computed since the last batch

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Make a selector that scikit-learn knows as a ``SelectorMixin``.

        It does not inherit from it, because that module takes longer to load than all of ours.
        """
        loaded = sys.modules.get("sklearn.feature_selection")
        if mixin := getattr(loaded, "SelectorMixin", None):
            mixin.register(OnlineSelector)
        selector: Self = super().__new__(cls)
        return selector

    # --- what a subclass writes -------------------------------------------------------------

    @abstractmethod
    def _learn(self, batch: CheckedBatch) -> None:
        """Learn from one batch; change arrays in place only when nothing can fail any more."""

    @abstractmethod
    def _weights(self) -> Floats:
        """The weight of every feature, greater for better; a fresh array."""

    def _take_at_once(self, X: RowsLike, y: OptionalArray) -> bool:
        """Learn from rows like those before, the short way, if there is one; else do nothing."""
        return False

    def _foresee(self, y: Labels) -> None:
        """Look at the whole target passed to ``fit``, before the first batch is learnt."""

    # --- learning ---------------------------------------------------------------------------

    def partial_fit(
        self,
        X: RowsLike,
        y: OptionalArray = None,
        classes: OptionalClasses = None,
        sample_weight: OptionalArray = None,
    ) -> Self:
        """Learn from one batch of the stream.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame, list of dicts (n_samples, n_features)
            Named columns may come in any order. Text, categories and dates become numbers; see
            :class:`fires.columns.Columns`, and ``columns_`` afterwards.
        y : array (n_samples,)
            Labels of any kind, or numbers. An unsupervised method does not look at it.
        classes : array, optional
            All labels there will ever be. Without it, new labels are added as they arrive.
        sample_weight : array (n_samples,), optional
            How much each row counts. A row of weight 0 is absent. FIRES goes by the effective
            number of rows, so a constant weight changes nothing.

        Returns
        -------
        self
        """
        if sample_weight is None:
            if classes is None and self._take_at_once(X, y):
                return self
        elif not self._teaches(X, sample_weight):
            return self
        self.all_or_nothing(self._take, self.admitted, X, y, classes, sample_weight)
        return self

    def learn(self, batch: CheckedBatch) -> Self:
        """Learn from a batch that was checked elsewhere, as a pipeline does for its selector.

        Parameters
        ----------
        batch : CheckedBatch
            Rows with the columns learnt from, and their target.

        Returns
        -------
        self
        """
        self.all_or_nothing(self._take, self.known, batch)
        return self

    def fit(
        self, X: RowsLike, y: OptionalArray = None, sample_weight: OptionalArray = None
    ) -> Self:
        """Forget everything, then learn from X in batches of ``batch_size`` rows, in order.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            All rows.
        y : array (n_samples,)
            Their labels or numbers. An unsupervised method does not look at it.
        sample_weight : array (n_samples,), optional
            How much each row counts. A row of weight 0 is absent. FIRES goes by the effective
            number of rows, so a constant weight changes nothing.

        Returns
        -------
        self
        """
        self.all_or_nothing(self._take, self.admitted_anew, X, y, sample_weight)
        return self

    # --- what Sharded uses too: from what a caller passed to checked batches --------------------

    def known(self, batch: CheckedBatch) -> CheckedBatch:
        """A batch that was checked elsewhere, whose columns are known from here on."""
        if self._supervised and batch.y is None:
            validation.as_target(None, 0, type(self).__name__)
        before, given = self.known_columns, batch.known
        if isinstance(before, FixedColumns):
            if before.n_features is None:
                before = before.beside(FixedColumns(batch.X.shape[1]))
            given = before if given is None else before.beside(given)
        self._known_ = given
        return batch

    def admitted_anew(
        self, X: RowsLike, y: OptionalArray, sample_weight: OptionalArray
    ) -> Iterator[CheckedBatch]:
        """Forget everything; all rows in batches, each as :meth:`partial_fit` would admit it."""
        forget(self)
        check_count("batch_size", self.batch_size)
        size = int(self.batch_size)
        is_open = isinstance(self.known_columns, OpenColumns)
        by_rows_before = is_open or validation.is_raw(X)
        if by_rows_before or not (sample_weight is None or np.asarray(sample_weight).all()):
            if self._supervised and y is not None:
                self._foresee(validation.as_target(y, validation.as_rows(X, "")[1], ""))
            for part in self._cut(X, y, sample_weight, size):
                yield self.admitted(part[0], part[1], None, part[2])
            return
        batch = self.admitted(X, y, None, sample_weight)  # numbers: quicker at once
        if batch.y is not None:
            self._foresee(batch.y)
        yield from (batch.part(slice(i, i + size)) for i in range(0, batch.n_rows, size))

    def admitted(
        self, X: RowsLike, y: OptionalArray, classes: OptionalClasses, sample_weight: OptionalArray
    ) -> CheckedBatch:
        """One batch, checked, with its target; its columns are known from here on."""
        target = y if self._supervised else None
        known = self._known_ or self._first_columns()
        batch = self._admit(known, X, target, classes, sample_weight, learn=True)
        if y is None and self._supervised:  # the message that scikit-learn's checks look for
            validation.as_target(None, 0, type(self).__name__)
        self._known_ = batch.known
        return batch

    def _take(
        self, admit: Callable[..., CheckedBatch | Iterator[CheckedBatch]], *given: Any
    ) -> None:
        """Learn from what a method above admits: a batch, or several."""
        batches = admit(*given)
        for batch in (batches,) if isinstance(batches, CheckedBatch) else batches:
            self._check_settings()
            self._learn(batch)
            self._count(batch.X.shape[0], batch.n_missing - batch.n_absent)

    def _count(self, n_rows: int, n_missing: int) -> None:
        """Count rows that were learnt from; what was computed before is computed again."""
        known = vars(self)
        self.n_samples_seen_ = known.get("n_samples_seen_", 0) + n_rows
        self.n_missing_ = known.get("n_missing_", 0) + n_missing
        self._seen_ = {}

    def _are_checked(self) -> bool:
        """Whether no setting has changed since they were checked."""
        settings = _settings_of(type(self))(self)
        return self._checked_ is not None and not any(map(is_not, settings, self._checked_))

    def _check_settings(self) -> None:
        """Check the settings, if one of them has changed."""
        if not self._are_checked():
            check_choice("missing", self.missing, ("ignore", "error"), "'ignore' or 'error'")
            self._check_parameters()
            if self.knows_columns:  # fit may look at the target before the columns
                self._resolve_k()
                self._checked_ = _settings_of(type(self))(self)

    def _take_labels(self, batch: CheckedBatch) -> tuple[Codes, Labels | None]:
        """Codes of the labels, and the classes before this batch; ``classes_`` grows."""
        before = self._label_index_
        self._label_index_, codes = batch.labels(before)
        return codes, before.labels if len(before.labels) else None

    def _take_whole_labels(self, batch: CheckedBatch) -> tuple[Codes, Labels | None]:
        """As :meth:`_take_labels`, but fractions are refused: they look like a numeric target.

        Announced labels may be fractions.
        """
        assert batch.y is not None
        may_be_numbers = batch.classes is None and batch.y.dtype.kind == "f"
        if may_be_numbers and not self._label_index_.given and has_fractions(batch.y):
            raise TargetError(
                "{y} holds numbers that are not whole, but this "
                f"{type(self).__name__} learns classes" + "." * (not self._for_numbers),
                hint=self._for_numbers,
            )
        before = self._label_index_
        self._label_index_, codes = batch.labels(before)
        return codes, before.labels if len(before.labels) else None

    _for_numbers = ""  # a hint for that error: what to do instead

    def _take_signs(self, batch: CheckedBatch) -> tuple[Floats, bool]:
        """The two classes as -1 and 1, and whether the two sides have just been exchanged.

        While only one class is known, it is the positive one. If the second class is greater, the
        first becomes the negative one, and what was learnt must change its sign.
        """
        codes, before = self._take_labels(batch)
        known = self.classes_
        if len(known) > 2:
            raise ValueError(
                f"{type(self).__name__} learns two classes; these are {len(known)}: "
                f"{known[:5].tolist()}{'...' if len(known) > 5 else ''}"
            )
        signs = _SIGNS[codes + 2 - len(known)]
        if before is None or len(before) == len(known):
            return signs, False
        return signs, class_rows(before, known)[0] == (0, -1.0)

    # --- what was learnt --------------------------------------------------------------------

    @property
    def weights_(self) -> Floats:
        """The weight of every feature, greater for better; a read-only copy."""
        return self._computed("weights", self._weights)

    @property
    def ranking_(self) -> Places:
        """The rank of every feature: 1 for the best, each rank once, ties to the lower index."""
        return self._computed("ranking", lambda: rank(self._once("weights", self._weights)))

    def _computed(self, name: Hashable, compute: Callable[[], _Array]) -> _Array:
        """The result of ``compute`` as a read-only array, once for a batch and its settings."""
        if self._fitted_by[0] not in vars(self):
            self._check_fitted()
        settings, before = _settings_of(type(self))(self), self._seen_.get("settings")
        if before is None or any(map(is_not, settings, before)):
            self._seen_.clear()  # in place: reading changes nothing that a selector has
            self._seen_["settings"] = settings
        return self._once(name, compute)

    def _once(self, name: Hashable, compute: Callable[[], _Array]) -> _Array:
        """As :meth:`_computed`, within what that computes: the settings are the same."""
        value: _Array | None = self._seen_.get(name)
        if value is None:
            value = compute()
            value.flags.writeable = False
            self._seen_[name] = value
        return value

    def _selected(self) -> Places:
        """The selected columns, ascending."""
        return self._computed("selected", self._top)

    def _top(self) -> Places:
        return top_k(self._once("weights", self._weights), self._resolve_k())

    @property
    def _n_candidates(self) -> int:
        """How many features, or groups of them, there are to select from."""
        return self.n_features_in_

    def _resolve_k(self) -> int:
        k, n = self.n_features_to_select, self._n_candidates
        if type(k) is int and k >= 1:  # the usual case, fast
            return min(k, n)
        wanted = how_many(k, n)
        if wanted is None:
            raise ValueError(
                "n_features_to_select must be a positive integer or a fraction between 0 and 1; "
                f"got {k!r}."
                + " Only FIRES can take 'auto'."
                * (isinstance(k, str) and k == "auto")
            )
        return min(wanted, n)

    # --- applying it ------------------------------------------------------------------------

    def transform(self, X: RowsLike) -> Matrix:
        """X reduced to the selected columns.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            Named columns may come in any order.

        Returns
        -------
        array or CSR matrix (n_samples, n_selected)
        """
        return self._checked(X)[:, self._selected()]

    def mask(self, X: RowsLike) -> Any:
        """X in its full width, with zeros in the columns that are not selected.

        A predictor that sees masked rows keeps working when the selected set changes.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            Named columns may come in any order.

        Returns
        -------
        array, CSR matrix or frame (n_samples, n_features)
            A frame comes back as a frame, a sparse matrix as CSR.
        """
        self._check_fitted()
        is_open, known = isinstance(self.known_columns, OpenColumns), self.known_names
        in_pandas = validation.is_frame(X, "pandas")
        if is_open and (in_pandas or validation.is_frame(X, "polars")):
            selected = self.get_feature_names_out().tolist()
            warn_absent(X, selected)
            return masked_frame(X, set(selected))
        matrix = self._checked(X)
        masked: Any = keep_columns(matrix, self._selected())
        masked = masked.copy() if masked is matrix else masked
        if in_pandas or validation.is_frame(X, "polars"):
            frame: Any = X
            return framed(X, masked, frame.columns if known is None else known)
        return masked[:, : self.n_features_in_] if is_open else masked

    def inverse_transform(self, X: npt.ArrayLike | CsrRows) -> Matrix:
        """Put selected columns back into their places, with zeros elsewhere.

        Parameters
        ----------
        X : array or sparse matrix (n_samples, n_selected)
            What :meth:`transform` gave.

        Returns
        -------
        array or CSR matrix (n_samples, n_features)
        """
        self._check_fitted()
        selected = self._selected()
        matrix = validation.as_matrix(X, type(self).__name__, least=min(len(selected), 1))
        if matrix.shape[1] != len(selected):
            raise ValueError("X has a different shape than during fitting.")
        shape = (matrix.shape[0], self.n_features_in_)
        if sp.issparse(matrix):
            parts = (matrix.data, selected[matrix.indices], matrix.indptr)
            wide: CsrRows = type(matrix)(parts, shape=shape)
            return wide
        full = np.zeros(shape, dtype=matrix.dtype)
        full[:, selected] = matrix
        return full

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"_seen_": {}} if "_seen_" in state else state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "ignore"
        tags.target_tags.required = self._supervised
        return tags

    # --- state ------------------------------------------------------------------------------

    def _sizes(self) -> dict[str, int]:
        n_classes = len(self._label_index_)
        return super()._sizes() | {"K": n_classes, "R": n_classes if n_classes > 2 else 1}

    def saved(self) -> State:
        """See :meth:`Selector.saved`. The labels are saved too."""
        header, arrays = super().saved()
        labels, more = self._classes_state()
        return header | labels, arrays | more

    def restore(
        self, header: dict[str, Any], arrays: Arrays, model: BaseModel | Estimator | None = None
    ) -> Self:
        """See :meth:`Selector.restore`."""
        if header["n_features"] > 10_000 + sum(array.size for array in arrays.values()):
            raise StateError(f"{header['n_features']} features, and no numbers for them")
        self._restore_classes(header, arrays)
        self._seen_ = {}
        super().restore(header, arrays, model)
        try:
            self._check_settings()
        except ValueError as error:
            raise StateError(str(error)) from None
        return self


@cache
def _settings_of(kind: type[OnlineSelector]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that reads all settings of a selector of this class."""
    names = kind._get_param_names()
    return attrgetter(*names, "missing")  # two names at least: what comes back is a tuple
