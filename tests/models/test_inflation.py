"""Dependent rows: the inflation is that of the variance of their sums."""

import numpy as np
import pytest
from scipy.signal import lfilter

from fires import FIRES
from fires.core.batch import row_major
from fires.core.declared import collect, restore
from fires.models.inflation import Inflation

COLUMNS = np.arange(20)


def taken(inflation, Z, g, *, gamma=1.0 - 1e-4, columns=COLUMNS):
    """Tell it rows with scores g and an information of 1, and a predictor that adds nothing."""
    lines = np.array([g, g, np.zeros(len(g)), g, np.ones(len(g))])[:, None]
    inflation.take(columns, row_major(Z), lines, gamma)
    return inflation


def ar(rng, shape, rho):
    noise = rng.normal(size=shape) * np.sqrt(1.0 - rho**2)
    noise[0] /= np.sqrt(1.0 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=0)


def test_independent_rows_are_not_inflated():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        found = taken(Inflation(1), rng.normal(size=(20_000, 20)), rng.normal(size=20_000))
        assert found.pooled[0] < 1.2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (lambda rng, Z, g: (ar(rng, Z.shape, 0.9), ar(rng, g.shape, 0.9)), 1.81 / 0.19),
        (lambda rng, Z, g: (Z[::5].repeat(5, axis=0), g[::5].repeat(5)), 5.0),
        (lambda rng, Z, g: (Z, 2.0 * g), 4.0),
    ],
    ids=["AR(0.9)", "each row five times", "overdispersed"],
)
def test_the_inflation_is_that_of_the_variance(rows, expected):
    rng = np.random.default_rng(0)
    Z, g = rows(rng, rng.normal(size=(40_000, 20)), rng.normal(size=40_000))
    assert taken(Inflation(1), Z, g).pooled[0] == pytest.approx(expected, rel=0.25)


def test_one_change_is_not_taken_for_dependence():
    rng, inflation = np.random.default_rng(0), Inflation(1)
    taken(inflation, rng.normal(size=(10_000, 20)), rng.normal(size=10_000))
    Z = rng.normal(size=(500, 20))
    taken(inflation, Z, Z @ np.ones(20))  # every column says the same, in every row
    assert inflation.pooled[0] < 2.5


def test_batches_may_be_cut_anywhere():
    rng = np.random.default_rng(0)
    Z, g = rng.normal(size=(3_000, 20)), rng.normal(size=3_000)
    whole, cut = taken(Inflation(1), Z, g), Inflation(1)
    for part in np.array_split(np.arange(3_000), [7, 450, 451, 1999]):
        taken(cut, Z[part], g[part])
    np.testing.assert_allclose(cut.blocks, whole.blocks)
    np.testing.assert_array_equal(cut.filled, whole.filled)


def test_columns_that_no_longer_lead_make_room():
    rng, inflation = np.random.default_rng(0), Inflation(1)
    Z, g = rng.normal(size=(2_050, 20)), rng.normal(size=2_050)
    taken(inflation, Z, g)
    kept = inflation.blocks[..., 5:].copy()
    columns = np.concatenate([COLUMNS[5:], [30, 31]])
    taken(inflation, np.zeros((0, 17)), np.zeros(0), columns=columns)
    inflation.add(columns, np.zeros((2, 1, 18)), 0.0, 1.0)
    np.testing.assert_array_equal(inflation.blocks[..., :15], kept[..., :-1])
    np.testing.assert_array_equal(inflation.blocks[..., -1], kept[..., -1])
    assert not inflation.blocks[..., 15:17].any()


def test_it_is_saved_and_goes_on():
    rng, inflation, other = np.random.default_rng(0), Inflation(1), Inflation(1)
    taken(inflation, rng.normal(size=(5_050, 20)), 3.0 * rng.normal(size=5_050))
    _, arrays = collect(inflation, Inflation.learnt)
    restore(other, Inflation.learnt, {}, arrays, {"J": 20, "R": 1})
    other.refresh()
    Z, g = rng.normal(size=(1_000, 20)), rng.normal(size=1_000)
    assert taken(other, Z, g).pooled == taken(inflation, Z, g).pooled


def test_intervals_of_rows_that_come_five_times_are_wider():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_400, 10))
    y = (X[:, 0] + rng.normal(size=2_400) > 0.0).astype(int)
    once, often = FIRES(1), FIRES(1)
    for i in range(0, 2_400, 20):
        often.partial_fit(X[i : i + 20].repeat(5, axis=0), y[i : i + 20].repeat(5))
        once.partial_fit(X[i : i + 20], y[i : i + 20])
    ratio = often.uncertainties_ / once.uncertainties_
    assert 0.7 < np.median(ratio) < 1.4  # not 0.45, as if each row had come for itself


def test_scores_are_those_of_the_columns_that_led_when_rows_came():
    """Every 1,000 rows others may come to lead: the rows of that batch said nothing of them."""
    rng, selector, before, n_new = np.random.default_rng(0), FIRES(2), None, 0
    for _ in range(40):
        X = rng.normal(size=(130, 150))
        selector.partial_fit(X, X[:, 140] - X[:, 145] > 0.0)
        leading, inflation = selector.learner.leading.columns, selector.learner.changes.inflation
        if before is not None:
            np.testing.assert_array_equal(inflation.columns, leading)
            new = ~np.isin(leading, before)
            assert not inflation.blocks[..., :-1][..., new].any()
            n_new += int(new.sum())
        before = leading.copy()
    assert n_new > 0
    assert inflation.blocks[..., :-1].any(axis=(0, 1, 2)).sum() > 50


def test_the_inflation_is_that_of_the_blocks_at_any_time():
    """Also right after others have come to lead: else a run that is resumed goes another way."""
    rng, selector, n_followed = np.random.default_rng(0), FIRES(2), 0
    for _ in range(120):
        X = rng.normal(size=(6, 150))
        y = (X[:, 140] - X[:, 145] + rng.normal(size=6) > 0.0).astype(int)
        led = None if selector.learner is None else selector.learner.changes.inflation.columns
        selector.partial_fit(X.repeat(5, axis=0), y.repeat(5))
        inflation = selector.learner.changes.inflation
        kept = inflation.pooled.copy(), inflation.of_predictor.copy()
        inflation.refresh()
        np.testing.assert_array_equal((inflation.pooled, inflation.of_predictor), kept)
        n_followed += led is not inflation.columns
    assert n_followed > 2
    assert kept[0] > 1.0
