"""State files: written and read here and nowhere else.

A state file is a safetensors file: it holds numbers and text, and no code. Arrays are its tensors.
The header, any JSON object, is one more tensor of bytes, since the names of a million features do
not fit into the metadata. The metadata holds the format, its version and a checksum, which
safetensors itself does not have.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import attrgetter, neg
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load, load_file

from fires.core.errors import StateError
from fires.core.files import open_saved, replace_file
from fires.core.types import Header, JsonObject

Arrays = dict[str, npt.NDArray[Any]]
# What was learnt, as JSON values and arrays.
State = tuple[Header, Arrays]

_FORMAT = "fires-state"
_VERSION = 3
_HEADER = "__header__"
_METADATA = "__metadata__"  # safetensors uses this name itself; no tensor can have it
_LONGEST_INDEX = 10_000_000  # some 100,000 arrays
_LEAVES = frozenset({str, int, float})


def write_state(
    path: str | os.PathLike[str], header: JsonObject, arrays: Mapping[str, npt.ArrayLike]
) -> None:
    """Write a state file: afterwards ``path`` holds all of it, or its old content.

    The state is written to a temporary file in the same folder, flushed to the disk, and then
    replaces the old file in one step. A crash, a full disk or an interrupt leaves the old file as
    it was. Only a killed process leaves its temporary file (``.fires-*.tmp``) behind.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "selector.fires")
    ...     write_state(path, {"names": ["age", "höhe"]}, {"mu": np.array([0.5, -1.0])})
    ...     read_state(path)
    ({'names': ['age', 'höhe']}, {'mu': array([ 0.5, -1. ])})
    """
    replace_file(path, state_to_bytes(header, arrays))


def state_to_bytes(header: JsonObject, arrays: Mapping[str, npt.ArrayLike]) -> bytes:
    """The content of a state file, for a place that holds bytes."""
    tensors = _storable(arrays)
    tensors[_HEADER] = np.frombuffer(_encode(header), dtype=np.uint8)
    checksum = _checksum(tensors, _VERSION)
    metadata = {"format": _FORMAT, "version": str(_VERSION), "checksum": checksum}
    # The writer of safetensors puts metadata in random order. Large items first: all are aligned.
    index: Header = {_METADATA: metadata}
    sizes = map(neg, map(attrgetter("itemsize"), tensors.values()))
    end, data = 0, []
    for _, name in sorted(zip(sizes, tensors, strict=True)):
        array, start = tensors[name], end
        end += array.nbytes
        data.append(array.reshape(-1).view(np.uint8).data)
        kind = (
            "BOOL" if array.dtype.kind == "b" else f"{array.dtype.kind.upper()}{8 * array.itemsize}"
        )
        index[name] = {"dtype": kind, "shape": array.shape, "data_offsets": (start, end)}
    text = json.dumps(index, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _LONGEST_INDEX:
        raise ValueError(f"{len(tensors):,} arrays are too many for a state file.")
    return b"".join([len(text).to_bytes(8, "little"), text, *data])


def read_state(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read what :func:`write_state` wrote.

    Examples
    --------
    >>> read_state(np.__file__)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fires.core.errors.StateError: '...__init__.py' is not a fires state file.
    """
    try:
        with open_saved(path) as file:
            return _read(file, partial(load_file, path))
    except StateError as error:
        raise StateError(f"{os.fspath(path)!r} {error}") from None


def state_from_bytes(content: bytes, where: str = "This state") -> tuple[dict[str, Any], Arrays]:
    """Read what :func:`state_to_bytes` gave, or the content of a state file; with all its checks.

    Examples
    --------
    >>> state_from_bytes(state_to_bytes({"rows": 3}, {"mu": np.array([0.5])}))
    ({'rows': 3}, {'mu': array([0.5])})
    >>> state_from_bytes(b"")
    Traceback (most recent call last):
    ...
    fires.core.errors.StateError: This state is not a fires state file.
    """
    try:
        return _read(io.BytesIO(content), partial(load, content))
    except StateError as error:
        raise StateError(f"{where} {error}") from None


def _read(file: BinaryIO, tensors_of: Callable[[], Arrays]) -> tuple[dict[str, Any], Arrays]:
    """Decode an open state file; the caller says where it is in error messages."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    # Another file may be larger than the memory: read only this much until it is known as ours.
    index = file.read(min(length, _LONGEST_INDEX))
    if f'"{_FORMAT}"'.encode() not in index:
        raise StateError("is not a fires state file.")
    if len(index) < length:
        what = "its index is longer than that of any state"
        what = what if length > _LONGEST_INDEX else "it ends within its index"
        raise StateError(f"is truncated or altered: {what}.")
    try:
        metadata = json.loads(index)[_METADATA]
        ours, version = metadata["format"] == _FORMAT, int(metadata["version"])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise StateError("is altered: its index cannot be read.") from None
    if not ours:
        raise StateError("is not a fires state file.")
    if version > _VERSION:
        raise StateError(
            f"was written by a newer fires, in state format {version}; "
            f"this one reads format {_VERSION}: upgrade fires."
        )
    try:
        tensors = tensors_of()
        intact = version >= 1 and metadata["checksum"] == _checksum(tensors, version)
        header = json.loads(tensors.pop(_HEADER).tobytes())
    except (SafetensorError, KeyError, ValueError, RecursionError):
        intact = False
    if not intact:
        raise StateError("is truncated or altered: its content does not match its checksum.")
    if version < 3 and "class" in header:
        raise StateError(f"was written by an old fires, in state format {version}; train it again.")
    return header, dict(sorted(tensors.items()))


def _encode(header: JsonObject) -> bytes:
    """Encode the header as JSON; refuse what JSON would silently change."""
    header = dict(header)
    try:
        _refuse_other_keys(header)
        return json.dumps(header, separators=(",", ":")).encode()
    except TypeError as error:
        raise TypeError(f"The header takes JSON values only: {error}.") from None


def _refuse_other_keys(value: Any) -> None:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a string")
        value = value.values()
    # There are very many texts and numbers, and telling them by their type is quick.
    for item in () if _LEAVES.issuperset(map(type, value)) else value:
        if isinstance(item, (dict, list, tuple)):
            _refuse_other_keys(item)


def _storable(arrays: Mapping[str, npt.ArrayLike]) -> Arrays:
    """The arrays in the form they have in the file: contiguous and little-endian."""
    tensors: Arrays = {}
    for name, value in arrays.items():
        array = np.asarray(value)
        if name in (_HEADER, _METADATA):
            raise ValueError(f"No array can be named {name!r}: the format uses that name.")
        if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
            raise TypeError(
                f"Array {name!r} has dtype {array.dtype}; state holds booleans, integers and "
                "floats."
            )
        tensors[name] = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
    return tensors


def _checksum(tensors: Arrays, version: int) -> str:
    """SHA-256 over the name, dtype, shape and bytes of every tensor, in the order of names.

    From format 3 on, the version is part of it: an altered one must not make it another format.
    """
    digest = hashlib.sha256(b"" if version < 3 else str(version).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, _name_of(tensor.dtype), tensor.shape]).encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@cache
def _name_of(dtype: np.dtype[np.generic]) -> str:
    """The name of a dtype, which takes NumPy some time to make up."""
    return dtype.name


# --- parts of a whole ---------------------------------------------------------------------------


def under(part: str, arrays: Arrays) -> Arrays:
    """Put the name of a part in front of the names of its arrays; :func:`part_of` undoes it.

    Examples
    --------
    >>> whole = under("scaler", {"shift": np.zeros(1)}) | under("predictor", {"shift": np.ones(1)})
    >>> part_of("predictor", whole)
    {'shift': array([1.])}
    """
    return {f"{part}.{name}": array for name, array in arrays.items()}


def part_of(part: str, arrays: Arrays) -> Arrays:
    """The arrays of one part, under their own names."""
    start = f"{part}."
    return {n.removeprefix(start): array for n, array in arrays.items() if n.startswith(start)}
