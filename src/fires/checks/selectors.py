"""The contract of a selector that learns from rows, whatever its method."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from fires.checks import data, running
from fires.checks.data import NAMES, XY, Form, as_plain, take_rows
from fires.checks.running import NamedCheck, expect, expect_refusal, list_checks, run_checks
from fires.core import validation
from fires.core.state import read_state
from fires.loading import load
from fires.rivals import is_registered
from fires.selectors.base import OnlineSelector

BOTH_FORMS: tuple[Form, Form] = (np.asarray, sp.csr_array)
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


def check_selector(selector: Any, **options: Any) -> None:
    """Check that a selector keeps the contract of :class:`~fires.selectors.base.OnlineSelector`.

    Parameters
    ----------
    selector : OnlineSelector
        Has learnt nothing. It is cloned for every check and stays as it is.
    **options
        As in :func:`selector_checks`.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires import AROW
    >>> check_selector(AROW(3), target="two classes")
    """
    run_checks(selector, selector_checks(selector, **options))


def selector_checks(
    selector: OnlineSelector,
    *,
    target: str = "auto",
    load_options: Mapping[str, Any] | None = None,
    skip: Collection[str] = (),
) -> list[NamedCheck]:
    """The checks of :func:`check_selector`, one by one.

    Files are not read back from a selector that ``fires.selectors`` does not name: ``fires.load``
    finds a class by its name there.
    """
    target = find_target(selector) if target == "auto" else target
    settings = selector.get_params(deep=False)
    is_known = is_registered(type(selector))
    parts = {
        RowContract: True,
        NoTargetContract: target == "none",
        LabelContract: target in data.CLASSES,
        CountContract: "n_features_to_select" in settings,
        FileContract: is_known,
        RandomContract: is_known and "random_state" in settings,
    }
    repeats = selector._weights_repeat_rows
    skip = {
        *skip,
        "a_constant_weight_changes_nothing" if repeats else "a_row_of_weight_w_is_w_rows",
    }
    contracts = (
        part(selector, target, load_options or {}) for part, applies in parts.items() if applies
    )
    return list_checks(contracts, skip)


def find_target(selector: OnlineSelector) -> str:
    """What a selector learns from: the first of the targets that it takes."""
    if not selector.__sklearn_tags__().target_tags.required:
        return "none"
    refusals = []
    for target in data.TARGETS:
        X, y = next(data.make_batches(target))
        try:  # text is no number: what learns numbers alone refuses it
            clone(selector).partial_fit(X, data.LABELS[0][y] if target in data.CLASSES else y)
        except ValueError as error:
            refusals.append(f"{target}: {error}")
        else:
            return target
    raise AssertionError(f"{selector!r} learns from no target ({'; '.join(refusals)})")


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


# --- rows, labels, weights, ranks, support ------------------------------------------------------


class RowContract(SelectorContract):
    """What holds for every selector: its rows, what it selects, and what it has learnt."""

    def nothing_that_was_passed_is_changed(self) -> None:
        """X, y, classes and weights are only read, and the memory of X is not handed out."""
        X, y = next(self._batches(seed=2))
        X = data.with_entry(X, np.nan)
        weight, classes = np.arange(25.0) % 3 + 1, take_rows(self._classes, slice(None, None, -1))
        for array in (y, classes):
            if array is not None:  # writing into it raises an error
                array.flags.writeable = False
        for name, form in (data.DENSE_FORMS | data.SPARSE_FORMS).items():
            passed, selector = form(X), self._new()
            before = data.content(passed)
            for _ in range(2):
                selector.partial_fit(passed, y, classes=classes, sample_weight=weight)
            out = selector.transform(passed), selector.mask(passed)
            expect(data.content(passed) == before, f"{name} was changed")
            expect((weight == np.arange(25) % 3 + 1).all(), f"sample_weight of {name} was changed")
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

    # --- what was selected -------------------------------------------------------------------

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

    # --- what was learnt: a refused batch leaves no trace -------------------------------------

    def global_random_numbers_are_neither_read_nor_moved(self) -> None:
        """What is random comes from ``random_state`` alone, and None is not the global one."""
        learnt = []
        for seed in (1, 2):
            with running.no_global_randomness(seed):
                learnt.append(self._learn())
        expect_same_state(learnt[0], learnt[1], "two seeds of the global random numbers")
        known = self._selector.get_params(deep=False)
        unseeded = {"random_state": None} if "random_state" in known else {}
        with running.no_global_randomness():
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


# --- what was saved -----------------------------------------------------------------------------


class FileContract(SelectorContract):
    """What holds for registered methods: files go on alike."""

    def a_saved_selector_goes_on_bit_for_bit(self) -> None:
        """What was saved and loaded learns on alike, also when that is saved again."""
        for form in BOTH_FORMS:
            batches = list(self._batches(8))
            selector = self._learn(batches[:3], form, self._new().name_features(NAMES))
            loaded = self._goes_on(selector, batches[3:6], form)
            expect(type(loaded) is type(selector), f"a {type(loaded)} was loaded")
            assert_array_equal(loaded.feature_names_in_, NAMES)
            self._goes_on(loaded, batches[6:], form)

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
