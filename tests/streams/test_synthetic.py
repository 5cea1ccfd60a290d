import numpy as np
import pytest

from fires.streams.synthetic import DriftingFeatures


def rows(stream, batch_size=1_000):
    batches = list(stream.batches(batch_size))
    return np.concatenate([b.X for b in batches]), np.concatenate([b.y for b in batches])


def correlations(X, y):
    """Point-biserial, of every column with the label."""
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    return z.T @ (y - y.mean()) / (len(y) * y.std())


@pytest.mark.parametrize("batch_size", [1, 7, 100, 999, 1_000, 1_001, 2_500, 10_000])
def test_rows_are_the_same_however_they_are_cut(batch_size):
    stream = DriftingFeatures(n_samples=2_500, n_features=6, n_relevant=2)
    X, y = rows(stream)
    batches = list(stream.batches(batch_size))
    assert [b.n_rows for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert [b.position.rows for b in batches] == np.cumsum([b.n_rows for b in batches]).tolist()
    np.testing.assert_array_equal(np.concatenate([b.X for b in batches]), X)
    np.testing.assert_array_equal(np.concatenate([b.y for b in batches]), y)


def test_rows_do_not_depend_on_where_the_stream_ends():
    short, long = (DriftingFeatures(n, 6, 2, drift_at=1.0) for n in (1_500, 4_000))
    np.testing.assert_array_equal(rows(short)[0], rows(long)[0][:1_500])
    np.testing.assert_array_equal(rows(short)[1], rows(long)[1][:1_500])


@pytest.mark.parametrize(
    "seed", [3, None, np.random.default_rng(3), np.random.RandomState(3)], ids=lambda s: type(s)
)
def test_every_iteration_gives_the_same_rows_also_two_at_a_time(seed):
    stream = DriftingFeatures(n_samples=1_200, n_features=6, n_relevant=2, random_state=seed)
    for first, second in zip(stream.batches(500), stream.batches(500), strict=True):
        np.testing.assert_array_equal(first.X, second.X)
        np.testing.assert_array_equal(first.y, second.y)


def test_what_is_done_to_a_batch_does_not_reach_the_next():
    stream = DriftingFeatures(n_samples=1_200, n_features=6, n_relevant=2)
    X, _ = rows(stream)
    for batch in stream.batches(100):
        batch.X[:] = 0.0
    np.testing.assert_array_equal(rows(stream)[0], X)


def test_a_seed_makes_a_stream_and_another_seed_another():
    again, same, other = (DriftingFeatures(n_samples=500, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(rows(again)[0], rows(same)[0])
    assert not np.isclose(rows(again)[0], rows(other)[0]).any()
    assert set(again.relevant_at(0)) != set(other.relevant_at(0))


def test_the_global_random_state_is_neither_read_nor_moved():
    before = np.random.get_state()  # noqa: NPY002
    X, _ = rows(DriftingFeatures(n_samples=300))
    np.random.seed(5)  # noqa: NPY002
    again, _ = rows(DriftingFeatures(n_samples=300))
    np.testing.assert_array_equal(X, again)
    np.random.set_state(before)  # noqa: NPY002
    rows(DriftingFeatures(n_samples=300))
    for part, part_before in zip(np.random.get_state(), before, strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(part, part_before)


@pytest.mark.parametrize("seed", range(5))
def test_the_relevant_features_and_no_others_tell_the_label_before_and_after(seed):
    stream = DriftingFeatures(random_state=seed)
    X, y = rows(stream)
    assert stream.change == 10_000
    for part in (slice(0, stream.change), slice(stream.change, None)):
        strength = np.abs(correlations(X[part], y[part]))
        relevant = stream.relevant_at(part.start)
        assert strength[relevant].min() > 0.15
        # The standard error of a correlation of nothing, over 10,000 rows, is 0.01.
        assert np.delete(strength, relevant).max() < 0.05


@pytest.mark.parametrize("drift_at", [0.001, 0.3, 1.0])
def test_the_truth_changes_at_the_row_of_the_change(drift_at):
    stream = DriftingFeatures(n_samples=1_000, drift_at=drift_at)
    assert stream.change == 1_000 * drift_at
    old, new = stream.relevant_at(0), stream.relevant_at(999)
    np.testing.assert_array_equal(stream.relevant_at(stream.change - 1), old)
    if drift_at < 1.0:
        np.testing.assert_array_equal(stream.relevant_at(stream.change), new)
        assert not set(old) & set(new)
    else:
        np.testing.assert_array_equal(new, old)
    assert len(old) == len(new) == 5
    old[:] = 0
    assert stream.relevant_at(0).any()


@pytest.mark.parametrize("row", [-1, 20_000])
def test_a_row_that_is_not_there_has_no_truth(row):
    with pytest.raises(IndexError, match="rows 0 to 19999"):
        DriftingFeatures().relevant_at(row)


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
def test_positives_have_their_rate_whatever_the_noise(rate):
    for noise in (0.0, 2.0):
        _, y = rows(DriftingFeatures(positive_rate=rate, noise=noise))
        assert abs(y.mean() - rate) < 0.015  # four standard errors of 20,000 rows


def test_without_noise_a_line_separates_the_classes():
    stream = DriftingFeatures(n_samples=400, n_features=4, n_relevant=1, drift_at=1.0, noise=0.0)
    X, y = rows(stream)
    column = X[:, stream.relevant_at(0)[0]]
    low, high = column[y == 0], column[y == 1]
    assert low.max() < high.min() or high.max() < low.min()


def test_features_cannot_be_compared_as_they_come():
    X, _ = rows(DriftingFeatures())
    assert X.std(axis=0).max() > 1_000 * X.std(axis=0).min()
    assert np.abs(X.mean(axis=0) / X.std(axis=0)).max() > 3.0


def test_the_schema_names_the_columns_and_the_classes():
    schema = DriftingFeatures(n_features=12).schema
    assert schema.feature_names[0] == "x0"
    assert schema.feature_names[-1] == "x11"
    assert schema.n_features == 12
    assert schema.classes == (0, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_samples": 0}, "n_samples"),
        ({"n_relevant": 0}, "n_relevant"),
        ({"n_relevant": 26}, "half of n_features=50"),
        ({"drift_at": 0.0}, "drift_at"),
        ({"drift_at": 1.5}, "drift_at"),
        ({"positive_rate": 1.0}, "positive_rate"),
        ({"noise": -1.0}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_settings_that_make_no_stream_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        DriftingFeatures(**changes)


def test_a_batch_size_of_nothing_is_refused():
    with pytest.raises(ValueError, match="batch_size"):
        next(DriftingFeatures().batches(0))
