"""What all online selectors share: the gate, the names, the support, the state."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from operator import attrgetter, is_not
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import TransformerMixin

from fires.core import classes as labels
from fires.core import validation
from fires.core.belief import Floats
from fires.core.settings import check_choice, check_count, how_many
from fires.core.state import State
from fires.core.weighting import rank
from fires.kernels import scan, top_k
from fires.selectors.selector import Selector

_SIGNS: Floats = np.array([-1.0, 1.0])


class OnlineSelector(TransformerMixin, Selector):  # type: ignore[misc]
    """A feature selector that learns batch by batch, with scikit-learn's interface.

    A method writes ``_learn`` and ``_weights``, and ``_state`` and ``_restore`` to be saved. What
    it gets has passed the gate; if it raises, the selector is as it was before the call.
    """

    _fitted_by = ("n_samples_seen_", "call partial_fit or fit with a batch first")
    _supervised = True

    # What a method that does not have these settings does.
    missing: str = "ignore"
    batch_size: int = 100

    n_features_to_select: int | float
    n_samples_seen_: int
    classes_: npt.NDArray[Any]

    # --- what a method writes ---------------------------------------------------------------

    @abstractmethod
    def _learn(self, X: Any, y: Any, classes: Any, weight: Floats | None, n_missing: int) -> None:
        """Learn from one batch behind the gate; change no array in place before all is checked."""

    @abstractmethod
    def _weights(self) -> Floats:
        """The weight of every feature, greater for better; a fresh array."""

    def _weighting(self) -> tuple[Any, ...]:
        """The settings that weights depend on, besides what was learnt."""
        return ()

    def _check_parameters(self) -> None:
        """Raise if a setting makes no sense; asked once, and again when one of them is another."""

    def _foresee(self, y: Any) -> None:
        """Look at the whole target that fit goes through, before its first batch."""

    @abstractmethod
    def _state(self) -> State:
        """What was learnt, as JSON values and arrays."""

    @abstractmethod
    def _restore(
        self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], model: Any
    ) -> None:
        """Go on from :meth:`_state`; ``model`` is what the user passed to ``fires.load``."""

    # --- learning ---------------------------------------------------------------------------

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from one batch of the stream.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            Named columns may come in any order.
        y : array (n_samples,)
            Labels of any kind, or numbers. An unsupervised method does not look at it.
        classes : array, optional
            All labels there will ever be. Without it, new labels are added as they arrive.
        sample_weight : array (n_samples,), optional
            A row of weight w counts as w rows.
        """
        self._all_or_nothing(self._take_batch, X, y, classes, sample_weight)
        return self

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Forget everything, then learn from X in batches of ``batch_size`` rows, in order."""
        self._all_or_nothing(self._take_all, X, y, sample_weight)
        return self

    def _take_batch(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        matrix, n_missing = self._gate(X)
        target, weight = self._beside(matrix.shape[0], y, sample_weight)
        self._take(matrix, target, classes, weight, n_missing)

    def _take_all(self, X: Any, y: Any, sample_weight: Any) -> None:
        for name in list(vars(self)):
            if name.endswith("_"):
                delattr(self, name)
        matrix, n_missing = self._gate(X)
        n_rows = matrix.shape[0]
        target, weight = self._beside(n_rows, y, sample_weight)
        check_count("batch_size", self.batch_size)
        self._check_settings()
        if self._supervised:
            self._foresee(target)
        size = int(self.batch_size)
        for start in range(0, n_rows, size):
            rows = slice(start, start + size)
            part = matrix[rows]
            self._take(
                part,
                None if target is None else target[rows],
                None,
                None if weight is None else weight[rows],
                scan(part if isinstance(part, np.ndarray) else part.data)[0] if n_missing else 0,
            )

    def _beside(self, n_rows: int, y: Any, sample_weight: Any) -> tuple[Any, Floats | None]:
        """What comes with the rows: their targets, if they are looked at, and their weights."""
        target = validation.as_target(y, n_rows, type(self).__name__) if self._supervised else None
        return target, validation.as_weights(sample_weight, n_rows)

    def _take(
        self, matrix: Any, y: Any, classes: Any, weight: Floats | None, n_missing: int
    ) -> None:
        """Learn from a batch that has passed the gate."""
        self._resolve_k()
        self._check_settings()
        if weight is None or weight.any():  # in fit, a batch may have no weight at all
            self._learn(matrix, y, classes, weight, n_missing)
        self.n_samples_seen_ = getattr(self, "n_samples_seen_", 0) + matrix.shape[0]
        self.n_missing_ = getattr(self, "n_missing_", 0) + n_missing
        self._seen_: dict[Any, Any] = {}

    def _check_settings(self) -> None:
        settings = _settings_of(type(self))(self)
        checked = getattr(self, "_checked_", None)
        if checked is None or any(map(is_not, settings, checked)):
            check_choice("missing", self.missing, ("ignore", "error"), "'ignore' or 'error'")
            self._check_parameters()
            self._checked_ = settings

    def name_features(self, names: Any) -> Self:
        """Name the columns of a stream of plain arrays, before or after its first batch.

        Examples
        --------
        >>> from fires import FIRES
        >>> selector = FIRES(1).name_features(["age", "size"])
        >>> selector.partial_fit(np.array([[0.0, 1.0], [1.0, 1.0]]), [0, 1]).feature_names_in_
        array(['age', 'size'], dtype=object)
        """
        names = np.asarray(list(names), dtype=object)
        if hasattr(self, "n_features_in_") and len(names) != self.n_features_in_:
            raise ValueError(f"There are {self.n_features_in_} features and {len(names)} names.")
        validation.check_names(names)
        self.feature_names_in_, self._named_apart_ = names, True
        return self

    def _gate(self, X: Any) -> tuple[Any, int]:
        """A matrix with the columns learnt from, and its number of missing entries."""
        owner = type(self).__name__
        names = validation.column_names(X)
        matrix = validation.as_matrix(X, owner)
        if not hasattr(self, "n_features_in_"):
            known = getattr(self, "feature_names_in_", names)
            self.n_features_in_ = matrix.shape[1] if known is None else len(known)
            if known is not None:
                self.feature_names_in_ = known
        matrix = self._in_order(matrix, names)
        counts = scan(matrix if isinstance(matrix, np.ndarray) else matrix.data)
        if any(counts):
            known = getattr(self, "feature_names_in_", None)
            validation.refuse(matrix, counts, known, missing=self.missing, owner=owner)
        return matrix, counts[0]

    def _take_labels(self, y: Any, classes: Any) -> tuple[Any, npt.NDArray[Any] | None]:
        """Codes of the labels, and the classes before this batch; sets ``classes_``.

        With one class so far its code is 1: it speaks for the positive side until another comes.
        """
        before: npt.NDArray[Any] | None = getattr(self, "classes_", None)
        if classes is not None:
            given = labels.merge_classes(None, validation.as_classes(classes))
            if len(given) < 2:
                raise ValueError(f"classes must name two labels or more; got {classes!r}.")
            fixed = getattr(self, "_classes_given_", False)
            if before is not None and (
                labels.encode(before, given) is None or (fixed and len(given) != len(before))
            ):
                raise ValueError(
                    f"classes={given.tolist()} does not fit the classes known so far, "
                    f"{before.tolist()}."
                )
            self.classes_, self._classes_given_ = given, True
        if getattr(self, "_classes_given_", False):
            codes = labels.encode(y, self.classes_)
            if codes is None:
                unknown = next(v for v in y.tolist() if v not in self.classes_.tolist())
                raise ValueError(
                    f"y holds the label {unknown!r}, which is not in classes="
                    f"{self.classes_.tolist()}."
                )
        else:
            self.classes_, codes = labels.take(before, y)
        return (codes + 1 if len(self.classes_) == 1 else codes), before

    def _take_signs(self, y: Any, classes: Any) -> tuple[Floats, bool]:
        """The two classes as -1 and 1, and whether they have just changed sides.

        They do when the first class seen turns out to be the smaller one: what was learnt of it as
        the positive class has then to change its sign.
        """
        known: npt.NDArray[Any] | None = getattr(self, "classes_", None)
        if classes is None and known is not None and len(known) == 2:
            codes = labels.encode(y, known)  # the usual case, in fewer passes
            if codes is not None:
                return _SIGNS[codes], False
        codes, before = self._take_labels(y, classes)
        if len(self.classes_) > 2:
            raise ValueError(
                f"{type(self).__name__} learns two classes; these are {len(self.classes_)}: "
                f"{self.classes_[:5].tolist()}{'...' if len(self.classes_) > 5 else ''}"
            )
        signs = _SIGNS[codes]
        if before is None or len(before) == len(self.classes_):
            return signs, False
        return signs, labels.class_rows(before, self.classes_)[0] == (0, -1.0)

    # --- what was learnt --------------------------------------------------------------------

    @property
    def weights_(self) -> Floats:
        """The weight of every feature, greater for better; read-only, and yours to keep."""
        weights: Floats = self._computed("weights", self._weights)
        return weights

    @property
    def ranking_(self) -> npt.NDArray[np.intp]:
        """The rank of every feature: 1 for the best, each rank once, ties to the lower index."""
        ranks: npt.NDArray[np.intp] = self._computed("ranking", lambda: rank(self.weights_))
        return ranks

    def _computed(self, name: str, compute: Any) -> Any:
        """What ``compute`` gives, once per batch, as a read-only array."""
        self._check_fitted()
        key = (name, *self._weighting())
        if key not in self._seen_:
            value = compute()
            value.flags.writeable = False
            self._seen_[key] = value
        return self._seen_[key]

    def _selected(self) -> npt.NDArray[np.intp]:
        """The selected columns, ascending."""
        k = self._resolve_k()
        selected: npt.NDArray[np.intp] = self._computed(
            f"selected {k}", lambda: top_k(self.weights_, k)
        )
        return selected

    def _resolve_k(self) -> int:
        k, n = self.n_features_to_select, self.n_features_in_
        if type(k) is int and k >= 1:  # the usual case, without asking abstract classes
            return min(k, n)
        wanted = how_many(k, n)
        if wanted is None:
            raise ValueError(
                "n_features_to_select must be a positive integer or a fraction between 0 and 1; "
                f"got {k!r}."
            )
        return min(wanted, n)

    # --- applying it ------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """X reduced to the selected columns."""
        return self._checked(X)[:, self._selected()]

    def mask(self, X: Any) -> Any:
        """X in its full width, with zeros in the columns that are not selected.

        What a predictor needs that lives through changes of the selected set. A frame comes back
        as a frame, a sparse matrix as CSR.
        """
        matrix = self._checked(X)
        selected = self._selected()
        if sp.issparse(matrix):
            keep = self.get_support()[matrix.indices]
            indptr = np.concatenate([[0], np.cumsum(keep)])[matrix.indptr].astype(
                matrix.indptr.dtype
            )
            parts = (matrix.data[keep], matrix.indices[keep], indptr)
            masked = type(matrix)(parts, shape=matrix.shape)
            if validation.is_frame(X, "pandas"):
                columns = getattr(self, "feature_names_in_", X.columns)
                return type(X).sparse.from_spmatrix(masked, index=X.index, columns=columns)
            return masked
        masked = np.zeros(matrix.shape, dtype=matrix.dtype)
        masked[:, selected] = matrix[:, selected]
        names = getattr(self, "feature_names_in_", None)
        if validation.is_frame(X, "pandas"):
            return type(X)(masked, index=X.index, columns=X.columns if names is None else names)
        if validation.is_frame(X, "polars"):
            columns = X.columns if names is None else names
            return type(X)({name: masked[:, i] for i, name in enumerate(columns)})
        return masked

    def inverse_transform(self, X: Any) -> Any:
        """Put selected columns back into their places, with zeros elsewhere."""
        self._check_fitted()
        selected = self._selected()
        matrix = validation.as_matrix(X, type(self).__name__)
        if matrix.shape[1] != len(selected):
            raise ValueError("X has a different shape than during fitting.")
        shape = (matrix.shape[0], self.n_features_in_)
        if sp.issparse(matrix):
            parts = (matrix.data, selected[matrix.indices], matrix.indptr)
            return type(matrix)(parts, shape=shape)
        full = np.zeros(shape, dtype=matrix.dtype)
        full[:, selected] = matrix
        return full

    def _checked(self, X: Any) -> Any:
        """X in the order learnt from; where missing entries are refused, they are looked for."""
        if self.missing == "error":
            self._check_fitted()
            return self._gate(X)[0]
        return super()._checked(X)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return state | {"_seen_": {}} if "_seen_" in state else state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "ignore"
        tags.target_tags.required = self._supervised
        return tags

    # --- state ------------------------------------------------------------------------------

    def _content(self) -> State:
        header, arrays = self._state()
        header |= {
            "n_samples_seen": self.n_samples_seen_,
            "classes_given": getattr(self, "_classes_given_", False),
            "named_apart": getattr(self, "_named_apart_", False),
        }
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            header["feature_names"] = names.tolist()
        if hasattr(self, "classes_"):
            if self.classes_.dtype.kind in "OUS":
                header["classes"] = labels.as_text(self.classes_)
            else:
                arrays["classes"] = self.classes_
        return header, arrays

    def _take_content(
        self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], model: Any
    ) -> None:
        self.n_samples_seen_ = header["n_samples_seen"]
        self._seen_ = {}
        if "feature_names" in header:
            self.feature_names_in_ = np.array(header["feature_names"], dtype=object)
        if "classes" in header:
            self.classes_ = labels.from_text(header["classes"])
        elif "classes" in arrays:
            self.classes_ = arrays.pop("classes")
        if header["classes_given"]:
            self._classes_given_ = True
        if header["named_apart"]:
            self._named_apart_ = True
        self._restore(header, arrays, model)


@cache
def _settings_of(kind: type[OnlineSelector]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads the settings of a selector of this kind."""
    names = kind._get_param_names()
    return attrgetter(*names, "missing")  # two names at least: what comes back is a tuple
