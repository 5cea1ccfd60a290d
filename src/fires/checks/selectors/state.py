"""What was learnt: files and copies go on alike; a refused batch leaves no trace."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from fires.checks import data
from fires.checks.data import NAMES, XY, Form
from fires.checks.running import expect, expect_refusal, no_global_randomness
from fires.checks.selectors.contract import (
    BOTH_FORMS,
    SelectorContract,
    expect_alike,
    expect_finite,
    expect_same_state,
    learnt_names,
    saved_state,
)
from fires.loading import load
from fires.selectors.base import OnlineSelector

# Settings that are read with the first batch only: later changes are ignored.
_FIXED = (
    *("batch_size", "drift", "fit_intercept", "memory", "model", "mu_init", "random_state"),
    *("scale", "sigma_init", "update"),
)
# What makes no sense as any setting, or as the number of features.
_NONSENSE = (object(), [np.nan, "?"], "nonsense")
_NO_NUMBERS = {
    "n_features_to_select": (0, -1, 0.0, 1.0, 1.5, -0.5, 1j, True, False, "3", None, np.nan, np.inf)
}


class StateContract(SelectorContract):
    """What holds for what was learnt, without a file being read."""

    def global_random_numbers_are_neither_read_nor_moved(self) -> None:
        """What is random comes from ``random_state`` alone, and None is not the global one."""
        learnt = []
        for seed in (1, 2):
            with no_global_randomness(seed):
                learnt.append(self._learn())
        expect_same_state(learnt[0], learnt[1], "two seeds of the global random numbers")
        known = self._selector.get_params(deep=False)
        unseeded = {"random_state": None} if "random_state" in known else {}
        with no_global_randomness():
            self._learn(selector=self._new(**unseeded))

    def the_state_does_not_grow(self) -> None:
        """A file is no longer after 200 batches, dense and sparse, than after 10."""
        selector, sizes = self._new(), {}
        with TemporaryDirectory() as folder:
            path = Path(folder) / "state"
            for i, batch in enumerate(self._batches(200, n_rows=5), 1):
                form = BOTH_FORMS[i % 2 if i < 10 else i > 100]
                self._learn([batch], form, selector, classes=self._classes)
                if i in (10, 200):
                    selector.save(path)
                    sizes[i] = path.stat().st_size
        expect_finite(selector, "dense and sparse batches in turns")
        # Allowed: counts in the header get more digits, padding, a list of up to k features.
        room = 64 + 8 * int(selector.get_support().sum())
        expect(sizes[200] - sizes[10] <= room, f"bytes after 10 and 200 batches: {sizes}")

    def a_copy_goes_on_alike_and_apart(self) -> None:
        """``copy.deepcopy`` and ``pickle`` make twins that learn the same, but apart."""
        batches = list(self._batches(6))
        for pickled in (False, True):
            selector = self._learn(batches[:3])
            expect_finite(selector, "before it is copied")  # it must have learnt something
            again = pickle.loads(pickle.dumps(selector)) if pickled else copy.deepcopy(selector)
            expect(not again.weights_.flags.writeable, "the weights of a copy are not read-only")
            before = saved_state(again)
            self._learn(batches[3:], selector=selector)
            expect(saved_state(again) == before, "a copy follows what the original learns")
            self._learn(batches[3:], selector=again)
            expect_same_state(again, selector, "a copy")

    def a_refused_batch_leaves_no_trace(self) -> None:
        """What is wrong with a batch is said in one line, and the selector is as it was."""
        refused = data.WRONG_ROWS | (data.WRONG_TARGETS if self._target != "none" else {})
        for form in BOTH_FORMS:
            selector, fresh = self._learn(form=form), self._new()
            before, twin = saved_state(selector), copy.deepcopy(selector)
            for spoil, words in (refused | data.WRONG_WIDTHS).values():
                X, y, weight = spoil(*next(self._batches(seed=7)))
                batch = form(X), y
                uses: list[Callable[..., OnlineSelector]] = [selector.partial_fit]
                if words in {words for _, words in refused.values()}:
                    uses += [selector.fit, fresh.partial_fit]
                for use in uses:
                    expect_refusal(words, use, *batch, sample_weight=weight)
                expect(saved_state(selector) == before, f"{words} has left a trace")
                expect(not learnt_names(fresh), f"{words}: {learnt_names(fresh)} is known")
            for one in (selector, twin):
                self._learn(self._batches(2, seed=8), form, one)
            expect_same_state(selector, twin, "after refused batches")

    def features_may_start_anew(self) -> None:
        """``restart_features`` takes indices or names, refuses others, and learning goes on."""
        expect(not learnt_names(self._new().restart_features([1])), "nothing was learnt before")
        for form in BOTH_FORMS:
            selector, named = (self._learn(form=form) for _ in range(2))
            before, kept = saved_state(selector), selector.weights_
            for wrong in ([len(NAMES)], [1, -1], ["no such column"], [1.5], [True], 1, "a"):
                expect_refusal("column", selector.restart_features, wrong)
            selector.restart_features([])
            expect(saved_state(selector) == before, "a refused restart has left a trace")
            selector.restart_features([4, 1])
            named.name_features(NAMES).restart_features([NAMES[1], NAMES[4]])
            expect_alike(named, selector, "features by their names", rtol=0.0)
            expect(not kept.flags.writeable, "weights that were handed out are not read-only")
            expect_finite(self._learn(self._batches(seed=6), form, selector), "after a restart")

    def a_setting_that_makes_no_sense_is_named(self) -> None:
        """The error begins with the name of the setting, and nothing is learnt."""
        X, y = next(self._batches())
        for name, good in self._selector.get_params(deep=False).items():
            for value in (*_NONSENSE, *_NO_NUMBERS.get(name, ())):
                selector = self._new(**{name: value})
                expect_refusal(rf"^{name}\b", selector.fit, X, y)
                expect(not learnt_names(selector), f"{name}: {learnt_names(selector)} is known")
            if name not in _FIXED:
                selector = self._learn()
                before = saved_state(selector)
                selector.set_params(**{name: "nonsense"})
                expect_refusal(rf"^{name}\b", selector.partial_fit, X, y)
                selector.set_params(**{name: good})
                expect(saved_state(selector) == before, f"a refused {name} has left a trace")


class RestartContract(SelectorContract):
    """What holds for methods that know what belongs to one feature, and have said so."""

    def a_feature_that_starts_anew_is_as_before_the_first_row(self) -> None:
        """Its weight is that of a feature of which nothing is known; others keep theirs."""
        for form in BOTH_FORMS:
            nothing = self._learn([(np.zeros_like(X), y) for X, y in self._batches(1)], form)
            selector = self._learn(form=form)
            before = selector.weights_
            after = selector.restart_features([1]).weights_
            assert_array_equal(after[1], nothing.weights_[1])
            others = np.delete(after, 1), np.delete(before, 1)
            assert_allclose(*others, rtol=1e-9, atol=1e-12)


class FileContract(SelectorContract):
    """What holds for what was saved and read back."""

    def a_saved_selector_goes_on_bit_for_bit(self) -> None:
        """What was saved and loaded learns on alike, also after a feature has started anew."""
        for form in BOTH_FORMS:
            batches = list(self._batches(8))
            selector = self._learn(batches[:3], form, self._new().name_features(NAMES))
            loaded = self._goes_on(selector, batches[3:6], form)
            expect(type(loaded) is type(selector), f"a {type(loaded)} was loaded")
            assert_array_equal(loaded.feature_names_in_, NAMES)
            self._goes_on(loaded.restart_features([1]), batches[6:], form)

    def it_may_be_saved_before_all_classes_were_seen(self) -> None:
        """A file may be written at any time, also when one class has been seen so far."""
        X, y = next(self._batches())
        for label in (0, 1) if self._target in data.CLASSES else ():
            for form in BOTH_FORMS:
                first = [(X[y == label], y[y == label])]
                selector = self._learn(first, form, classes=self._classes)
                self._goes_on(selector, list(self._batches()), form)

    def _goes_on(
        self, selector: OnlineSelector, batches: Iterable[XY], form: Form = np.asarray
    ) -> OnlineSelector:
        """Save, load, let both learn on, and compare them."""
        with TemporaryDirectory() as folder:
            selector.save(Path(folder) / "state")
            loaded: OnlineSelector = load(Path(folder) / "state", **self._load_options)
        for batch in batches:
            for one in (selector, loaded):
                self._learn([batch], form, one)
            expect_alike(loaded, selector, "after loading", rtol=0.0)
        expect_same_state(loaded, selector, "after loading")
        return loaded


class RandomContract(FileContract):
    """What holds for random numbers that were saved."""

    def random_numbers_go_on_whatever_they_come_from(self) -> None:
        """Random numbers, too, go on after loading where they had stopped."""
        batches = list(self._batches(6))
        for seed in (None, 5, np.random.default_rng(1), np.random.RandomState(1)):
            selector = self._learn(batches[:2], selector=self._new(random_state=seed))
            self._goes_on(selector, batches[2:])
