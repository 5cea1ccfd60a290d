"""What all contracts share: how checks are listed and run, and how they say what is wrong."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

NamedCheck = tuple[str, Callable[[], None]]


def list_checks(contracts: Iterable[Any], skip: Collection[str]) -> list[NamedCheck]:
    """The checks of some contracts: their public methods."""
    return [
        (name, getattr(contract, name))
        for contract in contracts
        for name in vars(type(contract))
        if not name.startswith("_") and name not in skip
    ]


def run_checks(subject: Any, checks: Iterable[NamedCheck]) -> None:
    """Run checks in order; raise an AssertionError for the first that fails, with its name."""
    for name, check in checks:
        try:
            check()
        except Exception as error:
            line = f"{type(subject).__name__} fails {name}: {error}"
            raise AssertionError(line) from error


def expect(condition: bool | np.bool_ | None, line: str) -> None:
    """Raise an AssertionError with this line unless the condition holds."""
    if not condition:
        raise AssertionError(line)


def expect_refusal(words: str, use: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Expect a call to raise a ValueError whose one line matches these words."""
    try:
        use(*args, **options)
    except ValueError as error:
        message = str(error)
        fits = re.search(words, message) and "\n" not in message
        expect(fits, f"refused with {message!r}, not with one line that says {words!r}")
    else:
        raise AssertionError(f"accepted what should be refused with the words {words!r}")


@contextmanager
def no_global_randomness(seed: int = 0) -> Iterator[None]:
    """A context that seeds the global random generators and expects that nobody uses them.

    Afterwards their old state is put back.
    """
    old = np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)
        before = repr(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
        yield
        after = repr(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002
        expect(after == before, "global random numbers were moved")
    finally:
        np.random.set_state(old[0])  # noqa: NPY002
        random.setstate(old[1])
