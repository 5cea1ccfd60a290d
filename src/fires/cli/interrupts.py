"""What ends a run early, and how nothing that was learnt is lost by it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from fires.cli.text import message
from fires.core.errors import InputError

if TYPE_CHECKING:
    from fires.streams.base import Batch
    from fires.streams.table_stream import TableStream

Item = TypeVar("Item")


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


class Counted(Protocol):
    """What knows how many rows have been dealt with."""

    @property
    def n_rows(self) -> int:
        """So many rows."""


class EndsEarly(Generic[Item]):
    """Rows that may end early, and remember why: nothing that came of them is lost.

    Ctrl-C, or an order to end from the system, ends them: at once while it waits for rows, else
    after the batch. So what is done with a batch is done whole. A second Ctrl-C stops the program
    wherever it is.

    Used in a ``with`` statement, it also takes up any error within, once rows were dealt with.

    Parameters
    ----------
    batches : iterator
        Where the rows come from.
    done : Counted
        What counts those that were dealt with.

    Attributes
    ----------
    signal : int or None
        The signal that has come.
    error : BaseException or None
        What else has ended it.
    """

    def __init__(self, batches: Iterator[Item], done: Counted) -> None:
        self.signal: int | None = None
        self.error: BaseException | None = None
        self._batches = batches
        self._done = done
        self._waits = False

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._stop) for number in _signals()}

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        del self._batches  # nothing more is read ahead
        if error is None or isinstance(error, KeyboardInterrupt) or not self._done.n_rows:
            return False
        self.error = error
        return True

    def __iter__(self) -> Iterator[Item]:
        while self.signal is None and (batch := self._next()) is not None:
            yield batch

    @property
    def reason(self) -> str | None:
        """Why it has ended early, if it has."""
        if self.signal is not None:
            return "interrupted"
        return None if self.error is None else message(self.error).rstrip(".")

    def _next(self) -> Item | None:
        try:
            self._waits = True
            batch = next(self._batches, None)
            self._waits = False
        except KeyboardInterrupt:
            return None
        return batch

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None, number
        if again or self._waits:
            self._waits = False
            raise KeyboardInterrupt


class Interruptible(EndsEarly["Batch"]):
    """A stream that may end early: what is learnt from a batch is learnt whole, and can be saved.

    Parameters
    ----------
    stream : TableStream
        Where the batches come from. It is read once.
    batch_size : int
        Rows of a batch.
    totals : Counted
        What was learnt from.

    Attributes
    ----------
    schema : Schema
        The names of the columns.
    watch : callable (Batch) -> None, or None
        Told of every batch before it is handed out.
    """

    def __init__(self, stream: TableStream, batch_size: int, totals: Counted) -> None:
        super().__init__(stream.batches(batch_size), totals)
        self.schema = stream.schema
        self.watch: Callable[[Batch], None] | None = None
        self._first: Batch | None = None

    def first(self) -> Batch:
        """Read the first batch; :meth:`batches` begins with it all the same.

        Returns
        -------
        Batch
            The first batch.
        """
        self._first = self._next()
        if self._first is None:
            raise KeyboardInterrupt if self.signal is not None else InputError("there are no rows")
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
        batch = self._next() if self._first is None else self._first
        self._first = None
        while batch is not None:
            if self.watch is not None:
                self.watch(batch)
            yield batch
            batch = None if self.signal is not None else self._next()


def let_signals_through() -> None:
    """Let signals end the wait for rows.

    Once loaded, polars lets system calls go on after a signal.
    """
    if sys.platform != "win32":
        for number in _signals():
            signal.siginterrupt(number, True)


def _signals() -> list[signal.Signals]:
    """Ctrl-C, and those by which a system or a terminal that is closed ends a program."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is None or signal.getsignal(hangup) is signal.SIG_IGN:  # as nohup does
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, hangup]
