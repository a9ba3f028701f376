"""Figures of several methods: intervals in rows, and the frontier of two."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhot.errors import InputError
from manyhot.metrics import Interval
from manyhot.report import draw_frontier, draw_intervals
from manyhot.report.plots_compare import pareto_front
from manyhot.report.style import LIGHT

ROWS = {
    "BCE": {"map": (0.61, 0.60, 0.63), "ace": 0.05},
    "SPA": {"map": Interval(0.60, 0.59, 0.61), "ace": {"value": 0.03, "low": 0.02, "high": 0.05}},
    "two-way": {"map": 0.59, "ace": 0.04},
}


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def across(container):
    """The ends of the bars of a mark, to the right and upwards."""
    return [segment.tolist() for bars in container.lines[2] for segment in bars.get_segments()]


class TestIntervals:
    def test_one_panel_a_figure_one_row_a_method(self):
        first, second = draw_intervals(ROWS, percent=("map",), titles={"map": "mAP"}).axes
        assert (first.get_title(), second.get_title()) == ("mAP %", "ace")
        assert [tick.get_text() for tick in first.get_yticklabels()] == list(ROWS)
        assert first.get_ylim()[0] > first.get_ylim()[1]
        marks = [container.lines[0].get_xydata()[0].tolist() for container in first.containers]
        assert marks == [pytest.approx([61, 0]), pytest.approx([60, 1]), pytest.approx([59, 2])]
        assert [end[0] for end in across(first.containers[0])[0]] == pytest.approx([60, 63])
        assert [end[0] for end in across(second.containers[1])[0]] == pytest.approx([0.02, 0.05])
        assert [text.get_text() for text in first.texts] == ["61.0", "60.0", "59.0"]

    def test_chosen_figures_in_their_order_and_gaps(self):
        rows = {"a": {"x": 1.0, "y": 2.0, "z": 3.0}, "b": {"x": 4.0, "z": None}}
        axes = draw_intervals(rows, figures=("z", "x")).axes
        assert [axis.get_title() for axis in axes] == ["z", "x"]
        assert [len(axis.containers) for axis in axes] == [1, 2]

    def test_differences_that_may_be_none_are_hollow(self):
        rows = {"clear": {"x": (1.0, 0.5, 1.5)}, "perhaps": {"x": (-0.1, -0.5, 0.2)}}
        (axis,) = draw_intervals(rows, zero=True).axes
        assert axis.lines[0].get_xdata() == [0, 0]
        clear, perhaps = (container.lines[0] for container in axis.containers)
        assert clear.get_markerfacecolor() == clear.get_color()
        assert perhaps.get_markerfacecolor() == LIGHT.face
        assert [text.get_text() for text in axis.texts] == ["+1.00", "-0.10"]

    def test_a_marked_method_differs_in_colour_and_mark(self):
        axis = draw_intervals(ROWS, marked=("SPA",)).axes[0]
        lines = [container.lines[0] for container in axis.containers]
        assert [line.get_marker() for line in lines] == ["o", "s", "o"]
        assert lines[0].get_color() != lines[1].get_color()

    def test_what_is_refused(self):
        assert words(lambda: draw_intervals({"a": {"x": (1.0, 2.0, 3.0)}})) == (
            "`rows['a']['x']` of `draw_intervals` must be a number or a value with its ends, low <= value <= high; got "
            "1 in [2, 3]. Pass a number, (value, low, high), or what `bootstrap` returned."
        )
        assert words(lambda: draw_intervals({"a": {"x": (1.0, 2.0)}})) == (
            "`rows['a']['x']` of `draw_intervals` must be a number or a value with its ends, low <= value <= high; got "
            "(1.0, 2.0). Pass a number, (value, low, high), or what `bootstrap` returned."
        )
        assert words(lambda: draw_intervals({"a": {"x": float("nan")}})) == (
            "`rows['a']['x']` of `draw_intervals` must be a number or a value with its ends, low <= value <= high; got "
            "(nan, nan, nan). Pass a number, (value, low, high), or what `bootstrap` returned."
        )
        assert words(lambda: draw_intervals({"a": {"x": 1.0}}, figures=("y",))) == (
            "`figures` of `draw_intervals` must name what is drawn, 'x'; got 'y'. Pass these names only."
        )
        assert words(lambda: draw_intervals(ROWS, marked=("BCF",))) == (
            "`marked` of `draw_intervals` must name what is drawn, 'BCE', 'SPA', 'two-way'; got 'BCF'. "
            "Pass these names only."
        )
        assert words(lambda: draw_intervals({"a": {"x": 1.0}}, figures=())) == (
            "`figures` of `draw_intervals` must name at least one figure; got none. Leave it out to draw all."
        )


class TestFrontier:
    @given(
        st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=9),
        st.tuples(st.booleans(), st.booleans()),
    )
    def test_it_is_what_nobody_beats(self, values, higher):
        points = {str(place): value for place, value in enumerate(values)}
        better = [(lambda a, b: a > b) if up else (lambda a, b: a < b) for up in higher]
        beaten = {
            one
            for one, other in itertools.permutations(points, 2)
            if any(better[axis](points[other][axis], points[one][axis]) for axis in (0, 1))
            and not any(better[axis](points[one][axis], points[other][axis]) for axis in (0, 1))
        }
        found = pareto_front(points, higher)
        assert set(found) == set(points) - beaten
        assert [points[name][0] for name in found] == sorted(points[name][0] for name in found)

    def test_marks_intervals_and_the_line(self):
        axis = draw_frontier(ROWS, "ace", "map", higher=("map",), percent=("map", "ace")).axes[0]
        line = axis.lines[0]
        assert line.get_xydata().tolist() == [pytest.approx([3, 60]), pytest.approx([5, 61])]
        filled = [
            mark.lines[0].get_markerfacecolor() == mark.lines[0].get_markeredgecolor() for mark in axis.containers
        ]
        assert filled == [True, True, False]
        assert [mark.get_label() for mark in axis.containers] == list(ROWS)
        wide, high = across(axis.containers[1])
        assert wide == [pytest.approx([2, 60]), pytest.approx([5, 60])]
        assert high == [pytest.approx([3, 59]), pytest.approx([3, 61])]
        assert axis.get_xlabel() == "ace % (lower is better)"
        assert axis.get_ylabel() == "map % (higher is better)"

    def test_what_is_refused(self):
        assert words(lambda: draw_frontier(ROWS, "ace", "mAP")) == (
            "`figures` of `draw_frontier` must name what is drawn, 'map', 'ace'; got 'mAP'. Pass these names only."
        )
        assert words(lambda: draw_frontier(ROWS | {"c": {"map": 1.0}}, "ace", "map")) == (
            "`rows['c']` of `draw_frontier` must have 'ace'; got none. Leave out methods without both figures."
        )
        assert words(lambda: draw_frontier(ROWS, "ace", "map", higher=("auroc",))) == (
            "`higher` of `draw_frontier` must name what is drawn, 'ace', 'map'; got 'auroc'. Pass these names only."
        )
