"""A book of many names equals the book of names that it stands for."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.core.named import Names
from fires.kernels.lookup import ManyNames

batches = st.lists(st.lists(st.text(max_size=2), max_size=50), max_size=6)


@given(batches, st.integers(0, 50))
def test_names_get_the_places_that_the_plain_book_would_give_them(batches, n):
    many, plain = ManyNames(["a", "a"]), Names(["a", "a"])
    for names in batches:
        assert_array_equal(many.places(names), plain.places(names))
        assert_array_equal(many.add(iter(names)), plain.add(names))
        assert list(many) == list(plain)
        assert [many.place(name) for name in names] == [plain.place(name) for name in names]
        assert [name in many for name in ("a", "b", 1)] == [name in plain for name in ("a", "b", 1)]
        every_other = np.arange(0, len(plain), 2)
        for one in (many, plain):
            assert list(one.only(every_other)) == one.at(every_other) == list(one)[::2]
        assert_array_equal(
            many.only(every_other).places(names), plain.only(every_other).places(names)
        )
        many.cut(n)
        plain.cut(n)


def test_it_grows_to_many_names():
    names = [str(number) for number in range(5_000)]
    book = ManyNames()
    for start in range(0, 5_000, 100):
        book.add(names[start : start + 100])
    assert book.places(names[::-1]).tolist() == list(range(5_000))[::-1]


def test_a_copy_goes_its_own_way():
    book = ManyNames(["a"])
    other = copy.deepcopy(book)
    other.add(["b"])
    assert (list(book), list(other)) == (["a"], ["a", "b"])


@pytest.mark.slow
def test_another_process_has_other_hashes():
    book = ManyNames(["a", "b"])
    there = "import pickle, sys; print(pickle.load(sys.stdin.buffer).add(['b', 'c', 'a']))"
    done = subprocess.run(
        [sys.executable, "-c", there], input=pickle.dumps(book), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[1 2 0]"
