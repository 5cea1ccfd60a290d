"""Categories become what they say about the target, by rows before and never by their own."""

import json

import numpy as np
import polars as pl
import pytest

from fires.columns import Columns, Hints
from fires.columns.target import TargetStatistics, labels_of


def plain_share(codes, y, label, code, m=10.0, memory=10_000.0):
    """What the module says of itself, for one batch after the other of one row each."""
    n = len(codes)
    fade = np.exp(-(n - 1 - np.arange(n)) / memory)
    hits = (y == label).astype(float)
    p = (fade * hits).sum() / fade.sum()
    rows = codes == code
    rate = ((fade * hits)[rows].sum() + m * p) / (fade[rows].sum() + m)
    return np.log(rate / (1 - rate)) - np.log(p / (1 - p))


def test_a_category_is_worth_what_its_rows_say():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 3000)
    y = np.where(rng.random(3000) < 0.2 + 0.2 * codes, "yes", "no")
    statistics = TargetStatistics(("yes",))
    for code, label in zip(codes, y, strict=True):
        statistics = statistics.after({"c": np.array([code])}, np.array([label]))
    found = statistics.values("c", np.arange(4)).ravel()
    expected = [plain_share(codes, y, "yes", code) for code in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_how_rows_are_batched_hardly_matters_and_nothing_is_changed():
    rng = np.random.default_rng(1)
    codes, y = rng.integers(0, 5, 2000), rng.integers(0, 2, 2000)
    whole = TargetStatistics((1,)).after({"c": codes}, y)
    parts = TargetStatistics((1,))
    for start in range(0, 2000, 100):
        before = json.dumps(parts.as_json())
        after = parts.after({"c": codes[start : start + 100]}, y[start : start + 100])
        assert json.dumps(parts.as_json()) == before
        parts = after
    np.testing.assert_allclose(
        parts.values("c", np.arange(5)), whole.values("c", np.arange(5)), atol=0.05
    )


def test_unknown_and_missing_categories_say_nothing():
    statistics = TargetStatistics(("a", "b"))
    assert statistics.values("c", np.array([0, -1])).tolist()[0] == [0.0, 0.0]
    statistics = statistics.after({"c": np.array([0, 0, 1])}, np.array(["a", "a", "b"]))
    found = statistics.values("c", np.array([7, -1]))
    assert found[0].tolist() == [0.0, 0.0]
    assert np.isnan(found[1]).all()


def test_a_wild_number_does_not_decide():
    codes = np.array([0, 1] * 500)
    y = np.where(codes == 0, 1.0, -1.0) + np.random.default_rng(0).normal(0, 0.1, 1000)
    calm = TargetStatistics(None).after({"c": codes[:500]}, y[:500])
    wild = y[500:].copy()
    wild[1] = 1e12
    after = calm.after({"c": codes[500:]}, wild)
    high, low = after.values("c", np.array([0, 1])).ravel()
    assert high > 0.5 > -0.5 > low


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        (["b", "a"], ("b",)),
        ([True, False], (True,)),
        ([0, 1, 2, 2], (0, 2)),
        ([0.5, 1.5], None),
        (list(range(100)), None),
        ([0.0, 1.0], (1.0,)),
    ],
)
def test_classes_that_are_told_by_others_have_no_share_of_their_own(y, expected):
    found = labels_of(np.array(y))
    assert found == expected or sorted(found) == sorted(expected)


def test_no_row_knows_its_own_target_nor_that_of_its_batch():
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({"c": [f"v{v}" for v in rng.integers(0, 3, 400)]})
    y = rng.integers(0, 2, 400)

    def worth(labels):
        columns, parts = Columns.learn(frame, y=labels), []
        for start in range(0, 400, 100):
            X, columns = columns.encode(frame[start : start + 100])
            X, columns = columns.by_target(X, labels[start : start + 100])
            parts.append(X)
        return np.concatenate(parts)

    other = y.copy()
    other[200:300] = 1 - other[200:300]
    np.testing.assert_array_equal(worth(y)[:300], worth(other)[:300])
    assert (worth(y)[300:] != worth(other)[300:]).any()


def test_columns_of_many_classes_become_features_in_groups():
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 12, 600)
    frame = pl.DataFrame(
        {
            "town": [f"t{v}" for v in levels],
            "open": rng.choice(["x", "y"], 600),
            "age": levels * 1.0,
        }
    )
    y = np.array(["A", "B", "C", "D"])[levels % 4]
    columns = Columns.learn(frame, y=y)
    assert columns.groups.tolist() == [0, 0, 0, 1, 2]
    assert len(columns.names) == 5
    assert columns.names[3:] == ("open", "age")
    assert columns.of_features == ("town", "town", "town", "open", "age")
    X, columns = columns.encode(frame)
    X, columns = columns.by_target(X, y)
    again = Columns.from_json(json.loads(json.dumps(columns.as_json())))
    assert again.names == columns.names
    np.testing.assert_array_equal(again.transform(frame), columns.transform(frame))


def test_codes_stay_codes_where_one_asks_for_them():
    frame = pl.DataFrame({"c": ["b", "a", "b"]})
    columns = Columns.learn(frame, Hints(categories="codes"), y=np.array([0, 1, 0]))
    X, columns = columns.encode(frame)
    assert columns.by_target(X, np.array([0, 1, 0]))[0].ravel().tolist() == [0, 1, 0]
