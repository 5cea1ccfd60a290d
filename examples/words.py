"""Text with a growing vocabulary: every word is a column, and new ones join as they come.

python examples/words.py
"""

from __future__ import annotations

import numpy as np

from fires import FIRES

N_BATCHES, BATCH = 120, 50
COMMON = [f"word{j}" for j in range(400)]


def messages(rng: np.random.Generator, batch: int) -> tuple[list[dict[str, float]], list[str]]:
    """Messages as dicts of words; from half-way on, spam has words that nobody had seen before."""
    spam_words = ["prize", "winner"] if batch < N_BATCHES // 2 else ["crypto", "airdrop"]
    rows, labels = [], []
    for _ in range(BATCH):
        is_spam = rng.random() < 0.3
        words = dict.fromkeys(rng.choice(COMMON, size=12, replace=False).tolist(), 1.0)
        if is_spam:
            words |= {word: 1.0 for word in spam_words if rng.random() < 0.7}
        rows.append(words)
        labels.append("spam" if is_spam else "mail")
    return rows, labels


def main() -> None:
    """Print which words matter before and after the vocabulary has changed."""
    rng = np.random.default_rng(0)
    selector = FIRES(2, columns="open", absent="zero")
    for batch in range(N_BATCHES):
        selector.partial_fit(*messages(rng, batch))
        if batch in (N_BATCHES // 2 - 1, N_BATCHES - 1):
            chosen = sorted(selector.get_feature_names_out())
            print(
                f"after {(batch + 1) * BATCH:,} messages, {selector.n_features_in_} words: {chosen}"
            )


if __name__ == "__main__":
    main()
