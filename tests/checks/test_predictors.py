"""Every predictor keeps the contract of ``fires.checks``, and a broken one is told so."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB

from fires.checks import check_predictor, predictor_checks
from fires.predictors import (
    BayesLinear,
    Perceptron,
    RiverPredictor,
    as_predictor,
    boosting,
    hoeffding_tree,
)

# What is skipped: estimators of scikit-learn fix their classes with the first batch, and SGD's rate
# falls with every row, so two light rows are not one heavy row; River's regression tells two apart.
CASES = [
    ("bayes", BayesLinear(), ()),
    ("perceptron", Perceptron(), ()),
    ("naive Bayes", as_predictor(GaussianNB()), ["new_labels_are_taken_up"]),
    (
        "SGD",
        as_predictor(SGDClassifier(random_state=0)),
        ["new_labels_are_taken_up", "a_row_of_weight_w_is_w_rows"],
    ),
]
if find_spec("river"):
    from river import linear_model

    quick = {"grace_period": 5, "delta": 0.5, "tau": 0.9}
    CASES += [
        ("tree", hoeffding_tree(**quick), ()),
        ("boosting", boosting(), ()),
        (
            "River's logistic regression",
            RiverPredictor(linear_model.LogisticRegression()),
            ["three_classes_are_learnt"],
        ),
    ]


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value):RuntimeWarning")
@pytest.mark.parametrize(
    "check",
    [
        pytest.param(check, id=f"{name}-{sentence}")
        for name, predictor, skip in CASES
        for sentence, check in predictor_checks(predictor, skip=skip)
    ],
)
def test_contract(check):
    check()


class Greedy(Perceptron):
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        np.random.random()  # noqa: NPY002
        return super().partial_fit(X, y, classes, sample_weight)


class Forgetful(Perceptron):
    def restore(self, header, arrays):
        return super().restore(header, {**arrays, "coef": -arrays["coef"]})


@pytest.mark.parametrize(
    ("predictor", "sentence"),
    [
        (Greedy(), "global_random_numbers_are_not_moved"),
        (Forgetful(), "a_restored_state_goes_on_alike"),
    ],
)
def test_a_broken_predictor_is_told_what_it_fails(predictor, sentence):
    with pytest.raises(AssertionError, match=rf"^{type(predictor).__name__} fails {sentence}: "):
        check_predictor(predictor)
