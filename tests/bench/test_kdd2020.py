from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from fires.bench import kdd2020
from fires.bench.cells import DATASETS, METHODS, PROTOCOLS
from fires.bench.datasets.catalogue import CATALOGUE
from fires.bench.datasets.loading import named
from fires.bench.tables import QUANTITIES, published
from fires.core import version
from fires.streams.base import InputError


def test_there_are_twelve_settings_for_each_method_that_selects_and_four_for_the_others():
    cells = kdd2020.plan()
    assert len(cells) == len(set(cells)) == 9 * (2 * (7 * 12 + 3 * 4) + 2 * 12)
    counts = Counter((cell.dataset, cell.method, cell.protocol) for cell in cells)
    for (_, method, _), n in counts.items():
        assert n == (12 if METHODS[method].selects else 4)
    assert {cell.dataset for cell in cells} == set(DATASETS) - {"RBF"}
    assert {cell.protocol for cell in cells} == set(PROTOCOLS)
    assert all((cell.fraction is None) == (not METHODS[cell.method].selects) for cell in cells)
    assert {cell.n_rows for cell in cells} == {None}


def test_the_settings_are_those_of_the_paper():
    settings = published()["protocol"]
    cells = kdd2020.plan(["RTG"])
    assert sorted({cell.batch_size for cell in cells}) == settings["batch_sizes"]
    assert sorted({cell.fraction for cell in cells} - {None}) == settings["fractions"]


def test_quick_is_one_setting_on_few_rows_and_boosting_on_fewer():
    cells = kdd2020.plan(DATASETS, quick=True)
    assert {cell.batch_size for cell in cells} == {100}
    assert {cell.fraction for cell in cells} == {0.1, None}
    rows = {(cell.method == "OnlineBoosting", cell.n_rows) for cell in cells}
    assert rows == {(True, 500), (False, 3000)}
    boosted = {cell.dataset for cell in cells if cell.method == "OnlineBoosting"}
    assert boosted == set(DATASETS) - {"Gisette", "RBF"}


def test_cells_that_load_the_same_data_come_together_and_slow_methods_last():
    cells = kdd2020.plan(["KDD", "RTG"])
    groups = [cell.group for cell in cells]
    changes = sum(a != b for a, b in pairwise(groups))
    assert changes == len(set(groups)) - 1
    methods = [cell.method for cell in cells if cell.group == groups[0]]
    assert methods[-8:] == ["VFDT"] * 4 + ["OnlineBoosting"] * 4


@pytest.mark.parametrize("name", ["Random Features", "random-features", " RANDOM FEATURES "])
def test_a_method_is_known_by_its_name_in_any_case(name):
    assert named(name, METHODS, "method") == "random features"


def test_a_name_that_nothing_is_like_gets_all_names():
    with pytest.raises(InputError, match=r'there is no method "boost!"; there are OnlineBoosting,'):
        named("boost!", METHODS, "method")


def test_what_cannot_be_had_is_one_line_each(monkeypatch, tmp_path):
    monkeypatch.setenv("FIRES_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("FIRES_CACHE_DIR", str(tmp_path))
    info = replace(CATALOGUE["madelon"], read=None)  # nothing to download
    monkeypatch.setitem(CATALOGUE, "madelon", info)
    monkeypatch.setattr(kdd2020, "find_spec", lambda name: None if name == "torch" else name)
    lines = kdd2020.missing(kdd2020.plan(["Madelon", "RTG"], ["FIRES-ANN", "VFDT", "OFS"]))
    assert list(lines) == ["FIRES-ANN", "Madelon"]
    assert lines["FIRES-ANN"] == "FIRES-ANN needs torch: pip install '.[torch]'"
    assert lines["Madelon"].startswith("Madelon is not available: there is no madelon.parquet in ")
    assert all("\n" not in line for line in lines.values())


def test_a_data_set_whose_library_is_missing_is_named(monkeypatch):
    monkeypatch.setattr("fires.core.optional.find_spec", lambda name: None)
    line = "RTG: RandomTree needs river: pip install '.[river]'"
    assert kdd2020.missing(kdd2020.plan(["RTG"], ["OFS"])) == {"RTG": line}


def test_how_results_were_made_is_noted_once(tmp_path, monkeypatch):
    kdd2020.note_run(tmp_path / "new", "fires bench kdd2020", 2)
    kdd2020.note_run(tmp_path / "new", "fires bench kdd2020", 2)
    (run,) = kdd2020.read_runs(tmp_path / "new")
    assert run["command"] == "fires bench kdd2020"
    assert {"fires", "python", "numpy"} <= set(run["versions"])
    assert run["code"] == version.code()
    kdd2020.note_run(tmp_path / "new", "fires bench kdd2020 --quick", 2)
    monkeypatch.setattr(kdd2020, "code", lambda: "another")
    kdd2020.note_run(tmp_path / "new", "fires bench kdd2020 --quick", 2)
    assert len(kdd2020.read_runs(tmp_path / "new")) == 3
    (tmp_path / "new" / "runs.json").write_text("[")
    with pytest.raises(InputError, match=r"runs.json was not written by fires bench"):
        kdd2020.read_runs(tmp_path / "new")


# --- the published numbers ------------------------------------------------------------------------


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_published_means_are_those_of_the_published_numbers(quantity):
    """So that a slip of the hand in one of them would show."""
    table = published()[quantity]
    assert list(table) == [*DATASETS, "Mean"]
    for method, stated in table["Mean"].items():
        values = [table[name][method] for name in DATASETS]
        # Ten rounded numbers; the paper's mean of EFS's accuracy is 0.0004 off.
        assert sum(values) / len(values) == pytest.approx(stated, abs=0.0011)


def test_every_method_of_the_paper_is_run():
    assert set(published()["accuracy"]["Mean"]) < set(METHODS)


def test_a_part_of_the_grid_and_the_authors_program_as_published_only():
    methods = ["FIRES-SDT authors", "OFS", "VFDT"]
    cells = kdd2020.plan(["RTG"], methods, batch_sizes=[50], fractions=[0.1, 0.2], rows=500)
    assert Counter((cell.method, cell.protocol) for cell in cells) == {
        ("FIRES-SDT authors", "as-published"): 2,
        ("OFS", "as-published"): 2,
        ("OFS", "honest"): 2,
        ("VFDT", "as-published"): 1,
        ("VFDT", "honest"): 1,
    }
    assert {(cell.batch_size, cell.n_rows) for cell in cells} == {(50, 500)}
