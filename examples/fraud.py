"""Imbalanced fraud: 1 % positives among 60 columns, and the fraudsters change their habits.

python examples/fraud.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fires import FIRES, OnlinePipeline

N_ROWS, BATCH = 40_000, 500
COLUMNS = [f"signal_{j}" for j in range(60)]
BEFORE, AFTER = ["signal_3", "signal_17", "signal_42"], ["signal_3", "signal_8", "signal_51"]


def transactions(
    rng: np.random.Generator, n: int, giveaways: list[str]
) -> tuple[pd.DataFrame, pd.Series]:
    """Some transactions; fraud is rare, and shows in a few columns."""
    X = pd.DataFrame(rng.normal(size=(n, len(COLUMNS))), columns=COLUMNS)
    odds = 1.6 * X[giveaways].sum(axis=1) - 8.0
    return X, (odds + rng.logistic(size=n) > 0).map({True: "fraud", False: "ok"})


def main() -> None:
    """Follow the stream; print the features before and after the change, and one explained row."""
    rng = np.random.default_rng(0)
    pipeline = OnlinePipeline(FIRES(3))
    for start in range(0, N_ROWS, BATCH):
        X, y = transactions(rng, BATCH, BEFORE if start < N_ROWS / 2 else AFTER)
        pipeline.partial_fit(X, y)
        if start + BATCH == N_ROWS / 2:
            print("before the change:", sorted(pipeline.selector.get_feature_names_out()))
    print("after the change: ", sorted(pipeline.selector.get_feature_names_out()))
    for alarm in pipeline.selector.alarms_:
        print(f"alarm at row {alarm.row:,}: {alarm.feature or 'all features'}")
    X, _ = transactions(rng, 2_000, AFTER)
    risk = pipeline.predict_proba(X)[:, list(pipeline.classes_).index("fraud")]
    row = X.iloc[[int(risk.argmax())]]
    why = pipeline.contributions(row, "fraud").effect.iloc[0]
    print(f"the riskiest of 2,000: {risk.max():.0%} fraud, because of {why.round(1).to_dict()}")


if __name__ == "__main__":
    main()
