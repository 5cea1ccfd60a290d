"""Compilation with numba: options, where the machine code is cached, and what is said meanwhile."""

from __future__ import annotations

import gc
import hashlib
import logging
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import event, types
from numba.core.cgutils import unpack_tuple
from numba.core.dispatcher import Dispatcher
from numba.core.imputils import impl_ret_new_ref
from numba.extending import intrinsic

T = TypeVar("T")

# Sums may be reordered and fused, so that they vectorise. Without "nnan": NaN tests must stay.
_FREEDOMS = {"reassoc", "contract", "nsz"}
_SILENT = 1.0  # seconds of compiling before a line is said about it


def read_only(*arrays: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Read-only views: one compiled form then serves writable and read-only arrays."""
    views = [array.view() for array in arrays]
    for view in views:
        view.setflags(write=False)
    return views


def compiled(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a loop with numba. The machine code is cached if a folder is writable.

    While it runs, other threads of Python run, too.
    """
    # All loops that the file has imported: what it calls may be defined later in the file.
    known = [one.py_func for one in function.__globals__.values() if isinstance(one, Dispatcher)]
    if any(loop.__module__ != function.__module__ for loop in known):
        function.__qualname__ += f"_{_digest(function, *known)}"
    return _compiled(function)


def inner(function: Callable[..., T]) -> Callable[..., T]:
    """Compile a short loop as a part of each loop that calls it, and only then.

    For itself, it would take as long again: it is optimised anew in every caller in any case.
    """
    return _compiled(function, inline="always")


def compiled_with(
    function: Callable[..., T], name: str, *, inner: bool = False, **names: Any
) -> Callable[..., T]:
    """Compile a loop that leaves some names open, such as the slopes of a family.

    A closure would do the same, but numba cannot cache closures: it would compile them in every
    process. So this makes a function with its own name and its own globals, which hold the open
    names.
    """
    opened = filled_in(function, name, **names)
    opened.__qualname__ = f"{name}_{_digest(opened)}"
    return _compiled(opened, inline="always" if inner else "never")


def by_address(result: Any, *arguments: Any) -> Any:
    """A call of a compiled loop of this signature: its address comes first, then a tuple.

    A loop that is called by its name is optimised again as a part of its caller, which takes as
    long as compiling it did.
    """

    def call(_: Any, address: Any, given: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, values: Any) -> Any:
            convention = context.call_conv
            kind = convention.get_function_type(result, arguments).as_pointer()
            loop, parts = builder.inttoptr(values[0], kind), unpack_tuple(builder, values[1])
            status, found = convention.call_function(builder, loop, result, arguments, parts)
            with builder.if_then(status.is_error, likely=False):
                convention.return_status_propagate(builder, status)
            return impl_ret_new_ref(context, builder, result, found)

        return result(types.int64, types.Tuple(arguments)), generate

    call.arguments = arguments  # type: ignore[attr-defined]
    return intrinsic(call)


def addresses_of(loops: dict[Any, Any]) -> npt.NDArray[np.int64]:
    """Where the machine code of each loop is, for its call :func:`by_address`."""
    found = []
    for loop, call in loops.items():
        loop.compile(call.arguments)
        one = loop.overloads[call.arguments]
        found.append(one.library.get_pointer_to_function(one.fndesc.llvm_func_name))
    return np.array(found)


def filled_in(function: Callable[..., T], name: str, **names: Any) -> Callable[..., T]:
    """A function with its own name and its own globals, which hold names that it leaves open."""
    opened = FunctionType(function.__code__, function.__globals__ | names, name)
    opened.__module__ = function.__module__
    return opened


def _compiled(function: Callable[..., T], *, inline: str = "never") -> Callable[..., T]:
    # Nobody calls these loops from C, and they hold no expressions of whole arrays. Without the
    # C wrapper and the search for such expressions, compiling takes a sixth less time.
    options: dict[str, Any] = {"no_cfunc_wrapper": True, "no_rewrites": True}
    options |= {"nogil": True, "fastmath": _FREEDOMS, "inline": inline}
    try:
        machine: Callable[..., T] = numba.njit(function, cache=True, **options)
    except RuntimeError:  # no writable folder for the cache: compile in every process
        machine = numba.njit(function, **options)
    return machine


def _digest(*loops: Any) -> str:
    """A digest of the files of loops and of all they call: numba does not see these change."""
    called = list(loops)
    for loop in called:
        named = (loop.__globals__.get(name) for name in loop.__code__.co_names)
        more = [one.py_func for one in named if isinstance(one, Dispatcher)]
        called += [one for one in more if one not in called]
    files = sorted({loop.__code__.co_filename for loop in called})
    return hashlib.blake2b(b"".join(map(_content, files)), digest_size=6).hexdigest()


@cache
def _content(file: str) -> bytes:
    return Path(file).read_bytes() if Path(file).exists() else b""


class _Compiling(event.Listener):
    """Says in one line that kernels are compiled, once that has taken a second.

    Meanwhile the garbage collector is switched off: it would look through the compiler's objects
    again and again, which takes a sixth of the time and frees nothing.
    """

    def __init__(self) -> None:
        self.depth, self.since, self.until, self.collects = 0, 0.0, _SILENT, False

    def on_start(self, event: event.Event) -> None:
        """Note that a loop is compiled, unless it is not one of ours."""
        if self.depth == 0:
            if not event.data["dispatcher"].py_func.__module__.startswith("fires."):
                return
            self.since, self.collects = time.monotonic(), gc.isenabled()
            gc.disable()
        self.depth += 1
        self._say()

    def on_end(self, event: event.Event) -> None:
        """Note that a loop is compiled no more."""
        if self.depth == 0:
            return
        self.depth -= 1
        self._say()
        if self.depth == 0:
            self.until -= time.monotonic() - self.since
            if self.collects:
                gc.enable()

    def _say(self) -> None:
        if time.monotonic() - self.since > self.until:
            self.until = float("inf")
            logging.getLogger("fires.kernels").info("compiling kernels, once per machine")


event.register("numba:compile", _Compiling())
