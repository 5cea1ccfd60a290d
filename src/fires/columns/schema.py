"""What a column of a table is: its name, its kind, and the categories met in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

N_EXAMPLES = 10
"""How many unusable rows are shown to the user."""

Kind = Literal["number", "integer", "flag", "date", "category"]


@dataclass(frozen=True)
class Column:
    """A column, its kind and, in order of their codes, the categories met so far.

    The kinds ``number``, ``flag`` (true is 1) and ``date`` (seconds since 1970 in UTC) become
    numbers; ``category`` becomes 0, 1, 2, ... in order of first appearance. Only a target can
    be ``integer``; its integers, flags and categories stay the labels they are.

    Parameters
    ----------
    name : str
        The name of the column.
    kind : {"number", "integer", "flag", "date", "category"}
        What most of its values are.
    categories : tuple of str
        The category of code 0, of code 1, and so on.

    Examples
    --------
    >>> Column("town", "category", ("Bonn", "Ulm")).categories.index("Ulm")
    1
    """

    name: str
    kind: Kind
    categories: tuple[str, ...] = ()
