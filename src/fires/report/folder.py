"""What the folder of a run holds beside its records: facts, snapshots of features, the result."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from fires.core.belief import rank
from fires.core.errors import InputError
from fires.core.files import damaged, fits, open_saved
from fires.core.output import frame_as_written
from fires.core.types import Floats, Labels, Mask
from fires.report.records import rounded, well_formed
from fires.run.locking import is_held
from fires.run.records import STEPS, read_snapshot, snapshots
from fires.run.relations import RELATIONS
from fires.run.saved import SavedRun

_NUMBERS = ("rank", "importance", "uncertainty")
_NOT_READ = ("weight", "high", "share_selected", "example", "done")


class Facts:
    """``run.json`` as it is now, and whether somebody writes to the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.is_gone = folder, False
        self.known = SavedRun(folder).facts
        self._is_held = not self.has_ended and is_held(folder)
        self.updated = self._last_record()

    def refresh(self) -> bool:
        """Read it again."""
        before = self.known, self._is_held, self.updated, self.is_gone
        # Twice: a run may end after its facts are read and before the lock is looked at.
        for _ in range(2):
            try:
                self.known = SavedRun(self._folder).facts
            except InputError:
                self.is_gone = not (self._folder / "run.json").exists()
                break
            self.is_gone = False
            self._is_held = not self.has_ended and is_held(self._folder)
            if self._is_held or self.has_ended:
                break
        self.updated = self.updated if self.is_gone else self._last_record()
        return before != (self.known, self._is_held, self.updated, self.is_gone)

    def _last_record(self) -> datetime | None:
        try:
            written = (self._folder / STEPS).stat().st_mtime
        except FileNotFoundError:
            return None
        return datetime.fromtimestamp(written, UTC).replace(microsecond=0)

    @property
    def has_ended(self) -> bool:
        """Whether it has come to an end of its own."""
        return self.known.get("status") != "running"

    @property
    def seconds(self) -> float:
        """How long it has taken, up to its last record; NaN if that is not known."""
        if "seconds" in self.known:
            return float(self.known["seconds"])
        try:
            started = datetime.fromisoformat(self.known["started"])
            return math.nan if self.updated is None else (self.updated - started).total_seconds()
        except (KeyError, TypeError, ValueError):
            return math.nan

    @property
    def shape(self) -> list[int] | None:
        """Height and width of the picture that the features are, if ``--shape`` says so."""
        height, times, width = str(self.known["settings"].get("shape") or "").partition("x")
        with damaged(self._folder / "run.json"):
            return [int(height), int(width)] if times else None

    def as_dict(self, n_batches: int, score_names: Collection[str]) -> dict[str, Any]:
        """What the page tells of the run itself."""
        known, settings = self.known, self.known["settings"]
        classes, model = known.get("classes"), settings.get("model")
        kind = None
        if classes is not None or score_names:
            kind = "numbers" if classes is None and "r2" in score_names else "classes"
        return {
            "id": known.get("id"),
            "status": self._status(n_batches),
            "reason": known.get("ended_early"),
            "why": known.get("why"),
            "started": known.get("started"),
            "updated": None if self.updated is None else self.updated.isoformat(),
            "seconds": rounded(self.seconds),
            "target": settings.get("target") or (known.get("target") or [None])[0],
            "kind": kind,
            "classes": None if classes is None else list(map(str, classes)),
            "model": known.get("model") or (None if model == "auto" else model),
            "sources": list(settings.get("file") or ()),
            "fires": known.get("fires"),
            "versions": known.get("versions") or {},
            "settings": settings,
        }

    def _status(self, n_batches: int) -> str:
        if self.is_gone:
            return "gone"
        if self.has_ended:
            return str(self.known.get("status"))
        if not self._is_held:
            return "killed"
        return "running" if n_batches else "waiting"


# --- snapshots -----------------------------------------------------------------------------------


class Snapshot:
    """All features after a batch, or the first by rank."""

    def __init__(self, path: Path) -> None:
        facts, arrays = read_snapshot(path)
        if len(shapes := {array.shape for array in arrays.values()}) > 1 or len(*shapes) != 1:
            raise ValueError("its arrays are of several lengths")
        self.path, self.index, self.rows = path, int(facts["index"]), int(facts["rows"])
        self.relations: dict[str, Any] = facts.get("relations") or {}
        if self.relations and not fits(self.relations, RELATIONS):
            raise ValueError("its relations are of another form")
        self.places = arrays["features"].astype(np.int32)
        self.importance = arrays["importance"].astype(np.float32)
        self.uncertainty = arrays["uncertainty"].astype(np.float32)
        self.significant = arrays.get("significant")  # None as of earlier versions
        # Of the last rows of each feature, where they are told.
        moments = [arrays[name] for name in ("mean", "deviation") if name in arrays]
        self.moments = np.array(moments, dtype=np.float64)
        # An earlier version has not written down the rank.
        of_it = arrays["rank"] if "rank" in arrays else rank(np.abs(self.importance))
        self.rank = of_it.astype(np.int32)


class Snapshots:
    """The snapshots of a run; each is read once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[int, Snapshot] = {}

    def refresh(self) -> bool:
        """Read those that are new, and forget those that are not there any more."""
        present = dict(snapshots(self._folder))
        changed = present.keys() != self._read.keys()
        self._read = {index: one for index, one in self._read.items() if index in present}
        for index, path in present.items():
            if index not in self._read:
                try:
                    with damaged(path):
                        self._read[index] = Snapshot(path)
                except FileNotFoundError:  # the run has just removed it
                    continue
        return changed

    def until(self, n_batches: int, n_features: int) -> list[Snapshot]:
        """Those of the first batches, in order: a snapshot may be there before its record is."""
        found = [self._read[index] for index in sorted(self._read) if index < n_batches]
        for shot in found:
            if len(shot.places) and not 0 <= shot.places.min() <= shot.places.max() < n_features:
                raise InputError(f"{shot.path} is damaged: there are {n_features:,} features")
        return found


# --- the result ----------------------------------------------------------------------------------


@dataclass
class Result:
    """What a run says about its features and columns when it has ended, as far as it is there."""

    # As the user counts them: a column of several features is one.
    counts: dict[str, int | None] = field(default_factory=dict)
    numbers: dict[str, Floats] = field(default_factory=dict)
    above_noise: Mask | None = None
    classes: Labels | None = None
    of_columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: Sequence[str] = ()  # of each feature, the column, and what its group is called
    titles: Sequence[str] = ()
    groups: dict[str, list[int]] = field(default_factory=dict)


def read_result(folder: Path, names: Sequence[str], titles: Mapping[str, str]) -> Result:
    """Read ``features.csv`` and ``columns.csv``; titles are of columns in groups."""
    result = Result(columns=names)
    columns, features = folder / "columns.csv", folder / "features.csv"
    if columns.exists():
        with damaged(columns):
            used = _table(columns, ["missing"]).filter(pl.col("kind") != "left out")
            used_names = [well_formed(title) for title in used["name"]]
            for name in ("kind", "missing"):
                result.of_columns[name] = dict(zip(used_names, used[name], strict=True))
            if len(used_names) < len(names):
                result.columns = _columns_of(names, used_names) or names
    result.titles = [titles.get(column, column) for column in result.columns]
    counts = Counter(result.titles)
    for place, title in enumerate(result.titles):
        if counts[title] > 1:
            result.groups.setdefault(title, []).append(place)
    if features.exists():
        with damaged(features):
            _add_features(result, _table(features, [*_NUMBERS, "low"]))
    return result


def _add_features(result: Result, table: pl.DataFrame) -> None:
    n_selected = int((table["selected"] == "True").sum())
    result.counts = {"features": len(table), "selected": n_selected}
    result.counts |= {"above_noise": None, "significant_selected": None}
    columns = pl.DataFrame({"feature": result.titles}, schema={"feature": pl.String})
    rows = columns.join(table, on="feature", how="left", maintain_order="left")
    if len(rows) != len(columns):  # names are not told apart: no run writes that
        return
    if (table["above_noise"] != "").any():
        both = table.select(pl.all_horizontal(pl.col("above_noise", "selected") == "True"))
        result.counts["above_noise"] = int((table["above_noise"] == "True").sum())
        result.counts["significant_selected"] = int(both.sum().item())
        result.above_noise = (rows["above_noise"] == "True").fill_null(False).to_numpy()
    if "class" in table.columns:
        result.classes = rows["class"].to_numpy()
    if not rows["selected"].has_nulls():  # or these are other features
        numbers = [*_NUMBERS, "low"] if "relation" in table.columns else _NUMBERS
        result.numbers = {name: rows[name].to_numpy(writable=True) for name in numbers}
        together = [place for places in result.groups.values() for place in places]
        for name in result.numbers.keys() - {"rank"}:
            result.numbers[name][together] = np.nan
        # Features of a column have its weight, and ties go to the lower index. Those that were
        # forgotten have no rank.
        ranks = result.numbers["rank"]
        order = np.argsort(ranks, kind="stable")[: np.count_nonzero(~np.isnan(ranks))]
        ranks[order] = np.arange(1.0, len(order) + 1.0)


def _columns_of(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The column of each feature: those of a column follow each other, with its name first."""
    found: list[str] = []
    left = list(columns[::-1])
    for name in names:
        if left and (name == left[-1] or name.startswith(f"{left[-1]} (")):
            found.append(left.pop())
        elif found and name.startswith(f"{found[-1]} ("):
            found.append(found[-1])
        else:
            return []  # other columns than these
    return found


def _table(path: Path, numbers: Sequence[str] = ()) -> pl.DataFrame:
    """A CSV file: all text, but for the columns of numbers."""
    with open_saved(path) as file:
        data = file.read()
    kept = [title for title in pl.read_csv(data, n_rows=0).columns if title not in _NOT_READ]
    types = {title: pl.Float64 if title in numbers else pl.String for title in kept}
    table = pl.read_csv(data, columns=kept, schema_overrides=types)
    return frame_as_written(table.with_columns(pl.col(pl.String).fill_null("")))
