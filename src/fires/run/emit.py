"""Which features are selected now, told while a run goes on: one JSON object for each change."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from fires.core import files
from fires.core.errors import InputError
from fires.core.named import RunNames
from fires.core.types import Header, Places
from fires.evaluation.records import Step, plain
from fires.run.features import column_names, feature_rows, groups_of
from fires.run.records import AppendedFile
from fires.run.totals import RunTotals
from fires.streams.registry import Sink
from fires.streams.registry import open_sink as open_address

if TYPE_CHECKING:
    from fires.selectors.fires import FIRES


_BEGINNING = b'{"id": "'  # of every record: so a file that is not ours is left alone
_TOLD = ("feature", "importance", "low", "high", "rank")


Every = Literal["change", "batch"]


class Emitter:
    """Writes which features are selected, whenever that changes.

    A record holds its ``id``, the ``rows`` read until then, the ``time``, the selected
    ``features``, and the names of those that ``came`` and ``left`` since the record before. Each
    feature has its ``importance``, its ``rank``, and ``low`` and ``high``, the ends of the 95 %
    interval; they are None if the model gives none. A column that became several features counts
    as one.

    A run that was killed goes on from its last checkpoint and learns some batches again. Their
    records are written again too, with the same ids: none is lost, and a reader that has seen an
    id can skip it. For this, call :meth:`flush` before a checkpoint and save :meth:`state` in it.

    Examples
    --------
    >>> from fires import FIRES
    >>> from fires.evaluation import prequential
    >>> from fires.streams import from_arrays
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> selector = FIRES(1)
    >>> emitter = Emitter(open_sink("-"), "run", ("a", "b", "c"))
    >>> for step in prequential(from_arrays(X, X[:, 1] > 0), selector):
    ...     emitter.step(step, selector)  # doctest: +ELLIPSIS
    {"id": "run-0", "rows": 100, "time": "...", "features": [{"feature": "b", "importance": ...,
    "low": ..., "high": ..., "rank": 1}], "came": ["b"], "left": []}
    """

    def __init__(
        self, sink: Sink, run_id: str, names: Sequence[str], every: Every = "change"
    ) -> None:
        self._sink, self._run_id, self.names, self._every = sink, run_id, names, every
        self._told: Places | None = None
        self._totals = RunTotals(len(names))  # nothing is told of what they would add

    def step(self, step: Step, selector: FIRES) -> None:
        """Write a record, if there is something to tell."""
        now, before, names = step.selected, self._told, self.names
        if self._every == "change" and before is not None and np.array_equal(before, now):
            return
        before = now[:0] if before is None else before
        places = names.of_selector(now) if isinstance(names, RunNames) else now
        rows = feature_rows(selector, names, self._totals, places)
        self._sink.write(
            {
                "id": f"{self._run_id}-{step.index}",
                "rows": step.position.rows,
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "features": [plain({name: row[name] for name in _TOLD}) for row in rows],
                "came": self._columns(selector, np.setdiff1d(now, before)),
                "left": self._columns(selector, np.setdiff1d(before, now)),
            }
        )
        self._told = now

    def flush(self) -> None:
        """Come back when all records are safe; to be called before each checkpoint."""
        self._sink.flush()

    def close(self) -> None:
        """Flush, and let go of the sink."""
        self._sink.flush()
        self._sink.close()

    def state(self) -> dict[str, list[int] | None]:
        """What to save with a checkpoint."""
        return {"selected": None if self._told is None else self._told.tolist()}

    def restore(self, state: dict[str, list[int] | None]) -> None:
        """Go on where an earlier run was."""
        told = state["selected"]
        self._told = None if told is None else np.array(told, dtype=np.intp)

    def _columns(self, selector: FIRES, features: Places) -> list[str]:
        """The names of the columns that these features come from."""
        groups = groups_of(selector)
        if groups is None:
            return [self.names[place] for place in features.tolist()]
        columns = column_names(selector, self.names)
        return [columns[group] for group in np.unique(groups[features]).tolist()]


def open_sink(where: str) -> Sink:
    """Find the place that a user names for records.

    Examples
    --------
    >>> open_sink("-").write({"id": "run-0"})
    {"id": "run-0"}
    """
    if where == "-":
        return StandardOutput()
    if "://" not in where:
        return FileSink(Path(where))
    return open_address(where)


class StandardOutput:
    """Records as lines on standard output, each as soon as it is known.

    Once its reader has gone, a record raises BrokenPipeError.
    """

    def write(self, record: Header) -> None:
        """See :meth:`Sink.write`."""
        sys.stdout.write(_line(record))
        sys.stdout.flush()

    def flush(self) -> None:
        """See :meth:`Sink.flush`."""

    def close(self) -> None:
        """See :meth:`Sink.close`."""


class FileSink:
    """Records as lines of a file. What is there stays, but for a last line that is not whole."""

    def __init__(self, path: Path) -> None:
        self._path, self._pipe = path, -1
        with files.naming(path):
            if path.exists() and not path.is_file():
                self._pipe = files.open_file(path, os.O_WRONLY | os.O_APPEND)
            elif not path.exists():
                os.close(files.open_to_append(path))  # that it cannot be written is known now
            self._lines = AppendedFile(path, 0 if self._pipe >= 0 else _whole(path))

    def write(self, record: Header) -> None:
        """See :meth:`Sink.write`."""
        line = _line(record).encode()
        if self._pipe >= 0:
            with files.naming(self._path):
                files.write(self._pipe, line)
        else:
            self._lines.append(line)
            self._lines.flush()

    def flush(self) -> None:
        """See :meth:`Sink.flush`."""
        self._lines.flush(sync=True)

    def close(self) -> None:
        """See :meth:`Sink.close`."""
        self._lines.close()
        if self._pipe >= 0:
            os.close(self._pipe)


def _line(record: Header) -> str:
    return json.dumps(record, allow_nan=False) + "\n"


def _whole(path: Path) -> int:
    """How much of a file is whole lines."""
    with path.open("rb") as file:
        beginning = file.read(len(_BEGINNING))
        if not _BEGINNING.startswith(beginning):
            raise InputError(
                f"{path} holds something other than records of selected features",
                hint="give the name of a new file",
            )
        if not beginning:
            return 0
        with mmap(file.fileno(), 0, access=ACCESS_READ) as text:
            return text.rfind(b"\n") + 1
