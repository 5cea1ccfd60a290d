"""Which cases of expensive tests run each time: see sampled.txt."""

from collections import defaultdict
from pathlib import Path
from zlib import crc32

import pytest

SAMPLED = Path(__file__).with_name("sampled.txt")


def kept_cases():
    """How many cases of each test run without the slow ones."""
    lines = SAMPLED.read_text().splitlines()
    tests = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    return {test: int(kept) for test, kept in tests}


def mark_others_slow(items, kept):
    """Mark all cases of a test as slow but so many, which are the same each time.

    They are drawn by a hash of their names. Of a product of cases, every second or third is then
    left, and each value of one parameter meets several of the other.
    """
    cases = defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in kept and not item.get_closest_marker("slow"):
            cases[test].append(item)
    for test, of_test in cases.items():
        of_test.sort(key=lambda item: crc32(item.nodeid.encode()))
        for item in of_test[kept[test] :]:
            item.add_marker(pytest.mark.slow)
