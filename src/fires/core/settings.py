"""Settings: checked with a one-line error that names them, and written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import field, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np

from fires.core.errors import NotPassedAgain

_MAX_FLOAT = float(np.finfo(np.float64).max)
_T = TypeVar("_T")


# --- settings that are declared with what they may be: defaults of the fields of a dataclass ------


def checked(default: _T, check: Callable[[str, Any], object]) -> _T:
    """A setting with this default; ``check`` gets its name and its value, unless both are None."""
    return field(default=default, metadata={"check": check})


def number(
    default: _T, low: float = 0.0, high: float = np.inf, *, ends: str = "()", wanted: str = ""
) -> _T:
    """A setting that :func:`check_number` allows."""
    return checked(default, partial(check_number, low=low, high=high, ends=ends, wanted=wanted))


def count(default: _T) -> _T:
    """A setting that is 1, 2, 3, ..."""
    return checked(default, check_count)


def choice(default: _T, *others: _T) -> _T:
    """A setting that is its default, or one of some others."""
    return checked(default, partial(check_choice, choices=(default, *others)))


def flag(default: bool) -> bool:
    """A setting that is True or False."""
    return checked(default, partial(check_choice, choices=(True, False), wanted="True or False"))


def check_declared(kind: Any, values: Mapping[str, Any]) -> None:
    """Raise an error if a declared setting of a dataclass is not what it may be.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Learner:
    ...     rate: float = number(0.1, high=1.0)
    >>> check_declared(Learner, {"rate": 2.0})
    Traceback (most recent call last):
    ValueError: rate must be a number greater than 0 and less than 1; got 2.0.
    """
    for each in fields(kind):
        check, value = each.metadata.get("check"), values.get(each.name)
        if check is not None and not (value is None and each.default is None):
            check(each.name, value)


# --- checks -----------------------------------------------------------------------------------


def check_number(
    name: str,
    value: Any,
    low: float = 0.0,
    high: float = np.inf,
    *,
    ends: str = "()",
    wanted: str = "",
) -> None:
    """Raise an error unless the value is a number within the bounds.

    Examples
    --------
    >>> check_number("rate", 0.5)
    >>> check_number("share", 1.5, high=1.0, ends="[]")
    Traceback (most recent call last):
    ValueError: share must be a number at least 0 and at most 1; got 1.5.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(value, Integral):  # it may be too large to be computed with
        number &= abs(int(value)) <= _MAX_FLOAT
    above = number and (low < value or (value == low and ends[0] == "["))
    if not above or not (value < high or (value == high and ends[1] == "]")):
        raise _wrong(name, wanted or _between(low, high, ends), value)


def check_count(name: str, value: Any) -> None:
    """Raise an error unless the value is 1, 2, 3, ..."""
    if not is_count(value):
        raise _wrong(name, "a positive integer", value)


def is_count(value: Any) -> bool:
    """Whether the value is 1, 2, 3, ..."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and 1 <= int(value) < 2**63


def check_choice(name: str, value: Any, choices: Collection[Any], wanted: str = "") -> None:
    """Raise an error unless the value is one of the choices.

    Examples
    --------
    >>> check_choice("loss", "hinge", ("logistic", "squared"))
    Traceback (most recent call last):
    ValueError: loss must be one of 'logistic', 'squared'; got 'hinge'.
    """
    single = value is None or np.isscalar(value)  # an array or list is never a choice
    if not single or value not in tuple(choices):
        raise _wrong(name, wanted or f"one of {', '.join(map(repr, choices))}", value)


def how_many(wanted: Any, n: int) -> int | None:
    """How many of n features an integer or a fraction in (0, 1) asks for; None if it is neither.

    Examples
    --------
    >>> how_many(3, 10), how_many(0.25, 10), how_many(0.01, 10), how_many(1.0, 10)
    (3, 2, 1, None)
    """
    if is_count(wanted):
        return int(wanted)
    real = isinstance(wanted, Real) and not isinstance(wanted, Integral)
    return max(1, int(wanted * n)) if real and 0.0 < wanted < 1.0 else None


def _wrong(name: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be {wanted}; got {value!r}.")


def _between(low: float, high: float, ends: str) -> str:
    words = []
    if low > -np.inf:
        words.append(f"{'at least' if ends[0] == '[' else 'greater than'} {low:g}")
    if high < np.inf:
        words.append(f"{'at most' if ends[1] == ']' else 'less than'} {high:g}")
    return f"a number {' and '.join(words)}" if words else "a finite number"


def plain(value: Any) -> Any:
    """A setting as a JSON value: sequences become lists, and a generator becomes None."""
    if isinstance(value, (np.random.Generator, np.random.RandomState)):
        return None
    if hasattr(value, "__array__") and not isinstance(value, np.generic):
        return np.asarray(value).tolist()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (Sequence, Set)) and not isinstance(value, (str, bytes)):
        return [plain(part) for part in value]
    return value


def same_kind(model: Any, found: str, wanted: str, what: str) -> Any:
    """The model passed to ``fires.load``, if its class is the one that was saved."""
    if model is None:
        raise NotPassedAgain(
            f"This state was learnt with {what}, {wanted}: pass it again, "
            "fires.load(path, model=...)."
        )
    if found != wanted:
        raise ValueError(f"This state was learnt with {wanted}; model is a {found}.")
    return model
