"""What grows with a run: its records, the rows that could not be used, and those transformed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fires.core import files
from fires.core.files import is_transient, naming
from fires.core.types import Header, Places
from fires.evaluation.appending import LinesFile
from fires.evaluation.recording import QUARANTINE, SNAPSHOTS, STEPS, Recorder, snapshots
from fires.evaluation.records import Step
from fires.evaluation.run_names import RunNames
from fires.evaluation.totals import RunTotals
from fires.evaluation.transformed import Transformed
from fires.pipeline import OnlinePipeline
from fires.streams.table import Fault

_LONGEST_RAW = 100_000


class RunRecords:
    """Writes down a run batch by batch."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        saved: Mapping[str, Any] | None = None,
        totals: RunTotals | None = None,
        selected: Places | None = None,
        *,
        transform: str | None = None,
        accept_loss: bool = False,
    ) -> None:
        lengths, known = (saved or {}).get("files", {}), (saved or {}).get("checksums", {})
        n_batches, n_rows = (0, 0) if totals is None else (totals.n_batches, totals.n_rows)
        before = np.empty(0, dtype=np.intp) if selected is None else selected
        self._folder = folder
        least = n_batches if accept_loss else None
        lines = [
            LinesFile(folder / name, lengths.get(name, 0), known.get(name), least)
            for name in (STEPS, QUARANTINE)
        ]
        self._steps, self._bad = lines
        self._bad_until = self._bad.length, self._bad.checksum
        self.lost = [f"{file.path.name} {file.lost}" for file in lines if file.lost]
        if lengths.get(SNAPSHOTS) and not any(snapshots(folder)):
            self.lost.append(f"{SNAPSHOTS} of the first {n_batches:,} batches are gone")
        open_names = names if isinstance(names, RunNames) else None
        self._recorder = Recorder(folder, before, open_names)
        for index, path in snapshots(folder):
            if index >= n_batches:
                files.remove(path)
        self.transformed = None
        if transform is not None:
            self.transformed = Transformed(folder, names, transform)
            self.transformed.cut_back(n_rows)

    def quarantine(self, faults: Sequence[Fault]) -> None:
        """Write down rows that could not be used."""
        for fault in faults:
            row: Header = {**(fault.where or {}), "line": fault.line}
            row |= {"reason": fault.reason, "raw": fault.raw[:_LONGEST_RAW]}
            if len(fault.raw) > _LONGEST_RAW:
                row["raw_length"] = len(fault.raw)
            self._bad.write(row)

    def add(self, step: Step, pipeline: OnlinePipeline) -> None:
        """Write down one record."""
        row = self._recorder.row(step, pipeline)
        if self.lost:
            row["lost"], self.lost = self.lost, []
        self._steps.write(row)
        try:
            with naming(self._folder / SNAPSHOTS):
                self._recorder.snapshot(step, pipeline)
        except OSError as error:
            if not is_transient(error):  # else it is kept, and written later
                raise
        self._bad_until = (
            self._bad.length,
            self._bad.checksum,
        )  # more may come before the next batch is whole

    def flush(self) -> None:
        """Let others see all records so far, if there is room."""
        self._steps.show()
        self._bad.show()

    def saved(self) -> Header:
        """Let all of it reach the disk."""
        self._steps.flush(sync=True)
        self._bad.flush(sync=True)
        with naming(self._folder / SNAPSHOTS):
            self._recorder.write()
        if self.transformed is not None:
            self.transformed.write()
        n_shots, (length, checksum) = sum(1 for _ in snapshots(self._folder)), self._bad_until
        return {
            "files": {STEPS: self._steps.length, QUARANTINE: length, SNAPSHOTS: n_shots},
            "checksums": {STEPS: self._steps.checksum, QUARANTINE: checksum},
        }

    def close(self) -> None:
        """Write what is left, and close the files."""
        try:
            self._steps.close()
        finally:
            self._bad.close()
