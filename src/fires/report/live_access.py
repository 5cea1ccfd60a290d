"""Who is let in by the server of the live page.

It shows data to whoever asks, and other pages in the same browser can ask. So it answers by its own
names only, which a name that was made to point here is not; it allows no other page to read its
answers; and where other machines can reach it, it wants a token.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import socket
from dataclasses import dataclass, field
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import quote

from fires.core.errors import InputError

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

PATHS = ("/", "/events", "/summary.json", "/favicon.ico")
HEADERS = {
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Of every answer; that of the page has a policy of its own."""
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
        host = _own_name() if self._is_everywhere else self.host
        asked = "" if self.token is None else f"?token={quote(self.token, safe='')}"
        return f"http://{_bracketed(host)}:{self.port}/{asked}"

    def knows(self, header: str) -> bool:
        """Whether the header ``Host`` of a request names this server."""
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].lower()
        if name in (*_LOCAL, _bracketed(self.host.lower()), _bracketed(self.address)):
            return True
        # Who listens on all addresses has no list of them. An address is no name to be misused.
        return self._is_everywhere and (name == _own_name().lower() or _is_address(name))

    def refusal(self, request: Request) -> Response | None:
        """What to answer instead of what was asked for."""
        from starlette.responses import PlainTextResponse

        def refused(status: int, why: str, **more: str) -> Response:
            return PlainTextResponse(f"{why}\n", status, HEADERS | more)

        if request.method not in _METHODS:
            return refused(405, "Nothing can be changed here.", allow=", ".join(_METHODS))
        if not self.knows(request.headers.get("host", "")):
            return refused(421, "This server does not go by that name.")
        path = request.scope["path"]
        if path not in PATHS:
            return refused(404, "There is no such page.")
        if self.token is not None and "token" in request.query_params:
            if not _same(request.query_params["token"], self.token):
                return refused(403, "The token is another one.")
            return self._welcome(request)
        if self.token is not None and not _same(request.cookies.get(self._cookie, ""), self._pass):
            return refused(403, "Open the address that fires serve has printed, with its token.")
        site = request.headers.get("sec-fetch-site", "none")
        if path != "/" and site not in ("none", "same-origin"):
            return refused(403, "Other pages may not ask for this.")
        return None

    @property
    def _is_everywhere(self) -> bool:
        return ip_address(self.address).is_unspecified

    @property
    def _cookie(self) -> str:
        """What the cookie is called: to a browser, all servers of a machine are one."""
        return f"fires-{self.port}"

    @property
    def _pass(self) -> str:
        """What the cookie holds: the token may have signs that a cookie must not have."""
        return hashlib.sha256(f"fires {self.token}".encode(errors="surrogateescape")).hexdigest()

    def _welcome(self, request: Request) -> Response:
        """Take the token out of the address, where it could be seen, and into a cookie."""
        from starlette.responses import Response

        path = request.scope["path"]
        if request.headers.get("sec-fetch-site") == "cross-site":
            # Of a link on another page, a browser does not take the cookie along to where it is
            # sent on. From a page of this server it does.
            response = Response(status_code=200, headers=HEADERS | {"refresh": f"0; url={path}"})
        else:
            response = Response(status_code=303, headers=HEADERS | {"location": path})
        response.set_cookie(self._cookie, self._pass, httponly=True, samesite="strict")
        return response


def _same(given: str, known: str) -> bool:
    """Whether two texts are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(*(text.encode(errors="surrogateescape") for text in (given, known)))


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@cache
def _own_name() -> str:
    """What others call this machine, if anybody does."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except (OSError, UnicodeError):
        return "127.0.0.1"
    return name
