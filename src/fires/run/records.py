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
some 10,000. Its facts say how many ``classes`` there were so far, and, where there are any, which
curves and pairs: ``relations``, see :mod:`fires.run.relations`. There are never more than 128: of
the first 128 batches each, of the first 256 every second, and so on.

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
import numpy.typing as npt

from fires.core import files
from fires.core.errors import InputError
from fires.core.files import is_transient, naming, open_saved
from fires.core.named import Names, RunNames
from fires.core.state import Arrays, read_state, write_state
from fires.core.types import Floats, Header, Labels, Places
from fires.run.relations import relations_of

if TYPE_CHECKING:
    from fires.core.types import Json
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
        self._folder, self._names = folder, names if isinstance(names, RunNames) else None
        self._before = np.empty(0, dtype=np.intp) if selected is None else selected
        self._late: dict[int, tuple[Header, Arrays]] = {}
        # Of the selected features, if the last record tells them: importance and uncertainty.
        self.told: tuple[Floats, Floats] | None = None
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
        belief = (selector.importances_, selector.uncertainties_) if is_told or is_shot else ()
        row, self.told = step.as_row(), None
        if changed:
            row["came"] = np.setdiff1d(step.selected, self._before).tolist()
            row["left"] = np.setdiff1d(self._before, step.selected).tolist()
            self._before = step.selected
        if is_told:
            names, places = self._names, step.selected
            places = places if names is None else names.of_selector(places)
            mu, sigma = (of[places] for of in belief)
            row["importance"], row["uncertainty"] = (
                [float(f"{one:.6g}") if math.isfinite(one) else None for one in of.tolist()]
                for of in (mu, sigma)
            )
            self.told = mu, sigma
        if n_missing := pipeline.n_missing_:
            row["missing"] = n_missing
        if self.lost:
            row["lost"], self.lost = self.lost, []
        self._steps.write(row)
        try:
            if is_shot:
                self._snapshot(step, pipeline, apart, *belief)
        except OSError as error:
            if not is_transient(error):  # else it is kept, and written later
                where = str(self._folder / SNAPSHOTS)
                raise OSError(error.errno, error.strerror, where) from error
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
            self._late = {index: late for index, late in self._late.items() if not index % apart}
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
        moments = pipeline.column_moments()
        if moments is not None:
            names = ("mean", "deviation")
            arrays |= {name: of[features] for name, of in zip(names, moments, strict=True)}
        facts: Header = {"records": VERSION, "index": step.index, "rows": step.position.rows}
        facts["classes"] = len(selector.label_index)
        if (found := relations_of(pipeline)) is not None and found["kind"] != "linear":
            facts["relations"] = found
        self._late[step.index] = facts, arrays
        self._write_snapshots()

    def _write_snapshots(self) -> None:
        """Write those that are not written yet: they may be late, if the disk was full."""
        folder = self._folder / SNAPSHOTS
        for index in sorted(self._late):
            if not folder.exists():
                files.make_folder(folder)
            write_state(folder / f"{index:012d}.safetensors", *self._late[index])
            del self._late[index]

    def flush(self) -> None:
        """Let others see all records so far, if there is room."""
        self._steps.show()
        self._bad.show()

    def saved(self) -> Header:
        """Let all of it reach the disk."""
        self._steps.flush(sync=True)
        self._bad.flush(sync=True)
        with naming(self._folder / SNAPSHOTS):
            self._write_snapshots()
        if self._transformed is not None:
            self._transformed.write()
        (length, checksum), has_shots = self._bad_until, any(snapshots(self._folder))
        return {
            "files": {STEPS: self._steps.length, QUARANTINE: length, SNAPSHOTS: int(has_shots)},
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
        self._parts: list[tuple[int, Places, Floats, Labels]] = []
        self._n_cells = 0

    def add(self, batch: Batch, step: Step) -> bool:
        """Keep the rows of a batch; whether there are so many that they should be written."""
        at = selected = step.selected
        if batch.names is not None:
            places = Names(batch.names).places(self._names[place] for place in selected.tolist())
            selected, at = selected[places >= 0], places[places >= 0]
        some = batch.X[:, at]
        rows = some if isinstance(some, np.ndarray) else some.toarray()
        self._parts.append((step.position.rows - batch.n_rows, selected, rows, batch.y))
        self._n_cells += rows.size
        return self._n_cells > _MOST_CELLS

    def write(self) -> None:
        """Write what was kept to a file of its own."""
        if not self._parts:
            return
        import polars as pl

        frames = []
        for first, selected, rows, y in self._parts:
            columns = {"row": pl.Series(np.arange(first, first + len(y)), dtype=pl.Int64)}
            columns[self._target] = pl.Series(y.tolist() if y.dtype.kind == "U" else y)
            columns |= {
                self._names[j]: pl.Series(rows[:, i]).fill_nan(None)
                for i, j in enumerate(selected.tolist())
            }
            frames.append(pl.DataFrame(columns))
        start = self._parts[0][0]
        files.make_folder(self._folder)
        path, content = self._folder / f"part-{start:012d}.parquet", io.BytesIO()
        pl.concat(frames, how="diagonal").write_parquet(content)
        with files.naming(path):
            files.replace_file(path, content.getvalue())
        self._parts, self._n_cells = [], 0

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

    def begin(self, *_: object) -> None:
        """A batch is at hand."""
        self._began = time.perf_counter()

    def end(self) -> float | None:
        """Its step is done."""
        if self._began is None:
            return None
        seconds, self._began = time.perf_counter() - self._began, None
        self.add(seconds)
        return seconds

    def add(self, seconds: float | Floats) -> None:
        """Count a batch in, or many at once."""
        within = np.clip(np.atleast_1d(seconds), _LEAST, _MAX)
        buckets = np.floor(np.log(within / _LEAST) / math.log(_GROWTH))
        self._counts.update(buckets.astype(np.int64).tolist())
        self._max = max(self._max, float(np.max(seconds, initial=0.0)))

    def quantile(self, share: float) -> float:
        """The time that this share of the batches did not exceed, to 1 %."""
        left = math.ceil(share * self._counts.total())
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
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

_MOST_PENDING, _MOST_UNSAFE, _MOST_KEPT = 1 << 18, 1 << 22, 1 << 26
# So long a line waits at most for others, before those who watch the file can see it.
_MOST_SECONDS = 0.05
# Seconds until a full disk is tried again.
_LATER = 1.0


class AppendedFile:
    """A file that grows by whole lines, and is made with the first of them.

    What has not surely reached the disk is kept. Once that has failed, nobody knows what is there:
    then the file is opened anew, cut back, and what was kept is written again.
    """

    def __init__(self, path: Path, length: int) -> None:
        self.path, self.length = path, length
        self._kept: list[bytes] = []  # all lines behind those that are safe
        self._n_written = 0  # of those that are kept
        self._written = self._safe = length
        self._since = time.monotonic()
        self._file: int | None = None
        if path.exists() and path.stat().st_size > length:
            with files.naming(path):
                files.truncate(path, length)

    def append(self, line: bytes) -> None:
        """Take a line, to be written later."""
        self._kept.append(line)
        self.length += len(line)

    def show(self) -> None:
        """Let others see all lines, if that can be done now: else they are kept, 64 MB at most."""
        unsafe = self.length - self._safe
        try:
            self.flush(sync=unsafe > _MOST_UNSAFE)
        except OSError as error:
            if not files.is_transient(error) or unsafe > _MOST_KEPT:
                raise
            self._since = time.monotonic() + _LATER

    def flush(self, *, sync: bool = False) -> None:
        """Let others see all lines."""
        if not self._kept:
            return
        with files.naming(self.path):
            try:
                if self._file is None:
                    self._file = files.open_to_append(self.path)
                    if os.fstat(self._file).st_size > self._written:
                        files.truncate(self._file, self._written)
                files.write(self._file, b"".join(self._kept[self._n_written :]))
            except OSError:
                with suppress(OSError):  # no half a line, if that can be helped
                    files.truncate(self.path, self._written)
                self._let_go()
                raise
            self._n_written, self._written = len(self._kept), self.length
            if sync:
                try:
                    files.sync(self._file)
                except OSError:
                    self._let_go()
                    self._n_written, self._written = 0, self._safe
                    raise
                self._kept, self._n_written, self._safe = [], 0, self.length
        self._since = time.monotonic()

    def close(self) -> None:
        """Write what is left, and close the file."""
        try:
            self.flush()
        finally:
            self._let_go()

    def _let_go(self) -> None:
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

    def __init__(
        self,
        path: Path,
        length: int = 0,
        checksum: int | None = None,
        accept_loss: int | None = None,
    ) -> None:
        self.path, self.length, self.checksum, self.lost = path, 0, 0, ""
        with files.naming(path):
            if length == 0:
                files.remove(path)
            elif path.exists():
                self._look(length)
            if self.length < length:
                self.lost = f"has {self.length:,} bytes, and had {length:,} when the run was saved"
            elif checksum not in (None, self.checksum):
                self.lost = f"is not what it was when the run was saved, in its {length:,} bytes"
            if self.lost and accept_loss is None:
                hint = "--resume with --accept-loss goes on with what is left of it"
                raise InputError(f"{path} {self.lost}", hint=hint)
            if self.lost and self.length:
                kept = path.read_bytes()[:length].splitlines(keepends=True)
                whole = b"".join(line for line in kept if _is_of(line, accept_loss))
                files.replace_file(path, whole)
                self._look(length)
        super().__init__(path, self.length)

    def _look(self, length: int) -> None:
        """How much there is, up to a length, and its checksum."""
        self.length = self.checksum = 0
        with open_saved(self.path) as file:
            while data := file.read(min(length - self.length, _MOST_PENDING)):
                self.length += len(data)
                self.checksum = crc32(data, self.checksum)

    def write(self, row: Mapping[str, Json]) -> None:
        """Append an object. It reaches the file soon, if more are written."""
        text = json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n"
        line = text.encode(errors="backslashreplace")  # of a file's name, say
        self.append(line)
        self.checksum = crc32(line, self.checksum)
        waits, age = self.length - self._written, time.monotonic() - self._since
        if age > _MOST_SECONDS or (age > 0.0 and waits > _MOST_PENDING):
            self.show()


def _is_of(line: bytes, n_batches: int | None) -> bool:
    """Whether a line is whole, and not of a later batch."""
    try:
        row = json.loads(line)
        return line.endswith(b"\n") and (n_batches is None or row.get("index", -1) < n_batches)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False
