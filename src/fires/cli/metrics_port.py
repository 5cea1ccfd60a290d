"""How a run is doing, for Prometheus: numbers on a port, read when they are asked for."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from fires.core.errors import InputError
from fires.core.optional import require

_METRICS = {
    "rows": ("Counter", "Rows learnt from."),
    "bad_rows": ("Counter", "Rejected rows."),
    "batches": ("Counter", "Batches learnt from."),
    "alarms": ("Counter", "Drift alarms."),
    "stability": (
        "Gauge",
        "Stability of the selected sets of the last batches; 1 if they are all the same.",
    ),
    "selected_features": ("Gauge", "Number of features selected now."),
    "checkpoint_seconds": ("Gauge", "Duration of the last checkpoint."),
    "lag": ("Gauge", "Rows waiting in the source, if it knows."),
    "rows_per_second": ("Gauge", "Rows per second since the last scrape."),
    "checkpoint_age_seconds": ("Gauge", "Seconds since the last checkpoint was written."),
}
_WHEN_ASKED = ("lag", "rows_per_second", "checkpoint_age_seconds")


class MetricsPort(AbstractContextManager["MetricsPort"]):
    """Answers on a port how a run is doing, in the text format of Prometheus.

    Besides the numbers it is told, it has ``fires_rows_per_second``, from the rows since it was
    asked the last time, and ``fires_checkpoint_age_seconds``. A number that nobody has told, or
    that is not defined, is left out. Needs the extra ``metrics``.
    """

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        client = require("prometheus_client", "--metrics", extra="metrics")
        core = require("prometheus_client.core", "--metrics", extra="metrics")
        self._families = {"Counter": core.CounterMetricFamily, "Gauge": core.GaugeMetricFamily}
        self._values: dict[str, float | None] = {}
        self._saved_at: float | None = None
        self._before: tuple[float, float] | None = None
        self.lag: Callable[[], float | None] = lambda: None
        registry = client.CollectorRegistry()
        registry.register(self)
        try:
            self._server, self._thread = client.start_http_server(port, host, registry)
        except OSError as error:
            why = f"--metrics cannot listen on {host}:{port}: {error.strerror or error}"
            raise InputError(why, hint="give another port") from None
        self._server.handle_error = lambda *_: None  # a client that goes away is no matter of ours
        self.port = int(self._server.server_address[1])

    def update(self, **values: float | None) -> None:
        """Tell how the run is doing. It costs next to nothing: to be called after each batch."""
        if unknown := values.keys() - (_METRICS.keys() - _WHEN_ASKED):
            raise TypeError(f"there is no metric {sorted(unknown)[0]}")
        self._values = self._values | values  # other threads see all of it or nothing

    def saved(self, seconds: float) -> None:
        """Tell that a checkpoint was written, in so many seconds."""
        self._saved_at = time.monotonic()
        self.update(checkpoint_seconds=seconds)

    def collect(self) -> Iterator[Any]:
        """All that is known, for the registry."""
        now, known = time.monotonic(), self._values | {"lag": self.lag()}
        rows, before = known.get("rows"), self._before
        if rows is not None:
            if before is not None:  # else a run that was resumed has rows already
                known["rows_per_second"] = (rows - before[1]) / max(now - before[0], 1e-9)
            self._before = now, rows
        if self._saved_at is not None:
            known["checkpoint_age_seconds"] = now - self._saved_at
        for name, (kind, what) in _METRICS.items():
            value = known.get(name)
            if value is not None and not math.isnan(value):
                yield self._families[kind](f"fires_{name}", what, value)

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def metrics_address(text: str) -> tuple[int, str]:
    """The port and host that a user names."""
    found = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]:|([^:\[\]\s]+):)?(\d{1,5})", text, re.ASCII)
    if found is None or int(found[3]) > 65535:
        raise InputError(
            f"{text!r} is not an address for metrics", hint="give a port such as 9100, or HOST:PORT"
        )
    return int(found[3]), found[1] or found[2] or "127.0.0.1"
