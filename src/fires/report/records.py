"""What the records of a run add up to: read as they come, in memory that does not grow.

Series and members are kept in few spans of batches, whatever their number: whenever there are too
many spans, each two that follow each other become one.
"""

from __future__ import annotations

import json
import math
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
import polars.selectors as cs
from polars._typing import PolarsDataType

from fires.core.belief import rank
from fires.core.errors import InputError
from fires.core.files import damaged, fits, open_saved
from fires.core.output import frame_as_written
from fires.core.types import Floats, Header, Ints, Labels, Mask
from fires.metrics.stability import stability_interval
from fires.run.locking import is_held
from fires.run.records import STEPS, Latencies, read_snapshot, snapshots
from fires.run.relations import RELATIONS
from fires.run.saved import SavedRun

N_SPANS, N_MEMBER_SPANS = 256, 200
_MOST_FEATURES = 2_000  # of a span
_MOST_ALARMS = 200
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows
_WINDOW = 10  # of the last sets that a stability is of
# The stability at the end of each span, and the ends of its 95 % interval.
INTERVAL = ("last stability", "last low", "last high")
_WAYS = {"sum": pl.Expr.sum, "min": pl.Expr.min, "max": pl.Expr.max, "last": pl.Expr.last}
_OF_MEMBERS = ("last rows", "sum times", "sum importance", "sum known")


class Spans:
    """Batches in few spans of equal width, a power of two; the last one may have fewer.

    ``batch`` is the first of a span. The name of any other column begins with what makes one number
    of several: sum, min, max or last.
    """

    def __init__(self, most: int, columns: Sequence[str] = (), by: Sequence[str] = ()) -> None:
        self._most, self._by, self.width = most, by, 1
        self.frame = pl.DataFrame(schema=dict.fromkeys(("batch", *by, *columns), pl.Int64))

    def reserve(self, n_batches: int) -> None:
        """Have room for so many batches in all."""
        if n_batches > self.width * self._most:
            while n_batches > self.width * self._most:
                self.width *= 2
            self.frame = self._joined(self.frame)

    def add(self, frame: pl.DataFrame) -> None:
        """Add the next batches."""
        begin = int(frame["batch"][0]) // self.width * self.width
        done, last = (
            self.frame.filter((pl.col("batch") < begin) == is_done) for is_done in (True, False)
        )
        added = self._joined(pl.concat([last, frame], how="diagonal_relaxed"))
        self.frame = pl.concat([done, added], how="diagonal_relaxed")

    def _joined(self, frame: pl.DataFrame) -> pl.DataFrame:
        begin = pl.col("batch") // self.width * self.width
        found = frame.group_by(begin, *self._by, maintain_order=True).agg(
            way(cs.starts_with(f"{name} ").as_expr()) for name, way in _WAYS.items()
        )
        if self._by and len(found) > _MOST_FEATURES:
            rank = pl.col("sum times").rank("ordinal", descending=True).over("batch")
            found = found.filter(pl.col("place").is_null() | (rank <= _MOST_FEATURES))
        return found

    def column(self, name: str) -> Floats:
        """A column, with NaN where there is nothing."""
        column = self.frame.get_column(name, default=None)
        found = np.nan if column is None else column.cast(pl.Float64).to_numpy()
        return np.full(len(self.frame), found)

    @property
    def rows(self) -> list[int]:
        """The rows up to the end of each span."""
        return list(map(int, self.column("last rows")))

    def extent(self, name: str) -> Floats:
        """Mean, least and greatest value of a series in each span; NaN where there is none."""
        total, n, low, high = (self.column(f"{of} {name}") for of in ("sum", "sum n", "min", "max"))
        with np.errstate(invalid="ignore"):
            return np.array([total / n, low, high])

    def total(self, name: str) -> float:
        """The mean of a series over all batches; NaN if there is none."""
        total, n = (np.nansum(self.column(f"{of} {name}")) for of in ("sum", "sum n"))
        return float(total / n) if n else np.nan


class Records:
    """What is known of all batches so far."""

    def __init__(self, n_features: int) -> None:
        self.n_batches = self.n_rows = self.n_waited = self.n_missing = 0
        self.n_alarms = self.n_changes = self._n_read = 0
        self.score_names: dict[str, None] = {}
        self.who: dict[str, None] = {}
        self.series, self.members = Spans(N_SPANS), Spans(N_MEMBER_SPANS, _OF_MEMBERS, ["place"])
        # Of each feature: in how many sets it was, since which row, and how many alarms it raised.
        self.times, self.since, self.alarms_of = np.zeros((3, n_features), dtype=np.int64)
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_MOST_ALARMS)
        self.latencies = Latencies()
        # The last batch whose importances were written down, and these.
        self.known: tuple[int, Ints, Floats, Floats] | None = None
        self._recent: list[tuple[int, Ints]] = []  # the last ten sets, with the batch they came in

    @property
    def selected(self) -> Ints:
        """The features that are selected now."""
        return self._recent[-1][1] if self._recent else np.empty(0, dtype=np.int64)

    def total(self, who: str, score: str) -> float:
        """The mean over all rows, of scores for which that is exact; NaN for others."""
        return self.series.total(f"{who} {score}") if score in _MEANS else np.nan

    def shares(self, places: Ints) -> tuple[list[int], Floats, Floats]:
        """The rows of spans; of some features, the share of each span and the mean importance."""
        frame, place = self.members.frame, pl.col("place")
        spans, some = frame.filter(place.is_null()), frame.filter(place.is_in(places.tolist()))
        begins, order = spans["batch"].to_numpy(), np.argsort(places)
        lines = order[np.searchsorted(places, some["place"].to_numpy(), sorter=order)]
        found = np.zeros((3, len(places), len(spans)))
        sums = some.select(cs.starts_with("sum ")).to_numpy()
        found[:, lines, np.searchsorted(begins, some["batch"].to_numpy())] = sums.T
        share = found[0] / np.diff(np.append(begins, self._n_read))
        with np.errstate(invalid="ignore"):
            return spans["last rows"].to_list(), share, found[1] / found[2]

    def grow(self, n_features: int) -> None:
        """Have room for more features: where columns come and go, there will be more."""
        more = (0, max(n_features - len(self.times), 0))
        self.times, self.since, self.alarms_of = (
            np.pad(of, more) for of in (self.times, self.since, self.alarms_of)
        )

    def add(self, frame: pl.DataFrame, score_names: Collection[str]) -> None:
        """Add the next batches, as :func:`fires.report.records.read_block` gives them."""
        first, end = self._n_read, self._n_read + len(frame)
        frame = frame.with_columns(batch=pl.int_range(first, end, dtype=pl.Int64))
        last, rows = int(frame["index"][-1]), int(frame["rows"][-1])
        for spans in (self.series, self.members):
            spans.reserve(end)
        self._add_members(frame, first, end)
        # Nothing has changed up to here if they are damaged.
        self.n_batches, self.n_rows = last + 1, rows  # also of those whose records are lost
        self._n_read = end
        self.n_waited += int(frame["waited"].sum())
        self.n_missing = [self.n_missing, *frame["missing"].drop_nulls()][-1]
        self.score_names |= dict.fromkeys(score_names)
        self.latencies.add((frame["seconds_select"] + frame["seconds_train"]).to_numpy())
        alarms = [one for alarms in frame["alarms"].drop_nulls() for one in alarms]
        self.n_alarms += len(alarms)
        self.alarms += alarms
        told = [alarm["feature"] for alarm in alarms if alarm["feature"] is not None]
        np.add.at(self.alarms_of, np.array(told, dtype=np.int64), 1)
        self._add_series(frame, self._add_stays(frame, first))

    def _add_members(self, frame: pl.DataFrame, first: int, end: int) -> None:
        """Who was selected for how long, and the importances that were written down."""
        batch, changed = pl.col("batch"), pl.col("came").is_not_null()
        sets = frame.filter(changed | (batch % self.members.width == 0) | (batch == first))
        lasts = np.diff(np.append(sets["batch"].to_numpy(), end))
        sets = sets.select(batch, pl.col("selected").alias("place"), pl.Series("sum times", lasts))
        sets = sets.explode("place")
        importance = pl.col("importance")
        known = frame.filter(importance.list.len() > 0)
        names = ("selected", "importance", "uncertainty")
        each = known.select(batch, *names).explode(names)
        np.add.at(self.times, sets["place"].to_numpy(), sets["sum times"].to_numpy())
        if len(known):
            last = each.filter(batch == known["batch"][-1])
            numbers = last["importance"].to_numpy(), last["uncertainty"].to_numpy()
            self.known = int(known["index"][-1]), last["selected"].to_numpy(), *numbers
        sums = importance.alias("sum importance"), importance.is_not_null().alias("sum known")
        each = each.select(batch, pl.col("selected").alias("place"), *sums)
        rows = frame.select(batch, pl.col("rows").alias("last rows"))
        self.members.add(pl.concat([rows, sets, each], how="diagonal"))

    def _add_stays(self, frame: pl.DataFrame, first: int) -> Floats:
        """The sets that were selected; gives the stability at the end of each span."""
        came = frame.select("rows", "came").drop_nulls().explode("came").drop_nulls()
        self.since[came["came"].to_numpy()] = came["rows"].to_numpy()
        is_new = pl.col("came").is_not_null() | (pl.col("batch") == 0)
        new = frame.filter(is_new).select("batch", "selected")
        self.n_changes += int((new["batch"] > 0).sum())
        self._recent += [(batch, np.array(set_, dtype=np.int64)) for batch, set_ in new.iter_rows()]
        # Where columns come and go, each record tells how many there were.
        n_features = frame["present"].fill_null(len(self.times)).to_numpy()
        ends = np.arange(first + 1, self._n_read + 1)
        begins = np.array([batch for batch, _ in self._recent])
        intervals = np.full((len(frame), 3), np.nan)
        for end in ends[(ends % self.series.width == 0) | (ends == self._n_read)].tolist():
            window = np.searchsorted(begins, np.arange(max(end - _WINDOW, 0), end), "right") - 1
            sets = [self._recent[at][1] for at in window.tolist()]
            intervals[end - first - 1] = _interval(sets, int(n_features[end - first - 1]))
        old = int(np.sum(begins <= self._n_read - _WINDOW))
        del self._recent[: max(old - 1, 0)]
        return intervals

    def _add_series(self, frame: pl.DataFrame, intervals: Floats) -> None:
        """Scores, stability and seconds of each batch."""
        scores = {SELECTED: pl.col("scores")}
        if "baselines" in frame.columns:
            others = frame["baselines"].struct.fields
            scores |= {who: pl.col("baselines").struct.field(who) for who in others}
        self.who |= dict.fromkeys(scores)
        series = {
            f"{who} {score}": (of.struct.field(score), pl.col("n_rows"))
            for who, of in scores.items()
            for score in frame["scores"].struct.fields
        }
        seconds = pl.col("seconds_select") + pl.col("seconds_train")
        series |= {"stability": (pl.col("stability"), pl.lit(1)), "seconds": (seconds, pl.lit(1))}
        columns = [
            pl.col("batch"),
            pl.col("rows").alias("last rows"),
            *map(pl.Series, INTERVAL, intervals.T),
        ]
        for name, (value, weight) in series.items():
            columns += [
                (value * weight).alias(f"sum {name}"),
                (value.is_not_null() * weight).alias(f"sum n {name}"),
                value.alias(f"min {name}"),
                value.alias(f"max {name}"),
            ]
        self.series.add(frame.select(columns))


def _interval(sets: Sequence[Ints], n_features: int) -> tuple[float, float, float]:
    """The stability of some sets, and the ends of its 95 % interval."""
    is_one = len(sets) > 1 and len(set(map(id, sets))) == 1
    if is_one and 0 < len(sets[0]) < n_features:
        return 1.0, 1.0, 1.0  # nearly always, and at no cost
    # Only how many there are beside the selected ones matters, not which.
    each, where = np.unique(np.concatenate(sets), return_inverse=True)
    masks = np.zeros((len(sets), max(n_features, len(each))), dtype=bool)
    masks[np.repeat(np.arange(len(sets)), list(map(len, sets))), where] = True
    value, _, low, high = stability_interval(masks)
    return value, low, high


# --- records as they come: lines that another process appends to ---------------------------------

# Whose scores are those of the pipeline, beside the baselines.
SELECTED = "selected"

# Scores that are read of each batch: the first is shown over time. If there is none of them, it
# is the first that there is.
SCORES = ("accuracy", "r2", "mae")

_BLOCK = 1 << 21  # larger ones take more memory, and hardly less time
_REMEMBERED = 256
_MOST_REASONS, _REASONS_KEPT, _RAW = 20, 1_000, 200


class Follower:
    r"""Reads the lines of a file that have come since it was read last.

    A last line that is not whole is left for later. It notices if the lines that it has read are
    not there any more: a run that is taken up again cuts its files back and writes other lines.
    """

    def __init__(self, path: Path, block: int = _BLOCK) -> None:
        self.path, self._size = path, block
        self._position, self.n_lines = 0, 0
        self._end = b""  # the last bytes read

    def is_other(self) -> bool:
        """Whether what was read is not what the file begins with any more."""
        if not self._position:
            return False
        try:
            with open_saved(self.path) as file:
                file.seek(self._position - len(self._end))
                return file.read(len(self._end)) != self._end
        except FileNotFoundError:
            return True

    def blocks(self) -> Iterator[bytes]:
        """Read on to the end of the file as it is now."""
        try:
            file = open_saved(self.path)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            rest = b""
            while data := file.read(self._size):
                data = rest + data
                end = data.rfind(b"\n") + 1
                block, rest = data[:end], data[end:]
                if block:
                    yield block
                    self._position += end  # not if it turned out to be damaged
                    self._end = block[-_REMEMBERED:]

    def parsed(self, block: bytes, schema: Mapping[str, Any], key: str) -> pl.DataFrame:
        """The objects of a block as a table; each of them must have the key."""
        try:
            # On one core, this takes three quarters of the time that read_ndjson does. No line
            # holds the separator: JSON writes it as six other characters.
            lines = pl.read_csv(
                block, has_header=False, separator="\x01", quote_char=None, infer_schema=False
            ).to_series()
            frame = lines.str.json_decode(pl.Struct(dict(schema))).struct.unnest()
            is_well = frame[key].null_count() == 0
        except pl.exceptions.PolarsError:
            is_well = False
        if not is_well:
            # Text that is not quite Unicode is well for json, or it tells which line is damaged.
            objects = list(self._objects(block, key))
            with damaged(self.path):
                frame = pl.DataFrame(objects, schema=dict(schema), strict=False)
        self.n_lines += len(frame)
        return frame

    def _objects(self, block: bytes, key: str) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(block.split(b"\n")[:-1], self.n_lines + 1):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict) or found.get(key) is None:
                raise InputError(f"{self.path} is damaged in line {number:,}")
            yield {
                name: well_formed(value) if isinstance(value, str) else value
                for name, value in found.items()
            }


def rounded(values: npt.ArrayLike | None, digits: int = 4) -> Any:
    """Numbers with few significant digits, as JSON has them.

    In two steps: so a number half-way between two is shown as the same one if it misses the middle
    by the last bits of a sum, which depend on the order in which numbers were added.
    """
    table = np.asarray(values, dtype=np.float64)  # None is NaN
    short = [
        float(f"{float(f'{value:.12g}'):.{digits}g}") + 0.0 if math.isfinite(value) else None
        for value in table.ravel().tolist()
    ]
    return np.array(short, dtype=object).reshape(table.shape).tolist()


def whole(values: Floats) -> list[int | None]:
    """Whole numbers; None for NaN."""
    return [None if value != value else int(value) for value in values.tolist()]


def well_formed(text: str) -> str:
    r"""Text that can be written as UTF-8: a file name, say, may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()


_PLACES, _NUMBERS = pl.List(pl.Int64), pl.List(pl.Float64)
_ALARM = {"row": pl.Int64, "batch": pl.Int64, "feature": pl.Int64, "strength": pl.Float64}
_STEP: dict[str, PolarsDataType] = {
    **dict.fromkeys(("index", "rows", "n_rows", "missing", "present"), pl.Int64),
    **dict.fromkeys(("stability", "seconds_select", "seconds_train"), pl.Float64),
    **dict.fromkeys(("selected", "came"), _PLACES),
    **dict.fromkeys(("importance", "uncertainty"), _NUMBERS),
    "waited": pl.Boolean,
    "alarms": pl.List(pl.Struct(_ALARM)),
}


def read_block(follower: Follower, block: bytes) -> tuple[pl.DataFrame, list[str], int]:
    """Some lines of ``steps.jsonl``, the names of their scores, and how many features they need."""
    # Which scores and baselines there are differs from run to run, and hardly within one.
    scores: dict[str, None] = {}
    baselines: dict[str, None] = {}
    for line in (block[: block.find(b"\n")], block[block.rfind(b"\n", 0, -1) + 1 :]):
        # The follower tells which line is damaged.
        with suppress(ValueError, LookupError, TypeError, RecursionError):
            record = json.loads(line)
            scores |= dict.fromkeys(record["scores"])
            baselines |= dict.fromkeys(record.get("baselines", ()))
    read = [name for name in SCORES if name in scores] or list(scores)[:1]
    of_one = pl.Struct(dict.fromkeys(read, pl.Float64))
    schema = _STEP | {"scores": of_one}
    if baselines:
        schema["baselines"] = pl.Struct(dict.fromkeys(baselines, of_one))
    frame = follower.parsed(block, schema, "rows")
    of_alarms = frame["alarms"].explode().struct.field("feature")
    named = [*(frame[name].explode() for name in ("selected", "came")), of_alarms]
    places = pl.concat([of.alias("place") for of in named]).drop_nulls().to_numpy()
    if places.min(initial=0) < 0:
        raise ValueError("there is no feature of a negative number")
    return frame, list(scores), 1 + int(places.max(initial=-1))


class BadRows(Follower):
    """Why rows could not be used, from ``quarantine.ndjson``."""

    _SCHEMA: ClassVar = {"line": pl.Int64, "reason": pl.String, "raw": pl.String}

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.count, self._reasons = 0, pl.DataFrame(schema=self._SCHEMA | {"count": pl.Int64})

    def refresh(self) -> bool:
        """Read the rows that have come since."""
        before = self.count
        for block in self.blocks():
            frame = self.parsed(block, self._SCHEMA, "reason")
            self.count += len(frame)
            some = frame.with_columns(pl.col("raw").str.slice(0, _RAW), count=pl.lit(1, pl.Int64))
            reasons = pl.concat([self._reasons, some]).group_by("reason", maintain_order=True)
            # The memory of a reader has an end.
            self._reasons = (
                reasons.agg(pl.first("line"), pl.first("raw"), pl.sum("count"))
                .head(_REASONS_KEPT)
                .select(self._reasons.columns)
            )
        return self.count > before

    def as_dict(self) -> Header:
        """What is known of them."""
        commonest = self._reasons.sort("count", descending=True, maintain_order=True)
        return {"count": self.count, "reasons": commonest.head(_MOST_REASONS).to_dicts()}


# --- what the folder holds beside: facts, snapshots of features, the result ----------------------

_OF_RESULTS = ("rank", "importance", "uncertainty")
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
        plain = {name: known.get(name) for name in ("id", "why", "started", "fires")}
        return plain | {
            "status": self._status(n_batches),
            "reason": known.get("ended_early"),
            "updated": None if self.updated is None else self.updated.isoformat(),
            "seconds": rounded(self.seconds),
            "target": settings.get("target") or (known.get("target") or [None])[0],
            "kind": kind,
            "classes": None if classes is None else list(map(str, classes)),
            "model": known.get("model") or (None if model == "auto" else model),
            "sources": list(settings.get("file") or ()),
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
        shapes = set(map(np.shape, arrays.values()))
        if len(shapes) > 1 or len(*shapes) != 1:
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
        moments = [arrays["mean"], arrays["deviation"]] if "mean" in arrays else []
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
            used_names = used["name"].to_list()
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
            _add_features(result, _table(features, [*_OF_RESULTS, "low"]))
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
        numbers = [*_OF_RESULTS, "low"] if "relation" in table.columns else _OF_RESULTS
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
