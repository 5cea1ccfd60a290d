"""Pairs instead of products: each value of a parameter meets each value of every other one.

What three parameters do only together is for the tests of the kernels.
"""

from itertools import combinations, product

import pytest


def pairwise(**values):
    """Parametrize a test by few rows in which each pair of values of two parameters is met.

    Parameters
    ----------
    **values : dict or iterable
        The values of each parameter; the keys of a dict name its values.
    """
    named = [
        list(each.items() if isinstance(each, dict) else zip(each, each, strict=True))
        for each in values.values()
    ]
    rows = list(product(*(range(len(each)) for each in named)))
    missing = {pair for row in rows for pair in combinations(enumerate(row), 2)}
    chosen = []
    while missing:
        best = max(rows, key=lambda row: sum(p in missing for p in combinations(enumerate(row), 2)))
        missing -= set(combinations(enumerate(best), 2))
        chosen.append(best)
    cases = []
    for row in chosen:
        names, each = zip(*(named[place][index] for place, index in enumerate(row)), strict=True)
        cases.append(pytest.param(*each, id="-".join(map(str, names))))
    return pytest.mark.parametrize(tuple(values), cases)


def seeds(n, start=0):
    """Parametrize a test by seeds: the first is tried each time, the others with slow tests."""
    others = range(start + 1, start + n)
    return pytest.mark.parametrize(
        "seed", [start, *(pytest.param(seed, marks=pytest.mark.slow) for seed in others)]
    )
