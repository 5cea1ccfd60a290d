"""The folder of a run: what it writes down while it goes on, and what later reports read."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief
from fires.core.errors import InputError, StateError
from fires.core.state import State, replace_file
from fires.evaluation.by_column import ByColumn, column_names, has_intervals
from fires.evaluation.changes import Change
from fires.evaluation.checkpoints import FOLDER as CHECKPOINTS
from fires.evaluation.checkpoints import Checkpoints
from fires.evaluation.locking import FolderLock
from fires.evaluation.out_folder import REPORT, earlier_run, is_full, make_folder, naming
from fires.evaluation.recording import QUARANTINE, SNAPSHOTS, STEPS, VERSION
from fires.evaluation.records import Step
from fires.evaluation.run import Run
from fires.evaluation.run_names import RunNames
from fires.evaluation.run_records import RunRecords
from fires.evaluation.totals import RunTotals
from fires.evaluation.transformed import TRANSFORMED
from fires.pipeline import OnlinePipeline
from fires.selectors.why import above_noise

_RUN, _OPTIONS, _NAMES = "run.json", "run.toml", "names.json"
_FEATURES, _COLUMNS, _STATE = "features.csv", "columns.csv", "state.safetensors"
_ALL = (
    *(_RUN, _OPTIONS, _NAMES, STEPS, QUARANTINE, _FEATURES, _COLUMNS, _STATE, REPORT),
    *(CHECKPOINTS, SNAPSHOTS, TRANSFORMED),
)
REPLACED = ".replaced"
"""Where an earlier run is until this one has saved something."""
_AT_ONCE = 10_000

Table: TypeAlias = dict[str, npt.NDArray[Any]]


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

    Parameters
    ----------
    path : Path
        Made if it is not there.
    overwrite : bool
        Whether an earlier run may be replaced.
    resume : bool
        Whether an earlier run is to go on.

    Attributes
    ----------
    records : RunRecords
        What grows with the run, from :meth:`start` or :meth:`go_on` on.

    Raises
    ------
    InputError
        If it holds an earlier run, or none to go on with, or if another process writes to it.
    OSError
        If nothing can be written to it.
    """

    def __init__(self, path: Path, *, overwrite: bool = False, resume: bool = False) -> None:
        self.path, self._resumed = path, resume
        there = (path / _RUN).exists() or (path / _OPTIONS).exists()
        if resume and not (path / _OPTIONS).exists():
            why = "has no run.toml" if path.is_dir() else "is no folder"
            raise InputError(f"{path} holds no run to go on with: it {why}")
        if there and not (overwrite or resume):
            raise InputError(
                f"{path} holds {earlier_run(path / _RUN)}",
                hint="give --overwrite to replace it, another folder, or --resume to go on with it",
            )
        self._made = [folder for folder in (path, *path.parents) if not folder.exists()]
        make_folder(path)
        with naming(path):
            self._lock = FolderLock(path)
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
            self._put_back()
        for name, former in self._former.items():
            with suppress(OSError):
                replace_file(self.path / name, former)
        self._lock.release()
        if self._made and not any(self.path.glob("[!.]*")):
            shutil.rmtree(self.path, ignore_errors=True)
            with suppress(OSError):  # not empty
                for folder in self._made[1:]:
                    folder.rmdir()

    def discard(self) -> None:
        """Leave nothing of this run, unless it was taken up again."""
        self._keep = self._resumed

    # --- beginning --------------------------------------------------------------------------

    def begin(self, options: str, facts: Mapping[str, Any], *, moved: bool = False) -> None:
        """Write down what is to be done, before the first row.

        Parameters
        ----------
        options : str
            The text of ``run.toml``.
        facts : mapping
            What goes into ``run.json``.
        moved : bool
            Whether a run that goes on does so elsewhere, with other options than before.
        """
        self._began = True
        if self._resumed:
            for name in (_RUN, _OPTIONS):
                with suppress(FileNotFoundError):
                    self._former[name] = (self.path / name).read_bytes()
            if moved:
                self._write_soon(_OPTIONS, options)
            for draft in self.path.rglob(".fires-*.tmp"):  # what a killed process was writing
                draft.unlink()
        else:
            self._set_aside()
            self._write_soon(_OPTIONS, options)
        running = {"status": "running", "records": VERSION} | dict(facts)
        self._write_soon(_RUN, _document(running))

    def newest_checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest checkpoint that can be used.

        Returns
        -------
        checkpoint : Checkpoint or None
            None if the run has to start with its first row.
        damaged : list of str
            What is wrong with newer ones, a line each.
        """
        return self._checkpoints.newest(_checkpoint)

    def start(self, names: Sequence[str], *, transform: str | None = None) -> None:
        """Begin with the first row.

        Parameters
        ----------
        names : sequence of str
            What the features are called; a RunNames, which will grow, if columns come and go.
        transform : str, optional
            The name of the target, if the selected columns are to be written.
        """
        self._names = names
        self._write_names()
        for leftover in (CHECKPOINTS, SNAPSHOTS, TRANSFORMED):
            shutil.rmtree(self.path / leftover, ignore_errors=True)
        self.records = RunRecords(self.path, names, transform=transform)

    def go_on(
        self, saved: Checkpoint, names: Sequence[str], *, transform: str | None = None
    ) -> None:
        """Go on after a checkpoint: what was written later is removed.

        Parameters
        ----------
        saved : Checkpoint
            Where the run goes on.
        names : sequence of str
            What the features are called.
        transform : str, optional
            The name of the target, if the selected columns are to be written.
        """
        self._names, self._n_named = names, len(names)
        selected = saved.run.pipeline.selector.get_support(indices=True)
        if isinstance(names, RunNames):
            selected = np.sort(names.of_run(selected))
        self.records = RunRecords(
            self.path,
            names,
            saved.facts["files"],
            saved.run.totals,
            selected,
            transform=transform,
        )

    def add(self, step: Step, pipeline: OnlinePipeline) -> None:
        """Write down one record, and what features are called that came with its batch.

        Parameters
        ----------
        step : Step
            The record of the next batch.
        pipeline : OnlinePipeline
            What has learnt up to it.
        """
        if len(self._names) > self._n_named:
            self._write_names()
        self.records.add(step, pipeline)

    def _write_names(self) -> None:
        """Before the first record that tells of them."""
        self._n_named = len(self._names)
        self._write_soon(_NAMES, json.dumps(list(self._names), ensure_ascii=False) + "\n")

    def checkpoint(self, run: Run, bookmark: Mapping[str, Any] | None, **more: Any) -> None:
        """Save all that is needed to go on after the last record.

        Parameters
        ----------
        run : Run
            What has learnt.
        bookmark : mapping or None
            Where the stream is; None if it cannot be read from there again.
        **more
            JSON values that belong to it.
        """
        self._write_late()
        header, arrays = run.saved()
        header |= {"class": "Run", "records": VERSION, "files": self.records.saved()}
        header |= {"bookmark": bookmark, **more}
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
        columns: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write what is known at the end.

        Parameters
        ----------
        pipeline : OnlinePipeline
            What has learnt from the whole stream.
        names : tuple of str
            What the features are called.
        totals : RunTotals
            What the records add up to.
        run : dict
            What else goes into ``run.json``.
        columns : sequence of mapping
            The rows of ``columns.csv``; without any, it is not written.
        """
        self._late.pop(_RUN, None)
        self._write_late()
        with naming(self.path / _STATE):
            pipeline.save(self.path / _STATE)
        features = _with_forgotten(_feature_table(pipeline.selector, names, totals), names, totals)
        self._write(_FEATURES, _csv(features, _rows_of(features)))
        if columns:
            self._write(_COLUMNS, _csv(columns[0], (row.values() for row in columns)))
        status = "ended early" if run.get("ended_early") else "ended"
        self._write(
            _RUN, _document({"status": status, "records": VERSION} | run | totals.as_dict())
        )
        self._is_saved()

    def _is_saved(self) -> None:
        self._former = {}
        if not self._keep:
            self._keep = True
            shutil.rmtree(self.path / REPLACED, ignore_errors=True)

    def _write_soon(self, name: str, text: str) -> None:
        """Write a file now or, if the disk is full, with the next checkpoint."""
        self._late[name] = text
        try:
            self._write_late()
        except OSError as error:
            if not is_full(error):
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
        aside = self.path / REPLACED
        there = [name for name in _ALL if (self.path / name).exists()]
        if there and not aside.exists():
            aside.mkdir()
            for name in there:
                (self.path / name).replace(aside / name)

    def _put_back(self) -> None:
        aside = self.path / REPLACED
        for name in _ALL:
            file = self.path / name
            if file.is_dir():
                shutil.rmtree(file, ignore_errors=True)
            else:
                file.unlink(missing_ok=True)
            if (aside / name).exists():
                (aside / name).replace(file)
        shutil.rmtree(aside, ignore_errors=True)


class Checkpoint(NamedTuple):
    """Where a run can go on.

    Parameters
    ----------
    run : Run
        As it was then.
    facts : dict
        What else was saved, with ``bookmark``: where the stream was.
    """

    run: Run
    facts: dict[str, Any]


def _checkpoint(state: State, path: Path) -> Checkpoint:
    header, arrays = state
    try:
        return Checkpoint(Run.from_saved(header, arrays, str(path)), header)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        said = str(error) if isinstance(error, StateError) else repr(error)
        raise StateError(f"{path} cannot be used ({said})") from error


def _document(facts: Mapping[str, Any]) -> str:
    """The text of a JSON file for people."""
    return json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def feature_rows(
    selector: Any,
    names: Sequence[str],
    totals: RunTotals,
    columns: npt.NDArray[np.intp] | None = None,
) -> list[dict[str, Any]]:
    """Features as plain values, best first.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : sequence of str
        What the features are called; a RunNames if columns come and go.
    totals : RunTotals
        What the records add up to.
    columns : ndarray of int, optional
        Which features of the selector; by default, all of them.

    Returns
    -------
    list of dict
        One row of ``features.csv`` each. ``low`` and ``high``, the ends of the 95 % interval, are
        None if the model learns by gradient: its uncertainty is no standard deviation.
        ``above_noise`` is None then too. Otherwise it says whether chance alone would hardly move
        any of all features so far: see :func:`fires.selectors.why.above_noise`. ``class``, the one
        for which a feature matters most, is there from the third class on. ``absent`` is there
        where columns come and go.
    """
    table = _feature_table(selector, names, totals, columns)
    return [dict(zip(table, row, strict=True)) for row in _rows_of(table)]


def _feature_table(
    selector: Any,
    names: Sequence[str],
    totals: RunTotals,
    columns: npt.NDArray[np.intp] | None = None,
) -> Table:
    """The columns of :func:`feature_rows`: a million features are too many for a dict each."""
    share, absent = totals.share_selected, None
    if isinstance(names, RunNames):
        known = selector.feature_names_in_.tolist()
        share = _padded(share, len(names))[names.places(known)]
        names, absent = known, np.isin(known, selector.absent_)
    if getattr(selector, "groups_", None) is not None:  # what the user knows are columns
        seen = ByColumn(selector)
        columns = None if columns is None else np.unique(seen.groups[columns])
        selector, names, share = seen, column_names(selector, names), share[seen.first]
    ranking = selector.ranking_
    order = np.argsort(ranking)
    if columns is not None:
        order = columns[np.argsort(ranking[columns])]
    by_class = selector.class_importances_
    low, high = selector.interval()
    belief = Belief(selector.importances_, selector.uncertainties_)
    above: npt.NDArray[Any] = above_noise(belief, len(by_class) if len(by_class) >= 3 else 1)
    if not has_intervals(selector):
        low = high = above = np.full(len(ranking), None)
    table = {
        "rank": ranking[order],
        "feature": np.array([names[column] for column in order.tolist()], dtype=object),
        "weight": selector.weights_[order],
        "importance": selector.importances_[order],
        "uncertainty": selector.uncertainties_[order],
        "low": low[order],
        "high": high[order],
        "above_noise": above[order],
        "selected": selector.get_support()[order],
        "share_selected": share[order],
    }
    if absent is not None:
        table["absent"] = absent[order]
    by_class = by_class[:, order]
    if len(by_class) >= 3:
        # The class whose coefficient is the importance; by gradient, that is a mean of all.
        own = by_class == table["importance"]
        table["class"] = selector.classes_[
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


def _padded(values: npt.NDArray[Any], n: int) -> npt.NDArray[Any]:
    """With zeros for features that are not among those that were ever selected."""
    return np.pad(values, (0, max(n - len(values), 0)))


def _rows_of(table: Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of columns, as plain values, of which few are made at a time."""
    for start in range(0, len(table["rank"]), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield from zip(*(column[part].tolist() for column in table.values()), strict=True)


def alarm_rows(
    selector: Any, names: Sequence[str], totals: RunTotals | None = None
) -> list[dict[str, Any]]:
    """The alarms of a run as plain values.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : sequence of str
        What the features are called; a RunNames if columns come and go.
    totals : RunTotals, optional
        What the records add up to.

    Returns
    -------
    list of dict
        In order. See :class:`fires.drift.Alarm`; ``feature`` is a name, or None. The last alarms
        about all features also have the features that ``left`` the selection and that ``came``, and
        the scores ``before`` and ``after``, each with the number of batches. See
        :class:`fires.evaluation.changes.Change`.
    """
    changes = {} if totals is None else totals.changes.by_batch
    known = selector.feature_names_in_ if isinstance(names, RunNames) else names
    return [
        alarm._asdict() | {"feature": known[alarm.feature]}
        if alarm.feature is not None
        else alarm._asdict() | _change_row(changes.get(alarm.batch), names)
        for alarm in selector.alarms_
    ]


def _change_row(change: Change | None, names: Sequence[str]) -> dict[str, Any]:
    if change is None:
        return {}
    return {
        "left": list(dict.fromkeys(names[column] for column in change.left.tolist())),
        "came": list(dict.fromkeys(names[column] for column in change.came.tolist())),
        "before": change.before | {"batches": change.n_before},
        "after": change.after | {"batches": change.n_after},
    }
