"""Slots: every selected column has one of its own, and keeps it while there is room."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fires.core.errors import InputError, StateError
from fires.predictors.step import Slots

NAMES = [f"column {i}" for i in range(12)]
sets_of_columns = st.lists(
    st.lists(st.sampled_from(NAMES), unique=True, max_size=5), min_size=1, max_size=30
)


@given(sets_of_columns, st.integers(5, 9), st.integers(0, 30))
def test_the_book_keeps_its_promises(sets, n_slots, stop):
    slots, last = Slots(n_slots), {}
    for now, names in enumerate(sets):
        if now == stop:
            slots = Slots.from_json(json.loads(json.dumps(slots.as_json())))
        before = list(slots.names)
        places, handed_over = slots.take(names)
        # Each has a slot of its own, in which its name stands.
        assert len(set(places.tolist())) == len(names)
        assert [slots.names[place] for place in places] == list(names)
        # Who had one keeps it; only slots that are handed over lose their columns.
        for place, (old, new) in enumerate(zip(before, slots.names, strict=True)):
            assert (old is not None and old != new) == (place in handed_over)
        # Slots are handed over only if none is free, by those that were out longest.
        if len(handed_over):
            assert None not in slots.names
            given_up = [last[before[place]] for place in handed_over]
            kept = [last[name] for name in slots.names if name not in names]
            assert max(given_up) <= min(kept, default=now)
        last |= dict.fromkeys(names, now)
        np.testing.assert_array_equal(slots.places(names), places)


@given(sets_of_columns)
def test_with_room_for_all_no_slot_changes_hands(sets):
    slots, known = Slots(len(NAMES)), {}
    for names in sets:
        places, handed_over = slots.take(names)
        assert not len(handed_over)
        for name, place in zip(names, places.tolist(), strict=True):
            assert known.setdefault(name, place) == place


def test_more_columns_than_slots_are_one_clear_error_and_change_nothing():
    slots = Slots(2)
    slots.take(["a"])
    before = slots.as_json()
    with pytest.raises(InputError, match="3 columns are selected, and the predictor has 2 slots"):
        slots.take(["a", "b", "c"])
    assert slots.as_json() == before


@given(st.integers(0, 2**32 - 1))
def test_rows_are_the_same_dense_and_sparse(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 8)) * (rng.random((6, 8)) < 0.5)
    columns = np.sort(rng.choice(8, 4, replace=False))
    places = rng.permutation(5)[:4]
    names, slots = [f"column {j}" for j in range(4)], Slots(5)
    for place in places.tolist():  # each name gets the slot that is free
        slots.names[place] = names[places.tolist().index(place)]
    slots = Slots.from_json(slots.as_json())
    dense = slots.shown(X, columns, names)
    np.testing.assert_array_equal(dense[:, places], X[:, columns])
    assert not np.delete(dense, places, axis=1).any()
    sparse = slots.shown(sp.csr_array(X), columns, names)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    assert sparse.has_canonical_format


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a", "a"]},
        {"names": ["a"]},
        {"names": [1, "a"]},
        {"last": "no"},
        {"now": None},
        {"names": [], "last": []},
    ],
)
def test_a_state_that_does_not_fit_is_refused(change):
    slots = Slots(2)
    slots.take(["a", "b"])
    with pytest.raises(StateError):
        Slots.from_json(slots.as_json() | change)


def test_the_usual_number_of_slots():
    slots = [len(Slots.for_features(k, None)) for k in (1, 16, 100, 0.5, "auto")]
    assert slots == [64, 64, 400, 1024, 1024]
