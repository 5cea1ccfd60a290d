"""A selector again, of the state it was saved with."""

from __future__ import annotations

from typing import Any

from fires import selectors
from fires.core.errors import StateError
from fires.core.state import Arrays


def revive(header: dict[str, Any], arrays: Arrays, model: Any, where: str) -> Any:
    """The selector whose ``_saved()`` this is.

    Parameters
    ----------
    header, arrays : dict
        What was read.
    model : object or None
        What the user passed to ``fires.load``.
    where : str
        What errors call the place that the state was read from.
    """
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in selectors.HOME:
        raise StateError(f"{where} holds the state of {kind!r}, which is no selector.")
    selector = getattr(selectors, kind)()
    try:
        known = set(selector.get_params(deep=False))
        if not set(header["params"]) <= known:
            raise KeyError(f"settings unknown here: {sorted(set(header['params']) - known)}")
        selector._resume(header, arrays, model)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise StateError(
            f"{where} does not hold all that a {kind} needs to go on ({error!r})."
        ) from error
    return selector
