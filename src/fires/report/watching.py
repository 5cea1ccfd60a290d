"""What runs look like now, for all who look at them: read once, and sent to each as he takes it.

The folders are read while somebody looks, once a second at most, and for all viewers together.
Whoever stops reading is sent nothing until he reads again, and then the latest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from fires.core.types import Header
    from fires.report.summary import Summary

Result = TypeVar("Result")
Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

_LEAST_PAUSE, _MOST_PAUSE, _TIMES = 1.0, 30.0, 20.0
"""Seconds between two readings: so many times what the last one took, so that they take a twentieth
of a core at most."""
_HEARTBEAT = 15.0
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser asks again
_GRACE, _LAST_WORD, _LAST_READING = 0.5, 3.0, 30.0
"""Seconds that viewers have to take what was sent: when told to end, and when the run has ended;
and that the reading of that end may take."""
_LOG = logging.getLogger("fires")


class LiveSummary:
    """What runs look like now, for all viewers together."""

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self._summaries = summaries
        self._viewers: set[_Viewer] = set()
        self._data: Header | None = None
        self._text = b""
        self._due = 0.0
        self._reading: asyncio.Future[None] | None = None
        self._followed: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Read what is there, for whoever comes first."""
        self._reading = asyncio.ensure_future(self._read())

    async def latest(self) -> tuple[Header, bytes]:
        """What is known of the runs, as old as the pause between two readings at most."""
        if self._reading is None and time.monotonic() >= self._due:
            self.begin()
        if self._reading is not None:
            await asyncio.shield(self._reading)
        if self._data is None:
            raise LookupError("the run cannot be read")
        return self._data, self._text

    async def show(self, receive: Receive, send: Send) -> None:
        """Send events to a viewer, until he leaves."""
        viewer = _Viewer(asyncio.current_task())
        leaves = asyncio.ensure_future(viewer.until_gone(receive))
        self._viewers.add(viewer)
        if self._followed is None or self._followed.done():
            self._followed = asyncio.ensure_future(self._follow())
        try:
            await send(_part(_RETRY))
            with suppress(LookupError):
                viewer.put(_event((await self.latest())[1]))
            while (event := await viewer.next()) is not None:
                await send(_part(event))
            await send(_part(b"", more=False))
        finally:
            self._viewers.discard(viewer)
            leaves.cancel()

    async def close(self, *, last_word: bool) -> None:
        """Let all viewers go."""
        if last_word and self._viewers:
            with suppress(asyncio.TimeoutError, LookupError):
                await asyncio.wait_for(self._read_once_more(), _LAST_READING)
        for viewer in self._viewers:
            viewer.leave()
        tasks = [viewer.task for viewer in self._viewers if viewer.task is not None]
        if tasks:
            _, stalled = await asyncio.wait(tasks, timeout=_LAST_WORD if last_word else _GRACE)
            for task in stalled:
                task.cancel()
        if self._followed is not None:
            self._followed.cancel()

    async def _follow(self) -> None:
        """Read again and again, while somebody looks."""
        while self._viewers:
            with suppress(LookupError):
                await self.latest()
            await asyncio.sleep(max(self._due - time.monotonic(), 0.01))

    async def _read_once_more(self) -> None:
        if self._reading is not None:  # it may have begun before the end
            await asyncio.shield(self._reading)
        self._due = 0.0
        await self.latest()

    async def _read(self) -> None:
        """Read what is new, in a thread, and pass it on."""
        seconds = 0.0
        try:
            data, text, seconds = await _in_thread(self._read_now)
            if text is not None:
                # The first reading has to catch up with the run. It says nothing about the next.
                seconds = seconds if self._text else 0.0
                self._data, self._text = data, text
                event = _event(text)
                for viewer in self._viewers:
                    viewer.put(event)
        finally:
            self._due, self._reading = time.monotonic() + pause_after(seconds), None

    def _read_now(self) -> tuple[Header | None, bytes | None, float]:
        """Data and text if anything is new, and the seconds of the processor that it took."""
        from fires.report.page import page_data

        started, changed = time.thread_time(), False
        data, text = None, None
        try:
            for summary in self._summaries:
                changed |= summary.refresh()
            if changed or not self._text:
                data = page_data([summary.as_dict() for summary in self._summaries])
                text = as_json(data)
        except Exception:
            # A folder may be replaced, damaged or removed at any time. What was read of it stays on
            # the page, and it is tried again.
            _LOG.exception("a run cannot be read")
        return data, text, time.thread_time() - started


def pause_after(seconds: float) -> float:
    """How long to wait before the runs are read again."""
    return min(max(_LEAST_PAUSE, _TIMES * seconds), _MOST_PAUSE)


class _Viewer:
    """A place for the latest event: one that was not taken in time is replaced."""

    def __init__(self, task: asyncio.Task[None] | None) -> None:
        self.task = task
        self._event: bytes | None = None
        self._is_gone = False
        self._news = asyncio.Event()

    def put(self, event: bytes) -> None:
        """Have this sent as soon as the viewer has read what was sent before."""
        self._event = event
        self._news.set()

    def leave(self) -> None:
        """Send what is there, and no more."""
        self._is_gone = True
        self._news.set()

    async def until_gone(self, receive: Receive) -> None:
        """Wait until the connection is closed."""
        while (await receive())["type"] != "http.disconnect":
            pass
        self.leave()

    async def next(self) -> bytes | None:
        """What to send next, or None at the end.

        A sign of life if there is nothing new: so that whatever is between does not close the
        connection.
        """
        if self._event is None and not self._is_gone:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), _HEARTBEAT)
        self._news.clear()
        event, self._event = self._event, None
        return event if event is not None or self._is_gone else b":\n\n"


def as_json(data: Header) -> bytes:
    """Data as JSON, in one line.

    Parameters
    ----------
    data : dict
        JSON values.

    Returns
    -------
    bytes
        UTF-8. Half a character, as a file name may hold, is written as JSON escapes it.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode(errors="backslashreplace")


def _event(text: bytes) -> bytes:
    return b"data: " + text + b"\n\n"


def _part(body: bytes, *, more: bool = True) -> Header:
    return {"type": "http.response.body", "body": body, "more_body": more}


async def _in_thread(work: Callable[[], Result]) -> Result:
    """Do something in a thread that does not hold up the end of the program."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(result: Result | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def do() -> None:
        try:
            outcome: tuple[Result | None, Exception | None] = work(), None
        except Exception as error:
            outcome = None, error
        with suppress(RuntimeError):  # nobody waits for it any more
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=do, daemon=True).start()
    return await done
