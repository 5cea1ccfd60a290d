"""Twelve files of different make, each with a truth planted in its awkward columns.

Every maker draws the same kind of table with its own seed: ``Z`` is standard normal, and the target
depends on a few columns of it alone. The maker then writes these columns in the way that its kind
of file has: who misreads them (categories for percentages, gaps for dates) loses the truth.
"""

import bz2
import gzip
import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import zstandard
from click.testing import CliRunner

from fires.cli import main

N_ROWS = 3_000


@dataclass(frozen=True)
class Made:
    """What was written, and what is true of it.

    ``asked``: the option that a first attempt without it may ask for by name, with its value.
    ``n_rows``: rows that can be used; ``n_lost``: those that cannot.
    ``model``: what "auto" should find.
    """

    paths: tuple[Path, ...]
    target: str | None
    planted: tuple[str, ...]
    asked: tuple[str, ...] = ()
    n_rows: int = N_ROWS
    n_lost: int = 0
    model: str = "probit"


@dataclass(frozen=True)
class Truth:
    """Standard normal columns, of which the first ``k`` make the score, and labels of it."""

    Z: np.ndarray
    score: np.ndarray
    label: np.ndarray
    rng: np.random.Generator


def make_truth(seed, n_columns, k, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n_rows, n_columns))
    signs = np.where(np.arange(k) % 2, -1.0, 1.0)
    score = Z[:, :k] @ signs
    return Truth(Z, score, score + rng.normal(size=n_rows, scale=0.3) > 0.0, rng)


def _some(truth, texts, word, share=0.04):
    """Write a word in the place of some texts."""
    out = truth.rng.random(len(texts)) < share
    return [word if o else text for o, text in zip(out, texts, strict=True)]


def _lines(columns, sep=",", end="\n"):
    """The lines of a table; fields that hold the separator are quoted."""

    def field(text):
        return f'"{text}"' if sep in text or '"' in text else text

    rows = zip(*columns.values(), strict=True)
    return [sep.join(map(field, row)) + end for row in [columns.keys(), *rows]]


def _plain(truth, first, last):
    """Columns of plain numbers, which say nothing."""
    return {f"n{j}": [f"{z:.3f}" for z in truth.Z[:, j]] for j in range(first, last)}


def _currency(amount):
    text = f"${abs(amount):,.2f}"
    return f"({text})" if amount < 0 else text


def _european(value):
    return f"{value:,.2f}".replace(",", " ").replace(".", ",").replace(" ", ".")


def percent_and_currency(folder):
    """An export of a table for people: percent, currency, brackets for minus, units."""
    t = make_truth(1, 10, 4)
    columns = {
        "growth": [f"{12.3 * z:.1f}%" for z in t.Z[:, 0]],
        "revenue": [_currency(5_000 * z) for z in t.Z[:, 1]],
        "balance": [f"({-z:.2f})" if z < 0 else f"{z:.2f}" for z in 3 * t.Z[:, 2]],
        "weight": [f"{100 + 20 * z:.1f} kg" for z in t.Z[:, 3]],
    } | _plain(t, 4, 10)
    columns["won"] = np.where(t.label, "yes", "no").tolist()
    path = folder / "sales.csv"
    path.write_text("".join(_lines(columns)), encoding="utf-8")
    return Made((path,), "won", ("growth", "revenue", "balance", "weight"))


def european(folder):
    """Semicolons, decimal commas, points between thousands, days before months."""
    t = make_truth(2, 10, 3)
    days = [date(2024, 1, 1) + timedelta(days=round(200 * z)) for z in t.Z[:, 2]]
    columns = {
        "Umsatz": [_european(40_000 * z) for z in t.Z[:, 0]],
        "Größe": [f"{1.75 + 0.1 * z:.3f}".replace(".", ",") for z in t.Z[:, 1]],
        "Datum": [day.strftime("%d.%m.%Y") for day in days],
    }
    columns |= {f"n{j}": [f"{z:.2f}".replace(".", ",") for z in t.Z[:, j]] for j in range(3, 10)}
    columns["gekauft"] = np.where(t.label, "ja", "nein").tolist()
    path = folder / "kunden.csv"
    path.write_text("".join(_lines(columns, sep=";")), encoding="utf-8")
    return Made((path,), "gekauft", ("Umsatz", "Größe", "Datum"))


def pandas_export(folder):
    """``frame.to_csv``: an index without a name, True and False, empty cells, 1.0 for 1."""
    t = make_truth(3, 10, 3)
    # Missing flags of a frame are empty cells; most are there.
    columns = {
        "": [str(i) for i in range(N_ROWS)],
        "member": _some(t, [str(z > 0) for z in t.Z[:, 0]], "", 0.3),
        "visits": _some(t, [f"{round(20 * z)}.0" for z in t.Z[:, 1]], "", 0.3),
        "spent": _some(t, [repr(float(z)) for z in t.Z[:, 2]], "", 0.3),
    } | _plain(t, 3, 10)
    columns["bought"] = _some(t, [str(label) for label in t.label], "", 0.01)
    n_lost = columns["bought"].count("")
    path = folder / "frame.csv"
    path.write_text("".join(_lines(columns)), encoding="utf-8")
    planted = ("member", "visits", "spent")
    return Made((path,), "bought", planted, n_rows=N_ROWS - n_lost, n_lost=n_lost)


def spark(folder):
    r"""``\N`` for null, ISO times with T and Z, true and false."""
    t = make_truth(4, 12, 4)
    start = datetime(2024, 3, 1, tzinfo=UTC)
    times = [start + timedelta(seconds=round(1e6 * z)) for z in t.Z[:, 0]]
    days = [start.date() + timedelta(days=round(90 * z)) for z in t.Z[:, 1]]
    columns = {
        "event_time": [f"{time:%Y-%m-%dT%H:%M:%S}.{i % 1000:03d}Z" for i, time in enumerate(times)],
        "day": [str(day) for day in days],
        "active": ["true" if z > 0 else "false" for z in t.Z[:, 2]],
        "amount": [f"{z:.4f}" for z in t.Z[:, 3]],
    }
    columns = {name: _some(t, texts, r"\N", 0.3) for name, texts in columns.items()}
    columns |= {name: _some(t, texts, r"\N", 0.002) for name, texts in _plain(t, 4, 12).items()}
    columns["churned"] = np.where(t.label, "1", "0").tolist()
    path = folder / "part-00000.csv"
    path.write_text("".join(_lines(columns)), encoding="utf-8")
    return Made((path,), "churned", ("event_time", "day", "active", "amount"))


def excel(folder):
    """The line ``sep=;`` before the header, errors of formulas, carriage returns."""
    t = make_truth(5, 9, 3)
    columns = {
        "ratio": _some(t, [f"{z:.3f}" for z in t.Z[:, 0]], "#DIV/0!", 0.3),
        "looked up": _some(t, [f"{100 * z:.1f}" for z in t.Z[:, 1]], "#N/A", 0.3),
        "share": _some(t, [f"{50 + 10 * z:.1f}%" for z in t.Z[:, 2]], "#N/A", 0.02),
    } | _plain(t, 3, 9)
    columns["late"] = np.where(t.label, "Yes", "No").tolist()
    path = folder / "Book1.csv"
    text = "sep=;\r\n" + "".join(_lines(columns, sep=";", end="\r\n"))
    path.write_bytes(text.encode())
    return Made((path,), "late", ("ratio", "looked up", "share"))


def log(folder):
    """A log: times that grow, with an offset; durations, levels, and messages of free text."""
    t = make_truth(6, 8, 3)
    start = datetime(2024, 5, 1, tzinfo=UTC)
    words = np.array(
        [
            "the",
            "a",
            "of",
            "job",
            "worker",
            "queue",
            "failed",
            "started",
            "while",
            "waiting",
            "for",
            "retry",
        ]
    )
    seconds = np.maximum(np.round(3_600 + 900 * t.Z[:, 0]), 0).astype(int)
    columns = {
        "time": [(start + timedelta(seconds=7 * i)).isoformat() for i in range(N_ROWS)],
        "took": [str(timedelta(seconds=int(s))) for s in seconds],
        "last_seen": [
            (start + timedelta(seconds=round(5e5 * z))).strftime("%Y-%m-%dT%H:%M:%S+02:00")
            for z in t.Z[:, 1]
        ],
        "level": np.where(t.Z[:, 2] > 0, "ERROR", "INFO").tolist(),
    } | _plain(t, 3, 8)
    columns["message"] = [
        " ".join([*t.rng.choice(words, 9), f"{t.rng.integers(1 << 40):x}"]) for _ in range(N_ROWS)
    ]
    columns["crashed"] = np.where(t.label, "1", "0").tolist()
    path = folder / "worker.log.csv"
    path.write_text("".join(_lines(columns)), encoding="utf-8")
    return Made((path,), "crashed", ("took", "last_seen", "level"), ("--exclude", "message"))


def decimal_parquet(folder):
    """All that Parquet has; the target too is DECIMAL, and near zero: 0.13 is not 0."""
    t = make_truth(7, 14, 8)
    noise = t.rng.normal(size=N_ROWS, scale=0.01)
    day = datetime(2024, 1, 1)
    frame = pl.DataFrame(
        {
            "price": pl.Series([Decimal(f"{z / 10:.2f}") for z in t.Z[:, 0]]).cast(
                pl.Decimal(10, 2)
            ),
            "day": [(day + timedelta(days=round(300 * z))).date() for z in t.Z[:, 1]],
            "time": [day + timedelta(seconds=round(1e6 * z)) for z in t.Z[:, 2]],
            "wait": [timedelta(seconds=5_000 + round(1_000 * z)) for z in t.Z[:, 3]],
            "member": t.Z[:, 4] > 0,
            "size": pl.Series(np.where(t.Z[:, 5] > 0, "large", "small")).cast(
                pl.Enum(["small", "large"])
            ),
            "town": pl.Series(np.where(t.Z[:, 6] > 0, "Bonn", "Ulm")).cast(pl.Categorical),
            "tall": np.uint64(2**63)
            + (2**60 * t.Z[:, 7].clip(-6, 6)).astype(np.int64).astype(np.uint64),
        }
        | {f"n{j}": t.Z[:, j] for j in range(8, 14)}
    )
    # Flags and categories carry the sign of their column alone.
    known = t.Z[:, :8].copy()
    known[:, 4:7] = np.sign(known[:, 4:7])
    score = known @ np.where(np.arange(8) % 2, -1.0, 1.0) / 20 + noise
    target = pl.Series("margin", [Decimal(f"{s:.2f}") for s in score]).cast(pl.Decimal(12, 2))
    path = folder / "ledger.parquet"
    frame.with_columns(target).write_parquet(path)
    return Made((path,), "margin", tuple(frame.columns[:8]), model="gaussian")


def svmlight(folder):
    """Sparse rows, labels in front, a comment, columns counted from 1. No name anywhere."""
    t = make_truth(8, 15, 3)
    # The planted columns are 3, 7 and 11 of the file.
    order = [2, 6, 10, *(j for j in range(15) if j not in (2, 6, 10))]
    X = np.empty_like(t.Z)
    X[:, order] = t.Z
    rows = ["# made for a test\n"]
    for x, label, there in zip(X, t.label, t.rng.random(X.shape) < 0.6, strict=True):
        entries = " ".join(f"{j + 1}:{x[j]:.4f}" for j in np.flatnonzero(there))
        rows.append(f"{'+1' if label else '-1'} {entries}\n")
    path = folder / "sparse.svm"
    path.write_text("".join(rows), encoding="ascii")
    return Made((path,), None, ("3", "7", "11"))


def ndjson(folder):
    """Objects, one a line: two lines are broken, keys are missing, one value is nested."""
    t = make_truth(9, 9, 3)
    lines = []
    for i, z in enumerate(t.Z):
        row = {
            "size": round(float(z[0]), 4),
            "rate": f"{10 * z[1]:.1f}%",
            "active": bool(z[2] > 0),
        } | {f"n{j}": round(float(z[j]), 3) for j in range(3, 9)}
        row["who"] = {"id": i, "tags": ["a", "b"]}
        row["clicked"] = "yes" if t.label[i] else "no"
        for name in ("size", "n4", "who"):
            if t.rng.random() < 0.1:
                del row[name]
        lines.append(json.dumps(row) + "\n")
    lines[1_000] = lines[1_000][:37] + "\n"
    lines[2_000] = "500 Internal Server Error\n"
    path = folder / "events.ndjson"
    path.write_text("".join(lines), encoding="utf-8")
    planted = ("size", "rate", "active")
    asked = ("--exclude", "who")
    return Made((path,), "clicked", planted, asked, n_rows=N_ROWS - 2, n_lost=2)


def utf16(folder):
    """What some programs call Unicode text: UTF-16 with a mark in front, and tabs."""
    t = make_truth(10, 9, 3)
    columns = {
        "größe": [f"{170 + 10 * z:.1f}" for z in t.Z[:, 0]],
        "日付": [
            str(date(2024, 1, 1) + timedelta(days=round(100 * z))).replace("-", "/")
            for z in t.Z[:, 1]
        ],
        "price": [f"€{20 + z:.2f}" for z in t.Z[:, 2]],
    } | _plain(t, 3, 9)
    columns["kind"] = np.where(t.label, "süß", "sauer").tolist()
    path = folder / "unicode.txt"
    path.write_bytes("".join(_lines(columns, sep="\t", end="\r\n")).encode("utf-16"))
    return Made((path,), "kind", ("größe", "日付", "price"))


def zstd(folder):
    """A CSV file packed with zstd; words for missing values among its numbers."""
    t = make_truth(11, 8, 3)
    columns = {
        "a": _some(t, [f"{z:.3f}" for z in t.Z[:, 0]], "None", 0.3),
        "b": _some(t, [f"{z:.3f}" for z in t.Z[:, 1]], "-", 0.3),
        "c": _some(t, [f"{1e5 * (z + 9):,.0f}" for z in t.Z[:, 2]], "missing", 0.02),
    } | _plain(t, 3, 8)
    columns["y"] = np.where(t.label, "1", "0").tolist()
    path = folder / "packed.csv.zst"
    path.write_bytes(zstandard.compress("".join(_lines(columns)).encode()))
    return Made((path,), "y", ("a", "b", "c"))


def daily(folder):
    """Three files, a day each; their columns come in another order every day."""
    t = make_truth(12, 8, 3)
    columns = {
        "load": [f"{50 + 10 * z:.1f}%" for z in t.Z[:, 0]],
        "state": np.where(t.Z[:, 1] > 0, "on", "off").tolist(),
        "heat": [f"{20 + 5 * z:.2f}" for z in t.Z[:, 2]],
    } | _plain(t, 3, 8)
    columns["alert"] = np.where(t.label, "yes", "no").tolist()
    names, paths, size = list(columns), [], N_ROWS // 3
    for day in range(3):
        rows = slice(day * size, (day + 1) * size)
        some = {name: columns[name][rows] for name in t.rng.permutation(names).tolist()}
        paths.append(folder / f"2024-01-0{day + 1}.csv")
        paths[-1].write_text("".join(_lines(some)), encoding="utf-8")
    return Made(tuple(paths), "alert", ("load", "state", "heat"))


MAKERS = (
    percent_and_currency,
    european,
    pandas_export,
    spark,
    excel,
    log,
    decimal_parquet,
    svmlight,
    ndjson,
    utf16,
    zstd,
    daily,
)


@pytest.fixture(params=MAKERS, ids=lambda maker: maker.__name__)
def made(request, tmp_path):
    """Each of the twelve in turn."""
    return request.param(tmp_path)


@pytest.fixture
def truth():
    """Draw a table with a truth in it."""
    return make_truth


@pytest.fixture
def lines():
    """Write columns of texts as lines."""
    return _lines


@pytest.fixture
def packed():
    """Pack bytes, by the ending of a name."""
    return {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.compress}


@pytest.fixture
def command():
    """Run the real command within this process."""

    def run(*arguments, stdin=None):
        return CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)

    return run


@pytest.fixture
def process():
    """Run the real command as a process of its own: what polars itself prints is seen too."""

    def run(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-m", "fires.cli", *map(str, arguments)],
            **{"capture_output": True, "encoding": "utf-8", "timeout": 120, "env": os.environ}
            | options,
        )

    return run


@pytest.fixture
def file_size_limit():
    """Let no file of this process grow beyond so many bytes: what a full disk looks like."""

    @contextmanager
    def limited(n_bytes):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
