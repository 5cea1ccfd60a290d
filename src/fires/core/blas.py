"""Small systems on one thread.

From 100 rows on, OpenBLAS solves a system with all cores. On a busy machine its threads then wait
for each other: 100 ms instead of 0.15 were seen.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

_THREADED = 100  # rows of a system from which on OpenBLAS uses several threads


# One at a time, so that who comes out brings the threads back.
_LOCK, _AS_IT_IS = threading.RLock(), nullcontext()


@cache
def _libraries() -> list[Any]:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    libraries: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


@contextmanager
def _limited() -> Iterator[None]:
    # What threadpoolctl does by itself, without a look at each library's version and name.
    with _LOCK:
        before = [(library, library.num_threads) for library in _libraries()]
        try:
            for library, _ in before:
                library.set_num_threads(1)
            yield
        finally:
            for library, n_threads in before:
                library.set_num_threads(n_threads)


def one_thread(n: int) -> AbstractContextManager[None]:
    """Within this, systems of so many rows are solved on one thread."""
    return _limited() if n >= _THREADED else _AS_IT_IS
