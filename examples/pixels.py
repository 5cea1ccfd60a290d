"""Pixels: which of 64 tell ten digits apart, drawn as the picture that they are.

python examples/pixels.py
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from fires import FIRES


def main() -> None:
    """Select 20 pixels in one pass; compare a classifier on them with one on all."""
    X, y = load_digits(return_X_y=True)
    X, X_new, y, y_new = train_test_split(X, y, random_state=0, stratify=y)
    selector = FIRES(20).fit(X, y)
    for line in selector.get_support().reshape(8, 8):
        print(" ".join("#" if chosen else "." for chosen in line))
    model = LogisticRegression(max_iter=5_000)
    some = model.fit(selector.transform(X), y).score(selector.transform(X_new), y_new)
    every = model.fit(X, y).score(X_new, y_new)
    print(f"accuracy on new digits: {some:.3f} with 20 pixels, {every:.3f} with 64")
    favours = np.abs(selector.class_importances_).argmax(axis=0)[selector.get_support()]
    print("digits that the pixels speak for most:", np.bincount(favours, minlength=10).tolist())


if __name__ == "__main__":
    main()
