"""The folder of a run: what later reports read."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import IO, Any

import numpy as np

from fires.core.storage import replace_file
from fires.evaluation.records import Step
from fires.evaluation.tally import Tally


class RunFolder:
    """Writes ``steps.jsonl`` while a run goes on, and the rest when it ends.

    - ``steps.jsonl``: one record per batch, a line each, written as they come.
    - ``features.csv``: every feature with its rank, weight, importance, uncertainty, whether it
      is selected, and the share of batches in which it was.
    - ``state.safetensors``: the selector, for :func:`fires.load`.
    - ``run.json``: settings, versions, counts and timings.

    The last three are written beside and moved into place: each is whole or as it was before.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._steps: IO[str] = (path / "steps.jsonl").open("w", encoding="utf-8")

    def record(self, step: Step) -> None:
        """Keep one record."""
        self._steps.write(json.dumps(step.as_row(), allow_nan=False) + "\n")

    def finish(
        self, selector: Any, names: tuple[str, ...], tally: Tally, run: dict[str, Any]
    ) -> None:
        """Write what is known at the end, however the run ended."""
        self._steps.close()
        rows = feature_rows(selector, names, tally)
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        replace_file(self.path / "features.csv", text.getvalue().encode())
        selector.save(self.path / "state.safetensors")
        document = json.dumps(run | tally.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        replace_file(self.path / "run.json", (document + "\n").encode())

    def close(self) -> None:
        """Let go of the file of records."""
        self._steps.close()


def feature_rows(selector: Any, names: tuple[str, ...], tally: Tally) -> list[dict[str, Any]]:
    """Every feature, best first, as plain values."""
    support, share = selector.get_support(), tally.share_selected
    return [
        {
            "rank": rank,
            "feature": names[column],
            "weight": float(selector.weights_[column]),
            "importance": float(selector.importances_[column]),
            "uncertainty": float(selector.uncertainties_[column]),
            "selected": bool(support[column]),
            "share_selected": float(share[column]),
        }
        for rank, column in enumerate(np.argsort(selector.ranking_).tolist(), start=1)
    ]
