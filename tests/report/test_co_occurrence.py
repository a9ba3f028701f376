"""Which labels occur together."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch

from manyhot.errors import InputError
from manyhot.report import count_pairs, draw_co_occurrence
from manyhot.report.plots_compare import cluster_order
from tests.errors.expected import raises_input_error
from tests.report.test_looks import contrast

NAMES = ["cat", "animal", "car"]


@pytest.fixture(scope="module")
def targets():
    return torch.tensor([[1, 1, 0]] * 3 + [[0, 1, 0]] * 5 + [[0, 0, 1]] * 2 + [[0, 1, 1]] + [[-1, 0, -1]])


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def named(axis):
    return [text.get_text() for text in axis.get_yticklabels()]


def written(axis):
    return {tuple(map(round, text.get_position())): text for text in axis.texts}


class TestCounting:
    def test_pairs_are_counted_the_most_frequent_first(self, targets):
        counted = count_pairs(targets)
        assert counted == {"labels": [1, 0, 2], "together": [[9, 3, 1], [3, 3, 0], [1, 0, 3]]}
        assert json.loads(json.dumps(counted)) == counted

    def test_many_rows_are_as_exact(self):
        drawn = (torch.rand(40_000, 6, generator=torch.Generator().manual_seed(0)) < 0.3).int()
        counted = count_pairs(drawn)
        ordered = drawn[:, counted["labels"]].long()
        assert counted["together"] == (ordered.T @ ordered).tolist()

    def test_only_the_most_frequent(self, targets):
        assert count_pairs(targets.numpy(), most=2) == {"labels": [1, 0], "together": [[9, 3], [3, 3]]}

    def test_what_is_refused(self, targets):
        assert words(lambda: count_pairs(torch.ones(3))) == (
            "`targets` of `count_pairs` must be (N, K); got (3,). Pass one row per sample and one column per label."
        )
        assert words(lambda: count_pairs(2 * targets)).startswith("`targets` of `count_pairs` must be")


class TestOrder:
    def test_labels_of_one_group_stand_side_by_side(self):
        draw = torch.Generator().manual_seed(0)
        group = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2])
        scene = torch.randint(3, (2000,), generator=draw)
        present = (group == scene[:, None]) & (torch.rand(2000, 9, generator=draw) < 0.5)
        counted = count_pairs(present.int())
        order = [counted["labels"][place] for place in cluster_order(counted["together"])]
        assert sorted(order) == list(range(9))
        groups = group[order].tolist()
        assert sum(one != other for one, other in pairwise(groups)) == 2

    def test_a_single_label_and_labels_that_never_occur(self):
        assert cluster_order([[4]]) == [0]
        assert sorted(cluster_order([[0, 0], [0, 0]])) == [0, 1]


class TestDrawing:
    def test_rows_are_percent_of_their_label(self, targets):
        axis, bar = draw_co_occurrence(count_pairs(targets), names=NAMES).axes
        rows = {name.split(" (")[0]: place for place, name in enumerate(named(axis))}
        assert sorted(named(axis)) == ["animal (9)", "car (3)", "cat (3)"]
        texts = {where: text.get_text() for where, text in written(axis).items()}
        assert texts[rows["animal"], rows["cat"]] == "100"
        assert texts[rows["cat"], rows["animal"]] == "33"
        assert texts[rows["animal"], rows["car"]] == "33"
        assert (rows["car"], rows["cat"]) not in texts
        assert not any(column == row for column, row in texts)
        assert bar.get_ylabel() == "% of rows"

    def test_a_plain_table_is_drawn_the_same(self, targets):
        table = [[3, 3, 0], [3, 9, 1], [0, 1, 3]]
        kept, plain, array = (
            draw_co_occurrence(counts, names=NAMES).axes[0] for counts in (count_pairs(targets), table, np.array(table))
        )
        assert named(plain) == named(array)
        assert sorted(named(plain)) == sorted(named(kept))

    def test_only_the_most_frequent_labels_that_occur(self):
        counts = np.diag([5, 0, 7, 1])
        (axis, _) = draw_co_occurrence(counts, names=list("abcd"), most=2).axes
        assert sorted(named(axis)) == ["a (5)", "c (7)"]
        (axis, _) = draw_co_occurrence(counts, names=list("abcd")).axes
        assert sorted(named(axis)) == ["a (5)", "c (7)", "d (1)"]

    @pytest.mark.parametrize("dark", [False, True])
    def test_every_value_can_be_read_on_its_cell(self, dark):
        shares = np.diag([100] * 20)
        shares[0, 1:] = range(3, 98, 5)
        axis = draw_co_occurrence(shares, names=[f"label {place}" for place in range(20)], dark=dark).axes[0]
        mesh = axis.collections[0]
        mesh.update_scalarmappable()
        colours = mesh.get_facecolors().reshape(20, 20, 4)
        assert len(axis.texts) == 19
        for (column, row), text in written(axis).items():
            assert contrast(text.get_color(), colours[row, column, :3]) > 4.5

    def test_more_is_further_from_the_page_in_grey_as_well(self):
        for dark in (False, True):
            axis, _ = draw_co_occurrence(np.diag([1, 1]), names=["a", "b"], dark=dark).axes
            ramp = axis.collections[0].get_cmap()
            page = (0x1E / 255, 0x21 / 255, 0x29 / 255) if dark else (1, 1, 1)
            steps = [contrast(ramp(place / 20)[:3], page) for place in range(20)]
            assert steps == sorted(steps)
            assert steps[0] < 1.1
            assert steps[-1] > 10

    @pytest.mark.parametrize("count", [1, 3, 25, 60])
    def test_a_page_has_room_for_any_number_of_labels(self, count):
        figure = draw_co_occurrence(np.diag([9] * count), names=["a rather long name of a label"] * count, most=60)
        width, height = figure.get_size_inches()
        assert 6 <= width <= 12.5
        assert 3 <= height <= 12.5
        assert all(len(name) <= 26 for name in named(figure.axes[0]))

    def test_what_is_refused(self, targets):
        assert words(lambda: draw_co_occurrence(count_pairs(targets), names=["a"])) == (
            "`names` of `draw_co_occurrence` must be those of the 3 labels; got 1. "
            "Pass one name for each label, in their order."
        )
        hint = "Pass what `count_pairs` returned, or a table (K, K) of how many rows have both labels."
        assert words(lambda: draw_co_occurrence([[1, 2], [0, 1]], names=["a", "b"])) == (
            "`counts` of `draw_co_occurrence` must have the largest number of a row in the diagonal; "
            f"got 2 against 1 in row 0. {hint}"
        )
        assert words(lambda: draw_co_occurrence([[1, 0]], names=["a"])) == (
            f"`counts` of `draw_co_occurrence` must be as wide as high; got 1 by 2. {hint}"
        )
        assert words(lambda: draw_co_occurrence([[0]], names=["a"])) == (
            f"`counts` of `draw_co_occurrence` must have a label that is present; got none. {hint}"
        )
        assert words(lambda: draw_co_occurrence("pairs", names=["a"])) == (
            f"`counts` of `draw_co_occurrence` must be a table of pairs; got str. {hint}"
        )


def test_pictures_with_the_same_order_show_the_same_labels():
    counts = count_pairs(torch.tensor([[1, 1, 0], [0, 1, 0]]))
    figure = draw_co_occurrence(counts, names=["a", "b", "c"], order=[2, 0, 1])
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["c (0)", "a (1)", "b (2)"]
    with raises_input_error("order", "draw_co_occurrence", rule="name columns of labels"):
        draw_co_occurrence(counts, names=["a", "b", "c"], order=[3])
    with raises_input_error(rule="each once"):
        draw_co_occurrence(counts, names=["a", "b", "c"], order=[1, 1])
