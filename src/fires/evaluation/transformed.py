"""The selected columns of the rows of a run, written while it goes on: one file a checkpoint."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fires.core import files
from fires.core.named import Names
from fires.core.types import Floats, Labels, Matrix, Places

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

    @property
    def is_full(self) -> bool:
        """Whether there are so many rows that they should be written."""
        return self._n_cells > _MOST_CELLS

    def add(
        self,
        X: Matrix,
        y: Labels,
        stop: int,
        selected: Places,
        columns: Sequence[str] | None = None,
    ) -> None:
        """Keep the rows of a batch."""
        at = selected
        if columns is not None:
            at = Names(columns).places(self._names[place] for place in selected.tolist())
            selected, at = selected[at >= 0], at[at >= 0]
        some = X[:, at]
        rows = some if isinstance(some, np.ndarray) else some.toarray()
        self._parts.append((stop - len(y), selected, rows, y))
        self._n_cells += rows.size

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
