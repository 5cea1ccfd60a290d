"""A test in shards gives the scores of plain predictions, however the rows are cut."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.pairs import pairwise

from fires import FIRES
from fires.core.batch import CheckedBatch
from fires.core.sharding import Shards
from fires.evaluation.scoring import Baseline
from fires.metrics.prediction import Scores
from fires.models.target import NormalScores
from fires.predictors import Majority, Mean
from fires.run.sharded_scoring import ShardedTest, unit_of
from fires.run.totals import RunTotals
from fires.selectors.sharded import partial_fit_sharded

CLASSES, NUMBERS = ("accuracy", "balanced_accuracy"), ("r2", "mae")
MODELS = ["two", "three", "gaussian", "poisson"]


def batches(model, *, sparse=False, missing=False, n=4, n_rows=90):
    rng = np.random.default_rng(0)
    for number in range(n):
        X = rng.normal(size=(n_rows, 6)) * [1, 10, 1, 0.1, 1, 1] + [0, 50, 0, 0, 0, 0]
        if sparse:
            X = X * (rng.random(X.shape) < [0.9, 0.5, 0.3, 0.1, 0.1, 0.1])
        signal = X[:, 0] - (X[:, 1] - X[:, 1].mean()) / 10
        y = {
            "two": np.where(signal + 0.3 * rng.normal(size=n_rows) > 0.7, "yes", "no"),
            "three": np.digitize(signal, [-0.5, 0.5]),
            "gaussian": np.exp(signal + 0.1 * rng.normal(size=n_rows)),
            "poisson": rng.poisson(np.exp(0.5 * signal)).astype(float),
        }[model]
        if model == "three" and number < 2:
            y = np.minimum(y, 1)  # a label comes later
        if missing:
            X[rng.random(X.shape) < 0.1] = np.nan
        n_missing = int(np.isnan(X).sum())
        yield CheckedBatch(sp.csr_array(X) if sparse else X, y, None, n_missing)


def selector_for(model, update):
    kind = model if model in ("gaussian", "poisson") else "probit"
    return FIRES(2, model=kind, update=update)


def learn(selector, totals, batch, n_shards):
    sparse = sp.issparse(batch.X)
    test = ShardedTest(selector, totals, sparse=sparse)
    evaluate = test.beside(Shards.cut(batch, n_shards).evaluate)
    partial_fit_sharded(selector, evaluate, n_features=6, sparse=sparse)
    return test.scored(totals)


def plain_scores(selector, X, columns):
    """The linear score of the belief, row by row, by nothing but its definition."""
    learner = selector._learner_
    keep = np.zeros(6)
    keep[columns] = 1.0
    if selector.update == "bayes":
        theta, _ = learner.coefficients()
        Z = learner.scaler.applied(X) if learner.sparse is None else mixed(learner, X)
        return (theta[:, :-1] * keep) @ Z.T + theta[:, -1:]
    if not sp.issparse(X):
        mu, Z = learner.mu, learner.scaler.applied(X)
        V = Z
    else:
        half, every = learner.scaler.sparse, np.arange(6)
        mu = learner.mu - half.pull(every) * learner.drift[:, None]
        centre, full = half.pace * half.pull(every), X.toarray()
        V = np.where(np.isnan(full), 0.0, full * half.gain(every))
        Z = np.where(np.isnan(full), 0.0, full * half.gain(every) - centre)
    level = np.zeros(learner.n_rows)
    target = learner.target
    if hasattr(target, "class_weight"):
        level = target.level_of(target.class_weight.tolist())
    elif selector.model == "poisson":
        level = np.log(target.scale.shift)
    v = (learner.sigma**2 * keep) @ (V * V).T
    start = level[:, None] * np.sqrt(1.0 + learner.family.start_width * v)
    return (mu * keep) @ Z.T + learner.intercept_mean[:, None] + start


def mixed(learner, X):
    """Sparse rows, scaled one after the other: none of them can be a batch that has moved."""
    rows = []
    for place in range(90):
        scale = copy.deepcopy(learner.mixed)
        batch = scale.touched(X[[place]], np.ones(1), missing=True)
        rows.append(scale.rows(batch)[0].take(np.arange(6)))
    return np.concatenate(rows)


def plain_predictions(selector, X, columns):
    a = plain_scores(selector, X, columns)
    if hasattr(selector, "classes_"):
        return selector.classes_[a.argmax(axis=0) if len(a) > 1 else (a[0] > 0).astype(int)]
    return unit_of(selector._learner_)(a)[0]


@pairwise(
    update=["bayes", "gradient"],
    model=MODELS,
    rows=["dense", "missing", "sparse", "sparse with missing"],
)
def test_scores_are_those_of_plain_predictions_for_any_cut(update, model, rows):
    names = CLASSES if model in ("two", "three") else NUMBERS
    blind = Baseline(Majority() if names is CLASSES else Mean(), Scores(names))
    mine, every = Scores(names), Scores(names)
    most = 100 if rows == "dense" else 8  # some of so many are empty
    selectors = {n: selector_for(model, update) for n in (1, 3, most)}
    totals = {n: RunTotals(6) for n in selectors}
    options = {"sparse": "sparse" in rows, "missing": "missing" in rows}
    for number, batch in enumerate(batches(model, **options)):
        known = selectors[1]
        if number:
            with np.errstate(all="ignore"):
                selected = known.get_support(indices=True)
                wanted = mine.update(batch.y, plain_predictions(known, batch.X, selected))
                rich = every.update(batch.y, plain_predictions(known, batch.X, np.arange(6)))
            blind.test(batch)
        blind.learn(batch, known.label_index)
        for n_shards, selector in selectors.items():
            found = learn(selector, totals[n_shards], batch, n_shards)
            if not number:
                assert found.keys() == set(names)
                assert np.isnan(list(found.values())).all()
                continue
            baselines = totals[n_shards].baselines
            assert_same(found, wanted)
            assert_same(baselines["all"].latest, rich)
            assert_same(baselines["majority" if names is CLASSES else "mean"].latest, blind.latest)
    for one in totals.values():
        assert_same(one.scores, mine.total)
        assert_same(one.baselines["all"].scores.total, every.total)
    if update == "bayes":
        assert mine.total[names[0]] > (0.6 if names is CLASSES else 0.2)


def assert_same(found, wanted):
    assert found.keys() == wanted.keys()
    assert_allclose(list(found.values()), list(wanted.values()), rtol=1e-6, atol=1e-9)


def test_it_costs_no_round_and_what_is_learnt_is_the_same():
    plain, tested, totals = FIRES(2), FIRES(2), RunTotals(6)
    for batch in batches("two"):
        asked = []
        for selector, test in ((plain, None), (tested, ShardedTest(tested, totals))):
            shards, n_rounds = Shards.cut(batch, 3), [0]

            def evaluate(task, shards=shards, n_rounds=n_rounds):
                n_rounds[0] += 1
                return shards.evaluate(task)

            how = evaluate if test is None else test.beside(evaluate)
            partial_fit_sharded(selector, how, n_features=6)
            asked.append(n_rounds[0])
            if test is not None:
                test.scored(totals)
        assert asked[0] == asked[1]
    for one, other in zip(plain.saved()[1].values(), tested.saved()[1].values(), strict=True):
        assert np.array_equal(one, other)


def test_rows_of_weight_0_are_not_tested_and_others_count_once():
    first, second, *_ = batches("two")
    weight = np.where(np.arange(90) < 50, 3.0, 0.0)
    selector, totals = FIRES(2), RunTotals(6)
    learn(selector, totals, first, 2)
    before = copy.deepcopy(selector)
    second.weight = weight
    learn(selector, totals, second, 2)
    assert totals.whole.matrix.sum() == 50
    said = plain_predictions(before, second.X[:50], before.get_support(indices=True))
    assert totals.scores["accuracy"] == (said == second.y[:50]).mean()
    # As in all learning, a row of weight 3 is three rows.
    assert totals.baselines["majority"].predictor.counts_.sum() == 90 + 150


def test_a_batch_that_raises_an_alarm_was_tested_before():
    rng = np.random.default_rng(1)
    selector, totals = FIRES(1, update="bayes"), RunTotals(6)
    scores = []
    for number in range(40):
        X = rng.normal(size=(200, 6))
        y = (X[:, 0 if number < 20 else 1] > 0).astype(int)
        scores.append(learn(selector, totals, CheckedBatch(X, y), 3)["accuracy"])
    assert selector.alarms_
    assert min(scores[1:20]) > 0.9
    assert scores[20] < 0.65  # by what was known before
    assert scores[-1] > 0.9


def test_when_learning_fails_nothing_is_counted():
    selector, totals = FIRES(2), RunTotals(6)
    first, second, *_ = batches("two")
    learn(selector, totals, first, 2)
    test = ShardedTest(selector, totals)

    def fail(task):
        Shards.cut(second, 2).evaluate(task)
        raise OSError

    with pytest.raises(OSError):
        partial_fit_sharded(selector, test.beside(fail), n_features=6)
    assert totals.whole.matrix.sum() == 0


def test_normal_scores_are_turned_back_into_numbers():
    y = np.random.default_rng(0).exponential(size=500)
    selector = FIRES(1, model="gaussian")
    selector.partial_fit(np.zeros((500, 1)) + y[:, None], y)
    learner = selector._learner_
    learner.facts[0, 2:4] = 0.0, 1.0  # no noise
    unit, scores = unit_of(learner), NormalScores()
    scores.learn(y)
    inner = (y > np.quantile(y, 0.01)) & (y < np.quantile(y, 0.99))
    assert_allclose(unit(scores.of(y))[inner], y[inner], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("model", ["two", "gaussian"])
def test_what_is_counted_is_saved_with_the_run(model):
    selector, totals = selector_for(model, "bayes"), RunTotals(6)
    given = list(batches(model))
    for batch in given[:3]:
        learn(selector, totals, batch, 2)
    again = RunTotals.from_saved(*totals.saved())
    assert again.as_dict() == totals.as_dict()
    one, other = copy.deepcopy(selector), copy.deepcopy(selector)
    assert learn(one, totals, given[3], 2) == learn(other, again, given[3], 2)
    assert again.as_dict() == totals.as_dict()


@pytest.mark.parametrize("scale", ["minmax", None])
def test_other_scales_and_rows_that_are_scaled_already(scale):
    selector, totals = FIRES(2, update="gradient", scale=scale, model="gaussian"), RunTotals(6)
    first, second, third, _ = batches("gaussian", missing=True)
    learn(selector, totals, first, 2)
    scored = Scores(NUMBERS)
    for batch in (second, third):
        with np.errstate(all="ignore"):
            said = plain_predictions(selector, batch.X, selector.get_support(indices=True))
        if batch is third:
            batch.X, batch.scale = selector._learner_.scaler.applied(batch.X), scale
            batch.n_missing = 0
        wanted = scored.update(batch.y, said)
        assert_same(learn(selector, totals, batch, 3), wanted)


def test_sparse_rows_that_are_scaled_already_are_scored_as_they_are():
    selector, totals = FIRES(2), RunTotals(6)
    first, second, *_ = batches("two", sparse=True)
    first.scale = second.scale = "standard"
    learn(selector, totals, first, 2)
    theta, _ = selector._learner_.coefficients()
    selected = selector.get_support(indices=True)
    scores = second.X.toarray()[:, selected] @ theta[0, selected] + theta[0, -1]
    said = selector.classes_[(scores > 0).astype(int)]
    assert learn(selector, totals, second, 3)["accuracy"] == (said == second.y).mean()
