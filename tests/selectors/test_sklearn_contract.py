"""scikit-learn's own checks: once for each class; the slow ones with other settings, too.

What all classes share, such as ``missing``, is set in one of them. What settings change is tested
by ``fires.checks`` on each of them.
"""

from importlib.util import find_spec

import pytest
from sklearn.linear_model import Ridge, SGDClassifier, SGDRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

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
from fires.selectors.base import OnlineSelector

SELECTORS = [
    FIRES(1),
    AROW(3),
    SCW(3),
    FTRL(3),
    OFS(3),
    OFSPartial(3, random_state=0),
    PEtrun(3),
    OLI2DS(3),
    EFS(3, bottom_fraction=0.4),
    FSDS(1),
    AllFeatures(),
    RandomFeatures(0.5, redraw=True),
    FixedFeatures((0, 1)),
    ChiSquared(2, aggregate="mean", forgetting=0.1),
    Screening(1, target="numbers"),
    FromModel(1, estimator=SGDClassifier(random_state=0)),
    IncrementalPermutation(1, target="numbers", scale="minmax", random_state=0),
    WindowRefit(1, estimator=Ridge(), window=30, every=10),
    CancelOut(1, hidden=(8,), random_state=0),
]
OTHER_SETTINGS = [
    FIRES(2, scale="minmax", missing="error"),
    FIRES(2, model="gaussian"),
    FIRES(2, update="gradient", score="omega"),
    FIRES.as_published(0.5),
    Screening(2, measure="f"),
    FromModel(1, estimator=SGDRegressor()),
    WindowRefit(1),
    CancelOut(2, hidden=(), gate="softmax", target="numbers", random_state=0),
]
# The check shuffles rows; these learn row by row, in the order that rows come in.
IN_ORDER = (
    AROW,
    SCW,
    FTRL,
    OFS,
    OFSPartial,
    OLI2DS,
    PEtrun,
    EFS,
    IncrementalPermutation,
    LICON,
)
SHUFFLED = "check_sample_weight_equivalence_on_{}_data"


# FIRES has a setting named score; these checks take whatever has that name for a method.
NAMED_SCORE = (
    "check_fit_score_takes_y",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
)


def expected_failures(selector):
    in_order = isinstance(selector, IN_ORDER)
    in_order |= isinstance(selector, FIRES) and selector.scale == "minmax"
    in_order |= isinstance(getattr(selector, "estimator", None), SGDRegressor)
    kinds = ("dense", "sparse") if in_order else ()
    failures = {SHUFFLED.format(kind): "the order of rows matters" for kind in kinds}
    if isinstance(selector, FIRES):
        failures |= dict.fromkeys(NAMED_SCORE, "score is a setting")
    return failures


ROWS = (getattr(rivals, name) for name in dir(rivals))
LISTED = {type(selector) for selector in SELECTORS}
# One that is not listed above is met with its defaults.
SELECTORS += [k(1) for k in ROWS if issubclass(k, OnlineSelector) and k not in LISTED]


def usable(listed):
    return [s for s in listed if find_spec("torch") or not isinstance(s, CancelOut)]


@parametrize_with_checks(usable(SELECTORS), expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(usable(OTHER_SETTINGS), expected_failed_checks=expected_failures)
def test_scikit_learn_check_with_other_settings(estimator, check):
    check(estimator)
