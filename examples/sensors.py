"""Sensor drift: autocorrelated channels, one fails, another takes its place; how sure are we?

python examples/sensors.py
"""

from __future__ import annotations

import numpy as np
import polars as pl
from scipy.signal import lfilter

from fires import FIRES

N_ROWS, BATCH, N_SENSORS = 20_000, 100, 30


def readings(seed: int = 0) -> tuple[pl.DataFrame, np.ndarray]:
    """Channels that move slowly, and a yield that depends on three of them."""
    rng = np.random.default_rng(seed)
    X = lfilter([1.0], [1.0, -0.9], rng.normal(size=(N_ROWS, N_SENSORS)), axis=0)
    y = X[:, 4] + 0.5 * X[:, 11] + lfilter([1.0], [1.0, -0.9], rng.normal(size=N_ROWS))
    late = np.arange(N_ROWS) >= N_ROWS // 2
    y += np.where(late, X[:, 23], X[:, 20])  # the machine was rebuilt: channel 23 instead of 20
    return pl.DataFrame(X, schema=[f"channel_{j}" for j in range(N_SENSORS)]), y


def main() -> None:
    """Print what is significant at the end, with intervals, and what changed on the way."""
    X, y = readings()
    selector = FIRES("auto", model="gaussian")
    for start in range(0, N_ROWS, BATCH):
        selector.partial_fit(X[start : start + BATCH], y[start : start + BATCH])
    low, high = selector.interval(0.95)
    for j in selector.get_support(indices=True):
        print(f"{X.columns[j]:10} {selector.importances_[j]:+.2f} [{low[j]:+.2f}, {high[j]:+.2f}]")
    print(selector.why())
    for alarm in selector.alarms_:
        print(f"alarm at row {alarm.row:,}: {alarm.feature or 'all features'}")


if __name__ == "__main__":
    main()
