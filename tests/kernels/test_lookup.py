"""A look-up by hashes equals the book of names that it stands for."""

import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.core.named import Names
from fires.kernels.lookup import Lookup

batches = st.lists(st.lists(st.text(max_size=2), max_size=50), max_size=6)


@given(batches)
def test_words_get_the_places_that_the_book_of_names_would_give_them(batches):
    lookup, plain = Lookup(Names(["a"])), Names(["a"])
    for words in batches:
        assert_array_equal(lookup.add(words), plain.add(words))
        assert list(lookup.names) == list(plain)


def test_others_may_add_to_the_book():
    names = Names()
    lookup = Lookup(names)
    lookup.add(["a", "b"])
    names.add(["c"])
    assert lookup.add(["d", "c", "a"]).tolist() == [3, 2, 0]


def test_it_grows_to_many_words():
    words = [str(number) for number in range(5_000)]
    lookup = Lookup(Names())
    for start in range(0, 5_000, 100):
        lookup.add(words[start : start + 100])
    assert lookup.add(words[::-1]).tolist() == list(range(5_000))[::-1]


@pytest.mark.slow
def test_another_process_has_other_hashes():
    lookup = Lookup(Names())
    lookup.add(["a", "b"])
    there = "import pickle, sys; print(pickle.load(sys.stdin.buffer).add(['b', 'c', 'a']))"
    done = subprocess.run(
        [sys.executable, "-c", there], input=pickle.dumps(lookup), capture_output=True, check=True
    )
    assert done.stdout.decode().strip() == "[1 2 0]"
