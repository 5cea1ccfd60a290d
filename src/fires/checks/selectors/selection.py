"""What is selected: how many features, which, and that all methods agree on it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from fires.checks import data
from fires.checks.data import as_plain
from fires.checks.running import expect, expect_refusal
from fires.checks.selectors.contract import BOTH_FORMS, SelectorContract


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
