"""What grows with a run: its records, the rows that could not be used, and those transformed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.evaluation.appending import LinesFile
from fires.evaluation.out_folder import is_full, naming
from fires.evaluation.recording import QUARANTINE, SNAPSHOTS, STEPS, Recorder, snapshots
from fires.evaluation.records import Step
from fires.evaluation.run_names import RunNames
from fires.evaluation.totals import RunTotals
from fires.evaluation.transformed import Transformed
from fires.pipeline import OnlinePipeline
from fires.streams.table import Fault

_LONGEST_RAW = 100_000


class RunRecords:
    """Writes down a run batch by batch.

    Parameters
    ----------
    folder : Path
        The folder of the run.
    names : sequence of str
        What the features are called; a RunNames if columns come and go.
    lengths : mapping of str to int
        How much to keep of each file: nothing in a new run.
    totals : RunTotals, optional
        Of the batches that are kept.
    selected : ndarray of int, optional
        The features that are selected after the last of them.
    transform : str, optional
        The name of the target, if the selected columns are to be written.

    Attributes
    ----------
    transformed : Transformed or None
        Where the selected columns are written, if they are.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        lengths: Mapping[str, int] | None = None,
        totals: RunTotals | None = None,
        selected: npt.NDArray[np.intp] | None = None,
        *,
        transform: str | None = None,
    ) -> None:
        lengths = lengths or {}
        n_batches, n_rows = (0, 0) if totals is None else (totals.n_batches, totals.n_rows)
        before = np.empty(0, dtype=np.intp) if selected is None else selected
        self._folder = folder
        self._steps = LinesFile(folder / STEPS, lengths.get(STEPS, 0))
        self._bad = LinesFile(folder / QUARANTINE, lengths.get(QUARANTINE, 0))
        self._bad_length = self._bad.length
        open_names = names if isinstance(names, RunNames) else None
        self._recorder = Recorder(folder, before, open_names)
        for index, path in snapshots(folder):
            if index >= n_batches:
                path.unlink()
        self.transformed = None
        if transform is not None:
            self.transformed = Transformed(folder, names, transform)
            self.transformed.cut_back(n_rows)

    def quarantine(self, faults: Sequence[Fault]) -> None:
        """Write down rows that could not be used.

        Parameters
        ----------
        faults : sequence of Fault
            In order.
        """
        for fault in faults:
            row: dict[str, Any] = {**(fault.where or {}), "line": fault.line}
            row |= {"reason": fault.reason, "raw": fault.raw[:_LONGEST_RAW]}
            if len(fault.raw) > _LONGEST_RAW:
                row["raw_length"] = len(fault.raw)
            self._bad.write(row)

    def add(self, step: Step, pipeline: OnlinePipeline) -> None:
        """Write down one record.

        Parameters
        ----------
        step : Step
            The record of the next batch.
        pipeline : OnlinePipeline
            What has learnt up to it.
        """
        self._steps.write(self._recorder.row(step, pipeline))
        try:
            with naming(self._folder / SNAPSHOTS):
                self._recorder.snapshot(step, pipeline)
        except OSError as error:
            if not is_full(error):  # else it is kept, and written later
                raise
        self._bad_length = self._bad.length  # more may come before the next batch is whole

    def flush(self) -> None:
        """Let others see all records so far, if there is room."""
        for file in (self._steps, self._bad):
            try:
                file.flush()
            except OSError as error:
                if not is_full(error):
                    raise

    def saved(self) -> dict[str, int]:
        """Let all of it reach the disk.

        Returns
        -------
        dict of str to int
            How long each file was at the end of the last batch.
        """
        self._steps.flush(sync=True)
        self._bad.flush(sync=True)
        with naming(self._folder / SNAPSHOTS):
            self._recorder.write()
        if self.transformed is not None:
            self.transformed.write()
        return {STEPS: self._steps.length, QUARANTINE: self._bad_length}

    def close(self) -> None:
        """Write what is left, and close the files."""
        try:
            self._steps.close()
        finally:
            self._bad.close()
