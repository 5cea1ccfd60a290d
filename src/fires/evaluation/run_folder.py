"""The folder of a run: what later reports read."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from fires.evaluation.out_folder import OutFolder, naming
from fires.evaluation.records import Step
from fires.evaluation.totals import RunTotals
from fires.models.linear import Linear
from fires.pipeline import OnlinePipeline

_RUN, _STEPS, _FEATURES, _STATE = "run.json", "steps.jsonl", "features.csv", "state.safetensors"
_COLUMNS = "columns.csv"


class RunFolder(OutFolder):
    """Writes the records of a run while it goes on, and the rest when it ends.

    - ``steps.jsonl``: one record per batch, a line each.
    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, the ends of
      the 95 % interval, whether it is selected, and the share of batches in which it was.
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
        self.write(_FEATURES, _csv(feature_rows(pipeline.selector, names, totals)))
        if columns:
            self.write(_COLUMNS, _csv(columns))
        document = json.dumps(run | totals.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        self.write(_RUN, document + "\n")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same keys as the text of a CSV file."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def feature_rows(selector: Any, names: tuple[str, ...], totals: RunTotals) -> list[dict[str, Any]]:
    """Every feature, best first, as plain values.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : tuple of str
        What the features are called.
    totals : RunTotals
        What the records add up to.

    Returns
    -------
    list of dict
        One row of ``features.csv`` each. ``low`` and ``high``, the ends of the 95 % interval, are
        None if the model learns by gradient: its uncertainty is no standard deviation. ``class``,
        the one for which a feature matters most, is there from the third class on.
    """
    support, share = selector.get_support(), totals.share_selected
    weights, importances = selector.weights_, selector.importances_
    uncertainties = selector.uncertainties_
    low, high = selector.interval()
    is_known = selector.update == "bayes" and isinstance(selector.model_, str | Linear)
    classes = _main_classes(selector)
    return [
        {
            "rank": rank,
            "feature": names[column],
            "weight": float(weights[column]),
            "importance": float(importances[column]),
            "uncertainty": float(uncertainties[column]),
            "low": float(low[column]) if is_known else None,
            "high": float(high[column]) if is_known else None,
            "selected": bool(support[column]),
            "share_selected": float(share[column]),
        }
        | ({} if classes is None else {"class": classes[column]})
        for rank, column in enumerate(np.argsort(selector.ranking_).tolist(), start=1)
    ]


def _main_classes(selector: Any) -> list[Any] | None:
    """For each feature the class whose coefficient is its importance, if there are many classes."""
    by_class = selector.class_importances_
    if len(by_class) < 3:
        return None
    labels: list[Any] = selector.classes_[
        (by_class == selector.importances_).argmax(axis=0)
    ].tolist()
    return labels


def alarm_rows(selector: Any, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The alarms of a run as plain values.

    Parameters
    ----------
    selector : FIRES
        What has learnt from the whole stream.
    names : tuple of str
        What the features are called.

    Returns
    -------
    list of dict
        In order. See :class:`fires.drift.Alarm`; ``feature`` is a name, or None.
    """
    return [
        alarm._asdict() | {"feature": None if alarm.feature is None else names[alarm.feature]}
        for alarm in selector.alarms_
    ]
