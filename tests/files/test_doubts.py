"""Fifteen files with an id, a clock, a constant, a copy or a leak in them, and as many without."""

import json
import uuid
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fires.columns import Doubt, find_doubts

N = 3_000


def table(seed, n=N, **planted):
    """Six plain columns, of which a, b and c tell the target, with others in front of them."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 6))
    y = Z[:, 0] - Z[:, 1] + 0.7 * Z[:, 2] + rng.normal(size=n, scale=0.5)
    made = {name: make(rng, Z, y) for name, make in planted.items()}
    columns = {name: Z[:, j].round(5) for j, name in enumerate("abcdef")}
    return pl.DataFrame(made | columns), y, rng


def times(rng, step=timedelta(seconds=7), n=N, jitter=0):
    start = datetime(2024, 5, 1)
    shift = rng.integers(0, jitter + 1, n)
    return [(start + i * step + timedelta(seconds=int(s))).isoformat() for i, s in enumerate(shift)]


def gaps(rng, keep=0.8):
    return np.cumsum(1 + (rng.random(N) > keep) * rng.integers(1, 9, N))


# name of the column -> (what makes it, the kind of doubt)
IDS = {
    "transaction_id": lambda rng, Z, y: rng.integers(10**9, 10**10, N),
    "ticket": lambda rng, Z, y: [f"T-{v:05d}" for v in rng.permutation(N)],
    "session": lambda rng, Z, y: [
        str(uuid.UUID(int=int(v))) for v in rng.integers(1 << 62, size=N)
    ],
    "customer": lambda rng, Z, y: rng.permutation(20 * N)[:N],
    "Unnamed: 0": lambda rng, Z, y: np.arange(N),
}
CLOCKS = {
    "row_id": lambda rng, Z, y: np.arange(N),
    "logged": lambda rng, Z, y: times(rng, jitter=40),
    "number": lambda rng, Z, y: gaps(rng),
    "event_time": lambda rng, Z, y: np.cumsum(rng.exponential(3.0, N)).round(2),
    "period": lambda rng, Z, y: np.arange(N) * 8 // N,
    "day": lambda rng, Z, y: [f"2024-05-{1 + i * 5 // N:02}" for i in range(N)],
    "seconds": lambda rng, Z, y: 1_700_000_000 + np.cumsum(rng.poisson(4, N))[::-1],
}
CONSTANTS = {"version": lambda rng, Z, y: ["1.2.3"] * N, "flag": lambda rng, Z, y: np.zeros(N)}
COPIES = {
    "a_fahrenheit": lambda rng, Z, y: (-1.8 * Z[:, 0].round(5) + 32).round(3),
    "b_again": lambda rng, Z, y: Z[:, 1].round(5),
}
LEAKS = {"outcome": lambda rng, Z, y: np.where(y > 0, "paid", "lost")}
PLANTED = {
    **{name: (make, "id") for name, make in IDS.items()},
    **{name: (make, "clock") for name, make in CLOCKS.items()},
    **{name: (make, "constant") for name, make in CONSTANTS.items()},
    **{name: (make, "copy") for name, make in COPIES.items()},
    **{name: (make, "leak") for name, make in LEAKS.items()},
}


def written(folder, frame, y, *, numbers):
    path = folder / "planted.csv"
    target = y.round(4) if numbers else np.where(y > 0, "yes", "no")
    # Copies stand behind what they are copies of.
    names = [n for n in frame.columns if not n.startswith(("a_", "b_"))]
    names += [n for n in frame.columns if n not in names]
    frame.select(names).with_columns(y=pl.Series(target)).write_csv(path)
    return path


# Each with a target of classes, and one of each kind with numbers.
CASES = [(name, False) for name in PLANTED]
CASES += [(next(iter(made)), True) for made in (IDS, CLOCKS, CONSTANTS, COPIES, LEAKS)]


@pytest.mark.parametrize(("name", "numbers"), CASES)
def test_each_is_named_and_none_is_in_the_top(name, numbers, tmp_path, command):
    make, kind = PLANTED[name]
    if kind == "leak" and numbers:
        make = lambda rng, Z, y: (100.0 * y - 7.0).round(3)  # noqa: E731
    seed = list(PLANTED).index(name)
    frame, y, _ = table(seed, **{name: make})
    path = written(tmp_path, frame, y, numbers=numbers)
    out = tmp_path / "run"
    result = command("select", path, "--target", "y", "--top", 3, "--json", "--out", out)
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert [(d["column"], d["kind"]) for d in document["doubts"]] == [(name, kind)]
    (line,) = (line for line in result.stderr.splitlines() if f'column "{name}"' in line)
    assert "--exclude" in line
    assert ("--keep-suspicious" in line) == (kind in ("id", "clock", "copy"))
    chosen = {row["feature"] for row in document["features"]}
    assert chosen == {"a", "b", "c"} if kind != "leak" else name in chosen
    rows = pl.read_csv(out / "columns.csv", infer_schema=False).fill_null("")
    said = dict(rows.select("name", "doubt").iter_rows())
    assert {n for n, doubt in said.items() if doubt} == {name}
    assert said[name].startswith(f"{kind}: ")


def test_a_nameless_index_is_an_id(tmp_path, command):
    frame, y, _ = table(1)
    path = tmp_path / "frame.csv"
    pd.DataFrame(frame.to_dict(as_series=False)).assign(y=y > 0).to_csv(path)
    result = command("select", path, "--target", "y", "--top", 3, "--json")
    (doubt,) = json.loads(result.stdout)["doubts"]
    assert (doubt["column"], doubt["kind"]) == ("column_1", "id")


def test_keep_doubtful_keeps_and_is_silent(tmp_path, command):
    frame, y, _ = table(2, row_id=CLOCKS["row_id"], outcome=LEAKS["outcome"])
    path = written(tmp_path, frame, y, numbers=False)
    result = command("select", path, "-t", "y", "-k", 8, "--keep-doubtful", "--json")
    document = json.loads(result.stdout)
    assert {"row_id", "outcome"} <= {row["feature"] for row in document["features"]}
    assert {d["column"] for d in document["doubts"]} == {"row_id", "outcome"}
    assert result.stderr == ""


def test_a_leak_that_is_not_quite_the_target_is_named_at_the_end(tmp_path, command):
    def nearly(rng, Z, y):
        return np.where(rng.random(N) < 0.02, -y, y).round(1)

    frame, y, _ = table(3, score=nearly)
    path = written(tmp_path, frame.drop("a", "b"), y, numbers=False)
    result = command("select", path, "-t", "y", "-k", 2, "--json")
    (doubt,) = json.loads(result.stdout)["doubts"]
    assert (doubt["column"], doubt["kind"]) == ("score", "leak")
    assert 'CAUTION: column "score" alone predicts the target better' in result.stderr


def test_a_constant_that_changes_later_is_not_named(tmp_path, command):
    frame, y, _ = table(4, n=12_000)
    late = np.where(np.arange(12_000) < 11_000, 5.0, 6.0)
    path = written(tmp_path, frame.with_columns(late=pl.Series(late)), y, numbers=False)
    result = command("select", path, "-t", "y", "--json")
    assert json.loads(result.stdout)["doubts"] == []
    assert result.stderr == ""


def test_a_period_that_is_longer_than_the_sample_is_named_at_the_end(tmp_path, command):
    frame, y, rng = table(4, n=18_000)
    shuffled = rng.permutation(np.arange(18_000) * 8 // 18_000)
    grown = frame.with_columns(
        period=pl.Series(np.arange(18_000) * 3 // 18_000),
        switch=pl.Series(np.arange(18_000) // 17_000),
        shuffled=pl.Series(shuffled),
    )
    path = written(tmp_path, grown, y, numbers=False)
    result = command("select", path, "-t", "y", "--json")
    (doubt,) = json.loads(result.stdout)["doubts"]
    assert (doubt["column"], doubt["kind"]) == ("period", "clock")
    why = "only increases, over 3 values, none of which recurs"
    assert result.stderr == f'CAUTION: column "period" {why}: possible clock; --exclude period\n'


def test_rows_in_the_order_of_their_class_are_cautioned_about(tmp_path, command):
    frame, y, _ = table(4, n=1_000)
    paths = {"sorted": frame[np.argsort(y)], "as they came": frame}
    said = {}
    for name, rows in paths.items():
        labels = np.sort(y) if name == "sorted" else y
        result = command("select", written(tmp_path, rows, labels, numbers=False), "-t", "y")
        said[name] = [line for line in result.stdout.splitlines() if line.startswith("Caution")]
    assert said["as they came"] == []
    assert "labels come in runs of 500 rows on average; by chance" in said["sorted"][0]


def test_columns_shows_doubts(tmp_path, command):
    frame, y, _ = table(5, row_id=CLOCKS["row_id"], outcome=LEAKS["outcome"])
    path = written(tmp_path, frame, y, numbers=False)
    result = command("columns", path, "--target", "y", "--json")
    rows = {row["name"]: row for row in json.loads(result.stdout)["columns"]}
    assert rows["row_id"]["doubt"] == "clock: is a row counter"
    assert rows["row_id"]["done"] == "left out; clock: is a row counter"
    assert rows["outcome"]["doubt"].startswith("leak: ")
    assert not any(rows[name]["doubt"] for name in ("a", "b", "y"))


def test_compare_leaves_them_out_too(tmp_path, command):
    frame, y, _ = table(6, row_id=CLOCKS["row_id"])
    path = written(tmp_path, frame, y, numbers=False)
    result = command("compare", path, "-t", "y", "-s", "fires", "--seeds", 1, "--json")
    assert 'column "row_id" is a row counter: excluded' in result.stderr
    assert json.loads(result.stdout)["doubts"][0]["column"] == "row_id"


# --- what must not be doubted -----------------------------------------------------------------

SOUND = {
    "measured": lambda rng, Z, y: rng.normal(size=N),
    "amount in cents": lambda rng, Z, y: (1e7 * np.exp(rng.normal(size=N))).astype(int),
    "whole numbers of any size": lambda rng, Z, y: (2.0**50 * rng.normal(size=N)).astype(int),
    "few": lambda rng, Z, y: rng.integers(0, 5, N),
    "uniform whole numbers": lambda rng, Z, y: rng.integers(0, 100_000, N),
    "town_id": lambda rng, Z, y: rng.integers(0, 800, N),
    "town": lambda rng, Z, y: [f"town {v}" for v in rng.zipf(1.5, N).clip(max=900)],
    "born": lambda rng, Z, y: [
        str((datetime(1980, 1, 1) + timedelta(days=int(d))).date())
        for d in rng.integers(0, 9999, N)
    ],
    "sorted measurement": lambda rng, Z, y: np.sort(rng.normal(size=N)),
    "sorted amounts": lambda rng, Z, y: np.sort(np.exp(rng.normal(size=N))),
    "sorted uniform": lambda rng, Z, y: np.sort(rng.random(N)),
    "sorted whole numbers": lambda rng, Z, y: np.sort(rng.integers(0, 2_500, N)),
    "sorted ages": lambda rng, Z, y: np.sort(rng.integers(0, 110, N)),
    "sorted stores": lambda rng, Z, y: np.repeat(np.arange(300), N // 300),
    "sorted flag": lambda rng, Z, y: np.arange(N) // (N // 2),
    "counts two late events": lambda rng, Z, y: np.maximum(np.arange(N) - (N - 3), 0),
    "response_time": lambda rng, Z, y: np.sort(rng.exponential(size=N)),
    "walk": lambda rng, Z, y: np.cumsum(rng.normal(size=N)),
    "minute of the day": lambda rng, Z, y: np.arange(N) % 1440,
    "season": lambda rng, Z, y: np.sin(np.arange(N) / 100),
    "near a": lambda rng, Z, y: Z[:, 0] + 0.02 * rng.normal(size=N),
    "logarithm of a": lambda rng, Z, y: np.log(Z[:, 0] + 9.0),
    "with one outlier": lambda rng, Z, y: np.where(np.arange(N) == 7, 1e9, Z[:, 3]),
    "rare flag": lambda rng, Z, y: np.isin(np.arange(N), [5, 9]) * 1,
    "most of the target": lambda rng, Z, y: np.where(rng.random(N) < 0.9, y > 0, y < 0),
}


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", range(2))
def test_no_false_doubt(name, seed):
    frame, y, rng = table(seed, **{name: SOUND[name]})
    twin = np.isin(np.arange(N), [5, 9]) * 3  # as rare as the rare flag
    outlier = np.where(np.arange(N) == 7, 1e9, rng.normal(size=N))
    frame = frame.with_columns(twin=pl.Series(twin), outlier=pl.Series(outlier))
    assert find_doubts(frame, y > 0) == []
    assert find_doubts(frame, y) == []


def test_few_rows_raise_no_doubt():
    frame, y, _ = table(0, row_id=CLOCKS["row_id"], ticket=IDS["ticket"])
    assert find_doubts(frame[:60], y[:60] > 0) == []


def test_a_hundred_rows_are_enough_for_a_copy():
    x = np.random.default_rng(0).normal(size=100)
    frame = pl.DataFrame({"celsius": x, "fahrenheit": 1.8 * x + 32})
    assert [(doubt.column, doubt.kind) for doubt in find_doubts(frame)] == [("fahrenheit", "copy")]
    assert find_doubts(frame[:99]) == []


# --- as a function -----------------------------------------------------------------------------


def test_frames_of_pandas_and_polars_are_doubted_alike():
    frame, y, _ = table(7, row_id=CLOCKS["row_id"], outcome=LEAKS["outcome"])
    other = pd.DataFrame(frame.to_dict(as_series=False))
    assert find_doubts(frame, y > 0) == find_doubts(other, pd.Series(y > 0))
    assert [doubt.kind for doubt in find_doubts(frame)] == ["clock"]


def test_a_copy_names_the_first_of_all_its_twins():
    frame, _, rng = table(8)
    town = pl.Series(rng.choice(["Ulm", "Bonn", "Kiel"], N))
    frame = frame.with_columns(
        a2=pl.col("a") * 3, a3=-pl.col("a"), town=town, ort=town.str.to_uppercase()
    )
    found = {doubt.column: (doubt.kind, doubt.other) for doubt in find_doubts(frame)}
    assert found == {"a2": ("copy", "a"), "a3": ("copy", "a"), "ort": ("copy", "town")}


def test_a_code_beside_its_category_is_a_copy_wherever_it_stands():
    frame, _, rng = table(9)
    code = rng.integers(0, 12, N)
    frame = frame.with_columns(month=pl.Series(code), name=pl.Series([f"m{c}" for c in code]))
    (doubt,) = find_doubts(frame)
    assert doubt == Doubt("month", "copy", 'has the categories of "name" under other names', "name")


def test_missing_cells_hide_neither_clocks_nor_leaks():
    frame, y, rng = table(10, row_id=CLOCKS["row_id"], outcome=LEAKS["outcome"])
    gone = pl.Series(rng.random(N) < 0.1)
    frame = frame.with_columns(
        pl.when(gone).then(None).otherwise(pl.col(name)).alias(name)
        for name in ("row_id", "outcome")
    )
    assert [doubt.kind for doubt in find_doubts(frame, y > 0)] == ["clock", "leak"]


@pytest.mark.parametrize("n_columns", [300, pytest.param(6_000, marks=pytest.mark.slow)])
def test_many_equal_columns_are_found_without_a_look_at_every_pair(n_columns):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    frame = pl.DataFrame({f"x{j}": x * (j + 1) for j in range(n_columns)})
    found = find_doubts(frame)
    assert len(found) == n_columns - 1
    assert {doubt.other for doubt in found} == {"x0"}
