"""The known class labels: added as they arrive, kept sorted, encoded as integers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.errors import StateError, TargetError
from fires.core.state import Arrays, State
from fires.core.types import Codes as Codes
from fires.core.types import GivenClasses, Header, Json, JsonObject, Label
from fires.core.types import Labels as Labels


@dataclass(frozen=True, eq=False)
class Classes:
    """The labels known at one point of a stream. A new label makes a new index.

    Selectors, predictors and scores each hold one. Those that learn from the same batches hold
    the same object, so a batch is encoded once for all of them.

    Examples
    --------
    >>> index, codes = NO_CLASSES.take(np.array(["spam", "ham", "spam"]))
    >>> index.labels, codes
    (array(['ham', 'spam'], dtype='<U4'), array([1, 0, 1]))
    >>> index.take(np.array(["ham"]))[0] is index
    True
    """

    labels: Labels
    given: bool = False
    classes: tuple[Label, ...] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(
        self, y: Labels, classes: GivenClasses | None = None, what: str = "y"
    ) -> tuple[Classes, Codes]:
        """Look up the labels of a batch, and add those that are new."""
        label_index = self if classes is None else self.fixed_to(classes)
        known_labels = label_index.labels
        # Both are text or both are numbers, as far as their types tell.
        if len(known_labels) and (known_labels.dtype.kind in "biuf") == (y.dtype.kind in "biuf"):
            codes = encode(y, label_index.labels)
            if codes is not None:
                return label_index, codes
        if label_index.given:
            known = label_index.labels.tolist()
            unknown = next(label for label in y.tolist() if label not in known)
            raise ValueError(
                f"{what} holds the label {unknown!r}, which is not in classes={known}."
            )
        found = merge_classes(label_index.labels if len(label_index) else None, y)
        codes = encode(y, found)
        assert codes is not None
        return (label_index if found is label_index.labels else Classes(found)), codes

    def fixed_to(self, classes: GivenClasses) -> Classes:
        """The index of the classes that a caller gives."""
        if classes is self.classes:
            return self
        from fires.core.validation import as_classes  # loads scikit-learn

        labels = merge_classes(None, as_classes(classes))
        if len(labels) < 2:
            raise ValueError(f"classes must name two labels or more; got {classes!r}.")
        if len(self) and (
            encode(self.labels, labels) is None or (self.given and len(labels) != len(self))
        ):
            raise ValueError(
                f"classes={labels.tolist()} does not fit the classes known so far, "
                f"{self.labels.tolist()}."
            )
        return Classes(labels, True, classes if isinstance(classes, tuple) else None)


NO_CLASSES = Classes(np.empty(0))


class KnowsClasses:
    """A base class for objects that learn labels: an index, ``classes_``, and saving both."""

    _label_index_: Classes = NO_CLASSES

    @property
    def classes_(self) -> Labels:
        """The labels known, sorted; the greater of two is the positive one."""
        if not len(self._label_index_.labels):
            raise AttributeError(f"This {type(self).__name__} knows no classes.")
        return self._label_index_.labels

    @property
    def label_index(self) -> Classes:
        """The book itself: the labels known, and whether they were announced."""
        return self._label_index_

    def _classes_state(self) -> State:
        """The labels as they are saved: text in the header, numbers in an array."""
        header: Header = {"classes": None, "classes_given": self._label_index_.given}
        if not len(self._label_index_):
            return header, {}
        if self._label_index_.labels.dtype.kind in "OUS":
            return header | {"classes": as_text(self._label_index_.labels)}, {}
        return header | {"classes": "numbers"}, {"classes": self._label_index_.labels.copy()}

    def _restore_classes(self, header: JsonObject, arrays: Arrays) -> None:
        """Take over the labels of :meth:`_classes_state`."""
        written, given = header["classes"], header["classes_given"]
        if written is None:
            self._label_index_ = NO_CLASSES
            return
        labels: npt.NDArray[Any] = arrays["classes"] if written == "numbers" else from_text(written)
        rising = labels.ndim == 1 and len(labels) > 0 and (labels[:-1] < labels[1:]).all()
        if not rising or type(given) is not bool:
            raise StateError("classes are not sorted labels, each of them once")
        self._label_index_ = Classes(labels, given)


def merge_classes(known: Labels | None, y: Labels) -> Labels:
    """The sorted classes after ``y`` has been seen; ``known`` itself if no label is new.

    Examples
    --------
    >>> merge_classes(np.array([1, 3]), np.array([2, 3]))
    array([1, 2, 3])
    """
    if known is not None and _is_text(known) != _is_text(y):
        raise _no_order()  # NumPy would turn the numbers into text
    if known is not None and encode(y, known) is not None:
        return known
    try:
        found = np.unique(y)
        return found if known is None else np.unique(np.concatenate([known, found]))
    except TypeError:
        raise _no_order() from None


def _is_text(labels: Labels) -> bool:
    if labels.dtype.kind == "O":
        return all(isinstance(label, str) for label in labels)
    return labels.dtype.kind in "US"


def _no_order() -> TargetError:
    return TargetError("{y} mixes labels that cannot be put in order, such as text and numbers.")


def encode(y: Labels, classes: Labels) -> Codes | None:
    """The index of each label in the sorted classes; None if one of them is unknown.

    Examples
    --------
    >>> encode(np.array(["no", "yes"]), np.array(["no", "yes"]))
    array([0, 1])
    >>> encode(np.array([2]), np.array([0, 1])) is None
    True
    """
    if y.dtype.kind in "OUS" or classes.dtype.kind in "OUS":
        place = {label: code for code, label in enumerate(classes.tolist())}
        codes = [place.get(label, -1) for label in y.tolist()]
        return None if -1 in codes else np.array(codes, dtype=np.intp)
    if len(classes) == 2:  # the usual case, in fewer passes
        greater = y == classes[1]
        n_known = np.count_nonzero(greater) + np.count_nonzero(y == classes[0])
        return greater.astype(np.intp) if n_known == len(y) else None
    found = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return found if (classes[found] == y).all() else None


def grown(table: npt.NDArray[Any], before: Labels | None, after: Labels) -> npt.NDArray[Any]:
    """A table with one row per class, with rows of zeros added for new classes."""
    new = np.zeros((len(after), *table.shape[1:]), table.dtype)
    if before is not None:
        new[encode(before, after)] = table
    return new


def class_rows(old: Labels, new: Labels) -> list[tuple[int, float] | None]:
    """Where each row of one-against-the-rest parameters comes from when classes are added.

    Up to two classes share one row of parameters, whose positive values favour the greater label.

    Examples
    --------
    >>> class_rows(np.array([5]), np.array([3, 5]))
    [(0, 1.0)]
    >>> class_rows(np.array([5]), np.array([5, 7]))
    [(0, -1.0)]
    >>> class_rows(np.array([0, 2]), np.array([0, 1, 2]))
    [(0, -1.0), None, (0, 1.0)]
    """
    place = {label: code for code, label in enumerate(old.tolist())}
    sources: list[tuple[int, float] | None] = []
    for label in (new[-1:] if len(new) <= 2 else new).tolist():
        at = place.get(label)
        if len(old) > 2:
            sources.append(None if at is None else (at, 1.0))
        elif at is not None:
            sources.append((0, 1.0 if at == len(old) - 1 else -1.0))
        else:
            # Two classes share a row. The new label is greater, so the old one is now negative.
            sources.append((0, -1.0) if len(new) == 2 else None)
    return sources


def as_text(labels: Labels) -> list[Json]:
    """Text labels as JSON values, with the type of their array; :func:`from_text` reads them.

    Examples
    --------
    >>> from_text(as_text(np.array(["no", "yes"])))
    array(['no', 'yes'], dtype='<U3')
    """
    return [labels.dtype.str, labels.tolist()]


def from_text(written: Any) -> Labels:
    """The labels that :func:`as_text` wrote."""
    kind, values = written
    text = isinstance(values, list) and all(isinstance(value, str) for value in values)
    if not text or np.dtype(kind).kind not in "OUS":
        raise StateError("classes are no text")
    return np.array(values, dtype=object if kind == "|O" else kind)


_DATES = (date, timedelta, np.datetime64, np.timedelta64)
_CHOICES = "numbers (target='numbers') or classes (target='classes')"


def are_numbers(
    y: Labels, classes: GivenClasses | None, target: str = "auto", choices: str = _CHOICES
) -> bool:
    """Whether a target holds numbers or labels. This is the only place that decides it.

    Examples
    --------
    >>> are_numbers(np.array([0.5, 2.0]), None), are_numbers(np.array([1, 2]), None)
    (True, False)
    """
    if target != "auto":
        return target == "numbers"
    if classes is not None or y.dtype.kind == "b":
        return False
    if has_fractions(y):
        return True
    if y.dtype.kind in "mM" or isinstance(y[0], _DATES):
        raise TargetError("{y} holds dates or durations", hint="convert them to numbers.")
    is_text = _is_text(y)
    if y.dtype.kind not in "iuf" and not is_text:
        return False
    distinct = set(y.tolist())
    if len(distinct) <= max(20, len(y) / 2) or (is_text and not all(map(_is_number, distinct))):
        return False
    many = f"{len(distinct)} distinct whole numbers in {len(y)} rows"
    if is_text:
        raise TargetError("{y} holds numbers as text", hint="convert them to numbers.")
    if y.dtype.kind != "f":
        raise TargetError(f"{{y}} holds {many}", hint=f"say whether they are {choices}.")
    from fires.core.validation import frames_of_ours  # and with it scikit-learn

    numbers = f"y holds {many}, as floats: it is taken as numeric, not as classes"
    warnings.warn(numbers, UserWarning, stacklevel=frames_of_ours())
    return True


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def has_fractions(y: Labels) -> bool:
    """Whether a target holds numbers that are not whole. Such a target does not hold labels."""
    return y.dtype.kind == "f" and bool((y != np.floor(y)).any())
