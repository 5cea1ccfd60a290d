"""The files of the paper's data sets: where they are looked for, fetched to, and what they hold."""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import numpy as np

from fires.bench.datasets.catalogue import DataFile, Info, Remote
from fires.core.errors import InputError
from fires.core.files import make_folder, replace_file

if TYPE_CHECKING:
    import polars as pl

_TIMEOUT = 30.0  # seconds without a single byte


class DataUnavailable(InputError):  # noqa: N818 - it says what is the case
    """A data set cannot be had here; others may be. The message is one line."""


def data_folder() -> Path | None:
    """The folder of the user's own copies, which is only read: ``FIRES_DATA_DIR``."""
    folder = os.environ.get("FIRES_DATA_DIR")
    return Path(folder).expanduser() if folder else None


def cache_folder() -> Path:
    """The folder that downloads go to: ``FIRES_CACHE_DIR``, or the usual one of this system."""
    if folder := os.environ.get("FIRES_CACHE_DIR"):
        return Path(folder).expanduser()
    variable, usual = {
        "win32": ("LOCALAPPDATA", "AppData/Local"),
        "darwin": ("XDG_CACHE_HOME", "Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", ".cache"))
    return Path(os.environ.get(variable) or Path.home() / usual) / "fires"


def find(info: Info) -> tuple[Path, DataFile] | None:
    """Where a data set is, and what its file should hold; the whole goes before a part."""
    for table in (info.whole, info.part):
        for folder in (data_folder(), cache_folder()):
            if table and folder and (folder / table.file).is_file():
                return folder / table.file, table
    return None


def read_table(path: Path, info: Info, table: DataFile) -> pl.DataFrame:
    """Read a file of a data set, and check that it holds what it should."""
    import polars as pl

    try:
        frame = pl.read_parquet(path, glob=False)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise DataUnavailable(_line(f"{path} cannot be read: {error}")) from error
    _check(frame, info, table, str(path))
    return frame


def get(info: Info, report: Callable[[str], object] = str) -> Path:
    """The whole of a data set in a file that has been checked; downloaded if there is none.

    A file in the cache that does not hold what it should is replaced.
    """
    found = find(info)
    if found is not None and found[1] is info.whole:
        try:
            read_table(found[0], info, found[1])
            return found[0]
        except DataUnavailable:
            if found[0].parent == data_folder():
                raise
    return fetch(info, report)


def download(remote: Remote) -> bytes:
    """All of a remote file."""
    try:
        with urlopen(remote.url, timeout=_TIMEOUT) as response:
            # In one piece: read in parts, a body that ends too early looks like any other.
            content: bytes = response.read()
    except HTTPError as error:
        error.close()  # it is the response, too
        raise InputError(f"{remote.url} cannot be read: {error.code} {error.reason}") from error
    except (OSError, HTTPException) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise InputError(f"{remote.url} cannot be read: {reason}") from error
    if remote.sha256 not in (None, hashlib.sha256(content).hexdigest()):
        raise InputError(f"{remote.url} sends different data (SHA-256 mismatch)")
    return content


def fetch(info: Info, report: Callable[[str], object] = str) -> Path:
    """Download a data set into the cache, in the place of what may be there; return the file."""
    if info.whole is None or info.read is None:
        raise not_at_hand(info, "no server is known to have it")
    files = []
    for remote in info.remotes:
        report(remote.url)
        try:
            files.append(download(remote))
        except InputError as error:
            raise not_at_hand(info, str(error)) from error
    try:
        frame = info.read(files)
    except Exception as error:  # in one of many ways: what came is not what the parser expects
        raise not_at_hand(info, f"{info.remotes[0].url} sends something else: {error}") from error
    _check(frame, info, info.whole, info.remotes[0].url)
    buffer = io.BytesIO()
    frame.write_parquet(buffer, compression="zstd")
    path = cache_folder() / info.whole.file
    try:
        make_folder(path.parent)
        replace_file(path, buffer.getvalue())
    except OSError as error:
        reason = error.strerror or str(error)
        raise DataUnavailable(f"{info.name} cannot be written to {path}: {reason}") from error
    return path


def not_at_hand(info: Info, why: str) -> DataUnavailable:
    """The error that names the data set, the folders that were looked in, and what to do."""
    assert info.whole is not None
    own = data_folder()
    folders = [f"{own} (FIRES_DATA_DIR)"] * (own is not None) + [str(cache_folder())]
    where = f"there is no {info.whole.file} in {' or '.join(folders)}"
    what = "put the file there, or name its folder in FIRES_DATA_DIR"
    if info.read is not None:
        what = f'"fires data get {info.name}" makes that file where there is a network'
    return DataUnavailable(_line(f"{info.name} is not available: {where}; {why}; {what}"))


def digest(frame: pl.DataFrame) -> str:
    """The SHA-256 of the names and values of a table, however wide its numbers are stored."""
    import polars as pl

    sha = hashlib.sha256()
    for column in frame:
        sha.update(f"{column.name}\n".encode())
        if column.dtype.is_integer():
            values = column.to_numpy()
            # As narrow as they can be: there is much to read, and this is done at every load.
            edges = [np.min_scalar_type(edge) for edge in (int(values.min()), int(values.max()))]
            sha.update(values.astype(np.result_type(*edges).newbyteorder("<")).tobytes())
        elif column.dtype.is_numeric():
            sha.update(column.to_numpy().astype("<f8").tobytes())
        else:
            sha.update(column.cast(pl.String).str.join("\n").item().encode())
    return sha.hexdigest()


def _check(frame: pl.DataFrame, info: Info, table: DataFile, where: str) -> None:
    """Raise if a table is not the one that is meant."""
    if difference := _difference(frame, info.n_features, table):
        raise DataUnavailable(f"{where} is not the {info.name} of the catalogue: {difference}")


def _difference(frame: pl.DataFrame, n_features: int, table: DataFile) -> str | None:
    """The first thing in which the table is not as it should be."""
    if "target" not in frame.columns:
        return 'it has no column "target"'
    if frame.height != table.n_rows:
        return f"it has {frame.height:,} rows, not {table.n_rows:,}"
    if frame.width != n_features + 1:
        return f"it has {frame.width - 1:,} features, not {n_features:,}"
    for name, n_missing in frame.null_count().row(0, named=True).items():
        if n_missing:
            return f'{n_missing:,} values of "{name}" are missing'
    counts = dict(frame["target"].value_counts().iter_rows())
    for label, n_rows in table.counts.items():
        if counts.get(label, 0) != n_rows:
            return f'{counts.get(label, 0):,} rows have the label "{label}", not {n_rows:,}'
    if table.digest not in (None, digest(frame)):
        return "names or values differ (SHA-256 mismatch)"
    return None


def _line(text: str) -> str:
    return " ".join(text.split())
