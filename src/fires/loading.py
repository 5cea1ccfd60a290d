"""Load a saved selector or pipeline."""

from __future__ import annotations

import os
from typing import Any

from fires import rivals
from fires.core.errors import NotPassedAgain, StateError
from fires.core.state import Arrays, read_state, state_from_bytes, state_to_bytes
from fires.core.types import Estimator
from fires.models.base import BaseModel
from fires.pipeline import OnlinePipeline
from fires.predictors import as_predictor
from fires.selectors.selector import Selector


def load(
    path: str | os.PathLike[str], model: BaseModel | Estimator | None = None, predictor: Any = None
) -> Any:
    """Load a selector or a pipeline. It continues to learn where it was saved, bit for bit.

    A file contains learnt numbers and never code. So objects that are not part of fires, such as
    your own model or a scikit-learn estimator, must be passed again, with their settings. Their
    class and their shapes must fit the file.

    Parameters
    ----------
    path : path
        What was passed to ``save``. The file ``state.safetensors`` of ``fires select --out`` can be
        loaded too: it holds a pipeline.
    model : object, optional
        The model of the selector, if it is your own, or the estimator of ``FromModel`` or
        ``WindowRefit``.
    predictor : object, optional
        The predictor of a pipeline, unless it is one of fires itself, such as ``BayesLinear``.
        An estimator of scikit-learn is cloned; any other predictor is used
        itself.

    Returns
    -------
    selector or OnlinePipeline
        What was saved.

    Raises
    ------
    fires.core.errors.StateError
        If the file is damaged, is not a state file, or does not fit.

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
    return _restored(header, arrays, model, predictor, repr(os.fspath(path)))


def selector_to_bytes(selector: Selector) -> bytes:
    """What ``save`` writes to a file, as bytes, for a store that holds bytes.

    Examples
    --------
    >>> import numpy as np, fires
    >>> selector = fires.FIRES(1).partial_fit(np.array([[0.0, 1.0], [1.0, 0.0]]), [0, 1])
    >>> again = selector_from_bytes(selector_to_bytes(selector))
    >>> bool((again.weights_ == selector.weights_).all())
    True
    """
    return state_to_bytes(*selector.saved())


def selector_from_bytes(
    content: bytes, model: BaseModel | Estimator | None = None, where: str = "This state"
) -> Any:
    """The selector that :func:`selector_to_bytes` was given. It goes on learning, bit for bit.

    Parameters
    ----------
    content : bytes
        What :func:`selector_to_bytes` returned, or all of a saved file.
    model : object, optional
        As in :func:`load`.
    where : str
        What error messages call it.

    Returns
    -------
    selector

    Raises
    ------
    fires.core.errors.StateError
        If it is damaged, is no state, or does not fit.
    """
    return _restored(*state_from_bytes(content, where), model, None, where)


def _restored(
    header: dict[str, Any],
    arrays: Arrays,
    model: BaseModel | Estimator | None,
    predictor: Any,
    where: str,
) -> Any:
    """The object of a state, after all of it has been checked."""
    kind = header.get("class")
    predictor = None if predictor is None else as_predictor(predictor)
    try:
        if kind == OnlinePipeline.__name__:
            return OnlinePipeline.from_state(header, arrays, model, predictor, where)
        if predictor is not None:
            raise ValueError(f"{where} does not hold a pipeline: there is no predictor in it.")
        return rivals.from_state(header, arrays, model)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, ValueError) as error:
        is_callers = isinstance(error, NotPassedAgain) or not (model is None and predictor is None)
        if is_callers and isinstance(error, ValueError) and not isinstance(error, StateError):
            raise
        message = str(error) if isinstance(error, ValueError) else repr(error)
        raise StateError(
            f"{where} lacks data that {kind} needs to continue ({message})."
        ) from error
