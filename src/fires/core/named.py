"""Columns that are known by their names: rows with names, and the places of the names seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self, overload

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Places
from fires.core.types import NamedRows as NamedRows


class Names(Sequence[str]):
    """Names in the order of their arrival, each once; and the place of each.

    Examples
    --------
    >>> names = Names(["age", "size"])
    >>> names.add(["size", "town"])
    array([1, 2])
    >>> list(names), names.places(["town", "street"])
    (['age', 'size', 'town'], array([ 2, -1]))
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        self._names = list(self._places)

    def add(self, names: Iterable[str]) -> Places:
        """Take names in; those that are new come last."""
        places, known = self._places, self._names
        found = []
        for name in names:
            place = places.get(name)
            if place is None:
                place = places[name] = len(known)
                known.append(name)
            found.append(place)
        return np.array(found, dtype=np.intp)

    def places(self, names: Iterable[str]) -> Places:
        """The place of each name; -1 for one that is not known."""
        get = self._places.get
        return np.array([get(name, -1) for name in names], dtype=np.intp)

    def place(self, name: str) -> int:
        """The place of a name; -1 if it is not known."""
        return int(self.places([name])[0])

    def at(self, places: Places) -> list[str]:
        """The names at some places."""
        return list(map(self._names.__getitem__, places.tolist()))

    def only(self, places: Places) -> Self:
        """A new book with some of the names."""
        return type(self)(self.at(places))

    def cut(self, n: int) -> None:
        """Keep the first names only."""
        for name in self._names[n:]:
            del self._places[name]
        del self._names[n:]

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.place(name) >= 0

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._names[place]


class RunNames(Names):
    """All names that a run has met, in order; none is ever taken out, and none moves.

    An open selector has its features in places that shift when one of them is forgotten. Records
    tell of features by their places here.

    Examples
    --------
    >>> names = RunNames()
    >>> names.follow(["a", "b", "c"])
    >>> names.follow(["a", "c", "d"])  # b was forgotten
    >>> list(names), names.of_run(np.array([2, 1]))
    (['a', 'b', 'c', 'd'], array([3, 2]))
    >>> names.of_selector(np.array([1, 2, 3]))
    array([-1,  1,  2])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        super().__init__(names)
        self._here: Places = np.empty(0, dtype=np.intp)

    def follow(self, known: Sequence[str]) -> None:
        """Take note of what the selector calls its features now, in the order of its places."""
        n = len(self._here)
        # If any of the first n was forgotten, the others have moved up, and so has the last.
        if n and (n > len(known) or known[n - 1] != self[int(self._here[n - 1])]):
            n = 0
        if n < len(known):
            self._here = np.append(self._here[:n], self.add(known[n:]))

    def of_run(self, places: Places) -> Places:
        """Where features of the selector are here."""
        return self._here[places]

    def of_selector(self, places: Places) -> Places:
        """Where the selector has some features; -1 for those that it has forgotten."""
        places_now = np.full(len(self), -1)
        places_now[self._here] = np.arange(len(self._here))
        return places_now[places]

    def spread(self, values: npt.NDArray[np.generic]) -> Floats:
        """Numbers of the features of the selector, one for each name here; NaN if forgotten."""
        out = np.full(len(self), np.nan)
        out[self._here] = values
        return out
