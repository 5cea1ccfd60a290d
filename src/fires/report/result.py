"""What the folder of a run says about its features and columns when it has ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fires.core.files import damaged, open_saved
from fires.core.output import frame_as_written
from fires.core.types import Labels, Mask
from fires.report.following import well_formed
from fires.report.spans import Numbers

if TYPE_CHECKING:
    import polars as pl

_NUMBERS = ("rank", "importance", "uncertainty")
_NOT_READ = ("weight", "low", "high", "share_selected", "example", "done")


@dataclass
class Result:
    """The result of a run, as far as it is there."""

    n_features: int | None = None
    n_selected: int | None = None
    n_above_noise: int | None = None
    numbers: dict[str, Numbers] = field(default_factory=dict)
    above_noise: Mask | None = None
    classes: Labels | None = None
    kinds: dict[str, str] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)
    columns: Sequence[str] = ()
    groups: dict[str, list[int]] = field(default_factory=dict)


def read_result(folder: Path, names: Sequence[str]) -> Result:
    """Read ``features.csv`` and ``columns.csv``."""
    result = Result(columns=names)
    columns, features = folder / "columns.csv", folder / "features.csv"
    if columns.exists():
        with damaged(columns):
            used = _table(columns).filter(_column("kind") != "left out")
            titles = [well_formed(title) for title in used["name"]]
            result.kinds = dict(zip(titles, used["kind"], strict=True))
            shares = used["missing"].cast(float, strict=False)
            result.missing = dict(zip(titles, shares, strict=True))
            if len(titles) < len(names):
                _add_groups(result, names, titles)
    if features.exists():
        with damaged(features):
            _add_features(result, _table(features, _NUMBERS))
    return result


def _add_features(result: Result, table: pl.DataFrame) -> None:
    import polars as pl

    result.n_features = len(table)
    result.n_selected = int((table["selected"] == "True").sum())
    columns = pl.DataFrame({"feature": result.columns}, schema={"feature": pl.String})
    rows = columns.join(table, on="feature", how="left", maintain_order="left")
    if len(rows) != len(columns):  # names are not told apart: no run writes that
        return
    if (table["above_noise"] != "").any():
        result.n_above_noise = int((table["above_noise"] == "True").sum())
        result.above_noise = (rows["above_noise"] == "True").fill_null(False).to_numpy()
    if "class" in table.columns:
        result.classes = rows["class"].to_numpy()
    if not rows["selected"].has_nulls():  # or these are other features
        result.numbers = {name: rows[name].to_numpy(writable=True) for name in _NUMBERS}
        together = [place for places in result.groups.values() for place in places]
        for name in ("importance", "uncertainty"):
            result.numbers[name][together] = np.nan
        # Features of a column have its weight, and ties go to the lower index. Those that were
        # forgotten have no rank.
        rank = result.numbers["rank"]
        order = np.argsort(rank, kind="stable")[: len(rank) - np.count_nonzero(np.isnan(rank))]
        rank[order] = np.arange(1.0, len(order) + 1.0)


def _add_groups(result: Result, names: Sequence[str], columns: Sequence[str]) -> None:
    """Find the column of each feature: those of a column follow each other, with its name first."""
    found: list[str] = []
    left = list(columns[::-1])
    for name in names:
        if left and (name == left[-1] or name.startswith(f"{left[-1]} (")):
            found.append(left.pop())
        elif found and name.startswith(f"{found[-1]} ("):
            found.append(found[-1])
        else:
            return  # other columns than these
    result.columns = found
    for place, column in enumerate(found):
        result.groups.setdefault(column, []).append(place)
    result.groups = {column: of for column, of in result.groups.items() if len(of) > 1}


def _table(path: Path, numbers: Sequence[str] = ()) -> pl.DataFrame:
    """A CSV file: all text, but for the columns of numbers."""
    import polars as pl

    with open_saved(path) as file:
        data = file.read()
    titles = pl.read_csv(data, n_rows=0).columns
    kept = [title for title in titles if title not in _NOT_READ]
    types = {title: pl.Float64 if title in numbers else pl.String for title in kept}
    table = pl.read_csv(data, columns=kept, schema_overrides=types)
    return frame_as_written(table.with_columns(pl.col(pl.String).fill_null("")))


def _column(name: str) -> pl.Expr:
    import polars as pl

    return pl.col(name)
