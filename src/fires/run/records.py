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
``selected``; where there are intervals also ``significant``; where columns are standardised also
``mean`` and ``deviation`` of their last rows, some 10,000. Its facts say how many ``classes`` there
were so far, and, where there are any, which curves and pairs: ``relations``, see
:mod:`fires.run.relations`. There are never more than 128: of the first 128 batches each, of the
first 256 every second, and so on.

What is written depends on the batches alone, not on time: a run that was killed and taken up again
has the same records, but for the seconds.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from fires.core import files
from fires.core.errors import InputError
from fires.core.files import open_saved
from fires.core.named import Names, RunNames
from fires.core.state import Arrays, read_state, write_state
from fires.core.types import Floats, Header, Json, Places
from fires.run.features import groups_of, has_intervals
from fires.run.relations import relations_of

if TYPE_CHECKING:
    import polars as pl

    from fires.evaluation.records import Step
    from fires.pipeline import OnlinePipeline
    from fires.run.totals import RunTotals
    from fires.streams.base import Batch
    from fires.streams.table import Fault


# Of the form of the records; in ``run.json`` as ``records``.
VERSION = 1

STEPS, QUARANTINE, SNAPSHOTS = "steps.jsonl", "quarantine.ndjson", "snapshots"
REPORT = "report.html"
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


def snapshots(folder: Path) -> Iterator[tuple[int, Path]]:
    """The snapshots in the folder of a run, in order."""
    if (folder / SNAPSHOTS).is_dir():
        for path in sorted((folder / SNAPSHOTS).glob("*.safetensors")):
            if path.stem.isdigit():
                yield int(path.stem), path


read_snapshot = read_state  # of one of them: its facts, and the arrays that the text above names

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
    ) -> None:
        lengths, known = ((saved or {}).get(name, {}) for name in ("files", "checksums"))
        n_batches, n_rows = (0, 0) if totals is None else (totals.n_batches, totals.n_rows)
        self._folder, self._names = folder, names if isinstance(names, RunNames) else None
        self._before = np.empty(0, dtype=np.intp) if selected is None else selected
        # Of the selected features, if the last record tells them: importance and uncertainty.
        self.told: tuple[Floats, Floats] | None = None
        self._steps, self._bad = (
            LinesFile(folder / name, lengths.get(name, 0), known.get(name))
            for name in (STEPS, QUARANTINE)
        )
        self._bad_until = self._bad.length, self._bad.checksum
        for index, path in snapshots(folder):
            if index >= n_batches:
                files.remove(path)
        self._transformed = None
        if transform is not None:
            self._transformed = Transformed(folder, names, transform)
            self._transformed.cut_back(n_rows)

    def quarantine(self, faults: Sequence[Fault]) -> None:
        """Write down rows that could not be used."""
        for fault in faults:
            row: Header = {**(fault.where or {}), "line": fault.line}
            row |= {"reason": fault.reason, "raw": fault.raw[:_LONGEST_RAW]}
            if len(fault.raw) > _LONGEST_RAW:
                row["raw_length"] = len(fault.raw)
            self._bad.write(row)

    def add(self, step: Step, pipeline: OnlinePipeline, batch: Batch | None = None) -> bool:
        """Write down one record; whether the rows that are kept of batches are very many."""
        selector, some, apart = pipeline.selector, len(step.selected) > 0, stride(step.index)
        changed = not np.array_equal(step.selected, self._before)
        often = step.index < _EACH or step.index % _EVERY == 0
        is_told = some and (often or changed or bool(step.alarms))
        is_shot = some and step.index % apart == 0
        row, self.told = step.as_row(), None
        belief: tuple[Floats, ...] = ()
        if is_told or is_shot:
            belief = selector.importances_, selector.uncertainties_
        if changed:
            row["came"] = np.setdiff1d(step.selected, self._before).tolist()
            row["left"] = np.setdiff1d(self._before, step.selected).tolist()
            self._before = step.selected
        if is_told:
            names, places = self._names, step.selected
            places = places if names is None else names.of_selector(places)
            mu, sigma = belief
            self.told = mu[places], sigma[places]
            numbers = np.concatenate(self.told).tolist()
            short = [float(f"{one:.6g}") if math.isfinite(one) else None for one in numbers]
            row["importance"], row["uncertainty"] = short[: len(places)], short[len(places) :]
        if n_missing := pipeline.n_missing_:
            row["missing"] = n_missing
        self._steps.write(row)
        if is_shot:
            self._snapshot(step, pipeline, apart, *belief)
        # More may come before the next batch is whole.
        self._bad_until = self._bad.length, self._bad.checksum
        return (
            self._transformed is not None
            and batch is not None
            and self._transformed.add(batch, step)
        )

    def _snapshot(
        self, step: Step, pipeline: OnlinePipeline, apart: int, mu: Floats, sigma: Floats
    ) -> None:
        """Write a snapshot, and remove those that are too many now."""
        if apart > 1 and step.index == apart * _N_SNAPSHOTS // 2:  # there are 128 by now
            for index, path in snapshots(self._folder):
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
            "importance": mu[features].astype(np.float32),
            "uncertainty": sigma[features].astype(np.float32),
            "rank": ranking[features].astype(np.int32),
            "selected": np.isin(places, step.selected),
        }
        if has_intervals(selector):
            groups, significant = groups_of(selector), selector.is_significant()
            arrays["significant"] = significant[features if groups is None else groups[features]]
        moments = pipeline.column_moments()
        if moments is not None:
            arrays["mean"], arrays["deviation"] = moments[0][features], moments[1][features]
        facts: Header = {"records": VERSION, "index": step.index, "rows": step.position.rows}
        facts["classes"] = len(selector.label_index.labels)
        if (found := relations_of(pipeline)) is not None and found["kind"] != "linear":
            facts["relations"] = found
        folder = self._folder / SNAPSHOTS
        files.make_folder(folder)
        write_state(folder / f"{step.index:012d}.safetensors", facts, arrays)

    def flush(self) -> None:
        """Let others see all records so far."""
        self._steps.flush()
        self._bad.flush()

    def saved(self) -> Header:
        """Let all of it reach the disk."""
        self._steps.flush(sync=True)
        self._bad.flush(sync=True)
        if self._transformed is not None:
            self._transformed.write()
        length, checksum = self._bad_until
        return {
            "files": {STEPS: self._steps.length, QUARANTINE: length},
            "checksums": {STEPS: self._steps.checksum, QUARANTINE: checksum},
        }

    def close(self) -> None:
        """Write what is left, and close the files."""
        try:
            self._steps.close()
        finally:
            self._bad.close()


TRANSFORMED = "transformed"
_MOST_CELLS = 8_000_000


class Transformed:
    """Collects rows, reduced to the features that are selected once they were learnt from.

    Each file ``part-ROW.parquet`` starts with the row of that number. Its columns are ``row``, the
    target, and every feature that was selected in one of its batches; there is no value in the
    rows of batches in which it was not. Values are those that the selector sees, before they are
    scaled.
    """

    def __init__(self, folder: Path, names: Sequence[str], target: str) -> None:
        self._folder, self._names, self._target = folder / TRANSFORMED, names, target
        self._frames: list[pl.DataFrame] = []
        self._n_cells = self._first = 0

    def add(self, batch: Batch, step: Step) -> bool:
        """Keep the rows of a batch; whether there are so many that they should be written."""
        at = selected = step.selected
        if batch.names is not None:
            places = Names(batch.names).places(self._names[place] for place in selected.tolist())
            selected, at = selected[places >= 0], places[places >= 0]
        import polars as pl

        some, y, end = batch.X[:, at], batch.y, step.position.rows
        rows = some if isinstance(some, np.ndarray) else some.toarray()
        columns = {"row": pl.Series(np.arange(end - len(y), end), dtype=pl.Int64)}
        columns[self._target] = pl.Series(y.tolist() if y.dtype.kind == "U" else y)
        for i, j in enumerate(selected.tolist()):
            columns[self._names[j]] = pl.Series(rows[:, i]).fill_nan(None)
        self._first = self._first if self._frames else end - len(y)
        self._frames.append(pl.DataFrame(columns))
        self._n_cells += rows.size
        return self._n_cells > _MOST_CELLS

    def write(self) -> None:
        """Write what was kept to a file of its own."""
        if not self._frames:
            return
        import polars as pl

        files.make_folder(self._folder)
        path, content = self._folder / f"part-{self._first:012d}.parquet", io.BytesIO()
        pl.concat(self._frames, how="diagonal").write_parquet(content)
        files.replace_file(path, content.getvalue())
        self._frames, self._n_cells = [], 0

    def cut_back(self, n_rows: int) -> None:
        """Remove what was written of rows from a number on: they come again."""
        for path in self._folder.glob("part-*.*"):
            if path.suffix == ".tmp" or int(path.stem.removeprefix("part-")) >= n_rows:
                files.remove(path)


_LEAST, _MAX = 1e-6, 1e6  # seconds; times beyond count as these
_GROWTH = 1.02  # from one bucket to the next: so a time is known to 1 %


class Latencies:
    """The seconds from when a batch is at hand to when its step is done.

    Times are counted in buckets, each 2 % wider than the one before it, some 1,400 in all.

    Examples
    --------
    >>> latencies = Latencies()
    >>> for milliseconds in range(1, 101):
    ...     latencies.add(milliseconds / 1000)
    >>> round(latencies.quantile(0.5), 3), latencies.as_dict()["max"]
    (0.05, 0.1)
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._max = 0.0
        self._began: float | None = None

    def begin(self) -> None:
        """A batch is at hand."""
        self._began = time.perf_counter()

    def end(self) -> None:
        """Its step is done."""
        if self._began is not None:
            self.add(time.perf_counter() - self._began)
            self._began = None

    def add(self, seconds: float | Floats) -> None:
        """Count a batch in, or many at once."""
        for one in [seconds] if isinstance(seconds, float) else seconds.tolist():
            within = min(max(one, _LEAST), _MAX)
            self._counts[math.floor(math.log(within / _LEAST) / math.log(_GROWTH))] += 1
            self._max = max(self._max, one)

    def quantile(self, share: float) -> float:
        """The time that this share of the batches did not exceed, to 1 %."""
        left = math.ceil(share * self._counts.total())
        for bucket, count in sorted(self._counts.items()):
            left -= count
            if left <= 0:
                return min(_LEAST * math.pow(_GROWTH, bucket + 0.5), self._max)
        return math.nan

    def as_dict(self) -> dict[str, float | None]:
        """What a summary tells."""
        if not self._counts:
            return {"p50": None, "p99": None, "max": None}
        return {"p50": self.quantile(0.5), "p99": self.quantile(0.99), "max": self._max}

    def state(self) -> Header:
        """What to save with a checkpoint."""
        return {"counts": sorted(self._counts.items()), "max": self._max}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where an earlier run was."""
        self._counts = Counter({int(bucket): int(count) for bucket, count in state["counts"]})
        self._max = float(state["max"])


# --- files of lines, which can be cut back to where a checkpoint saw them ------------------------

_MOST_PENDING = 1 << 18
# So long a line waits at most for others, before those who watch the file can see it.
_MOST_SECONDS = 0.05


class AppendedFile:
    """A file that grows by whole lines, and is made with the first of them.

    Once it could not be flushed, nobody knows what is on the disk: it is cut back to what is safe,
    and takes no more.
    """

    def __init__(self, path: Path, length: int) -> None:
        self.path, self.length = path, length
        self._pending: list[bytes] = []
        self._written = self._safe = length
        self._since = time.monotonic()
        self._file: int | None = None
        self._broken: OSError | None = None
        if path.is_file() and path.stat().st_size > length:
            with files.naming(path):
                files.truncate(path, length)

    def append(self, line: bytes) -> None:
        """Take a line, to be written later."""
        self._pending.append(line)
        self.length += len(line)

    def flush(self, *, sync: bool = False) -> None:
        """Let others see all lines."""
        if self._broken is not None:
            raise self._broken
        with files.naming(self.path):
            if self._pending:
                if self._file is None:
                    self._file = files.open_to_append(self.path)
                try:
                    files.write(self._file, b"".join(self._pending))
                except OSError:
                    self._cut_back(self._written)  # no half a line
                    raise
                self._pending, self._written = [], self.length
            if sync and self._written > self._safe and self._file is not None:
                try:
                    files.sync(self._file)
                except OSError as error:
                    self._broken = error
                    self._cut_back(self._safe)
                    raise
                self._safe = self._written
        self._since = time.monotonic()

    def _cut_back(self, length: int) -> None:
        with suppress(OSError):
            files.truncate(self.path, length)

    def close(self) -> None:
        """Write what is left, and close the file."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                os.close(self._file)
                self._file = None


class LinesFile(AppendedFile):
    r"""A file to which JSON objects are appended, one a line. It never holds part of a line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = LinesFile(Path(folder, "x.jsonl"))
    ...     file.write({"step": 0})
    ...     file.close()
    ...     Path(folder, "x.jsonl").read_text()
    '{"step": 0}\n'
    """

    def __init__(self, path: Path, length: int = 0, checksum: int | None = None) -> None:
        found = self.checksum = 0
        with files.naming(path):
            if length == 0:
                files.remove(path)
            elif path.exists():
                with open_saved(path) as file:
                    while data := file.read(min(length - found, _MOST_PENDING)):
                        found += len(data)
                        self.checksum = crc32(data, self.checksum)
        if found < length or checksum not in (None, self.checksum):
            raise InputError(
                f"{path} has changed since the run was saved, in its first {length:,} bytes",
                hint="what was learnt can still be used: see fires predict, fires.load",
            )
        super().__init__(path, length)

    def write(self, row: Mapping[str, Json]) -> None:
        """Append an object. It reaches the file soon, if more are written."""
        text = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
        line = text.encode(errors="backslashreplace")  # of a file's name, say
        self.append(line)
        self.checksum = crc32(line, self.checksum)
        waits, age = self.length - self._written, time.monotonic() - self._since
        if age > _MOST_SECONDS or waits > _MOST_PENDING:
            self.flush()
