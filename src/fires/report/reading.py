"""Records as they come: lines that another process appends to, read block by block into arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from polars._typing import PolarsDataType

from fires.core.errors import InputError
from fires.core.files import damaged, open_saved
from fires.core.types import Header

SELECTED = "selected"
"""Whose scores are those of the pipeline, beside the baselines."""

SCORES = ("accuracy", "r2", "mae")
"""Scores that are read of each batch: the first is shown over time. If there is none of them, it is
the first that there is."""

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


def read_block(follower: Follower, block: bytes) -> tuple[pl.DataFrame, list[str]]:
    """Some lines of ``steps.jsonl`` as a frame, and the names of all their scores."""
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
    return follower.parsed(block, schema, "rows"), list(scores)


def n_places(frame: pl.DataFrame) -> int:
    """How many features there must be for records to name those that they do."""
    of_alarms = frame["alarms"].explode().struct.field("feature")
    named = [*(frame[name].explode() for name in ("selected", "came")), of_alarms]
    places = pl.concat([of.alias("place") for of in named]).drop_nulls().to_numpy()
    if places.min(initial=0) < 0:
        raise ValueError("there is no feature of a negative number")
    return 1 + int(places.max(initial=-1))


class BadRows:
    """Why rows could not be used, from ``quarantine.ndjson``."""

    _SCHEMA: ClassVar = {"line": pl.Int64, "reason": pl.String, "raw": pl.String}

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path)
        self._forget()

    def _forget(self) -> None:
        self.count, self._reasons = 0, pl.DataFrame(schema=self._SCHEMA | {"count": pl.Int64})

    def refresh(self) -> bool:
        """Read the rows that have come since."""
        is_other = self._follower.is_other()
        if is_other:
            self._follower.forget()
            self._forget()
        before = self.count
        for block in self._follower.blocks():
            frame = self._follower.parsed(block, self._SCHEMA, "reason")
            self.count += len(frame)
            some = frame.with_columns(pl.col("raw").str.slice(0, _RAW), count=pl.lit(1, pl.Int64))
            reasons = pl.concat([self._reasons, some]).group_by("reason", maintain_order=True)
            # The memory of a reader has an end.
            self._reasons = (
                reasons.agg(pl.first("line"), pl.first("raw"), pl.sum("count"))
                .head(_REASONS_KEPT)
                .select(self._reasons.columns)
            )
        return is_other or self.count > before

    def as_dict(self) -> Header:
        """What is known of them."""
        commonest = self._reasons.sort("count", descending=True, maintain_order=True)
        return {"count": self.count, "reasons": commonest.head(_MOST_REASONS).to_dicts()}
