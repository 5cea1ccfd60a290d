import pickle

import numpy as np
import pytest

import fires
from fires.core.errors import (
    COMMAND,
    LIBRARY,
    InputError,
    MissingExtra,
    TargetError,
    UserError,
    closest,
)

X = np.random.default_rng(0).normal(size=(50, 3))
PARTS = ("{y} holds fractions", "x.csv, after 100 rows", "use {model=gaussian} or {model=probit}.")


@pytest.mark.parametrize("kind", [UserError, InputError, TargetError])
def test_an_error_keeps_its_parts_on_the_way_home_from_a_process(kind):
    error = pickle.loads(pickle.dumps(kind(*PARTS)))
    assert type(error) is kind
    assert (error.what, error.where, error.hint) == PARTS
    assert str(error) == str(kind(*PARTS))


@pytest.mark.parametrize(
    ("parts", "line"),
    [
        (("no rows",), "no rows"),
        (("no rows", "x.csv"), "x.csv: no rows"),
        (("no rows", "", "write some"), "no rows; write some"),
        (("no rows", "x.csv", "write some"), "x.csv: no rows; write some"),
    ],
)
def test_the_parts_that_there_are_make_one_line(parts, line):
    error = InputError(*parts)
    assert str(error) == error.worded(COMMAND) == line
    assert str(error.at("y.csv")) == str(InputError(parts[0], "y.csv", *parts[2:]))


def test_library_and_command_each_say_it_in_their_own_words():
    error = TargetError(*PARTS)
    assert str(error) == error.worded(LIBRARY)
    assert str(error) == (
        "x.csv, after 100 rows: y holds fractions; use model='gaussian' or model='probit'."
    )
    named = COMMAND._replace(y='the target "price"')
    assert error.worded(named) == (
        'x.csv, after 100 rows: the target "price" holds fractions; '
        "use --model gaussian or --model probit."
    )


@pytest.mark.parametrize("name", ["{y}", "{model=x}", "{0}", "{", "}{", "%s", "{y.__class__}"])
def test_names_from_a_file_are_shown_as_they_are(name):
    assert InputError(f'no column "{name}"').worded(COMMAND) == f'no column "{name}"'


@pytest.mark.parametrize("text", ["{0}", "{", "{y.__class__}", "{model=}", "{name}"])
def test_braces_that_leave_nothing_open_stay(text):
    assert str(TargetError(text)) == text


@pytest.mark.parametrize(
    ("model", "y", "words"),
    [
        ("auto", np.arange(50), ["50 distinct whole numbers in 50 rows", "--model gaussian"]),
        ("probit", X[:, 0], ["holds numbers that are not whole", "--model gaussian"]),
        ("poisson", X[:, 0], ['the target "price" must not be negative']),
        ("gaussian", np.array(["a", "b"] * 25), ['needs numbers in the target "price"', "'a'"]),
        ("gaussian", 1e200 * X[:, 0], ['the target "price" holds values so large']),
        ("auto", np.array(["a", 1] * 25, dtype=object), ['the target "price" mixes labels']),
    ],
)
def test_fires_leaves_open_what_the_target_is_called(model, y, words):
    with pytest.raises(TargetError) as caught:
        fires.FIRES(2, model=model).partial_fit(X, y)
    said = caught.value.worded(COMMAND._replace(y='the target "price"'))
    for word in words:
        assert word in said
    assert '"price"' not in str(caught.value)
    assert "--model" not in str(caught.value)


def test_a_missing_library_is_named_on_the_way_home_too():
    error = pickle.loads(pickle.dumps(MissingExtra("NeuralNet", "torch", "torch")))
    assert (str(error), error.name) == (
        "NeuralNet needs torch: pip install '.[torch]'",
        "torch",
    )


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lable", "did you mean Label?"),
        ("LABEL", "did you mean Label?"),
        ("all-feature", "did you mean all features?"),
        ("xyz", "there are two"),
    ],
)
def test_the_nearest_name_is_the_one_that_was_meant(name, hint):
    assert closest(name, ["Label", "all features"], "there are two") == hint
