"""The page of a run while it goes on: a server that reads the folder, and changes nothing.

It is a process of its own, so that whatever happens to it, or to those who look, the run goes on.
The folders are read while somebody looks, once a second at most, and for all viewers together;
:class:`Watch` does that. Whoever stops reading is sent nothing until he reads again, and then the
latest.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fires.core.errors import InputError
from fires.core.optional import require
from fires.report.live_access import HEADERS, Access

if TYPE_CHECKING:
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


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections.

    Parameters
    ----------
    host : str
        The address or name to listen on.
    port : int
        The port; 0 for any that is free.

    Returns
    -------
    socket

    Raises
    ------
    InputError
        If the port is taken, or the address is not of this machine.
    """
    listener = None
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
        if os.name == "posix":  # elsewhere it would share the port with another program
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except (OSError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InputError(
            f"cannot listen on {host}:{port}: {why}",
            hint="give another --port, or --port 0 for any that is free",
        ) from error
    return listener


def serve(
    folders: Sequence[Path],
    listener: socket.socket,
    access: Access,
    *,
    shape: tuple[int, int] | None = None,
    ready: Callable[[], None] = lambda: None,
    attached: bool = False,
) -> None:
    """Show runs to whoever asks, until the process is told to end.

    SIGINT and SIGTERM end it at once, whoever looks.

    Parameters
    ----------
    folders : sequence of Path
        The folders of the runs.
    listener : socket
        What :func:`listen` gave.
    access : Access
        Who is let in.
    shape : tuple of int, optional
        The height and width of the picture that the features are.
    ready : callable () -> None
        Called once signals are heeded, and before the first answer.
    attached : bool
        Whether it ends when its standard input does too. Then viewers are shown the end first.

    Raises
    ------
    InputError
        If a folder holds no run.
    MissingExtra
        If the extra ``serve`` is not installed.
    """
    uvicorn = require("uvicorn", "fires serve", extra="serve")
    require("starlette", "fires serve", extra="serve")
    from fires.report.summary import side_by_side

    watch = Watch(side_by_side(folders, shape))

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        """Ends with code 0, and does not wait for viewers to leave."""

        is_over = False

        def handle_exit(self, number: int, frame: object) -> None:
            """Take notice of a signal; uvicorn's own would raise it again at the end."""
            self.should_exit = True

        def end(self) -> None:
            """Take notice that whoever has started it is done."""
            self.is_over = self.should_exit = True

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            """Begin with a first reading: whoever comes then need not wait for it."""
            await super().startup(sockets=sockets)
            watch.begin()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            """End the answers that have no end of their own, and then all others."""
            await watch.close(last_word=self.is_over)
            await super().shutdown(sockets=sockets)

    server = Server(
        uvicorn.Config(
            LiveApp(watch, access),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,  # names of features must not reach a terminal
            log_level="critical",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    if attached:
        threading.Thread(target=_when_input_ends, args=(server.end,), daemon=True).start()
    ready()
    server.run(sockets=[listener])


def _when_input_ends(tell: Callable[[], None]) -> None:
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    tell()


class Watch:
    """What runs look like now, for all viewers together.

    Parameters
    ----------
    summaries : sequence of Summary
        The runs.
    """

    def __init__(self, summaries: Sequence[Summary]) -> None:
        self._summaries = summaries
        self._viewers: set[_Viewer] = set()
        self._data: dict[str, Any] | None = None
        self._text = b""
        self._due = 0.0
        self._reading: asyncio.Future[None] | None = None
        self._followed: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Read what is there, for whoever comes first."""
        self._reading = asyncio.ensure_future(self._read())

    async def latest(self) -> tuple[dict[str, Any], bytes]:
        """What is known of the runs, as old as the pause between two readings at most.

        Returns
        -------
        data, text : dict and bytes
            What the page shows, and the same as JSON.

        Raises
        ------
        LookupError
            If they could not be read yet.
        """
        if self._reading is None and time.monotonic() >= self._due:
            self.begin()
        if self._reading is not None:
            await asyncio.shield(self._reading)
        if self._data is None:
            raise LookupError("the run cannot be read")
        return self._data, self._text

    async def show(self, receive: Receive, send: Send) -> None:
        """Send events to a viewer, until he leaves.

        Parameters
        ----------
        receive, send : callable
            Of the ASGI application; the answer has begun.
        """
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
        """Let all viewers go.

        Parameters
        ----------
        last_word : bool
            Whether they are shown first how the runs have ended.
        """
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

    def _read_now(self) -> tuple[dict[str, Any] | None, bytes | None, float]:
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
    """How long to wait before the runs are read again.

    Parameters
    ----------
    seconds : float
        What the last reading took of the processor.

    Returns
    -------
    float
        Seconds.

    Examples
    --------
    >>> pause_after(0.002), pause_after(0.4), pause_after(60.0)
    (1.0, 8.0, 30.0)
    """
    return min(max(_LEAST_PAUSE, _TIMES * seconds), _MOST_PAUSE)


class _Viewer:
    """A place for the latest event: one that was not taken in time is replaced.

    Parameters
    ----------
    task : asyncio.Task
        What sends to the viewer.
    """

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
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


class LiveApp:
    """The ASGI application: the page, its data, and events with data that has changed.

    Parameters
    ----------
    watch : Watch
        What it shows.
    access : Access
        Who is let in.
    """

    def __init__(self, watch: Watch, access: Access) -> None:
        self._watch, self._access = watch, access

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        from starlette.requests import Request
        from starlette.responses import PlainTextResponse

        request = Request(scope)
        refused = self._access.refusal(request)
        if refused is not None:
            await refused(scope, receive, send)
            return
        try:
            response = await self._answer(request)
        except LookupError:
            response = PlainTextResponse("The run cannot be read now. Try again.\n", 503)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if scope["path"] != "/events" or scope["method"] == "HEAD":
            await response(scope, receive, send)
            return
        start = {"type": "http.response.start", "status": 200, "headers": response.raw_headers}
        await send(start)
        await self._watch.show(receive, send)

    async def _answer(self, request: Any) -> Any:
        from starlette.responses import Response

        from fires.report.page import content_policy, page

        if request.scope["path"] == "/favicon.ico":  # browsers ask for it, and complain
            return Response(status_code=204)
        if request.scope["path"] == "/events":
            response = Response(media_type="text/event-stream")
            del response.headers["content-length"]
            return response
        data, text = await self._watch.latest()
        if request.scope["path"] == "/summary.json":
            return Response(text, media_type="application/json")
        policy = {"content-security-policy": content_policy(live=True)}
        text = page(data, live=True).encode(errors="backslashreplace")
        return Response(text, headers=policy, media_type="text/html; charset=utf-8")


def as_json(data: dict[str, Any]) -> bytes:
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


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
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
