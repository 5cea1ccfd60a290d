import json
import os

import numpy as np
import pytest

from fires.bench import cells, drawing, figures
from fires.bench.cells import METHODS
from fires.bench.datasets import loading as datasets
from fires.bench.runner import run_cells
from fires.core.errors import MissingExtra
from fires.report import figures as report_figures

pytest.importorskip("matplotlib")

NAMES = ("discriminative-features", "over-time", "accuracy-stability", "uncertainty-penalty")
ALL = tuple(METHODS)


@pytest.fixture
def at_hand(monkeypatch):
    """Which data sets there are, and whether they are complete."""
    found = {"Gisette": False, "MNIST": True, "Madelon": True}

    def load(name, n_rows):
        if name not in found:
            raise datasets.DataUnavailable(f"{name} is not available")
        return datasets.Dataset(datasets.describe(name), 1, (), found[name], None, None)

    monkeypatch.setattr(datasets, "load", load)
    return found


# What is to be run


def shape(cells):
    """For each figure the data set and the methods; the penalties."""
    digits = {(c.dataset, c.method) for c in cells if c.digit is not None}
    lines = [(c.dataset, c.method) for c in cells if c.digit is None and c.penalty is None]
    return digits, lines, [(c.dataset, c.penalty) for c in cells if c.penalty is not None]


def test_without_the_whole_of_gisette_mnist_stands_in(at_hand):
    cells, left_out = figures.plan(["Gisette", "Madelon", "MNIST"], ALL)
    digits, lines, penalties = shape(cells)
    assert digits == {("MNIST", method) for method in figures.DIGIT_METHODS}
    assert lines == [("MNIST", method) for method in drawing.LOOKS]
    assert penalties == [("MNIST", penalty) for penalty in figures.UNCERTAINTY_PENALTIES]
    assert left_out == ["figures of Gisette, of which a part is missing: MNIST stands in"]
    assert {c.protocol for c in cells} == {"as-published"}
    assert {c.n_rows for c in cells if c.digit is None} == {None}


def test_gisette_is_preferred(at_hand):
    at_hand["Gisette"] = True
    cells, left_out = figures.plan(figures.SOURCES, ALL)
    digits, lines, penalties = shape(cells)
    assert {name for name, _ in digits} == {"MNIST"}
    assert {name for name, _ in [*lines, *penalties]} == {"Gisette"}
    assert left_out == []


def test_only_what_is_asked_for_is_run(at_hand):
    cells, left_out = figures.plan(["Spambase", "Madelon"], ["OFS", "VFDT"])
    assert shape(cells) == (set(), [("Madelon", "OFS")], [])
    assert [line.partition(":")[0] for line in left_out] == [
        "discriminative-features",
        "uncertainty-penalty",
    ]


@pytest.mark.parametrize(
    ("names", "methods", "protocols", "line"),
    [
        (["Spambase"], ALL, ["as-published"], "they are of Gisette, MNIST or Madelon"),
        (["MNIST"], ALL, ["honest"], "they follow the paper's protocol, as-published"),
    ],
)
def test_without_any_figure_there_is_one_line(at_hand, names, methods, protocols, line):
    assert figures.plan(names, methods, protocols) == ([], [f"figures: {line}"])


def test_methods_that_no_figure_shows_are_no_run(at_hand):
    cells, left_out = figures.plan(["MNIST"], ["VFDT"])
    assert cells == []
    assert len(left_out) == 3


def test_a_data_set_that_is_not_at_hand_is_passed_over(at_hand):
    del at_hand["MNIST"]
    _, lines, _ = shape(figures.plan(["MNIST", "Madelon"], ["OFS"])[0])
    assert lines == [("Madelon", "OFS")]


def test_quick_is_cut(at_hand):
    cells = figures.plan(["Madelon"], ALL, quick=True)[0]
    assert {c.n_rows for c in cells} == {figures.QUICK_ROWS}


# What is drawn


def over(dataset="MNIST", method="OFS", rows=3_000, **more):
    steps = range(1, 31)
    series = {"seen": [rows * i / 30 for i in steps], "accuracy": [None] + [0.9] * 29}
    series |= {"stability": [None] + [0.7 + 0.01 * i for i in range(29)]}
    settings = {"dataset": dataset, "method": method, "penalty": None, "digit": None}
    settings["figure"] = True
    return settings | series | {"rows": rows, "majority": 0.6, "fires": "1"} | more


def digit(number, method="OFS", **more):
    rng = np.random.default_rng(number)
    found = {"weights": rng.random(784).tolist(), "selected": [0, 1] * 392, "rows": 1000}
    found |= {"means": rng.random((2, 784)).tolist(), "fires": "1", "figure": True}
    return {"dataset": "MNIST", "method": method, "penalty": None, "digit": number} | found | more


DIGITS = [digit(number) for number in cells.DIGITS]


@pytest.fixture
def shown(monkeypatch):
    """What the figures show, in words; to draw takes longer than all the rest."""
    import matplotlib.text

    def save(figure, folder, name):
        assert folder.is_dir()
        texts[name] = "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))
        return [folder / f"{name}.png"]

    texts = {}
    monkeypatch.setattr(report_figures, "save", save)
    return texts


def keep(folder, *records):
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "cells.jsonl").write_text(lines, encoding="utf-8")
    return figures.draw(folder)


def test_every_figure_is_drawn_from_what_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(report_figures, "DPI", 30)
    penalties = [over(method="FIRES-GLM", penalty=p) for p in (1.0, 0.01)]
    files, left_out = keep(tmp_path, *DIGITS, over(), *penalties)
    folder = tmp_path / "figures"
    assert files == [folder / f"{name}.{kind}" for name in NAMES for kind in ("png", "svg")]
    assert all(path.stat().st_size > 1_000 for path in files)
    assert left_out == []
    before = {path: path.read_bytes() for path in files}
    again = keep(tmp_path, over())[0]  # to draw the digits takes longest
    assert len(again) == 4
    assert {path: path.read_bytes() for path in again}.items() <= before.items()


def test_titles_say_what_the_figures_are_drawn_from(shown, tmp_path):
    keep(tmp_path, *DIGITS, over(), over(method="FIRES-GLM", penalty=1.0))
    assert "MNIST, rows labelled 3, 8 or 9" in shown[NAMES[0]]
    assert "115 of 784 pixels" in shown[NAMES[0]]
    for name in NAMES[1:]:
        title = "MNIST, 3 against the rest, 3,000 rows (in place of the paper's Gisette)"
        assert title in shown[name]
        assert "batches of 100, 10% of the features, order and scaling as published" in shown[name]


def test_gisette_stands_for_itself(shown, tmp_path):
    keep(tmp_path, over("Gisette", rows=7_000))
    assert "\nGisette, 7,000 rows\n" in shown["over-time"]


def test_streams_are_not_mixed(shown, tmp_path):
    others = [over("Madelon", "EFS", rows=90_000), over(method="FSDS", rows=500)]
    keep(tmp_path, others[0], over(), others[1], over("Spambase", "FIRES-GLM"))
    assert "OFS" in shown["over-time"]
    assert not {"EFS", "FSDS", "FIRES-GLM"} & set(shown["over-time"].split("\n"))


def test_runs_of_another_version_do_not_count(shown, tmp_path):
    keep(tmp_path, over(method="EFS", fires="0"), over())
    assert "EFS" not in shown["over-time"]


def test_runs_of_other_code_do_not_count(shown, tmp_path):
    keep(tmp_path, over(method="EFS"), over(method="FSDS", code="a"), over(code="b"))
    assert "OFS" in shown["over-time"]
    assert not {"EFS", "FSDS"} & set(shown["over-time"].split("\n"))


def test_failures_and_digits_that_are_not_all_there_are_passed_over(shown, tmp_path):
    failed = {
        "dataset": "MNIST",
        "method": "EFS",
        "digit": 3,
        "penalty": None,
        "error": "no",
        "figure": True,
    }
    drawn = keep(
        tmp_path, *DIGITS, failed | {"fires": "1", "figure": True}, digit(8, "EFS"), digit(9, "EFS")
    )
    assert list(shown) == ["discriminative-features"]
    assert "EFS" not in shown["discriminative-features"]
    assert len(drawn[0]) == 1


def test_a_method_that_ceases_to_be_finite_is_named(shown, tmp_path):
    end = {"dataset": "MNIST", "method": "FIRES-ANN", "digit": 8, "penalty": None, "fires": "1"}
    end["figure"] = True
    records = [digit(3, "FIRES-ANN"), end | {"diverged_at": 700}, digit(9, "FIRES-ANN")]
    line = "FIRES-ANN in discriminative-features: it ceased to be finite after row 700"
    assert keep(tmp_path, *DIGITS, *records)[1] == [line]
    assert "FIRES-ANN" not in shown["discriminative-features"]


def test_without_runs_there_is_one_line(tmp_path):
    line = f"figures: there are no runs for them in {tmp_path / 'cells.jsonl'}"
    assert figures.draw(tmp_path) == ([], [line])
    assert not (tmp_path / "figures").exists()


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    def missing(module, who, extra):
        raise MissingExtra(who, module, extra)

    monkeypatch.setattr(figures, "require", missing)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[plot\]'"):
        figures.draw(tmp_path)


# All of it


@pytest.mark.slow
@pytest.mark.skipif("FIRES_DATA_DIR" not in os.environ, reason="needs the data sets")
def test_the_net_of_the_paper_draws_the_digit(tmp_path):
    pytest.importorskip("torch")
    cells = figures.plan(["MNIST"], ALL, quick=True)[0]
    records = run_cells(cells, tmp_path, 2)
    assert not [record for record in records if "error" in record]
    files = figures.draw(tmp_path)[0]
    assert len(files) == 2 * len(NAMES)
    # They are committed, where the size of a repository counts.
    assert all(path.stat().st_size < 200_000 for path in files if path.suffix == ".png")
    nets = [r for r in records if r["digit"] is not None and r["method"] == "FIRES-ANN"]
    for record in nets:
        assert sum(record["selected"]) == 115
        mine, others = map(np.array, record["means"])
        assert np.corrcoef(mine - others, record["selected"])[0, 1] > 0.2
