"""The contract of a predictor: it learns batch by batch, and new labels may come at any time."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fires.checks import running
from fires.checks.running import NamedCheck, expect, list_checks, run_checks
from fires.core.types import Codes, Floats, Labels
from fires.predictors.base import Predictor

_NAMES = np.array(["ant", "bee", "cat"])


def check_predictor(predictor: Any, **options: Any) -> None:
    """Check that an object can serve as the predictor of a pipeline.

    Parameters
    ----------
    predictor : object
        Has ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``, and has
        learnt nothing; :func:`fires.predictors.as_predictor` makes one of other objects. It is
        copied for every check and stays as it is.
    **options
        As in :func:`predictor_checks`.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires.predictors import Perceptron
    >>> check_predictor(Perceptron())
    """
    run_checks(predictor, predictor_checks(predictor, **options))


def predictor_checks(predictor: Predictor, *, skip: Collection[str] = ()) -> list[NamedCheck]:
    """The checks of :func:`check_predictor`, one by one."""
    parts = {
        LearningContract: True,
        ProbabilityContract: hasattr(predictor, "predict_proba"),
        StateContract: hasattr(predictor, "state") and hasattr(predictor, "restore"),
    }
    return list_checks([part(predictor) for part, applies in parts.items() if applies], skip)


def make_rows(n_classes: int, n_rows: int = 120) -> tuple[Floats, Codes]:
    """Rows around the corners of a simplex; the label is the number of the corner."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    return 4.0 * np.eye(n_classes)[y] + rng.normal(scale=0.2, size=(n_rows, n_classes)), y


def taught(predictor: Any, n_classes: int = 2, **options: Any) -> tuple[Any, Floats, Labels]:
    """A copy of a predictor that has learnt from rows, with the rows and their labels."""
    X, y = make_rows(n_classes)
    model = copy.deepcopy(predictor)
    for part in np.split(np.arange(len(X)), 3):
        model.partial_fit(X[part], _NAMES[y[part]], **options)
    return model, X, _NAMES[y]


def expect_learnt(model: Predictor, X: Floats, y: Labels) -> None:
    """Expect that nearly all rows are predicted correctly."""
    share = np.mean(model.predict(X) == y)
    expect(share > 0.9, f"{share:.0%} of rows that are easily told apart are predicted rightly")


@dataclass(frozen=True)
class LearningContract:
    """What holds for every predictor."""

    _predictor: Predictor

    def _new(self) -> Any:
        return copy.deepcopy(self._predictor)

    def two_classes_are_learnt(self) -> None:
        """Classes that are easy to tell apart are predicted correctly after a few batches."""
        expect_learnt(*taught(self._predictor))

    def three_classes_are_learnt(self) -> None:
        """Three classes are learnt as well as two."""
        expect_learnt(*taught(self._predictor, 3))

    def labels_come_back_as_they_were(self) -> None:
        """A prediction is one of the user's own labels, of their type."""
        X, codes = make_rows(2)
        for labels in (np.array([-7, 3]), np.array([False, True]), _NAMES):
            found = self._new().partial_fit(X, labels[codes]).predict(X)
            expect(found.shape == codes.shape, f"{found.shape} for {len(codes)} rows")
            expect(set(found.tolist()) <= set(labels.tolist()), f"{found[:5]} are not of {labels}")

    def classes_may_be_given_beforehand(self) -> None:
        """With ``classes``, a batch may hold one class only, and another label is refused."""
        X, codes = make_rows(2)
        y, model, classes = _NAMES[codes], self._new(), ["bee", "ant"]
        for label in (0, 1):
            model.partial_fit(X[codes == label], y[codes == label], classes=classes)
        assert_array_equal(model.classes_, sorted(classes))
        before = model.predict(X)
        running.expect_refusal("'cat'", model.partial_fit, X[:1], _NAMES[2:], classes=classes)
        assert_array_equal(model.predict(X), before, err_msg="what was refused has left a trace")
        model.partial_fit(X, y, classes=classes)
        expect_learnt(model, X, y)

    def new_labels_are_taken_up(self) -> None:
        """Without ``classes``, labels may come one after the other, longer ones too."""
        X, codes = make_rows(2)
        for names in (np.array(["b", "a long name"]), np.array(["a long name", "b"])):
            model = self._new()
            for n_known in (1, 2):
                rows, known = codes == n_known - 1, names[:n_known]
                model.partial_fit(X[rows], names[codes[rows]])
                assert_array_equal(model.classes_, np.sort(known))
                expect(np.isin(model.predict(X), known).all(), f"it predicts more than {known}")
            expect_learnt(model.partial_fit(X, names[codes]), X, names[codes])

    def a_row_of_weight_w_is_w_rows(self) -> None:
        """A whole number as ``sample_weight`` says how often a row is learnt."""
        X, codes = make_rows(2)
        weight = np.arange(len(X)) % 3
        rows = np.repeat(np.arange(len(X)), weight)
        weighted, repeated = self._new(), self._new()
        weighted.partial_fit(X, _NAMES[codes], sample_weight=weight.astype(float))
        repeated.partial_fit(X[rows], _NAMES[codes[rows]])
        assert_array_equal(weighted.predict(X), repeated.predict(X))

    def nothing_that_was_passed_is_changed(self) -> None:
        """Rows, labels and weights are only read: they may be read-only."""
        X, codes = make_rows(2)
        y, weight = _NAMES[codes], np.ones(len(X))
        before = [array.tobytes() for array in (X, y, weight)]
        for array in (X, y, weight):
            array.flags.writeable = False
        self._new().partial_fit(X, y, sample_weight=weight).predict(X)
        expect(before == [array.tobytes() for array in (X, y, weight)], "something was changed")

    def global_random_numbers_are_not_moved(self) -> None:
        """What is random does not come from the global random numbers."""
        with running.no_global_randomness():
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
        again = self._new()
        again.restore(*model.state())
        for _ in range(2):
            assert_array_equal(again.predict(X), model.predict(X))
            assert_array_equal(again.classes_, model.classes_)
            for one in (model, again):
                one.partial_fit(X, y)
