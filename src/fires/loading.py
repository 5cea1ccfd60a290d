"""Reading a saved selector or pipeline back."""

from __future__ import annotations

import os
from typing import Any

from fires.core.errors import StateError
from fires.core.state import read_state
from fires.pipeline import OnlinePipeline
from fires.predictors import as_predictor
from fires.selectors.loading import revive


def load(path: str | os.PathLike[str], model: Any = None, predictor: Any = None) -> Any:
    """A selector or a pipeline that goes on from where :meth:`save` left it, bit for bit.

    Parameters
    ----------
    path : path
        What was passed to ``save``.
    model : object, optional
        The model of the selector again, if it was an object of your own: the file holds its
        parameters, never its code. It is checked by class name and shapes.
    predictor : object, optional
        The predictor of a pipeline again, unless it was the built-in ``Perceptron``: with its
        settings, and checked in the same way. An estimator of scikit-learn is cloned; any other
        predictor becomes itself what was saved.

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
    where = repr(os.fspath(path))
    given = None if predictor is None else as_predictor(predictor)
    if header.get("class") != OnlinePipeline.__name__:
        if given is not None:
            raise ValueError(f"{where} does not hold a pipeline: there is no predictor in it.")
        return revive(header, arrays, model, where)
    try:
        return OnlinePipeline._revived(header, arrays, model, given, where)
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise StateError(
            f"{where} does not hold all that an OnlinePipeline needs to go on ({error!r})."
        ) from error
