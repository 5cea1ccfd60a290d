"""Where the rows that a command makes go: standard output, or a file of some kind."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fires.core import files
from fires.core.errors import InputError
from fires.core.output import frame_as_text

if TYPE_CHECKING:
    from io import BytesIO

    import polars as pl

STANDARD = "standard output"
"""What messages call it."""

_KINDS = {".csv": "CSV", ".parquet": "Parquet", ".pq": "Parquet"}
_KINDS |= {".arrow": "Arrow", ".feather": "Arrow"}
_PART_CELLS = 1_000_000


def open_output(path: Path | None, *, overwrite: bool) -> RowOutput:
    """Make room for rows."""
    if path is None:
        return RowOutput()
    kind = _KINDS.get(path.suffix.lower())
    if kind is None:
        raise InputError(
            f"{path} may hold anything by its name", hint="let it end with .csv, .parquet or .arrow"
        )
    refuse_there(path, overwrite=overwrite)
    return CsvFile(path) if kind == "CSV" else TypedFile(path, kind)


def refuse_there(path: Path, *, overwrite: bool) -> None:
    """Raise an error if a file is there that may not be replaced."""
    if path.exists() and not overwrite:
        raise InputError(
            f"{path} is there already", hint="give --overwrite to replace it, or another name"
        )


class RowOutput(contextlib.AbstractContextManager["RowOutput"]):
    """Rows as CSV on standard output, as soon as they are known."""

    name = STANDARD
    is_typed = False

    def __init__(self) -> None:
        self.n_rows = 0
        self._file: BinaryIO = sys.stdout.buffer
        self._has_header = False

    def __exit__(self, *error: object) -> None:
        """Leave nothing behind but what was published."""

    def write(self, frame: pl.DataFrame) -> None:
        """Write some rows, whole."""
        self._file.write(_as_csv(frame, header=not self._has_header))
        self._file.flush()
        self._has_header = True
        self.n_rows += len(frame)

    def publish(self) -> None:
        """Put what was written into place."""


class _Draft(RowOutput):
    """A file that is written beside its place, and moved there when it is whole."""

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            raise InputError(f"{path} is a directory")
        self.n_rows = 0
        self.name, self._path = str(path), path
        files.make_folder(path.parent)
        with files.naming(path):
            self._folder = files.draft_folder(".fires-", path.parent)

    def __exit__(self, *error: object) -> None:
        files.remove_tree(self._folder)


class CsvFile(_Draft):
    """Rows as CSV in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._draft = self._folder / "rows.csv"
        self._file = files.open_new(self._draft)
        self._has_header = False
        self._n_whole = 0

    def write(self, frame: pl.DataFrame) -> None:
        """See :meth:`RowOutput.write`."""
        with files.naming(self._path):
            super().write(frame)
        self._n_whole = self._file.tell()

    def publish(self) -> None:
        """See :meth:`RowOutput.publish`."""
        with contextlib.suppress(OSError):  # the disk was full: the last rows are not whole
            self._file.close()
        with files.naming(self._path):
            files.truncate(self._draft, self._n_whole)
            files.move(self._draft, self._path)

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError):
            self._file.close()
        super().__exit__(*error)


class TypedFile(_Draft):
    """Rows in a Parquet or Arrow file.

    Neither can be written row by row, so that what is there could be read at any time. The rows
    are kept in parts on the disk until the end.
    """

    is_typed = True

    def __init__(self, path: Path, kind: str) -> None:
        super().__init__(path)
        self._kind = kind
        self._held: list[pl.DataFrame] = []
        self._n_held = 0
        self._parts: list[Path] = []

    def write(self, frame: pl.DataFrame) -> None:
        """See :meth:`RowOutput.write`."""
        self._held.append(frame)
        self._n_held += frame.height * frame.width
        self.n_rows += frame.height
        if self._n_held >= _PART_CELLS:
            self._write_part()

    def _write_part(self) -> None:
        import polars as pl

        rows = pl.concat(self._held, how="vertical_relaxed")
        part = self._folder / f"{len(self._parts):09}.arrow"
        try:
            self._to_disk(rows.write_ipc, part)
        except OSError:
            self.n_rows -= len(rows)
            raise
        finally:
            self._held, self._n_held = [], 0
        self._parts.append(part)

    def publish(self) -> None:
        """See :meth:`RowOutput.publish`."""
        import polars as pl

        if self._held or not self._parts:
            self._write_part()
        rows = pl.concat((pl.scan_ipc(part) for part in self._parts), how="vertical_relaxed")
        draft = self._folder / "rows"
        self._to_disk(rows.sink_parquet if self._kind == "Parquet" else rows.sink_ipc, draft)
        with files.naming(self._path):
            files.move(draft, self._path)

    def _to_disk(self, write: Callable[[Path], BytesIO | pl.LazyFrame | None], path: Path) -> None:
        """Let polars write a file; on a full disk, not all of its errors are of the system."""
        import polars as pl

        with files.naming(self._path):
            try:
                write(path)
            except pl.exceptions.PolarsError as error:
                raise OSError(None, next(iter(str(error).splitlines()), "cannot write")) from error


def _as_csv(frame: pl.DataFrame, *, header: bool) -> bytes:
    import polars as pl

    nested = [name for name, kind in frame.schema.items() if kind.is_nested()]
    if nested:
        raise InputError(
            f'column "{nested[0]}" holds lists or structures, which CSV cannot',
            hint="give --out a name that ends with .parquet",
        )
    objects = frame.select(pl.col(pl.Binary).cast(pl.String, strict=False))
    return frame_as_text(frame.with_columns(objects)).write_csv(include_header=header).encode()
