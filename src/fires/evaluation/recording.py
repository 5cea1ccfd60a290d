"""What a run writes down while it goes on, for whoever looks at it: records of a fixed form.

``steps.jsonl`` has one object a line for each batch:

- ``index``, ``rows`` (so far), ``n_rows`` (of the batch), ``scores``, ``stability``,
  ``seconds_select``, ``seconds_train``; ``baselines``: their scores; ``waited`` if the batch was
  cut by time; ``alarms`` if there were any. See :class:`fires.evaluation.records.Step`.
- ``selected``: the features selected after the batch, by their places in ``run.json``'s
  ``features``; ``came`` and ``left`` where the set is another one than before.
- ``importance`` and ``uncertainty`` of these features, in the same order, to six digits: in the
  first 100 batches, in every tenth, and where the set changed or an alarm was raised.
- ``missing``: missing values so far, if there were any.
- ``present``: where columns come and go, how many were there in the window of the stability.

``snapshots/INDEX.safetensors`` holds all features after a batch, or the first 10,000 by rank:
arrays ``features`` (places), ``importance``, ``uncertainty``, ``rank`` (1 is the best) and
``selected``; where columns are standardised also ``mean`` and ``deviation`` of their last rows,
some 10,000. Its facts say how many ``classes`` there were so far. There are never more than 128: of
the first 128 batches each, of the first 256 every second, and so on.

What is written depends on the batches alone, not on time: a run that was killed and taken up again
has the same records, but for the seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires.core import files
from fires.core.state import Arrays, read_state, write_state
from fires.core.types import Floats, Header, Places

if TYPE_CHECKING:
    from fires.evaluation.records import Step
    from fires.evaluation.run_names import RunNames
    from fires.pipeline import OnlinePipeline

VERSION = 1
"""Of the form of the records; in ``run.json`` as ``records``."""

STEPS, QUARANTINE, SNAPSHOTS = "steps.jsonl", "quarantine.ndjson", "snapshots"
_EACH, _EVERY = 100, 10
_N_SNAPSHOTS = 128
_MOST_FEATURES = 10_000


def stride(index: int) -> int:
    """Of how many batches one has a snapshot, when a run is at a batch.

    Examples
    --------
    >>> [stride(index) for index in (0, 127, 128, 255, 256, 1000)]
    [1, 1, 2, 2, 4, 8]
    """
    return 1 << (index // _N_SNAPSHOTS).bit_length()


class Recorder:
    """Turns steps into records."""

    def __init__(self, folder: Path, before: Places, names: RunNames | None = None) -> None:
        self._folder, self._names = folder / SNAPSHOTS, names
        self._before = before
        self._late: dict[int, tuple[dict[str, int], Arrays]] = {}

    def row(self, step: Step, pipeline: OnlinePipeline) -> Header:
        """The line of ``steps.jsonl`` for a step."""
        row, selector = step.as_row(), pipeline.selector
        changed = not np.array_equal(step.selected, self._before)
        if changed:
            row["came"] = np.setdiff1d(step.selected, self._before).tolist()
            row["left"] = np.setdiff1d(self._before, step.selected).tolist()
        self._before = step.selected
        often = step.index < _EACH or step.index % _EVERY == 0
        if len(step.selected) and (often or changed or step.alarms):
            places = step.selected
            if self._names is not None:
                places = self._names.of_selector(places)
            row["importance"] = _short(selector.importances_[places])
            row["uncertainty"] = _short(selector.uncertainties_[places])
        if pipeline.n_missing_:
            row["missing"] = pipeline.n_missing_
        return row

    def snapshot(self, step: Step, pipeline: OnlinePipeline) -> None:
        """Write a snapshot, if it is time for one, and remove those that are too many now."""
        apart = stride(step.index)
        if step.index % apart or not len(step.selected):
            return
        if apart > stride(step.index - 1) and step.index:
            self._late = {index: late for index, late in self._late.items() if not index % apart}
            for index, path in snapshots(self._folder.parent):
                if index % apart:
                    files.remove(path)
        selector = pipeline.selector
        ranking = selector.ranking_
        features = np.arange(len(ranking))
        if len(features) > _MOST_FEATURES:
            features = np.sort(np.argpartition(ranking, _MOST_FEATURES)[:_MOST_FEATURES])
        places = features if self._names is None else self._names.of_run(features)
        arrays: Arrays = {
            "features": places.astype(np.int32),
            "importance": selector.importances_[features].astype(np.float32),
            "uncertainty": selector.uncertainties_[features].astype(np.float32),
            "rank": ranking[features].astype(np.int32),
            "selected": np.isin(places, step.selected),
        }
        moments = pipeline.column_moments()
        if moments is not None:
            names = ("mean", "deviation")
            arrays |= {name: of[features] for name, of in zip(names, moments, strict=True)}
        facts = {"records": VERSION, "index": step.index, "rows": step.position.rows}
        facts["classes"] = len(getattr(selector, "classes_", ()))
        self._late[step.index] = facts, arrays
        self.write()

    def write(self) -> None:
        """Write what is not written yet: it may be late, if the disk was full."""
        for index in sorted(self._late):
            files.make_folder(self._folder)
            write_state(self._folder / f"{index:012d}.safetensors", *self._late[index])
            del self._late[index]


def snapshots(folder: Path) -> Iterator[tuple[int, Path]]:
    """The snapshots in the folder of a run, in order."""
    if (folder / SNAPSHOTS).is_dir():
        for path in sorted((folder / SNAPSHOTS).glob("*.safetensors")):
            if path.stem.isdigit():
                yield int(path.stem), path


def read_snapshot(path: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.generic]]]:
    """What a snapshot holds.

    Parameters
    ----------
    path : Path
        One of :func:`snapshots`.

    Returns
    -------
    facts, arrays : dict
        ``index`` and ``rows``; and the arrays that the text above names.
    """
    return read_state(path)


def _short(values: Floats) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values.tolist()]
