"""Reading a saved selector or pipeline back."""

from __future__ import annotations

import os
from typing import Any

from fires import selectors
from fires.core.errors import StateError
from fires.core.state import read_state
from fires.pipeline import OnlinePipeline
from fires.predictors import as_predictor


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

    Returns
    -------
    selector or OnlinePipeline

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
    kind = header.get("class")
    predictor = None if predictor is None else as_predictor(predictor)
    try:
        if kind == OnlinePipeline.__name__:
            return OnlinePipeline.from_state(header, arrays, model, predictor, where)
        if predictor is not None:
            raise ValueError(f"{where} does not hold a pipeline: there is no predictor in it.")
        return selectors.from_state(header, arrays, model)
    except (StateError, KeyError, TypeError, AttributeError, IndexError, OverflowError) as error:
        said = str(error) if isinstance(error, StateError) else repr(error)
        raise StateError(
            f"{where} does not hold all that a {kind} needs to go on ({said})."
        ) from error
