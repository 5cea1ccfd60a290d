"""What an alarm tells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fires.core.belief import Floats


class Alarm(NamedTuple):
    """A change of what the features say about the target.

    Attributes
    ----------
    row : int
        How many rows had been learnt from when it was raised.
    batch : int
        The batch it was raised in, counted from 0.
    feature : int or None
        The column whose importance changed; None if the predictions as a whole got worse.
    strength : float
        For all features: the logarithm of how much better the target is told without them than
        with them, since the change. For one feature: by how many standard deviations its
        importance has moved.
    """

    row: int
    batch: int
    feature: int | None
    strength: float


def alarms_to_array(alarms: list[Alarm]) -> Floats:
    """Alarms as numbers, for saving.

    Parameters
    ----------
    alarms : list of Alarm
        In order.

    Returns
    -------
    ndarray (n_alarms, 4)
        A feature of -1 is None.
    """
    rows = [(*one[:2], -1 if one.feature is None else one.feature, one.strength) for one in alarms]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 4)


def alarms_from_array(numbers: Floats) -> list[Alarm]:
    """The alarms that :func:`alarms_to_array` was given.

    Parameters
    ----------
    numbers : ndarray (n_alarms, 4)
        What was saved.

    Returns
    -------
    list of Alarm
    """
    return [
        Alarm(int(row), int(batch), None if feature < 0 else int(feature), strength)
        for row, batch, feature, strength in numbers.tolist()
    ]
