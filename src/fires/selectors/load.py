"""Reading a saved selector back."""

from __future__ import annotations

import os
from typing import Any

from fires import selectors
from fires.core.errors import StateError
from fires.core.storage import read_state


def load(path: str | os.PathLike[str], model: Any = None) -> Any:
    """A selector that goes on from where :meth:`save` left it, bit for bit.

    Parameters
    ----------
    path : path
        What was passed to ``save``.
    model : object, optional
        The model again, if it was an object of your own: the file holds its parameters, never its
        code. It is checked by class name and shapes.

    Examples
    --------
    >>> import tempfile, numpy as np, fires
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), [0, 0, 1]
    >>> selector = fires.FIRES(1).partial_fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     selector.save(f"{folder}/state.safetensors")
    ...     again = fires.load(f"{folder}/state.safetensors")
    >>> bool((again.weights_ == selector.weights_).all())
    True
    """
    header, arrays = read_state(path)
    kind = header.get("class")
    if not isinstance(kind, str) or kind not in selectors.HOME:
        raise StateError(f"{os.fspath(path)!r} holds the state of {kind!r}, which is no selector.")
    selector = getattr(selectors, kind)()
    try:
        known = set(selector.get_params(deep=False))
        if not set(header["params"]) <= known:
            raise KeyError(f"settings unknown here: {sorted(set(header['params']) - known)}")
        selector._resume(header, arrays, model)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise StateError(
            f"{os.fspath(path)!r} does not hold all that a {kind} needs to go on ({error!r})."
        ) from error
    return selector
