"""The results in docs/results: its tables and pages are what the code makes of its runs."""

import json
import shutil
from pathlib import Path

import pytest

from fires.bench import tables
from fires.bench.tables import Summary, published_value

DOCS = Path(__file__).parents[2] / "docs"
FOLDERS = sorted(path.parent for path in (DOCS / "results").glob("*/cells.jsonl"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_tables_are_those_of_the_runs(folder, tmp_path):
    for name in ("cells.jsonl", "runs.json"):
        shutil.copy(folder / name, tmp_path)
    for path in tables.write(tmp_path):
        committed = (folder / path.name).read_text(encoding="utf-8")
        assert committed == path.read_text(encoding="utf-8"), path.name


def test_the_page_on_reproduction_is_that_of_the_runs():
    page = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    assert page == (DOCS / "results" / "kdd2020" / "reproduction.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("dataset", "accuracy", "stability"),
    [
        ("Spambase", 0.02, 0.05),
        ("Usenet", 0.02, 0.05),
        ("KDD", 0.02, 0.05),
        ("MNIST", 0.02, 0.05),
        ("Madelon", 0.03, 0.07),
        ("Dota", 0.03, 0.07),
    ],
)
def test_fires_glm_is_near_the_published(dataset, accuracy, stability):
    summary = Summary(DOCS / "results" / "kdd2020")
    entry = summary.entries["as-published", dataset, "FIRES-GLM"]
    assert entry["n_settings"] == 12
    for name, tolerance in (("accuracy", accuracy), ("stability", stability)):
        wanted = published_value(name, dataset, "FIRES-GLM")
        assert entry[name] == pytest.approx(wanted, abs=tolerance)


def test_the_means_on_the_page_are_those_of_the_tables():
    page = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    found = {t.name: t for t in tables.all_tables(Summary(DOCS / "results" / "kdd2020"))}

    def mean(name, side, method):
        table = found[name]
        start = next(place for place, row in enumerate(table.rows) if row[0] == "mean")
        (row,) = [row for row in table.rows[start : start + 3] if row[1] == side]
        return dict(zip(table.columns, row, strict=True)).get(method, tables.NONE)

    places = [
        (f"{quantity}-{protocol}", side)
        for quantity in ("accuracy", "stability")
        for protocol, side in (
            ("as-published", "published"),
            ("as-published", "ours"),
            ("honest", "ours"),
        )
    ]
    for method in ("all features", "FIRES-GLM", "EFS", "OFS", "random features", "FSDS"):
        numbers = " | ".join(mean(*place, method) for place in places)
        assert f"| {method} | {numbers} |" in page


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_run_says_when_and_how_it_was_made(folder):
    runs = json.loads((folder / "runs.json").read_text(encoding="utf-8"))
    assert runs
    for run in runs:
        assert run["command"].startswith("fires bench kdd2020")
        assert {"date", "jobs", "cores", "machine", "versions"} <= run.keys()
