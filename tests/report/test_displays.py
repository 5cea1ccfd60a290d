import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from tests.report import runs

import fires
from fires import FIRES, OFS, SAOLA, OnlinePipeline
from fires.core.errors import InputError, MissingExtra
from fires.evaluation import SavedRun
from fires.report.summary import summarise

pytest.importorskip("matplotlib")
import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from fires.report import ImportanceDisplay, TimelineDisplay

OF_RUNS = (ImportanceDisplay, TimelineDisplay)
X = np.random.default_rng(0).normal(size=(1_000, 8))
Y = X[:, 3] - 0.5 * X[:, 5] > 0


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def selector():
    return FIRES(3).fit(X, Y)


def widths(display):
    return [bar.get_width() for bar in display.bars_]


def labels(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def in_each_other_s_way(figure):
    """What is written beside the axes and covers something else, or is not within the figure."""
    figure.draw_without_rendering()
    axes = figure.axes[0]
    parts = [axes.xaxis.label, axes.yaxis.label, axes._left_title]
    for axis, ends in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        seen = [tick for tick in axis.get_major_ticks() if min(ends) <= tick.get_loc() <= max(ends)]
        parts += [tick.label1 for tick in seen]
    named = {part.get_text(): part.get_window_extent() for part in parts if part.get_text()}
    if axes.get_legend() is not None:
        named["the legend"] = axes.get_legend().get_window_extent()
    whole, found = figure.bbox, []
    for place, (name, box) in enumerate(named.items()):
        others = list(named.items())[:place]
        found += [(name, other) for other, its in others if box.overlaps(its)]
        if not (whole.x0 - 2 <= box.x0 and box.x1 <= whole.x1 + 2):
            found.append((name, "the edge"))
    return found


# Every kind of run


SIZES = (None, (3.4, 2.8), (12.0, 3.0))  # a figure of its own, a narrow one, a wide one


LIKE_OTHERS = {"numbers", "ended early", "killed", "bad rows", "one feature"}
KINDS = [
    pytest.param(place, kind, marks=[pytest.mark.slow] * (kind in LIKE_OTHERS))
    for place, kind in enumerate(runs.ALL)
]


@pytest.mark.parametrize(("place", "kind"), KINDS)
def test_every_display_draws_every_kind_of_run(place, kind):
    """Half of them, each in one of the sizes, and all of them in all sizes: drawing takes long."""
    summary = summarise(runs.ALL[kind]())
    for shift, display in list(enumerate(OF_RUNS))[place % 2 :: 2]:
        size = SIZES[(place + shift) % len(SIZES)]
        if size is None:
            drawn = display.from_run(summary)
            assert drawn.ax_.figure is drawn.figure_
        else:
            _, ax = plt.subplots(figsize=size, layout="constrained")
            drawn = display.from_run(summary, ax=ax)
            assert drawn.ax_ is ax
        drawn.ax_.figure.draw_without_rendering()


@pytest.mark.parametrize("kind", ["classes", "three classes", "numbers", "drift", "awkward names"])
@pytest.mark.parametrize("display", OF_RUNS)
def test_no_text_lies_over_another(kind, display):
    summary = summarise(runs.ALL[kind]())
    assert in_each_other_s_way(display.from_run(summary).figure_) == []
    figure, ax = plt.subplots(figsize=(3.4, 2.8), layout="constrained")
    display.from_run(summary, ax=ax)
    assert in_each_other_s_way(figure) == []


@pytest.mark.parametrize("kind", ["classes", "three classes", "awkward names", "many features"])
def test_bars_are_what_the_summary_says(kind):
    summary = summarise(runs.ALL[kind]())
    now = summary["now"]
    drawn = ImportanceDisplay.from_run(summary, n_features=6)
    assert len(drawn.names) == 6
    chosen = [now["name"].index(name) for name in drawn.names]
    assert widths(drawn) == [now["importance"][place] for place in chosen]
    assert drawn.low.tolist() == [now["low"][place] for place in chosen]
    assert [bar.get_fill() for bar in drawn.bars_] == [now["selected"][p] for p in chosen]
    ranks = [now["rank"][place] for place in chosen]
    assert ranks == sorted(ranks)
    assert sum(drawn.selected) == min(6, sum(now["selected"]))


def test_two_classes_say_what_a_positive_importance_speaks_for():
    assert "favour spam" in ImportanceDisplay.from_run(runs.of_classes()).ax_.get_xlabel()
    for run in (runs.of_three_classes(), runs.of_numbers()):
        assert "favour" not in ImportanceDisplay.from_run(run).ax_.get_xlabel()


def test_without_intervals_there_are_none():
    summary = summarise(runs.as_published())
    bars = ImportanceDisplay.from_run(summary)
    assert bars.low is None
    assert "interval" not in bars.ax_.get_xlabel()
    lines = TimelineDisplay.from_run(summary)
    assert lines.uncertainties is None
    assert not lines.ax_.collections


def test_lines_are_what_the_summary_says():
    summary = summarise(runs.of_drift())
    drawn = TimelineDisplay.from_run(summary, n_features=3)
    for line, one in zip(drawn.lines_, summary["timeline"]["series"][:3], strict=True):
        known = [value for value in one["importance"] if value is not None]
        assert line.get_ydata().tolist() == known
    assert {one[0] for one in drawn.alarms} == {one["row"] for one in summary["events"]}
    assert set(legend(drawn)) >= set(drawn.names)


def test_a_band_is_the_interval():
    drawn = TimelineDisplay.from_run(runs.of_classes(), n_features=1, confidence=0.9)
    top = drawn.ax_.collections[0].get_datalim(drawn.ax_.transData).y1
    highest = drawn.importances[0] + 1.6448536269514722 * drawn.uncertainties[0]
    assert top == pytest.approx(np.nanmax(highest))


def test_features_can_be_asked_for_by_name():
    drawn = TimelineDisplay.from_run(runs.of_classes(), features=["x5", "x11"])
    assert drawn.names == ["x5", "x11"]
    with pytest.raises(InputError, match='no history of a feature "X 5"; did you mean x5'):
        TimelineDisplay.from_run(runs.of_classes(), features=["X 5"])


def test_coarse_series_have_points_where_they_are_known():
    summary = summarise(runs.of_many_features())
    coarse = next(one for one in summary["timeline"]["series"] if one.get("coarse"))
    drawn = TimelineDisplay.from_run(summary, features=[coarse["name"]])
    (line,) = drawn.lines_
    assert line.get_ydata().tolist() == [v for v in coarse["importance"] if v is not None]


def test_a_run_may_be_given_as_path_text_or_object():
    path = runs.of_classes()
    first = widths(ImportanceDisplay.from_run(path))
    assert widths(ImportanceDisplay.from_run(str(path))) == first
    assert widths(ImportanceDisplay.from_run(SavedRun(path))) == first
    with pytest.raises(InputError, match="holds no run"):
        ImportanceDisplay.from_run(path.parent)
    with pytest.raises(TypeError, match="a run is a path, a SavedRun or its summary; got int"):
        ImportanceDisplay.from_run(3)


# Selectors


def test_bars_of_a_selector_are_its_importances(selector):
    drawn = ImportanceDisplay.from_selector(selector, confidence=0.9)
    order = np.argsort(selector.ranking_)
    low, high = selector.interval(0.9)
    np.testing.assert_array_equal(widths(drawn), selector.importances_[order])
    np.testing.assert_array_equal(drawn.low, low[order])
    np.testing.assert_array_equal(drawn.high, high[order])
    np.testing.assert_array_equal(drawn.selected, selector.get_support()[order])
    assert labels(drawn.ax_) == [f"x{place}" for place in order]
    assert "90 % interval" in drawn.ax_.get_xlabel()


def test_selected_features_are_shown_even_if_others_rank_before_them():
    drawn = ImportanceDisplay(["a", "b"], [1.0, 2.0], selected=[True, False])
    assert drawn.selected.tolist() == [True, False]
    from fires.report.displays import _first

    assert _first([1, 2, 3, 4], [False, True, False, True], 3).tolist() == [0, 1, 3]


@pytest.mark.parametrize("make", [lambda: OFS(2), lambda: FIRES.as_published(2)])
def test_methods_without_standard_deviations_have_no_intervals(make):
    learnt = make().fit(X, Y)
    drawn = ImportanceDisplay.from_selector(learnt, n_features=4)
    assert drawn.low is None
    order = [int(name[1:]) for name in drawn.names]
    np.testing.assert_array_equal(widths(drawn), learnt.importances_[order])


def test_methods_without_importances_show_their_weights():
    learnt = fires.FSDS(2).fit(X)
    drawn = ImportanceDisplay.from_selector(learnt, n_features=3)
    assert widths(drawn) == sorted(learnt.weights_.tolist(), reverse=True)[:3]


def test_selectors_of_arriving_features_can_be_drawn():
    learnt = SAOLA().partial_fit_features(X[:, :4], Y)
    assert len(ImportanceDisplay.from_selector(learnt).names) == 4


def test_columns_that_are_several_features_have_one_bar():
    learnt = FIRES(1, groups=["town", "town", *"abcdef"]).fit(X, Y)
    assert len(ImportanceDisplay.from_selector(learnt).names) == 7


def test_a_pipeline_shows_its_selector(selector):
    pipeline = OnlinePipeline(FIRES(3), fires.predictors.Perceptron()).partial_fit(X, Y)
    assert len(ImportanceDisplay.from_selector(pipeline).names) == 8


def test_names_can_be_given(selector):
    drawn = ImportanceDisplay.from_selector(selector, feature_names=list("abcdefgh"))
    assert drawn.names[0] == "d"
    with pytest.raises(ValueError, match="feature_names has 2 names for 8 features"):
        ImportanceDisplay.from_selector(selector, feature_names=["a", "b"])


def test_what_has_learnt_nothing_is_refused():
    with pytest.raises(NotFittedError):
        ImportanceDisplay.from_selector(FIRES(2))


@pytest.mark.parametrize(
    ("how", "words"),
    [({"n_features": 0}, "n_features"), ({"confidence": 1.5}, "a number between 0 and 1")],
)
def test_wrong_settings_are_refused(selector, how, words):
    with pytest.raises(ValueError, match=words):
        ImportanceDisplay.from_selector(selector, **how)


@pytest.fixture(scope="module")
def bent():
    table, score = runs.relations_table()
    pipeline = OnlinePipeline(FIRES(5, relations="auto"), fires.predictors.Perceptron())
    for start in range(0, 3_000, 100):
        pipeline.partial_fit(table[start : start + 100], score[start : start + 100] > 0)
    return pipeline


def test_bars_without_a_sign_favour_nothing(bent):
    assert "favour" not in ImportanceDisplay.from_selector(bent).ax_.get_xlabel()
    assert "favour" not in ImportanceDisplay.from_run(runs.of_relations()).ax_.get_xlabel()


# As scikit-learn's displays are


def test_axes_of_ones_own_are_drawn_on_and_nothing_else_is_touched(selector):
    plt.figure(7)
    mine = mpl.figure.Figure()
    ax = mine.subplots()
    before = dict(mpl.rcParams)
    drawn = ImportanceDisplay.from_selector(selector, ax=ax)
    assert drawn.ax_ is ax
    assert drawn.figure_ is mine
    assert plt.get_fignums() == [7]
    assert dict(mpl.rcParams) == before


def test_without_axes_there_is_a_new_figure_in_our_look(selector):
    plt.figure(7)
    with mpl.rc_context({"lines.linewidth": 9.0, "axes.spines.top": True}):
        drawn = ImportanceDisplay.from_selector(selector)
        assert mpl.rcParams["lines.linewidth"] == 9.0
    assert 7 in plt.get_fignums()
    assert len(plt.get_fignums()) == 2
    assert not drawn.ax_.spines["top"].get_visible()


def test_it_can_be_drawn_again_and_otherwise(selector):
    drawn = ImportanceDisplay.from_selector(selector, n_features=2, color="#ff0000")
    assert drawn.bars_[0].get_facecolor() == (1.0, 0.0, 0.0, 1.0)
    again = drawn.plot(color="#00ff00")
    assert again is drawn
    assert drawn.bars_[0].get_facecolor() == (0.0, 1.0, 0.0, 1.0)


def test_without_matplotlib_it_says_what_to_install(selector, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("fires.core.optional.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"ImportanceDisplay needs matplotlib.*\.\[plot\]"):
        ImportanceDisplay.from_selector(selector)


def test_selectors_and_pipelines_keep_the_diagram_of_scikit_learn(selector):
    for estimator in (selector, OnlinePipeline(FIRES(2), fires.predictors.Perceptron())):
        shown = estimator._repr_html_()
        assert "sk-estimator" in shown or "sk-container" in shown
        assert type(estimator).__name__ in shown
