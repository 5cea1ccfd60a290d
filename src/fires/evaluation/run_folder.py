"""The folder of a run: what it writes down while it goes on, and what later reports read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core import files
from fires.core.belief import Belief
from fires.core.errors import InputError, StateError
from fires.core.files import is_transient, make_folder, naming, remove_empty, replace_file
from fires.core.saved_files import read_json
from fires.core.spreadsheets import csv_text
from fires.core.state import State
from fires.core.types import Floats, Header, Json, Labels, Places
from fires.evaluation.by_column import ByColumn, column_names, has_intervals
from fires.evaluation.changes import Change
from fires.evaluation.checkpoints import FOLDER as CHECKPOINTS
from fires.evaluation.checkpoints import Checkpoints
from fires.evaluation.locking import FolderLock, was_held
from fires.evaluation.out_folder import (
    REPORT,
    earlier_run,
    refuse_foreign,
)
from fires.evaluation.recording import QUARANTINE, SNAPSHOTS, STEPS, VERSION
from fires.evaluation.records import Step
from fires.evaluation.run import Run
from fires.evaluation.run_names import RunNames
from fires.evaluation.run_records import RunRecords
from fires.evaluation.totals import RunTotals
from fires.evaluation.transformed import TRANSFORMED
from fires.pipeline import OnlinePipeline
from fires.selectors.why import above_noise

if TYPE_CHECKING:
    from fires.columns.account import ColumnFacts
    from fires.selectors.fires import FIRES


_RUN, _OPTIONS, _NAMES = "run.json", "run.toml", "names.json"
_FEATURES, _COLUMNS, _STATE = "features.csv", "columns.csv", "state.safetensors"
_NUMBER = "[0-9]" * 12
_MANIFEST = (
    *(_RUN, _OPTIONS, _NAMES, STEPS, QUARANTINE, _FEATURES, _COLUMNS, _STATE, REPORT),
    *(f"{folder}/{_NUMBER}.safetensors" for folder in (CHECKPOINTS, SNAPSHOTS)),
    *(f"{TRANSFORMED}/part-{_NUMBER}.{ending}" for ending in ("parquet", "tmp")),
    *(".fires-*.tmp", f"{CHECKPOINTS}/.fires-*.tmp", f"{SNAPSHOTS}/.fires-*.tmp"),
)
"""The files of a run, as patterns: the ``manifest`` in ``run.json``, before the first record."""
_WITHIN = re.compile(r"(?!.*\*\*)[^/]*[^/.][^/]*(/[^/]*[^/.][^/]*)?")
REPLACED, _MOVING = ".replaced", ".moving"
"""Where an earlier run is until this one has saved something; and while it is moved there."""
_AT_ONCE = 10_000

Table: TypeAlias = dict[str, npt.NDArray[np.generic]]


class RunFolder:
    """Writes down a run while it goes on, so that it can be taken up again wherever it ended.

    Before the first row:

    - ``run.toml``: the options. ``run.json``: settings and versions, ``status`` "running".

    While it goes on:

    - ``names.json``: what the features are called. Where columns come and go, all that were met.
    - ``steps.jsonl`` and ``snapshots/``: see :mod:`fires.evaluation.recording`.
    - ``quarantine.ndjson``: the rows that could not be used, with reason and text.
    - ``checkpoints/``: all that is needed to go on; the last two.
    - ``transformed/``: the selected columns of all rows, if they were asked for.

    When it ends:

    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, the ends of
      the 95 % interval, whether it is above noise and selected, and the share of batches in which
      it was. Where columns come and go also ``absent``: whether it has not come lately. One that
      was forgotten has no numbers.
    - ``columns.csv``: every column of the table, and what was done with it.
    - ``state.safetensors``: the pipeline, selector and predictor, for :func:`fires.load`.
    - ``run.json``: counts, timings and alarms too, ``status`` "ended" or "ended early".

    Use it in a ``with`` statement. If nothing comes of the run, it is as it was before. While the
    disk is full, the run goes on; what could not be written is tried again with each checkpoint.
    """

    def __init__(
        self,
        path: Path,
        *,
        overwrite: bool = False,
        resume: bool = False,
        accept_loss: bool = False,
    ) -> None:
        self.path, self._resumed, self._accept_loss = path, resume, accept_loss
        self._lost: list[str] = []
        self._facts: Mapping[str, Json] = {}
        is_run = _is_run(path)
        if resume and not (path / _OPTIONS).exists():
            why = "has no run.toml" if path.is_dir() else "is no folder"
            raise InputError(f"{path} holds no run to go on with: it {why}")
        if is_run and not (overwrite or resume):
            raise InputError(
                f"{path} holds {earlier_run(path / _RUN)}",
                hint="give --overwrite to replace it, another folder, or --resume to go on with it",
            )
        if not (is_run or resume):
            refuse_foreign(path)
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        make_folder(path)
        with naming(path):
            self._lock = FolderLock(path)
            _move(path / _MOVING, path)  # if a process was killed while it moved a run
        self._checkpoints = Checkpoints(path)
        self._began, self._keep = False, resume
        # run.json and run.toml of a run that goes on, until more is saved
        self._former: dict[str, bytes] = {}
        self._late: dict[str, str] = {}
        self._names: Sequence[str] = ()
        self._n_named = 0
        self.records: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.records is not None:
            with suppress(OSError):  # a full disk was heard of before
                self.records.close()
        if self._began and not self._keep:
            with suppress(OSError):  # the next process goes on with it
                self._put_back()
        for name, former in self._former.items():
            with suppress(OSError):
                replace_file(self.path / name, former)
        self._lock.release()
        remove_empty(*self._made)

    def discard(self) -> None:
        """Leave nothing of this run, unless it was taken up again."""
        self._keep = self._resumed

    # --- beginning --------------------------------------------------------------------------

    def begin(self, options: str, facts: Mapping[str, Json], *, moved: bool = False) -> None:
        """Write down what is to be done, before the first row."""
        if self._resumed:
            for name in (_RUN, _OPTIONS):
                with suppress(FileNotFoundError):
                    self._former[name] = (self.path / name).read_bytes()
            for draft in self.path.rglob(".fires-*.tmp"):  # what a killed process was writing
                files.remove(draft)
        else:
            self._set_aside()
        self._began = True
        if moved or not self._resumed:
            self._write_soon(_OPTIONS, options)
        self.note(facts)

    def note(self, facts: Mapping[str, Json]) -> None:
        """Write down what is known of the run while it goes on; ``facts`` as of :meth:`begin`."""
        self._facts = facts
        self._write_soon(_RUN, self._document("running", facts))

    def newest_checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that can be used."""
        return self._checkpoints.newest(_checkpoint)

    def start(self, names: Sequence[str], *, transform: str | None = None) -> None:
        """Begin with the first row."""
        self._names = names
        self._write_names()
        _move(self.path, None, "*/*")
        self.records = RunRecords(self.path, names, transform=transform)

    def go_on(
        self, saved: Checkpoint, names: Sequence[str], *, transform: str | None = None
    ) -> None:
        """Go on after a checkpoint: what was written later is removed."""
        self._names, self._n_named = names, len(names)
        selected = saved.run.pipeline.selector.get_support(indices=True)
        if isinstance(names, RunNames):
            selected = np.sort(names.of_run(selected))
        self.records = RunRecords(
            self.path,
            names,
            saved.facts,
            saved.run.totals,
            selected,
            transform=transform,
            accept_loss=self._accept_loss,
        )
        self._lost = [*saved.facts.get("lost", ()), *self.records.lost]
        if self._lost:
            self._write_soon(_RUN, self._document("running", self._facts))
        if self.records.lost:  # from here on, no more is lost
            facts = self.records.saved() | {"lost": self._lost}
            self._checkpoints.amend(saved.run.totals.n_batches, facts)

    def add(self, step: Step, pipeline: OnlinePipeline) -> None:
        """Write down one record, and what features are called that came with its batch."""
        if len(self._names) > self._n_named:
            self._write_names()
        self.records.add(step, pipeline)

    def _write_names(self) -> None:
        """Before the first record that tells of them."""
        self._n_named = len(self._names)
        self._write_soon(_NAMES, json.dumps(list(self._names), ensure_ascii=False) + "\n")

    def checkpoint(self, run: Run, bookmark: Mapping[str, Json] | None, **more: Any) -> None:
        """Save all that is needed to go on after the last record."""
        self._write_late()
        header, arrays = run.saved()
        header |= {"class": "Run", "records": VERSION, "lost": self._lost}
        header |= self.records.saved() | {"bookmark": bookmark, **more}
        with naming(self.path / CHECKPOINTS):
            self._checkpoints.write(run.totals.n_batches, header, arrays)
        self._is_saved()

    # --- ending -----------------------------------------------------------------------------

    def finish(
        self,
        pipeline: OnlinePipeline,
        names: Sequence[str],
        totals: RunTotals,
        run: dict[str, Any],
        columns: Sequence[ColumnFacts] = (),
    ) -> None:
        """Write what is known at the end."""
        self._late.pop(_RUN, None)
        self._write_late()
        with naming(self.path / _STATE):
            pipeline.save(self.path / _STATE)
        features = _with_forgotten(_feature_table(pipeline.selector, names, totals), names, totals)
        self._write(_FEATURES, csv_text(features, _rows_of(features)))
        if columns:
            self._write(_COLUMNS, csv_text(columns[0], (row.values() for row in columns)))
        status = "ended early" if run.get("ended_early") else "ended"
        self._write(_RUN, self._document(status, run | totals.as_dict()))
        self._is_saved()

    def _is_saved(self) -> None:
        self._former, self._keep = {}, True
        aside = self.path / REPLACED
        with suppress(OSError):
            if aside.exists():
                _move(aside, None)
            if aside.exists():  # versions before have moved files that are not of a run
                files.move(aside, self.path / f"replaced-{time.time_ns()}")

    def _document(self, status: str, facts: Mapping[str, Json]) -> str:
        """The text of ``run.json``."""
        known = {"status": status, "records": VERSION, "manifest": _MANIFEST} | dict(facts)
        known |= {"lost": self._lost} if self._lost else {}
        return json.dumps(known, indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    def _write_soon(self, name: str, text: str) -> None:
        """Write a file now or, if the disk is full, with the next checkpoint."""
        self._late[name] = text
        try:
            self._write_late()
        except OSError as error:
            if not is_transient(error):
                raise

    def _write_late(self) -> None:
        for name in list(self._late):
            self._write(name, self._late[name])
            del self._late[name]

    def _write(self, name: str, text: str) -> None:
        with naming(self.path / name):
            # A file name may hold bytes that are no text.
            replace_file(self.path / name, text.encode(errors="backslashreplace"))

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


class Checkpoint(NamedTuple):
    """Where a run can go on."""

    run: Run
    facts: dict[str, Any]


def _checkpoint(state: State, path: Path) -> Checkpoint:
    header, arrays = state
    try:
        return Checkpoint(Run.from_saved(header, arrays, str(path)), header)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        message = str(error) if isinstance(error, StateError) else repr(error)
        raise StateError(f"{path} cannot be used ({message})") from error


def refuse_one_class(selector: FIRES, column: str, folder: RunFolder | None) -> None:
    """Raise an error at the end of a run whose target was always the same; nothing is left."""
    classes = getattr(selector, "classes_", None)
    if classes is not None and len(classes) == 1:
        if folder is not None:
            folder.discard()
        raise InputError(
            f"the target column {column} holds one value only, {classes.tolist()[0]!r}: "
            "there is nothing to tell apart"
        )


def _is_run(path: Path) -> bool:
    """Whether a folder holds a run, maybe damaged, or what a killed process has left of one."""
    try:
        facts = read_json(path / _RUN)
        return isinstance(facts, dict) and not facts.keys().isdisjoint(("records", "settings"))
    except InputError:
        return True
    except OSError:
        begun = (path / _OPTIONS).exists() or (path / _MOVING).exists()
        return begun or (was_held(path) and any(path.glob("[!.]*")))


def _files(folder: Path) -> list[Path]:
    """The files of the run in a folder, its marks last: by its manifest, if it has a proper one."""
    try:
        listed = read_json(folder / _RUN)["manifest"]
        if not isinstance(listed, list) or not all(map(_WITHIN.fullmatch, listed)):
            listed = ()
    except (OSError, ValueError, LookupError, TypeError):
        listed = ()
    found = [path for one in listed or _MANIFEST for path in folder.glob(one) if not path.is_dir()]
    return sorted(found, key=lambda path: (path.name == _OPTIONS, path.name == _RUN))


def _move(folder: Path, to: Path | None, which: str = "*") -> None:
    """Move the files of the run in a folder, or remove them; whatever else is there stays."""
    for file in _files(folder):
        place = file.relative_to(folder)
        if not place.match(which):
            continue
        if to is None:
            files.remove(file)
        else:
            make_folder((to / place).parent)
            files.move(file, to / place)
        remove_empty(file.parent)
    ours = folder.glob("*/") if folder.name in (REPLACED, _MOVING) else ()
    remove_empty(*ours, folder)


def feature_rows(
    selector: FIRES,
    names: Sequence[str],
    totals: RunTotals,
    columns: Places | None = None,
) -> list[Header]:
    """Features as plain values, best first."""
    table = _feature_table(selector, names, totals, columns)
    return [dict(zip(table, row, strict=True)) for row in _rows_of(table)]


def _feature_table(
    selector: FIRES,
    names: Sequence[str],
    totals: RunTotals,
    columns: Places | None = None,
) -> Table:
    """The columns of :func:`feature_rows`: a million features are too many for a dict each."""
    share, absent = totals.share_selected, None
    if isinstance(names, RunNames):
        known = selector.feature_names_in_.tolist()
        share = _padded(share, len(names))[names.places(known)]
        names, absent = known, np.isin(known, selector.absent_)
    seen: FIRES | ByColumn = selector
    if getattr(selector, "groups_", None) is not None:  # what the user knows are columns
        seen = by_column = ByColumn(selector)
        columns = None if columns is None else np.unique(by_column.groups[columns])
        names, share = column_names(selector, names), share[by_column.first]
    ranking = seen.ranking_
    order = np.argsort(ranking)
    if columns is not None:
        order = columns[np.argsort(ranking[columns])]
    by_class = seen.class_importances_
    low, high = seen.interval()
    belief = Belief(seen.importances_, seen.uncertainties_)
    above: Labels = above_noise(belief, len(by_class) if len(by_class) >= 3 else 1)
    if not has_intervals(selector):
        low = high = above = np.full(len(ranking), None)
    table = {
        "rank": ranking[order],
        "feature": np.array([names[column] for column in order.tolist()], dtype=object),
        "weight": seen.weights_[order],
        "importance": seen.importances_[order],
        "uncertainty": seen.uncertainties_[order],
        "low": low[order],
        "high": high[order],
        "above_noise": above[order],
        "selected": seen.get_support()[order],
        "share_selected": share[order],
    }
    if absent is not None:
        table["absent"] = absent[order]
    by_class = by_class[:, order]
    if len(by_class) >= 3:
        # The class whose coefficient is the importance; by gradient, that is a mean of all.
        own = by_class == table["importance"]
        table["class"] = seen.classes_[
            np.where(own.any(axis=0), own, np.abs(by_class)).argmax(axis=0)
        ]
    return table


def _with_forgotten(table: Table, names: Sequence[str], totals: RunTotals) -> Table:
    """With those columns at the end that came and went, and were forgotten."""
    if not isinstance(names, RunNames):
        return table
    known = set(table["feature"].tolist())
    gone = [place for place, name in enumerate(names) if name not in known]
    if not gone:
        return table
    told: Table = {
        "feature": np.array([names[place] for place in gone], dtype=object),
        "selected": np.zeros(len(gone), dtype=bool),
        "share_selected": _padded(totals.share_selected, len(names))[gone],
        "absent": np.ones(len(gone), dtype=bool),
    }
    nothing = np.full(len(gone), None)
    return {
        name: np.append(column.astype(object), told.get(name, nothing))
        for name, column in table.items()
    }


def _padded(values: Floats, n: int) -> Floats:
    """With zeros for features that are not among those that were ever selected."""
    return np.pad(values, (0, max(n - len(values), 0)))


def _rows_of(table: Table) -> Iterator[tuple[Json, ...]]:
    """The rows of a table of columns, as plain values, of which few are made at a time."""
    for start in range(0, len(table["rank"]), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield from zip(*(column[part].tolist() for column in table.values()), strict=True)


def alarm_rows(
    selector: FIRES, names: Sequence[str], totals: RunTotals | None = None
) -> list[Header]:
    """The alarms of a run as plain values."""
    changes = {} if totals is None else totals.changes.by_batch
    known = selector.feature_names_in_ if isinstance(names, RunNames) else names
    return [
        alarm._asdict() | {"feature": known[alarm.feature]}
        if alarm.feature is not None
        else alarm._asdict() | _change_row(changes.get(alarm.batch), names)
        for alarm in selector.alarms_
    ]


def twin_names(selector: FIRES, names: Sequence[str]) -> dict[str, list[str]]:
    """Which selected feature stands for which others, by name."""

    def called(feature: int | str) -> str:
        return str(feature if isinstance(feature, str) else names[feature])

    return {called(one): list(map(called, others)) for one, others in selector.twins_.items()}


def _change_row(change: Change | None, names: Sequence[str]) -> Header:
    if change is None:
        return {}
    return {
        "left": list(dict.fromkeys(names[column] for column in change.left.tolist())),
        "came": list(dict.fromkeys(names[column] for column in change.came.tolist())),
        "before": change.before | {"batches": change.n_before},
        "after": change.after | {"batches": change.n_after},
    }
