from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.report import ImportanceDisplay, figures
from fires.report.figures import COLOURS, look, style

mpl = pytest.importorskip("matplotlib")
from matplotlib.figure import Figure  # noqa: E402

NAMES = st.text(min_size=1, max_size=80)


def axes_of(width=7.0, height=4.0):
    return Figure(figsize=(width, height), layout="constrained").subplots()


def legend_names(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


@given(NAMES, st.integers(5, 40))
def test_a_name_is_one_line_of_so_many_characters_and_keeps_its_ends(name, longest):
    shown = figures.cut(name, longest)
    assert len(shown) <= longest
    assert shown.isprintable()
    assert shown[0] == (name[0] if name[0].isprintable() else " ")
    assert shown[-1] == (name[-1] if name[-1].isprintable() else " ")
    if len(name) <= longest and name.isprintable():
        assert shown == name


def test_what_is_drawn_beside_each_other_looks_different():
    looks = [look(place) for place in range(24)]
    assert len(set(looks)) == 24
    assert len({one.colour for one in looks[:8]}) == 8


def test_bars_are_as_long_as_the_values_and_the_first_is_on_top():
    low, high = [1.0, -3.0, np.nan], [3.0, -1.0, np.nan]
    shown = ImportanceDisplay(
        ["a", "b", "c"], [2.0, -2.0, np.nan], low=low, high=high, selected=[True, False, True]
    )
    drawn, axes = shown.plot(axes_of()).bars_, shown.ax_
    np.testing.assert_array_equal([bar.get_width() for bar in drawn], [2.0, -2.0, np.nan])
    assert [bar.get_fill() for bar in drawn] == [True, False, True]
    assert axes.yaxis_inverted()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["a", "b", "c"]
    ends = [segment[:, 0].tolist() for segment in axes.collections[0].get_segments()]
    assert ends == [[1.0, 3.0], [-3.0, -1.0]]  # none where nothing is known


@pytest.mark.parametrize(("height", "n_names"), [(4.0, 10), (2.0, 20), (1.0, 60)])
def test_names_beside_rows_do_not_touch(height, n_names):
    axes = axes_of(3.4, height)
    names = [f"feature {place}" for place in range(n_names)]
    figures.name_rows(axes, names)
    axes.set_ylim(n_names - 0.4, -0.6)
    axes.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.get_yticklabels()]
    assert boxes
    for upper, lower in pairwise(boxes):
        assert not upper.overlaps(lower)
    assert all(text.get_fontsize() >= 5.0 for text in axes.get_yticklabels())


@pytest.mark.parametrize("name", ["$x_1$", "_hidden", "$", "a\nb", "<script>", "n" * 300, r"\frac"])
def test_names_are_text_whatever_they_are(name):
    axes = axes_of()
    ImportanceDisplay([name], [1.0]).plot(axes)
    (drawn,) = axes.plot([0, 1], [0, 1])
    figures.legend_outside(axes, [(name, drawn)])
    axes.figure.draw_without_rendering()
    for text in (*axes.get_yticklabels(), *axes.get_legend().get_texts()):
        assert text.get_text().strip() == figures.cut(name).strip()
        assert not text.get_parse_math()


@pytest.mark.parametrize("width", [7.0, 3.0])
def test_a_legend_lies_outside_and_within_the_figure(width):
    axes = axes_of(width, 3.0)
    named = [(f"a rather long name of line {k}", axes.plot([0, k])[0]) for k in range(6)]
    figures.rows_axis(axes)
    figures.legend_outside(axes, named)
    axes.figure.draw_without_rendering()
    legend, whole = axes.get_legend().get_window_extent(), axes.figure.bbox
    assert whole.x0 - 1 <= legend.x0 < legend.x1 <= whole.x1 + 1
    assert whole.y0 - 1 <= legend.y0 < legend.y1 <= whole.y1 + 1
    assert not legend.overlaps(axes.get_window_extent())
    assert not legend.overlaps(axes.xaxis.label.get_window_extent())
    assert len(legend_names(axes)) == 6


def test_the_look_leaves_that_of_others_alone_and_may_keep_their_font():
    with mpl.rc_context({"font.family": ["serif"], "lines.linewidth": 9.0}):
        with style(own_font=False):
            assert mpl.rcParams["font.family"] == ["serif"]
            assert mpl.rcParams["lines.linewidth"] == 1.5
        with style():
            assert mpl.rcParams["font.family"] == ["sans-serif"]
        assert mpl.rcParams["lines.linewidth"] == 9.0


def test_colours_are_told_apart_on_white_and_on_black():
    def luminance(colour):
        parts = np.array(mpl.colors.to_rgb(colour))
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    for colour in COLOURS:
        shade = luminance(colour)
        assert 1.05 / (shade + 0.05) > 2.2, colour
        assert (shade + 0.05) / 0.05 > 3.0, colour
