"""Compilation with numba: options, and where the machine code is cached."""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba

T = TypeVar("T")

# Sums may be reordered and fused, so that they vectorise. Without "nnan": NaN tests must stay.
_FREEDOMS = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a loop with numba. The machine code is cached if a folder is writable.

    While it runs, other threads of Python run, too.

    Parameters
    ----------
    function : function
        The loop.

    Returns
    -------
    callable
    """
    # Nobody calls these loops from C, and they hold no expressions of whole arrays. Without the
    # C wrapper and the search for such expressions, compiling takes a sixth less time.
    options: dict[str, Any] = {"no_cfunc_wrapper": True, "no_rewrites": True}
    options |= {"nogil": True, "fastmath": _FREEDOMS}
    try:
        machine: Callable[..., T] = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no writable folder for the cache: compile in every process
        machine = numba.njit(function, **options)
    return machine


def compiled_with(function: Callable[..., T], name: str, **names: Any) -> Callable[..., T]:
    """Compile a loop that leaves some names open, such as the slopes of a family.

    A closure would do the same, but numba cannot cache closures: it would compile them in every
    process. So this makes a function with its own name and its own globals, which hold the open
    names.
    """
    opened = FunctionType(function.__code__, function.__globals__ | names, name)
    files = {loop.py_func.__code__.co_filename for loop in names.values()}
    opened.__qualname__ = f"{name}_{_digest(frozenset(files))}"
    opened.__module__ = function.__module__
    return compiled(opened)


@cache
def _digest(files: frozenset[str]) -> str:
    """A digest of all loops and these files: numba does not notice when a called loop changes."""
    loops = sorted(Path(__file__).parent.glob("*.py"))
    sources = [path for path in [*loops, *map(Path, sorted(files))] if path.exists()]
    content = b"".join(path.read_bytes() for path in sources)
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def load_compiled(kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a kernel for the first time, with the garbage collector switched off.

    In its first call numba loads some seventy modules. The collector would look through their
    objects again and again, which takes a fifth of the time and frees nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        kernel(*arguments)
    finally:
        if enabled:
            gc.enable()
