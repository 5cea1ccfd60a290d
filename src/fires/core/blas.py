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
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


@contextmanager
def _limited() -> Iterator[None]:
    with _LOCK, _controller().limit(limits=1, user_api="blas"):
        yield


def one_thread(n: int) -> AbstractContextManager[None]:
    """Within this, systems of so many rows are solved on one thread."""
    return _limited() if n >= _THREADED else _AS_IT_IS
