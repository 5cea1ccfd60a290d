"""Small pieces of the sentences that messages are made of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any


def enumeration(words: Sequence[Any], last: str = "and") -> str:
    """The words with commas, and "and" or another word before the last.

    Parameters
    ----------
    words : sequence
        One or more.
    last : str
        What stands before the last of several.

    Returns
    -------
    str
        One phrase.

    Examples
    --------
    >>> enumeration([3, 8, 9]), enumeration(["CSV", "Parquet"], "or"), enumeration(["one"])
    ('3, 8 and 9', 'CSV or Parquet', 'one')
    """
    *most, end = map(str, words)
    return f"{', '.join(most)} {last} {end}" if most else end


def suggestion(name: str, known: Mapping[str, str], otherwise: str) -> str:
    """What to say to someone who gave a name that is not known.

    Parameters
    ----------
    name : str
        What was given.
    known : mapping of str to str
        The names to look among, and how each is written to the reader.
    otherwise : str
        What to say if none of them is like it.

    Returns
    -------
    str
        A question that names the nearest one, or ``otherwise``.

    Examples
    --------
    >>> suggestion("mnst", {"mnist": "MNIST", "har": "HAR"}, "there are MNIST and HAR")
    'did you mean MNIST?'
    >>> suggestion("iris", {"mnist": "MNIST", "har": "HAR"}, "there are MNIST and HAR")
    'there are MNIST and HAR'
    """
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {known[near[0]]}?" if near else otherwise
