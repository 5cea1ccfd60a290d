"""The page of a run while it goes on: a server that reads the folder, and changes nothing.

It is a process of its own, so that whatever happens to it, or to those who look, the run goes on.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.optional import require
from fires.report.live_access import HEADERS, Access
from fires.report.watching import LiveSummary, Receive, Send

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Scope


_MAX_CONNECTIONS = 100
_TIMEOUT = 10.0
"""Seconds between two looks whether a connection that has nothing to wait for has gone on."""


def listen(
    host: str,
    port: int,
    *,
    what: str = "cannot listen",
    hint: str = "give another --port, or --port 0 for any that is free",
) -> socket.socket:
    """A socket that takes connections."""
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
        raise InputError(f"{what} on {host}:{port}: {why}", hint=hint) from error
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

    watch = LiveSummary(side_by_side(folders, shape))

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
            http=_bounded_protocol(),
            backlog=_MAX_CONNECTIONS,  # as many as are taken at once
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


def _bounded_protocol() -> Any:
    """uvicorn's protocol with limits: it gives requests and readers all the time they want."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Connection(H11Protocol):
        """Ends if half a request, or an answer that nobody reads, does not go on."""

        seen: Any = None

        def connection_made(self, transport: Any) -> None:
            """Take a connection. If there are too many, the oldest that asks nothing gives way."""
            super().connection_made(transport)
            self.began, self.look = self.loop.time(), self.loop.call_later(_TIMEOUT, self.check)
            present: list[Any] = [one for one in self.connections if not one.transport.is_closing()]
            if len(present) > _MAX_CONNECTIONS:
                idle = (one for one in present if not one.is_answered)
                min(idle, key=lambda one: one.began).transport.abort()

        def connection_lost(self, error: Exception | None) -> None:
            """Look no more."""
            self.look.cancel()
            super().connection_lost(error)

        @property
        def is_answered(self) -> bool:
            """Whether a request is there whose answer has not ended: events have no end."""
            return self.cycle is not None and not self.cycle.response_complete

        def check(self) -> None:
            """End unless it goes on."""
            n_unread = self.transport.get_write_buffer_size()
            seen = None if self.is_answered and not n_unread else (self.cycle, n_unread)
            if seen is not None and seen == self.seen:
                self.transport.abort()
            self.seen, self.look = seen, self.loop.call_later(_TIMEOUT, self.check)

    return Connection


def _when_input_ends(tell: Callable[[], None]) -> None:
    with suppress(OSError):
        while os.read(0, 1024):
            pass
    tell()


class LiveApp:
    """The ASGI application: the page, its data, and events with data that has changed."""

    def __init__(self, watch: LiveSummary, access: Access) -> None:
        self._watch, self._access = watch, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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

    async def _answer(self, request: Request) -> Response:
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
