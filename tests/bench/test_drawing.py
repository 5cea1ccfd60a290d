import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fires.bench import drawing
from fires.bench.cells import DIGITS, METHODS, Run
from fires.bench.drawing import Pixels
from fires.report import figures as report_figures

pytest.importorskip("matplotlib")


def run_of(level=0.9, n_steps=30, stability=0.8, diverged_at=None):
    rng = np.random.default_rng(7)
    accuracy = level + 0.02 * rng.standard_normal(n_steps)
    accuracy[0] = np.nan
    stable = np.full(n_steps, stability)
    stable[0] = np.nan
    return Run(100.0 * np.arange(1, n_steps + 1), accuracy, stable, diverged_at)


RUNS = {
    "FIRES-GLM": run_of(0.9, stability=0.95),
    "OFS": run_of(0.8, stability=0.5),
    "all features": run_of(0.95, stability=np.nan),
}
BOTH = pytest.mark.parametrize("draw", [drawing.over_time, drawing.accuracy_against_stability])


@pytest.fixture(autouse=True)
def _coarse(monkeypatch):
    monkeypatch.setattr(report_figures, "DPI", 30)


def text_of(figure):
    import matplotlib.text

    return "\n".join(part.get_text() for part in figure.findobj(matplotlib.text.Text))


def labelled(axes, label):
    (line,) = [line for line in axes.lines if line.get_label() == label]
    return line


def every_axis_is_labelled(figure):
    return all(
        axes.get_ylabel() and (axes.get_xlabel() or not axes.xaxis.get_tick_params()["labelbottom"])
        for axes in figure.axes
        if axes.axison
    )


def test_every_method_that_is_drawn_is_one_of_the_paper_s_or_a_baseline():
    assert set(METHODS) - set(drawing.LOOKS) == {"OnlineBoosting", "VFDT"}


@BOTH
def test_methods_and_settings_are_named(draw):
    figure = draw(RUNS, "Somewhere, 3,000 rows", 0.6)
    shown = text_of(figure)
    assert "Somewhere, 3,000 rows" in shown
    assert all(name in shown for name in RUNS)
    assert every_axis_is_labelled(figure)


@BOTH
def test_the_share_of_the_greater_class_is_there_to_compare_with(draw):
    level = labelled(draw(RUNS, "here", 0.6).axes[0], "majority class")
    assert set(level.get_ydata()) == {0.6}


def test_the_penalty_has_a_logarithmic_axis():
    runs = {0.01: run_of(), 1.0: run_of(0.8), 100.0: run_of(0.7)}
    figure = drawing.effect_of_penalty(runs, "here")
    upper, lower = figure.axes
    assert lower.get_xscale() == "log"
    assert every_axis_is_labelled(figure)
    for axes, expected in ((upper, "accuracy"), (lower, "stability")):
        assert expected in axes.get_ylabel()
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), list(runs))
    np.testing.assert_allclose(
        upper.lines[0].get_ydata(),
        [np.nanmean(run_of(level).accuracy) for level in (0.9, 0.8, 0.7)],
    )


def test_equal_results_do_not_look_like_a_difference():
    figure = drawing.effect_of_penalty({0.1: run_of(0.9), 1.0: run_of(0.901)}, "here")
    low, high = figure.axes[0].get_ylim()
    assert high - low >= 0.05 - 1e-12


def test_the_area_of_a_circle_is_the_variance():
    run = run_of()
    twice = Run(run.seen, 0.9 + 2 * (run.accuracy - 0.9), run.stability)  # deviates twice as far
    axes = drawing.accuracy_against_stability({"OFS": run, "EFS": twice}, "here", 0.5).axes[0]
    ofs, _, efs, _ = (float(part.get_sizes()[0]) for part in axes.collections)
    assert efs == pytest.approx(4 * ofs)
    assert axes.get_title("left").endswith(f"the largest is {np.nanvar(twice.accuracy):.2g}")


def test_all_features_have_an_accuracy_and_no_stability():
    upper, lower = drawing.over_time(RUNS, "here", 0.5).axes
    assert (len(upper.lines), len(lower.lines)) == (4, 2)  # above, also the majority
    level = drawing.accuracy_against_stability(RUNS, "here", 0.5).axes[0].lines[0]
    np.testing.assert_allclose(level.get_ydata(), np.nanmean(RUNS["all features"].accuracy))


@BOTH
def test_a_run_that_ceased_to_be_finite_says_where(draw):
    stopped = run_of(n_steps=7, diverged_at=700)
    figure = draw({**RUNS, "EFS": stopped}, "here", 0.5)
    assert "not finite after row 700" in text_of(figure)


@BOTH
def test_a_run_that_ended_at_once_is_no_obstacle(draw):
    figure = draw({**RUNS, "EFS": Run(*np.empty((3, 0)), diverged_at=0)}, "here", 0.5)
    assert "OFS" in text_of(figure)


def test_means_up_to_a_failure_are_not_compared_with_others():
    stopped = run_of(0.99, n_steps=7, stability=0.1, diverged_at=700)
    axes = drawing.accuracy_against_stability({**RUNS, "EFS": stopped}, "here", 0.5).axes[0]
    shown = [tuple(p) for part in axes.collections for p in part.get_offsets()]
    assert all(x > 0.2 for x, _ in shown)


@pytest.mark.parametrize("n_steps", [1, 2, 30, 700])
def test_the_last_step_is_always_drawn(n_steps):
    run = run_of(n_steps=n_steps)
    axes = drawing.over_time({"OFS": run}, "here", 0.5).axes[0]
    if n_steps > 1:
        assert axes.lines[0].get_xdata()[-1] == run.seen[-1]
        assert len(axes.lines[0].get_xdata()) <= 40


def test_no_step_is_left_out_of_the_stability():
    run = run_of(n_steps=700)
    run.stability[640:660] = 0.0  # between two points that are drawn
    line = drawing.over_time({"OFS": run}, "here", 0.5).axes[1].lines[0]
    assert line.get_ydata().min() < 0.5


@pytest.mark.parametrize("methods", [["OFS"], ["FSDS", "OFS"]])
def test_digits_are_images_of_weights_and_of_zeros_and_ones(methods):
    rng = np.random.default_rng(0)
    pixels = [Pixels(rng.normal(size=784), rng.random(784) < 0.1) for _ in DIGITS]
    means = [(np.zeros(784), np.ones(784))] * len(DIGITS)
    figure = drawing.discriminative_features(dict.fromkeys(methods, pixels), means, "here")
    shown = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    assert len(shown) == 2 * len(DIGITS) * (1 + len(methods))
    last_row = shown[-6:]
    for place, (weights, selected) in enumerate(pixels):
        np.testing.assert_array_equal(last_row[2 * place], weights.reshape(28, 28))
        np.testing.assert_array_equal(last_row[2 * place + 1], selected.reshape(28, 28))
    said = text_of(figure)
    assert {"OFS", "mean image", "all 8 and 9", "selected"} <= set(said.split("\n"))
    assert ("does not look at the labels" in said) == ("FSDS" in methods)


def test_the_same_figure_is_the_same_bytes(tmp_path):
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        figure = drawing.effect_of_penalty({0.1: run_of(), 1.0: run_of(0.8)}, "here")
        paths = report_figures.save(figure, tmp_path / name, "figure")
        contents.append([path.read_bytes() for path in paths])
    assert contents[0] == contents[1]
    assert contents[0][0].startswith(b"\x89PNG")
    assert b"<svg" in contents[0][1]


def test_the_look_is_ours_and_leaves_that_of_others_alone(tmp_path):
    import matplotlib as mpl

    def drawn(name):
        return report_figures.save(drawing.over_time(RUNS, "here", 0.5), tmp_path, name)[
            1
        ].read_bytes()

    usual = drawn("usual")
    with mpl.rc_context({"font.size": 30.0, "lines.linewidth": 9.0}):
        assert drawn("theirs") == usual
        assert mpl.rcParams["font.size"] == 30.0


@pytest.mark.parametrize("n_steps", [30, 700])
def test_nothing_lies_over_anything_else(n_steps):
    runs = {name: run_of(n_steps=n_steps) for name in drawing.LOOKS}
    runs["FIRES-ANN"] = run_of(n_steps=n_steps, diverged_at=12_345)
    runs["all features"] = run_of(n_steps=n_steps, stability=np.nan)
    title = "MNIST, 3 against the rest, 70,000 rows (in place of the paper's Gisette)"
    for draw in (drawing.over_time, drawing.accuracy_against_stability):
        figure = draw(runs, f"{title}\nbatches of 100", 0.9)
        figure.set_dpi(100)
        figure.draw_without_rendering()
        labels = [axes.yaxis.label for axes in figure.axes]
        below = [axes.xaxis.label for axes in figure.axes if axes.get_xlabel()]
        heads = [axes._left_title for axes in figure.axes]
        parts = [figure._suptitle, *figure.legends, *labels, *below, *heads]
        found = [
            part.get_window_extent()
            for part in parts
            if not hasattr(part, "get_text") or part.get_text()
        ]
        whole = figure.bbox
        for place, box in enumerate(found):
            assert whole.x0 - 1 <= box.x0 <= box.x1 <= whole.x1 + 1
            assert whole.y0 - 1 <= box.y0 <= box.y1 <= whole.y1 + 1
            assert not any(box.overlaps(other) for other in found[:place])


@given(
    arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(-1, 1) | st.just(np.nan)),
    st.integers(1, 12),
)
def test_a_moving_mean_lies_among_the_values_it_is_the_mean_of(values, size):
    means = drawing._moving_mean(values, size)
    for stop in range(1, len(values) + 1):
        last = values[max(0, stop - size) : stop]
        if np.isnan(last).all():
            assert np.isnan(means[stop - 1])
        else:
            assert np.nanmin(last) - 1e-12 <= means[stop - 1] <= np.nanmax(last) + 1e-12
