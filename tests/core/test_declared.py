"""State that is declared part by part: arrays follow their columns."""

from types import SimpleNamespace

import numpy as np

from fires.core.declared import Array, rearrange


def test_one_number_for_all_columns_becomes_one_for_each_that_stays():
    known = SimpleNamespace(rate=np.array([7.0]))
    fresh = SimpleNamespace(rate=np.zeros(3))
    found = rearrange(known, {"rate": Array("J")}, np.array([2, -1, 1]), fresh)
    assert found.rate.tolist() == [7.0, 0.0, 7.0]
    assert known.rate.tolist() == [7.0]
