"""What ``check_selector`` says of selectors that break the contract, each in one place."""

import numpy as np
import pytest

from fires import FIRES, FSDS, OFS, checks
from fires.checks.selectors import find_target
from fires.models import Linear
from fires.predictors import Perceptron
from fires.selectors.base import OnlineSelector


class ClassMeans(OnlineSelector):
    """Weighs a feature by how far the sums of two classes lie apart; written outside of fires."""

    def __init__(self, n_features_to_select=3):
        self.n_features_to_select = n_features_to_select

    def _learn(self, batch):
        self._step(batch.X, batch.weight, *self._take_signs(batch))

    def _step(self, X, weight, signs, turned):
        rows = signs if weight is None else signs * weight
        step = rows @ np.nan_to_num(X.toarray() if hasattr(X, "toarray") else X)
        before = getattr(self, "total_", np.zeros(X.shape[1]))
        self.total_ = (-before if turned else before) + step

    def _weights(self):
        return np.abs(self.total_)

    def _state(self):
        return {}, {"total": self.total_}

    def _restore(self, header, arrays, model):
        self.total_ = arrays["total"]


class WritesIntoX(ClassMeans):
    def _step(self, X, *rest):
        super()._step(X, *rest)
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X[0] = 0.0


class IgnoresWeights(ClassMeans):
    _weights_repeat_rows = True

    def _step(self, X, weight, *rest):
        super()._step(X, None, *rest)


class MovesRandomNumbers(ClassMeans):
    def _step(self, *batch):
        np.random.random()  # noqa: NPY002
        super()._step(*batch)


class LearnsInPlace(ClassMeans):
    """Writes into what it has learnt, and finds fault with the batch only then."""

    def _learn(self, batch):
        if hasattr(self, "total_"):
            self.total_ += 1.0
        super()._learn(batch)


class NeedsTwoRows(ClassMeans):
    def _step(self, X, *rest):
        super()._step(X, *rest)
        if X.shape[0] == 1:
            self.total_ = np.full(X.shape[1], np.nan)


def test_a_selector_written_outside_is_checked_without_more_ado():
    checks.check_selector(ClassMeans(3))


@pytest.mark.parametrize(
    ("selector", "sentence"),
    [
        (WritesIntoX(3), "nothing_that_was_passed_is_changed"),
        (IgnoresWeights(3), "a_row_of_weight_w_is_w_rows"),
        (MovesRandomNumbers(3), "global_random_numbers_are_neither_read_nor_moved"),
        (LearnsInPlace(3), "a_label_outside_the_classes_given_is_refused|a_refused_batch"),
        (NeedsTwoRows(3), "rows_may_come_one_by_one"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OnlineSelector) else "",
)
def test_a_broken_selector_is_told_what_it_fails(selector, sentence):
    with pytest.raises(AssertionError, match=rf"^{type(selector).__name__} fails ({sentence})"):
        checks.check_selector(selector)


@pytest.mark.parametrize(
    ("selector", "target"),
    [
        (FSDS(3), "none"),
        (OFS(3), "two classes"),
        (FIRES(3), "many classes"),
        (FIRES(3, model="gaussian"), "numbers"),
        (FIRES(3, model="poisson"), "counts"),
    ],
)
def test_the_target_is_found_out(selector, target):
    assert find_target(selector) == target


def test_a_selector_that_learns_from_nothing_is_told_why():
    with pytest.raises(AssertionError, match=r"learns from no target \(.*model must be"):
        checks.check_selector(FIRES(3, model="flavour"))


def test_checks_to_be_skipped_are_not_listed():
    skip = ["a_constant_weight_changes_nothing"]
    all_, some = checks.selector_checks(FIRES(3)), checks.selector_checks(FIRES(3), skip=skip)
    assert {name for name, _ in all_} - {name for name, _ in some} == set(skip)


def test_the_selector_passed_in_learns_nothing():
    selector = OFS(3)
    checks.check_selector(selector)
    assert not hasattr(selector, "n_samples_seen_")


SUBJECTS = {"selector": FIRES(3), "model": Linear(), "predictor": Perceptron(), "stream": None}


@pytest.mark.parametrize("part", SUBJECTS)
def test_every_check_says_in_a_sentence_what_it_checks(part):
    listed = getattr(checks, f"{part}_checks")(SUBJECTS[part])
    assert len(listed) >= 10
    assert all(check.__doc__.endswith(".") for _, check in listed)
    assert len(dict(listed)) == len(listed)
