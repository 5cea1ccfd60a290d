"""The folder that a command writes to: what it holds is of one run, and is there whole."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from fires.core.errors import InputError
from fires.core.state import replace_file

REPORT = "report.html"
"""The page of a run: part of its folder, though others write it."""


class OutFolder:
    """Collects the files of a run, and puts them into place when all of them are written.

    Until then they are in a folder ``.fires-*`` within; only a killed process leaves it behind.
    Use it in a ``with`` statement.

    Parameters
    ----------
    path : Path
        Made if it is not there, and removed again if nothing comes of the run.
    mark : str
        The file that is put into place last. Where it is, the others are of the same run.
    overwrite : bool
        Whether the files of an earlier run may be replaced.

    Raises
    ------
    InputError
        If it holds an earlier run.
    OSError
        If nothing can be written to it.
    """

    def __init__(self, path: Path, mark: str, *, overwrite: bool = False) -> None:
        if not overwrite and (path / mark).exists():
            raise InputError(
                f"{path} holds {earlier_run(path / mark)}",
                hint="give --overwrite to replace it, or another folder",
            )
        self.path, self._mark = path, mark
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        make_folder(path)
        with naming(path):
            self._draft = Path(tempfile.mkdtemp(prefix=".fires-", dir=path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._draft, ignore_errors=True)
        with contextlib.suppress(OSError):  # not empty: something has come of it
            for folder in self._made:
                folder.rmdir()

    def write(self, name: str, text: str) -> None:
        """Write a file, which :meth:`publish` puts into place.

        Parameters
        ----------
        name : str
            Its name.
        text : str
            What it holds.
        """
        with naming(self.path / name):
            # A file name may hold bytes that are no text.
            replace_file(self._draft / name, text.encode(errors="backslashreplace"))

    def publish(self, *others: str) -> None:
        """Put all that was written into place, the mark last.

        Parameters
        ----------
        *others : str
            Files that only some runs have: those of an earlier one are removed.
        """
        for name in (self._mark, *others):
            with naming(self.path / name):
                (self.path / name).unlink(missing_ok=True)
        for file in sorted(self._draft.iterdir(), key=lambda file: file.name == self._mark):
            with naming(self.path / file.name):
                file.replace(self.path / file.name)


def earlier_run(mark: Path) -> str:
    """Say what run a folder holds, as far as that can be read.

    Parameters
    ----------
    mark : Path
        What is known of the run, as JSON.

    Returns
    -------
    str
    """
    try:
        facts = json.loads(mark.read_bytes())
        first, *more = facts["settings"]["file"]
        others = f" and {len(more):,} more" if more else ""
        run = f"the run on {first}{others} of {facts['started']}"
        if facts.get("status") == "running":
            return f"{run}, which has not ended"
        rows = facts["rows"] if "rows" in facts else facts["n_rows"]
        return f"{run}, with {rows:,} rows"
    except (OSError, ValueError, LookupError, TypeError):
        return f"an earlier run ({mark.name})"


def is_full(error: OSError) -> bool:
    """Whether something could not be written since there is no room: there may be some later.

    Parameters
    ----------
    error : OSError
        What went wrong.

    Returns
    -------
    bool
    """
    return error.errno in (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


def make_folder(path: Path) -> None:
    """Make a folder, unless it is there.

    Parameters
    ----------
    path : Path
        The folder; those above it are made too.

    Raises
    ------
    NotADirectoryError
        If it is a file.
    """
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    with naming(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Let errors name the file that the user knows, not the draft of it.

    Parameters
    ----------
    path : Path
        What the user knows it by.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
