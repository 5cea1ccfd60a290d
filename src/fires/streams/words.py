"""Words as columns: texts, and categories of which there are many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from fires.core.errors import InputError
from fires.core.named import NamedRows
from fires.core.validation import is_missing
from fires.kernels.lookup import ManyNames
from fires.streams.base import check_count

Split = Callable[[Any], Iterable[str]]

_find_words = re.compile(r"\w\w+").findall
_PLAIN = {code: chr(code).lower() if re.match(r"\w", chr(code)) else " " for code in range(128)}


class Words:
    """Turns texts into rows with a column for every word, for a selector with open columns.

    Columns are named after their words, so the selected features are words. New words join as they
    appear. Pass the rows to ``FIRES(columns="open", absent="zero")``: a word that a text does not
    contain is 0.

    Parameters
    ----------
    max_words : int
        If more words are known, those that were not seen for the longest time are forgotten until
        half of this number is left. This is checked before each batch, so the words of one batch
        may exceed it. See the notes.
    binary : bool
        Whether a word counts as 1, however often a text contains it. Otherwise the value is its
        number of occurrences.
    split : callable, optional
        Returns the words of a row. By default, a row is a text or a list of words.
        The words of a text are those of scikit-learn's ``CountVectorizer``: in lower case, of two
        or more letters, digits or underscores. A list is used unchanged: also for categories such
        as ``["user=123", "site=abc"]``.

    Attributes
    ----------
    names : Names
        The words known now, in the order of their arrival.
    n_rows : int
        The rows so far.
    n_forgotten : int
        How often a word was forgotten.

    Notes
    -----
    Nothing is learnt here; words are only numbered. A selector with open columns goes by the name:
    a forgotten word that returns has a new number, and continues from its old belief. So
    ``max_words`` bounds only the memory of this object; the selector has ``forget_after``. Ignoring
    new words once the bound is reached would be worse: most of the known words were seen only once,
    and the words of a new topic would never be used.

    Examples
    --------
    >>> words = Words()
    >>> rows = words.rows(["Gold and oil", None, ["oil", "site=abc"]])
    >>> list(rows.names)
    ['gold', 'and', 'oil', 'site=abc']
    >>> rows.matrix.toarray()
    array([[1., 1., 1., 0.],
           [0., 0., 0., 0.],
           [0., 0., 1., 1.]])
    """

    def __init__(
        self, max_words: int = 2**20, *, binary: bool = True, split: Split | None = None
    ) -> None:
        self.max_words = check_count("max_words", max_words, 1)
        self.binary = binary
        self.split = split
        self.n_rows = 0
        self.n_forgotten = 0
        self.names = ManyNames()
        # The row at which a word was last seen; there may be room for more.
        self._seen = np.zeros(0, dtype=np.int64)

    def rows(self, texts: Iterable[object]) -> NamedRows:
        """The next rows of the stream.

        Parameters
        ----------
        texts : iterable
            One text, or list of words, for each row. One that is missing (None, NaN) has no words;
            a number is read as text.

        Returns
        -------
        NamedRows
            A CSR matrix, and :attr:`names`, to which later batches add. Once words were forgotten,
            there is a new book of names; rows from before keep theirs.
        """
        rows = self._split(texts)
        if len(self.names) > self.max_words:
            self._forget()
        places = self.names.add(list(chain.from_iterable(rows)))
        self.n_rows += len(rows)
        if (short := len(self.names) - len(self._seen)) > 0:
            room = np.zeros(max(short, len(self._seen)), dtype=np.int64)
            self._seen = np.concatenate([self._seen, room])
        self._seen[places] = self.n_rows
        starts = np.cumsum([0, *map(len, rows)])
        shape = len(rows), len(self.names)
        matrix = sp.csr_matrix((np.ones(len(places)), places, starts), shape=shape)
        matrix.sum_duplicates()
        if self.binary:
            matrix.data.fill(1.0)
        return NamedRows(matrix, self.names)

    def _split(self, texts: Iterable[object]) -> list[list[str]]:
        """The words of each row."""
        if isinstance(texts, (str, bytes, Mapping)):
            raise InputError("texts is one row, not several", hint="pass a list of rows")
        if self.split is None:
            rows = [
                _words_of_text(text) if type(text) is str else _words_of(text, place)
                for place, text in enumerate(texts)
            ]
        else:
            rows = [[] if is_missing(text) else list(self.split(text)) for text in texts]
        if {str}.issuperset(map(type, chain.from_iterable(rows))):
            return rows
        return [[str(word) for word in row if not is_missing(word)] for row in rows]

    def _forget(self) -> None:
        """Keep what was seen last, in a new book: rows handed out before refer to the old one."""
        n = len(self.names)
        by_row = np.argsort(self._seen[:n], kind="stable")
        kept = np.sort(by_row[n - self.max_words // 2 :])
        self.n_forgotten += n - len(kept)
        self.names, self._seen = self.names.only(kept), self._seen[kept]


def _words_of_text(text: str) -> list[str]:
    """What scikit-learn's pattern finds in lower case: runs of two or more letters or digits."""
    if text.isascii():  # no pattern, in half the time
        return [word for word in text.translate(_PLAIN).split() if len(word) > 1]
    return _find_words(text.lower())


def _words_of(row: object, place: int) -> list[str]:
    """The words of a row that is no plain text."""
    if isinstance(row, (list, tuple, np.ndarray)):
        return list(row)
    if isinstance(row, (str, Real)) and not is_missing(row):
        return _words_of_text(str(row))
    if is_missing(row):
        return []
    raise InputError(
        f"it is a {type(row).__name__}, not a text or a list of words",
        f"row {place}",
        "pass split=, a function that returns the words of a row",
    )
