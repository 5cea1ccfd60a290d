"""Addresses of brokers, such as kafka://host:9092/topic; they hold no secrets."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from fires.core.errors import InputError


class Address(NamedTuple):
    """Where a broker is, and what is asked of it."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    options: dict[str, str]

    @property
    def servers(self) -> str:
        """All of them, separated by commas."""
        return ",".join(f"[{h}]:{p}" if ":" in h else f"{h}:{p}" for h, p in self.hosts)

    def __str__(self) -> str:
        return f"{self.scheme}://{self.servers}/{self.path}"


CONFIG = "FIRES_KAFKA_CONFIG"
USERNAME, PASSWORD = "FIRES_REDIS_USERNAME", "FIRES_REDIS_PASSWORD"

_KAFKA = f"name them in a file of properties, and the file in the variable {CONFIG}"
_REDIS = f"put them into the variables {USERNAME} and {PASSWORD}"


def refuse_secrets(uri: str) -> None:
    """Raise an error if the URI of a broker holds a user or a password."""
    scheme, found, rest = uri.partition("://")
    if found and scheme in ("kafka", "redis", "rediss") and "@" in rest:
        raise InputError(
            f"the address {scheme}://... holds a user or a password, which others could see",
            hint="leave out what stands before the @, and "
            f"{_KAFKA if scheme == 'kafka' else _REDIS} (an @ in a name is %40)",
        )


def read_address(uri: str, form: str, port: int, options: tuple[str, ...] = ()) -> Address:
    """Take the URI of a broker apart.

    Examples
    --------
    >>> str(read_address("kafka://one,two:9093/events", "kafka://host:port/topic", 9092))
    'kafka://one:9092,two:9093/events'
    """
    refuse_secrets(uri)
    scheme, _, rest = uri.partition("://")
    rest, _, query = rest.partition("?")
    servers, _, path = rest.partition("/")
    found_options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := sorted(set(found_options) - set(options)):
        raise InputError(f'{scheme}://{servers}/{path}: there is no option "{unknown[0]}"')
    try:
        hosts = tuple(_host(server, port) for server in servers.split(","))
    except ValueError:
        raise InputError(f"{scheme}://{servers}: no host and port", hint=f"use {form}") from None
    if not path:
        raise InputError(f"{uri} names no {form.rpartition('/')[2]}", hint=f"use {form}")
    return Address(scheme, hosts, unquote(path), found_options)


def _host(server: str, port: int) -> tuple[str, int]:
    """Host and port; the host may be an address of IPv6 in brackets."""
    host, colon, number = server.rpartition(":")
    if not colon or server.endswith("]"):
        host, number = server, str(port)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not 0 < int(number) < 65536:
        raise ValueError(server)
    return host, int(number)
