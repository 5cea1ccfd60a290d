"""Work that goes on in a thread while its results are used."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

Item = TypeVar("Item")


def read_ahead(items: Generator[Item, None, None]) -> Generator[Item, None, None]:
    """Let a thread make the next item while this one is used.

    This pays because polars and NumPy work without the interpreter. Each stage of reading has a
    thread of its own: a stage that waits for the interpreter, which a busy consumer holds, then
    keeps no other one waiting.

    Examples
    --------
    >>> list(read_ahead(letter for letter in "abc"))
    ['a', 'b', 'c']
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="fires-reader") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item
