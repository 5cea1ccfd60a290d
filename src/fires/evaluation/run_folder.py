"""The folder of a run: what later reports read."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.evaluation.by_column import ByColumn, column_names
from fires.evaluation.changes import Change
from fires.evaluation.out_folder import OutFolder, naming
from fires.evaluation.records import Step
from fires.evaluation.totals import RunTotals
from fires.models.linear import Linear
from fires.pipeline import OnlinePipeline

_RUN, _STEPS, _FEATURES, _STATE = "run.json", "steps.jsonl", "features.csv", "state.safetensors"
_COLUMNS = "columns.csv"
_AT_ONCE = 10_000

Table: TypeAlias = dict[str, npt.NDArray[Any]]


class RunFolder(OutFolder):
    """Writes the records of a run while it goes on, and the rest when it ends.

    - ``steps.jsonl``: one record per batch, a line each.
    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, the ends of
      the 95 % interval, whether it is above noise and selected, and the share of batches in which
      it was.
    - ``columns.csv``: every column of the table, and what was done with it.
    - ``state.safetensors``: the pipeline, selector and predictor, for :func:`fires.load`.
    - ``run.json``: settings, versions, counts, timings and alarms.

    Parameters
    ----------
    path : Path
        Made if it is not there.
    overwrite : bool
        Whether an earlier run may be replaced; it stays as it was until this one ends.
    """

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        super().__init__(path, _RUN, overwrite=overwrite)
        with naming(path):
            self._steps: IO[str] = (self._draft / _STEPS).open("w", encoding="utf-8")

    def __exit__(self, *error: object) -> None:
        # A full disk would make itself heard again on closing, and hide the first error.
        with contextlib.suppress(OSError):
            self._steps.close()
        super().__exit__(*error)

    def record(self, step: Step) -> None:
        """Write down one record.

        Parameters
        ----------
        step : Step
            The record of the next batch.
        """
        with naming(self.path / _STEPS):
            self._steps.write(json.dumps(step.as_row(), allow_nan=False) + "\n")

    def finish(
        self,
        pipeline: OnlinePipeline,
        names: tuple[str, ...],
        totals: RunTotals,
        run: dict[str, Any],
        columns: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Write what is known at the end, and put it in the place of an earlier run.

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
        self._close_steps()
        try:
            self._write_rest(pipeline, names, totals, run, columns)
        except OSError:
            # The records are what is large, and what can be missed: without them it may fit.
            os.truncate(self._draft / _STEPS, 0)
            self._write_rest(pipeline, names, totals, run, columns)
        if not columns:
            (self.path / _COLUMNS).unlink(missing_ok=True)  # it would be of an earlier run
        self.publish()

    def _close_steps(self) -> None:
        """Close the records; on a full disk, those that are whole are kept."""
        try:
            self._steps.close()
        except OSError:
            path = self._draft / _STEPS
            with path.open("rb") as file:
                n_whole = sum(len(line) for line in file if line.endswith(b"\n"))
            os.truncate(path, n_whole)

    def _write_rest(
        self,
        pipeline: OnlinePipeline,
        names: tuple[str, ...],
        totals: RunTotals,
        run: dict[str, Any],
        columns: Sequence[Mapping[str, Any]],
    ) -> None:
        with naming(self.path / _STATE):
            pipeline.save(self._draft / _STATE)
        features = _feature_table(pipeline.selector, names, totals)
        self.write(_FEATURES, _csv(features, _rows_of(features)))
        if columns:
            self.write(_COLUMNS, _csv(columns[0], (row.values() for row in columns)))
        document = json.dumps(run | totals.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(_RUN, document + "\n")


def _csv(header: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """The text of a CSV file."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def feature_rows(
    selector: Any,
    names: tuple[str, ...],
    totals: RunTotals,
    columns: npt.NDArray[np.intp] | None = None,
) -> list[dict[str, Any]]:
    """Features as plain values, best first.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : tuple of str
        What the features are called.
    totals : RunTotals
        What the records add up to.
    columns : ndarray of int, optional
        Which features; by default, all of them.

    Returns
    -------
    list of dict
        One row of ``features.csv`` each. ``low`` and ``high``, the ends of the 95 % interval, are
        None if the model learns by gradient: its uncertainty is no standard deviation.
        ``above_noise`` is None then too. Otherwise it says whether chance alone would hardly move
        any of all features so far: with 500 features of noise, the 95 % interval leaves out 0 for
        some 25 of them, and these are among the first. So the interval that it asks is one of
        1 - 0.05 / n, with n features, times the classes from the third on. ``class``, the one for
        which a feature matters most, is there from the third class on.
    """
    table = _feature_table(selector, names, totals, columns)
    return [dict(zip(table, row, strict=True)) for row in _rows_of(table)]


def _feature_table(
    selector: Any,
    names: tuple[str, ...],
    totals: RunTotals,
    columns: npt.NDArray[np.intp] | None = None,
) -> Table:
    """The columns of :func:`feature_rows`: a million features are too many for a dict each."""
    share = totals.share_selected
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
    least, most = selector.interval(
        1.0 - 0.05 / (by_class.size if len(by_class) >= 3 else len(low))
    )
    above_noise: npt.NDArray[Any] = (least > 0.0) | (most < 0.0)
    if selector.update != "bayes" or not isinstance(selector.model_, str | Linear):
        low = high = above_noise = np.full(len(ranking), None)
    table = {
        "rank": ranking[order],
        "feature": np.array([names[column] for column in order.tolist()], dtype=object),
        "weight": selector.weights_[order],
        "importance": selector.importances_[order],
        "uncertainty": selector.uncertainties_[order],
        "low": low[order],
        "high": high[order],
        "above_noise": above_noise[order],
        "selected": selector.get_support()[order],
        "share_selected": share[order],
    }
    by_class = by_class[:, order]
    if len(by_class) >= 3:
        # The class whose coefficient is the importance; by gradient, that is a mean of all.
        own = by_class == table["importance"]
        table["class"] = selector.classes_[
            np.where(own.any(axis=0), own, np.abs(by_class)).argmax(axis=0)
        ]
    return table


def _rows_of(table: Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table of columns, as plain values, of which few are made at a time."""
    for start in range(0, len(table["rank"]), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        yield from zip(*(column[part].tolist() for column in table.values()), strict=True)


def alarm_rows(
    selector: Any, names: tuple[str, ...], totals: RunTotals | None = None
) -> list[dict[str, Any]]:
    """The alarms of a run as plain values.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : tuple of str
        What the features are called.
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
    return [
        alarm._asdict() | {"feature": names[alarm.feature]}
        if alarm.feature is not None
        else alarm._asdict() | _change_row(changes.get(alarm.batch), names)
        for alarm in selector.alarms_
    ]


def _change_row(change: Change | None, names: tuple[str, ...]) -> dict[str, Any]:
    if change is None:
        return {}
    return {
        "left": list(dict.fromkeys(names[column] for column in change.left.tolist())),
        "came": list(dict.fromkeys(names[column] for column in change.came.tolist())),
        "before": change.before | {"batches": change.n_before},
        "after": change.after | {"batches": change.n_after},
    }
