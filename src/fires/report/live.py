"""The page of a run while it goes on: a server that reads the folder, and changes nothing.

Needs the extra ``serve``: starlette and uvicorn.

It is a process of its own, so that whatever happens to it, or to those who look, the run goes on.

It shows data to whoever asks, and other pages in the same browser can ask. So it answers by its own
names only, which a name that was made to point here is not; it allows no other page to read its
answers; and where other machines can reach it, it wants a token.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fires.core.errors import InputError
from fires.core.types import Header
from fires.report.page import LIVE_PARTS, compact, content_policy, page, page_data
from fires.report.summary import Summary, side_by_side

_MAX_CONNECTIONS = 100
# Seconds between two readings: so many times what the last one took, so that they take a
# twentieth of a core at most.
_LEAST_PAUSE, _MOST_PAUSE, _TIMES = 1.0, 30.0, 20.0
_HEARTBEAT = 15.0
_RETRY = b"retry: 2000\n\n"  # milliseconds after which a browser asks again
# Seconds that viewers have to take what was sent: when told to end, and when the run has ended;
# and that the reading of that end may take.
_GRACE, _LAST_WORD, _LAST_READING = 0.5, 3.0, 30.0
_LOG = logging.getLogger("fires")


def serve(
    folders: Sequence[Path],
    listener: socket.socket,
    access: Access,
    *,
    ready: Callable[[], None] = lambda: None,
    attached: bool = False,
) -> None:
    """Show runs to whoever asks, until the process is told to end.

    SIGINT and SIGTERM end it at once, whoever looks. ``ready`` is called once signals are heeded,
    and before the first answer. If it is ``attached``, it ends when its standard input does too;
    then viewers are shown the end first.
    """
    watch = LiveSummary(side_by_side(folders), access)
    config = uvicorn.Config(
        watch,
        limit_concurrency=_MAX_CONNECTIONS,
        ws="none",
        lifespan="off",
        log_config=None,  # names of features must not reach a terminal
        log_level="critical",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = Server(config, watch)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, server.handle_exit)
    if attached:
        threading.Thread(target=server.end_with_input, daemon=True).start()
    ready()
    server.run(sockets=[listener])


class Server(uvicorn.Server):
    """Ends with code 0, and does not wait for viewers to leave."""

    def __init__(self, config: uvicorn.Config, watch: LiveSummary) -> None:
        super().__init__(config)
        self._watch, self._is_over = watch, False

    def handle_exit(self, number: int, frame: object) -> None:
        """Take notice of a signal; uvicorn's own would raise it again at the end."""
        self.should_exit = True

    def end_with_input(self) -> None:
        """Wait until whoever has started it is done: then its standard input ends."""
        with suppress(OSError):
            while os.read(0, 1024):
                pass
        self._is_over = self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin with a first reading: whoever comes then need not wait for it."""
        await super().startup(sockets=sockets)
        self._watch.begin()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the answers that have no end of their own, and then all others."""
        await self._watch.close(last_word=self._is_over)
        await super().shutdown(sockets=sockets)


class LiveSummary:
    """What runs look like now, for all who look at them: an ASGI application.

    It answers with the page, its data, and events with data that has changed.
    The folders are read while somebody looks, once a second at most, and for all viewers together.
    Whoever stops reading is sent nothing until he reads again, and then the latest.
    """

    def __init__(self, summaries: Sequence[Summary], access: Access) -> None:
        self._summaries, self._access = summaries, access
        self._data: Header | None = None
        self._text = b""
        self._due = 0.0
        self._reading: asyncio.Future[None] | None = None
        self._n_viewers, self._is_over = 0, asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope)
        response = self._access.refusal(request)
        if response is None:
            try:
                response = await self._answer(request)
            except LookupError:
                response = PlainTextResponse("The run cannot be read now. Try again.\n", 503)
            for name, value in HEADERS.items():
                response.headers.setdefault(name, value)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.scope["path"]
        if path == "/favicon.ico":  # browsers ask for it, and complain
            return Response(status_code=204)
        if path == "/events":
            kind = "text/event-stream"
            if request.method == "HEAD":
                return Response(media_type=kind)
            return StreamingResponse(self.events(), media_type=kind)
        data, text = await self.latest()
        if path == "/summary.json":
            return Response(text, media_type="application/json")
        policy = {"content-security-policy": content_policy(LIVE_PARTS, live=True)}
        text = page(data, live=True).encode(errors="backslashreplace")
        return Response(text, headers=policy, media_type="text/html; charset=utf-8")

    async def latest(self) -> tuple[Header, bytes]:
        """What is known of the runs, as old as the pause between two readings at most."""
        if self._reading is None or (self._reading.done() and time.monotonic() >= self._due):
            self.begin()
        assert self._reading is not None
        await asyncio.shield(self._reading)
        if self._data is None:
            raise LookupError("the run cannot be read")
        return self._data, self._text

    async def events(self) -> AsyncIterator[bytes]:
        """What is sent to a viewer, until he leaves: the next when he has taken the one before."""
        self._n_viewers += 1
        sent, heard = b"", time.monotonic()
        try:
            yield _RETRY
            while True:
                if not self._is_over.is_set():
                    with suppress(LookupError):
                        await self.latest()
                if self._text is not sent:
                    sent, heard = self._text, time.monotonic()
                    yield b"data: " + sent + b"\n\n"
                elif self._is_over.is_set():
                    return
                elif time.monotonic() - heard >= _HEARTBEAT:
                    # A sign of life, so that whatever is between does not close the connection.
                    heard = time.monotonic()
                    yield b":\n\n"
                pause = min(max(self._due - time.monotonic(), 0.01), _HEARTBEAT)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_over.wait(), pause)
        finally:
            self._n_viewers -= 1

    async def close(self, *, last_word: bool) -> None:
        """Let all viewers go."""
        if last_word and self._n_viewers:
            with suppress(TimeoutError, LookupError):
                async with asyncio.timeout(_LAST_READING):
                    if self._reading is not None:  # it may have begun before the end
                        await asyncio.shield(self._reading)
                    self._due = 0.0
                    await self.latest()
        self._is_over.set()
        end = time.monotonic() + (_LAST_WORD if last_word else _GRACE)
        while self._n_viewers and time.monotonic() < end:
            await asyncio.sleep(0.02)

    def begin(self) -> None:
        """Read what is new, beside the answers."""
        self._reading = asyncio.ensure_future(asyncio.to_thread(self._read))

    def _read(self) -> None:
        started, is_first, changed = time.thread_time(), not self._text, False
        try:
            for summary in self._summaries:
                changed |= summary.refresh()
            if changed or is_first:
                self._data = page_data([summary.as_dict() for summary in self._summaries])
                text = compact(self._data)
                self._text = text.encode(errors="backslashreplace")  # half a character, say
        except Exception:
            # A folder may be replaced, damaged or removed at any time. What was read of it stays on
            # the page, and it is tried again.
            _LOG.exception("a run cannot be read")
        # The first reading has to catch up with the run. It says nothing about the next.
        seconds = 0.0 if is_first else time.thread_time() - started
        self._due = time.monotonic() + min(max(_LEAST_PAUSE, _TIMES * seconds), _MOST_PAUSE)


# --- who is let in -------------------------------------------------------------------------------

PATHS = ("/", "/events", "/summary.json", "/favicon.ico")
# Of every answer; that of the page has a policy of its own.
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_METHODS = ("GET", "HEAD")
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:]+)(:\d*)?", re.IGNORECASE | re.ASCII)


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, backlog=128, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = why.partition(" (while")[0]  # the address, once more
        hint = "give another --port, or --port 0 for any that is free"
        raise InputError(f"cannot listen on {host}:{port}: {why}", hint=hint) from error


@dataclass(frozen=True)
class Access:
    """Decides which requests are answered."""

    host: str
    address: str
    port: int
    token: str | None = field(repr=False)

    @classmethod
    def to(cls, listener: socket.socket, host: str) -> Access:
        """The rules for a socket."""
        address, port = listener.getsockname()[:2]
        token = os.environ.get("FIRES_TOKEN") or None
        if token is None and not ip_address(address).is_loopback:
            token = secrets.token_urlsafe(24)
        return cls(host, address, port, token)

    @property
    def url(self) -> str:
        """What to open in a browser, with the token."""
        everywhere = ip_address(self.address).is_unspecified
        host = socket.gethostname() if everywhere else self.host
        asked = "" if self.token is None else f"?token={quote(self.token, safe='')}"
        return f"http://{_bracketed(host)}:{self.port}/{asked}"

    def knows(self, header: str) -> bool:
        """Whether the header ``Host`` of a request names this server."""
        if self.token is not None:  # which no other page knows
            return True
        known = (*_LOCAL, _bracketed(self.host.lower()), _bracketed(self.address))
        found = _HOST.fullmatch(header)
        return found is not None and found[1].lower() in known

    def refusal(self, request: Request) -> Response | None:
        """What to answer instead of what was asked for."""

        def refused(status: int, why: str, **more: str) -> Response:
            return PlainTextResponse(f"{why}\n", status, HEADERS | more)

        if request.method not in _METHODS:
            return refused(405, "This server is read-only.", allow=", ".join(_METHODS))
        if not self.knows(request.headers.get("host", "")):
            return refused(421, "This server does not answer to that name.")
        path = request.scope["path"]
        if path not in PATHS:
            return refused(404, "There is no such page.")
        given = request.query_params.get("token", "").encode(errors="surrogateescape")
        known = (self.token or "").encode(errors="surrogateescape")
        if self.token is not None and not hmac.compare_digest(given, known):
            return refused(403, "Open the address that fires serve printed, with its token.")
        site = request.headers.get("sec-fetch-site", "none")
        if path != "/" and site not in ("none", "same-origin"):
            return refused(403, "Requests from other pages are refused.")
        return None


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
