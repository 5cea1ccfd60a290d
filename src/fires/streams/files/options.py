"""What the user says about a text, where it should not be found out."""

from __future__ import annotations

import codecs
import io
from dataclasses import dataclass

from fires.core.errors import InputError


@dataclass(frozen=True)
class TextOptions:
    """How to read a text; what is None is found out.

    Examples
    --------
    >>> TextOptions(delimiter=";", encoding="latin-1").header
    True
    >>> TextOptions(encoding="klingon")
    Traceback (most recent call last):
    fires.core.errors.InputError: there is no encoding "klingon"; utf-8, utf-16 and cp1252 are some
    """

    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True
    comment: str | None = None

    def __post_init__(self) -> None:
        delimiter, comment = self.delimiter, self.comment
        if delimiter is not None and (
            len(delimiter) != 1 or delimiter in '"\r\n\0' or delimiter > "~"
        ):
            raise InputError(f"{delimiter!r} cannot separate fields: one ASCII character can")
        if comment is not None and (not comment or set(comment) & set('"\r\n')):
            raise InputError(f"{comment!r} cannot begin a comment: a sign such as # can")
        if self.encoding is not None:
            check_encoding(self.encoding)


FOUND_OUT = TextOptions()
"""The user says nothing."""


def check_encoding(name: str) -> None:
    """Raise if Python knows no text encoding of this name."""
    try:
        io.TextIOWrapper(io.BytesIO(), name)  # also refuses codecs that make no text, such as hex
        known = name != "" and codecs.lookup(name).incrementaldecoder is not None
    except (LookupError, ValueError):
        known = False
    if not known:
        raise InputError(f'there is no encoding "{name}"', hint="utf-8, utf-16 and cp1252 are some")
