"""Every selector that learns from rows keeps the contract of ``fires.checks``, and what follows."""

from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier, SGDClassifier, SGDRegressor
from sklearn.tree import DecisionTreeRegressor

from fires import (
    AROW,
    EFS,
    FIRES,
    FSDS,
    FTRL,
    LICON,
    OFS,
    OLI2DS,
    SCW,
    AllFeatures,
    CancelOut,
    ChiSquared,
    FixedFeatures,
    FromModel,
    IncrementalPermutation,
    OFSPartial,
    PEtrun,
    RandomFeatures,
    Screening,
    WindowRefit,
    rivals,
)
from fires.checks import selector_checks
from fires.checks.data import NAMES, as_frame, make_batches, with_entry
from fires.checks.selectors import find_target, learnt_names, saved_state
from fires.predictors import AdPredictor
from fires.selectors.base import OnlineSelector

K = 3
# Scaled by what the batches before have shown: on sparse data that is something else.
SCALED = ("dense_and_sparse_are_learnt_alike",)
# scikit-learn's intercept learns more slowly from sparse rows; it must know all classes at once.
WRAPPED = (*SCALED, "a_row_of_weight_w_is_w_rows", "new_labels_are_taken_up")
# It grows until as many rows are kept as the setting says; a smaller number is tried beside it.
FILLING = (*SCALED, "the_state_does_not_grow")
# What is outside of a short window is forgotten: repeated rows push others out.
SHORT = (*SCALED, "a_row_of_weight_w_is_w_rows")


# By Bayes' rule, rows speak one after the other, and members stay until others are surely better.
BAYES = (*SCALED, "the_greatest_weights_are_selected")
# Numbers of groups are selected, not of features.
GROUPED = (*BAYES, "as_many_are_selected_as_asked_for")
GRADIENT = {"update": "gradient", "score": "omega"}


@dataclass(frozen=True)
class Case:
    """A selector, what it learns from, and which checks are not for it.

    One that is dear takes twenty times as long as the others, for what another case shows, too:
    only some checks of it are run each time, and the others with the slow ones.
    """

    selector: Any
    target: str = "two classes"
    skip: tuple[str, ...] = ()
    load_options: dict[str, Any] = field(default_factory=dict)
    dear: bool = False

    @cached_property  # scikit-learn writes an estimator in half a millisecond
    def name(self):
        return f"{self.selector!r} {self.target}".replace("\n", "")

    def learnt(self, form=np.asarray):
        selector = clone(self.selector)
        for X, y in make_batches(self.target):
            selector.partial_fit(form(X), y)
        return selector

    def batch(self):
        return next(make_batches(self.target))


CASES = [
    Case(AROW(K)),
    Case(AROW(K, truncate="confidence")),
    Case(AROW(K, truncate="weight", diagonal="inverse")),
    Case(AllFeatures(), "none"),
    Case(CancelOut(K, hidden=(4,), random_state=0), "many classes"),
    Case(
        CancelOut(K, hidden=(), gate="softmax", target="numbers", random_state=0),
        "numbers",
    ),
    Case(ChiSquared(K), "many classes"),
    Case(ChiSquared(K, aggregate="mean", forgetting=0.02)),
    Case(EFS(K)),
    Case(EFS(K, bottom_fraction=0.4), skip=("the_greatest_weights_are_selected",)),
    Case(FIRES(K), skip=BAYES),
    Case(FIRES(K, redundancy="drop"), "many classes", skip=BAYES),
    Case(FIRES(K, model="logistic", fit_intercept=False), skip=BAYES),
    Case(FIRES(K, score="omega", drift=None), "many classes", skip=BAYES),
    Case(FIRES(K, scale="minmax"), "many classes", skip=BAYES),
    # The last 2,000 numbers are kept, to rank others among them.
    Case(FIRES(K, model="gaussian"), "numbers", skip=(*BAYES, "the_state_does_not_grow")),
    Case(FIRES(K, model="poisson", scale=None), "counts", skip=BAYES),
    Case(FIRES(K, model="poisson"), "counts", skip=BAYES),
    # So few rows show nothing: none is selected.
    Case(FIRES("auto"), skip=BAYES),
    Case(FIRES(K, relations="auto"), skip=BAYES),
    Case(FIRES(K, relations="auto"), "many classes", skip=BAYES),
    Case(
        FIRES("auto", relations="auto", model="gaussian"),
        "numbers",
        skip=(*BAYES, "the_state_does_not_grow"),
    ),
    Case(FIRES(K, relations="auto", model="poisson"), "counts", skip=BAYES),
    Case(FIRES("auto", groups=[0, 0, 1, 1, 2, 2, 3, 3]), "many classes", skip=GROUPED),
    Case(FIRES("auto", model="gaussian"), "numbers", skip=(*BAYES, "the_state_does_not_grow")),
    Case(FIRES(K, **GRADIENT), skip=SCALED),
    # It raises an alarm about some feature after nearly every batch, and alarms are kept.
    Case(FIRES(K, drift="erics", **GRADIENT), skip=(*SCALED, "the_state_does_not_grow")),
    Case(FIRES(K, scale="minmax", **GRADIENT), "many classes", skip=SCALED),
    Case(FIRES.as_published(K)),
    Case(FIRES(K, update="variational"), skip=SCALED),
    Case(FIRES(K, update="variational", model="logistic"), "many classes", skip=SCALED),
    Case(FIRES(K, update="variational", model="gaussian"), "numbers", skip=SCALED),
    Case(FIRES(K, model="gaussian", **GRADIENT), "numbers", skip=SCALED),
    Case(FIRES(K, model="poisson", scale=None, **GRADIENT), "counts"),
    Case(FSDS(K), "none"),
    Case(FSDS(K, sketch_size=5, n_directions=4), "none"),
    Case(FTRL(K)),
    Case(FTRL(K, l1=0.5, l2=0.5, fit_intercept=False)),
    Case(FixedFeatures([1, 5, 6]), "none"),
    Case(
        FromModel(K, estimator=SGDClassifier(), random_state=0),
        "many classes",
        skip=WRAPPED,
        load_options={"model": SGDClassifier()},
    ),
    Case(
        FromModel(K, estimator=SGDRegressor(), random_state=0),
        "numbers",
        skip=WRAPPED,
        load_options={"model": SGDRegressor()},
    ),
    Case(
        FromModel(K, estimator=AdPredictor()),
        skip=WRAPPED,
        load_options={"model": AdPredictor()},
    ),
    Case(IncrementalPermutation(K, random_state=0), "many classes", skip=FILLING),
    Case(IncrementalPermutation(K, reservoir=10, scale=None, random_state=0)),
    Case(
        IncrementalPermutation(K, reservoir=10, target="numbers", random_state=0),
        "numbers",
        skip=SCALED,
    ),
    Case(
        IncrementalPermutation(K, reservoir=10, model=SGDClassifier(), random_state=0),
        "many classes",
        skip=(*SCALED, "new_labels_are_taken_up"),
        load_options={"model": SGDClassifier()},
    ),
    Case(LICON(K), "many classes"),
    Case(LICON(K, target="numbers", forgetting=0.0), "numbers"),
    Case(
        LICON(K, model=SGDClassifier(), random_state=0),
        "many classes",
        skip=WRAPPED[:-1],
        load_options={"model": SGDClassifier()},
    ),
    Case(OFS(K)),
    Case(OFS(K, shrink=True, learning_rate=2.0)),
    Case(OFSPartial(K, random_state=0)),
    Case(OLI2DS(K)),
    Case(PEtrun(K)),
    Case(RandomFeatures(K, random_state=0), "none"),
    Case(RandomFeatures(K, random_state=0, redraw=True), "none"),
    Case(SCW(K)),
    Case(SCW(K, variant="II", truncate="weight")),
    Case(Screening(K)),
    Case(Screening(K, measure="f", forgetting=0.02), "many classes"),
    Case(Screening(K, measure="t", forgetting=0.02), "many classes"),
    Case(Screening(K, target="numbers"), "numbers"),
    Case(
        WindowRefit(K, estimator=RidgeClassifier(), random_state=0),
        "many classes",
        skip=FILLING,
        load_options={"model": RidgeClassifier()},
    ),
    Case(WindowRefit(K, random_state=0), "many classes", skip=FILLING, dear=True),
    Case(WindowRefit(K, window=40, every=20, random_state=0), skip=SHORT, dear=True),
    Case(
        WindowRefit(K, window=40, every=20, target="numbers", random_state=0),
        "numbers",
        skip=SHORT,
    ),
    Case(
        WindowRefit(K, estimator=DecisionTreeRegressor(), window=40, every=20, random_state=0),
        "numbers",
        skip=SHORT,
        load_options={"model": DecisionTreeRegressor()},
    ),
]


ROWS = [
    kind
    for kind in (getattr(rivals, name) for name in dir(rivals))
    if issubclass(kind, OnlineSelector)
]
LISTED = {type(case.selector) for case in CASES}
# A selector that is not listed above is met with its defaults.
CASES += [Case(kind(K), find_target(kind(K))) for kind in ROWS if kind not in LISTED]


# Of a dear case, what depends on what is kept of it, and how.
ALWAYS = ("a_saved_selector_goes_on_bit_for_bit", "a_refused_batch_leaves_no_trace")
# What happens at the door, before a model sees a batch: of FIRES, once for each rule and scale.
DOOR = (
    *("a_refused_batch_leaves_no_trace", "a_label_outside_the_classes_given_is_refused"),
    *("a_setting_that_makes_no_sense_is_named", "labels_may_be_anything"),
    *("every_form_of_rows_is_learnt_alike", "fit_is_partial_fit_on_slices"),
    "named_columns_may_come_in_any_order",
    *("nothing_that_was_passed_is_changed", "rows_may_come_one_by_one"),
    "support_transform_mask_and_inverse_transform_agree",
)


def door(case):
    """What the way of a batch to the model depends on."""
    return tuple(getattr(case.selector, name, None) for name in ("update", "scale"))


def mark(case, sentence=""):
    """Torch and River may not be installed. Of a rival, one setting is run each time."""
    kind = type(case.selector)
    alike = [c for c in CASES if type(c.selector) is kind]
    if kind is FIRES:
        # Without a sentence, a test is of what the base class does: one case of each door.
        alike = [c for c in alike if door(c) == door(case)]
        if sentence and sentence not in DOOR:  # families, groups and rules have their own tests
            is_always = sentence in ALWAYS
            alike = [case] if is_always else [c for c in alike if c.target == case.target]
    elif sentence == "fit_is_partial_fit_on_slices":  # only the base class has a fit
        alike = CASES[:1]
    again = case is not alike[0]
    given = getattr(case.selector, "estimator", None)
    needs = {CancelOut: "torch", AdPredictor: "river"}
    library = needs.get(kind) or needs.get(type(given))
    lacks = library is not None and find_spec(library) is None
    marks = [pytest.mark.skip(reason=f"{library} is not installed")] if lacks else []
    always = sentence in ALWAYS and kind is not FIRES
    return marks + [pytest.mark.slow] * ((case.dear or again) and not always)


def over(wanted):
    """Run a test over cases."""
    cases = [pytest.param(case, id=case.name, marks=mark(case)) for case in CASES if wanted(case)]
    return pytest.mark.parametrize("case", cases)


def in_turn(argument, values):
    """Run a test over all cases, each with one of the values: cases do not differ in these."""
    pairs = [
        pytest.param(
            case, values[i % len(values)], id=f"{case.name}-{i % len(values)}", marks=mark(case)
        )
        for i, case in enumerate(CASES)
    ]
    return pytest.mark.parametrize(("case", argument), pairs)


every = over(lambda case: True)


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """Nets as small as these only wait for each other's threads."""
    if find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_selector_of_rows_has_a_case():
    assert {type(case.selector) for case in CASES} == set(ROWS)


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{case.name}-{sentence}", marks=mark(case, sentence))
        for case in CASES
        for sentence, check in selector_checks(
            case.selector, target=case.target, load_options=case.load_options, skip=case.skip
        )
    ],
)
def test_contract(check):
    check()


# --- what the base class does for every method ----------------------------------------------------


@in_turn("library", [pd, pl])
def test_columns_that_are_missing_or_new_are_named(case, library):
    selector = case.learnt(as_frame(library))
    X, y = case.batch()
    wrong = library.DataFrame({"other" if c == "d" else c: X[:, 0] for c in NAMES})
    for use in (selector.transform, selector.mask, lambda X: selector.partial_fit(X, y)):
        with pytest.raises(ValueError, match="missing 'd'; new 'other'"):
            use(wrong)


@over(lambda case: "missing" in case.selector.get_params())
def test_missing_entries_may_be_refused(case):
    selector = case.learnt().set_params(missing="error")
    before = saved_state(selector)
    X, y = case.batch()
    X = with_entry(X, np.nan)
    for use in (selector.transform, selector.mask, lambda X: selector.partial_fit(X, y)):
        with pytest.raises(ValueError, match=r"NaN.*row 4, column 3"):
            use(X)
    assert saved_state(selector) == before


@over(lambda case: "classes" in case.target)
def test_labels_may_come_as_lists_and_series(case):
    expected = case.learnt()
    for form in (list, tuple, pd.Series, pl.Series):
        selector = clone(case.selector)
        for X, y in make_batches(case.target):
            selector.partial_fit(X, form(y.tolist()))
        assert_array_equal(selector.weights_, expected.weights_)


@over(lambda case: case.target in ("numbers", "counts"))
def test_numbers_have_no_classes(case):
    X, y = case.batch()
    with pytest.raises(ValueError, match="classes is for class labels"):
        clone(case.selector).partial_fit(X, y, classes=[0, 1])


@in_turn("out", ["pandas", "polars"])
def test_what_comes_out_may_be_a_frame(case, out):
    selector = case.learnt(as_frame(pd)).set_output(transform=out)
    X, _ = case.batch()
    small = selector.transform(as_frame(pd)(X))
    assert type(small).__module__.startswith(out)
    assert list(small.columns) == selector.get_feature_names_out().tolist()


@every
def test_settings_travel(case):
    selector = case.learnt()
    twin = clone(selector)
    assert repr(twin) == repr(selector) == repr(case.selector)
    assert not learnt_names(twin)
    for setting, value in selector.get_params(deep=False).items():
        assert twin.set_params(**{setting: value}).get_params(deep=False)[setting] is value
    with pytest.raises(ValueError, match="Invalid parameter 'flavour'"):
        twin.set_params(flavour=1)


@every
def test_nothing_is_known_before_the_first_batch(case, tmp_path):
    selector = clone(case.selector)
    X, _ = case.batch()
    uses = [
        selector.get_support,
        selector.get_feature_names_out,
        lambda: selector.weights_,
        lambda: selector.ranking_,
        lambda: selector.transform(X),
        lambda: selector.mask(X),
        lambda: selector.inverse_transform(X[:, :K]),
        lambda: selector.save(tmp_path / "state"),
    ]
    for use in uses:
        with pytest.raises(NotFittedError, match=f"This {type(selector).__name__} instance is not"):
            use()
    assert not (tmp_path / "state").exists()


@every
def test_weights_are_computed_once_a_batch(case):
    selector = case.learnt()
    assert selector.weights_ is selector.weights_


@over(lambda case: "n_features_to_select" in case.selector.get_params())
def test_where_nothing_is_known_the_first_are_selected(case):
    if isinstance(case.selector, RandomFeatures):
        return
    expected = [] if case.selector.n_features_to_select == "auto" else [0, 1, 2]
    for form in (np.asarray, sp.csr_array):
        selector = clone(case.selector)
        for X, y in make_batches(case.target):
            selector.partial_fit(form(0.0 * X), y)
        assert selector.get_support(indices=True).tolist() == expected


class Given(OnlineSelector):
    """A method whose weights are a setting: the least that a method has to write."""

    def __init__(self, n_features_to_select=3, *, weights=None):
        self.n_features_to_select = n_features_to_select
        self.weights = weights

    def _learn(self, *batch):
        pass

    def _weights(self):
        return np.array(self.weights, dtype=float)

    def _state(self):
        return {}, {}

    def _restore(self, header, arrays, model):
        pass


def test_nan_never_ranks():
    weights = [np.nan, -5.0, np.nan, 0.0, np.nan, -np.inf, 2.0, np.nan]
    selector = Given(weights=weights).partial_fit(np.ones((1, 8)), [0])
    assert_array_equal(selector.get_support(indices=True), [1, 3, 6])
    assert_array_equal(selector.ranking_[[6, 3, 1]], [1, 2, 3])
