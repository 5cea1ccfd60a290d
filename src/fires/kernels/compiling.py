"""Compilation in one place: which floating-point freedoms, and where the machine code is kept."""

from __future__ import annotations

import gc
from collections.abc import Callable
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
