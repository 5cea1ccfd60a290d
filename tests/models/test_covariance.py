"""The covariance among the leading features: the exact posterior, where one exists."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.declared import collect, restore
from fires.core.errors import StateError
from fires.kernels.assimilate import ADDED, N_FACTS, N_STATS
from fires.models.covariance import MOST, CovarianceBlock

NEAR = {"rtol": 1e-8, "atol": 1e-10}


def told(y, noise, a=None):
    """What rows of numbers with known noise say: prediction, log Z, precision, distance."""
    y = np.array(y, float, ndmin=2)
    a = np.zeros_like(y) if a is None else a
    return np.stack([a, np.zeros_like(y), np.full_like(y, 1.0 / noise), y - a], axis=1)


def rows_of(seed, n=400, n_features=4):
    """Correlated rows, and numbers with noise of variance 0.5."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, n_features)) @ (np.eye(n_features) + 0.6)
    theta = rng.normal(size=n_features)
    return Z, Z @ theta + 0.3 + np.sqrt(0.5) * rng.normal(size=n)


def exact(Z, y, noise, weight=None):
    """Mean and deviation by Bayesian linear regression with intercept and a prior variance of 1."""
    Z = np.column_stack([Z, np.ones(len(Z))])
    precision = (np.ones(len(Z)) if weight is None else weight) / noise
    inverse = np.linalg.inv((Z * precision[:, None]).T @ Z + np.eye(Z.shape[1]))
    mean = inverse @ (Z.T @ (precision * y))
    return mean[:-1], np.sqrt(np.diag(inverse))[:-1]


@pytest.mark.parametrize("n_batches", [1, 7])
def test_with_known_noise_it_is_bayesian_linear_regression(n_batches):
    Z, y = rows_of(0)
    leading = CovarianceBlock(4, 1)
    a = np.random.default_rng(1).normal(size=(1, 400))  # whatever was predicted at the time
    for part in np.array_split(np.arange(400), n_batches):
        leading.add(Z[part], told(y[part], 0.5, a[:, part]), np.ones(len(part)), None, gamma=1.0)
    for found, expected in zip(leading.estimate(), exact(Z, y, 0.5), strict=True):
        assert_allclose(found[0], expected, **NEAR)


def test_means_alone_are_those_of_the_estimate():
    (Z, y), (_, other) = rows_of(0), rows_of(1)
    leading = CovarianceBlock(4, 2)
    leading.add(Z, np.concatenate([told(y, 0.5), told(other, 0.5)]), np.ones(400), None, gamma=1.0)
    before = leading.information.copy()
    assert_allclose(leading.means(), leading.estimate()[0], **NEAR)
    assert_array_equal(leading.information, before)


def test_each_row_of_parameters_has_a_posterior_of_its_own():
    Z, y = rows_of(2)
    leading = CovarianceBlock(4, 2)
    leading.add(Z, told(np.stack([y, -2.0 * y]), 0.5), np.ones(400), None, gamma=1.0)
    mean, deviation = leading.estimate()
    assert_allclose(mean[1], -2.0 * mean[0], rtol=1e-5)
    assert_allclose(deviation[1], deviation[0], rtol=1e-5)


@pytest.mark.parametrize("level", [1e4, 1e6])
def test_rows_that_are_not_standardised_are_summed_up_in_double_precision(level):
    """In single precision, nothing would be left of columns with a great mean."""
    Z, y = rows_of(11)
    leading = CovarianceBlock(4, 1)
    leading.add(Z + level, told(y, 0.5), np.ones(400), None, gamma=1.0)
    for found, expected in zip(leading.estimate(), exact(Z + level, y, 0.5), strict=True):
        assert_allclose(found[0], expected, rtol=1e-2, atol=1e-3)


def test_before_any_row_it_is_the_prior():
    mean, deviation = CovarianceBlock(3, 2).estimate()
    assert_array_equal(mean, np.zeros((2, 3)))
    assert_array_equal(deviation, np.ones((2, 3)))


@pytest.mark.parametrize("often", [False, True])
def test_old_rows_fade_with_the_weight_of_the_rows_since(often):
    Z, y = rows_of(3)
    weight = np.random.default_rng(4).choice([0.0, 1.0, 2.0], 400)
    leading, gamma = CovarianceBlock(4, 1), 0.99
    for part in np.array_split(np.arange(400), 5):
        # A weight is part of the precision already.
        said = told(y[part], 0.5)
        said[:, 2] *= weight[part]
        leading.add(Z[part], said, weight[part], None, gamma=gamma)
    since = weight[::-1].cumsum()[::-1] - weight
    for found, expected in zip(
        leading.estimate(), exact(Z, y, 0.5, weight * gamma**since), strict=True
    ):
        assert_allclose(found[0], expected, **NEAR)


def test_what_others_explain_is_left_to_them():
    Z, y = rows_of(5, n_features=MOST + 3)
    others = (Z[:, MOST:] @ [1.0, -2.0, 0.5])[None]
    leading = CovarianceBlock(MOST + 3, 1)
    said = np.concatenate([told(y, 0.5), np.zeros((1, N_STATS - 4, 400))], axis=1)
    said[:, ADDED] = others  # of predictions in which nothing leads
    led = np.zeros((1, MOST))
    known = np.zeros((1, N_FACTS)), led, led, led
    leading.add(np.ascontiguousarray(Z[:, :MOST]), said, np.ones(400), known, gamma=1.0)
    expected = exact(Z[:, :MOST], y - others[0], 0.5)
    assert_allclose(leading.estimate()[0][0], expected[0], rtol=1e-3, atol=1e-3)
    assert_allclose(leading.estimate()[1][0], expected[1], rtol=1e-3)


def test_deviations_are_positive_and_shrink_with_the_evidence():
    rng, leading, before = np.random.default_rng(6), CovarianceBlock(20, 1), np.ones(20)
    for _ in range(6):
        Z = rng.normal(size=(300, 1)) + 0.05 * rng.normal(size=(300, 20))  # nearly one column
        leading.add(Z, told(Z[:, 0], 1.0), np.ones(300), None, gamma=1.0)
        _, (deviation,) = leading.estimate()
        assert (deviation > 0.0).all()
        assert (deviation < before).all()
        before = deviation


def test_forgetting_divides_the_evidence_of_one_row_of_parameters():
    Z, y = rows_of(7)
    leading = CovarianceBlock(4, 2)
    leading.add(Z, told(np.stack([y, y]), 0.5), np.ones(400), None, gamma=1.0)
    kept = leading.estimate()
    leading.forget(1, 0.1)
    mean, deviation = leading.estimate()
    assert_array_equal(mean[0], kept[0][0])
    assert_array_equal(deviation[0], kept[1][0])
    expected = exact(Z, y, 0.5, np.full(400, 0.1))
    assert_allclose(mean[1], expected[0], **NEAR)
    assert_allclose(deviation[1], expected[1], **NEAR)


def test_who_leads_is_looked_at_every_1000_rows_and_sooner_at_the_beginning():
    leading = CovarianceBlock(2, 1)
    for n, due in ((999, False), (1, True)):
        leading.add(np.zeros((n, 2)), told(np.zeros(n), 1.0), np.ones(n), None, gamma=1.0)
        assert leading.is_due(1e6) == due
    leading.waited = 0.0
    assert not leading.is_due(1e6)
    leading.waited = 50.0
    assert leading.is_due(200.0)
    assert not leading.is_due(201.0)


def follow(leading, score, mu, var, prior=0.1):
    """Let the best lead, with this diagonal belief; what it was asked for."""
    asked = []

    def belief(columns):
        asked.append(columns.tolist())
        return mu[:, columns], var[:, columns]

    leading.follow(score, belief, prior)
    return asked


class TestFollow:
    """Who leads, when there are more features than can."""

    def started(self, n_features=MOST + 20):
        Z, y = rows_of(8, n_features=n_features)
        leading = CovarianceBlock(n_features, 2)
        said = told(np.stack([y, -y]), 0.5)
        leading.add(Z[:, :MOST], said, np.ones(400), None, gamma=1.0)
        mu, var = np.full((2, n_features), 0.25), np.full((2, n_features), 0.02)
        mu[1] = -0.5
        return leading, mu, var

    def test_the_best_lead_and_what_is_known_of_those_that_stay_is_kept(self):
        leading, mu, var = self.started()
        score = np.ones(MOST + 20)
        score[[3, 50, 51]] = 0.1
        score[[MOST + 2, MOST + 7, MOST + 19]] = 2.0
        before, information = leading.columns, leading.information
        pull = leading.pull
        follow(leading, score, mu, var)
        gone, new = [3, 50, 51], [MOST + 2, MOST + 7, MOST + 19]
        assert_array_equal(leading.columns, np.append(np.setdiff1d(np.arange(MOST), gone), new))
        stay = np.setdiff1d(before, gone)
        old, now = np.append(stay, MOST), np.append(np.searchsorted(leading.columns, stay), MOST)
        for k in range(2):
            assert_array_equal(
                leading.information[k][np.ix_(now, now)], information[k][np.ix_(old, old)]
            )
            assert_array_equal(leading.pull[k, now], pull[k, old])

    def test_newcomers_bring_what_the_diagonal_belief_knows(self):
        leading, mu, var = self.started()
        score = np.ones(MOST + 20)
        score[MOST + 5] = 3.0
        follow(leading, score, mu, var)
        place = int(np.searchsorted(leading.columns, MOST + 5))
        assert leading.columns[place] == MOST + 5
        rest = np.delete(np.arange(MOST + 1), place)
        for k in range(2):
            assert_allclose(leading.information[k, place, place], 1.0 / 0.02 - 1.0 / 0.1)
            assert not leading.information[k, place, rest].any()
            assert not leading.information[k, rest, place].any()
            assert_allclose(leading.pull[k, place], mu[k, MOST + 5] / 0.02)
        mean, deviation = leading.estimate()
        assert_allclose(mean[:, place], [0.25, -0.5], rtol=0.25)
        assert_allclose(deviation[:, place], np.sqrt(0.02), rtol=0.15)

    def test_a_newcomer_must_be_better_by_a_tenth(self):
        leading, mu, var = self.started()
        score = np.ones(MOST + 20)
        score[MOST:] = 1.09
        follow(leading, score, mu, var)
        assert_array_equal(leading.columns, np.arange(MOST))
        score = np.ones(MOST + 20)
        score[MOST + 4] = 1.11
        follow(leading, score, mu, var)
        assert (MOST + 4) in leading.columns
        assert len(leading.columns) == len(set(leading.columns.tolist())) == MOST

    def test_the_columns_are_sorted(self):
        leading, mu, var = self.started()
        rng = np.random.default_rng(9)
        for _ in range(5):
            follow(leading, rng.random(MOST + 20), mu, var)
            assert (np.diff(leading.columns) > 0).all()

    def test_only_newcomers_are_asked_for(self):
        leading, mu, var = self.started()
        score = np.ones(MOST + 20)
        score[[MOST + 2, MOST + 9]] = 3.0
        assert follow(leading, score, mu, var) == [[MOST + 2, MOST + 9]]
        stay = np.isin(np.arange(MOST + 20), leading.columns)
        assert follow(leading, np.where(stay, 2.0, 1.0), mu, var) == []

    def test_what_a_newcomer_has_missed_is_known(self):
        leading, mu, var = self.started()
        assert_array_equal(leading.seen(), 1.0)
        score = np.ones(MOST + 20)
        score[MOST + 5] = 3.0
        follow(leading, score, mu, var)
        new = leading.columns == MOST + 5
        assert_array_equal(leading.seen()[~new], 1.0)
        assert (leading.seen()[new] < 2e-3).all()
        Z, y = rows_of(3, n_features=MOST)
        leading.add(Z, told(np.stack([y, -y]), 0.5), np.ones(400), None, gamma=1.0)
        assert_allclose(leading.seen()[new], 0.5)
        assert_array_equal(leading.seen()[~new], 1.0)

    @pytest.mark.parametrize("how", ["forget", "forget one", "fade", "loosen"])
    def test_the_share_that_a_column_has_seen_stays_when_evidence_fades(self, how):
        leading, mu, var = self.started()
        score = np.ones(MOST + 20)
        score[MOST + 5] = 3.0
        follow(leading, score, mu, var)
        Z, y = rows_of(3, n_features=MOST)
        leading.add(Z, told(np.stack([y, -y]), 0.5), np.ones(400), None, gamma=1.0)
        new = leading.columns == MOST + 5
        if how == "forget":
            leading.forget(slice(None), 0.1)
        elif how == "forget one":
            leading.forget(1, 0.1)
        elif how == "fade":
            leading.add(0.0 * Z[:1], told(np.zeros((2, 1)), 0.5), np.zeros(1), None, gamma=0.5)
        else:  # the level has moved
            direction = np.zeros(MOST + 1)
            direction[-1] = 1.0
            for row in (0, 1):
                leading.loosen(row, direction, 1.0)
        assert_allclose(leading.seen()[new], 0.5, rtol=0.05)
        assert_array_equal(leading.seen()[~new], 1.0)


def test_a_system_gives_the_posterior_of_any_subset():
    """As if there were no other column."""
    Z, y = rows_of(4)
    leading = CovarianceBlock(4, 1)
    leading.add(Z, told(y, 0.5), np.ones(400), None, gamma=1.0)
    (system,) = leading.systems()
    assert_allclose(np.linalg.solve(system[:, :-1], system[:, -1])[:4], leading.means()[0])
    assert_allclose(leading.means(), leading.estimate()[0])
    for subset in ([0], [1, 3], [0, 1, 2]):
        alone = CovarianceBlock(len(subset), 1)
        alone.add(Z[:, subset], told(y, 0.5), np.ones(400), None, gamma=1.0)
        S = [*subset, 4]
        mean = np.linalg.solve(system[np.ix_(S, S)], system[S, -1])
        assert_allclose(mean[:-1], alone.means()[0], **NEAR)


def test_dependent_rows_count_as_fewer_in_a_system():
    Z, y = rows_of(4)
    leading = CovarianceBlock(4, 1)
    leading.add(Z, told(y, 0.5), np.ones(400), None, gamma=1.0)
    (once,) = leading.systems()
    leading.inflation = np.array([4.0])
    (fewer,) = leading.systems()
    prior = np.column_stack([np.eye(5), np.zeros(5)])
    assert_allclose(fewer - prior, (once - prior) / 4.0)


def test_what_a_column_brought_is_not_in_a_system():
    n_features = MOST + 5
    leading = CovarianceBlock(n_features, 1)
    mu, var = np.full((1, n_features), 0.3), np.full((1, n_features), 0.01)
    score = np.ones(n_features)
    score[-1] = 2.0
    follow(leading, score, mu, var)
    (system,) = leading.systems()
    assert_allclose(system[:, :-1], np.eye(MOST + 1))
    assert_allclose(system[:, -1], 0.0, atol=1e-12)
    assert leading.means()[0, -1] != 0.0


def test_what_was_saved_goes_on_bit_for_bit():
    Z, y = rows_of(10)
    leading = CovarianceBlock(4, 1)
    leading.add(Z[:200], told(y[:200], 0.5), np.ones(200), None, gamma=0.999)
    _, arrays = collect(leading, CovarianceBlock.learnt)
    other, sizes = CovarianceBlock(4, 1), {"J": 4, "R": 1, "C": 4, "C1": 5}
    restore(other, CovarianceBlock.learnt, {}, arrays, sizes)
    for one in (leading, other):
        one.add(Z[200:], told(y[200:], 0.5), np.ones(200), None, gamma=0.999)
    for found, expected in zip(other.estimate(), leading.estimate(), strict=True):
        assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("columns", np.array([0, 1, 2, 4])), ("information", np.zeros((1, 4, 4))), ("pull", [[0.0]])],
)
def test_a_state_that_does_not_fit_is_refused(name, bad):
    _, arrays = collect(CovarianceBlock(4, 1), CovarianceBlock.learnt)
    with pytest.raises(StateError, match=name):
        restore(
            CovarianceBlock(4, 1),
            CovarianceBlock.learnt,
            {},
            arrays | {name: np.asarray(bad)},
            {"J": 4, "R": 1, "C": 4, "C1": 5},
        )


def test_a_newcomer_that_no_row_has_spoken_of_keeps_its_mean():
    """Its variance is that of a narrow prior: its mean must not grow with the width of ours."""
    n_features, prior = MOST + 2, 1e-6
    leading = CovarianceBlock(n_features, 1)
    mu, var = np.zeros((1, n_features)), np.full((1, n_features), prior)
    mu[0, -2:], var[0, -1] = 1e-3, 1e-9
    follow(leading, np.abs(mu[0]), mu, var, prior)
    mean, deviation = leading.estimate()
    assert_allclose(mean[0, -2:], 1e-3, rtol=2e-3)
    assert_allclose(deviation[0, -2:], [1.0, np.sqrt(1e-9)], rtol=1e-3)
