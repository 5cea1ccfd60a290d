"""A batch in one compiled call leads to the same numbers, to the bit, as the general way."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires import FIRES, OnlinePipeline
from fires.core.batch import CheckedBatch
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import LinearLearner


def signal(rng, X):
    return X[:, 0] - X[:, 1] + rng.normal(size=len(X))


def stream(n_features, n_rows, *, n=30, kind="classes", at=15, strange=None):
    """Batches; at some time other features are relevant."""
    rng = np.random.default_rng(n_features + n_rows)
    for batch in range(n):
        X = rng.normal(2.0, 3.0, (n_rows, n_features))
        s = signal(rng, (X - 2.0) / 3.0 if batch < at else (2.0 - X[:, ::-1]) / 3.0)
        y = {
            "classes": s > 0.0,
            "numbers": 3.0 * s,
            "three": np.digitize(s, [-0.7, 0.7]),
            "rare": np.where(s > 2.5, 7, 3),
            "floats": np.where(s > 0.0, 1.0, -1.0),
        }[kind]
        if strange is not None and batch % 7 == 3:
            yield strange(X, y)
        else:
            yield X, y


def missing(X, y):
    X[0, 0] = np.nan
    return X, y


def late_and_missing(X, y):
    X[-1, -1] = np.nan
    return X, y


def far_out(X, y):
    X[-2, 1] = 1e6
    return X, y


def weighted(X, y):
    return X, y, None, np.linspace(0.5, 1.5, len(X))


def as_float32(X, y):
    return X.astype(np.float32), y


def fortran(X, y):
    return np.asfortranarray(X), y


def sparse(X, y):
    return sp.csr_array(X), y


def newcomer(X, y):
    return X, np.where(np.arange(len(y)) == 0, 9, y)


CASES = [
    ({}, {}),
    ({}, {"n_features": 130}),
    ({}, {"n_rows": 1, "n": 700, "at": 500}),
    ({"n_features_to_select": "auto"}, {"kind": "rare", "n_rows": 200}),
    ({"groups": [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]}, {}),
    ({"fit_intercept": False}, {}),
    ({"model": "logistic", "memory": 500}, {"kind": "floats"}),
    ({"drift": None}, {}),
    ({"scale": "minmax"}, {}),
    ({"scale": None}, {}),
    ({}, {"kind": "numbers"}),
    ({}, {"kind": "three"}),
    ({}, {"n_features": 1300, "n_rows": 53, "n": 20, "at": 12}),
    ({}, {"n_features": 1300, "n_rows": 53, "strange": late_and_missing}),
    ({}, {"n_rows": 6000, "n": 14, "at": 12}),
    ({}, {"strange": far_out}),
    ({}, {"strange": missing}),
    ({}, {"strange": weighted}),
    ({}, {"strange": as_float32}),
    ({}, {"strange": fortran}),
    ({}, {"strange": newcomer}),
    ({}, {"strange": sparse}),
    ({"update": "gradient", "scale": None}, {"strange": sparse}),
    ({"update": "gradient"}, {}),
    ({"update": "gradient", "scale": None}, {}),
    ({"update": "gradient", "scale": None}, {"n_rows": 1, "n": 200}),
]


def one_by_one(patch):
    """Let no batch be learnt from in one call."""
    patch.setattr(FIRES, "_take_at_once", lambda *_: False)
    patch.setattr(BayesLearner, "_is_usual", lambda *_: False)


def counted(patch):
    """What calls for whole batches have returned."""
    counts = []

    def counting(call):
        def count(*given, **options):
            counts.append(call(*given, **options))
            return counts[-1]

        return count

    for owner, name in [(BayesLearner, "_take_at_once"), (LinearLearner, "step_at_once")]:
        patch.setattr(owner, name, counting(getattr(owner, name)))
    return counts


def trace(make, given):
    """What is known after each batch."""
    one, known = make(), []
    for batch in stream(**({"n_features": 12, "n_rows": 40} | given)):
        one.partial_fit(*batch)
        selector = getattr(one, "selector", one)
        known.append((selector.get_support(indices=True).tolist(), selector.importances_))
    alarms = [(alarm.row, alarm.feature) for alarm in selector.alarms_]
    return known, selector.saved()[1], alarms, selector.interval()


def assert_same(one, other, rtol=0.0):
    known, arrays, alarms, interval = one
    assert alarms == other[2]
    assert_allclose(interval, other[3], rtol, rtol)
    assert sorted(arrays) == sorted(other[1])
    for name, array in arrays.items():
        assert_allclose(array, other[1][name], rtol, rtol, err_msg=name)
    for (support, mu), (other_support, other_mu) in zip(known, other[0], strict=True):
        assert support == other_support
        assert_allclose(mu, other_mu, rtol, rtol)


@pytest.mark.parametrize(("settings", "given"), CASES)
def test_one_call_equals_the_general_way(monkeypatch, settings, given):
    def make():
        return FIRES(**({"n_features_to_select": 3} | settings))

    counts = counted(monkeypatch)
    fast = trace(make, given)
    plain = settings.get("scale", "standard") == "standard" and settings.get("drift", 0) == 0
    if plain if "update" not in settings else settings.get("scale", 0) is None:
        assert sum(counts) > 10
    with monkeypatch.context() as patch:
        one_by_one(patch)
        # Where a batch is cut, the end of a part is rounded once more.
        is_cut = given.get("n_features", 12) * given.get("n_rows", 40) > 60_000
        assert_same(fast, trace(make, given), rtol=1e-9 if is_cut else 0.0)


@pytest.mark.parametrize("preprocess", ["standard", "minmax", None])
@pytest.mark.parametrize("kind", ["classes", "three"])
def test_in_a_pipeline_too(monkeypatch, preprocess, kind):
    def make():
        return OnlinePipeline(FIRES(3), preprocess=preprocess)

    given = {"kind": kind}
    fast = trace(make, given)
    with monkeypatch.context() as patch:
        one_by_one(patch)
        assert_same(fast, trace(make, given))


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e200])
@pytest.mark.parametrize(("update", "n_features"), [("bayes", 5), ("bayes", 5000), ("gradient", 5)])
def test_a_refused_batch_leaves_no_trace(update, n_features, bad):
    selector = FIRES(3, update=update, scale="standard" if update == "bayes" else None)
    *batches, (X, y) = stream(n_features, 20, n=6)
    for rows, labels in batches:
        selector.partial_fit(rows, labels)
    before = {name: array.copy() for name, array in selector.saved()[1].items()}
    X[-1, -1] = bad
    with pytest.raises(ValueError, match=r"n_features|infinity|too large|overflow"):
        selector.partial_fit(X, y)
    after = selector.saved()[1]
    assert sorted(before) == sorted(after)
    for name, array in before.items():
        assert_array_equal(array, after[name], err_msg=name)


def test_what_the_user_got_does_not_change_later():
    selector = FIRES(3)
    *batches, (X, y) = stream(5, 20, n=6)
    for rows, labels in batches:
        selector.partial_fit(rows, labels)
    kept = selector.importances_, selector.uncertainties_, selector.get_support(indices=True)
    learner = selector._learner_.with_classes(selector.classes_, selector.classes_)
    copies = [array.copy() for array in (*kept, learner.evidence_rows)]
    given = X.copy(), y.copy()
    selector.partial_fit(X, y)
    for array, copy in zip((*kept, learner.evidence_rows), copies, strict=True):
        assert_array_equal(array, copy)
    assert_array_equal(X, given[0])
    assert_array_equal(y, given[1])


def test_settings_changed_meanwhile_count():
    selector = FIRES(3)
    for X, y in stream(5, 20, n=4):
        selector.partial_fit(X, y)
    selector.n_features_to_select = 0
    with pytest.raises(ValueError, match=r"n_features|infinity|too large|overflow"):
        selector.partial_fit(X, y)


def test_rows_of_an_odd_shape_go_the_general_way():
    learner = LinearLearner("probit", 3, 2, fit_intercept=False, scale=None)
    X, y = np.ones((4, 3)), np.array([0, 1, 1, 2])
    assert not learner.step_at_once(X, y, 0.0, 1.0, Rates(0.1, 0.1))  # a third label
    learner.step(CheckedBatch(X, y[:4] > 0), (y > 0).astype(int), Rates(0.1, 0.1))
    assert_array_equal(learner.target.class_weight, [1.0, 3.0])
