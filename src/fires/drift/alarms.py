"""What an alarm tells."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from fires.core.types import Floats


class Detector(Protocol):
    """What we use of a drift detector, such as River's."""

    @property
    def drift_detected(self) -> bool: ...
    def update(self, x: float) -> Detector | None: ...


class Alarm(NamedTuple):
    """A change of what the features say about the target."""

    row: int
    batch: int
    feature: int | None
    strength: float


def alarms_to_array(alarms: list[Alarm]) -> Floats:
    """Alarms as numbers, for saving."""
    rows = [(*one[:2], -1 if one.feature is None else one.feature, one.strength) for one in alarms]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 4)


def alarms_from_array(numbers: Floats) -> list[Alarm]:
    """The alarms that :func:`alarms_to_array` was given."""
    return [
        Alarm(int(row), int(batch), None if feature < 0 else int(feature), strength)
        for row, batch, feature, strength in numbers.tolist()
    ]
