"""The folder of a run: what it writes down while it goes on, and what later reports read."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from operator import methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core import files
from fires.core.errors import InputError
from fires.core.named import RunNames
from fires.core.output import csv_text
from fires.core.state import Arrays, State, write_state
from fires.core.types import Header, Json, Places
from fires.evaluation.records import Step
from fires.pipeline import OnlinePipeline
from fires.run.checkpoints import FOLDER as CHECKPOINTS
from fires.run.checkpoints import Checkpoints
from fires.run.features import classes_of, features_csv
from fires.run.locking import FolderLock, was_held
from fires.run.records import QUARANTINE, REPORT, SNAPSHOTS, STEPS, TRANSFORMED, VERSION, RunRecords
from fires.run.totals import RunTotals

if TYPE_CHECKING:
    from fires.columns.columns import ColumnFacts
    from fires.selectors.fires import FIRES
    from fires.streams.base import Batch


_RUN, _OPTIONS, _NAMES = "run.json", "run.toml", "names.json"
_FEATURES, _COLUMNS, _STATE = "features.csv", "columns.csv", "state.safetensors"
_NUMBER = "[0-9]" * 12
# The files of a run, as patterns: the ``manifest`` in ``run.json``, before the first record.
_MANIFEST = (
    *(_RUN, _OPTIONS, _NAMES, STEPS, QUARANTINE, _FEATURES, _COLUMNS, _STATE, REPORT),
    *(f"{folder}/{_NUMBER}.safetensors" for folder in (CHECKPOINTS, SNAPSHOTS)),
    *(f"{TRANSFORMED}/part-{_NUMBER}.{ending}" for ending in ("parquet", "tmp")),
    *(".fires-*.tmp", f"{CHECKPOINTS}/.fires-*.tmp", f"{SNAPSHOTS}/.fires-*.tmp"),
)
# Where an earlier run is until this one has saved something; and while it is moved there.
REPLACED, _MOVING = ".replaced", ".moving"


class RunFolder(AbstractContextManager["RunFolder"]):
    """Writes down a run while it goes on, so that it can be taken up again wherever it ended.

    Before the first row:

    - ``run.toml``: the options. ``run.json``: settings and versions, ``status`` "running".

    While it goes on:

    - ``names.json``: what the features are called. Where columns come and go, all that were met.
    - ``steps.jsonl`` and ``snapshots/``: see :mod:`fires.run.records`.
    - ``quarantine.ndjson``: the rows that could not be used, with reason and text.
    - ``checkpoints/``: all that is needed to go on; the last two.
    - ``transformed/``: the selected columns of all rows, if they were asked for.

    When it ends:

    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, the ends of
      the 95 % interval, whether it is above noise and selected, and the share of batches in which
      it was. Where columns come and go also ``absent``: whether it has been absent recently. One
      that was forgotten has no numbers.
    - ``columns.csv``: every column of the table, and what was done with it.
    - ``state.safetensors``: the pipeline, selector and predictor, for :func:`fires.load`.
    - ``run.json``: counts, timings and alarms too, ``status`` "ended" or "ended early".

    Use it in a ``with`` statement. If nothing comes of the run, it is as it was before.
    """

    records: RunRecords  # what is written down of each batch, once the run begins, or goes on

    def __init__(self, path: Path, *, overwrite: bool = False, resume: bool = False) -> None:
        self.path, self._resumed = path, resume
        self._facts: Mapping[str, Json] = {}
        is_run = _is_run(path)
        if resume and not (path / _OPTIONS).exists():
            why = "has no run.toml" if path.is_dir() else "is not a folder"
            raise InputError(f"{path} holds no run to resume: it {why}")
        if is_run and not (overwrite or resume):
            raise InputError(
                f"{path} holds {earlier_run(path / _RUN)}",
                hint="give --overwrite to replace it, another folder, or --resume to continue it",
            )
        if not (is_run or resume):
            refuse_foreign(path)
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        files.make_folder(path)
        with files.naming(path):
            self._lock = FolderLock(path)
            _move(path / _MOVING, path)  # if a process was killed while it moved a run
        self.checkpoints = Checkpoints(path)
        self._began, self._keep = False, resume
        self._former: bytes | None = None  # run.json of a run that goes on, until more is saved
        self._names: Sequence[str] = ()
        self._n_named = 0
        self._open = ExitStack()

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):  # a full disk was heard of before
            self._open.close()
        if self._began and not self._keep:
            with suppress(OSError):  # the next process goes on with it
                self._put_back()
        if self._former is not None:
            with suppress(OSError):
                files.replace_file(self.path / _RUN, self._former)
        self._lock.release()
        files.remove_empty(*self._made)

    def discard(self) -> None:
        """Leave nothing of this run, unless it was taken up again."""
        self._keep = self._resumed

    # --- beginning --------------------------------------------------------------------------

    def begin(self, options: str, facts: Mapping[str, Json]) -> None:
        """Write down what is to be done, before the first row."""
        if self._resumed:
            with suppress(FileNotFoundError):
                self._former = (self.path / _RUN).read_bytes()
            for draft in self.path.rglob(".fires-*.tmp"):  # what a killed process was writing
                files.remove(draft)
        else:
            self._set_aside()
        self._began = True
        if not self._resumed:
            self._write(_OPTIONS, options)
        self.note(facts)

    def note(self, facts: Mapping[str, Json]) -> None:
        """Write down what more is known of the run while it goes on."""
        self._facts = {**self._facts, **facts}
        self._write(_RUN, self._document("running", self._facts))

    def start(self, names: Sequence[str], *, transform: str | None = None) -> None:
        """Begin with the first row."""
        self._names = names
        self._write_names()
        _move(self.path, None, "*/*")
        self._record(RunRecords(self.path, names, transform=transform))

    def go_on(
        self,
        saved: Mapping[str, Any],
        totals: RunTotals,
        selected: Places,
        names: Sequence[str],
        *,
        transform: str | None = None,
    ) -> None:
        """Go on after a checkpoint: what was written later is removed."""
        self._names, self._n_named = names, len(names)
        if isinstance(names, RunNames):
            selected = np.sort(names.of_run(selected))
        self._record(RunRecords(self.path, names, saved, totals, selected, transform=transform))

    def _record(self, records: RunRecords) -> None:
        self.records = records
        self._open.callback(records.close)

    def add(self, step: Step, pipeline: OnlinePipeline, batch: Batch | None = None) -> bool:
        """Write down a record, and names that came with its batch; whether to save it soon."""
        if len(self._names) > self._n_named:
            self._write_names()
        return self.records.add(step, pipeline, batch)

    def _write_names(self) -> None:
        """Before the first record that tells of them."""
        self._n_named = len(self._names)
        self._write(_NAMES, json.dumps(list(self._names), ensure_ascii=False) + "\n")

    def checkpoint(self, n_batches: int, header: Mapping[str, Json], arrays: Arrays) -> None:
        """Save all that is needed to go on after the last record."""
        known: Header = {"class": "Run", "records": VERSION, **self.records.saved()}
        with files.naming(self.path / CHECKPOINTS):
            self.checkpoints.write(n_batches, {**header, **known}, arrays)
        self._is_saved()

    # --- ending -----------------------------------------------------------------------------

    def finish(
        self,
        pipeline: OnlinePipeline,
        names: Sequence[str],
        totals: RunTotals,
        run: dict[str, Any],
        columns: Sequence[ColumnFacts] = (),
        learnt: State | None = None,
    ) -> None:
        """Write what is known at the end; ``learnt`` is what the pipeline would save."""
        write_state(self.path / _STATE, *(pipeline.saved() if learnt is None else learnt))
        self._write(_FEATURES, features_csv(pipeline.selector, names, totals))
        if columns:
            self._write(_COLUMNS, csv_text(columns[0], map(methodcaller("values"), columns)))
        status = "ended early" if run.get("ended_early") else "ended"
        self._write(_RUN, self._document(status, run | totals.as_dict()))
        self._is_saved()

    def _is_saved(self) -> None:
        self._former, self._keep = None, True
        if not (aside := self.path / REPLACED).exists():
            return
        with suppress(OSError):
            _move(aside, None)
            if aside.exists():  # versions before have moved files that are not of a run
                files.move(aside, self.path / f"replaced-{time.time_ns()}")

    def _document(self, status: str, facts: Mapping[str, Json]) -> str:
        """The text of ``run.json``."""
        known = {"status": status, "records": VERSION, "manifest": _MANIFEST} | dict(facts)
        return json.dumps(known, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _write(self, name: str, text: str) -> None:
        # The name of a file may have bytes that are no text.
        files.replace_file(self.path / name, text.encode(errors="backslashreplace"))

    def _set_aside(self) -> None:
        """Keep an earlier run until this one has saved something."""
        aside, moving = self.path / REPLACED, self.path / _MOVING
        # If there is one, what is here has never saved anything.
        try:
            _move(self.path, None if aside.exists() else moving)
            if moving.exists():
                files.move(moving, aside)
        except BaseException:
            with suppress(OSError):
                _move(moving, self.path)
            raise

    def _put_back(self) -> None:
        aside, moving = self.path / REPLACED, self.path / _MOVING
        _move(self.path, None)
        if aside.exists():
            files.move(aside, moving)
        _move(moving, self.path)


def refuse_one_class(selector: FIRES, column: str, folder: RunFolder | None) -> None:
    """Raise an error at the end of a run whose target was always the same; nothing is left."""
    classes = classes_of(selector)
    if classes is not None and len(classes) == 1:
        if folder is not None:
            folder.discard()
        raise InputError(
            f"the target column {column} has only one value, {classes[0]!r}: "
            "there is nothing to predict"
        )


def _is_run(path: Path) -> bool:
    """Whether a folder holds a run, maybe damaged, or what a killed process has left of one."""
    try:
        facts = files.read_json(path / _RUN)
        return isinstance(facts, dict) and not facts.keys().isdisjoint(("records", "settings"))
    except InputError:
        return True
    except OSError:
        begun = (path / _OPTIONS).exists() or (path / _MOVING).exists()
        return begun or (was_held(path) and any(path.glob("[!.]*")))


def _move(folder: Path, to: Path | None, which: str = "*") -> None:
    """Move the files of the run in a folder, or remove them; whatever else is there stays."""
    found = [path for one in _MANIFEST for path in folder.glob(one) if not path.is_dir()]
    for file in sorted(found, key=lambda path: (path.name == _OPTIONS, path.name == _RUN)):
        place = file.relative_to(folder)
        if not place.match(which):
            continue
        if to is None:
            files.remove(file)
        else:
            files.make_folder((to / place).parent)
            files.move(file, to / place)
        files.remove_empty(file.parent)
    ours = folder.glob("*/") if folder.name in (REPLACED, _MOVING) else ()
    files.remove_empty(*ours, folder)


class OutFolder(AbstractContextManager["OutFolder"]):
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
        files.make_folder(path)
        with files.naming(path):
            self._draft = files.draft_folder(".fires-", path)

    def __exit__(self, *error: object) -> None:
        files.remove_tree(self._draft)
        files.remove_empty(*self._made)  # unless something has come of it

    def publish(self, texts: Mapping[str, str]) -> None:
        """Write files and put them into place, the mark last; nothing stays of an earlier run."""
        for name, text in texts.items():
            with files.naming(self.path / name):
                files.replace_file(self._draft / name, text.encode(errors="backslashreplace"))
        for name in (self._mark, *self._others):
            with files.naming(self.path / name):
                files.remove(self.path / name)
        for name in sorted(texts, key=self._mark.__eq__):
            with files.naming(self.path / name):
                files.move(self._draft / name, self.path / name)


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
        facts = files.read_json(mark)
        return f"the run on {facts['settings']['file'][0]} of {facts['started']}"
    except (OSError, ValueError, LookupError, TypeError):
        return f"an earlier run ({mark.name})"
