"""The numbers of the paper's tables 3 and 4, as data."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

QUANTITIES = ("accuracy", "milliseconds_per_step", "stability")


def value(quantity: str, dataset: str, method: str) -> float | None:
    """A published number; None where the paper has none.

    Parameters
    ----------
    quantity : {"accuracy", "milliseconds_per_step", "stability"}
        Which table.
    dataset, method : str
        Its row and its column.

    Returns
    -------
    float or None
        As printed.

    Examples
    --------
    >>> value("accuracy", "Spambase", "FIRES-GLM")
    0.742
    >>> value("stability", "Spambase", "all features") is None
    True
    """
    number: float | None = document()[quantity].get(dataset, {}).get(method)
    return number


@cache
def document() -> dict[str, Any]:
    """All of it: the tables, where they are from, how they were made, and what is odd in them."""
    text = resources.files("fires.bench").joinpath("published.json").read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
