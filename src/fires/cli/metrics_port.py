"""How a run is doing, for Prometheus: numbers on a port, read when they are asked for."""

from __future__ import annotations

import math
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from http.server import ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.optional import require
from fires.report.live import listen

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler
    from types import ModuleType

_COUNTERS = {
    "rows": "Rows that were learnt from.",
    "bad_rows": "Rows that could not be used.",
    "batches": "Batches that were learnt from.",
    "alarms": "Alarms about drift.",
}
_GAUGES = {
    "stability": "Stability of the selected sets of the last batches; 1 if they are all the same.",
    "selected_features": "Features that are selected now.",
    "lag": "Rows that wait in the source, where it knows.",
    "checkpoint_seconds": "What the last checkpoint took.",
}
_KNOWN = {*_COUNTERS, *_GAUGES} - {"lag"}
_MAX_CONNECTIONS = 16
_TIMEOUT = 10.0  # seconds that a connection may last
_PAUSE = 0.01  # seconds between two connections: a flood of them must not slow down the run


class MetricsPort(AbstractContextManager["MetricsPort"]):
    """Answers on a port how a run is doing, in the text format of Prometheus.

    Besides the numbers it is told, it has ``fires_rows_per_second``, from the rows since it was
    asked the last time, and ``fires_checkpoint_age_seconds``. A number that nobody has told, or
    that is not defined, is left out. Needs the extra ``metrics``.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        client = require("prometheus_client", "--metrics", extra="metrics")
        core = require("prometheus_client.core", "--metrics", extra="metrics")
        self.values: dict[str, float | None] = {}
        self.checkpoint_at: float | None = None
        self.lag: Callable[[], float | None] = lambda: None
        registry = client.CollectorRegistry()
        registry.register(_Collector(core, self))
        listener = listen(host, port, what="--metrics cannot listen", hint="give another port")
        self._server = _Server(listener, client.MetricsHandler.factory(registry))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.port = int(self._server.server_address[1])

    def update(self, **values: float | None) -> None:
        """Tell how the run is doing. It costs next to nothing: to be called after each batch."""
        if unknown := values.keys() - _KNOWN:
            raise TypeError(f"there is no metric {sorted(unknown)[0]}")
        self.values.update(values)  # other threads see all of it or nothing
        if values.get("checkpoint_seconds") is not None:
            self.checkpoint_at = time.monotonic()

    def saved(self, seconds: float) -> None:
        """Tell that a checkpoint was written, in so many seconds."""
        self.update(checkpoint_seconds=seconds)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __exit__(self, *error: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    """Answers few connections at a time, each for a short time: the run needs threads and files."""

    def __init__(self, listener: socket.socket, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(listener.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket, self._began = listener, dict[socket.socket, float]()

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection. Without descriptors for it, it is tried again after the pause."""
        time.sleep(_PAUSE)
        return super().get_request()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, unless all that were to give way are still there."""
        if len(self._began) < 2 * _MAX_CONNECTIONS:
            self._began[request] = time.monotonic()
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def service_actions(self) -> None:
        """Wake threads that take too long, and the oldest if there are too many; they end then."""
        now = time.monotonic()
        for n_newer, (one, began) in enumerate(reversed(list(self._began.items()))):
            if n_newer >= _MAX_CONNECTIONS or now - began > _TIMEOUT:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._began.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that goes away is no matter of the run."""


class _Collector:
    """Makes the metrics of a port when they are asked for."""

    def __init__(self, core: ModuleType, port: MetricsPort) -> None:
        self._core, self._port = core, port
        self._before: tuple[float, float] | None = None

    def collect(self) -> Iterator[Any]:
        """All metrics, for the registry."""
        known = {
            name: value
            for name, value in (self._port.values | {"lag": self._port.lag()}).items()
            if value is not None and not math.isnan(value)
        }
        for name, what in _COUNTERS.items():
            if name in known:
                yield self._core.CounterMetricFamily(f"fires_{name}", what, known[name])
        for name, what in _GAUGES.items():
            if name in known:
                yield self._core.GaugeMetricFamily(f"fires_{name}", what, known[name])
        if (speed := self._rows_per_second(known.get("rows"))) is not None:
            what = "Rows per second since this was asked the last time."
            yield self._core.GaugeMetricFamily("fires_rows_per_second", what, speed)
        if self._port.checkpoint_at is not None:
            age = time.monotonic() - self._port.checkpoint_at
            what = "Seconds since the last checkpoint was written."
            yield self._core.GaugeMetricFamily("fires_checkpoint_age_seconds", what, age)

    def _rows_per_second(self, rows: float | None) -> float | None:
        """None when it is asked for the first time: a run that was resumed has rows already."""
        if rows is None:
            return None
        now, before = time.monotonic(), self._before
        self._before = now, rows
        return None if before is None else (rows - before[1]) / max(now - before[0], 1e-9)


def metrics_address(text: str) -> tuple[int, str]:
    """The port and host that a user names."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]:|([^:\[\]\s]+):)?(\d{1,5})", text, re.ASCII)
    if found is None or int(found[3]) > 65535:
        raise InputError(
            f"{text!r} is no address for metrics", hint="give a port such as 9100, or HOST:PORT"
        )
    return int(found[3]), found[1] or found[2] or "127.0.0.1"
