"""Records as they come: lines that another process appends to, read block by block into arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fires.core.errors import InputError
from fires.core.files import damaged, open_saved
from fires.core.types import Floats, Header, Ints

if TYPE_CHECKING:
    import polars as pl

SELECTED = "selected"
"""Whose scores are those of the pipeline, beside the baselines."""

SCORES = ("accuracy", "r2", "mae")
"""Scores that are read of each batch: the first is shown over time. If there is none of them, it is
the first that there is."""

_BLOCK = 1 << 20  # larger ones take more memory, and hardly less time
_REMEMBERED = 256
_MOST_REASONS, _REASONS_KEPT, _RAW = 20, 1_000, 200


class Follower:
    r"""Reads the lines of a file that have come since it was read last.

    A last line that is not whole is left for later. It notices if the lines that it has read are
    not there any more: a run that is taken up again cuts its files back and writes other lines.
    """

    def __init__(self, path: Path, block: int = _BLOCK) -> None:
        self.path, self._size = path, block
        self.forget()

    def forget(self) -> None:
        """Begin with the first line again."""
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
        import polars as pl

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


def well_formed(text: str) -> str:
    r"""Text that can be written as UTF-8: a file name, say, may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()


class Known(NamedTuple):
    """Importances that were written down with some of the batches."""

    batches: Ints
    places: Ints
    importance: Floats
    uncertainty: Floats


class StepBlock:
    """Records that follow each other, as arrays.

    ``changed`` are the batches after which another set was selected, counted from the first of the
    block, and ``came`` the features that came with each; ``starts`` are these and the first batch,
    and ``sets`` what is selected after each of them.
    """

    def __init__(
        self, frame: pl.DataFrame, who: Iterable[str] = (), score_names: Iterable[str] = ()
    ) -> None:
        self.n_batches, self.last = len(frame), int(frame["index"][-1])
        self.who, self.score_names = tuple(who), tuple(score_names)
        self.rows: Ints = frame["rows"].to_numpy()
        self.n_rows = frame["n_rows"].to_numpy().astype(np.float64)
        self.stability = frame["stability"].to_numpy()  # NaN for null, here and below
        self.seconds = frame["seconds_select"].to_numpy() + frame["seconds_train"].to_numpy()
        self.n_waited = int(frame["waited"].sum())
        self.n_present = frame["present"].to_numpy().astype(np.float64)
        missing = frame["missing"].drop_nulls()
        self.n_missing = int(missing[-1]) if len(missing) else None
        self.scores = dict(_scores(frame))
        self.changed: Ints = np.flatnonzero(frame["came"].is_not_null().to_numpy())
        self.starts = np.union1d(0, self.changed)
        self.sets = _arrays(frame["selected"].gather(self.starts))
        self.came = _arrays(frame["came"].gather(self.changed))
        self.known = _known(frame)
        self.alarms = [one for alarms in frame["alarms"].drop_nulls() for one in alarms]
        told = [one["feature"] for one in self.alarms if one["feature"] is not None]
        places = np.concatenate([*self.sets, *self.came, self.known.places, told]).astype(np.int64)
        if places.min(initial=0) < 0:
            raise ValueError("there is no feature of a negative number")
        self.n_places = 1 + int(places.max(initial=-1))


def read_block(follower: Follower, block: bytes) -> StepBlock:
    """Read some lines of ``steps.jsonl``."""
    import polars as pl

    places, numbers = pl.List(pl.Int64), pl.List(pl.Float64)
    alarm = {"row": pl.Int64, "batch": pl.Int64, "feature": pl.Int64, "strength": pl.Float64}
    schema: dict[str, Any] = dict.fromkeys(
        ("index", "rows", "n_rows", "missing", "present"), pl.Int64
    )
    schema |= dict.fromkeys(("stability", "seconds_select", "seconds_train"), pl.Float64)
    schema |= {"waited": pl.Boolean, "selected": places, "came": places}
    schema |= {"importance": numbers, "uncertainty": numbers, "alarms": pl.List(pl.Struct(alarm))}
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
    schema["scores"] = pl.Struct(dict.fromkeys(read, pl.Float64))
    if baselines:
        schema["baselines"] = pl.Struct(dict.fromkeys(baselines, schema["scores"]))
    return StepBlock(follower.parsed(block, schema, "rows"), (SELECTED, *baselines), scores)


def _scores(frame: pl.DataFrame) -> Iterator[tuple[str, Floats]]:
    """Of each one who predicts, and each score that is read: a number for each batch."""
    who = {SELECTED: frame["scores"]}
    if "baselines" in frame.columns:
        baselines = frame["baselines"].struct
        who |= {name: baselines.field(name) for name in baselines.fields}
    for name, of in who.items():
        for score in of.struct.fields:
            yield f"{name} {score}", of.struct.field(score).to_numpy()


def _known(frame: pl.DataFrame) -> Known:
    """The importances that were written down."""
    is_known = frame["importance"].list.len().fill_null(0) > 0
    names = ("selected", "importance", "uncertainty")
    places, *numbers = (frame[name].filter(is_known) for name in names)
    batches = np.repeat(np.flatnonzero(is_known.to_numpy()), places.list.len().to_numpy())
    return Known(batches, *(of.explode().to_numpy() for of in (places, *numbers)))


def _arrays(lists: pl.Series) -> list[Ints]:
    """Lists as arrays."""
    lengths = lists.list.len().to_numpy()
    flat = lists.filter(lengths > 0).explode().to_numpy().astype(np.int64)
    return np.split(flat, np.cumsum(lengths)[:-1]) if len(lengths) else []


class BadRows:
    """Why rows could not be used, from ``quarantine.ndjson``."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self.count = 0
        self._reasons: dict[str, dict[str, Any]] = {}

    def refresh(self) -> bool:
        """Read the rows that have come since."""
        import polars as pl

        is_other = self._follower.is_other()
        if is_other:
            self._follower.forget()
            self.count, self._reasons = 0, {}
        before = self.count
        schema = {"line": pl.Int64, "reason": pl.String, "raw": pl.String}
        for block in self._follower.blocks():
            frame = self._follower.parsed(block, schema, "reason")
            self.count += len(frame)
            some = frame.group_by("reason", maintain_order=True).agg(
                pl.len().alias("count"), pl.first("line"), pl.first("raw").str.slice(0, _RAW)
            )
            for row in some.iter_rows(named=True):
                known = self._reasons.get(row["reason"])
                if known is not None:
                    known["count"] += row["count"]
                elif len(self._reasons) < _REASONS_KEPT:  # the memory of a reader has an end
                    self._reasons[row["reason"]] = row
        return is_other or self.count > before

    def as_dict(self) -> Header:
        """What is known of them."""
        commonest = sorted(self._reasons.values(), key=lambda row: -row["count"])[:_MOST_REASONS]
        return {"count": self.count, "reasons": [dict(row) for row in commonest]}
