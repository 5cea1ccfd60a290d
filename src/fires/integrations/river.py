"""A selector of ours as a transformer of River, which learns row by row from dictionaries."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from numbers import Real
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from sklearn.base import clone

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.optional import require
from fires.core.settings import check_count
from fires.core.types import Floats
from fires.kernels import scan
from fires.selectors.base import OnlineSelector
from fires.selectors.columns import FixedColumns
from fires.selectors.fires import FIRES

if TYPE_CHECKING:
    from river import base


else:
    base = require("river.base", "fires.integrations.river")

# How many new keys are counted: a stream may bring others without end.
_MOST_COUNTED = 1_000

_V = TypeVar("_V")


class FiresSelector(base.SupervisedTransformer, base.MiniBatchSupervisedTransformer):
    """Keeps the features that a selector of fires has selected, and drops the others.

    Rows are collected, and the selector learns ``batch_size`` of them at a time, exactly as its
    ``partial_fit`` would. Until the first batch is full, all features are kept. After that,
    the selected set changes only with full batches. It makes no difference whether rows come one by
    one or as a frame.

    Parameters
    ----------
    selector : OnlineSelector
        Learns and selects, such as ``FIRES(5)``. It is not copied: ``importances_`` and the rest
        are available on it, and its ``save`` saves what was learnt. If it has learnt before, or was
        loaded, it continues from there.
    batch_size : int, optional
        How many rows are learnt at a time; by default the ``batch_size`` of the selector.

    Attributes
    ----------
    new_keys_ : Counter
        Keys that were not in any row of the first batch, with their counts. They are ignored, and
        never among the features kept. At most 1,000 of them are counted.
    unreadable_ : Counter
        If the first batch had only numbers: the number of later values that are not numbers,
        infinite or beyond 1e150, by feature. Such values count as missing.

    Notes
    -----
    A key that a row lacks is a missing value, like None and NaN. With ``FIRES(5, columns="open")``
    keys may come and go: new ones join, and none is ignored. If the first batch has text,
    dates or the like, the selector turns it into numbers; see its ``columns_``. What
    :meth:`transform_one` gives are always the values of the row itself.

    Features have the order in which the keys of the first batch came, which matters for ties only.
    Keys that are not text, as River's numbered features, give features named after them.

    If the selector refuses a batch, its rows are dropped, and learning can go on with the next row.

    Examples
    --------
    >>> from fires import FIRES
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> selector = FIRES(5)
    >>> kept = FiresSelector(selector) | preprocessing.StandardScaler()
    >>> model = kept | linear_model.LogisticRegression()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 88.80%
    >>> selector.get_feature_names_out()[:3]
    array(['empty_server_form_handler', 'popup_window', 'https'], dtype=object)
    """

    def __init__(self, selector: OnlineSelector, batch_size: int | None = None) -> None:
        if not isinstance(selector, OnlineSelector):
            raise TypeError(
                "FiresSelector needs a selector of fires that learns from rows, such as FIRES(5); "
                f"got {selector!r}."
            )
        self.selector = selector
        self.batch_size = batch_size
        self.new_keys_: Counter[Hashable] = Counter()
        self.unreadable_: Counter[Hashable] = Counter()
        self._n_rows = selector.batch_size if batch_size is None else batch_size
        check_count("batch_size", self._n_rows)
        # What waits to be learnt. A row is a dict, or the values of all features in order.
        self._rows: list[Any] = []
        self._targets: list[Any] = []
        self._read: Callable[[Any], Any] = dict
        self._slots = _slots_of(_names_of(selector))  # of each key, which feature it is
        self._kept: list[Hashable] | None = None  # the keys selected, once they are asked for

    @property
    def _is_open(self) -> bool:
        """Whether keys may come and go."""
        return isinstance(self.selector, FIRES) and self.selector.columns == "open"

    @property
    def _supervised(self) -> bool:
        return self.selector._supervised

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, OnlineSelector | int]]:
        yield {"selector": FIRES(3), "batch_size": 10}

    def clone(
        self, new_params: dict[str, Any] | None = None, include_attributes: bool = False
    ) -> Self:
        """A transformer with the same settings that has learnt nothing.

        Parameters
        ----------
        new_params : dict, optional
            Settings that shall be others.
        include_attributes : bool, default=False
            Whether it shall have learnt the same instead.

        Returns
        -------
        FiresSelector
        """
        params = dict(new_params or {})
        if not include_attributes:
            params["selector"] = clone(params.get("selector", self.selector))
        return super().clone(params, include_attributes)

    # --- learning ---------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Hashable, Any], y: Any = None) -> None:
        """Take in one row; the selector learns when enough have come.

        Parameters
        ----------
        x : dict
            The row.
        y : object
            Its label or number. A selector without supervision does not look at it.
        """
        if (y is None or y != y) and self._supervised:
            raise ValueError(
                f"{type(self.selector).__name__} learns from labels or numbers; a row has y={y}. "
                "Leave such rows out."
            )
        try:
            row = self._read(x)
        except KeyError:
            row = None
        self._rows.append(dict(x) if row is None or len(row) < len(x) else row)
        self._targets.append(y)
        if len(self._rows) >= self._n_rows:
            self.flush()

    def learn_many(self, X: Any, y: Any = None) -> None:
        """Take in the rows of a frame, one after the other.

        Parameters
        ----------
        X : frame of pandas or polars
            The rows.
        y : Series
            Their labels or numbers. A selector without supervision does not look at it.
        """
        names, n_rows = list(X.columns), len(X)
        targets = [None] * n_rows
        if self._supervised:
            targets = validation.as_target(y, n_rows, "FiresSelector").tolist()
        cells = list(zip(*(X[name].to_list() for name in names), strict=True)) or [()] * n_rows
        for values, target in zip(cells, targets, strict=True):
            self.learn_one(dict(zip(names, values, strict=True)), target)

    def flush(self) -> None:
        """Learn from the rows that are waiting, as one batch, though they are fewer than a batch.

        Call it before the selector is saved or looked at, if every row counts.
        """
        if not self._rows:
            return
        rows, targets = self._rows, self._targets
        self._rows, self._targets = [], []
        if self._is_open:
            named = [{str(key): value for key, value in row.items()} for row in rows]
            if any(named):
                self.selector.partial_fit(named, targets)
            self._kept = None
            return
        slots = self._slots or {key: j for j, key in enumerate(dict.fromkeys(chain(*rows)))}
        names = _names_of(self.selector) or [str(key) for key in slots]
        if not names:  # rows without a single key, before any with one
            return
        validation.check_names(np.array(names, dtype=object))
        ordered = [
            self._in_order(row, slots, len(names)) if type(row) is dict else row for row in rows
        ]
        numeric = self._holds_numbers(ordered)
        if numeric:
            self._learn_numbers(ordered, targets, names)
        else:
            records = [dict(zip(names, row, strict=True)) for row in ordered]
            self.selector.partial_fit(records, targets if self._supervised else None)
        self._slots, self._kept = slots, None
        if numeric and self._read is dict:
            self._read = _reader(rows, slots, len(names))

    def _in_order(
        self, row: dict[Hashable, Any], slots: dict[Hashable, int], n_features: int
    ) -> list[Any]:
        """The values of a row, one for each feature; new keys are counted."""
        values = [None] * n_features
        for key, value in row.items():
            slot = slots.get(key)
            if slot is not None:
                values[slot] = value
            elif key in self.new_keys_ or len(self.new_keys_) < _MOST_COUNTED:
                self.new_keys_[key] += 1
        return values

    def _holds_numbers(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Whether the selector gets rows as numbers, which its first batch decides."""
        if self.selector.is_fitted:
            return self.selector.encoder is None
        numbers = (Real, Decimal, np.bool_)
        return all(isinstance(v, numbers) or validation.is_missing(v) for v in chain(*rows))

    def _learn_numbers(
        self, rows: Sequence[Sequence[Any]], targets: list[Any], names: list[str]
    ) -> None:
        selector, columns = self.selector, np.array(names, dtype=object)
        owner = type(selector).__name__
        X = _matrix(rows).reshape(len(rows), len(names))
        n_missing, n_infinite, n_huge = scan(X)
        if n_infinite or n_huge:
            unreadable = np.abs(X) > validation.LARGEST
            self.unreadable_.update(names[j] for j in np.nonzero(unreadable)[1])
            X[unreadable] = np.nan
            n_missing += n_infinite + n_huge
        validation.refuse(X, (n_missing, 0, 0), columns, missing=selector.missing, owner=owner)
        y = None
        if self._supervised:  # an array is checked ten times as fast as a list
            y = validation.as_target(np.asarray(validation.unmixed(targets)), len(rows), owner)
        selector.learn(CheckedBatch(X, y, n_missing=n_missing, known=FixedColumns(None, columns)))

    # --- applying it ------------------------------------------------------------------------

    def transform_one(self, x: Mapping[Hashable, _V]) -> dict[Hashable, _V]:
        """The selected features of a row; all of them until the first batch is learnt.

        Parameters
        ----------
        x : dict
            The row.

        Returns
        -------
        dict
            A new one, with the values as they are.
        """
        kept = self._kept
        if kept is None:
            kept = self._keys_kept(x)
        return {key: x[key] for key in kept if key in x}

    def transform_many(self, X: Any) -> Any:
        """The selected columns of a frame; all of them until the first batch is learnt.

        Parameters
        ----------
        X : frame of pandas or polars
            The rows.

        Returns
        -------
        frame
            A new one, with the values as they are.
        """
        here = dict.fromkeys(X.columns)
        return X[[key for key in self._keys_kept(here) if key in here]]

    def _keys_kept(self, keys: Iterable[Hashable]) -> list[Hashable]:
        """The keys that are selected; of those given, all while nothing is known."""
        if self._kept is None:
            if not self.selector.is_fitted:
                return list(keys)
            if self._is_open:
                self._kept = list(_slots_of(self.selector.get_feature_names_out().tolist()))
                return self._kept
            support, columns = self.selector.get_support(), self.selector.encoder
            if columns is not None:  # a key with categories may be several features
                support = np.isin(np.arange(len(columns.used)), columns.groups[support])
            self._kept = [key for key, slot in self._slots.items() if support[slot]]
        return self._kept


def _names_of(selector: OnlineSelector) -> list[str]:
    """What the keys of a selector are called, if it knows them yet."""
    if selector.encoder is not None:
        return [column.name for column in selector.encoder.used]
    names = selector.known_names
    if names is None:
        return [f"x{j}" for j in range(selector.n_features_in_ if selector.knows_columns else 0)]
    return list(names)


def _slots_of(names: Sequence[str]) -> dict[Hashable, int]:
    """The number of each feature, under its name, and under n where the name is the number n."""
    slots: dict[Hashable, int] = {name: j for j, name in enumerate(names)}
    numbers = (name for name in names if name.isdecimal() and str(int(name)) == name)
    return slots | {int(name): slots[name] for name in numbers}


def _reader(
    rows: Iterable[dict[Hashable, Any]], slots: dict[Hashable, int], n_features: int
) -> Callable[[Any], Any]:
    """What takes the values of all features from a row, in order, if these rows had them all."""
    keys = {slots[key]: key for key in chain(*rows) if key in slots}
    if len(keys) < max(2, n_features):  # of one key, itemgetter gives no tuple
        return dict
    return itemgetter(*(keys[j] for j in range(n_features)))


def _matrix(rows: Sequence[Sequence[Any]]) -> Floats:
    """All values in a line, as numbers: None as NaN, and what is no number as infinity."""
    packed = struct.Struct(f"{len(rows[0])}d").pack  # half the time of NumPy
    try:
        return np.frombuffer(bytearray().join([packed(*row) for row in rows]))
    except (struct.error, TypeError, ValueError, OverflowError):
        return np.fromiter(map(_number, chain.from_iterable(rows)), np.float64)


def _number(value: Any) -> float:
    if validation.is_missing(value):
        return np.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return np.inf
