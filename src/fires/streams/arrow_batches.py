"""Rows that another library hands out as an Arrow stream, a frame at a time.

This is the Arrow C data interface, by way of Python capsules. It is read with ``ctypes``, since
polars would take the whole stream at once, and pyarrow is large.
"""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from typing import TYPE_CHECKING, Protocol, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from typing_extensions import CapsuleType

Pointers: TypeAlias = "ctypes.Array[ctypes.c_void_p]"

_API = ctypes.pythonapi
_GET = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)
_N_SCHEMA, _N_ARRAY = 9, 10
"""How many pointers and counts of eight bytes the two structures hold."""
_RELEASE = 8
"""Which of an array's is nothing behind the last one."""


class _Stream(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("get_schema", "get_next", "get_last_error", "release", "private_data")
    ]


class ArrowStream(Protocol):
    """What gives an Arrow stream, such as a frame."""

    def __arrow_c_stream__(self, requested_schema: None = None, /) -> CapsuleType: ...


class _Batch:
    """One array of the stream, for polars to take."""

    def __init__(self, schema: Pointers, array: Pointers) -> None:
        self._schema, self._array = schema, array

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return (
            _API.PyCapsule_New(ctypes.c_void_p(ctypes.addressof(self._schema)), b"arrow_schema", 0),
            _API.PyCapsule_New(ctypes.c_void_p(ctypes.addressof(self._array)), b"arrow_array", 0),
        )


def frames_of(source: ArrowStream) -> Generator[pl.DataFrame, None, None]:
    """Take the rows of an Arrow stream, as they come.

    Examples
    --------
    >>> [frame.rows() for frame in frames_of(pl.DataFrame({"x": [1, 2], "y": ["a", "b"]}))]
    [[(1, 'a'), (2, 'b')]]
    """
    _API.PyCapsule_New.restype = ctypes.py_object
    _API.PyCapsule_GetPointer.restype = ctypes.c_void_p
    capsule = ctypes.py_object(source.__arrow_c_stream__())
    address = _API.PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    stream = _Stream.from_address(address)

    def get(function: int, size: int) -> Pointers:
        found = (ctypes.c_void_p * size)()
        if _GET(function)(address, ctypes.addressof(found)):
            message = _LAST_ERROR(stream.get_last_error)(address) or b"it does not say why"
            raise ValueError(message.decode(errors="replace"))
        return found

    while True:
        array = get(stream.get_next, _N_ARRAY)
        if not array[_RELEASE]:
            return
        yield pl.DataFrame(_Batch(get(stream.get_schema, _N_SCHEMA), array))
