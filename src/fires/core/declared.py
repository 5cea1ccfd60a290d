"""Learnt state, declared once: what is saved, and what is checked when it is loaded.

An object lists what it learns as a mapping of names to :class:`Array`, :class:`Value` and
:class:`Random`. The same list is used to save and to check. So a file that was tampered with is
refused before a compiled loop could read or write outside an array.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from fires.core.errors import StateError, undamaged
from fires.core.randomness import generator_state, restore_generator
from fires.core.state import Arrays, State
from fires.core.types import Floats, Header, Json, JsonObject, Places


class Part(Protocol):
    """One learnt thing: how it is written into a state and read back."""

    def write(self, name: str, value: Any, header: Header, arrays: Arrays) -> None:
        """Add the value to a state."""

    def read(self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes) -> Any:
        """The value; None if it may be absent and is."""


Declared = Mapping[str, Part]
Sizes = dict[str, int]  # what the letters in declared shapes stand for


Owner = TypeVar("Owner")

_MAX_FLOAT = float(np.finfo(np.float64).max)  # JSON may hold integers too large for a float


class Array:
    """A learnt array: its type, its shape and its bounds.

    Parameters
    ----------
    *shape : int or str
        The length of each axis: a number, a letter that names a size (``"J"`` features, ``"K"``
        classes), either of two (``"1|J"``), or ``"*"`` for any length. The first array with a new
        letter decides its size.
    dtype : str
        The type of the numbers.
    low, high : float or str
        The least and the greatest number allowed. If ``high`` is a letter, every number must be
        below that size: the array holds indices.
    optional : bool
        Whether it may be absent.
    finite : bool
        Whether infinite numbers are refused.
    missing : bool
        Whether NaN, which is a missing entry, is allowed.
    key : str, optional
        What it is called in files, if that is not the name of the attribute: files outlive names.

    Examples
    --------
    >>> sizes = {"J": 3}
    >>> Array("R", "J", low=0.0).read("sigma", {}, {"sigma": np.ones((2, 3))}, sizes).shape
    (2, 3)
    >>> sizes["R"]
    2
    >>> kept = Array("*", dtype="int64", low=0, high="J")
    >>> kept.read("kept", {}, {"kept": np.array([5])}, sizes)
    Traceback (most recent call last):
    fires.core.errors.StateError: kept holds numbers from 5 to 5, not from 0 to 2
    """

    def __init__(
        self,
        *shape: int | str,
        dtype: str = "float64",
        low: float = -np.inf,
        high: float | str = np.inf,
        optional: bool = False,
        finite: bool = True,
        missing: bool = False,
        key: str | None = None,
    ) -> None:
        self.shape, self.dtype, self.low, self.high = shape, dtype, low, high
        self.optional, self.finite, self.missing, self.key = optional, finite, missing, key

    def write(self, name: str, value: npt.ArrayLike | None, header: Header, arrays: Arrays) -> None:
        """Add the array to ``arrays``, if there is one. See :class:`Part`."""
        if value is not None:
            arrays[self.key or name] = np.array(value)

    @property
    def feature_axis(self) -> int | None:
        """The axis with one entry for each feature, ``"J"``; None if there is none."""
        per_feature = ["J" in str(length).split("|") for length in self.shape]
        return per_feature.index(True) if any(per_feature) else None

    def read(self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes) -> Any:
        """The array; StateError unless it is as declared. See :class:`Part`."""
        name = self.key or name
        value = arrays.get(name)
        if value is None:
            return _absent(name, self.optional)
        fits = value.dtype == self.dtype and value.ndim == len(self.shape)
        if not fits or not all(map(_fits, self.shape, value.shape, [sizes] * value.ndim)):
            found = f"{value.dtype} of shape {value.shape}"
            raise StateError(f"{name} is {found}, not {self.dtype} of {self.shape} with {sizes}")
        self._check_numbers(name, value, sizes)
        return value if value.ndim else value[()]

    def _check_numbers(self, name: str, value: npt.NDArray[np.generic], sizes: Sizes) -> None:
        high = sizes[self.high] - 1 if isinstance(self.high, str) else self.high
        if self.missing:
            value = value[~np.isnan(value)]
        least, greatest = (value.min(), value.max()) if value.size else (0, 0)
        allowed = not self.finite or (np.isfinite(least) and np.isfinite(greatest))
        if not (allowed and self.low <= least and greatest <= high) and value.size:
            span = f"from {least} to {greatest}, not from {self.low} to {high}"
            raise StateError(f"{name} holds numbers {span}")


def _fits(wanted: int | str, length: int, sizes: Sizes) -> bool:
    """Whether an axis has the wanted length; a new letter gets its size here."""
    if isinstance(wanted, int) or wanted.isdigit():
        return length == int(wanted)
    if "|" in wanted:
        return any(_fits(one, length, sizes) for one in wanted.split("|"))
    return wanted == "*" or length == sizes.setdefault(wanted, length)


@dataclass(frozen=True)
class Value:
    """A learnt number, flag or text, kept in the header.

    Examples
    --------
    >>> Value(int, low=0).read("n_samples_seen", {"n_samples_seen": -1}, {}, {})
    Traceback (most recent call last):
    fires.core.errors.StateError: n_samples_seen is -1, not a finite int from 0 to inf
    """

    kind: type
    low: float = -np.inf
    high: float = np.inf
    optional: bool = False

    def write(self, name: str, value: Json, header: Header, arrays: Arrays) -> None:
        """Add the value to the header. See :class:`Part`."""
        header[name] = value

    def read(self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes) -> Any:
        """The value; StateError unless its kind and bounds are as declared. See :class:`Part`."""
        value: Any = header.get(name)
        if value is None:
            return _absent(name, self.optional)
        numeric = self.kind in (int, float)
        right = type(value) in ((int, float) if self.kind is float else (self.kind,))
        if numeric and right:
            right = self.low <= value <= self.high and abs(value) <= _MAX_FLOAT
        if not right:
            span = f"finite {self.kind.__name__} from {self.low} to {self.high}"
            wanted = span if numeric else self.kind.__name__
            raise StateError(f"{name} is {value!r:.60}, not a {wanted}")
        return value


class Random:
    """A random generator; its position in its sequence is kept in the header."""

    def write(self, name: str, value: np.random.Generator, header: Header, arrays: Arrays) -> None:
        """Add the state of the generator to the header. See :class:`Part`."""
        header[name] = generator_state(value)

    def read(
        self, name: str, header: JsonObject, arrays: Arrays, sizes: Sizes
    ) -> np.random.Generator:
        """A generator that goes on from there; StateError if there is none. See :class:`Part`."""
        with undamaged(f"{name} is"):
            return restore_generator(header[name])


class View:
    """Part of an array of its owner, as an attribute."""

    def __init__(self, array: str, *place: int | slice) -> None:
        self.array, self.place = attrgetter(array), place

    def __get__(self, owner: object, kind: type) -> Floats:
        part: Floats = self.array(owner)[self.place]
        return part

    def __set__(self, owner: object, values: Floats) -> None:
        self.array(owner)[self.place] = values


def _absent(name: str, allowed: bool) -> None:
    if not allowed:
        raise StateError(f"{name} is missing")


def collect(owner: Any, declared: Declared, attribute: str = "{}") -> State:
    """Collect what an object has learnt, as declared.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> declared = {"shift": Array("J"), "n_rows": Value(int, low=0)}
    >>> header, arrays = collect(SimpleNamespace(shift=np.zeros(2), n_rows=7), declared)
    >>> again = SimpleNamespace()
    >>> restore(again, declared, header, arrays, {"J": 2})
    >>> again
    namespace(shift=array([0., 0.]), n_rows=7)
    """
    header: Header = {}
    arrays: Arrays = {}
    for name, part in declared.items():
        part.write(name, getattr(owner, attribute.format(name), None), header, arrays)
    return header, arrays


def restore(
    owner: Any,
    declared: Declared,
    header: JsonObject,
    arrays: Arrays,
    sizes: Sizes,
    attribute: str = "{}",
) -> None:
    """Check all that was declared, then set it. An object is never left half restored."""
    found = {name: part.read(name, header, arrays, sizes) for name, part in declared.items()}
    for name, value in found.items():
        if value is not None:
            setattr(owner, attribute.format(name), value)


def _per_feature(
    owner: Any, declared: Declared, attribute: str = "{}"
) -> Iterator[tuple[str, int, npt.NDArray[np.generic]]]:
    """The learnt arrays that have an axis for the features: name, axis, and the array."""
    for name, part in declared.items():
        name = attribute.format(name)
        axis = part.feature_axis if isinstance(part, Array) else None
        value = getattr(owner, name, None)
        if axis is not None and value is not None and value.shape[axis]:  # "0|J" may have none yet
            yield name, axis, value


def rearrange(owner: Owner, declared: Declared, source: Places, fresh: Any, *more: str) -> Owner:
    """A copy of an object for other columns: some stay, in another place perhaps, some are new.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> known = SimpleNamespace(sums=np.array([1.0, 2.0, 3.0]), count=7)
    >>> fresh = SimpleNamespace(sums=np.zeros(3))
    >>> rearrange(known, {"sums": Array("J")}, np.array([0, 2, -1]), fresh)
    namespace(sums=array([1., 3., 0.]), count=7)
    """
    other, parts = copy.copy(owner), dict(declared) | dict.fromkeys(more, Array("J"))
    for name, axis, before in _per_feature(owner, parts):
        setattr(other, name, _moved(before, axis, source, getattr(fresh, name)))
    return other


def _moved(
    before: npt.NDArray[np.generic], axis: int, source: Places, fresh: npt.ArrayLike
) -> npt.NDArray[np.generic]:
    """An array for other columns, by where each of them was; -1 for a new one."""
    here = np.flatnonzero(source >= 0)
    from_places, n = source[here], len(here)
    to: Places | slice = here
    from_: Places | slice = from_places
    if n and here[-1] == from_places[-1] == n - 1 and (np.diff(from_places) > 0).all():
        to = from_ = slice(n)  # columns have only come; with a million, that is much sooner done
    if before.shape[axis] == 1:  # perhaps one number for all features
        before = np.repeat(before, max(int(source.max(initial=0)) + 1, 1), axis)
    shape = (*before.shape[:axis], len(source), *before.shape[axis + 1 :])
    value, others = np.empty(shape, dtype=before.dtype), (slice(None),) * axis
    value[...] = fresh
    value[(*others, to)] = before[(*others, from_)]
    return value
