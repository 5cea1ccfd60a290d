"""Batches cut from blocks: what was handed out before does not come again."""

import numpy as np

from fires.streams.base import Batch
from fires.streams.table import Fault, cut


def block(n_rows, *faults):
    found = [(at, Fault(line, "bad")) for line, at in enumerate(faults)]
    return Batch(np.zeros((n_rows, 1)), np.arange(n_rows), faults=found)


def n_faults(blocks, skip):
    return [len(batch.faults) for batch in cut(blocks, 2, skip=skip)]


def test_faults_before_rows_that_are_skipped_are_skipped_too():
    blocks = [block(0, 0, 0), block(2, 0, 2), block(3, 0, 1, 3)]
    assert n_faults(blocks, skip=0) == [3, 3, 0, 1]
    assert n_faults(blocks, skip=1) == [2, 1, 1]
    assert n_faults(blocks, skip=2) == [3, 0, 1]
    assert n_faults(blocks, skip=4) == [0, 1]
