"""Random numbers, always from a generator of our own."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from fires.core.errors import StateError
from fires.core.settings import plain

# What says how far a generator has used up the numbers it has made, and how many these are.
_PLACES = {
    "MT19937": ("pos", 624),
    "Philox": ("buffer_pos", 4),
    "PCG64": ("has_uint32", 1),
    "PCG64DXSM": ("has_uint32", 1),
    "SFC64": ("has_uint32", 1),
}


def generator(seed: Any, *names: str) -> np.random.Generator:
    """A generator for one purpose; the global state of NumPy is neither read nor moved.

    Purposes with different names get independent numbers from one seed, and adding a purpose
    changes no other. ``None`` asks the operating system; a ``Generator`` is used as it is; a
    ``RandomState`` is drawn from once.

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


def check_seed(seed: Any) -> None:
    """Raise if no generator can be made of it; draw nothing."""
    if seed is None or isinstance(seed, (np.random.Generator, np.random.RandomState)):
        return
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ValueError(
            f"random_state must be a non-negative integer, a generator or None; got {seed!r}."
        )


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Where a generator stands, as JSON; :func:`restore_generator` takes it back.

    Examples
    --------
    >>> rng = generator(7, "stream")
    >>> again = restore_generator(generator_state(rng))
    >>> again.normal() == rng.normal()
    True
    """
    state: dict[str, Any] = plain(rng.bit_generator.state)
    return state


def restore_generator(state: dict[str, Any]) -> np.random.Generator:
    """A generator that goes on from a state of :func:`generator_state`."""
    kind = state["bit_generator"]
    if kind not in _PLACES:
        raise StateError(f"{kind!r:.60} is no bit generator")
    check_place(state)
    bits = getattr(np.random, kind)()
    bits.state = state
    return np.random.Generator(bits)


def check_place(state: Any) -> None:
    """Raise if a generator stands beyond its own numbers: NumPy would read on from there."""
    place, most = _PLACES[state["bit_generator"]]
    at = state["state"].get(place, state.get(place, 0))
    if type(at) is not int or not 0 <= at <= most:
        raise StateError(f"{place} of a random generator is {at!r:.60}, not from 0 to {most}")
