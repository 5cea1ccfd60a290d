"""How the bytes of a text become UTF-8, and what is said where they do not."""

from __future__ import annotations

import codecs

from fires.streams.files.packing import Readable

_AT_ONCE = 1 << 18
"""Bytes to decode at once."""
_MARK = "fires-mark"
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def _mark(error: UnicodeError) -> tuple[str | bytes, int]:
    """Put a byte that is not UTF-8 where there was no text: its record is set aside for it."""
    if isinstance(error, UnicodeDecodeError):
        return "\udcff", error.end
    assert isinstance(error, UnicodeEncodeError)
    return b"\xff", error.end


codecs.register_error(_MARK, _mark)


def encoding_of(head: bytes) -> str:
    r"""Find the encoding that a byte order mark tells.

    Examples
    --------
    >>> encoding_of(b"\xff\xfex\0"), encoding_of(b"x,y\n")
    ('utf-16', 'utf-8')
    """
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")


def hint(sample: bytes) -> str:
    r"""Say which encoding a text that is not UTF-8 may have.

    Examples
    --------
    >>> hint("größer".encode("utf-16-le"))
    'it looks like UTF-16: try --encoding utf-16-le'
    """
    if name := utf16(sample):
        return f"it looks like UTF-16: try --encoding {name}"
    return "if it is text, say how it was written: --encoding cp1252, for instance"


def utf16(sample: bytes) -> str | None:
    """Tell UTF-16 without a mark by its zeros: every second byte, for letters of the Latin script.

    Examples
    --------
    >>> utf16("a,b".encode("utf-16-be")), utf16(b"a,b")
    ('utf-16-be', None)
    """
    half = max(len(sample) // 2, 1)
    even, odd = (sample[start::2].count(0) / half for start in (0, 1))
    if max(even, odd) < 0.4 or min(even, odd) > 0.1:
        return None
    return "utf-16-be" if even > odd else "utf-16-le"


class Decoded:
    """A text in UTF-8, whatever it was written in.

    Examples
    --------
    >>> import io
    >>> Decoded(io.BytesIO("süß".encode("latin-1")), "latin-1").read(100).decode()
    'süß'
    """

    def __init__(self, file: Readable, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors=_MARK)
        self._text = b""

    def read(self, n: int) -> bytes:
        """Read on."""
        ended = False
        while not self._text and not ended:
            data = self._file.read(min(n, _AT_ONCE))
            ended = not data
            self._text = self._decoder.decode(data, final=ended).encode("utf-8", _MARK)
        text, self._text = self._text[:n], self._text[n:]
        return text
