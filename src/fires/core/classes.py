"""Class labels: found as they arrive, kept sorted, encoded once into a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Labels = npt.NDArray[Any]
Codes = npt.NDArray[np.intp]


def take(known: Labels | None, y: Labels) -> tuple[Labels, Codes]:
    """The sorted classes once ``y`` has been seen, and the place of each label among them.

    Examples
    --------
    >>> take(np.array([1, 3]), np.array([2, 3]))
    (array([1, 2, 3]), array([1, 2]))
    """
    if known is not None and known.dtype.kind in "biuf" and y.dtype.kind in "biuf":
        codes = encode(y, known)
        if codes is not None:
            return known, codes
    classes = merge_classes(known, y)
    codes = encode(y, classes)
    assert codes is not None
    return classes, codes


def merge_classes(known: Labels | None, y: Labels) -> Labels:
    """The sorted classes once ``y`` has been seen; ``known`` itself if there is none new.

    Examples
    --------
    >>> merge_classes(np.array([1, 3]), np.array([2, 3]))
    array([1, 2, 3])
    """
    if known is not None and _is_text(known) != _is_text(y):
        raise _no_order()  # NumPy would make text of the numbers
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


def _no_order() -> ValueError:
    return ValueError("y mixes labels that cannot be put in order, such as text and numbers.")


def encode(y: Labels, classes: Labels) -> Codes | None:
    """The place of each label among the sorted classes; None if one is not among them.

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


def class_rows(old: Labels, new: Labels) -> list[tuple[int, float] | None]:
    """Where each row of one-against-the-rest parameters comes from when classes are added.

    Up to two classes share one row, which speaks for the greater label. A source is an old row
    and a sign; None is a row to be started afresh.

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
            # Two classes share a row: the new, greater one is what the old one is not.
            sources.append((0, -1.0) if len(new) == 2 else None)
    return sources


def as_text(labels: Labels) -> list[Any]:
    """Labels that are text as JSON values, with the type of their array; see :func:`from_text`.

    Examples
    --------
    >>> from_text(as_text(np.array(["no", "yes"])))
    array(['no', 'yes'], dtype='<U3')
    """
    return [labels.dtype.str, labels.tolist()]


def from_text(written: list[Any]) -> Labels:
    """The labels of :func:`as_text`."""
    kind, values = written
    return np.array(values, dtype=object if kind == "|O" else kind)


def are_numbers(y: Labels, classes: Any, target: str = "auto") -> bool:
    """Whether a target holds numbers to be predicted, and not labels.

    ``target`` decides, unless it is "auto": then fractions are numbers, and few different whole
    numbers are labels.

    Examples
    --------
    >>> are_numbers(np.array([0.5, 2.0]), classes=None), are_numbers(np.array([1, 2]), classes=None)
    (True, False)
    """
    if target != "auto":
        return target == "numbers"
    if classes is not None or y.dtype.kind not in "iuf":
        return False
    if y.dtype.kind == "f" and (y != np.floor(y)).any():
        return True
    n_distinct = len(np.unique(y))
    if n_distinct > max(20, len(y) / 2):
        raise ValueError(
            f"y holds {n_distinct} different whole numbers in {len(y)} rows: say whether they are "
            "numbers (target='numbers') or classes (target='classes')."
        )
    return False
