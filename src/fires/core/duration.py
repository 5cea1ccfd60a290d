"""Durations as people write them: 90s, 5m, 12h, 7d, 2w."""

from __future__ import annotations

import re
from datetime import timedelta

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def seconds_of(duration: object) -> float | None:
    """The seconds of a duration above zero; None if it is none.

    Examples
    --------
    >>> seconds_of("7d"), seconds_of("1.5 h"), seconds_of("7"), seconds_of(timedelta(minutes=2))
    (604800.0, 5400.0, None, 120.0)
    """
    if isinstance(duration, timedelta):
        return duration.total_seconds() if duration > timedelta() else None
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*([smhdw])", str(duration).strip())
    return None if found is None else float(found[1]) * _SECONDS[found[2]] or None
