import json
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fires.bench import figures
from fires.bench.cells import METHODS, Method
from fires.bench.figures import Pixels, Run
from fires.core.errors import MissingExtra
from fires.evaluation.records import Step
from fires.streams import datasets
from fires.streams.arrays import from_arrays
from fires.streams.base import Position

pytest.importorskip("matplotlib")

NAMES = ("discriminative-features", "over-time", "accuracy-stability", "uncertainty-penalty")


def run_of(level=0.9, n_steps=30, stability=0.8, stopped=""):
    rng = np.random.default_rng(7)
    accuracy = level + 0.02 * rng.standard_normal(n_steps)
    accuracy[0] = np.nan
    stable = np.full(n_steps, stability)
    stable[0] = np.nan
    return Run(100.0 * np.arange(1, n_steps + 1), accuracy, stable, stopped)


RUNS = {
    "FIRES-GLM": run_of(0.9, stability=0.95),
    "OFS": run_of(0.8, stability=0.5),
    "all features": run_of(0.95, stability=np.nan),
}


def text_of(figure):
    import matplotlib.text

    return "\n".join(part.get_text() for part in figure.findobj(matplotlib.text.Text))


def every_axis_is_labelled(figure):
    return all(
        axes.get_ylabel() and (axes.get_xlabel() or not axes.xaxis.get_tick_params()["labelbottom"])
        for axes in figure.axes
        if axes.axison
    )


# Records


def test_a_run_is_what_the_records_say():
    selected = np.array([1])
    steps = [
        Step(i, Position(10 * (i + 1)), 10, {"accuracy": a}, selected, s, 0.0, 0.0)
        for i, (a, s) in enumerate([(np.nan, np.nan), (0.5, 1.0), (0.75, 0.25)])
    ]
    run = Run.of(steps)
    np.testing.assert_array_equal(run.rows, [10, 20, 30])
    np.testing.assert_array_equal(run.accuracy, [np.nan, 0.5, 0.75])
    np.testing.assert_array_equal(run.stability, [np.nan, 1.0, 0.25])
    assert run.stopped == ""


def test_a_method_that_fails_is_known_up_to_there():
    def steps():
        yield Step(0, Position(10), 10, {"accuracy": 0.5}, np.array([0]), 1.0, 0.0, 0.0)
        raise ValueError("the gradient is not finite")

    run = Run.of(steps())
    assert run.rows.tolist() == [10]
    assert run.stopped == "the gradient is not finite"


def test_a_run_without_a_step_is_empty():
    assert Run.of([]).rows.shape == Run.of([]).stability.shape == (0,)


@given(
    arrays.arrays(
        np.float64,
        st.tuples(st.just(3), st.integers(0, 5)),
        elements=st.floats(allow_infinity=False),
    ),
    st.text(),
)
def test_json_gives_back_the_run(series, stopped):
    before = Run(*series, stopped)
    after = Run.from_dict(json.loads(json.dumps(before.as_dict(), allow_nan=False)))
    for name in ("rows", "accuracy", "stability"):
        np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
    assert after.stopped == stopped


@given(
    arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1) | st.just(np.nan)),
    st.integers(1, 12),
)
def test_a_moving_mean_lies_among_the_values_it_is_the_mean_of(values, size):
    means = figures._moving_mean(values, size)
    for stop in range(1, len(values) + 1):
        last = values[max(0, stop - size) : stop]
        if np.isnan(last).all():
            assert np.isnan(means[stop - 1])
        else:
            assert np.nanmin(last) - 1e-12 <= means[stop - 1] <= np.nanmax(last) + 1e-12


# Drawings


@pytest.mark.parametrize("draw", [figures.over_time, figures.accuracy_against_stability])
def test_methods_and_settings_are_named(draw):
    figure = draw(RUNS, "Somewhere, 3,000 rows")
    shown = text_of(figure)
    assert "Somewhere, 3,000 rows" in shown
    assert all(name in shown for name in RUNS)
    assert every_axis_is_labelled(figure)


def test_the_penalty_has_a_logarithmic_axis():
    penalties = [0.01, 1.0, 100.0]
    figure = figures.effect_of_penalty(penalties, [run_of(), run_of(0.8), run_of(0.7)], "here")
    upper, lower = figure.axes
    assert lower.get_xscale() == "log"
    assert every_axis_is_labelled(figure)
    for axes, expected in ((upper, "accuracy"), (lower, "stability")):
        assert expected in axes.get_ylabel()
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), penalties)
    np.testing.assert_allclose(
        upper.lines[0].get_ydata(),
        [np.nanmean(run_of(level).accuracy) for level in (0.9, 0.8, 0.7)],
    )


def test_equal_results_do_not_look_like_a_difference():
    figure = figures.effect_of_penalty([0.1, 1.0], [run_of(0.9), run_of(0.901)], "here")
    low, high = figure.axes[0].get_ylim()
    assert high - low >= 0.05


def test_the_area_of_a_circle_is_the_variance():
    run = run_of()
    twice = Run(run.rows, 0.9 + 2 * (run.accuracy - 0.9), run.stability)  # deviates twice as far
    axes = figures.accuracy_against_stability({"OFS": run, "EFS": twice}, "here").axes[0]
    areas = [float(part.get_sizes()[0]) for part in axes.collections]
    ofs, efs = areas[0], areas[2]
    assert efs == pytest.approx(4 * ofs)


def test_all_features_have_an_accuracy_and_no_stability():
    figure = figures.over_time(RUNS, "here")
    upper, lower = figure.axes
    assert (len(upper.lines), len(lower.lines)) == (3, 2)
    level = figures.accuracy_against_stability(RUNS, "here").axes[0].lines[0]
    np.testing.assert_allclose(level.get_ydata(), np.nanmean(RUNS["all features"].accuracy))


@pytest.mark.parametrize("draw", [figures.over_time, figures.accuracy_against_stability])
def test_a_failure_is_shown(draw):
    figure = draw({**RUNS, "EFS": run_of(n_steps=7, stopped="not finite")}, "here")
    assert "fails at row 700" in text_of(figure)


@pytest.mark.parametrize("n_steps", [1, 2, 30, 700])
def test_the_last_step_is_always_drawn(n_steps):
    run = run_of(n_steps=n_steps)
    axes = figures.over_time({"OFS": run}, "here").axes[0]
    if n_steps > 1:
        assert axes.lines[0].get_xdata()[-1] == run.rows[-1]
        assert len(axes.lines[0].get_xdata()) <= 40


def test_digits_are_images_of_weights_and_of_zeros_and_ones():
    rng = np.random.default_rng(0)
    pixels = [Pixels(rng.normal(size=784), rng.random(784) < 0.1) for _ in figures.DIGITS]
    means = [(np.zeros(784), np.ones(784))] * len(figures.DIGITS)
    figure = figures.discriminative_features({"OFS": pixels}, means, "here")
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(shown) == 2 * len(figures.DIGITS) * 2
    last_row = shown[-6:]
    for place, (weights, selected) in enumerate(pixels):
        np.testing.assert_array_equal(last_row[2 * place], weights.reshape(28, 28))
        np.testing.assert_array_equal(last_row[2 * place + 1], selected.reshape(28, 28))
    assert {"OFS", "mean image", "all 8 and 9", "selected"} <= set(text_of(figure).split("\n"))


def test_the_same_figure_is_the_same_bytes(tmp_path):
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        paths = figures.save(figures.over_time(RUNS, "here"), tmp_path / name, "figure")
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert contents[0][0].startswith(b"\x89PNG")
    assert b"<svg" in contents[0][1]


def test_the_look_is_ours_and_leaves_that_of_others_alone(tmp_path):
    import matplotlib as mpl

    usual = figures.save(figures.over_time(RUNS, "here"), tmp_path, "usual")[1].read_bytes()
    with mpl.rc_context({"font.size": 30.0, "lines.linewidth": 9.0}):
        theirs = figures.save(figures.over_time(RUNS, "here"), tmp_path, "theirs")[1].read_bytes()
        assert mpl.rcParams["font.size"] == 30.0
    assert usual == theirs


# All of it


def small(name, **options):
    """A little data set in the place of a great one."""
    rng = np.random.default_rng(len(name))
    X, y = rng.random((400, 784)), rng.integers(0, 2, 400)
    stream = from_arrays(X + 0.2 * y[:, None], y, classes=(0, 1))
    info = datasets.describe(name)
    return datasets.Dataset(info, 400, (str(options),), name != "Gisette", None, stream)


def stub(figure, folder, name):
    """To draw takes longer than all the rest."""
    (folder / f"{name}.txt").write_text(text_of(figure), encoding="utf-8")
    return [folder / f"{name}.txt"]


save = figures.save


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    monkeypatch.setattr(figures, "_DPI", 30)


@pytest.fixture
def little(monkeypatch):
    """Less of everything; the names of the methods that were run."""
    ran = []

    def counted(name):
        def make(cell):
            ran.append(name)
            return METHODS[name].selector(cell)

        return Method(make, METHODS[name].predictor, METHODS[name].selects)

    methods = ("FIRES-GLM", "OFS", "all features")
    monkeypatch.setattr(figures, "METHODS", {name: counted(name) for name in methods})
    monkeypatch.setattr(figures, "DIGIT_METHODS", ("OFS",))
    monkeypatch.setattr(figures, "PENALTIES", (0.01, 1.0))
    monkeypatch.setattr(figures, "save", stub)
    monkeypatch.setattr(figures, "_LOOK", {name: figures._LOOK[name] for name in methods})
    monkeypatch.setattr(figures.datasets, "load", small)
    return ran


def written(folder):
    return {path.name: path.read_bytes() for path in folder.rglob("*.*")}


def test_every_figure_is_drawn_and_named_in_the_answer(little, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", save)
    told = []
    drawn = figures.draw(tmp_path / "new" / "folder", progress=lambda *now: told.append(now))
    assert {path.name for path in drawn.files} == {
        f"{n}.{k}" for n in NAMES for k in ("png", "svg")
    }
    assert all(path.stat().st_size > 1_000 for path in drawn.files)
    assert [done for done, _, _ in told] == list(range(len(told)))
    assert {total for _, total, _ in told} == {len(told)}
    assert any("Gisette" in note for note in drawn.notes)


def test_titles_say_what_the_figures_are_drawn_from(little, tmp_path):
    figures.draw(tmp_path)
    first, *others = (tmp_path / f"{name}.txt" for name in NAMES)
    assert "MNIST, the rows labelled 3, 8 and 9" in first.read_text(encoding="utf-8")
    for path in others:
        shown = path.read_text(encoding="utf-8")
        assert "Gisette incomplete: drawn from MNIST" in shown
        assert "batches of 100" in shown


def test_a_run_that_was_killed_goes_on(little, tmp_path):
    whole = tmp_path / "whole"
    figures.draw(whole)
    n_runs = len(little)

    def kill(done, total, what):
        if done == 5:
            raise KeyboardInterrupt

    little.clear()
    with pytest.raises(KeyboardInterrupt):
        figures.draw(tmp_path / "killed", progress=kill)
    assert len(little) == 5
    figures.draw(tmp_path / "killed")
    assert len(little) == n_runs
    assert written(tmp_path / "killed") == written(whole)


def test_what_is_damaged_or_of_other_settings_is_computed_again(little, tmp_path):
    figures.draw(tmp_path)
    little.clear()
    kept = tmp_path / "figure-data"
    names = sorted(path.name for path in kept.iterdir())
    (kept / names[0]).write_text("{", encoding="utf-8")
    other = json.loads((kept / names[1]).read_text(encoding="utf-8"))
    other["settings"]["batch_size"] = 7
    (kept / names[1]).write_text(json.dumps(other), encoding="utf-8")
    figures.draw(tmp_path)
    assert len(little) == 2


def test_without_a_library_the_others_are_drawn(little, tmp_path, monkeypatch):
    def missing(cell):
        raise MissingExtra("NeuralNet", "torch", "torch")

    methods = figures.METHODS | {"OFS": SimpleNamespace(selector=missing)}
    monkeypatch.setattr(figures, "METHODS", methods)
    drawn = figures.draw(tmp_path)
    notes = [note for note in drawn.notes if "OFS" in note]
    assert notes
    assert all("fires[torch]" in note for note in notes)
    assert len(set(drawn.notes)) == len(drawn.notes)
    assert (tmp_path / "over-time.txt").exists()


def test_without_mnist_there_is_madelon(little, tmp_path, monkeypatch):
    def load(name, **options):
        if name == "MNIST":
            raise datasets.DataUnavailable("MNIST is not at hand")
        return small(name, **options)

    monkeypatch.setattr(figures.datasets, "load", load)
    drawn = figures.draw(tmp_path)
    assert {path.stem for path in drawn.files} == set(NAMES[1:])
    assert any("MNIST is not at hand" in note for note in drawn.notes)


def test_without_any_data_there_are_notes_only(little, tmp_path, monkeypatch):
    def load(name, **options):
        raise datasets.DataUnavailable(f"{name} is not at hand")

    monkeypatch.setattr(figures.datasets, "load", load)
    drawn = figures.draw(tmp_path)
    assert drawn.files == ()
    assert len(drawn.notes) >= 3


@pytest.mark.slow
@pytest.mark.skipif("FIRES_DATA_DIR" not in os.environ, reason="needs the data sets")
def test_the_net_of_the_paper_draws_the_digit(tmp_path):
    pytest.importorskip("torch")
    drawn = figures.draw(tmp_path, quick=True)
    assert len(drawn.files) == 2 * len(NAMES)
    for digit in figures.DIGITS:
        kept = tmp_path / "figure-data" / f"digit-{digit}-FIRES-ANN.json"
        _, selected = json.loads(kept.read_text(encoding="utf-8"))["result"]
        assert sum(selected) == 115
        data = datasets.load("MNIST", labels=figures.DIGITS, positive=digit, n_rows=1_000)
        X, y = data.to_arrays()
        ink = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
        assert np.corrcoef(ink, selected)[0, 1] > 0.2
