"""A selector under check, and how two selectors are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fires.checks import data
from fires.checks.data import XY, Form
from fires.checks.running import expect
from fires.core.state import read_state
from fires.selectors.base import OnlineSelector

BOTH_FORMS: tuple[Form, Form] = (np.asarray, sp.csr_array)


@dataclass(frozen=True)
class SelectorContract:
    """A selector, its target, and the options of ``fires.load``. Subclasses add the checks."""

    _selector: OnlineSelector
    _target: str
    _load_options: Mapping[str, Any]

    def _new(self, **settings: Any) -> OnlineSelector:
        """A selector that has learnt nothing."""
        fresh: OnlineSelector = clone(self._selector).set_params(**settings)
        return fresh

    def _batches(self, n_batches: int = 4, n_rows: int = 25, seed: int = 0) -> Iterator[XY]:
        return data.make_batches(self._target, n_batches, n_rows, seed)

    def _learn(
        self,
        batches: Iterable[XY] | None = None,
        form: Form = np.asarray,
        selector: OnlineSelector | None = None,
        **options: Any,
    ) -> OnlineSelector:
        """Let a selector, by default a new one, learn from batches in some form."""
        selector = self._new() if selector is None else selector
        for X, y in self._batches() if batches is None else batches:
            selector.partial_fit(form(X), y, **options)
        return selector

    @property
    def _classes(self) -> Any:
        """All labels, or None where there are none."""
        return data.CLASSES.get(self._target)


def saved_state(
    selector: OnlineSelector,
) -> tuple[dict[str, Any], dict[str, tuple[np.dtype[np.generic], tuple[int, ...], bytes]]]:
    """What a selector would save, without its settings, in a form that can be compared."""
    with TemporaryDirectory() as folder:
        selector.save(Path(folder) / "state")
        header, arrays = read_state(Path(folder) / "state")
    del header["params"]
    return header, {name: (a.dtype, a.shape, a.tobytes()) for name, a in arrays.items()}


def learnt_names(selector: OnlineSelector) -> list[str]:
    """The names of the attributes that a selector has got by learning."""
    return [name for name in vars(selector) if name.endswith("_")]


def expect_alike(
    one: OnlineSelector, other: OnlineSelector, what: str = "", rtol: float = 1e-9
) -> None:
    """Expect two selectors to have equal, finite weights and the same support."""
    atol = 1e-12 if rtol else 0.0
    assert_allclose(one.weights_, other.weights_, rtol=rtol, atol=atol, err_msg=what)
    assert_array_equal(one.get_support(), other.get_support(), err_msg=what)
    expect_finite(one, what)


def expect_same_state(one: OnlineSelector, other: OnlineSelector, what: str) -> None:
    """Expect two selectors to have the same state, to the bit."""
    expect_alike(one, other, what, rtol=0.0)
    expect(saved_state(one) == saved_state(other), f"{what}: what they would save differs")


def expect_finite(selector: OnlineSelector, what: str) -> None:
    """Expect that no weight is NaN or infinite."""
    expect(np.isfinite(selector.weights_).all(), f"{what}: weights are {selector.weights_}")
