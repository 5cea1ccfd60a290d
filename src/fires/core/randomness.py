"""Random generators; NumPy's global one is never used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from fires.core.errors import StateError
from fires.core.settings import checked, plain
from fires.core.types import Header, Seed

# For each kind of generator: the entry that holds its position in its buffer, and the last one.
_PLACES: dict[str, tuple[Callable[[], np.random.BitGenerator], str, int]] = {
    "MT19937": (np.random.MT19937, "pos", 624),
    "Philox": (np.random.Philox, "buffer_pos", 4),
    "PCG64": (np.random.PCG64, "has_uint32", 1),
    "PCG64DXSM": (np.random.PCG64DXSM, "has_uint32", 1),
    "SFC64": (np.random.SFC64, "has_uint32", 1),
}


def generator(seed: Seed, *names: str) -> np.random.Generator:
    """A random generator for one purpose; NumPy's global state is neither read nor changed.

    Examples
    --------
    >>> generator(7, "stream").normal() == generator(7, "stream").normal()
    True
    """
    if isinstance(seed, np.random.Generator):
        return seed
    if isinstance(seed, np.random.RandomState):
        seed = seed.randint(2**31 - 1)
    if seed is None:
        return np.random.default_rng()
    check_seed(seed)
    words = hashlib.sha256("/".join(names).encode()).digest()
    return np.random.default_rng([int(seed), *np.frombuffer(words, dtype=np.uint32).tolist()])


def check_seed(seed: Seed) -> None:
    """Raise an error if no generator can be made from this seed; draw nothing."""
    if seed is None or isinstance(seed, (np.random.Generator, np.random.RandomState)):
        return
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(
            f"random_state must be a non-negative integer, a generator or None; got {seed!r}."
        )


def random_state() -> Seed:
    """The setting ``random_state`` of a dataclass."""
    none: Seed = None
    return checked(none, lambda name, value: check_seed(value))


@contextmanager
def rewound(rng: np.random.Generator | None) -> Iterator[None]:
    """If an error is raised, put a generator back to where it was."""
    before = {} if rng is None else rng.bit_generator.state
    try:
        yield
    except BaseException:
        if rng is not None:
            rng.bit_generator.state = before
        raise


def generator_state(rng: np.random.Generator) -> Header:
    """The state of a generator as JSON; :func:`restore_generator` reads it.

    Examples
    --------
    >>> rng = generator(7, "stream")
    >>> again = restore_generator(generator_state(rng))
    >>> again.normal() == rng.normal()
    True
    """
    state: Header = plain(rng.bit_generator.state)
    return state


def restore_generator(state: Any) -> np.random.Generator:
    """A generator that goes on from a state of :func:`generator_state`."""
    kind = state["bit_generator"]
    if kind not in _PLACES:
        raise StateError(f"{kind!r:.60} is not a bit generator")
    check_place(state)
    bits = _PLACES[kind][0]()
    bits.state = state
    return np.random.Generator(bits)


def check_place(state: Any) -> None:
    """Raise StateError if the position of a generator lies outside its buffer.

    NumPy would read memory beyond the buffer.
    """
    _, place, most = _PLACES[state["bit_generator"]]
    at = state["state"].get(place, state.get(place, 0))
    if type(at) is not int or not 0 <= at <= most:
        raise StateError(f"{place} of a random generator is {at!r:.60}, not from 0 to {most}")
