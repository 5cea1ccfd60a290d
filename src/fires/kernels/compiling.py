"""Compilation in one place: which floating-point freedoms, and where the machine code is kept."""

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

# Sums may be reordered and fused, so that they vectorise. Not "nnan": a test for NaN must stay.
_FREEDOMS = {"reassoc", "contract", "nsz"}


def compiled(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a loop with numba; the machine code is cached where a folder is writable."""
    return _compiled(function)


def released(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a loop during which other threads may run; a division by zero gives infinity."""
    return _compiled(function, nogil=True, error_model="numpy")


def _compiled(function: Callable[..., T], **options: Any) -> Callable[..., T]:
    # Nobody calls these from C, nor do they hold expressions of whole arrays: without a wrapper
    # for the one and a search for the other, compiling takes a sixth less.
    options |= {"fastmath": _FREEDOMS, "no_cfunc_wrapper": True, "no_rewrites": True}
    try:
        machine: Callable[..., T] = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no folder for the cache can be written: compile in every process
        machine = numba.njit(function, **options)
    return machine


def compiled_with(function: Callable[..., T], name: str, **names: Any) -> Callable[..., T]:
    """Compile a loop that leaves some names open, such as the slopes of a family.

    A loop made within a function would do the same, but numba compiles such a one anew in every
    process: its cache cannot tell what was enclosed. So this is a function of its own, with a
    name of its own, whose globals hold the names that were left open.

    Parameters
    ----------
    function : function
        A function of a module.
    name : str
        Tells this one from others of the same function: it is part of where the code is kept.
    **names
        What the open names stand for.

    Returns
    -------
    callable
    """
    opened = FunctionType(function.__code__, function.__globals__ | names, name)
    files = {loop.py_func.__code__.co_filename for loop in names.values()}
    opened.__qualname__ = f"{name}_{_digest(frozenset(files))}"
    opened.__module__ = function.__module__
    return compiled(opened)


@cache
def _digest(files: frozenset[str]) -> str:
    """Of all loops and these files: numba does not see that what a cached loop calls is new."""
    loops = sorted(Path(__file__).parent.glob("*.py"))
    sources = [path for path in [*loops, *map(Path, sorted(files))] if path.exists()]
    content = b"".join(path.read_bytes() for path in sources)
    return hashlib.blake2b(content, digest_size=6).hexdigest()


def wake(kernel: Callable[..., Any], *arguments: Any) -> None:
    """Call a kernel for the first time, while the garbage collector looks away.

    With its first call numba loads some seventy modules; that their objects are looked through
    again and again takes a fifth of the time, and finds nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        kernel(*arguments)
    finally:
        if enabled:
            gc.enable()
