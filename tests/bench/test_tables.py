import csv
import io
import json
import random
import re

import pytest

from fires.bench import tables
from fires.bench.cells import METHODS
from fires.bench.tables import NONE, Summary, protocol_notes, published

RUN = {
    "date": "2026-11-15",
    "command": "fires bench kdd2020",
    "jobs": 2,
    "cores": 2,
    "machine": "Linux x86_64",
    "versions": {"fires": "0.1.0", "numpy": "2.4"},
}


def record(dataset, method, accuracy=0.75, stability=0.9, **changes):
    selects = METHODS[method].selects
    return {
        "dataset": dataset,
        "method": method,
        "batch_size": 25,
        "fraction": 0.1 if selects else None,
        "protocol": "as-published",
        "seed": 0,
        "n_rows": None,
        "accuracy": accuracy,
        "stability": stability if selects else None,
        "milliseconds_per_step": 1.5,
        "rows": 4601,
        "notes": ["shuffled with seed 0"],
        "fires": "0.1.0",
    } | changes


@pytest.fixture
def folder(tmp_path):
    """A folder with these records in it."""

    def make(*records, runs=(RUN,)):
        lines = "".join(json.dumps(line) + "\n" for line in records)
        (tmp_path / "cells.jsonl").write_text(lines)
        (tmp_path / "runs.json").write_text(json.dumps(list(runs)))
        return tmp_path

    return make


def rows_of(table):
    """The numbers of a table under (data set, side)."""
    lines = list(csv.reader(io.StringIO(table.csv())))
    return {
        (line[0], line[1]): dict(zip(lines[0][2:], line[2:], strict=True)) for line in lines[1:]
    }


def table_of(folder, name):
    (found,) = [t for t in tables.all_tables(Summary(folder)) if t.name == name]
    return rows_of(found)


def test_numbers_are_means_over_the_settings_beside_the_published(folder):
    where = folder(
        record("Spambase", "FIRES-GLM", 0.7, 0.8),
        record("Spambase", "FIRES-GLM", 0.8, 0.9, fraction=0.2),
        record("Spambase", "FIRES-GLM", 0.6, None, batch_size=50),
    )
    accuracy = table_of(where, "accuracy-as-published")
    assert accuracy["Spambase", "ours"] == {"FIRES-GLM": "0.700"}
    assert accuracy["Spambase", "published"] == {"FIRES-GLM": "0.742"}
    assert accuracy["Spambase", "difference"] == {"FIRES-GLM": "-0.042"}
    stability = table_of(where, "stability-as-published")
    assert stability["Spambase", "ours"] == {"FIRES-GLM": "0.850"}


def test_means_are_over_the_data_sets_at_hand_on_both_sides(folder):
    where = folder(
        *(
            record(name, method, 0.5)
            for name in ("Spambase", "Usenet")
            for method in ("OFS", "EFS")
        ),
        record("Spambase", "all features", 0.9),
        record("Usenet", "all features", 0.7),
        record("Spambase", "VFDT", 0.6),
    )
    table = table_of(where, "accuracy-as-published")
    mean = table["mean", "ours"]
    assert mean == {"VFDT": "", "OFS": "0.500", "EFS": "0.500", "all features": "0.800"}
    assert table["mean", "published"]["OFS"] == f"{(0.721 + 0.563) / 2:.3f}"
    assert table["mean", "published"]["all features"] == ""
    assert table["mean", "difference"]["all features"] == ""
    # By the mean, the best first; equal ones share a rank, and what has no mean has none.
    assert table["rank", "ours"] == {"VFDT": "", "OFS": "2.", "EFS": "2.", "all features": "1."}
    ranks = table["rank", "published"]
    assert (ranks["OFS"], ranks["VFDT"], ranks["EFS"], ranks["all features"]) == (
        "1.",
        "2.",
        "3.",
        "",
    )


@pytest.mark.parametrize(
    ("quantity", "ranks"),
    [
        # The paper's stability table swaps the ranks of FIRES-ANN and FIRES-SDT.
        ("accuracy", [8, 7, 1, 4, 2, 3, 6, 5]),
        ("milliseconds_per_step", [8, 7, 1, 4, 3, 5, 6, 2]),
        ("stability", [1, 4, 3, 6, 2, 5]),
    ],
)
def test_with_all_data_sets_the_published_means_and_ranks_are_the_paper_s(quantity, ranks, folder):
    stated = published()[quantity]
    where = folder(*(record(name, m) for name in list(stated)[:-1] for m in stated["Mean"]))
    name = {"milliseconds_per_step": "time"}.get(quantity, quantity)
    table = table_of(where, f"{name}-as-published")
    means = {m: float(value) for m, value in table["mean", "published"].items()}
    tolerance = 0.006 if name == "time" else 0.0015
    assert means == pytest.approx(stated["Mean"], abs=tolerance)
    assert list(table["rank", "published"].values()) == [f"{rank}." for rank in ranks]


def test_times_stand_side_by_side_and_are_not_subtracted(folder):
    table = table_of(folder(record("KDD", "OFS")), "time-as-published")
    assert {side for _, side in table} == {"ours", "published"}
    assert table["KDD", "ours"] == {"OFS": "1.50"}


def test_methods_that_select_nothing_have_no_column_in_the_stability_table(folder):
    where = folder(record("KDD", "OFS"), record("KDD", "VFDT"))
    assert list(table_of(where, "stability-as-published")["KDD", "ours"]) == ["OFS"]
    where = folder(record("KDD", "VFDT"))
    names = [table.name for table in tables.all_tables(Summary(where))]
    assert names == ["datasets", "accuracy-as-published", "time-as-published"]


def test_the_run_over_most_rows_counts_and_the_last_of_these(folder):
    where = folder(
        record("KDD", "OFS", 0.1, n_rows=3000),
        record("KDD", "OFS", 0.3, n_rows=None),
        record("KDD", "OFS", 0.4, n_rows=None),
        record("KDD", "OFS", 0.2, n_rows=3000),
    )
    assert table_of(where, "accuracy-as-published")["KDD", "ours"] == {"OFS": "0.400"}


def test_versions_are_not_mixed(folder):
    where = folder(
        record("KDD", "OFS", 0.1), record("KDD", "OFS", 0.3, batch_size=50, fires="0.2.0")
    )
    assert table_of(where, "accuracy-as-published")["KDD", "ours"] == {"OFS": "0.300"}


def test_code_of_the_same_version_is_not_mixed_and_its_runs_are_named(folder):
    old, new = RUN | {"command": "fires old"}, RUN | {"command": "fires new", "code": "b"}
    records = [record("KDD", "OFS", 0.1), record("KDD", "OFS", 0.3, batch_size=50, code="b")]
    summary = Summary(folder(*records, runs=[old, new]))
    assert summary.value("accuracy", "as-published", "KDD", "OFS") == 0.3
    page = tables.markdown(summary)
    assert "`fires new`" in page
    assert "`fires old`" not in page

    summary = Summary(folder(*reversed(records), runs=[old, new]))  # the last has no code
    assert summary.value("accuracy", "as-published", "KDD", "OFS") == 0.1
    assert [run["command"] for run in summary.runs] == ["fires old"]


def test_numbers_over_few_rows_and_over_many_are_not_averaged(folder):
    cut = {"n_rows": 3000, "rows": 3000, "batch_size": 100}
    where = folder(
        record("MNIST", "OFS", 0.5, **cut),
        record("MNIST", "OFS", 0.5, **cut | {"fraction": 0.2}),
        record("MNIST", "OFS", 0.9, rows=70_000),
        record("MNIST", "EFS", 0.9, rows=70_000),
        record("MNIST", "EFS", None, **cut, diverged_at=100),
        record("MNIST", "FSDS", 0.4, **cut),
    )
    accuracy = table_of(where, "accuracy-as-published")["MNIST", "ours"]
    assert accuracy == {"OFS": "0.900", "EFS": "0.900", "FSDS": "0.400"}
    summary = Summary(where)
    entry = summary.entries["as-published", "MNIST", "OFS"]
    assert (entry["rows"], entry["n_settings"]) == (70_000, 1)
    said = protocol_notes(summary, "as-published")
    left_out = [note for note in said if "do not count" in note or "does not count" in note]
    assert left_out == [
        "MNIST, OFS: 2 settings that were run over fewer rows than others do not count.",
        "MNIST, EFS: 1 setting that was run over fewer rows than others does not count.",
    ]
    assert "MNIST, FSDS: 3,000 rows only." in said


def test_a_cut_that_cuts_nothing_off_is_no_difference(folder):
    where = folder(
        record("Madelon", "OFS", 0.4, rows=2600),
        record("Madelon", "OFS", 0.6, rows=2600, n_rows=3000, batch_size=100),
    )
    assert table_of(where, "accuracy-as-published")["Madelon", "ours"] == {"OFS": "0.500"}


def test_the_text_depends_on_the_results_and_not_on_their_order(folder):
    records = [
        record(name, method, 0.5 + 0.01 * size / 25, batch_size=size, protocol=protocol)
        for name in ("Spambase", "Usenet")
        for method in ("OFS", "all features", "FIRES-GLM")
        for size in (25, 50)
        for protocol in ("as-published", "honest")
    ]
    where = folder(*records)
    before = {path.name: path.read_bytes() for path in tables.write(where)}
    random.Random(0).shuffle(records)
    after = {path.name: path.read_bytes() for path in tables.write(folder(*records))}
    assert before == after
    assert {"tables.md", "reproduction.md", "datasets.csv", "stability-honest.csv"} <= set(before)


def test_the_page_says_how_and_on_what_the_numbers_were_made(folder):
    where = folder(
        record("Spambase", "OFS"),
        record("Spambase", "OFS", batch_size=50),
        record("Spambase", "VFDT", rows=500, n_rows=500),
        record("KDD", "OFS", batch_size=50, notes=["100,000 of 494,021 rows"]),
        record("KDD", "FSDS") | {"error": "ValueError: no | luck"},
    )
    page = tables.markdown(Summary(where))
    assert "- 2026-11-15: `fires bench kdd2020`, 2 processes of one thread each, 2 cores" in page
    assert "fires 0.1.0, numpy 2.4" in page
    assert "- Mean: over Spambase, KDD on both sides" in page
    assert "- KDD, OFS: a mean over 1 of 2 settings only." in page
    assert "- Spambase, VFDT: 500 rows only." in page
    assert "- KDD, FSDS: failed in 1 of its settings: ValueError: no | luck" in page
    assert "- Spambase: shuffled with seed 0." in page
    assert "- Not run: HAR, Usenet, Gisette, Madelon, Dota, MNIST, RBF, RTG." in page
    assert "- VFDT: River's Hoeffding tree" in page
    assert "| Spambase | cont. | 1 | UCI | CC BY 4.0 | 4,601 | 4,601 | 57 |" in page


def test_every_line_of_a_table_has_as_many_cells_as_its_head(folder):
    where = folder(record("KDD", "OFS"), record("KDD", "all features"))
    for table in tables.all_tables(Summary(where)):
        n = len(table.columns)
        assert {line.count(" | ") for line in table.markdown().splitlines() if " " in line} == {
            n - 1
        }
        assert {len(line) for line in csv.reader(io.StringIO(table.csv()))} == {n}
        assert NONE not in table.csv()


def test_a_difference_that_rounds_to_nothing_has_no_minus(folder):
    table = table_of(folder(record("KDD", "OFS", 0.9619)), "accuracy-as-published")
    assert table["KDD", "difference"] == {"OFS": "+0.000"}


def test_results_without_a_note_of_their_run_can_be_read(folder, tmp_path):
    folder(record("KDD", "OFS"))
    (tmp_path / "runs.json").unlink()
    assert "date, command and versions are not known" in tables.markdown(Summary(tmp_path))


# --- reproduction ---------------------------------------------------------------------------------


def reasons_in(text, protocol):
    """The reason under (quantity, data set, method) in one part of the page."""
    part = re.split(r"^## ", text, flags=re.MULTILINE)
    (part,) = [p for p in part if p.startswith(protocol)]
    lines = [
        [c.strip() for c in line.split("|")[1:-1]] for line in part.splitlines() if "|" in line
    ]
    return {tuple(line[:3]): line[-1] for line in lines[2:]}


def full(dataset, method, **changes):
    """All twelve settings of the paper."""
    return [
        record(dataset, method, batch_size=size, fraction=share, **changes)
        for size in (25, 50, 75, 100)
        for share in (0.1, 0.15, 0.2)
    ]


def test_only_numbers_that_differ_are_listed(folder):
    where = folder(
        # 0.030 more than published, and 0.031 more
        *full("Spambase", "FIRES-GLM", accuracy=0.772, stability=0.931),
        *full("Usenet", "FIRES-GLM", accuracy=0.587, stability=0.82, rows=5931),
        *full("Spambase", "all features"),
    )
    text = tables.reproduction(Summary(where))
    assert reasons_in(text, "as-published") == {("accuracy", "Usenet", "FIRES-GLM"): "not found"}
    assert "3 of 4 numbers are within 0.03 of the published, 1 are not." in text
    assert "## Reasons" not in text


@pytest.mark.parametrize(
    ("dataset", "method", "changes", "why"),
    [
        ("Madelon", "EFS", {}, "other EFS"),
        ("Spambase", "FIRES-SDT", {}, "other updates"),
        ("Usenet", "OFS", {}, "ties"),
        ("Spambase", "OFS", {}, "other shuffling"),
        ("KDD", "FSDS", {}, "not found"),
        ("Dota", "OFS", {}, "other sample"),
        ("MNIST", "FSDS", {}, "sketch"),
        ("RTG", "FIRES-GLM", {}, "other stream"),
        ("Gisette", "FIRES-GLM", {"rows": 1000}, "fewer rows"),
        ("Madelon", "FIRES-GLM", {}, "not found"),
    ],
)
def test_reasons_that_are_known_are_named_and_explained(dataset, method, changes, why, folder):
    where = folder(*full(dataset, method, accuracy=0.1, **({"rows": 10**6} | changes)))
    text = tables.reproduction(Summary(where))
    assert reasons_in(text, "as-published")["accuracy", dataset, method] == why
    assert (f"\n- {why}: " in text) == (why != "not found")


def test_an_honest_number_is_told_apart_into_protocol_and_the_rest(folder):
    where = folder(
        *full("Madelon", "FIRES-GLM", accuracy=0.52, stability=0.526),
        *full("Madelon", "FIRES-GLM", accuracy=0.46, stability=0.526, protocol="honest"),
        *full("Madelon", "EFS", accuracy=0.6, stability=0.783),
        *full("Madelon", "EFS", accuracy=0.59, stability=0.783, protocol="honest"),
        *full("Usenet", "EFS", accuracy=0.7, stability=0.749, protocol="honest", rows=5931),
    )
    text = tables.reproduction(Summary(where))
    assert reasons_in(text, "honest") == {
        ("accuracy", "Madelon", "FIRES-GLM"): "-0.060 by the protocol, -0.003 as published",
        ("accuracy", "Madelon", "EFS"): "-0.010 by the protocol, +0.089 as published (other EFS)",
        ("accuracy", "Usenet", "EFS"): "protocol, other EFS",
    }
    assert "\n- protocol: ours, honest, minus ours as published" in text


def test_what_ceased_to_be_finite_counts_for_nothing_and_is_named(folder):
    def burst(dataset, size, row):
        empty = {"accuracy": None, "stability": None, "milliseconds_per_step": None}
        return record(dataset, "FIRES-ANN", batch_size=size, diverged_at=row, **empty)

    where = folder(
        record("Spambase", "FIRES-ANN", 0.7),
        burst("Spambase", 50, 4_000),
        burst("Madelon", 25, 375),
        burst("Madelon", 50, 1_500),
        record("Madelon", "OFS", 0.5),
    )
    accuracy = table_of(where, "accuracy-as-published")
    assert accuracy["Spambase", "ours"]["FIRES-ANN"] == "0.700"
    assert accuracy["Madelon", "ours"]["FIRES-ANN"] == ""
    page = tables.markdown(Summary(where))
    assert (
        "- Madelon, FIRES-ANN: its parameters ceased to be finite in 2 of 2 settings, first after "
        "row 375; these do not count." in page
    )
    assert "- Spambase, FIRES-ANN: a mean over 1 of 2 settings only." in page
    assert "in every setting: FIRES-ANN on Madelon.\n" in tables.reproduction(Summary(where))


def test_few_settings_are_a_reason_too(folder):
    text = tables.reproduction(Summary(folder(record("Madelon", "FIRES-GLM", 0.1, rows=2600))))
    why = reasons_in(text, "as-published")
    assert why["accuracy", "Madelon", "FIRES-GLM"] == "fewer settings"


def test_methods_that_came_later_stand_beside_those_of_older_code(folder):
    old, new = RUN | {"command": "fires old"}, RUN | {"command": "fires new", "code": "b"}
    records = record("KDD", "OFS", 0.1), record("KDD", "EFS", 0.3, code="b")
    summary = Summary(folder(*records, runs=[old, new]))
    assert summary.value("accuracy", "as-published", "KDD", "OFS") == 0.1
    assert summary.value("accuracy", "as-published", "KDD", "EFS") == 0.3
    assert [run["command"] for run in summary.runs] == ["fires old", "fires new"]


def test_the_time_of_a_batch_stands_beside_the_papers(folder):
    where = folder(
        record("Spambase", "OFS", 0.7, milliseconds_per_step=1.0),
        record("KDD", "OFS", 0.7, milliseconds_per_step=3.0),
        record("KDD", "all features", 0.7),
    )
    _, section = tables.reproduction(Summary(where)).split("## Time\n")
    assert "i7-8550U" in section
    ratio = (10.13 / 1.0 * 1.83 / 3.0) ** 0.5
    assert f"| OFS | 2 | 2.00 | {(10.13 + 1.83) / 2:.2f} | {ratio:.1f} |" in section
    assert "all features" not in section
