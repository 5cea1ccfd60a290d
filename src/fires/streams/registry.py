"""Sources and sinks by the scheme of their address: a new one is its own file, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, NamedTuple, Protocol

from fires.core.errors import InputError
from fires.core.types import Header

# The environment variable that names a file with properties of librdkafka.
KAFKA_CONFIG = "FIRES_KAFKA_CONFIG"
# The environment variables that hold what a server of Redis may ask for.
REDIS_USERNAME, REDIS_PASSWORD = "FIRES_REDIS_USERNAME", "FIRES_REDIS_PASSWORD"


class Scheme(NamedTuple):
    """What an address that begins so stands for; names as for ``pkgutil.resolve_name``."""

    opener: str
    sink: str = ""
    secrets: str = ""

    @property
    def is_broker(self) -> bool:
        """Whether rows keep coming, at an address with ``//``; otherwise it is a query."""
        return self.sink != ""


_REDIS = Scheme(
    "fires.streams.redis:from_redis",
    "fires.streams.redis:RedisSink",
    f"put them into the variables {REDIS_USERNAME} and {REDIS_PASSWORD}",
)
SCHEMES: Mapping[str, Scheme] = {
    "kafka": Scheme(
        "fires.streams.kafka:from_kafka",
        "fires.streams.kafka:KafkaSink",
        f"name them in a file of properties, and the file in the variable {KAFKA_CONFIG}",
    ),
    "redis": _REDIS,
    "rediss": _REDIS,
    "duckdb": Scheme("fires.streams.sql:from_sql"),
    "sqlite": Scheme("fires.streams.sql:from_sql"),
}


class Sink(Protocol):
    """A place that records are written to."""

    def write(self, record: Header) -> None:
        """Hand over a record; it may be on its way until :meth:`flush` returns."""

    def flush(self) -> None:
        """Wait until all records are there."""

    def close(self) -> None:
        """Leave."""


def scheme_of(name: str) -> Scheme | None:
    """What a name stands for if it names no file.

    Examples
    --------
    >>> scheme_of("sqlite:shop.db?select * from sales").opener, scheme_of("sqlite.csv")
    ('fires.streams.sql:from_sql', None)
    """
    scheme, _, rest = name.partition(":")
    found = SCHEMES.get(scheme)
    if found is None or not (rest.startswith("//") if found.is_broker else "?" in rest):
        return None
    return found


def opener_of(scheme: Scheme) -> Callable[..., Any]:
    """What makes a stream of an address."""
    opener: Callable[..., Any] = resolve_name(scheme.opener)
    return opener


def open_sink(address: str) -> Sink:
    """Open a place to write to."""
    scheme = address.partition("://")[0]
    found = SCHEMES.get(scheme)
    if found is None or not found.is_broker:
        raise InputError(
            f"nothing can be written to {scheme}://",
            hint="give a file, - for standard output, redis://... or kafka://...",
        )
    sink: Sink = resolve_name(found.sink)(address)
    return sink


def refuse_secrets(address: str) -> None:
    """Raise an error if the address of a broker holds a user or a password."""
    found = scheme_of(address)
    if found is not None and found.is_broker and "@" in address:
        raise InputError(
            f"the address {address.partition(':')[0]}://... holds a user or a password, which "
            "others could see",
            hint=f"leave out what stands before the @, and {found.secrets} (an @ in a name is %40)",
        )
