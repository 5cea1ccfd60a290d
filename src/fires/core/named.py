"""Columns that are known by their names: rows with names, and the book of the names seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self, overload

import numpy as np

from fires.core.types import NamedRows as NamedRows
from fires.core.types import Places


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
        return self._places.get(name, -1)

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
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self._names[place]
