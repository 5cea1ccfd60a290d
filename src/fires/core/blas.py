"""Small systems on one thread.

From 100 rows on, OpenBLAS solves a system with all cores. On a busy machine its threads then wait
for each other: 100 ms instead of 0.15 were seen.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

_THREADED = 100  # rows of a system from which on OpenBLAS uses several threads


class _OneThread:
    """BLAS has one thread while anybody is inside; the last one out brings the others back."""

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limits = _controller().limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limits.restore_original_limits()


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController()


_ONE_THREAD, _AS_IT_IS = _OneThread(), nullcontext()


def one_thread(n: int) -> AbstractContextManager[None]:
    """Within this, systems of so many rows are solved on one thread."""
    return _ONE_THREAD if n >= _THREADED else _AS_IT_IS
