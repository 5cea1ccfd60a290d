"""The folder of a run: what later reports read."""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from fires.core.state import replace_file
from fires.evaluation.records import Step
from fires.evaluation.totals import RunTotals
from fires.models.linear import Linear
from fires.pipeline import OnlinePipeline

_RUN, _STEPS, _FEATURES, _STATE = "run.json", "steps.jsonl", "features.csv", "state.safetensors"


class RunFolder:
    """Writes the records of a run while it goes on, and the rest when it ends.

    - ``steps.jsonl``: one record per batch, a line each.
    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, the ends of
      the 95 % interval, whether it is selected, and the share of batches in which it was.
    - ``state.safetensors``: the pipeline, selector and predictor, for :func:`fires.load`.
    - ``run.json``: settings, versions, counts, timings and alarms.

    All four are written to a folder ``.fires-*`` within and moved into place by :meth:`finish`,
    ``run.json`` last: until then, and after an error, the folder holds what it held before. Only a
    killed process leaves its ``.fires-*`` behind. Use it in a ``with`` statement.

    Parameters
    ----------
    path : Path
        Made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_new = not path.exists()
        make_folder(path)
        with naming(path):
            self._draft = Path(tempfile.mkdtemp(prefix=".fires-", dir=path))
            self._steps: IO[str] = (self._draft / _STEPS).open("w", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        # A full disk would make itself heard again on closing, and hide the first error.
        with contextlib.suppress(OSError):
            self._steps.close()
        shutil.rmtree(self._draft, ignore_errors=True)
        if self._is_new:
            with contextlib.suppress(OSError):  # not empty: the run was finished
                self.path.rmdir()

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
        """
        rows = feature_rows(pipeline.selector, names, totals)
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        document = json.dumps(run | totals.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        with naming(self.path / _STEPS):
            self._steps.close()
        with naming(self.path / _FEATURES):
            replace_file(self._draft / _FEATURES, text.getvalue().encode())
        with naming(self.path / _STATE):
            pipeline.save(self._draft / _STATE)
        with naming(self.path / _RUN):
            replace_file(self._draft / _RUN, (document + "\n").encode())
            # Where there is a run.json, the files beside it are of that run.
            (self.path / _RUN).unlink(missing_ok=True)
        for name in (_STEPS, _FEATURES, _STATE, _RUN):
            with naming(self.path / name):
                (self._draft / name).replace(self.path / name)


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
