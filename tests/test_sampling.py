"""The list of tests that are sampled, and what is drawn."""

from types import SimpleNamespace

import pytest
from tests.sampling import SAMPLED, kept_cases, mark_others_slow

ROOT = SAMPLED.parents[1]


def test_every_line_names_a_test():
    for test in kept_cases():
        file, _, function = test.partition("::")
        assert f"def {function.split('::')[-1]}(" in (ROOT / file).read_text(), test


class Item(SimpleNamespace):
    """What is used of a case of pytest."""

    def add_marker(self, marker):
        self.marks.append(marker.name)

    def get_closest_marker(self, name):
        return name if name in self.marks else None


def collected(n, marks=()):
    return [Item(nodeid=f"tests/a.py::test_b[{i}]", marks=list(marks)) for i in range(n)]


@pytest.mark.parametrize("kept", [0, 1, 7, 10])
def test_so_many_cases_are_left_and_the_same_ones_in_any_order(kept):
    drawn = []
    for items in (collected(10), collected(10)[::-1]):
        mark_others_slow(items, {"tests/a.py::test_b": kept})
        drawn.append({item.nodeid for item in items if not item.marks})
    assert len(drawn[0]) == kept
    assert drawn[0] == drawn[1]


def test_other_tests_and_cases_that_are_slow_anyway_do_not_count():
    slow, others = collected(3, ["slow"]), [Item(nodeid="tests/a.py::test_c[0]", marks=[])]
    items = [*slow, *collected(10)[3:], *others]
    mark_others_slow(items, {"tests/a.py::test_b": 7})
    assert [item.marks for item in items] == [["slow"]] * 3 + [[]] * 8
