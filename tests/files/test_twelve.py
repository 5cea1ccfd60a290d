"""Twelve files as people have them: the command finds the truth planted in each."""

import json
import re

import numpy as np
import pytest

import fires


def select(command, made, *options):
    target = [] if made.target is None else ["--target", made.target]
    top = ["--top", len(made.planted), "--json", "--quiet"]
    return command("select", *made.paths, *target, *top, *options)


def test_the_truth_is_found_and_no_row_is_lost(made, command):
    result = select(command, made)
    if result.exit_code == 2 and made.asked:
        # One option may be asked for, by name, in one line.
        (line,) = result.stderr.splitlines()
        for word in made.asked:
            assert word in line
        result = select(command, made, *made.asked)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    document = json.loads(result.stdout)
    found = [row["feature"] for row in document["features"]]
    if made.target is None:  # columns without names are called after their numbers
        found = [re.sub(r"\D", "", name) for name in found]
    assert sorted(found) == sorted(made.planted)
    assert (document["rows"], document["rejected_rows"]) == (made.n_rows, made.n_lost)
    assert document["model"] == made.model


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_truth_is_there_to_be_found(truth, seed):
    """What the makers start from: who reads the numbers right needs no luck."""
    t = truth(seed, 10, 4)
    selector = fires.FIRES(4)
    for rows in np.array_split(np.arange(len(t.label)), 30):
        selector.partial_fit(t.Z[rows], t.label[rows])
    assert selector.get_support(indices=True).tolist() == [0, 1, 2, 3]
