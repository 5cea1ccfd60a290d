"""What one more batch costs in calls: a number that grows unnoticed."""

import sys

import numpy as np

from fires import FIRES


def test_a_second_batch_takes_at_most_fifty_calls():
    X = np.random.default_rng(0).normal(size=(100, 30))
    y, calls = (X[:, 3] > 0).astype(int), []
    selector = FIRES().partial_fit(X, y)

    def watch(frame, event, _):
        if event == "call" and "/fires/" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        selector.partial_fit(X, y)
    finally:
        sys.setprofile(before)
    ours = [name for name in calls if not name.startswith("test_")]
    assert 0 < len(ours) <= 50, ours
