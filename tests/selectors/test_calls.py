"""What one more batch costs in calls: a number that grows unnoticed."""

import sys
from pathlib import Path

import numpy as np

import fires
from fires import FIRES

OURS = str(Path(fires.__file__).parent)


def test_a_second_batch_takes_at_most_eighty_calls():
    X = np.random.default_rng(0).normal(size=(100, 30))
    y, calls = (X[:, 3] > 0).astype(int), []
    selector = FIRES().partial_fit(X, y)

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            calls.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        selector.partial_fit(X, y)
    finally:
        sys.setprofile(before)
    assert 0 < len(calls) <= 80, calls
