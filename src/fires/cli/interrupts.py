"""What surrounds the work of a command: a quick start, signals, and the pace of rows."""

from __future__ import annotations

import errno
import gc
import importlib
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any, Generic, NoReturn, TypeVar

import click

from fires.cli.text import EXPECTED, Counted, message, say
from fires.core.errors import InputError

_NARWHALS = "narwhals", "narwhals.stable", "narwhals.stable.v2"
_NOT_NEEDED = ("scipy.stats", "pandas", "numpy.f2py", "numpy.testing", *_NARWHALS)


class _StandIn(ModuleType):
    """Empty while scikit-learn is imported; whoever has kept it gets the real module afterwards."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import within it what a command needs, and no more.

    scikit-learn imports scipy.stats for one function, which none of ours calls, pandas to see
    whether it is there, and narwhals for frames; SciPy copies all names of NumPy, its compiler of
    Fortran among them. These are half of all the time. So the base of scikit-learn comes first,
    with stand-ins in the place of them. Afterwards they can be imported as usual, and scikit-learn
    finds the real ones when it needs them. A version of scikit-learn that needs more of them at
    once fails with the stand-ins, and is imported in the usual way.

    Imports make much that lasts and little that does not: to look through it for garbage, now and
    again at the exit, is a quarter of the time. Where scikit-learn is loaded already there is
    nothing to gain, and nothing is changed.
    """
    if "sklearn" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        _import_scikit_learn()
        yield
    finally:
        gc.freeze()
        gc.enable()


def _import_scikit_learn() -> None:
    stand_ins = {name: _StandIn(name) for name in _NOT_NEEDED if name not in sys.modules}
    sys.modules.update(stand_ins)
    numpy = importlib.import_module("numpy")  # it looks for its parts among its attributes
    parts = {name[6:]: part for name, part in stand_ins.items() if name.startswith("numpy.")}
    vars(numpy).update(parts)
    try:
        importlib.import_module("sklearn.base")
    except (ImportError, AttributeError):
        pass
    finally:
        for name in stand_ins:
            del sys.modules[name]
        for name in parts:
            delattr(numpy, name)


Item = TypeVar("Item")

# Under which the code of a command that was interrupted is in ``meta`` of its context.
EXIT_CODE = "fires.exit_code"
_HANGUP = signal.Signals.__members__.get("SIGHUP")
_SAVE = signal.Signals.__members__.get("SIGUSR1")


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


class EndsEarly(Generic[Item]):
    """Rows that may end early, and remember why: nothing that came of them is lost.

    Ctrl-C, or an order to end from the system, ends them: at once while it waits for rows, else
    after the batch. So what is done with a batch is done whole. A second Ctrl-C stops the program
    wherever it is; other signals that are repeated, as a closed terminal may, change nothing.

    SIGUSR1 asks to save and go on: at once while it waits for rows, else after the batch. At once
    means wherever the source is in making the next batch. So what :attr:`on_request` saves must
    have been taken down when the last step was done, also where the source was then.

    Used in a ``with`` statement, it also takes up any error within, once rows were dealt with.
    """

    _lasts = False  # as long as the process

    def __init__(self, batches: Iterator[Item], done: Counted) -> None:
        self.signal: int | None = None
        self.error: BaseException | None = None
        self.on_request: Callable[[], None] | None = None
        self._batches = batches
        self._done = done
        self._waits = self._asked = False
        self._unsaved: Exception | None = None

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, self._stop) for number in _signals()}
        if _SAVE is not None:
            self._before[_SAVE] = signal.signal(_SAVE, self._request)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        for number, handler in self._before.items():
            # What remains is to save: to be told again to do so must not kill the program.
            told = number == _SAVE or (self.signal is not None and number != signal.SIGINT)
            if told and number == self.signal and callable(handler):
                handler(number, None)
            signal.signal(number, signal.SIG_IGN if told or self._lasts else handler)
        del self._batches  # nothing more is read ahead
        if error is None or isinstance(error, KeyboardInterrupt) or not self._done.n_rows:
            return False
        self.error = error
        return True

    def __iter__(self) -> Iterator[Item]:
        return self

    def __next__(self) -> Item:
        if self.signal is not None:
            raise StopIteration
        try:
            self._waits = True
            if self._asked:  # while a batch was dealt with
                self._answer()
            return next(self._batches)
        except KeyboardInterrupt:
            if self._unsaved is not None:
                raise self._unsaved from None
            raise StopIteration from None
        finally:
            self._waits = False

    @property
    def reason(self) -> str | None:
        """Why it has ended early, if it has."""
        if self.signal is not None:
            return "interrupted"
        return None if self.error is None else message(self.error).rstrip(".")

    def exit_code(self, *, saved: bool) -> int:
        """What the program tells whoever has started it, once a signal has ended the rows."""
        if self.signal is None or (saved and self.signal != signal.SIGINT):
            return 0
        return 128 + self.signal

    def tell_end(self, done: str, unsaved: OSError | None, *, saved: bool = False) -> NoReturn:
        """Say what ended the rows early, or why nothing could be saved, with a code for scripts."""
        if self.signal is not None:
            say(f"Interrupted; {done}.")
            sys.exit(self.exit_code(saved=saved))
        if self.error is None:
            raise InputError(done) from unsaved
        if not isinstance(self.error, EXPECTED):
            raise self.error
        raise InputError(f"{self.reason}; {done}") from self.error

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Let signals wait within it: for what the source does while it makes the next batch.

        Rows that cannot be used, for example, are written down then. A signal in the middle of that
        would leave a line that is written twice, or by half.
        """
        waits, self._waits = self._waits, False
        yield
        self._waits = waits
        if waits:
            self._answer()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        again, self.signal = self.signal is not None and number == signal.SIGINT, number
        if number == _HANGUP:
            _write_nowhere_if_terminal_is_gone()
        if again or self._waits:
            self._waits = False
            raise KeyboardInterrupt

    def _request(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
        if self._waits:
            self._answer()

    def _answer(self) -> None:
        """Save if that was asked for. Signals that come meanwhile wait for the end of it."""
        while self._asked and self.on_request is not None and self.signal is None:
            self._waits = self._asked = False
            try:
                self.on_request()
            except Exception as error:
                self._unsaved = error
                raise KeyboardInterrupt from error  # ends the wait; __next__ raises the error
            self._waits = True
        if self.signal is not None:
            raise KeyboardInterrupt


class FromTheStart(EndsEarly[None]):
    """Heeds SIGTERM, SIGHUP and SIGUSR1 as long as a run with a folder lasts: nothing is lost.

    Before there are rows, it ends at once, and with code 0. Afterwards, nothing keeps it from
    writing down the end. Within :meth:`undisturbed`, signals wait.
    """

    n_rows = 0

    def __init__(self, context: click.Context) -> None:
        super().__init__(iter(()), self)
        self._meta, self._lasts, self._waits = context.meta, context.obj is not None, True

    def __enter__(self) -> None:
        super().__enter__()
        signal.signal(signal.SIGINT, self._before.pop(signal.SIGINT))

    def hand_over(self, source: EndsEarly[Any]) -> None:
        """Leave signals to the rows, also one whose interrupt was lost in a call from C."""
        self._waits = False
        if self.signal is not None:
            source.signal = self.signal

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._meta[EXIT_CODE] = 0
        super()._stop(number, frame)


def let_signals_through() -> None:
    """Let signals end the wait for rows.

    Once loaded, polars lets system calls go on after a signal.
    """
    if sys.platform != "win32":
        for number in (*_signals(), signal.SIGUSR1):
            signal.siginterrupt(number, True)


def _signals() -> list[signal.Signals]:
    """Ctrl-C, and those by which a system or a terminal that is closed ends a program."""
    if _HANGUP is None or signal.getsignal(_HANGUP) is signal.SIG_IGN:  # as nohup does
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, _HANGUP]


def _write_nowhere_if_terminal_is_gone() -> None:
    """Let what is still to be said vanish: it must not turn a run that is saved into a failure."""
    for output in (1, 2):
        try:
            os.write(output, b"")
        except OSError as error:
            if error.errno == errno.EIO:
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, output)
                os.close(nowhere)


Rows = TypeVar("Rows", bound=Counted)


def paced(batches: Iterator[Rows], rows_per_second: float) -> Iterator[Rows]:
    """Hand out batches no faster than at a given rate.

    The first batch comes at once, and each after it when the rows of the one before are due. Time
    that is lost, since whoever learns from them is slow or was stopped, or since the source had
    none, is not made up for.

    It waits before it asks for a batch. So while it waits, the source is where the last batch ended
    that was handed out, and a signal that ends the wait loses no rows.
    """
    due = time.monotonic()
    while True:
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        asked = time.monotonic()
        if (batch := next(batches, None)) is None:
            return
        lasts = batch.n_rows / rows_per_second
        came = time.monotonic()
        # A batch that is at hand takes no time; one that was waited for starts the clock anew.
        due = (came if came - asked > lasts else asked) + lasts
        yield batch
