"""What y may be: labels of any kind in any order of arrival, or nothing."""

from __future__ import annotations

from typing import Any

from numpy.testing import assert_array_equal

from fires.checks import data
from fires.checks.running import expect, expect_refusal
from fires.checks.selectors.contract import (
    BOTH_FORMS,
    SelectorContract,
    expect_alike,
    expect_finite,
    saved_state,
)


class LabelContract(SelectorContract):
    """What holds for the labels that a selector learns from."""

    def labels_may_be_anything(self) -> None:
        """Labels are what the user calls them, of any type; ``classes_`` holds them in order."""
        expected, n_classes = self._learn(), len(self._classes)
        for labels in data.LABELS:
            known = labels[:n_classes].tolist()
            if len(known) == n_classes:
                found = self._learn((X, labels[y]) for X, y in self._batches())
                expect_alike(found, expected, str(known), rtol=0.0)
                expect(found.classes_.tolist() == known, f"{found.classes_} are not {known}")

    def a_stream_may_be_sorted_by_class(self) -> None:
        """With ``classes`` given, a batch may hold rows of one class only."""
        self._learn_class_by_class(classes=self._classes)

    def new_labels_are_taken_up(self) -> None:
        """Without ``classes``, labels are added as they arrive, and ``classes_`` stays in order."""
        self._learn_class_by_class()

    def _learn_class_by_class(self, **options: Any) -> None:
        X, y = data.joined(self._batches())
        for order in (self._classes, self._classes[::-1]):
            parts = [(X[y == label], y[y == label]) for label in order]
            for form in BOTH_FORMS:
                selector = self._learn(parts, form, **options)
                assert_array_equal(selector.classes_, self._classes)
                expect_finite(selector, f"classes in the order {order.tolist()}")

    def a_label_outside_the_classes_given_is_refused(self) -> None:
        """With ``classes`` given, another label and other classes are refused."""
        X, y = next(self._batches())
        selector = self._new().partial_fit(X, y, classes=self._classes)
        before, learn = saved_state(selector), selector.partial_fit
        expect_refusal("the label 9, which is not in classes=", learn, X, [9, *y[1:]])
        expect_refusal("does not fit the classes known", learn, X, y, classes=[0, 5])
        expect(saved_state(selector) == before, "what was refused has left a trace")


class NoTargetContract(SelectorContract):
    """What holds for a method that needs no target."""

    def y_is_not_looked_at(self) -> None:
        """Every y is taken, and changes nothing."""
        X, _ = next(self._batches())
        alone = self._new().partial_fit(X)
        odd: list[Any] = [["a"] * len(X), [None] * len(X), [0.5], object()]
        for y in odd:
            expect_alike(self._new().partial_fit(X, y, classes=["b", "c"]), alone, rtol=0.0)
            expect_alike(self._new().fit(X, y), alone, rtol=0.0)
        expect(not hasattr(alone, "classes_"), "it has classes_")
