"""Random files, broken in random ways, against a reader that is plain, slow and obvious.

The oracle reads lines with ``split`` or the csv module, and cells with ``float``. What it reads as
a number must be that number in the batches, what it cannot read must be missing, and every row it
calls good must be there, in order. The number of a case is its seed:
``check_table(4711)`` runs one case again.
"""

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import os
import re
import signal
import unicodedata
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
import zstandard

from fires.core.errors import UserError
from fires.streams.files import from_file

N_CASES = int(os.environ.get("FIRES_FUZZ_CASES", "100000"))
N_CHUNKS = 20

MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", r"\N", "-")
BAD = ("oops", "x1", "1.2.3", "--", "true", "0x1f", "twelve", "1 2", "e5", "+-3", "ä", "2024-01-02")
SEPARATORS = ",;\t|"
PLAIN = re.compile(r"[ \t]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t]*", re.ASCII)


# The oracle


def plain(text):
    """The number that a text plainly is; None if it is anything else."""
    if PLAIN.fullmatch(text) is None:
        return None
    value = float(text.strip())
    return value if abs(value) < 1e200 else None


UNIT = re.compile(r".*[\d.]\s*([^\W\d_]{1,5}\d?)", re.ASCII)
NUMBER = r"[\d.,' \xa0]*\d[\d.,' \xa0]*(?:[eE][+-]?\d+)?"
DISGUISE = re.compile(rf"([+-]?)([^\W\d_]*[^\w.,'+-]?)\s*([+-]?{NUMBER})\s*(\S*)", re.ASCII)


@dataclass(frozen=True)
class Habits:
    """How the numbers of a column are written.

    In what unit; with a mark of any kind, such as a currency; with decimal commas, perhaps.
    """

    unit: str = ""
    marked: bool = False
    comma: bool = False


def habits(texts):
    """The unit of most cells; a decimal comma is possible where no cell has a decimal point."""
    texts = [text.strip() for text in texts if text.strip() not in MISSING]
    texts = [text for text in texts if plain(text) != 0.0]  # nothing is nothing in any unit
    units = [match[1] for match in map(UNIT.fullmatch, texts) if match]
    unit = max(units, key=units.count, default="")
    shared = 2 * units.count(unit) > len(texts)
    n_marked = sum(any(unicodedata.category(c) == "Sc" or c == "%" for c in t) for t in texts)
    comma = not any("." in text for text in texts)
    return Habits(unit if shared else "", shared or 2 * n_marked >= len(texts), comma)


def disguised(text, habits):
    """What numbers a text may stand for, if it is no plain one: percent, currency, units, ...

    A word behind a number is a unit only if most cells of the column have it.
    """
    text = text.strip()
    if match := re.fullmatch(r"\((.+)\)", text):
        inner = plain(match[1])
        return [-value for value in (disguised(match[1], habits) if inner is None else [inner])]
    match = DISGUISE.fullmatch(text)
    if match is None:
        return []
    sign, before, number, behind = match.groups()
    if not (is_currency(before.strip()) and (is_currency(behind) or behind in ("%", habits.unit))):
        return []
    values = []
    for thousands, point in (
        (",", "."),
        (" ", "."),
        ("'", "."),
        ("\xa0", "."),
        (".", ","),
        (" ", ","),
    ):
        head, _, tail = number.strip().partition(point)
        groups = head.split(thousands)
        # By threes, or as in India: by twos before the last three.
        sizes = {len(group) for group in groups[1:-1]}
        grouped = len(groups[-1]) == 3 and sizes in ({3}, {2}, set()) and len(groups[0]) <= 4
        value = plain(f"{sign}{''.join(groups)}{'.' if tail else ''}{tail}")
        if (len(groups) == 1 or grouped) and (point == "." or habits.comma) and value is not None:
            values.append(value)
    return values + [value / 100 for value in values if behind == "%"]


def is_currency(text):
    """Nothing, or a sign or a code for money."""
    return text == "" or unicodedata.category(text[-1]) == "Sc" or text in ("EUR", "USD", "CHF")


@dataclass
class Row:
    """A record as the oracle sees it; ``good`` is None where opinions may differ."""

    cells: list[str]
    good: bool | None


def plain_rows(data, sep, labels):
    """The header and the rows of a text; None where the quotes are in no order."""
    lines = data.split(b"\n")
    lines = [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    if b'"' in data:
        records = quoted_records(lines, sep)
    else:
        records = [(line, decoded(line), None) for line in lines]
        records = [
            (b, t, None if t is None else t.rstrip("\r\n").split(sep)) for b, t, _ in records
        ]
    if records is None:
        return None, []
    header, rows = None, []
    for raw, text, cells in records:
        if text is not None and not text.strip():
            continue
        if header is None:
            if cells is None or b"\0" in raw or b"\r" in raw.rstrip(b"\r\n"):
                return None, []
            header = [name.strip() for name in cells]
            continue
        if cells is None:
            rows.append(Row([], False))
        elif b"\r" in raw.rstrip(b"\n").removesuffix(b"\r") or b"\0" in raw:
            rows.append(Row(cells, None if len(cells) == len(header) else False))
        else:
            rows.append(Row(cells, len(cells) == len(header)))
    if header is None or "y" not in header:
        return header, rows
    at = header.index("y")
    for row in rows:
        label = row.cells[at].strip(" \t\r") if row.good else ""
        if row.good and label not in labels:
            row.good = None if label else False
    return header, rows


def decoded(line):
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None


def quoted_records(lines, sep):
    """As the csv module reads them; None if it finds a fault that may cost more than its line."""
    texts = [decoded(line) for line in lines]
    if None in texts:
        return None
    reader, records, at = csv.reader(texts, delimiter=sep, strict=True), [], 0
    width = None
    try:
        for cells in reader:
            n_lines, raw = reader.line_num - at, b"".join(lines[at : reader.line_num])
            width = width or len(cells)
            if n_lines > 1 and len(cells) != width:
                return None
            records.append((raw, raw.decode(), cells))
            at = reader.line_num
    except csv.Error:
        return None
    return records


# Random files


@dataclass
class Case:
    """A random file, and what was done to it."""

    data: bytes
    sep: str
    options: dict = field(default_factory=dict)
    labels: tuple = ("yes", "no")
    intact: bool = True  # nobody broke its bytes
    packed: str = ""
    encoding: str = "utf-8"
    broken_pack: bool = False
    sniffed: bool = False  # the separator is to be found


def number_text(rng):
    """A plain number as people write them."""
    scale = 10.0 ** rng.integers(-3, 7)
    value = rng.normal() * scale
    forms = (
        lambda: f"{value:.2f}",
        lambda: str(round(value)),
        lambda: repr(float(value)),
        lambda: f"{value:.3e}",
        lambda: f"+{abs(value):.1f}",
        lambda: f" {value:.1f} ",
        lambda: f"{abs(value) % 1:.3f}".lstrip("0"),
        lambda: f"{round(value)}.",
        lambda: f"{rng.integers(100):05d}",
    )
    return forms[rng.choice(len(forms), p=[0.4, 0.3, 0.1, 0.05, 0.03, 0.05, 0.03, 0.01, 0.03])]()


def make_column(rng, n_rows):
    kind = rng.choice(
        ["plain", "gaps", "bad", "percent", "dollar", "kg", "thousands", "word", "empty", "date"],
        p=[0.3, 0.2, 0.15, 0.06, 0.06, 0.05, 0.05, 0.08, 0.02, 0.03],
    )
    if kind == "word":
        return [
            str(rng.choice(["Bonn", "Ulm", "Köln", "a b", "it's", "x,y", "p;q"]))
            for _ in range(n_rows)
        ]
    if kind == "empty":
        return [""] * n_rows
    if kind == "date":
        return [f"2024-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}" for _ in range(n_rows)]
    forms = {
        "percent": lambda: f"{rng.normal() * 50:.1f}%",
        "dollar": lambda: f"${rng.random() * 5000:,.2f}",
        "kg": lambda: f"{rng.random() * 500:.1f} kg",
        "thousands": lambda: f"{rng.integers(1000, 9_999_999):,}",
    }
    make = forms.get(kind, lambda: number_text(rng))
    texts = [make() for _ in range(n_rows)]
    words = {"gaps": MISSING, "bad": BAD}.get(kind, ("",))
    share = rng.choice([0.0, 0.05, 0.1, 0.3]) if kind in ("gaps", "bad") else rng.choice([0.0, 0.1])
    word = str(rng.choice(words))
    return [word if rng.random() < share else text for text in texts]


def write(rng, columns, sep, end, quoting):
    """The table as text: nothing quoted but what must be, or more, or odd blank lines."""
    header = list(columns)
    lines = []
    for row in [header, *zip(*columns.values(), strict=True)]:
        cells = []
        for cell in row:
            must = sep in cell or '"' in cell or "\n" in cell
            if must or (quoting == "all") or (quoting == "some" and rng.random() < 0.3):
                cell = '"' + cell.replace('"', '""') + '"'
            cells.append(cell)
        lines.append(sep.join(cells) + end)
    return lines


def break_rows(rng, lines, sep, end):
    """Rows of the wrong length, and blank ones, among the good."""
    out = lines[:1]
    for line in lines[1:]:
        luck = rng.random()
        if luck < 0.05:
            out.append(line[: -len(end)] + sep + "more" + end)
        elif luck < 0.1:
            out.append("few" + end)
        elif luck < 0.15:
            out.append(end)
        out.append(line)
    return out


def break_bytes(rng, data):
    """Overwrite, insert, delete or cut."""
    data = bytearray(data)
    for _ in range(rng.integers(1, 6)):
        at = int(rng.integers(len(data))) if data else 0
        what = rng.integers(5)
        byte = int(rng.choice([*b'",;\n\r\t|.-0 aA\x00\xff\xe4\xc3', rng.integers(256)]))
        if what == 0:
            data[at : at + 1] = bytes([byte])
        elif what == 1:
            data[at:at] = bytes([byte])
        elif what == 2:
            del data[at : at + int(rng.integers(1, 4))]
        elif what == 3:
            del data[int(rng.integers(len(data) // 2, len(data) + 1)) :]
        else:
            stop = at + int(rng.integers(1, 30))
            data[at:at] = data[at:stop]
    return bytes(data)


def make_case(number):
    rng = np.random.default_rng(number)
    # Most tables are small, so that many can be tried.
    n_rows = int(rng.integers(1, 41 if rng.random() < 0.3 else 16))
    n_columns = int(rng.integers(1, 7 if rng.random() < 0.15 else 3))
    labels = [("yes", "no"), ("0", "1"), ("a", "b", "c")][rng.integers(3)]
    columns = {f"c{j}": make_column(rng, n_rows) for j in range(n_columns)}
    columns["id"] = [str(10_000 + i) for i in range(n_rows)]
    columns["y"] = [labels[i % len(labels)] for i in range(n_rows)]
    columns = {name: columns[name] for name in rng.permutation(list(columns)).tolist()}
    sep = str(rng.choice(list(SEPARATORS), p=[0.55, 0.25, 0.15, 0.05]))
    end = "\r\n" if rng.random() < 0.25 else "\n"
    quoting = str(rng.choice(["few", "some", "all"], p=[0.7, 0.2, 0.1]))
    lines = write(rng, columns, sep, end, quoting)
    if rng.random() < 0.2:
        lines = break_rows(rng, lines, sep, end)
    text = "".join(lines)
    if rng.random() < 0.3:
        text = text[: -len(end)]
    case = Case(text.encode(), sep, labels=labels)
    if rng.random() < 0.35:
        case.data, case.intact = break_bytes(rng, case.data), False
    if rng.random() < 0.06 and case.intact:
        case.encoding = str(rng.choice(["utf-8-sig", "utf-16"]))
    case.sniffed = bool(rng.random() < 0.5)
    if not case.sniffed:
        case.options["delimiter"] = sep
    if rng.random() < 0.2:
        case.options["block_size"] = int(2 ** rng.integers(5, 11))
    if rng.random() < 0.15:
        case.packed = str(rng.choice(list(PACKERS)))
        case.broken_pack = bool(rng.random() < 0.3)
    return case, rng


def _zip(data):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.csv", data)
    return file.getvalue()


PACKERS = {
    "gz": lambda data: gzip.compress(data, 1),
    "bz2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.compress,
    "zip": _zip,
}


# One case


class Hang(BaseException):
    """A case took too long."""


@contextmanager
def not_for_ever(seconds=20):
    def stop(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def source_of(case, rng, folder):
    data = case.data
    if case.encoding != "utf-8":
        data = data.decode().encode(case.encoding)
    if case.packed:
        data = PACKERS[case.packed](data)
        if case.broken_pack:
            data = break_bytes(rng, data)
    if case.packed != "zip" and rng.random() < 0.9:
        return io.BytesIO(data)
    path = folder / "case.csv"
    path.write_bytes(data)
    return path


def read(source, **options):
    """All rows there are, the stream, and the error that ended it."""
    X, y, stream, error = [], [], None, None
    try:
        stream = from_file(source, "y", categories="codes", **options)
        for batch in stream.batches(16):
            X += batch.X.tolist()
            y += batch.y.tolist()
    except UserError as caught:
        error = caught
    assert "\n" not in str(error), f"an error of several lines: {error}"
    return X, y, stream, error


def check_table(number, folder):
    """One random table; an assertion says what is wrong with it."""
    case, rng = make_case(number)
    with not_for_ever():
        X, y, stream, error = read(source_of(case, rng, folder), **case.options)
    if case.broken_pack:
        return  # no exception, no hang: that is all there is to know
    header, rows = plain_rows(case.data, case.sep, case.labels)
    n_good = sum(row.good is True for row in rows)
    if header is None or "" in header or len(set(header)) < len(header) or "y" not in header:
        return
    seen = {row.cells[header.index("y")].strip() for row in rows if row.good}
    if error is not None:
        # With rows enough and labels that differ, there is no reason to refuse a whole file.
        assert not (case.intact and n_good >= 8 and len(seen) > 1), f"refused: {error}"
        if stream is None:
            return
    names = stream.schema.feature_names
    if set(names) - set(header):  # another separator fits these lines as well
        others = [other for other in SEPARATORS if other != case.sep]
        ambiguous = any(other in case.data.decode("utf-8", "replace") for other in others)
        assert case.sniffed, f"columns {names}, header {header}"
        assert ambiguous or not case.intact, f"columns {names}, header {header}"
        return
    match_rows(rows, header, names, kinds_of(stream), X, y, whole=error is None)
    if case.intact and error is None:
        n_bad = sum(row.good is False for row in rows)
        assert stream.rejected.count == n_bad, f"{stream.rejected}, not {n_bad}"
        for j, name in enumerate(header):
            check_kind(name, [row.cells[j] for row in rows if row.good], stream)


def kinds_of(stream):
    return {row["name"]: row["kind"] for row in stream.columns.describe()}


def check_kind(name, texts, stream):
    """Where all that is there are plain numbers, it is a column of numbers."""
    texts = [text for text in texts if text.strip() not in MISSING]
    if name == "y" or not texts or any(plain(text) is None for text in texts):
        return
    kind = kinds_of(stream).get(name)
    assert kind == "number", f"column {name} is called {kind}: {texts[:5]}"


def match_rows(rows, header, names, kinds, X, y, *, whole):
    """Each good row is there and right, in order; no bad one is."""
    read_rows = [row.cells for row in rows if row.good is not False]
    numbers = []
    for j, name in enumerate(names):
        if kinds[name] == "number":
            at = header.index(name)
            numbers.append((j, at, habits([cells[at] for cells in read_rows])))
    at_y = header.index("y")
    places = {0}  # how many rows of the stream may have been met by now
    for row in rows:
        if row.good is False or (len(X) in places and not whole):
            continue
        met = {at + 1 for at in places if at < len(X)}
        met = {at for at in met if differs(row, numbers, at_y, X[at - 1], y[at - 1]) is None}
        if row.good and not met:
            at = max(places)
            got = "the end"
            if at < len(X):
                got = f"{X[at]}, {y[at]!r} ({differs(row, numbers, at_y, X[at], y[at])})"
            raise AssertionError(f"row {row.cells} is not there; got {got}")
        places = met if row.good else places | met
    at = max(places)
    assert len(X) in places, f"a row that should not be there: {X[at]}, {y[at]!r}"


def fits(value, text, how):
    """Whether a cell of a column of numbers may become this value."""
    number = plain(text)
    if number is not None:
        return value == number or (how.marked and math.isnan(value))  # of what?
    # Written in another way, a number may lose its last bit.
    allowed = disguised(text, how)
    return math.isnan(value) or any(math.isclose(value, v, rel_tol=1e-14) for v in allowed)


def differs(row, numbers, at_y, values, label):
    for j, at, how in numbers:
        if not fits(values[j], row.cells[at], how):
            return f"{row.cells[at]!r} read as {values[j]!r}"
    text = row.cells[at_y].strip()
    if not row.good:
        return None
    if str(label) != text and (plain(text) is None or plain(str(label)) != plain(text)):
        return f"target {text!r} read as {label!r}"
    return None


# Columns of one form, against what they were written from


def decimal_comma(value, digits):
    return f"{value:,.{digits}f}".replace(",", "_").replace(".", ",").replace("_", ".")


def cells_of(rng, n):
    """Texts of one form, the values they stand for, and how the file has to be read."""
    digits = int(rng.integers(1, 4))
    numbers = [Decimal(f"{v:.{digits}f}") for v in rng.normal(size=n) * 10.0 ** rng.integers(0, 7)]
    unit = str(rng.choice(["kg", "km", "m", "GB", "ms", "cm", "h"]))
    sign = str(rng.choice(["$", "€", "£"]))
    start = datetime(1980, 1, 1)
    times = [start + timedelta(seconds=int(s)) for s in rng.integers(0, 2_000_000_000, size=n)]
    days = [time.replace(hour=0, minute=0, second=0) for time in times]
    zone = timezone(timedelta(hours=int(rng.integers(-11, 12))))
    spans = rng.integers(0, 200_000, size=n)
    as_numbers = [float(v) for v in numbers]

    def since(moments):
        return [(moment - datetime(1970, 1, 1)).total_seconds() for moment in moments]

    forms = {
        "percent": lambda: ([f"{v}%" for v in numbers], as_numbers, {}),
        "currency": lambda: (
            [f"{sign}{abs(v):,}" for v in numbers],
            [abs(v) for v in as_numbers],
            {},
        ),
        "minus before": lambda: (
            [f"{'-' if v < 0 else ''}{sign}{abs(v):,}" for v in numbers],
            as_numbers,
            {},
        ),
        "minus behind": lambda: ([f"{sign}{v}" for v in numbers], as_numbers, {}),
        "currency behind": lambda: ([f"{v} {sign}" for v in numbers], as_numbers, {}),
        "brackets": lambda: ([f"({-v})" if v < 0 else f"{v}" for v in numbers], as_numbers, {}),
        "brackets and currency": lambda: (
            [f"({sign}{-v:,})" if v < 0 else f"{sign}{v:,}" for v in numbers],
            as_numbers,
            {},
        ),
        "unit": lambda: ([f"{v} {unit}" for v in numbers], as_numbers, {}),
        "thousands": lambda: ([f"{v:,}" for v in numbers], as_numbers, {"thousands": ","}),
        "decimal comma": lambda: (
            [decimal_comma(v, digits) for v in numbers],
            as_numbers,
            {"decimal": ",", "thousands": "."},
        ),
        "day first": lambda: (
            [f"{day:%d.%m.%Y}" for day in days],
            since(days),
            {"dates": "day-first"},
        ),
        "month first": lambda: (
            [f"{day:%m/%d/%Y}" for day in days],
            since(days),
            {"dates": "month-first"},
        ),
        "year first": lambda: ([f"{day:%Y/%m/%d}" for day in days], since(days), {}),
        "iso": lambda: ([f"{time:%Y-%m-%dT%H:%M:%S}" for time in times], since(times), {}),
        "zulu": lambda: ([f"{time:%Y-%m-%dT%H:%M:%S}Z" for time in times], since(times), {}),
        "offset": lambda: (
            [time.replace(tzinfo=UTC).astimezone(zone).isoformat() for time in times],
            since(times),
            {},
        ),
        "duration": lambda: (
            [f"{s // 3600}:{s // 60 % 60:02d}:{s % 60:02d}" for s in spans.tolist()],
            spans.astype(float).tolist(),
            {},
        ),
    }
    name = str(rng.choice(list(forms)))
    return name, *forms[name]()


def check_cells(number):
    """A column of one form, with some gaps."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(8, 41))
    name, texts, values, options = cells_of(rng, n)
    gaps = rng.random(n) < rng.choice([0.0, 0.2])
    gaps[:3] = False
    word = str(rng.choice(MISSING))
    texts = [word if gap else text for gap, text in zip(gaps, texts, strict=True)]
    values = np.where(gaps, np.nan, values)
    file = io.StringIO()
    writer = csv.writer(file, delimiter=";", lineterminator="\n")
    writer.writerow(["a", "y"])
    writer.writerows([text, ("yes", "no")[i % 2]] for i, text in enumerate(texts))
    with not_for_ever():
        X, _, stream, error = read(io.BytesIO(file.getvalue().encode()), **options)
    assert error is None, f"{name}: {error}"
    read_back = np.array([row[0] for row in X if len(X) == n])
    scales = (1.0, 100.0) if name == "percent" else (1.0,)
    right = any(
        read_back.shape == values.shape
        and np.allclose(scale * read_back, values, rtol=1e-14, atol=0.0, equal_nan=True)
        for scale in scales
    )
    wrong = [(t, r) for t, r, v in zip(texts, read_back, values, strict=False) if r != v == v]
    assert right, f"{name}, {options}: {wrong[:5]} of {len(X)} rows, not {n}"
    assert stream.rejected.count == 0, stream.rejected.examples


# Lines of JSON, against the json module


def json_lines(rng):
    """Objects, one a line, some keys missing; some lines are no objects."""
    lines = []
    for i in range(int(rng.integers(2, 30))):
        value = rng.normal() * 10.0 ** rng.integers(-3, 9)
        row = {
            "id": 10_000 + i,
            "a": [float(value), round(value), None][rng.integers(3)],
            "b": bool(value > 0),
            "town": str(rng.choice(["Bonn", "Köln", 'a "b"', "x,y", "a\nb"])),
            "y": ("yes", "no")[i % 2],
        }
        for name in ("a", "b", "town"):
            if rng.random() < 0.1:
                del row[name]
        lines.append(json.dumps(row, ensure_ascii=bool(rng.random() < 0.5)))
        if rng.random() < 0.05:
            bad = ("oops", "{}", '{"id": 1', "[1, 2]", "", "5", '{"id": 1, "y": null}')
            lines.append(str(rng.choice(bad)))
    end = "\r\n" if rng.random() < 0.2 else "\n"
    return (end.join(lines) + end * bool(rng.random() < 0.7)).encode()


def json_row(line):
    """The object of a line; None if there is none, or if opinions may differ."""
    if b"\\u" in line or b"\0" in line:
        return None
    try:
        pairs = json.loads(line.decode(), object_pairs_hook=list)
        row = dict(pairs)
    except (ValueError, TypeError):
        return None
    if len(row) < len(pairs):  # a key twice
        return None
    return row if row.get("y") in ("yes", "no") else None


def check_json(number):
    """Each good object is there, in order, with its numbers."""
    rng = np.random.default_rng(number)
    data = json_lines(rng)
    intact = bool(rng.random() < 0.6)
    if not intact:
        data = break_bytes(rng, data)
    with not_for_ever():
        X, y, stream, error = read(io.BytesIO(data))
    rows = [row for row in map(json_row, data.split(b"\n")) if row]
    if error is not None:
        assert not (intact and len(rows) >= 8), f"refused: {error}"
        if stream is None:
            return
    names, kinds, at = stream.schema.feature_names, kinds_of(stream), 0
    for values, label in zip(X, y, strict=True):
        got = dict(zip(names, values, strict=True))
        if at < len(rows) and label == rows[at]["y"] and got.get("id") == rows[at].get("id"):
            for name in ("id", "a"):
                cell = rows[at].get(name)
                if isinstance(cell, int | float) and kinds.get(name) == "number":
                    assert got[name] == float(cell), f"{cell} read as {got[name]}"
            at += 1
    assert error is not None or at == len(rows) or not intact, f"row {rows[at]} is not there"


# Columns with types, against the Python values they were made of


def typed_column(rng, n):
    """A column of some type, and what its values are as numbers; categories as they are."""
    whole = rng.integers(-(10**9), 10**9, size=n).tolist()
    start = datetime(1970, 1, 1)
    moments = [start + timedelta(seconds=w) for w in whole]
    money = [Decimal(w).scaleb(-int(rng.integers(0, 4))) for w in whole]
    towns = rng.choice(["Bonn", "Ulm", "Köln"], size=n).tolist()
    big = [2**64 - 1 - abs(w) for w in whole]
    makers = [
        lambda: (pl.Series(money, dtype=pl.Decimal(20, 4)), [float(m) for m in money]),
        lambda: (pl.Series([m.date() for m in moments]), [w // 86_400 * 86_400.0 for w in whole]),
        lambda: (pl.Series(moments), [float(w) for w in whole]),
        lambda: (pl.Series(moments).dt.replace_time_zone("UTC"), [float(w) for w in whole]),
        lambda: (pl.Series(moments).cast(pl.Datetime("ms")), [float(w) for w in whole]),
        lambda: (pl.Series([timedelta(seconds=w) for w in whole]), [float(w) for w in whole]),
        lambda: (pl.Series([w > 0 for w in whole]), [float(w > 0) for w in whole]),
        lambda: (pl.Series(big, dtype=pl.UInt64), [float(b) for b in big]),
        lambda: (pl.Series(whole, dtype=pl.Int32), [float(w) for w in whole]),
        lambda: (pl.Series([w / 7 for w in whole]), [w / 7 for w in whole]),
        lambda: (pl.Series(towns, dtype=pl.Enum(["Köln", "Ulm", "Bonn"])), towns),
        lambda: (pl.Series(towns, dtype=pl.Categorical), towns),
        lambda: (pl.Series(towns), towns),
    ]
    series, values = makers[rng.integers(len(makers))]()
    gaps = rng.random(n) < rng.choice([0.0, 0.2])
    gaps[0] = False
    holes = pl.Series(gaps)
    values = [math.nan if gap else value for gap, value in zip(gaps, values, strict=True)]
    return pl.select(pl.when(~holes).then(series)).to_series(), values


def check_typed(number, folder):
    """Parquet and Arrow: a value in a type of its own is that value."""
    rng = np.random.default_rng(number)
    n = int(rng.integers(8, 60))
    columns, expected = {}, {}
    for j in range(int(rng.integers(1, 6))):
        columns[f"c{j}"], expected[f"c{j}"] = typed_column(rng, n)
    frame = pl.DataFrame(columns).with_columns(y=pl.Series(["yes", "no"] * n).head(n))
    path = folder / "case.parquet"
    frame.write_parquet(path, row_group_size=16) if rng.random() < 0.7 else frame.write_ipc(path)
    with not_for_ever():
        X, y, stream, error = read(path)
    assert error is None, error
    assert (len(y), stream.rejected.count) == (n, 0)
    for name, values in expected.items():
        read_as = [row[stream.schema.feature_names.index(name)] for row in X]
        if any(isinstance(value, str) for value in values):
            pairs = {(str(value), str(code)) for value, code in zip(values, read_as, strict=True)}
            codes = {code for _, code in pairs}
            assert len(pairs) == len(codes) == len(set(map(str, values))), (frame[name], read_as)
        else:
            np.testing.assert_array_equal(read_as, values, err_msg=str(frame[name]))


def check(number, folder):
    if number % 50 == 5:
        check_typed(number, folder)
    elif number % 10 == 0:
        check_json(number)
    elif number % 5 == 0:
        check_cells(number)
    else:
        check_table(number, folder)


def failures(numbers, folder):
    """Run cases; the first ten that fail, each with its number and the reason."""
    found = []
    for number in numbers:
        try:
            check(number, folder)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # a panic of polars is no Exception
            found.append(f"case {number}: {type(error).__name__}: {str(error)[:300]}")
            if len(found) == 10:
                break
    return found


def test_40_random_files_are_read_as_the_oracle_reads_them(tmp_path):
    assert failures(range(40), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(N_CHUNKS))
def test_and_so_are_100_000(chunk, tmp_path):
    size = N_CASES // N_CHUNKS
    assert failures(range(40 + chunk * size, 40 + (chunk + 1) * size), tmp_path) == []
