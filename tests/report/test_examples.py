"""Single samples with bars."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from manyhot.errors import InputError
from manyhot.report import as_png, draw_examples
from manyhot.report.plots_compare import LabelPrediction, bar_style, shorten_middle
from manyhot.report.style import DARK, LIGHT
from tests.errors.expected import raises_input_error

LABELS = [("cat", 0.93, True, 1), ("dog", 0.41, True, 0), ("sky", 0.2, False, 1), ("car", 0.004, False, 0)]


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def sample(**changes):
    return {"image": Image.new("RGB", (40, 30), "red"), "title": "one.jpg", "labels": LABELS} | changes


def bars(axis):
    """The bars of the labels, without what lies behind them."""
    return [patch for patch in axis.patches if patch.get_zorder() == 2]


def test_bars_show_probabilities_and_texts_the_truth():
    picture, below = draw_examples([sample()]).axes
    assert [bar.get_width() for bar in bars(below)] == pytest.approx([93, 41, 20, 0.4])
    assert [text.get_text() for text in below.texts] == [
        "✓ cat", "93.0 %", "✗ dog", "41 %", "✓ sky", "20 %", "✗ car", "0.40 %",
    ]  # fmt: skip
    assert picture.images[0].get_size() == (30, 40)


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_right_and_wrong_differ_without_colours(look):
    """By filling and hatching, and what is not given by the sign before its name."""
    given, alarm, missed = (
        bar_style(LabelPrediction("a", 0.5, *said), look) for said in ((True, 1), (True, 0), (False, 1))
    )
    assert (given["hatch"], alarm["hatch"]) == ("", "////")
    assert missed["facecolor"] == look.face
    assert given["facecolor"] != look.face


def test_unknown_labels_and_samples_that_nobody_labelled():
    (axis,) = draw_examples([sample(image=None, labels=[("a", 0.5, True, -1), ("b", 0.5, True, None)])]).axes
    assert [text.get_text() for text in axis.texts[::2]] == ["? a", "b"]
    assert {bar.get_hatch() for bar in bars(axis)} <= {"", None}


def test_the_legend_explains_what_is_there_and_nothing_else():
    (legend,) = draw_examples([sample()]).legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "predicted", "predicted, but absent", "not predicted", "not predicted, but present", "present", "absent",
    ]  # fmt: skip
    (legend,) = draw_examples([sample(labels=[("a", 0.5, True, None)])]).legends
    assert [text.get_text() for text in legend.get_texts()] == ["predicted"]


def test_samples_stand_in_rows_with_bars_at_one_height():
    figure = draw_examples([sample(), sample(image=None, labels=LABELS[:2]), sample(note="a note")], columns=2)
    below = [axis.get_position() for axis in figure.axes if axis.patches]
    assert below[0].y1 == pytest.approx(below[1].y1)
    assert below[2].y1 < below[0].y0
    assert below[2].x0 == pytest.approx(below[0].x0)
    assert below[0].height == pytest.approx(2 * below[1].height)


def test_texts_stay_within_their_sample():
    long = "a name that nobody would give to a label " * 3
    figure = draw_examples([sample(title=long, note=long, labels=[(long, 0.999, True, 1)])] * 4)
    figure.draw_without_rendering()
    places = sorted((axis.get_window_extent().x0, axis.get_window_extent().x1) for axis in figure.axes if axis.patches)
    heads = [text.get_window_extent() for text in figure.texts]
    assert len(heads) == 8
    for box in heads:
        assert any(left - 1 <= box.x0 and box.x1 <= right + 33 for left, right in places)
    for axis in figure.axes:
        if axis.texts:
            name, share = (text.get_window_extent() for text in axis.texts)
            assert name.x1 < share.x0


def test_names_are_cut_in_their_middle():
    assert shorten_middle("a/long/path/to/0001.jpg", 13) == "a/long…01.jpg"
    assert shorten_middle("short", 13) == "short"


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1"])
def test_pictures_of_every_kind_are_taken(mode):
    assert draw_examples([sample(image=Image.new(mode, (1000, 20)))]).axes[0].images[0].get_size()[1] <= 512


def test_photographs_keep_their_colours():
    """From a little way off: few colours are mixed, where they would turn soft changes into steps."""
    ramp = Image.linear_gradient("L").resize((440, 440))
    figure = draw_examples([sample(image=Image.merge("RGB", [ramp, ramp.rotate(90), ramp.rotate(180)]))])
    many = io.BytesIO()
    figure.savefig(many, format="png", dpi=110)
    seen = []
    for content in (many, io.BytesIO(as_png(figure))):
        with Image.open(content) as drawn:
            seen.append(np.asarray(drawn.convert("RGB").reduce(8), dtype=float))
    assert np.abs(seen[0] - seen[1]).mean() < 0.3  # 0.5 if the same colours are not mixed, 1 as in other pictures


def test_a_picture_is_left_as_it_was():
    picture = Image.new("RGB", (2000, 1000))
    draw_examples([sample(image=picture)])
    assert picture.size == (2000, 1000)


def test_what_is_refused():
    hint = 'Pass {"image": ..., "title": ..., "labels": [(name, prob, given, target), ...]}.'
    rule = "be a name, a probability, whether it is predicted, and a target of 1, 0, -1 or None"
    assert words(lambda: draw_examples([])) == (
        f"`examples` of `draw_examples` must be a list of at least one sample; got none. {hint}"
    )
    assert words(lambda: draw_examples({"a": sample()})) == (
        f"`examples` of `draw_examples` must be a list of at least one sample; got dict. {hint}"
    )
    assert words(lambda: draw_examples([{"title": "a"}])) == (
        f"`examples[0]` of `draw_examples` must have 'labels'; got none called 'labels'. {hint}"
    )
    assert words(lambda: draw_examples([sample(labels=[("cat", 93, True, 1)])])) == (
        f"`examples[0]['labels'][0]` of `draw_examples` must {rule}; got ('cat', 93, True, 1). {hint}"
    )
    assert words(lambda: draw_examples([sample(labels=["cat"])])) == (
        f"`examples[0]['labels'][0]` of `draw_examples` must {rule}; got 'cat'. {hint}"
    )
    assert words(lambda: draw_examples([sample(image="one.jpg")])) == (
        "`examples[0]['image']` of `draw_examples` must be an image of Pillow, or an array (H, W) or (H, W, 3) "
        "of bytes; got str. Open it with `PIL.Image.open`, pass an array of uint8, or None."
    )


def test_a_picture_may_be_an_array_of_bytes():
    for array in (torch.full((4, 6, 3), 200, dtype=torch.uint8), torch.zeros(4, 6, dtype=torch.uint8).numpy()):
        figure = draw_examples([sample(image=array)])
        assert figure.axes[0].images[0].get_array().shape == (4, 6, 3)
    with raises_input_error(rule="or an array (H, W) or (H, W, 3) of bytes", got="float32 of (4, 6, 3)"):
        draw_examples([sample(image=torch.zeros(4, 6, 3))])
