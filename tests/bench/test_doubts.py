"""The data sets of the paper have constants, and nothing else to doubt."""

import os

import numpy as np
import polars as pl
import pytest

from fires.bench.datasets.loading import load
from fires.columns import find_doubts
from fires.run.watch import ColumnWatch
from fires.streams.base import Batch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not os.environ.get("FIRES_DATA_DIR"), reason="needs the folder FIRES_DATA_DIR"
    ),
]


@pytest.mark.parametrize("name", ["Spambase", "Usenet", "Madelon", "Dota", "KDD", "MNIST"])
def test_no_false_doubt(name):
    X, y = load(name, n_rows=15_000, download=False).to_arrays(np.float64)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = pl.DataFrame(dict(zip(names, X[:10_000].T, strict=True)))
    doubts = find_doubts(frame, y[:10_000])
    assert all(frame[doubt.column].n_unique() == 1 for doubt in doubts)
    assert {doubt.kind for doubt in doubts} <= {"constant"}

    watch = ColumnWatch(classes=True)
    for start in range(0, len(y), 100):
        watch.see(Batch(X[start : start + 100], y[start : start + 100]))
    settled = watch.settled(names, doubts)
    assert {doubt.kind for doubt in settled} <= {"constant"}
    constant = {name for name, column in zip(names, X.T, strict=True) if np.ptp(column) == 0.0}
    assert {doubt.column for doubt in settled} == constant
