"""Columns that one should not believe: ids, clocks, constants, copies, and leaks of the target.

A doubt that is wrong does more harm than one that is missed: a column is doubted only if there is
hardly another explanation for what its rows show.

**id**: text nearly all of which differs; whole numbers that are equal far less often than they
would be by chance, or nearly all different under a name such as ``order_id``. Measurements that
happen to be all different are none.

**clock**: what grows (or falls) with the rows and is a date, goes in equal steps, has the range of
seconds since 1970, or is named like one. A feature that the file is sorted by is none, unless it
has fewer than 100 values, as a period number: what is learnt about one of them never serves again.

**copy**: numbers equal to those of another column, but for scale, shift and rounding; or the same
categories under other names. The later of the two is doubted; of a number and a category, the
number.

**leak**: the target itself, but for scale and shift, or under other names.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from fires.columns.columns import Columns
from fires.columns.copies import copies, leaks
from fires.columns.frames import as_polars
from fires.columns.ids_and_clocks import clocks, constants, ids_of_numbers, ids_of_text
from fires.columns.schema import Doubt
from fires.columns.seen import LEAST, Seen
from fires.core.types import RowsLike


def find_doubts(
    frame: RowsLike, y: npt.ArrayLike | None = None, columns: Columns | None = None
) -> list[Doubt]:
    """Find the columns of a table that one should not believe.

    Parameters
    ----------
    frame : frame of pandas or polars, or list of dicts
        Rows in their order, as many as there are or the first 10,000.
    y : array (n_rows,), optional
        Their target. Without it, leaks are not looked for.
    columns : Columns, optional
        What the columns hold; found out from the frame by default.

    Returns
    -------
    list of Doubt
        One for each doubtful column, in the order of the frame.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> frame = pl.DataFrame({"n": np.arange(500), "c": x, "f": 1.8 * x + 32, "one": 1})
    >>> for doubt in find_doubts(frame, x > 0):
    ...     print(doubt.column, doubt)
    n clock: counts the rows
    f copy: is "c" on another scale
    one constant: has one value only, 1.0
    """
    sample = as_polars(frame)
    columns = Columns.learn(sample) if columns is None else columns
    here = set(sample.columns)
    seen = Seen(sample, [column for column in columns.all if column.name in here], columns)
    doubts = {} if y is None or seen.n_rows < LEAST else leaks(seen, y)
    for find in (clocks, ids_of_numbers, ids_of_text, constants):
        doubts = {**find(seen), **doubts}
    if seen.n_rows >= LEAST:
        doubts = {**copies(seen, set(doubts)), **doubts}
    return [doubts[column.name] for column in columns.all if column.name in doubts]


def without_doubtful(columns: Columns, doubts: Sequence[Doubt]) -> Columns:
    """The columns with ids, clocks and copies left out."""
    whys = {doubt.column: doubt.why for doubt in doubts if doubt.is_no_feature}
    if not whys or not {column.name for column in columns.used} - set(whys):
        return columns
    return columns.leaving_out(whys)
