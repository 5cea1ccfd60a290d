"""What one more batch costs in calls: a number that grows unnoticed."""

import sys
from pathlib import Path

import numpy as np
import pytest

import fires
from fires import FIRES

OURS = str(Path(fires.__file__).parent)


@pytest.mark.parametrize(("n_before", "looks", "most"), [(21, False, 30), (2, True, 70)])
def test_a_batch_takes_few_calls_and_more_where_the_set_is_looked_at(n_before, looks, most):
    X = np.random.default_rng(0).normal(size=(100, 30))
    y, calls, selector = (X[:, 3] > 0).astype(int), [], FIRES()
    for _ in range(n_before):
        selector.partial_fit(X, y)

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        selector.partial_fit(X, y)
    finally:
        sys.setprofile(before)
    assert (selector._rule_.waited == 0.0) == looks
    assert 0 < len(calls) <= most, (len(calls), calls)
