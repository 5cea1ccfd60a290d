"""How a run is doing: its speed, and the rows that could not be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.report.following import Follower

if TYPE_CHECKING:
    from fires.core.types import Header


_MOST_REASONS, _KEPT = 20, 1_000
_RAW = 200


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
                pl.len().alias("count"),
                pl.first("line"),
                pl.first("raw").str.slice(0, _RAW),
            )
            for row in some.iter_rows(named=True):
                self._add(row)
        return is_other or self.count > before

    def _add(self, row: dict[str, Any]) -> None:
        if row["reason"] in self._reasons:
            self._reasons[row["reason"]]["count"] += row["count"]
        elif len(self._reasons) < _KEPT:  # the memory of a reader has an end
            self._reasons[row["reason"]] = row

    def as_dict(self) -> Header:
        """What is known of them."""
        commonest = sorted(self._reasons.values(), key=lambda row: -row["count"])[:_MOST_REASONS]
        return {"count": self.count, "reasons": [dict(row) for row in commonest]}
