"""The contract of a predictor: it learns batch by batch, and new labels may come at any time."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fires.checks.running import (
    NamedCheck,
    expect,
    expect_refusal,
    list_checks,
    run_checks,
    untouched_random_numbers,
)

_NAMES = np.array(["ant", "bee", "cat"])


def check_predictor(predictor: Any, *, skip: Collection[str] = ()) -> None:
    """Check that an object can serve as the predictor of a pipeline.

    Parameters
    ----------
    predictor : object
        Has ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``, and has
        learnt nothing; :func:`fires.predictors.as_predictor` makes one of other objects. It is
        copied for every check and stays as it is.
    skip : collection of str
        The names of checks that this predictor does not keep. Candidates are
        ``new_labels_are_taken_up``, ``a_row_of_weight_w_is_w_rows`` and
        ``three_classes_are_learnt``.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires.predictors import Perceptron
    >>> check_predictor(Perceptron())
    """
    run_checks(predictor, predictor_checks(predictor, skip=skip))


def predictor_checks(predictor: Any, *, skip: Collection[str] = ()) -> list[NamedCheck]:
    """The checks of :func:`check_predictor`, one by one.

    Parameters
    ----------
    predictor, skip
        As in :func:`check_predictor`.

    Returns
    -------
    list of (str, callable)
        The name of each check, and a function without arguments that runs it.
    """
    parts = {
        LearningContract: True,
        ProbabilityContract: hasattr(predictor, "predict_proba"),
        StateContract: hasattr(predictor, "state") and hasattr(predictor, "restore"),
    }
    return list_checks([part(predictor) for part, applies in parts.items() if applies], skip)


def make_rows(n_classes: int, n_rows: int = 120) -> tuple[Any, Any]:
    """Rows around the corners of a simplex, and the number of the corner."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    return 4.0 * np.eye(n_classes)[y] + rng.normal(scale=0.2, size=(n_rows, n_classes)), y


def taught(predictor: Any, n_classes: int = 2, **options: Any) -> tuple[Any, Any, Any]:
    """A copy that has learnt from rows, with the rows and their labels."""
    X, y = make_rows(n_classes)
    model = copy.deepcopy(predictor)
    for part in np.split(np.arange(len(X)), 3):
        model.partial_fit(X[part], _NAMES[y[part]], **options)
    return model, X, _NAMES[y]


def expect_learnt(model: Any, X: Any, y: Any) -> None:
    """Expect that nearly all rows are predicted rightly."""
    share = np.mean(model.predict(X) == y)
    expect(share > 0.9, f"{share:.0%} of rows that are easily told apart are predicted rightly")


@dataclass(frozen=True)
class LearningContract:
    """What holds for every predictor."""

    _predictor: Any

    def two_classes_are_learnt(self) -> None:
        """Rows that are easily told apart are predicted rightly after a few batches."""
        expect_learnt(*taught(self._predictor))

    def three_classes_are_learnt(self) -> None:
        """A third class is as good as two."""
        expect_learnt(*taught(self._predictor, 3))

    def labels_come_back_as_they_were(self) -> None:
        """A prediction is one of the user's own labels, of their type."""
        X, codes = make_rows(2)
        for labels in (np.array([-7, 3]), np.array([False, True]), _NAMES):
            model = copy.deepcopy(self._predictor)
            y = labels[codes]
            model.partial_fit(X, y)
            found = model.predict(X)
            expect(found.shape == y.shape, f"{found.shape} for {len(y)} rows")
            expect(
                set(found.tolist()) <= set(y.tolist()),
                f"{set(found.tolist())} is predicted for {labels}",
            )

    def classes_may_be_given_beforehand(self) -> None:
        """With ``classes``, a batch may hold one class only, and another label is refused."""
        X, codes = make_rows(2)
        y, model, classes = _NAMES[codes], copy.deepcopy(self._predictor), ["bee", "ant"]
        for label in (0, 1):
            model.partial_fit(X[codes == label], y[codes == label], classes=classes)
        assert_array_equal(model.classes_, sorted(classes))
        before = model.predict(X)
        expect_refusal("'cat'", model.partial_fit, X[:1], _NAMES[2:], classes=classes)
        assert_array_equal(model.predict(X), before, err_msg="what was refused has left a trace")
        model.partial_fit(X, y, classes=classes)
        expect_learnt(model, X, y)

    def new_labels_are_taken_up(self) -> None:
        """Without ``classes``, labels may come one after the other, longer ones too."""
        X, codes = make_rows(2)
        for order in ((0, 1), (1, 0)):
            names, model = (
                np.array(["b", "a long name"])[list(order)],
                copy.deepcopy(self._predictor),
            )
            for label in (0, 1):
                rows = codes == label
                model.partial_fit(X[rows], names[codes[rows]])
                known = names[: label + 1].tolist()
                assert_array_equal(model.classes_, sorted(known))
                expect(
                    set(model.predict(X).tolist()) <= set(known), f"it predicts more than {known}"
                )
            model.partial_fit(X, names[codes])
            expect_learnt(model, X, names[codes])

    def a_row_of_weight_w_is_w_rows(self) -> None:
        """A whole number as ``sample_weight`` says how often a row is learnt."""
        X, codes = make_rows(2)
        weight = np.arange(len(X)) % 3
        rows = np.repeat(np.arange(len(X)), weight)
        weighted, repeated = copy.deepcopy(self._predictor), copy.deepcopy(self._predictor)
        weighted.partial_fit(X, _NAMES[codes], sample_weight=weight.astype(float))
        repeated.partial_fit(X[rows], _NAMES[codes[rows]])
        assert_array_equal(weighted.predict(X), repeated.predict(X))

    def nothing_that_was_passed_is_changed(self) -> None:
        """Rows, labels and weights are only read: they may be read-only."""
        X, codes = make_rows(2)
        given = [X, _NAMES[codes], np.ones(len(X))]
        before = [array.copy() for array in given]
        for array in given:
            array.flags.writeable = False
        copy.deepcopy(self._predictor).partial_fit(X, given[1], sample_weight=given[2]).predict(X)
        for now, then in zip(given, before, strict=True):
            assert_array_equal(now, then)

    def global_random_numbers_are_not_moved(self) -> None:
        """What is random does not come from the global random numbers."""
        with untouched_random_numbers():
            taught(self._predictor)

    def a_copy_learns_apart(self) -> None:
        """``copy.deepcopy`` makes a twin that does not follow what the original learns."""
        model, X, y = taught(self._predictor)
        before, twin = model.predict(X), copy.deepcopy(model)
        for _ in range(5):
            model.partial_fit(X, y[::-1])
        assert_array_equal(twin.predict(X), before)


class ProbabilityContract(LearningContract):
    """What holds where there is ``predict_proba``."""

    def probabilities_belong_to_the_classes(self) -> None:
        """Each row has a probability for each of ``classes_``; the greatest is predicted."""
        model, X, _ = taught(self._predictor)
        P = model.predict_proba(X)
        expect(P.shape == (len(X), len(model.classes_)), f"probabilities have the shape {P.shape}")
        assert_allclose(P.sum(axis=1), 1.0, rtol=1e-9)
        assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))


class StateContract(LearningContract):
    """What holds where there are ``state`` and ``restore``."""

    def a_restored_state_goes_on_alike(self) -> None:
        """``restore(*state())`` makes a twin of a new one, which learns on alike."""
        model, X, y = taught(self._predictor)
        again = copy.deepcopy(self._predictor)
        again.restore(*model.state())
        for _ in range(2):
            assert_array_equal(again.predict(X), model.predict(X))
            assert_array_equal(again.classes_, model.classes_)
            for one in (model, again):
                one.partial_fit(X, y)
