"""What a run says of itself: its settings, whether it goes on, and how long it has taken."""

from __future__ import annotations

import math
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fires.core.errors import InputError
from fires.core.files import damaged
from fires.report.rounding import rounded
from fires.run.locking import is_held
from fires.run.records import STEPS
from fires.run.saved import SavedRun


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
    def settings(self) -> dict[str, Any]:
        """The options of the run."""
        settings: dict[str, Any] = self.known["settings"]
        return settings

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
        height, times, width = str(self.settings.get("shape") or "").partition("x")
        with damaged(self._folder / "run.json"):
            return [int(height), int(width)] if times else None

    def as_dict(self, n_batches: int, score_names: Collection[str]) -> dict[str, Any]:
        """What the page tells of the run itself."""
        known, settings = self.known, self.settings
        classes, model = known.get("classes"), settings.get("model")
        kind = None
        if classes is not None or score_names:
            kind = "numbers" if classes is None and "r2" in score_names else "classes"
        return {
            "id": known.get("id"),
            "status": self._status(n_batches),
            "reason": known.get("ended_early"),
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
