"""What Ctrl-C does: it ends a run early, and is never lost."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.streams.base import Batch
    from fires.streams.files import FileStream


@contextmanager
def no_interrupt_lost() -> Iterator[None]:
    """Let Ctrl-C through where numba compiles.

    Its compiler calls back into Python from C; an interrupt that arrives there is reported, not
    raised, and some other error follows from it.
    """
    lost = []

    def note(event: sys.UnraisableHookArgs) -> None:
        if issubclass(event.exc_type, KeyboardInterrupt):
            lost.append(event.exc_type)
        else:
            report(event)

    report, sys.unraisablehook = sys.unraisablehook, note
    try:
        yield
    except Exception as error:
        if lost:
            raise KeyboardInterrupt from error
        raise
    finally:
        sys.unraisablehook = report


class Interruptible:
    """A stream that Ctrl-C ends: at once while it waits for rows, else after the batch.

    What is learnt from a batch is learnt whole, so the state can be saved and used. A second
    Ctrl-C stops the program wherever it is.

    Parameters
    ----------
    stream : FileStream
        Where the batches come from. It is read once.
    batch_size : int
        Rows of a batch.

    Attributes
    ----------
    schema : Schema
        The names of the columns.
    interrupted : bool
        Whether Ctrl-C has come.
    """

    def __init__(self, stream: FileStream, batch_size: int) -> None:
        self.schema = stream.schema
        self.interrupted = False
        self._batches = stream.batches(batch_size)
        self._first: Batch | None = None
        self._waits = False

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._stop)

    def __exit__(self, *error: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        del self._batches  # nothing more is read ahead

    def first(self) -> Batch:
        """Read the first batch; :meth:`batches` begins with it all the same.

        Returns
        -------
        Batch
            The first batch.
        """
        self._first = self._next()
        if self._first is None:
            raise KeyboardInterrupt if self.interrupted else InputError("there are no rows")
        return self._first

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the batches, until Ctrl-C.

        Parameters
        ----------
        batch_size : int
            Not looked at: the size is fixed from the beginning.

        Yields
        ------
        Batch
            The next batch.
        """
        batch, self._first = self._first, None
        while batch is not None:
            yield batch
            batch = None if self.interrupted else self._next()

    def _next(self) -> Batch | None:
        try:
            self._waits = True
            batch = next(self._batches, None)
            self._waits = False
        except KeyboardInterrupt:
            self.interrupted = True
            return None
        return batch

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.interrupted = self.interrupted, True
        if again or self._waits:
            self._waits = False
            raise KeyboardInterrupt
