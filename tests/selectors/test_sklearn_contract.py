"""scikit-learn's own checks, over instances that make them bite."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from fires import FIRES

INSTANCES = [
    FIRES(1),
    FIRES(0.5),
    FIRES(2, missing="error"),
    FIRES(2, scale=None),
    FIRES(2, scale="minmax"),
    FIRES(2, model="probit"),
    FIRES(2, model="logistic"),
    FIRES(2, model="gaussian"),
    FIRES(2, model="poisson"),
    FIRES.as_published(2),
]


@parametrize_with_checks(INSTANCES)
def test_scikit_learn_check(estimator, check):
    check(estimator)
