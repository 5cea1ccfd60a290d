"""The folder that a command writes to: what it holds is of one run, and is there whole."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from fires.core import files
from fires.core.errors import InputError
from fires.core.files import make_folder, naming, replace_file
from fires.core.saved_files import read_json

REPORT = "report.html"
"""The page of a run: part of its folder, though others write it."""


class OutFolder:
    """Collects the files of a run, and puts them into place when all of them are written.

    Until then they are in a folder ``.fires-*`` within; only a killed process leaves it behind.
    Use it in a ``with`` statement.
    """

    def __init__(
        self, path: Path, mark: str, others: Sequence[str] = (), *, overwrite: bool = False
    ) -> None:
        # A process that is killed while it puts files into place leaves its mark in its draft.
        existing = (path / mark).exists() or any(path.glob(f".fires-*/{mark}"))
        if taken := [] if existing else [name for name in others if (path / name).exists()]:
            raise InputError(f"{path} holds {taken[0]} and no {mark}", hint="give another folder")
        if not overwrite and (path / mark).exists():
            raise InputError(
                f"{path} holds {earlier_run(path / mark)}",
                hint="give --overwrite to replace it, or another folder",
            )
        self.path, self._mark, self._others = path, mark, others
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        make_folder(path)
        with naming(path):
            self._draft = files.draft_folder(".fires-", path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        files.remove_tree(self._draft)
        files.remove_empty(*self._made)  # unless something has come of it

    def write(self, name: str, text: str) -> None:
        """Write a file, which :meth:`publish` puts into place."""
        with naming(self.path / name):
            # A file name may hold bytes that are no text.
            replace_file(self._draft / name, text.encode(errors="backslashreplace"))

    def publish(self) -> None:
        """Put all that was written into place, the mark last; nothing stays of an earlier run."""
        for name in (self._mark, *self._others):
            with naming(self.path / name):
                files.remove(self.path / name)
        for file in sorted(self._draft.iterdir(), key=lambda file: file.name == self._mark):
            with naming(self.path / file.name):
                files.move(file, self.path / file.name)


def refuse_foreign(folder: Path, *marks: str) -> None:
    """Raise an error if a folder holds files, and nothing that says that they are ours."""
    # Where Spark keeps how far a stream was read stays, also if nothing came of the run.
    existing = sorted({path.name for path in folder.glob("[!.]*")} - {"spark"})
    if existing and not any((folder / mark).exists() for mark in marks):
        what = f"{folder} holds {existing[0]} and no run of fires"
        raise InputError(what, hint="give another folder")


def earlier_run(mark: Path) -> str:
    """Say what run a folder holds, as far as that can be read."""
    try:
        facts = read_json(mark)
        first, *more = facts["settings"]["file"]
        others = f" and {len(more):,} more" if more else ""
        run = f"the run on {first}{others} of {facts['started']}"
        if facts.get("status") == "running":
            return f"{run}, which has not ended"
        rows = facts["rows"] if "rows" in facts else facts["n_rows"]
        return f"{run}, with {rows:,} rows"
    except (OSError, ValueError, LookupError, TypeError):
        return f"an earlier run ({mark.name})"
