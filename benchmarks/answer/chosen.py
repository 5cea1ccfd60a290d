"""The set: which columns, and how many. What issue 30 asks for, but for what stands elsewhere.

Tables are scikit-learn's copies: five folds of five shuffles, and the selection is made inside the
fold. Streams are those of ``field_cases``: five of 50 columns matter. SGD with log loss learns on
the selected columns, in batches of 50, tested before it learns.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy.stats import spearmanr
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.answer.field import Line
from benchmarks.answer.field_cases import J, Values
from benchmarks.answer.field_streams import learning, learnt, target, theta
from benchmarks.answer.figures import Bench, Figure, Maker
from benchmarks.answer.streams import columns, n_found
from fires.evaluation.loop import prequential

TITLE = "columns of small tables, of correlated streams and for many classes"
TABLES = {"breast_cancer": 12, "wine": 8, "digits": 45, "iris": 3, "diabetes": 8}


def table(make: Maker, seed: int, name: str) -> Values:
    """How far "auto"'s columns are below all of them, how many there are, the score of all."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    numbers = name == "diabetes"
    folds = (KFold if numbers else StratifiedKFold)(5, shuffle=True, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(y))
    X, y = X[order], y[order]
    found = []
    for train, test in folds.split(X, y):
        selector = make("auto", model="gaussian" if numbers else "auto").fit(X[train], y[train])
        chosen = selector.get_support(indices=True)
        scores = [_score(X[:, own], y, train, test, numbers) for own in (chosen, slice(None))]
        found.append((scores[1] - scores[0], len(chosen), scores[1]))
    return tuple(np.mean(found, axis=0))


def _score(X: Any, y: Any, train: Any, test: Any, numbers: bool) -> float:
    if not X.shape[1]:
        return 0.0
    model = make_pipeline(StandardScaler(), Ridge() if numbers else LogisticRegression(C=1.0))
    return float(model.fit(X[train], y[train]).score(X[test], y[test]))


def how_many(make: Maker, seed: int, kind: str, n_rows: int, relevant: bool) -> Values:
    """Recall and false share of "auto" at the end, and how many are selected."""
    rng = np.random.default_rng([seed, n_rows])
    truth = theta(rng, J) if relevant else np.zeros(J)
    X = _columns(rng, n_rows, kind)
    selector = learnt(make("auto"), X, target("classes", X @ truth + rng.standard_normal(n_rows)))
    n, hits = selector.n_features_selected_, n_found(selector, np.flatnonzero(truth))
    return hits / 5, (n - hits) / max(n, 1), n


def _columns(rng: np.random.Generator, n_rows: int, kind: str) -> Any:
    if kind != "blocks":
        return columns(rng, n_rows, J, kind)
    common = np.repeat(rng.standard_normal((n_rows, J // 5)), 5, axis=1)
    return np.sqrt(0.9) * common + np.sqrt(0.1) * rng.standard_normal((n_rows, J))


def over_time(make: Maker, seed: int, n_features: int) -> Values:
    """Mean recall of five from row 2,000 on; and ranking against the order of importance."""
    rng, n = np.random.default_rng(seed), 12_000
    truth, X = theta(rng, n_features), columns(rng, n, n_features, "AR(0.9)")
    y, selector, recall = target("classes", X @ truth + rng.standard_normal(n)), make(5), []
    for rows in learning(selector, X, y):
        if rows > 2_000:
            recall.append(n_found(selector, np.flatnonzero(truth)) / 5)
    order = spearmanr(selector.ranking_, -np.abs(selector.importances_)).statistic
    return float(np.mean(recall)), float(order)


def on_selected(make: Maker, seed: int, name: str, k: int) -> Values:
    """Accuracy of SGD on the selected columns, and stability over 10 batches."""
    X, y = _many_classes(name)
    order = np.random.default_rng(seed).permutation(len(y))[:8_000]
    X, y = X[order], y[order]
    batches = ((X[i : i + 50], y[i : i + 50]) for i in range(0, len(y), 50))
    sgd = SGDClassifier(loss="log_loss", random_state=seed)
    steps = [*prequential(batches, make(k), sgd, classes=np.unique(y), window=10)]
    tested = [(s.scores["accuracy"], s.n_rows) for s in steps if s.scores["accuracy"] >= 0.0]
    accuracy = np.average([a for a, _ in tested], weights=[n for _, n in tested])
    return float(accuracy), float(np.nanmean([step.stability for step in steps]))


@lru_cache(maxsize=2)
def _many_classes(name: str) -> tuple[Any, Any]:
    if name == "digits":
        X, y = datasets.load_digits(return_X_y=True)
        return X, y
    rows = pl.read_parquet(Path(os.environ["FIRES_DATA_DIR"]) / "mnist.parquet")
    return rows.drop("target").to_numpy().astype(np.float64), rows["target"].to_numpy()


def rare_class(make: Maker, seed: int) -> Values:
    """Whether the column of a class of 0.5 % is among five; ten others tell three classes."""
    rng, n = np.random.default_rng(seed), 12_000
    X = rng.standard_normal((n, J))
    y = (X[:, :10] @ rng.standard_normal((10, 3)) + rng.standard_normal((n, 3))).argmax(axis=1)
    y[X[:, 20] > 2.576] = 3
    return (float(20 in learnt(make(5), X, y).get_support(indices=True)),)


def _lines() -> Iterator[Line]:
    for name, most in TABLES.items():
        asked: dict[str, str | None] = {"below all columns": "<= 0.02", "columns": f"<= {most}"}
        yield Line(f'"auto" on {name}', table, (name,), asked | {"all": None})
    for kind in ("independent", "three factors", "AR(0.9)", "blocks"):
        for n in (1_000, 4_000, 12_000):
            asked = {"recall": ">= 0.98", "false share": "<= 0.05", "columns": None}
            yield Line(f'"auto", {kind}, {n:,} rows', how_many, (kind, n, True), asked, n_seeds=30)
    for kind in ("independent", "three factors", "AR(0.9)", "blocks"):
        asked = {"r": None, "f": None, "columns": "<= 0"}
        yield Line(f'"auto", nothing, {kind}', how_many, (kind, 4_000, False), asked, n_seeds=10)
    for n, least in ((J, 0.99), (2_000, 0.75)):
        asked = {"recall over time": f">= {least}", "ranking is order of importance": ">= 1.0"}
        yield Line(f"AR(0.9) columns, J = {n:,}", over_time, (n,), asked)
    for name, k, least in (("digits", 6, 0.56), ("digits", 13, 0.77), ("MNIST", 40, 0.65)):
        asked = {"accuracy of SGD": f">= {least}", "stability": None}
        yield Line(f"{name}, ten classes, k = {k}", on_selected, (name, k), asked)
    yield Line("class of 0.5 %", rare_class, (), {"its column is among five": ">= 1.0"})


def measure(bench: Bench) -> list[Figure]:
    """All lines, or those that are wanted."""
    lines = [line for line in _lines() if line.wanted(bench)]
    figures = []
    for line in lines:
        cases = [(seed, *line.args) for seed in bench.seeds(line.n_seeds)]
        figures += line.figures(bench.map(line.measure, cases))
    return figures
