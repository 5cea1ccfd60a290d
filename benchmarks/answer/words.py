"""Are the words selected that tell the classes apart, while words come and go?

Usenet: messages as lists of their words, with a drift of what interests the reader; half of them
have no word. A logistic regression is tested before it is trained, on all words, on those selected,
or on as many at random.

Topics: 60,000 words come once or now and then; ten words tell the class, and at half-time ten
others. The vocabulary holds 5,000 words. Beside what is done at its bound stands what else could
be: to leave out the words that come later.
"""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from fires.bench.datasets.loading import load
from fires.streams import Words

TITLE = "accuracy on Usenet, words of the topic among the ten selected"
BATCH = 100
N_ROWS, N_SIGNAL, MAX_WORDS = 20_000, 10, 5_000


def usenet(make: Maker, seed: int, kind: str, k: int) -> float:
    """Accuracy on all words, on the ``k`` selected, or on ``k`` at random."""
    X, y = load("Usenet", download=False).to_arrays(np.float32)
    rows = [[f"w{place}" for place in np.flatnonzero(row)] for row in X]
    places = {f"w{place}": place for place in range(X.shape[1])}
    selector = make(k, columns="open", absent="zero")
    predictor = SGDClassifier(loss="log_loss", random_state=seed)
    words, kept, hits = Words(), np.zeros(X.shape[1]), []
    if kind != "selected":
        kept[
            np.random.default_rng(seed).permutation(X.shape[1])[: k if kind == "random" else None]
        ] = 1
    for start in range(0, len(y), BATCH):
        some = slice(start, start + BATCH)
        if start:
            hits += list(predictor.predict(X[some] * kept) == y[some])
        if kind == "selected":
            selector.partial_fit(words.rows(rows[some]), y[some])
            kept[:] = 0.0
            kept[[places[word] for word in selector.get_feature_names_out()]] = 1.0
        predictor.partial_fit(X[some] * kept, y[some], classes=np.unique(y))
    return float(np.mean(hits))


def topics(make: Maker, seed: int, full: str) -> tuple[float, float]:
    """How many of the ten words of the topic are selected at the end of each half, in tenths."""
    rng = np.random.default_rng(seed)
    first: dict[str, None] = {}  # what a vocabulary that takes in no more words would hold

    def known(row: list[str]) -> list[str]:
        first.update(dict.fromkeys(row[: MAX_WORDS - len(first)]))
        return [word for word in row if word in first]

    words = Words(MAX_WORDS, split=known if full == "leave out" else None)
    selector = make(N_SIGNAL, columns="open", absent="zero", forget_after=N_ROWS // 4)
    found: list[list[float]] = [[], []]
    for start in range(0, N_ROWS, BATCH):
        half = int(start >= N_ROWS // 2)
        y = rng.integers(0, 2, BATCH)
        signal = [f"topic{half}_{i}" for i in range(N_SIGNAL)]
        # Half of the words speak for the one class, half for the other.
        agrees = y[:, None] == np.arange(N_SIGNAL) % 2
        there = rng.random((BATCH, N_SIGNAL)) < np.where(agrees, 0.15, 0.05)
        rows = []
        for i in range(BATCH):
            common = (np.maximum(3 * start, 1000) ** rng.random(20)).astype(int)
            new = 3 * (start + i) + np.arange(3)
            noise = [f"n{word}" for word in np.concatenate([common, new])]
            rows.append(noise + [signal[j] for j in np.flatnonzero(there[i])])
        selector.partial_fit(words.rows(rows), y)
        if start % (N_ROWS // 2) >= N_ROWS * 2 // 5:
            chosen = set(selector.get_feature_names_out())
            found[half].append(len(chosen.intersection(signal)) / N_SIGNAL)
    return float(np.mean(found[0])), float(np.mean(found[1]))


def measure(bench: Bench) -> list[Figure]:
    """Five seeds each."""
    seeds, figures = bench.seeds(5), []
    for kind, k in (("all", 658), ("selected", 50), ("random", 50)):
        found = bench.map(usenet, [(seed, kind, k) for seed in seeds])
        figures.append(judged(f"Usenet, {k} words, {kind}", found))
    for full in ("forget", "leave out"):
        pairs = bench.map(topics, [(seed, full) for seed in seeds])
        for half, found in zip(("first", "second"), zip(*pairs, strict=True), strict=True):
            asked = ">= 0.9" if full == "forget" else ""
            figures.append(judged(f"topics, when full {full}, {half} half", found, asked))
    return figures
