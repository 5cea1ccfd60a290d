"""Text from files, made safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with control characters spelt out: names from a file must not steer a terminal.

    Examples
    --------
    >>> printable("größe \x1b[2J")
    'größe \\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
