"""What was found wrong when files were tried as people have them: one test for each finding.

The numbers of the parts are those of the section "Found" of the issue.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import zipfile
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import zstandard

import fires
from fires.core.errors import InputError
from fires.streams.files import from_file

N = 400
EPOCH = datetime(1970, 1, 1)


def read(source, target="y", **options):
    """The whole stream: its batches in one, and the stream."""
    stream = from_file(source, target, **options)
    batches = list(stream.batches(100))
    X = np.concatenate([batch.X for batch in batches])
    return X, np.concatenate([batch.y for batch in batches]), stream


def table(lines, texts, n=None, sep=","):
    """A column of texts, one of plain numbers, and a target of yes and no."""
    columns = {
        "a": texts,
        "b": [f"{i * 37 % 11}.5" for i in range(len(texts))],
        "y": [("yes", "no")[i * 7 % 3 == 0] for i in range(len(texts))],
    }
    return io.BytesIO("".join(lines(columns, sep=sep)).encode())


def seconds(moment):
    return (moment - EPOCH).total_seconds()


def planted(truth, seed=0, n_rows=3_000):
    """Four plain columns, of which a and b matter, and a target of 0 and 1."""
    t = truth(seed, 4, 2, n_rows)
    columns = {name: [f"{z:.4f}" for z in t.Z[:, j]] for j, name in enumerate("abcd")}
    return columns | {"y": [str(int(label)) for label in t.label]}


def document(result):
    """What ``--json`` printed."""
    assert "Traceback" not in result.output
    return json.loads(result.stdout)


def chosen(result):
    return {row["feature"] for row in document(result)["features"]}


def contents(folder):
    """All files of a folder."""
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def one_line(result, *words):
    """The command refused, in one line that says so, and does not guess at the reason."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    for word in words:
        assert word in line
    for guess in ("carriage return", "UTF-8", "cannot find columns"):
        assert guess not in line
    return line


def kinds(result):
    """What ``fires columns --json`` says, by the names of the columns."""
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return {row["name"]: row for row in (found if isinstance(found, list) else found["columns"])}


# 1. Silent misreading


DISGUISED = {
    "dollar": (lambda i: f"${i}", float),
    "dollar with thousands": (lambda i: f"${i * 1_000:,}.50", lambda i: i * 1_000 + 0.5),
    "euro behind": (lambda i: f"{i}.25 €", lambda i: i + 0.25),
    "unit": (lambda i: f"{i} kg", float),
    "unit without a blank": (lambda i: f"{i}.5kg", lambda i: i + 0.5),
    "thousands": (lambda i: f"{1_234_567 + i:,}", lambda i: 1_234_567.0 + i),
    "thousands once": (lambda i: f"{12 + i},000", lambda i: 1_000.0 * (12 + i)),
    "brackets": (lambda i: f"({i}.20)", lambda i: -(i + 0.2)),
}


@pytest.mark.parametrize("make", DISGUISED.values(), ids=DISGUISED)
def test_numbers_in_disguise_are_numbers(lines, make):
    text, value = make
    order = [i * 61 % N + 1 for i in range(N)]
    X, _, stream = read(table(lines, [text(i) for i in order]))
    np.testing.assert_allclose(X[:, 0], [value(i) for i in order], rtol=1e-15)
    assert stream.rejected.count == 0


@pytest.mark.parametrize("sign", ["%", " %"])
def test_percentages_are_numbers(lines, sign):
    order = [i * 61 % N + 1 for i in range(N)]
    X, _, _ = read(table(lines, [f"{i - 200}.3{sign}" for i in order]))
    ratio = X[:, 0] / [float(f"{i - 200}.3") for i in order]
    assert ratio[0] == pytest.approx(1.0) or ratio[0] == pytest.approx(0.01)
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-12)


def test_thousands_are_not_called_a_decimal_comma(lines):
    """Also where the fields are separated by semicolons, so that no quotes are needed."""
    order = [i * 61 % N + 12 for i in range(N)]
    X, _, _ = read(table(lines, [f"{i},000" for i in order], sep=";"), decimal=".")
    np.testing.assert_array_equal(X[:, 0], [1_000.0 * i for i in order])


@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d"])
def test_dates_are_dates_where_the_sample_settles_the_order(lines, form):
    days = [EPOCH + timedelta(days=20_000 + i * 61 % N) for i in range(N)]
    X, _, stream = read(table(lines, [day.strftime(form) for day in days]))
    np.testing.assert_array_equal(X[:, 0], [seconds(day) for day in days])
    assert stream.rejected.count == 0


@pytest.mark.parametrize(
    ("dates", "form"), [("day-first", "%d/%m/%Y"), ("month-first", "%m/%d/%Y")]
)
def test_dates_of_either_order_are_asked_about_or_told(lines, tmp_path, command, dates, form):
    """No day is above 12: the option says which it is, and without it something is said."""
    days = [datetime(2000 + i % 20, i % 12 + 1, i * 5 % 12 + 1) for i in range(N)]
    source = table(lines, [day.strftime(form) for day in days])
    X, _, _ = read(source, dates=dates)
    np.testing.assert_array_equal(X[:, 0], [seconds(day) for day in days])
    path = tmp_path / "x.csv"
    path.write_bytes(source.getvalue())
    result = command("select", path, "-t", "y", "--dates", dates, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    result = command("select", path, "-t", "y")
    assert "--dates" in result.output


WORDS = ["#N/A", "None", r"\N", "-", "missing", "NA", "n/a", "NaN", "null", "?", ""]


@pytest.mark.parametrize("share", [0.01, 0.6])
@pytest.mark.parametrize("word", WORDS)
def test_words_for_missing_are_gaps_among_numbers(lines, word, share):
    rng = np.random.default_rng(0)
    values = rng.normal(size=N).round(3)
    gaps = rng.random(N) < share
    texts = [word if gap else str(value) for gap, value in zip(gaps, values, strict=True)]
    X, y, stream = read(table(lines, texts))
    assert (len(y), stream.rejected.count) == (N, 0)
    np.testing.assert_array_equal(X[:, 0], np.where(gaps, np.nan, values))


def test_a_word_of_one_s_own_for_missing_can_be_told(lines):
    texts = ["-999" if i % 3 == 0 else str(i) for i in range(N)]
    X, _, _ = read(table(lines, texts), na_values=["-999"])
    assert np.isnan(X[::3, 0]).all()
    np.testing.assert_array_equal(X[1::3, 0], np.arange(N)[1::3])


def test_a_cell_that_cannot_be_read_is_a_gap_and_its_row_stays(lines):
    texts = ["oops" if i in (50, 250) else str(i) for i in range(N)]
    X, y, stream = read(table(lines, texts))
    assert (len(y), stream.rejected.count) == (N, 0)
    assert np.flatnonzero(np.isnan(X[:, 0])).tolist() == [50, 250]
    (described,) = [row for row in stream.columns.describe() if row["name"] == "a"]
    assert described["unreadable"] == 2


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1])
def test_many_unreadable_cells_are_told_in_a_line_that_names_the_column(
    lines, tmp_path, command, share
):
    n_bad = round(share * N)
    path = tmp_path / "x.csv"
    bad = [i % (N // max(n_bad, 1)) == 1 and n_bad for i in range(N)]
    texts = [f"oops{i}" if bad[i] else str(i * 7 % 97) for i in range(N)]
    path.write_bytes(table(lines, texts).getvalue())
    result = command("select", path, "-t", "y")
    assert result.exit_code == 0, result.output
    told = [line for line in result.stderr.splitlines() if '"a"' in line or " a " in line]
    assert len(told) == (share > 0.05)


def test_the_kinds_of_columns_are_shown(truth, lines, tmp_path, command):
    t = truth(1, 2, 1, N)
    columns = {
        "number": [f"{z:.2f}" for z in t.Z[:, 0]],
        "percent": [f"{z:.1f}%" for z in t.Z[:, 1]],
        "flag": [("true", "false")[i % 2] for i in range(N)],
        "day": [f"2024-01-{i % 28 + 1:02d}" for i in range(N)],
        "took": [f"0:{i % 60:02d}:{i % 59:02d}" for i in range(N)],
        "town": [("Bonn", "Ulm", "Köln")[i % 3] for i in range(N)],
        "nothing": [""] * N,
        "gaps": ["" if i % 4 == 0 else str(i) for i in range(N)],
    }
    path = tmp_path / "x.csv"
    path.write_text("".join(lines(columns)), encoding="utf-8")
    result = command("columns", path, "--json")
    rows = kinds(result)
    assert list(rows) == list(columns)
    assert {name: row["kind"] for name, row in rows.items()} == {
        "number": "number",
        "percent": "number",
        "flag": "flag",
        "day": "date",
        "took": "duration",
        "town": "category",
        "nothing": "empty",
        "gaps": "number",
    }
    assert rows["gaps"]["missing"] == pytest.approx(0.25)
    assert rows["town"]["distinct"] == 3
    shown = command("columns", path)
    assert shown.exit_code == 0, shown.output
    for name in columns:
        assert name in shown.stdout


def test_and_a_run_writes_them_down(truth, lines, tmp_path, command):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    assert command("select", path, "-t", "y", "--out", out).exit_code == 0
    written = pl.read_csv(out / "columns.csv")
    assert written["name"].to_list()[:4] == ["a", "b", "c", "d"]
    assert set(written["kind"].to_list()[:4]) == {"number"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_utf_16_with_a_mark_is_read_and_without_one_is_asked_about(lines, tmp_path, encoding):
    text = table(lines, [f"{i}.5" for i in range(N)]).getvalue().decode()
    path = tmp_path / "x.csv"
    path.write_bytes(text.encode(encoding))
    if encoding in ("utf-16", "utf-8-sig"):
        X, y, _ = read(path)
    else:
        with pytest.raises(InputError, match=r"encoding"):
            read(path)
        X, y, _ = read(path, encoding=encoding)
    np.testing.assert_array_equal(X[:, 0], np.arange(N) + 0.5)
    assert set(y) == {"yes", "no"}


def test_latin_1_is_asked_about_and_read_when_told(lines, tmp_path):
    columns = {
        "größe": [str(i) for i in range(N)],
        "y": [("süß", "sauer")[i % 2] for i in range(N)],
    }
    path = tmp_path / "x.csv"
    path.write_bytes("".join(lines(columns)).encode("latin-1"))
    with pytest.raises(InputError, match=r"encoding"):
        read(path)
    _, y, stream = read(path, encoding="latin-1")
    assert stream.schema.feature_names == ("größe",)
    assert set(y) == {"süß", "sauer"}


def _zip(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.csv", data)
    return file.getvalue()


PACKERS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
    "zip": _zip,
}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("ending", PACKERS)
def test_packed_text_is_unpacked_whatever_it_is_called(lines, tmp_path, ending, named):
    source = table(lines, [f"{i}.5" for i in range(N)])
    path = tmp_path / (f"x.csv.{ending}" if named else "x.csv")
    path.write_bytes(PACKERS[ending](source.getvalue()))
    X, y, stream = read(path)
    np.testing.assert_array_equal(X, read(source)[0])
    assert (len(y), stream.rejected.count) == (N, 0)


def test_feather_is_read(tmp_path):
    frame = pl.DataFrame({"a": np.arange(N) / 2, "y": ["yes", "no"] * (N // 2)})
    path = tmp_path / "x.feather"
    frame.write_ipc(path)
    X, y, _ = read(path)
    np.testing.assert_array_equal(X[:, 0], frame["a"].to_numpy())
    assert y.tolist() == frame["y"].to_list()


def test_a_decimal_target_keeps_its_decimals(tmp_path, command):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    y = [Decimal(f"{x:.2f}") for x in X[:, 0] / 10]
    y[0] = Decimal("0.13")
    frame = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    path = tmp_path / "x.parquet"
    frame.with_columns(y=pl.Series(y).cast(pl.Decimal(10, 2))).write_parquet(path)
    _, read_back, _ = read(path)
    assert read_back[0] == 0.13
    np.testing.assert_array_equal(read_back, [float(value) for value in y])
    found = document(command("select", path, "-t", "y", "-k", 1, "--json"))
    assert (found["model"], found["features"][0]["feature"]) == ("gaussian", "a")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_labels_beyond_64_bits_with_a_sign_stay_what_they_are(tmp_path, ending):
    labels = [2**63 + 1, 2**64 - 1, 2**63 + 3]
    y = [labels[i % 3] for i in range(N)]
    frame = pl.DataFrame({"a": np.arange(N) / 2, "y": pl.Series(y, dtype=pl.UInt64)})
    path = tmp_path / f"x.{ending}"
    frame.write_parquet(path) if ending == "parquet" else frame.write_csv(path)
    _, read_back, stream = read(path)
    assert [int(label) for label in read_back] == y
    assert stream.rejected.count == 0


# 2. What was learnt is lost


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_fraction_among_labels_does_not_lose_the_table(truth, lines, tmp_path, command, ending):
    columns, path, out = planted(truth), tmp_path / f"x.{ending}", tmp_path / "out"
    columns["y"][2_000] = "0.5"
    if ending == "csv":
        path.write_text("".join(lines(columns)), encoding="utf-8")
    else:
        pl.DataFrame(columns).cast(pl.Float64).write_parquet(path)
    result = command("select", path, "-t", "y", "-k", 2, "--json", "--out", out)
    found = document(result)
    assert chosen(result) == {"a", "b"}
    assert found["rows"] >= 2_000
    assert found["model"] == "probit"
    assert fires.load(out / "state.safetensors").selector.n_samples_seen_ == found["rows"]
    # Either the row is set aside, or the run ends there: one of them is said.
    assert (found["rejected_rows"] == 1) != (len(result.stderr.splitlines()) == 1)


@pytest.mark.parametrize("where", ["a", "c", "y"])
def test_one_huge_number_does_not_lose_the_table(truth, lines, tmp_path, command, where):
    columns, path, out = planted(truth), tmp_path / "x.csv", tmp_path / "out"
    if where == "y":  # a target of numbers
        t = truth(0, 4, 2)
        columns["y"] = [f"{s:.3f}" for s in t.score]
    columns[where][2_000] = "1e300"
    path.write_text("".join(lines(columns)), encoding="utf-8")
    result = command("select", path, "-t", "y", "-k", 2, "--json", "--out", out)
    assert chosen(result) == {"a", "b"}
    assert document(result)["rows"] >= 2_000
    state = fires.load(out / "state.safetensors").selector
    assert np.isfinite(state.importances_).all()


@pytest.mark.parametrize(
    "ending",
    ["gz", *(pytest.param(ending, marks=pytest.mark.slow) for ending in ("bz2", "xz")), "zst"],
)
def test_a_truncated_file_gives_the_table_of_what_could_be_read(
    truth, lines, tmp_path, command, ending
):
    n = 30_000 if ending in ("gz", "zst") else 60_000
    text = "".join(lines(planted(truth, n_rows=n))).encode()
    packed = PACKERS[ending](text)
    path, out = tmp_path / f"x.csv.{ending}", tmp_path / "out"
    path.write_bytes(packed[: len(packed) * 2 // 3])
    result = command("select", path, "-t", "y", "-k", 2, "--json", "--out", out)
    assert chosen(result) == {"a", "b"}
    assert document(result)["rows"] > (n // 3 if ending != "xz" else n // 6)
    assert result.exit_code != 0
    (line,) = result.stderr.splitlines()
    assert str(path) in line
    assert "rows" in line
    saved = fires.load(out / "state.safetensors").selector
    assert saved.n_samples_seen_ == document(result)["rows"]


# Full in the middle, when the records grow; and at the end, when the state is saved.
@pytest.mark.parametrize(("limit", "batch_size"), [(4_000, 50), (3_000, 1_000)])
def test_a_full_disk_does_not_lose_the_table(
    truth, lines, tmp_path, command, file_size_limit, limit, batch_size, monkeypatch
):
    # However fast the machine is, the records are written in the middle, and not all at the end.
    monkeypatch.setattr("fires.run.records._MOST_SECONDS", 0.0)
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    with file_size_limit(limit):
        options = ["--json", "--out", out, "--batch-size", batch_size]
        result = command("select", path, "-t", "y", "-k", 2, *options)
    assert chosen(result) == {"a", "b"}
    assert document(result)["rows"] > 100
    assert result.exit_code != 0
    (line,) = result.stderr.splitlines()
    assert "File too large" in line
    assert str(out) in line


def test_a_disk_that_is_full_at_the_start_ends_the_run_before_the_first_row(
    truth, lines, tmp_path, command, file_size_limit
):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("".join(lines(planted(truth, n_rows=300))), encoding="utf-8")
    with file_size_limit(500):
        result = command("select", path, "-t", "y", "-k", 2, "--json", "--out", out)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line == f"Error: {out / 'run.toml'}: File too large"
    assert not out.exists()


def test_an_out_of_compare_that_cannot_be_written_does_not_lose_the_table(
    truth, lines, tmp_path, command, file_size_limit
):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("".join(lines(planted(truth, n_rows=300))), encoding="utf-8")
    arguments = ["-t", "y", "-k", 2, "--selectors", "fires,ofs", "--seeds", 1]
    # Loops are compiled before: their cache is not what this is about.
    assert command("compare", path, *arguments).exit_code == 0
    with file_size_limit(100):
        result = command("compare", path, *arguments, "--out", out)
    for name in ("fires", "ofs", "random"):
        assert name in result.stdout
    assert result.exit_code != 0
    (line,) = result.stderr.splitlines()
    assert "File too large" in line
    assert str(out) in line


def test_a_column_that_is_empty_at_first_and_then_text_loses_no_row(lines):
    n = 30_000
    columns = {
        "a": ["" if i < 12_000 else ("Bonn", "Ulm")[i % 2] for i in range(n)],
        "b": [str(i % 17) for i in range(n)],
        "y": [("yes", "no")[i % 3 == 0] for i in range(n)],
    }
    X, y, stream = read(io.BytesIO("".join(lines(columns)).encode()), categories="codes")
    assert (len(y), stream.rejected.count) == (n, 0)
    assert np.isnan(X[:12_000, 0]).all()
    assert sorted(set(X[12_000:, 0])) == [0.0, 1.0]
    assert (X[12_000::2, 0] == X[12_000, 0]).all()


def test_and_so_it_is_for_percentages_and_dates_that_come_late(lines):
    n, late = 25_000, 12_000
    columns = {
        "a": ["" if i < late else f"{i}%" for i in range(n)],
        "b": ["" if i < late else "2024-01-02" for i in range(n)],
        "y": [("yes", "no")[i % 3 == 0] for i in range(n)],
    }
    X, _, stream = read(io.BytesIO("".join(lines(columns)).encode()))
    assert (len(X), stream.rejected.count) == (n, 0)
    assert np.isnan(X[:late]).all()
    ratio = X[late:, 0] / np.arange(late, n)
    np.testing.assert_allclose(ratio, ratio[0])
    assert (X[late:, 1] == seconds(datetime(2024, 1, 2))).all()


def test_a_target_that_comes_late_is_not_taken_for_numbers(lines):
    n, late = 25_000, 12_000
    columns = {
        "a": [str(i % 17) for i in range(n)],
        "y": ["" if i < late else ("yes", "no")[i % 3 == 0] for i in range(n)],
    }
    _, y, stream = read(io.BytesIO("".join(lines(columns)).encode()))
    assert (len(y), stream.rejected.count) == (n - late, late)
    assert y.tolist() == columns["y"][late:]


@pytest.mark.parametrize("line", [2, pytest.param(77, marks=pytest.mark.slow), 32_258])
def test_a_bad_byte_costs_its_row_wherever_it_stands(lines, tmp_path, line):
    n = 40_000
    columns = {
        "a": [str(i) for i in range(n)],
        "town": [("Bonn", "Ulm")[i % 2] for i in range(n)],
        "y": [("yes", "no")[i % 3 == 0] for i in range(n)],
    }
    rows = [row.encode() for row in lines(columns)]
    rows[line - 1] = rows[line - 1].replace(b"m", b"\xfc").replace(b"nn", b"\xfc")
    path = tmp_path / "x.csv"
    path.write_bytes(b"".join(rows))
    X, _, stream = read(path)
    assert stream.rejected.count == 1
    ((place, why),) = stream.rejected.examples
    assert place == line
    assert "UTF-8" in why
    assert X[:, 0].tolist() == [i for i in range(n) if i != line - 2]


# 3. A state without its schema


def shop(seed=0, n=2_000):
    """Towns and days matter, in a way that other codes would hide."""
    rng = np.random.default_rng(seed)
    town = rng.integers(2, size=n)
    day = rng.integers(700, size=n)
    noise = rng.normal(size=n)
    label = 2.0 * (town - 0.5) + (day - 350) / 200 + 0.3 * rng.normal(size=n) > 0
    return pl.DataFrame(
        {
            "noise": noise.round(4),
            "town": np.where(town == 1, "Bonn", "Ulm"),
            "day": [str(date(2023, 1, 1) + timedelta(days=int(d))) for d in day],
            "rate": [f"{x:.1f}%" for x in 10 * rng.normal(size=n)],
            "member": rng.random(n) < 0.5,
            "bought": np.where(label, "yes", "no"),
        }
    )


@pytest.fixture
def shop_run(tmp_path, command):
    """A run of the command, its state, and the batches that the stream itself gives."""
    path, out = tmp_path / "shop.csv", tmp_path / "run"
    shop().write_csv(path)
    result = command("select", path, "-t", "bought", "-k", 2, "--json", "--out", out)
    assert result.exit_code == 0, result.output
    assert chosen(result) == {"town", "day"}
    return fires.load(out / "state.safetensors"), path


@pytest.mark.parametrize("kind", ["pandas", "pandas text", "polars", "polars text", "dicts"])
def test_a_state_of_the_command_reads_raw_frames_as_the_command_did(shop_run, kind):
    pipeline, path = shop_run
    X = pipeline.columns_.transform(pl.read_csv(path, infer_schema=False))
    expected = pipeline.predict(X)[::-1]
    # Backwards, so that whoever counts the towns anew gives them other codes.
    raw = pl.read_csv(path, infer_schema=not kind.endswith("text")).drop("bought")[::-1]
    rows = {
        "pandas": lambda: pd.DataFrame(raw.to_dict(as_series=False)),
        "pandas text": lambda: pd.DataFrame(raw.to_dict(as_series=False)),
        "polars": lambda: raw,
        "polars text": lambda: raw,
        "dicts": raw.to_dicts,
    }[kind]()
    np.testing.assert_array_equal(pipeline.predict(rows), expected)
    assert len(set(expected)) == 2


def test_and_so_it_does_where_columns_come_in_another_order_or_with_types(shop_run):
    pipeline, path = shop_run
    X = pipeline.columns_.transform(pl.read_csv(path, infer_schema=False))
    raw = pl.read_csv(path, try_parse_dates=True).drop("bought")
    frame = raw.select(raw.columns[::-1]).with_columns(pl.col("town").cast(pl.Categorical))
    np.testing.assert_array_equal(pipeline.predict(frame), pipeline.predict(X))
    moved = frame.to_dict(as_series=False)
    pandas = pd.DataFrame(moved)
    pandas["town"] = pandas["town"].astype("category")
    pandas["day"] = pd.to_datetime(pandas["day"])
    np.testing.assert_array_equal(pipeline.predict(pandas), pipeline.predict(X))


def test_a_loaded_state_goes_on_learning_from_raw_frames(shop_run):
    """What went wrong: the importance of the town fell from 0.082 to -0.002."""
    pipeline, _ = shop_run
    before = dict(
        zip(pipeline.selector.feature_names_in_, pipeline.selector.importances_, strict=True)
    )
    later = shop(seed=1)[::-1]
    for rows in later.iter_slices(100):
        pipeline.partial_fit(rows.drop("bought"), rows["bought"].to_numpy())
    after = dict(
        zip(pipeline.selector.feature_names_in_, pipeline.selector.importances_, strict=True)
    )
    assert after["town"] == pytest.approx(before["town"], rel=0.3)
    assert set(pipeline.selector.get_feature_names_out()) == {"town", "day"}


def test_the_state_of_a_selector_has_its_schema_too(tmp_path):
    frame = shop()
    selector = fires.FIRES(2)
    for rows in frame.iter_slices(100):
        selector.partial_fit(rows.drop("bought"), rows["bought"].to_numpy())
    selector.save(tmp_path / "state.safetensors")
    again = fires.load(tmp_path / "state.safetensors")
    backwards = frame.drop("bought")[::-1]
    expected, got = (np.asarray(s.transform(backwards), dtype=float) for s in (selector, again))
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(
        expected[::-1], np.asarray(selector.transform(frame.drop("bought")), dtype=float)
    )


# 4. Options, names, targets, formats, terminals


def test_exclude_can_be_given_twice(truth, lines, tmp_path, command):
    path = tmp_path / "x.csv"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    result = command("select", path, "-t", "y", "--exclude", "a", "--exclude", "c", "--json")
    assert chosen(result) == {"b", "d"}


def test_columns_of_the_same_name_can_be_excluded(truth, lines, tmp_path, command):
    """By the name that they have in the file, or by those that the table shows."""
    path = tmp_path / "x.csv"
    text = "".join(lines(planted(truth)))
    path.write_text(text.replace("a,b,c,d,y", "a,b,c,c,y", 1), encoding="utf-8")
    left = chosen(command("select", path, "-t", "y", "--exclude", "c", "--json"))
    if left != {"a", "b"}:
        (other,) = left - {"a", "b"}
        options = ["--exclude", "c", "--exclude", other, "--json"]
        left = chosen(command("select", path, "-t", "y", *options))
    assert left == {"a", "b"}


@pytest.mark.parametrize("name", ["height, cm", "a,b", ","])
def test_a_name_with_a_comma_can_be_excluded(truth, lines, tmp_path, command, name):
    path = tmp_path / "x.csv"
    columns = {name if key == "c" else key: texts for key, texts in planted(truth).items()}
    path.write_text("".join(lines(columns)), encoding="utf-8")
    assert name in chosen(command("select", path, "-t", "y", "--json"))
    result = command("select", path, "-t", "y", "--exclude", name, "--json")
    assert chosen(result) == {"a", "b", "d"}


def test_several_names_in_one_exclude_still_work(truth, lines, tmp_path, command):
    path = tmp_path / "x.csv"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    result = command("select", path, "-t", "y", "--exclude", "a,c", "--json")
    assert chosen(result) == {"b", "d"}


@pytest.mark.parametrize(
    "make",
    [lambda i: f"user-{i * 7919:08x}", lambda i: f"K{100_000 + i}"],
    ids=["text", "ids"],
)
def test_a_target_of_unique_text_is_one_question(truth, lines, tmp_path, command, make):
    path = tmp_path / "x.csv"
    columns = planted(truth) | {"y": [make(i) for i in range(3_000)]}
    path.write_text("".join(lines(columns)), encoding="utf-8")
    one_line(command("select", path, "-t", "y"), '"y"', "--")


@pytest.mark.slow
def test_closed_standard_input_is_one_line(process):
    result = process("select", "-", "-t", "y", preexec_fn=lambda: os.close(0))
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "standard input" in line


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([[i % 2] for i in range(N)]),
        pl.Series([{"k": i % 2} for i in range(N)]),
        pl.Series([bytes([i % 2]) for i in range(N)]),
        pl.Series([[i % 2, 1] for i in range(N)], dtype=pl.Array(pl.Int64, 2)),
    ],
    ids=["list", "struct", "binary", "array"],
)
def test_a_target_of_nested_or_binary_values_is_one_line(tmp_path, command, values):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"a": np.arange(N) / 2, "y": values}).write_parquet(path)
    one_line(command("select", path, "-t", "y"), '"y"')


def damaged(data, seed):
    """Cut a file, or overwrite some bytes of it."""
    rng = np.random.default_rng(seed)
    footer = int.from_bytes(data[-8:-4], "little") + 8
    if seed % 4 == 0:
        return data[: rng.integers(1, len(data))]
    if seed % 4 == 1:  # the middle is missing, the end is there
        return data[: rng.integers(4, len(data) // 2)] + data[-footer:]
    broken = bytearray(data)
    low = len(data) - footer if seed % 4 == 2 else 4
    for at in rng.integers(low, len(data) - 8, size=rng.integers(1, 20)):
        broken[at] = rng.integers(256)
    return bytes(broken)


@pytest.fixture
def parquet_bytes(truth):
    t = truth(0, 4, 2)
    file = io.BytesIO()
    frame = pl.DataFrame({name: t.Z[:, j] for j, name in enumerate("abcd")})
    towns = pl.Series(["Bonn", "Ulm", None] * 1_000)
    frame.with_columns(town=towns, y=t.label).write_parquet(file, row_group_size=700)
    return file.getvalue()


def test_a_damaged_parquet_file_is_one_line_and_no_panic(parquet_bytes, tmp_path, command, capfd):
    """Whatever is damaged: a table with what was learnt, or an error; one line on either."""
    for seed in range(20):
        path = tmp_path / f"{seed}.parquet"
        path.write_bytes(damaged(parquet_bytes, seed))
        result = command("select", path, "-t", "y", "--json")
        assert result.exception is None or isinstance(result.exception, SystemExit), seed
        assert result.exit_code in (0, 1, 2), seed
        if result.exit_code:
            assert len(result.stderr.splitlines()) == 1, (seed, result.stderr)
        assert capfd.readouterr().err == "", seed


@pytest.mark.parametrize("seed", [1, pytest.param(5, marks=pytest.mark.slow)])
def test_nor_is_there_one_in_a_process_of_its_own(parquet_bytes, tmp_path, process, seed):
    path = tmp_path / "x.parquet"
    path.write_bytes(damaged(parquet_bytes, seed))
    result = process("select", path, "-t", "y", "--json")
    assert result.returncode != 0
    (line,) = result.stderr.splitlines()
    assert str(path) in line


def test_a_parquet_file_from_a_pipe_is_told_what_to_do(parquet_bytes, command):
    line = one_line(command("select", "-", "-t", "y", stdin=parquet_bytes), "Parquet")
    assert "file" in line


def test_xlsx_is_told_how_to_convert(tmp_path, command):
    path = tmp_path / "x.xlsx"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/workbook.xml", "<workbook/>")
        archive.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    one_line(command("select", path, "-t", "y"), "x.xlsx", "CSV")


def test_a_zip_of_several_files_is_told_what_to_do(tmp_path, command):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.csv", "a,y\n1,2\n")
        archive.writestr("b.csv", "a,y\n1,2\n")
    one_line(command("select", path, "-t", "y"), str(path), "zip")


@pytest.mark.parametrize("ending", ["bz2", "xz", "zst", "zip", "gz"])
def test_damaged_packed_files_are_one_line(lines, tmp_path, command, ending):
    packed = bytearray(PACKERS[ending](table(lines, [str(i) for i in range(N)]).getvalue()))
    packed[20:52] = bytes(32)
    path = tmp_path / "x.csv"
    path.write_bytes(packed)
    one_line(command("select", path, "-t", "y"), str(path))


def test_out_does_not_overwrite_an_earlier_run_unless_told(truth, lines, tmp_path, command):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    assert command("select", path, "-t", "y", "-k", 2, "--out", out).exit_code == 0
    before = contents(out)
    one_line(command("select", path, "-t", "y", "-k", 3, "--out", out), "--overwrite", str(out))
    assert contents(out) == before
    result = command("select", path, "-t", "y", "-k", 3, "--out", out, "--overwrite")
    assert result.exit_code == 0, result.output
    assert fires.load(out / "state.safetensors").selector.n_features_to_select == 3


@pytest.mark.slow
def test_a_narrow_terminal_shows_the_names_of_the_features(truth, lines, tmp_path, process):
    path = tmp_path / "x.csv"
    names = {"a": "temperature", "b": "consumption"}
    columns = {names.get(key, key): texts for key, texts in planted(truth).items()}
    path.write_text("".join(lines(columns)), encoding="utf-8")
    env = os.environ | {"COLUMNS": "40"}
    result = process("select", path, "-t", "y", "-k", 2, env=env)
    assert result.returncode == 0, result.stderr
    rows = result.stdout.split("positive values")[0].splitlines()
    assert max(map(len, rows)) <= 40
    for name in names.values():
        assert any(name in row for row in rows), result.stdout


def typed(truth, kind):
    """The same truth in the types that people's frames have: it lies in ``when`` and ``what``."""
    t = truth(3, 5, 2)
    days = [datetime(2024, 1, 1) + timedelta(days=round(200 * z)) for z in t.Z[:, 0]]
    towns = np.where(t.Z[:, 1] > 0, "Bonn", "Ulm")
    rest = {f"n{j}": t.Z[:, j] for j in range(2, 5)}
    price = [Decimal(f"{z:.3f}") for z in t.Z[:, 0]]
    makers = {
        "pandas category": lambda: pd.DataFrame(
            {"when": t.Z[:, 0], "what": pd.Categorical(towns)} | rest
        ),
        "pandas text": lambda: pd.DataFrame({"when": t.Z[:, 0], "what": towns} | rest),
        "pandas datetime": lambda: pd.DataFrame(
            {"when": pd.to_datetime(days), "what": t.Z[:, 1] > 0} | rest
        ),
        "pandas timedelta": lambda: pd.DataFrame(
            {"when": pd.to_timedelta(np.round(1e6 * t.Z[:, 0]), unit="s"), "what": towns} | rest
        ),
        "polars date": lambda: pl.DataFrame(
            {"when": [day.date() for day in days], "what": towns} | rest
        ),
        "polars enum": lambda: pl.DataFrame(
            {"when": days, "what": pl.Series(towns, dtype=pl.Enum(["Ulm", "Bonn"]))} | rest
        ),
        "polars decimal": lambda: pl.DataFrame(
            {"when": pl.Series(price), "what": pl.Series(towns).cast(pl.Categorical)} | rest
        ),
        "polars duration": lambda: pl.DataFrame(
            {"when": [day - days[0] for day in days], "what": t.Z[:, 1] > 0} | rest
        ),
        "dicts": lambda: pl.DataFrame({"when": days, "what": towns} | rest).to_dicts(),
    }
    return makers[kind](), t.label


KINDS_OF_FRAMES = [
    "pandas category",
    "pandas text",
    "pandas datetime",
    "pandas timedelta",
    "polars date",
    "polars enum",
    "polars decimal",
    "polars duration",
    "dicts",
]


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        *((kind, "selector") for kind in KINDS_OF_FRAMES),
        *((kind, "pipeline") for kind in KINDS_OF_FRAMES[::4]),
    ],
)
def test_frames_with_categories_and_dates_are_taken_by_the_library(truth, kind, what):
    frame, y = typed(truth, kind)
    selector = fires.FIRES(2)
    learner = selector if what == "selector" else fires.OnlinePipeline(selector)
    for start in range(0, len(y), 100):
        learner.partial_fit(frame[start : start + 100], y[start : start + 100])
    assert set(selector.get_feature_names_out()) == {"when", "what"}


@pytest.mark.parametrize("kind", ["pandas category", "polars enum", "dicts"])
def test_and_what_the_caller_passed_is_not_changed(truth, kind):
    frame, y = typed(truth, kind)
    before, _ = typed(truth, kind)
    fires.FIRES(2).partial_fit(frame[:200], y[:200])
    assert frame == before if kind == "dicts" else frame.equals(before)


def test_100_000_columns_of_20_rows_are_read(tmp_path):
    """Their time is a figure, not a test; that they come out right is one."""
    n = 100_000
    row = ",".join(str(j % 10) for j in range(n))
    path = tmp_path / "wide.csv"
    names = ",".join(f"c{j}" for j in range(n))
    rows = [f"{row},{i % 2}\n" for i in range(20)]
    path.write_text(f"{names},y\n" + "".join(rows), encoding="utf-8")
    X, y, _ = read(path)
    assert X.shape == (20, n)
    np.testing.assert_array_equal(X[7], np.arange(n) % 10)
    assert y.tolist() == [i % 2 for i in range(20)]


# What random files found beside


@pytest.mark.parametrize("every", [4, N])
@pytest.mark.parametrize("text", ["+-3", "--3", "-+3", "7,127,17,305"])
def test_two_signs_or_odd_groups_are_no_number(lines, text, every):
    usual = "1,234" if "," in text else "5"
    texts = [text if i % every == 3 else f"{usual}.{i % 9}" for i in range(N)]
    X, _, stream = read(table(lines, texts))
    kinds = {row["name"]: row["kind"] for row in stream.columns.describe()}
    assert kinds["a"] != "number" or np.isnan(X[3::every, 0]).all()


@pytest.mark.parametrize("every", [2, 10, 100])
@pytest.mark.parametrize("options", [{}, {"thousands": ","}], ids=["found", "told"])
def test_thousands_are_read_where_most_values_have_none(lines, every, options):
    """Only amounts from 1,000 on have a comma: the large ones must not be the missing ones."""
    values = [1_436.5 + i if i % every == 0 else i / 2 for i in range(N)]
    X, _, _ = read(table(lines, [f"{value:,.1f}" for value in values]), **options)
    np.testing.assert_array_equal(X[:, 0], values)


@pytest.mark.parametrize("every", [2, 10, 100])
def test_brackets_are_read_where_most_values_have_none(lines, every):
    """Only what is below zero stands in brackets: it must not be what is missing."""
    values = [-(i + 0.5) if i % every == 0 else i / 2 for i in range(N)]
    texts = [f"({-value})" if value < 0 else str(value) for value in values]
    X, _, _ = read(table(lines, texts))
    np.testing.assert_array_equal(X[:, 0], values)


def test_a_separator_at_the_very_end_does_not_hide_a_short_row():
    X, y, stream = read(io.BytesIO(b"y;a;b\nyes;1;2\nno;3\nno;6;7\nyes;4;5;"))
    assert X.tolist() == [[1.0, 2.0], [6.0, 7.0]]
    assert y.tolist() == ["yes", "no"]
    assert [line for line, _ in stream.rejected.examples] == [3, 5]


@pytest.mark.parametrize("every", [1, 7])
def test_a_key_without_a_name_does_not_end_an_ndjson_file(every):
    rows = [{"a": i / 2, "y": ("yes", "no")[i % 2]} for i in range(20)]
    for row in rows[::every]:
        row[""] = "x"
    X, _, stream = read(io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode()))
    a = stream.schema.feature_names.index("a")
    assert X[:, a].tolist() == [row["a"] for row in rows]


def test_nor_does_one_beside_a_broken_line():
    rows = [{"id": i, "": "x", "y": ("yes", "no")[i % 2]} for i in range(9)]
    text = "".join(json.dumps(row) + "\n" for row in rows) + '{"id": 10, "y'
    X, _, stream = read(io.BytesIO(text.encode()))
    assert X[:, stream.schema.feature_names.index("id")].tolist() == list(range(9))
    assert stream.rejected.count == 1


def test_an_error_is_one_line_even_if_a_name_has_two():
    with pytest.raises(InputError) as caught:
        read(io.BytesIO(b'"a\nb",c\n1,2\n3,4\n'))
    assert len(str(caught.value).splitlines()) == 1


# None otherwise


def test_a_plain_file_says_nothing_more_than_it_did(truth, lines, tmp_path, command):
    path = tmp_path / "x.csv"
    path.write_text("".join(lines(planted(truth))), encoding="utf-8")
    result = command("select", path, "-t", "y", "-k", 2)
    assert (result.exit_code, result.stderr) == (0, "")
    facts = result.stdout.split("3,000 rows in")[1].splitlines()
    assert "balanced" in facts[2]  # the table of scores, and nothing behind it
    assert [fact for fact in facts if fact][-1].startswith("always the most common class")
