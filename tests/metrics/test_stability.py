"""Stability: the published numbers, the laws of the measure, and the sliding window."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.core.state import read_state, write_state
from fires.metrics import StabilityWindow, stability, stability_interval

Z1 = np.array([[1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [1, 1, 0, 1, 0, 0]])
Z2 = np.array([[1, 0, 0, 0, 0, 1], [0, 1, 0, 1, 0, 0], [1, 0, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]])


def printed(number):
    """Equal to all twelve digits that the reference prints."""
    return pytest.approx(number, rel=0, abs=5.1e-13)


def by_definition(masks):
    """The formula of the paper, in floats and without a short cut."""
    r, J = masks.shape
    p = masks.mean(axis=0)
    share = p.sum() / J
    if r < 2 or share in (0.0, 1.0):
        return math.nan
    return 1 - np.mean(r / (r - 1) * p * (1 - p)) / (share * (1 - share))


def masks(min_sets=2, max_sets=8):
    """Matrices of masks; all empty and all full among them."""
    return st.tuples(st.integers(min_sets, max_sets), st.integers(1, 8)).flatmap(
        lambda shape: st.lists(
            st.lists(st.booleans(), min_size=shape[1], max_size=shape[1]),
            min_size=shape[0],
            max_size=shape[0],
        ).map(np.array)
    )


# The published numbers


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (Z1, 0.466666666667),
        (Z2, -0.25),
        ([[1, 0], [0, 1]], -1.0),
        ([[1, 1, 0, 0], [1, 0, 1, 0]], 0.0),
    ],
)
def test_stability_is_the_reference_value(sets, expected):
    assert stability(sets) == printed(expected)


def test_the_interval_is_the_reference_interval():
    assert stability_interval(Z1) == printed(
        (0.466666666667, 0.021096296296, 0.181990440945, 0.751342892389)
    )
    assert stability_interval(Z2) == (-0.25, 0.0, -0.25, -0.25)


def test_the_variance_follows_from_the_reference_phi():
    phi = np.array([1.25037037037, 1.25037037037, 0.894814814815, 1.12])
    variance = 4 / 4**2 * np.sum((phi - phi.mean()) ** 2)
    assert stability_interval(Z1).variance == pytest.approx(variance, abs=1e-11)


def test_two_procedures_compare_as_in_the_reference():
    first, second = stability_interval(Z1), stability_interval(Z2)
    T = (second.value - first.value) / math.sqrt(first.variance + second.variance)
    assert pytest.approx(-4.934169869732, abs=5e-12) == T


def test_more_confidence_is_a_wider_interval_around_the_same_value():
    narrow, wide = stability_interval(Z1, 0.5), stability_interval(Z1, confidence=0.99)
    assert narrow.value == wide.value
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


# The laws


@given(masks(min_sets=1))
def test_stability_is_its_definition(sets):
    assert stability(sets) == pytest.approx(by_definition(sets), abs=1e-12, nan_ok=True)


@given(masks())
def test_stability_is_bounded(sets):
    value = stability(sets)
    assert math.isnan(value) or -1 / (len(sets) - 1) <= value <= 1


@given(masks(), st.randoms(use_true_random=False))
def test_the_order_of_sets_and_of_features_does_not_matter(sets, random):
    rows, columns = (random.sample(range(n), n) for n in sets.shape)
    shuffled = sets[rows][:, columns]
    assert_array_equal(stability(shuffled), stability(sets))
    assert stability_interval(shuffled) == pytest.approx(
        stability_interval(sets), abs=1e-12, nan_ok=True
    )


@given(masks())
def test_only_equal_sets_are_perfectly_stable(sets):
    value = stability(sets)
    if not math.isnan(value):
        assert (value == 1.0) == bool((sets == sets[0]).all())


def test_random_sets_of_one_size_have_stability_zero_on_average():
    rng = np.random.default_rng(7)
    ranks = rng.random((4000, 10, 20)).argsort(axis=-1)
    values = np.array([stability(sets) for sets in ranks < 5])
    standard_error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean()) < 4 * standard_error < 0.01


def test_the_interval_covers_the_truth_for_independent_repetitions():
    """Sets from independent coins: the population value follows from the probabilities."""
    rng = np.random.default_rng(8)
    p = np.array([0.9, 0.8, 0.7, 0.3, 0.2, 0.1, 0.1, 0.1])
    truth = 1 - np.mean(p * (1 - p)) / (p.mean() * (1 - p.mean()))
    intervals = [stability_interval(rng.random((100, 8)) < p) for _ in range(500)]
    covered = np.mean([interval.low <= truth <= interval.high for interval in intervals])
    assert 0.91 < covered < 0.98


# What is undefined, what is accepted, what is refused


@pytest.mark.parametrize(
    "sets",
    [[], [[1, 0, 1]], np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((3, 4)), np.ones((3, 4))],
    ids=["no set", "one set", "no set of three", "no features", "all empty", "all full"],
)
def test_undefined_is_nan(sets):
    assert math.isnan(stability(sets))
    assert np.isnan(stability_interval(sets)).all()


@pytest.mark.parametrize("convert", [list, np.ndarray.tolist, np.asfortranarray])
@pytest.mark.parametrize("dtype", [bool, int, float, np.uint8])
def test_masks_come_in_many_forms(convert, dtype):
    assert stability(convert(Z1.astype(dtype))) == stability(Z1)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([1, 0, 1], r"shape \(n_sets, n_features\), got \(3,\)"),
        (np.zeros((2, 2, 2)), r"got \(2, 2, 2\)"),
        ([[1, 0], [1]], "masks of one length"),
        ([[1, 2], [0, 1]], "zeros and ones"),
        ([[0.5, 1], [0, 1]], "zeros and ones"),
        ([[math.nan, 1], [0, 1]], "zeros and ones"),
        ([["a", "b"], ["c", "d"]], "zeros and ones"),
    ],
)
def test_what_is_no_mask_is_refused_in_one_line(sets, message):
    with pytest.raises(ValueError, match=message) as caught:
        stability(sets)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("confidence", [0, 1, 95, -0.1, math.nan])
def test_confidence_lies_between_zero_and_one(confidence):
    with pytest.raises(ValueError, match="confidence"):
        stability_interval(Z1, confidence)


# The window


@given(
    sets=masks(min_sets=1, max_sets=30),
    size=st.integers(2, 6),
    form=st.sampled_from([np.flatnonzero, lambda mask: mask, lambda mask: [*np.flatnonzero(mask)]]),
)
def test_the_window_is_the_matrix_of_its_last_sets(sets, size, form):
    window = StabilityWindow(size, sets.shape[1])
    for step, mask in enumerate(sets, start=1):
        value = window.update(form(mask))
        # To the last bit: both are one rounding away from the same integers.
        assert_array_equal(value, stability(sets[max(0, step - size) : step]))
        assert_array_equal(value, window.value)


def test_the_window_sees_more_than_the_last_two_sets():
    sets = [[0, 1], [2, 3], [4, 5], [0, 2], [0, 2]]
    window = StabilityWindow(size=5, n_features=6)
    values = [window.update(selected) for selected in sets]
    dense = np.array([np.isin(range(6), selected) for selected in sets])
    assert values[-1] == -0.05 == pytest.approx(by_definition(dense))
    assert stability(dense[-2:]) == 1.0


def test_the_first_value_is_nan_and_not_zero():
    values = np.array([*map(StabilityWindow(10, 4).update, [[0, 1]] * 5)])
    assert_array_equal(values, [math.nan, 1, 1, 1, 1])


def test_the_order_of_indices_does_not_matter_and_the_caller_keeps_them():
    window, selected = StabilityWindow(2, 5), np.array([3, 0])
    window.update(selected)
    selected[:] = 1, 2
    assert window.update([0, 3]) == 1.0
    window.update([1])  # what leaves the window here is the first set as it was
    assert window.update([4]) == stability(np.eye(5)[[1, 4]])


def test_a_wide_window_costs_nothing_per_feature_and_stays_exact():
    J = 3_000_000
    window = StabilityWindow(3, J)
    sets = [np.arange(start, start + 5) for start in (0, 1, J - 5, J - 5, J - 5)]
    values = [window.update(selected) for selected in sets]
    assert values[1] == 1 - 2 * 2 * J / (10 * (2 * J - 10))
    assert values[-1] == 1.0


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ([0, 4], r"0\.\.3, got 0\.\.4"),
        ([-1, 2], r"0\.\.3, got -1\.\.2"),
        (np.array([2**64 - 1], dtype=np.uint64), r"0\.\.3"),
        ([1, 2, 1], "occurs twice"),
        ([1, 0, 1, 1], "mask must be boolean"),
        ([True, False], r"shape \(4,\), got \(2,\)"),
        (np.ones((4, 1), dtype=bool), r"shape \(4,\), got \(4, 1\)"),
        ([[0, 1]], r"shape \(1, 2\)"),
        (2, r"shape \(\)"),
        ([0.0, 1.0], "float64"),
        (["a"], "integer indices"),
        ({0, 1}, "integer indices"),
    ],
)
def test_a_refused_update_leaves_the_window_as_it_was(selected, message):
    window, twin = StabilityWindow(2, 4), StabilityWindow(2, 4)
    for either in (window, twin):
        either.update([0, 1])
        either.update([0, 2])
    with pytest.raises(ValueError, match=message) as caught:
        window.update(selected)
    assert "\n" not in str(caught.value)
    assert window.update([2, 3]) == twin.update([2, 3])
    assert window.update([1]) == twin.update([1])


@pytest.mark.parametrize(("size", "n_features"), [(1, 4), (0, 4), (3, 0), (3, -1)])
def test_a_window_needs_two_sets_and_a_feature(size, n_features):
    with pytest.raises(ValueError, match="must be at least"):
        StabilityWindow(size, n_features)


@given(sets=masks(min_sets=1, max_sets=12), stop=st.integers(0, 12), size=st.integers(2, 5))
def test_a_window_goes_on_from_its_state(sets, stop, size):
    window = StabilityWindow(size, sets.shape[1])
    for mask in sets[:stop]:
        window.update(mask)
    restored = StabilityWindow.from_state(window.state())
    assert_array_equal(restored.value, window.value)
    for mask in sets[stop:]:
        assert_array_equal(restored.update(mask), window.update(mask))


@pytest.mark.parametrize("sets", [[], [[]], [[0, 3], [], [1]]])
def test_the_state_survives_the_disk(tmp_path, sets):
    window = StabilityWindow(3, 4)
    for selected in sets:
        window.update(selected)
    write_state(tmp_path / "window", {}, window.state())
    restored = StabilityWindow.from_state(read_state(tmp_path / "window")[1])
    assert_array_equal(restored.update([3]), window.update([3]))


def test_a_state_that_does_not_fit_is_refused():
    window = StabilityWindow(2, 4)
    window.update([0, 1])
    with pytest.raises(ValueError, match="Not the state of a window"):
        StabilityWindow.from_state(window.state() | {"indices": np.array([0])})


# Features that come and go


@st.composite
def selections(draw):
    """Sets, each selected from those features that were present for it."""
    found = []
    for _ in range(draw(st.integers(1, 15))):
        present = draw(st.sets(st.integers(0, 12), min_size=1))
        found.append((sorted(draw(st.sets(st.sampled_from(sorted(present))))), sorted(present)))
    return found


@given(found=selections(), size=st.integers(2, 5), stop=st.integers(0, 15))
def test_a_window_of_changing_features_compares_over_their_union(found, size, stop):
    window = StabilityWindow(size)
    for step, (selected, present) in enumerate(found, start=1):
        value = window.update(selected, present)
        last = found[max(0, step - size) : step]
        union = sorted(set().union(*(present for _, present in last)))
        assert_array_equal(value, stability([np.isin(union, selected) for selected, _ in last]))
        assert window.n_features == len(union)
        if step == stop:
            window = StabilityWindow.from_state(window.state())


@given(sets=masks(min_sets=1, max_sets=12), size=st.integers(2, 5))
def test_features_that_are_always_present_are_a_fixed_number_of_them(sets, size):
    fixed, changing = StabilityWindow(size, sets.shape[1]), StabilityWindow(size)
    for mask in sets:
        selected, present = np.flatnonzero(mask), np.arange(sets.shape[1])
        assert_array_equal(changing.update(selected, present), fixed.update(mask))


def test_a_selected_feature_counts_though_it_is_absent():
    window = StabilityWindow(2)
    window.update([0, 5], [0, 1])
    assert window.update([0, 1], [0, 1]) == stability([[1, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize(
    ("n_features", "present"), [(None, None), (4, [0, 1]), (None, [-1, 0, 1]), (None, [0.5])]
)
def test_what_is_present_is_said_where_it_changes_and_nowhere_else(n_features, present):
    window = StabilityWindow(2, n_features)
    with pytest.raises(ValueError, match=r"present goes|negative|integer"):
        window.update([0, 1], present)
    assert math.isnan(window.value)
