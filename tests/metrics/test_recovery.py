import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires import FIRES
from fires.evaluation import prequential
from fires.evaluation.records import Step
from fires.metrics import Recovery, precision, recall, recoveries
from fires.streams import KnownTruth, Position

features = st.sets(st.integers(0, 9), max_size=10)


def truth_of(n_samples, sets):
    """Sets of relevant features by the row from which on they are."""

    def relevant_at(row):
        return np.array(sets[max(start for start in sets if start <= row)])

    return SimpleNamespace(
        n_samples=n_samples, drifts=tuple(sorted(sets))[1:], relevant_at=relevant_at
    )


# --- one set ------------------------------------------------------------------------------------


@given(selected=features, relevant=features, masks=st.booleans())
def test_precision_and_recall_are_shares_of_sets(selected, relevant, masks):
    def given_as(chosen):
        return np.isin(np.arange(10), list(chosen)) if masks else sorted(chosen, reverse=True)

    both = len(selected & relevant)
    found = precision(given_as(selected), given_as(relevant))
    assert found == both / len(selected) if selected else math.isnan(found)
    found = recall(given_as(selected), given_as(relevant))
    assert found == both / len(relevant) if relevant else math.isnan(found)


@pytest.mark.parametrize("function", [precision, recall])
@pytest.mark.parametrize(
    ("features", "message"),
    [
        ([1, 1, 0, 1], "occurs twice"),
        ([0.5], "indices"),
        ([[0, 1]], "indices"),
        (["x1"], "indices"),
    ],
)
def test_what_is_no_set_of_features_is_refused(function, features, message):
    for pair in ((features, [0]), ([0], features)):
        with pytest.raises(ValueError, match=message):
            function(*pair)


# --- after a drift ------------------------------------------------------------------------------


def by_definition(sets, truth, batch_size, threshold, patience):
    """The docstring of recoveries, word by word and without any care for speed."""
    starts = list(truth.drifts)
    out = []
    for start, end in zip(starts, [*starts, truth.n_samples][1:], strict=True):
        wanted = truth.relevant_at(end - 1)
        mine = [
            t
            for t in range(len(sets))
            if (t + 1) * batch_size > start
            and not (end < truth.n_samples and (t + 1) * batch_size > end)
        ]
        if len(sets) * batch_size <= start:
            continue
        batches = None
        for first in range(len(mine) - patience + 1):
            run = mine[first : first + patience]
            if all(recall(sets[t], wanted) >= threshold for t in run):
                batches = first + 1
                break
        out.append(Recovery(start, batches))
    return out


@given(data=st.data())
def test_recoveries_are_what_their_definition_says(data):
    batch_size = data.draw(st.integers(1, 7))
    n_batches = data.draw(st.integers(1, 25))
    n_samples = n_batches * batch_size + data.draw(st.integers(0, 20))
    drifts = data.draw(st.sets(st.integers(1, n_samples - 1), max_size=4)) if n_samples > 1 else ()
    wanted = st.sampled_from([[0, 1], [1, 2], [2, 3]])
    truth = truth_of(n_samples, {0: [0, 1]} | {row: data.draw(wanted) for row in sorted(drifts)})
    some = st.sampled_from([[], [0], [0, 1], [1, 2], [2, 3], [0, 1, 2, 3]])
    sets = [data.draw(some) for _ in range(n_batches)]
    options = {
        "threshold": data.draw(st.sampled_from([0.5, 1.0])),
        "patience": data.draw(st.integers(1, 4)),
    }
    found = recoveries(sets, truth, batch_size=batch_size, **options)
    assert found == by_definition(sets, truth, batch_size, **options)
    steps = [
        Step(t, Position((t + 1) * batch_size), batch_size, {}, np.array(s, int), 0.0, 0.0, 0.0)
        for t, s in enumerate(sets)
    ]
    assert recoveries(iter(steps), truth, **options) == found


def test_patience_does_not_count_what_a_next_drift_interrupts():
    truth = truth_of(600, {0: [0], 200: [1], 400: [2]})
    sets = [[0], [0], [0], [1], [2], [2]]
    assert recoveries(sets, truth, batch_size=100) == [(200, 2), (400, 1)]
    assert recoveries(sets, truth, batch_size=100, patience=2) == [(200, None), (400, 1)]
    assert recoveries(sets, truth, batch_size=100, patience=3) == [(200, None), (400, None)]


def test_a_drift_within_a_batch_counts_from_that_batch():
    truth = truth_of(400, {0: [0], 199: [1]})
    assert recoveries([[0], [1], [1], [1]], truth, batch_size=100) == [(199, 1)]
    assert recoveries([[0], [0], [1], [1]], truth, batch_size=100) == [(199, 2)]


def test_a_stream_without_drift_has_nothing_to_recover_from():
    assert recoveries([[0]] * 4, truth_of(400, {0: [0]}), batch_size=100) == []
    assert recoveries([[0]], truth_of(400, {0: [0], 200: [1]}), batch_size=100) == []


@pytest.mark.parametrize("drift_width", [0.0, 0.1])
def test_a_selector_that_follows_a_drift_is_seen_to(drift_width):
    settings = {"drift_at": 0.4, "drift_width": drift_width, "random_state": 1}
    stream = KnownTruth(12_000, n_features=20, n_relevant=3, **settings)
    steps = list(prequential(stream, FIRES(3, learning_rate=1.0)))
    ((row, batches),) = recoveries(steps, stream, patience=5)
    assert row == 4_800
    assert 1 < batches < 60
    after = 48 + batches - 1
    assert recall(steps[after].selected, stream.relevant_at(11_999)) == 1.0
    assert recall(steps[after - 1].selected, stream.relevant_at(11_999)) < 1.0
    stuck = [stream.relevant_at(0)] * 120
    assert recoveries(stuck, stream, batch_size=100) == [(4_800, None)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"threshold": 0.0}, "threshold"),
        ({"threshold": 1.1}, "threshold"),
        ({"patience": 0}, "patience"),
        ({"batch_size": None}, "pass batch_size"),
    ],
)
def test_settings_without_sense_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        recoveries([[0]], truth_of(10, {0: [0]}), **({"batch_size": 10} | changes))
