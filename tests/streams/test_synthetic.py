import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fires import FIRES
from fires.evaluation import prequential
from fires.streams import DriftingFeatures, KnownTruth, SignProduct, SparseWide

STREAMS = {
    "DriftingFeatures": lambda n=2_500, **changes: DriftingFeatures(n, 6, 2, **changes),
    "KnownTruth": lambda n=2_500, **changes: KnownTruth(n, 8, 2, n_twins=2, **changes),
    "SignProduct": lambda n=2_500, **changes: SignProduct(n, 6, flip=0.1, **changes),
    "SparseWide": lambda n=2_500, **changes: SparseWide(n, 500, 2, length=8.0, **changes),
}
every_stream = pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS.keys())


def rows(stream, batch_size=1_000):
    """All rows, as one array, and their labels."""
    batches = list(stream.batches(batch_size))
    X = [b.X.toarray() if sparse.issparse(b.X) else b.X for b in batches]
    return np.concatenate(X), np.concatenate([b.y for b in batches])


def correlations(X, y):
    """Point-biserial, of every column with the label."""
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    return z.T @ (y - y.mean()) / (len(y) * y.std())


# --- what holds for all of them -----------------------------------------------------------------


@every_stream
@pytest.mark.parametrize("batch_size", [7, 100, 999, 1_000, 1_001, 2_500, 10_000])
def test_rows_are_the_same_however_they_are_cut(make, batch_size):
    stream = make()
    X, y = rows(stream)
    batches = list(stream.batches(batch_size))
    assert [b.n_rows for b in batches[:-1]] == [batch_size] * (len(batches) - 1)
    assert [b.position.rows for b in batches] == np.cumsum([b.n_rows for b in batches]).tolist()
    again = rows(stream, batch_size)
    np.testing.assert_array_equal(again[0], X)
    np.testing.assert_array_equal(again[1], y)
    assert {b.X.dtype for b in batches} == {np.dtype(np.float64)}
    assert {b.X.shape[1] for b in batches} == {stream.schema.n_features}


@pytest.mark.parametrize("batch_size", [333, 334, 1_000, 1_001])
def test_wide_rows_which_are_drawn_fewer_at_a_time_are_the_same_too(batch_size):
    stream = KnownTruth(1_100, 3_000, 2, n_twins=2)
    whole = rows(stream, 2_000)
    for found, wanted in zip(rows(stream, batch_size), whole, strict=True):
        np.testing.assert_array_equal(found, wanted)


@every_stream
def test_rows_one_at_a_time_are_the_same(make):
    stream = make(n=300)
    for found, wanted in zip(rows(stream, 1), rows(stream), strict=True):
        np.testing.assert_array_equal(found, wanted)


@every_stream
def test_rows_do_not_depend_on_where_the_stream_ends(make):
    short, long = (make(n=n, drift_at=1.0) for n in (1_500, 4_000))
    np.testing.assert_array_equal(rows(short)[0], rows(long)[0][:1_500])
    np.testing.assert_array_equal(rows(short)[1], rows(long)[1][:1_500])
    assert short.drifts == ()


@every_stream
@pytest.mark.parametrize(
    "seed", [3, None, np.random.default_rng(3), np.random.RandomState(3)], ids=lambda s: type(s)
)
def test_every_iteration_gives_the_same_rows_also_two_at_a_time(make, seed):
    stream = make(n=1_200, random_state=seed)
    for first, second in zip(stream.batches(500), stream.batches(500), strict=True):
        assert abs(first.X - second.X).max() == 0.0
        np.testing.assert_array_equal(first.y, second.y)


@every_stream
def test_what_is_done_to_a_batch_does_not_reach_the_next(make):
    stream = make(n=1_200)
    X, y = rows(stream)
    found = []
    for batch in stream.batches(100):
        found.append(batch.X.copy())
        values = batch.X.data if sparse.issparse(batch.X) else batch.X
        values[:] = 0.0
        batch.y[:] = -1
    stack = sparse.vstack if sparse.issparse(found[0]) else np.concatenate
    assert abs(stack(found) - X).max() == 0.0
    np.testing.assert_array_equal(rows(stream)[1], y)


@every_stream
def test_a_seed_makes_a_stream_and_another_seed_another(make):
    again, same, other = (make(n=500, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(rows(again)[0], rows(same)[0])
    np.testing.assert_array_equal(rows(again)[1], rows(same)[1])
    assert (rows(again)[0] != rows(other)[0]).any(axis=1).all()


@every_stream
def test_the_global_random_state_is_neither_read_nor_moved(make):
    before = np.random.get_state()  # noqa: NPY002
    X, _ = rows(make(n=300))
    np.random.seed(5)  # noqa: NPY002
    again, _ = rows(make(n=300))
    np.testing.assert_array_equal(X, again)
    np.random.set_state(before)  # noqa: NPY002
    rows(make(n=300))
    for part, part_before in zip(np.random.get_state(), before, strict=True):  # noqa: NPY002
        np.testing.assert_array_equal(part, part_before)


@every_stream
def test_the_schema_names_the_columns_and_the_classes_of_every_stream(make):
    schema = make().schema
    assert schema.feature_names[:2] == ("x0", "x1")
    assert len(schema.feature_names) == schema.n_features
    assert schema.classes == (0, 1)
    assert set(rows(make())[1]) == {0, 1}


@every_stream
def test_truth_is_a_set_of_columns_that_the_caller_may_change(make):
    stream = make(drift_at=0.5)
    old, new = stream.relevant_at(0), stream.relevant_at(stream.n_samples - 1)
    assert stream.drifts == (1_250,)
    np.testing.assert_array_equal(stream.relevant_at(1_249), old)
    np.testing.assert_array_equal(stream.relevant_at(1_250), new)
    assert (np.diff(old) > 0).all()
    assert (np.diff(new) > 0).all()
    assert not set(old) & set(new)
    assert 0 <= min(old.min(), new.min()) <= max(old.max(), new.max()) < stream.schema.n_features
    kept = old.copy()
    old[:] = 0
    np.testing.assert_array_equal(stream.relevant_at(0), kept)


@every_stream
@pytest.mark.parametrize("row", [-1, 2_500])
def test_a_row_outside_the_stream_has_no_truth(make, row):
    with pytest.raises(IndexError, match="rows 0 to 2499"):
        make().relevant_at(row)


@every_stream
def test_a_run_over_it_is_a_run_like_any_other(make):
    steps = list(prequential(make(n=500), FIRES(2), batch_size=100))
    assert [step.n_rows for step in steps] == [100] * 5


@pytest.mark.parametrize("name", ["KnownTruth", "SignProduct", "SparseWide"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n_samples must be at least 1"),
        ({"drift_at": [0.5, 0.5]}, "must ascend"),
        ({"drift_at": [0.6, 0.3]}, "must ascend"),
        ({"drift_at": -0.1}, r"drift_at must lie in \(0, 1\]"),
        ({"drift_at": [[0.5]]}, "drift_at"),
        ({"drift_at": [np.nan]}, "drift_at"),
        ({"drift_at": [0.5, 0.6], "drift_width": 0.2}, "one takes 500 rows"),
        ({"drift_at": 0.95, "drift_width": 0.1}, "before the stream does"),
        ({"drift_width": -0.1}, "drift_width"),
        ({"drift_width": 1.0}, "drift_width"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_drifts_that_make_no_stream_are_refused(name, changes, message):
    with pytest.raises(ValueError, match=message):
        STREAMS[name](**changes)


def test_memory_does_not_grow_with_the_stream():
    def peak(stream):
        tracemalloc.start()
        try:
            for batch in stream.batches(20):
                del batch
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    for make in (
        lambda n: KnownTruth(n, 2_000, 5, n_twins=5),
        lambda n: SparseWide(n, 2_000, 5, length=10.0),
    ):
        peak(make(100))  # what is loaded once
        short, long = peak(make(1_000)), peak(make(5_000))
        assert long < 1.2 * short + 100_000


# --- drifts -------------------------------------------------------------------------------------


@given(
    # Whole tenths: a drift of a tenth ends before the next one comes.
    n_samples=st.integers(2, 40).map(lambda tens: 10 * tens),
    cuts=st.lists(st.integers(1, 9), unique=True, max_size=4).map(sorted),
    width=st.sampled_from([0.0, 0.05, 0.1]),
    recurring=st.booleans(),
    row=st.integers(0, 399),
)
def test_truth_follows_the_drifts(n_samples, cuts, width, recurring, row):
    row = min(row, n_samples - 1)
    settings = {"drift_at": [cut / 10 for cut in cuts], "drift_width": width}
    stream = SignProduct(n_samples, 12, 2, recurring=recurring, **settings)
    starts = [round(cut / 10 * n_samples) for cut in cuts]
    assert stream.drifts == tuple(start for start in starts if start < n_samples)
    number = sum(row >= start for start in starts)
    sets = [set(stream._relevant[i % 2 if recurring else i].tolist()) for i in range(number + 1)]
    lasts = number and row < starts[number - 1] + round(width * n_samples)
    wanted = sets[number] | sets[number - 1] if lasts else sets[number]
    assert set(stream.relevant_at(row).tolist()) == wanted
    if not recurring:
        assert len(set.union(*sets)) == 2 * len(sets)


def deciding_columns(stream, X, y):
    """For every row, the sets whose product of signs is its label."""
    return [
        (np.prod(np.sign(X[:, columns]), axis=1) > 0) == (y == 1) for columns in stream._relevant
    ]


def test_an_abrupt_drift_changes_what_decides_from_one_row_to_the_next():
    stream = SignProduct(9_000, drift_at=[1 / 3, 2 / 3])
    X, y = rows(stream)
    agrees = deciding_columns(stream, X, y)
    for number, part in enumerate(np.split(np.arange(9_000), stream.drifts)):
        for other, agreement in enumerate(agrees):
            share = agreement[part].mean()
            assert share == 1.0 if other == number else abs(share - 0.5) < 0.04


def test_recurring_drifts_bring_the_first_features_back():
    stream = SignProduct(8_000, drift_at=[0.25, 0.5, 0.75], recurring=True)
    X, y = rows(stream)
    first, second = deciding_columns(stream, X, y)
    for number, part in enumerate(np.split(np.arange(8_000), stream.drifts)):
        assert (second if number % 2 else first)[part].all()
    np.testing.assert_array_equal(stream.relevant_at(0), stream.relevant_at(5_000))
    np.testing.assert_array_equal(stream.relevant_at(3_000), stream.relevant_at(7_000))


def test_a_gradual_drift_hands_over_row_by_row():
    stream = SignProduct(40_000, drift_at=0.25, drift_width=0.5)
    X, y = rows(stream)
    old, new = deciding_columns(stream, X, y)
    assert old[:10_000].all()
    assert new[30_000:].all()
    for quarter in range(4):  # of the drift, in which the new set decides 1/8, 3/8, 5/8, 7/8
        part = slice(10_000 + 5_000 * quarter, 15_000 + 5_000 * quarter)
        share = (2 * quarter + 1) / 8
        # The set that does not decide agrees half of the time; four standard errors.
        assert abs(new[part].mean() - (1 + share) / 2) < 0.03
        assert abs(old[part].mean() - (2 - share) / 2) < 0.03
        assert (old | new)[part].all()
    np.testing.assert_array_equal(stream.relevant_at(10_000), np.sort(stream._relevant, axis=None))
    np.testing.assert_array_equal(stream.relevant_at(29_999), np.sort(stream._relevant, axis=None))
    np.testing.assert_array_equal(stream.relevant_at(30_000), np.sort(stream._relevant[1]))


# --- KnownTruth ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_twins_tell_of_the_label_what_their_originals_tell(seed):
    stream = KnownTruth(20_000, 30, 3, n_twins=4, twin_correlation=0.9, random_state=seed)
    X, y = rows(stream)
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    relevant = stream.relevant_at(0)
    assert len(stream.twins) == 4
    assert set(stream.twins.values()) == set(relevant.tolist())
    assert not set(stream.twins) & set(relevant.tolist())
    strength = np.abs(correlations(X, y))
    for twin, original in stream.twins.items():
        assert abs(z[:, twin] @ z[:, original] / len(z) - 0.9) < 0.01
        assert strength[twin] > 0.1
        # What of the twin is not its original says nothing; one standard error is 0.007.
        rest = z[:, twin] - 0.9 * z[:, original]
        assert abs(correlations(rest[:, None], y)[0]) < 0.03
    rest = np.setdiff1d(np.arange(30), [*relevant, *stream.twins])
    assert strength[relevant].min() > 0.2
    assert strength[rest].max() < 0.03


def test_twins_go_round_the_sets():
    stream = KnownTruth(100, 20, 2, n_twins=6, drift_at=0.5)
    first, second = stream.relevant_at(0).tolist(), stream.relevant_at(99).tolist()
    assert sorted(stream.twins.values()) == sorted([*first, *first, *second])


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
def test_positives_are_as_rare_as_asked_before_and_after_a_drift(rate):
    for make, changes in ((KnownTruth, {}), (SparseWide, {"head": 20})):
        stream = make(20_000, 40, 5, positive_rate=rate, drift_at=0.5, **changes)
        _, y = rows(stream, 5_000)
        for half in (y[:10_000], y[10_000:]):
            # Four standard errors of 10,000 rows, and those of the threshold.
            assert abs(half.mean() - rate) < 4.2 * np.sqrt(rate * (1 - rate) / 10_000)


def test_scaled_features_can_be_compared_as_they_come():
    X, y = rows(KnownTruth(scaled=True))
    assert np.abs(X.mean(axis=0)).max() < 0.04
    assert np.abs(X.std(axis=0) - 1.0).max() < 0.03
    np.testing.assert_array_equal(y, rows(KnownTruth())[1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_features": 0}, "n_features must be at least 1"),
        ({"n_relevant": 0}, "n_relevant must be at least 1"),
        ({"n_relevant": 51}, "cannot hold 1 x 51 relevant"),
        ({"n_relevant": 20, "drift_at": [0.2, 0.4]}, "cannot hold 3 x 20 relevant"),
        ({"n_twins": 46}, "n_twins=46"),
        ({"n_twins": -1}, "n_twins=-1"),
        ({"n_twins": 1, "twin_correlation": 1.0}, "twin_correlation"),
        ({"positive_rate": 0.0}, "positive_rate"),
        ({"noise": np.inf}, "noise"),
    ],
)
def test_truths_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        KnownTruth(**changes)


# --- SignProduct --------------------------------------------------------------------------------


@pytest.mark.parametrize("n_relevant", [2, 3])
def test_no_single_feature_tells_a_product_of_signs(n_relevant):
    stream = SignProduct(20_000, n_relevant=n_relevant, flip=0.1, random_state=n_relevant)
    X, y = rows(stream)
    # The standard error of a correlation of nothing, over 20,000 rows, is 0.007.
    assert np.abs(correlations(X, y)).max() < 0.03
    assert abs(y.mean() - 0.5) < 0.015
    product = np.prod(np.sign(X[:, stream.relevant_at(0)]), axis=1)
    assert abs(((product > 0) == (y == 1)).mean() - 0.9) < 0.01


@pytest.mark.parametrize("changes", [{"flip": 0.5}, {"flip": -0.1}, {"n_relevant": 21}])
def test_products_that_cannot_be_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes)) if "flip" in changes else "hold 1 x"):
        SignProduct(**changes)


# --- SparseWide ---------------------------------------------------------------------------------


def test_a_wide_stream_is_sparse_rows_in_order_whose_counts_are_whole():
    stream = SparseWide(3_000)
    for batch in stream.batches(700):
        assert batch.X.format == "csr"
        assert batch.X.shape == (batch.n_rows, 100_000)
        assert batch.X.has_canonical_format
        assert batch.X.indices.dtype == batch.X.indptr.dtype == np.int32
        assert (batch.X.data >= 1.0).all()
        assert (batch.X.data == np.round(batch.X.data)).all()
        assert abs(batch.X.sum() / batch.n_rows - 50.0) < 2.0  # words


@pytest.mark.parametrize("exponent", [0.0, 1.0, 1.5])
def test_words_are_as_frequent_as_zipf_says_and_independent(exponent):
    stream = SparseWide(20_000, 300, 3, head=50, length=20.0, exponent=exponent)
    X, _ = rows(stream)
    frequency = np.arange(1.0, 301.0) ** -exponent
    mean = 20.0 * frequency / frequency.sum()
    found = X[:, stream._column].mean(axis=0)
    # Counts are Poisson: five standard errors, of 300 columns.
    assert (np.abs(found - mean) < 5.0 * np.sqrt(mean / 20_000)).all()
    head = X[:, stream._column[:3]]
    np.testing.assert_allclose(head.var(axis=0), mean[:3], rtol=0.1)
    assert np.abs(np.corrcoef(head.T)[np.triu_indices(3, 1)]).max() < 0.04
    assert set(stream.relevant_at(0)) <= set(stream._column[:50])


@pytest.mark.parametrize("seed", range(3))
def test_the_relevant_words_and_no_others_tell_the_label(seed):
    stream = SparseWide(20_000, 400, 4, length=20.0, drift_at=0.5, random_state=seed)
    X, y = rows(stream)
    for part in (slice(0, 10_000), slice(10_000, None)):
        there = X[part].any(axis=0)  # a rare word may not occur at all
        columns = np.flatnonzero(there)
        strength = np.zeros(400)
        strength[there] = np.abs(correlations(X[part][:, columns], y[part]))
        relevant = stream.relevant_at(part.start or 0)
        assert strength[relevant].min() > 0.15
        assert np.delete(strength, relevant).max() < 0.05


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": 9}, "head must lie between the 1 x 10"),
        ({"head": 1_001, "n_features": 1_000}, "n_features=1000"),
        ({"length": 0.0}, "length"),
        ({"exponent": -1.0}, "exponent"),
        ({"noise": 0.0}, "noise must be finite and above 0"),
        ({"positive_rate": 1.0}, "positive_rate"),
    ],
)
def test_texts_that_cannot_be_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        SparseWide(**changes)


# --- DriftingFeatures ---------------------------------------------------------------------------


def test_the_stream_of_the_demo_is_what_it_always_was():
    stream = DriftingFeatures()
    X, y = rows(stream)
    assert stream.relevant_at(0).tolist() == [5, 7, 8, 35, 36]
    assert stream.relevant_at(19_999).tolist() == [16, 19, 25, 31, 49]
    np.testing.assert_allclose(X[0, :3], [0.0872636553004, -2.10001356816673, 0.12602243430769])
    np.testing.assert_allclose(X[-1, -2:], [-7.8249358033855, 0.0702255747279506])
    assert y[:12].tolist() == [0, 0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 1]
    assert y[10_000:10_012].tolist() == [0, 1, 1, 1, 0, 1, 0, 0, 1, 1, 0, 1]
    assert y.sum() == 9_963


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
        ({"n_relevant": 26}, "n_features=50 cannot hold 2 x 26"),
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
