"""The loops that replace features one at a time do what their definition says."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression
from tests.naive import permute_plain

from fires.kernels.linear import as_rows
from fires.kernels.permutation import permute


def problem(seed, loss, n_rows, n_features):
    """Rows with zeros in them, rows to draw from, and a model in the middle of learning."""
    rng = np.random.default_rng(seed)
    X, others = (
        rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.6) for n in (n_rows, 5)
    )
    n_scores = 3 if loss == "softmax" else 1
    y = {
        "squared": rng.normal(size=n_rows),
        "logistic": rng.choice([-1.0, 1.0], size=n_rows),
        "softmax": rng.integers(3, size=n_rows).astype(float),
    }[loss]
    drawn, mass = rng.integers(5, size=n_rows), rng.random(n_rows)
    coef, intercept = rng.normal(size=(n_scores, n_features)), rng.normal(size=n_scores)
    return X, others, drawn, y, mass, coef, intercept, rng.normal(size=(2, n_features))


def coded(X):
    """CSR in which some entries are explicit zeros."""
    rows = sp.csr_array(np.where(X == 0.0, 7.25, X) if X[0, 0] > 0 else X)
    rows.data[rows.data == 7.25] = 0.0
    return rows


FORMS = {"rows": np.asarray, "csr": coded}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 8),
    n_features=st.sampled_from([1, 3, 17]),
    rate=st.sampled_from([0.0, 0.1]),
)
def test_the_loops_agree_with_their_definition(form, loss, seed, n_rows, n_features, rate):
    X, others, drawn, y, mass, *changed = problem(seed, loss, n_rows, n_features)
    expected = [part.copy() for part in changed]
    numeric = loss == "squared"
    found_sums, expected_sums = changed.pop(), expected.pop()
    permute_plain(X, others, drawn, y, mass, *expected, numeric, rate, expected_sums)
    rows = (as_rows(FORMS[form](part)) for part in (X, others))
    assert permute(*rows, drawn, y, mass, *changed, numeric, rate, found_sums) == 0
    for one, other in zip([*changed, found_sums], [*expected, expected_sums], strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_sums_are_those_of_a_model_that_predicts_every_changed_row(n_classes):
    rng = np.random.default_rng(0)
    X, other = rng.normal(size=(60, 4)), rng.normal(size=(1, 4))
    y = np.digitize(X[:, 0] - X[:, 2] + rng.normal(size=60), [0.0, 1.0][: n_classes - 1])
    model = LogisticRegression().fit(X, y)
    sums = np.zeros((2, 4))
    goal = y.astype(float) if n_classes > 2 else 2.0 * y - 1.0
    given = (np.zeros(60, dtype=np.int64), goal, np.ones(60))
    permute(as_rows(X), as_rows(other), *given, model.coef_, model.intercept_, False, 0.0, sums)
    rows = np.arange(60)
    before = -model.predict_log_proba(X)[rows, y]
    for j in range(4):
        changed = X.copy()
        changed[:, j] = other[0, j]
        more = -model.predict_log_proba(changed)[rows, y] - before
        assert_allclose(sums[:, j], [more.sum(), (more**2).sum()], rtol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("size", [1e2, 1e6, 1e150])
def test_a_step_stays_finite_however_long_a_row_is(loss, size):
    X, others, drawn, y, mass, coef, intercept, sums = problem(1, loss, 8, 17)
    coef[:], intercept[:] = 0.0, 0.0
    for _ in range(50):
        model = (coef, intercept, loss == "squared", 1.0)
        permute(as_rows(size * X), as_rows(others), drawn, y, mass, *model, sums)
    assert np.isfinite(coef).all()
    assert np.abs(size * X @ coef.T).max() < 1e3


def test_a_score_beyond_all_floats_is_said():
    X, others, drawn, y, mass, coef, intercept, sums = problem(1, "logistic", 8, 17)
    for form in FORMS.values():
        rows = as_rows(form(X * 1e300)), as_rows(form(others))
        assert permute(*rows, drawn, y, mass, 1e20 * coef, intercept, False, 0.0, sums) == -1
