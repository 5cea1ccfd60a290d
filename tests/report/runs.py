"""Run folders of every kind, made by the real command, each once a session: do not change them.

Copy one (:func:`copy_of`) to write into it.
"""

import atexit
import json
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
from click.testing import CliRunner

from fires.cli import main
from fires.run.records import STEPS

SCRIPT = "<script>alert(1)</script>"


@cache
def folder():
    """Where they are."""
    path = Path(tempfile.mkdtemp(prefix="fires-runs-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def copy_of(run, to):
    """A run that a test may change."""
    return Path(shutil.copytree(run, to))


def select(name, table, *options, target="label", ends_well=True):
    """Run the command on a frame, or on lines of CSV, or of svmlight without a target."""
    lines = table.write_csv().splitlines() if isinstance(table, pl.DataFrame) else table
    source = folder() / f"{name}.{'csv' if target else 'svm'}"
    source.write_text("\n".join([*lines, ""]))
    wanted = ["--target", target] if target else []
    arguments = ["select", source, *wanted, "--out", folder() / name, "--quiet", *options]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert (done.exit_code == 0) == ends_well, done.output
    return folder() / name


def numbers_table(n_rows=2_000, n_columns=12, seed=0, *, drifts=False):
    """Columns x0, x1, ... of which x2 and x5 matter; with drift, x7 and x8 from half-way on."""
    X = np.random.default_rng(seed).normal(size=(n_rows, n_columns)).round(4)
    score = 2.0 * X[:, 2 % n_columns] - X[:, 5 % n_columns]
    if drifts:
        late = np.arange(n_rows) >= n_rows // 2
        score = np.where(late, 2.0 * X[:, 7] + X[:, 8], score)
        X[late, 7] += 3.0
    frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(n_columns)})
    return frame.with_columns(label=pl.Series(np.where(score > 0, "spam", "ham"))), score


@cache
def of_classes():
    """Two classes, 20 batches, nothing special."""
    return select("classes", numbers_table()[0], "--top", 4)


@cache
def of_three_classes():
    """Three classes; a column of categories becomes two features, and one is a copy."""
    table, score = numbers_table()
    towns = np.digitize(score, [-2.0, 0.0, 2.0])
    table = table.with_columns(
        town=pl.Series([f"town {i}" for i in towns.tolist()]),
        copy=pl.col("x2") * 2.0 + 1.0,
        label=pl.Series(np.digitize(score, [-1.0, 1.0])).replace_strict(
            {0: "low", 1: "mid", 2: "high"}
        ),
    )
    return select("three", table, "--top", 3)


@cache
def of_numbers():
    """A target of numbers."""
    table, score = numbers_table()
    table = table.with_columns(label=pl.Series((10.0 * score + 3.0).round(3)))
    return select("numbers", table, "--top", 4)


@cache
def of_one_step():
    """One batch."""
    return select("one-step", numbers_table(100)[0], "--top", 4)


@cache
def of_one_feature():
    """One feature."""
    return select("one-feature", numbers_table(500, 1)[0], "--top", 1)


@cache
def of_drift():
    """Half-way, other columns matter, and one has moved: there are alarms and changes."""
    return select("drift", numbers_table(12_000, drifts=True)[0], "--top", 2, "--batch-size", 50)


@cache
def of_awkward_names():
    """A column is named like a script, others are not ASCII, empty or very long."""
    names = {"x2": SCRIPT, "x3": 'höhe, in "m"', "x4": "</script><b>", "x6": "n" * 300}
    return select("awkward", numbers_table()[0].rename(names), "--top", 4)


@cache
def of_bad_rows():
    """Some rows cannot be used, and some values are missing."""
    lines = numbers_table()[0].write_csv().splitlines()
    lines[100:100] = ["1,2", "1,2", "1,2,3", '<script>alert("x")</script>,1', f"{'z' * 500},2"]
    lines[7] = "," + lines[7].split(",", 1)[1]
    return select("bad-rows", lines, "--top", 4)


@cache
def as_published():
    """The paper to the letter: no intervals."""
    return select("as-published", numbers_table()[0], "--top", 4, "--as-published")


@cache
def of_pixels():
    """784 columns that are a picture of 28 by 28."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 784)).round(2)
    frame = pl.DataFrame(X, schema=[f"p{j}" for j in range(784)])
    label = pl.Series(np.where(X[:, 400] + X[:, 401] > 0, "7", "1"))
    return select("pixels", frame.with_columns(label=label), "--top", 20, "--shape", "28x28")


@cache
def of_many_features():
    """20,000 features in rows that are nearly empty."""
    rng = np.random.default_rng(0)
    lines = ["0 1:1 20000:1"]
    for _ in range(499):
        places = np.unique(rng.integers(4, 20_000, size=30))
        value = rng.normal()
        rest = " ".join(f"{place}:1" for place in places.tolist())
        lines.append(f"{int(value > 0)} 3:{value:.4f} {rest}")
    return select("wide", lines, "--top", 20, target=None)


@cache
def that_was_killed():
    """What a run leaves behind that was killed after its last record."""
    run = copy_of(of_classes(), folder() / "killed")
    for name in ("features.csv", "columns.csv", "state.safetensors"):
        (run / name).unlink()
    facts = json.loads((run / "run.json").read_bytes())
    begun = ("records", "fires", "started", "versions", "settings", "id")
    facts = {"status": "running"} | {name: facts[name] for name in begun}
    (run / "run.json").write_text(json.dumps(facts, indent=2) + "\n")
    return run


@cache
def without_a_step():
    """A run that was killed before its first batch."""
    run = copy_of(that_was_killed(), folder() / "no-step")
    for name in (STEPS, "names.json"):
        (run / name).unlink()
    for name in ("snapshots", "checkpoints"):
        shutil.rmtree(run / name)
    return run


@cache
def that_ended_early():
    """A run that had too many bad rows."""
    lines = numbers_table()[0].write_csv().splitlines()
    lines[1_500:1_500] = ["1,2", "3"]
    return select("early", lines, "--top", 4, "--max-bad", 1, ends_well=False)


@cache
def of_changing_columns():
    """Five files, each with other columns than the one before; the first ones are forgotten."""
    rng = np.random.default_rng(0)
    sources = []
    for i in range(5):
        X = rng.normal(size=(520, 6)).round(4)
        frame = pl.DataFrame(X, schema=[f"s{2 * i + j}" for j in range(6)]).with_columns(
            town=pl.Series(rng.choice(["Bonn", "Ulm"], 520).tolist()),
            label=pl.Series(np.where(X[:, 3] > X[:, 4], "spam", "ham")),
        )
        sources.append(folder() / f"changing-{i}.csv")
        frame.write_csv(sources[-1])
    options = ["--columns", "open", "--forget-after", 1_000, "--top", 3, "--quiet"]
    out = folder() / "changing"
    arguments = ["select", *sources, "--target", "label", "--out", out, *options]
    done = CliRunner().invoke(main, list(map(str, arguments)))
    assert done.exit_code == 0, done.output
    return out


def relations_table(n_rows=3_000, seed=0):
    """dose is a quadratic, price a logarithm, age and income matter together; height is a line."""
    rng = np.random.default_rng(seed)
    names = ["age", "income", "height", "dose", "price", "x5", "x6", "x7"]
    X = rng.normal(size=(n_rows, 8))
    score = 2.0 * X[:, 0] * X[:, 1] + 1.2 * X[:, 2] + 1.5 * (X[:, 3] ** 2 - 1.0) + 1.5 * X[:, 4]
    X[:, 4] = np.exp(X[:, 4])
    frame = pl.DataFrame(X.round(4), schema=names)
    return frame, score + 0.5 * rng.normal(size=n_rows)


@cache
def of_relations():
    """Curves and pairs; a column of categories says nothing."""
    table, score = relations_table()
    towns = np.array(["Bonn", "Ulm", "Trier"])[np.arange(len(table)) % 3]
    label = pl.Series(np.where(score > 0, "yes", "no"))
    table = table.with_columns(town=pl.Series(towns), label=label)
    return select("relations", table, "--top", 5, "--relations", "auto")


ALL = {
    "classes": of_classes,
    "three classes": of_three_classes,
    "numbers": of_numbers,
    "one step": of_one_step,
    "one feature": of_one_feature,
    "drift": of_drift,
    "awkward names": of_awkward_names,
    "bad rows": of_bad_rows,
    "as published": as_published,
    "pixels": of_pixels,
    "many features": of_many_features,
    "killed": that_was_killed,
    "no step": without_a_step,
    "ended early": that_ended_early,
    "changing columns": of_changing_columns,
    "relations": of_relations,
}
"""What makes each of them."""
