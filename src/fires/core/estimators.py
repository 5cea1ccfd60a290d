"""Save and restore what an estimator of scikit-learn has learnt."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from fires.core.classes import as_text, from_text
from fires.core.errors import StateError
from fires.core.randomness import check_place, generator_state, restore_generator
from fires.core.settings import plain
from fires.core.state import Arrays, State
from fires.core.types import Header, Seed

# Objects that scikit-learn makes anew in every step: they need not be saved.
_MADE_ANEW = {"_loss_function_"}
_PLAIN = (type(None), bool, int, float, str)


def learnt_state(estimator: BaseEstimator) -> State:
    """What an estimator has learnt, without its settings and its code.

    Only arrays, numbers, text, flags, None and random states can be saved. That is enough for
    scikit-learn's linear models and naive Bayes; anything else is refused by its name.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> model = GaussianNB().partial_fit(np.eye(2), ["a", "b"], classes=["a", "b"])
    >>> header, arrays = learnt_state(model)
    >>> take_up(GaussianNB(), header, arrays).predict(np.eye(2))
    array(['a', 'b'], dtype='<U1')
    """
    learnt: dict[str, Header | None] = {}
    arrays: Arrays = {}
    settings = estimator.get_params(deep=False)
    named: dict[int, str] = {}  # two attributes may share one array, and still do after loading
    for name, value in vars(estimator).items():
        if name in settings or name in _MADE_ANEW:
            continue
        if id(value) in named and isinstance(value, np.ndarray):
            learnt[name] = {"same": named[id(value)]}
        else:
            learnt[name] = _written(value, f"learnt.{name}", arrays)
        named[id(value)] = name
        if learnt[name] is None:
            raise ValueError(
                f"{type(estimator).__name__} cannot be saved: its {name} is a "
                f"{type(value).__name__}, and not an array, number or text."
            )
    states = {n: _written(v, f"random.{n}", arrays) for n, v in random_states(estimator).items()}
    return {"learnt": learnt, "random_states": states}, arrays


def take_up(
    estimator: BaseEstimator,
    header: Any,
    arrays: Arrays,
    given: str = "model",
    *,
    single: bool = False,
) -> BaseEstimator:
    """A clone of the estimator, with its settings, that goes on from :func:`learnt_state`."""
    again = clone(estimator)
    states = header["random_states"].items()
    again.set_params(**{name: _read(v, f"random.{name}", arrays) for name, v in states})
    for name, written in header["learnt"].items():
        if "same" in written:
            value = vars(again)[written["same"]]
        else:
            value = _read(written, f"learnt.{name}", arrays)
        own = vars(estimator).get(name)
        if isinstance(own, np.ndarray) and own.shape != np.shape(value):
            raise ValueError(
                f"This state was learnt with {name} of shape {np.shape(value)}; that of {given} "
                f"has shape {own.shape}."
            )
        if name.startswith("__") or callable(getattr(type(again), name, None)):
            raise StateError(f"{name} is nothing that a {type(again).__name__} learns")
        setattr(again, name, value)
    _try(again, sum(array.size for array in arrays.values()), single)
    return again


def _try(estimator: BaseEstimator, most: int, single: bool) -> None:
    """Let a copy learn from rows of zeros; StateError if that fails.

    A ValueError is accepted: it may be about the rows, not about the state.
    """
    n_features = getattr(estimator, "n_features_in_", None)
    if n_features is None:
        return
    if type(n_features) is not int or not 0 < n_features <= most:
        raise StateError(f"n_features_in_ is {n_features!r:.60}, with {most} numbers learnt")
    y = np.atleast_1d(getattr(estimator, "classes_", 0.0))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            learnt = getattr(estimator, "coef_", np.zeros(1))
            dtype = np.result_type(learnt, np.float32) if single else np.float64
            zeros = np.zeros((len(y), n_features), dtype=dtype)
            copy.deepcopy(estimator).partial_fit(zeros, y)
    except ValueError:
        pass
    except Exception as error:
        name = type(estimator).__name__
        raise StateError(f"{name} cannot continue from it ({error!r:.200})") from None


def random_states(estimator: BaseEstimator) -> dict[str, Seed]:
    """All settings called random_state, including those of nested estimators."""
    settings = estimator.get_params(deep=True)
    return {n: v for n, v in settings.items() if n.split("__")[-1] == "random_state"}


def seeded_clone(estimator: BaseEstimator, rng: np.random.Generator) -> BaseEstimator:
    """A new clone of an estimator, which does not use NumPy's global random state."""
    fresh = clone(estimator)
    seeds = {
        name: int(rng.integers(2**31 - 1))
        for name, value in sorted(random_states(fresh).items())
        if value is None
    }
    return fresh.set_params(**seeds)


def _written(value: Any, name: str, arrays: Arrays) -> Header | None:
    """A learnt value as JSON, with its numbers in ``arrays``; None if it cannot be saved."""
    if type(value) in _PLAIN:
        return {"value": value}
    if isinstance(value, np.random.RandomState):
        return {"RandomState": plain(value.get_state(legacy=False))}
    if isinstance(value, np.random.Generator):
        return {"Generator": generator_state(value)}
    if type(value) is not np.ndarray and not isinstance(value, np.generic):
        return None
    if value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        arrays[name] = np.asarray(value)
        # The memory order is kept: products in another order may differ in the last bits.
        return {"numbers": isinstance(value, np.ndarray), "fortran": value.flags.fnc}
    if value.dtype.kind in "UO" and all(isinstance(part, str) for part in value.ravel()):
        return {"text": as_text(np.asarray(value))}
    return None


def _read(written: Any, name: str, arrays: Arrays) -> Any:
    """The value that :func:`_written` wrote."""
    if "value" in written:
        if type(written["value"]) not in _PLAIN:
            raise StateError(f"{name} is {written['value']!r:.60}, not a plain value")
        return written["value"]
    if "numbers" in written:
        array = np.asarray(arrays[name], order="F" if written.get("fortran") else "C")
        return array if written["numbers"] else array[()]
    if "text" in written:
        return from_text(written["text"])
    if "RandomState" in written:
        check_place(written["RandomState"])
        state = np.random.RandomState()
        state.set_state(written["RandomState"])
        return state
    return restore_generator(written["Generator"])
