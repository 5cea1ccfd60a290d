"""Checkpoints: all that a run needs to go on, in one file that is there whole or not at all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fires.core import files
from fires.core.duration import seconds_of
from fires.core.errors import InputError, StateError
from fires.core.state import Arrays, read_state, write_state
from fires.core.types import Header, Json

Made = TypeVar("Made")

FOLDER = "checkpoints"
_KEPT = 2
_LONG = 1000
_NAME = re.compile(r"\d{12}\.safetensors")
# Of the time of a run that checkpoints may take.
_SHARE = 0.05


class Checkpoints:
    """The checkpoints of a run folder, of which the last two are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / FOLDER

    def write(self, n_batches: int, header: Mapping[str, Json], arrays: Arrays) -> None:
        """Write one, and remove those before the one before it."""
        files.make_folder(self.folder)
        path = self.folder / f"{n_batches:012d}.safetensors"
        write_state(path, said_once(header), arrays)
        for old in self.paths()[_KEPT:]:
            files.remove(old)

    def newest(
        self, use: Callable[[dict[str, Any], Arrays, str], Made]
    ) -> tuple[Made | None, list[str]]:
        """What is made of the newest checkpoint that can be used, and why of none before it."""
        damaged: list[str] = []
        for path in self.paths():
            try:
                header, arrays = read_state(path)
                header = said_again(header)
            except (StateError, OSError, LookupError) as error:
                damaged.append(str(error))
                continue
            try:
                return use(header, arrays, str(path)), damaged
            except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
                why = str(error) if isinstance(error, StateError) else repr(error)
                damaged.append(f"{path} cannot be used ({why})")
        return None, damaged

    def paths(self) -> list[Path]:
        """The files, the newest first."""
        if not self.folder.is_dir():
            return []
        found = (path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))
        return sorted(found, reverse=True)


def said_once(header: Mapping[str, Json]) -> Header:
    """A header in which long lists that are the same are there once.

    The names of the features, and what is known of the columns, belong to several parts of a run.
    With very many columns, most of a checkpoint would be these, over and over.

    Examples
    --------
    >>> names = list(range(2000))
    >>> once = said_once({"a": {"names": names}, "b": {"names": names}})
    >>> once["a"], once["b"], len(once["lists"])
    ({'names': {'list': 0}}, {'names': {'list': 0}}, 1)
    >>> said_again(once) == {"a": {"names": names}, "b": {"names": names}}
    True
    """
    lists: list[list[Json]] = []

    def once(value: Mapping[str, Any]) -> Header:
        found = dict(value)
        for name, part in value.items():
            if isinstance(part, Mapping):
                found[name] = once(part)
            elif isinstance(part, list) and len(part) >= _LONG:
                if part not in lists:
                    lists.append(part)
                found[name] = {"list": lists.index(part)}
        return found

    return {**once(header), "lists": lists}


def said_again(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header that :func:`said_once` has reduced."""

    def whole(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if value.keys() == {"list"} and isinstance(value["list"], int):
            return header["lists"][value["list"]]
        return {name: whole(part) for name, part in value.items()}

    return {name: whole(part) for name, part in header.items() if name != "lists"}


class Schedule:
    """When the next checkpoint is due.

    By time, checkpoints never take more than a twentieth of it: after one that took long, the next
    comes later.

    Examples
    --------
    >>> schedule = Schedule("2")
    >>> [schedule.is_due() for _ in range(5)]
    [False, True, True, True, True]
    >>> schedule.written(0.01)
    >>> schedule.is_due()
    False
    """

    def __init__(self, every: str) -> None:
        seconds, count = seconds_of(every), every.strip()
        if seconds is None and not (count.isdecimal() and int(count)):
            raise InputError(
                f"a checkpoint every {every!r} is not a checkpoint interval",
                hint="give a number of batches such as 500, or a time such as 10s or 5m",
            )
        self._batches = int(count) if seconds is None else None
        self._seconds = seconds or 0.0
        self._n_batches, self._due = 0, time.monotonic() + self._seconds

    def is_due(self) -> bool:
        """Whether one is due after this batch. To be asked once for each."""
        self._n_batches += 1
        if self._batches is not None:
            return self._n_batches >= self._batches
        return time.monotonic() >= self._due

    def written(self, seconds: float) -> None:
        """Count from here on."""
        self._n_batches = 0
        self._due = time.monotonic() + max(self._seconds, seconds * (1.0 / _SHARE - 1.0))
