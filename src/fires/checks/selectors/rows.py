"""What X and y may be, and what is selected: forms of rows, labels, weights, ranks, support."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

from fires.checks import data
from fires.checks.data import NAMES, as_plain, take_rows
from fires.checks.running import expect, expect_refusal
from fires.checks.selectors.contract import (
    BOTH_FORMS,
    SelectorContract,
    expect_alike,
    expect_finite,
    expect_same_state,
    saved_state,
)
from fires.core import validation


class RowContract(SelectorContract):
    """What holds for the rows that a selector learns from."""

    def nothing_that_was_passed_is_changed(self) -> None:
        """X, y, classes and weights are only read, and the memory of X is not handed out."""
        X, y = next(self._batches(seed=2))
        X = data.with_entry(X, np.nan)
        weight, classes = np.arange(25.0) % 3 + 1, take_rows(self._classes, slice(None, None, -1))
        for array in (y, weight, classes):
            if array is not None:  # writing into it raises an error
                array.flags.writeable = False
        for name, form in (data.DENSE_FORMS | data.SPARSE_FORMS).items():
            passed, selector = form(X), self._new()
            before = data.content(passed)
            for _ in range(2):
                selector.partial_fit(passed, y, classes=classes, sample_weight=weight)
            out = selector.transform(passed), selector.mask(passed)
            expect(data.content(passed) == before, f"{name} was changed")
            if isinstance(passed, np.ndarray):
                shared = any(np.shares_memory(part, passed) for part in out)
                expect(not shared, f"{name}: transform or mask hands out the memory of X")

    def every_form_of_rows_is_learnt_alike(self) -> None:
        """Arrays, lists and frames lead to the same weights, and so do all sparse matrices."""
        for first, forms in zip(BOTH_FORMS, (data.DENSE_FORMS, data.SPARSE_FORMS), strict=True):
            expected = self._learn(form=first)
            for name, form in forms.items():
                expect_alike(self._learn(form=form), expected, name)

    def dense_and_sparse_are_learnt_alike(self) -> None:
        """Dense and sparse rows, and both in turn, lead to the same weights."""
        dense, sparse = (self._learn(form=form) for form in BOTH_FORMS)
        turns = [(BOTH_FORMS[i % 2](X), y) for i, (X, y) in enumerate(self._batches())]
        expect_alike(sparse, dense)
        expect_alike(self._learn(turns, form=lambda X: X), dense)

    def named_columns_may_come_in_any_order(self) -> None:
        """Columns are known by their names, which come back with what is selected."""
        rng = np.random.default_rng(1)
        for library in data.LIBRARIES.values():
            found = self._new()
            for i, (X, y) in enumerate(self._batches()):
                frame = data.as_frame(library, rng.permutation(len(NAMES)) if i else None)(X)
                found.partial_fit(frame, y)
            expect_alike(found, self._learn(form=data.as_frame(library)), rtol=0.0)
            chosen = found.get_support(indices=True)
            assert_array_equal(found.feature_names_in_, NAMES)
            assert_array_equal(found.get_feature_names_out(), np.array(NAMES)[chosen])
            assert_array_equal(as_plain(found.transform(frame)), X[:, chosen])
            assert_array_equal(found.mask(frame).columns, NAMES)
            assert_array_equal(as_plain(found.mask(frame))[:, chosen], X[:, chosen])

    def rows_may_come_one_by_one(self) -> None:
        """A batch may be a single row."""
        X, y = data.joined(self._batches(2))
        rows = [(X[i : i + 1], take_rows(y, slice(i, i + 1))) for i in range(len(X))]
        for form in BOTH_FORMS:
            selector = self._learn(rows, form, classes=self._classes)
            expect(selector.n_samples_seen_ == len(X), "n_samples_seen_ does not count the rows")
            expect_finite(selector, "rows one by one")

    def missing_entries_are_handled_and_counted(self) -> None:
        """NaN may stand anywhere in X, in whole rows and columns too, and is counted."""
        rng = np.random.default_rng(3)
        gaps = [(np.where(rng.random(X.shape) < 0.2, np.nan, X), y) for X, y in self._batches()]
        gaps[1][0][:, 2] = gaps[2][0][5] = np.nan
        n_missing = sum(np.isnan(X).sum() for X, _ in gaps)
        for form in BOTH_FORMS:
            selector = self._learn(gaps, form)
            expect(selector.n_missing_ == n_missing, f"{selector.n_missing_} of {n_missing} gaps")
            expect_finite(selector, "missing entries")

    def zeros_and_constant_columns_do_no_harm(self) -> None:
        """Rows of zeros and constant columns are ordinary data."""
        X, y = next(self._batches())
        X[::3], X[:, 5], X[:, 6] = 0.0, 0.0, 1.0
        nothing = np.zeros_like(X)
        for form in BOTH_FORMS:
            expect_finite(self._learn([(nothing, y), (X, y), (nothing, y)], form), "zeros")

    def fit_is_partial_fit_on_slices(self) -> None:
        """``fit`` forgets, and learns from slices of ``batch_size`` rows, to the bit."""
        X, y = next(self._batches(1, n_rows=130))
        size, selector = self._selector.batch_size, self._learn(self._batches(2, seed=5))
        tables = {name: data.with_text(library, X) for name, library in data.LIBRARIES.items()}
        for name, table in ({"array": X, "sparse rows": BOTH_FORMS[1](X)} | tables).items():
            sliced = self._new()
            for start in range(0, 130, size):
                rows = slice(start, start + size)
                sliced.partial_fit(validation.take_rows(table, rows), take_rows(y, rows))
            expect_same_state(selector.fit(table, y), sliced, f"fit on {name}")
            expect(selector.n_samples_seen_ == 130, f"{selector.n_samples_seen_} rows are seen")
        assert_array_equal(clone(selector).fit_transform(X, y), self._new().fit(X, y).transform(X))

    def a_row_of_weight_0_is_absent(self) -> None:
        """Rows of weight 0 change nothing, to the bit; nor does a batch of them."""
        weight = np.arange(25) % 3
        rows = np.flatnonzero(weight)
        nonzero = [(X[rows], take_rows(y, rows)) for X, y in self._batches()]
        X, y = next(self._batches(seed=7))
        for form in BOTH_FORMS:
            weighted = self._learn(form=form, sample_weight=weight)
            without = self._learn(nonzero, form, sample_weight=weight[rows])
            expect_same_state(weighted, without, "rows of weight 0")
            weighted.partial_fit(form(X), y, sample_weight=np.zeros(25))
            expect_same_state(weighted, without, "a batch of weight 0")

    def a_constant_weight_changes_nothing(self) -> None:
        """Weights say how much a row counts beside others, not how many rows it stands for."""
        for form in BOTH_FORMS:
            weighted, plain = (
                self._learn(form=form, sample_weight=np.full(25, 3)),
                self._learn(form=form),
            )
            assert_array_equal(weighted.ranking_, plain.ranking_)
            assert_array_equal(weighted.get_support(), plain.get_support())

    def a_row_of_weight_w_is_w_rows(self) -> None:
        """The method declares that it takes ``sample_weight`` for a number of rows."""
        weight = np.arange(25) % 3 + 1
        rows = np.repeat(np.arange(25), weight)
        repeated = [(X[rows], take_rows(y, rows)) for X, y in self._batches()]
        for form in BOTH_FORMS:
            weighted = self._learn(form=form, sample_weight=weight)
            expect_alike(weighted, self._learn(repeated, form))


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


class SelectionContract(SelectorContract):
    """What holds for the weights, the ranks and the support."""

    def ranks_follow_weights_and_ties_go_to_the_lower_index(self) -> None:
        """``ranking_`` is a permutation: 1 is the greatest weight, the first of equal ones."""
        zeros = ((np.zeros_like(X), y) for X, y in self._batches())
        for selector in (self._learn(), self._learn(zeros)):
            order = np.argsort(-selector.weights_, kind="stable")
            assert_array_equal(selector.ranking_[order], np.arange(1, len(order) + 1))

    def support_transform_mask_and_inverse_transform_agree(self) -> None:
        """All agree on what is selected, keep the type of X, and keep missing entries missing."""
        X, _ = next(self._batches(seed=9))
        X[0] = np.nan
        for name in ("array", "single precision", "csr_array", "csr_matrix", *data.FRAMES):
            form = data.FORMS[name]
            selector, given = self._learn(form=form), form(X)
            support, chosen = selector.get_support(), selector.get_support(indices=True)
            assert_array_equal(np.flatnonzero(support), chosen, err_msg=name)
            small, masked = selector.transform(given), selector.mask(given)
            back = selector.inverse_transform(small)
            assert_array_equal(as_plain(small), X[:, chosen], err_msg=name)
            assert_array_equal(as_plain(masked), np.where(support, X, 0.0), err_msg=name)
            assert_array_equal(as_plain(back), as_plain(masked), err_msg=name)
            expect(type(masked) is type(given), f"mask makes {type(masked)} of {name}")
            expect(sp.issparse(back) == sp.issparse(given), f"{type(back)} comes back of {name}")
            kinds = {as_plain(out).dtype for out in (given, small, masked)}
            expect(len(kinds) == 1, f"of {name} come out {kinds}")
        wide = np.zeros((2, len(chosen) + 1))
        expect_refusal("different shape", selector.inverse_transform, wide)
        expect_refusal("7 features", self._learn().transform, X[:, :7])

    def what_is_handed_out_may_be_kept_but_not_changed(self) -> None:
        """Arrays are read-only and never change; a support is a copy."""
        names = ("weights_", "ranking_", "importances_", "uncertainties_")
        for form in BOTH_FORMS:
            selector, kept = self._new(), []
            for batch in self._batches(6):
                self._learn([batch], form, selector)
                kept += [getattr(selector, name) for name in names if hasattr(selector, name)]
                before = [array.copy() for array in kept]
                chosen = selector.get_support()
                selector.get_support()[:] = ~chosen
                selector.get_support(indices=True)[:] = 0
                now = selector.get_support()
                expect((now == chosen).all(), "a support that was handed out is not a copy")
            expect(not any(array.flags.writeable for array in kept), "an array is not read-only")
            for array, as_it_was in zip(kept, before, strict=True):
                assert_array_equal(array, as_it_was)


class CountContract(SelectorContract):
    """What holds where the user says how many features to select."""

    def as_many_are_selected_as_asked_for(self) -> None:
        """A number or a fraction of features, at least one, at most all; it may change."""
        for form in BOTH_FORMS:
            selector = self._new()
            wanted = ((5, 5), (1, 1), (100, 8), (0.5, 4), (0.49, 3), (0.99, 7), (1e-9, 1))
            for (k, n), batch in zip(wanted, self._batches(len(wanted)), strict=True):
                self._learn([batch], form, selector.set_params(n_features_to_select=k))
                found = int(selector.get_support().sum())
                expect(found == n, f"{found} features are selected, for {k} of 8")

    def the_greatest_weights_are_selected(self) -> None:
        """The selected features are those that rank first, however many are asked for."""
        for seed in range(3):
            selector = self._learn(self._batches(2, seed=seed))
            for k in (1, 3, 6):
                selector.set_params(n_features_to_select=k)
                assert_array_equal(selector.get_support(), selector.ranking_ <= k)
