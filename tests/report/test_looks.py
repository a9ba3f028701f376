"""What all pictures share: marks, pages, files, and the words for a missing library."""

import io
import subprocess
import sys

import pytest
import torch
from PIL import Image

from manyhot import report
from manyhot.report.style import DARK, LIGHT, model_style

SPAN = (0.5, 0.4, 0.6)
BINS = {"cells": [30, 50], "mean_prob": [0.2, 0.7], "share_present": [0.25, 0.65]}
CURVE = {"thresholds": [0.1, 0.9], "precision": [0.2, 0.9], "recall": [1.0, 0.3], "given": [5.0, 0.3], "ap": 0.6}
POINT = {"precision": 0.5, "recall": 0.6, "threshold": 0.4, "label": "a rule"}
ROWS = {"edges": [0, 0.5, 1], "in": [1, 4], "out": [3, 1], "mmc_in": 0.7, "mmc_out": 0.3, "auroc": 0.8}
SAMPLE = {"image": Image.new("RGB", (20, 20)), "title": "a", "note": "b", "labels": [("c", 0.5, True, 0)]}
DRAWN = {
    "reliability": lambda dark: report.draw_reliability({"a": {"x": BINS, "y": BINS}, "b": BINS}, dark=dark),
    "scores": lambda dark: report.draw_scores(
        {"a": {"edges": [0, 1, 2], "present": [1, 5], "absent": [4, 2], "best": 1.0, "learned": 0.5}}, dark=dark
    ),
    "set_sizes": lambda dark: report.draw_set_sizes({"a": {"counts": [1, 2]}}, dark=dark),
    "normaliser": lambda dark: report.draw_normaliser(
        {"a": {"steps": [1, 2], "batch": [1.0, 2.0], "average": [1.0, 1.5], "all_rows": 1.4}}, dark=dark
    ),
    "frontier": lambda dark: report.draw_frontier({"a": {"x": SPAN, "y": SPAN}}, "x", "y", dark=dark),
    "intervals": lambda dark: report.draw_intervals({"a": {"x": SPAN}}, zero=True, dark=dark),
    "retrieval": lambda dark: report.draw_retrieval(
        {"a": {"by_length": [0.5], "low": [0.4], "high": [0.6], "map": 0.5}}, dark=dark
    ),
    "precision_recall": lambda dark: report.draw_precision_recall({"a": CURVE}, marked={"a": POINT}, dark=dark),
    "thresholds": lambda dark: report.draw_thresholds({"a": CURVE, "b": CURVE}, marked={"b": POINT}, dark=dark),
    "zero_labels": lambda dark: report.draw_zero_labels({"a": ROWS}, dark=dark),
    "co_occurrence": lambda dark: report.draw_co_occurrence([[4, 0], [0, 2]], names=["a", "b"], dark=dark),
    "examples": lambda dark: report.draw_examples([SAMPLE], dark=dark),
}


def luminance(colour):
    """As the accessibility guidelines of the web define it."""
    from matplotlib.colors import to_rgb

    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


def test_models_differ_without_colours():
    assert len({model_style(place)[1:] for place in range(32)}) == 32
    assert len({model_style(place) for place in range(64)}) == 64


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_their_page(look):
    assert len(set(look.colours)) == 8
    assert contrast(look.ink, look.face) > 12
    # 2.1 is that of the sky blue and the orange of Okabe and Ito on white; the first four are used most.
    assert min(contrast(colour, look.face) for colour in look.colours) > 2.1
    assert min(contrast(colour, look.face) for colour in look.colours[:4]) > 2.9


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_can_be_read_on_its_page(name, look):
    from matplotlib.text import Text

    figure = DRAWN[name](look is DARK)
    figure.draw_without_rendering()
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    assert len(texts) > 5
    assert {text.get_color() for text in texts} == {look.ink}


@pytest.mark.parametrize("name", DRAWN)
def test_a_dark_page_is_dark_to_its_corners(name):
    with Image.open(io.BytesIO(report.as_png(DRAWN[name](True)))) as picture:
        width, height = picture.size
        found = [picture.convert("RGB").getpixel(place) for place in ((0, 0), (width - 1, height - 1))]
    assert found == [(0x1E, 0x21, 0x29)] * 2


@pytest.mark.parametrize("name", DRAWN)
def test_nothing_is_cut_off(name):
    """What is drawn lies within the picture, legends beside the panels included."""
    figure = DRAWN[name](False)
    figure.draw_without_rendering()
    needed, whole = figure.get_tightbbox(), figure.bbox_inches
    assert needed.x0 >= -0.02
    assert needed.y0 >= -0.02
    assert needed.x1 <= whole.x1 + 0.02
    assert needed.y1 <= whole.y1 + 0.02
    assert 5 <= whole.width <= 12.5


def test_files_are_small_whole_and_the_same(tmp_path):
    figure = DRAWN["intervals"](False)
    report.save_png(figure, tmp_path / "new" / "one.png")
    report.save_png(DRAWN["intervals"](False), tmp_path / "two.png")
    kept = (tmp_path / "new" / "one.png").read_bytes()
    assert kept == (tmp_path / "two.png").read_bytes() == report.as_png(DRAWN["intervals"](False))
    plain = io.BytesIO()
    figure.savefig(plain, format="png", dpi=110)
    assert len(kept) < 0.8 * len(plain.getvalue())
    with Image.open(io.BytesIO(kept)) as picture:
        assert picture.size == tuple(int(110 * inches) for inches in figure.get_size_inches())


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        ImportError, match=r"^Plots need matplotlib. Install it with: pip install 'manyhot\[report\]'$"
    ) as caught:
        report.draw_set_sizes({"a": [1, 2]})
    assert caught.value.name == "matplotlib"


@pytest.mark.process
def test_numbers_that_were_kept_are_drawn_without_torch_or_windows():
    code = (
        "import sys\nimport manyhot.report as report\nassert 'matplotlib' not in sys.modules\n"
        "report.draw_set_sizes({'a': {'counts': [1, 2]}})\n"
        f"report.draw_precision_recall({{'a': {CURVE}}})\nreport.draw_thresholds({{'a': {CURVE}}})\n"
        f"report.draw_zero_labels({{'a': {ROWS}}})\n"
        "report.draw_co_occurrence({'labels': [0], 'together': [[1]]}, names=['a'])\n"
        "report.draw_examples([{'labels': [('a', 0.5, True, 1)]}])\n"
        "print([name for name in ('torch', 'matplotlib.pyplot', 'manyhot.report') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "['manyhot.report']"


def test_names_that_matplotlib_would_read_otherwise_are_shown_as_they_are():
    names = ["_private", "$x^{$"]
    counts = [[3, 1], [1, 2]]
    course = {"epoch": [1, 2], "mAP": [0.1, 0.2]}
    probs, targets = torch.rand(200, 3), torch.randint(2, (200, 3))
    figures = [
        report.draw_history(dict.fromkeys(names, course)),
        report.draw_normaliser({name: {"steps": [1, 2], "average": [1.0, 2.0]} for name in names}),
        report.draw_frontier({name: {"a": 1.0, "b": 2.0} for name in names}, "a", "b"),
        report.draw_intervals({name: {"a": 1.0} for name in names}),
        report.draw_co_occurrence(counts, names=names),
        report.draw_set_sizes({name: {name: {"counts": [1, 2]} for name in names} for name in names}),
        report.draw_precision_recall(dict.fromkeys(names, (probs, targets))),
        report.draw_reliability(dict.fromkeys(names, (probs, targets)), overlay=True),
        report.draw_scores(dict.fromkeys(names, (probs, targets))),
        report.draw_examples([{"title": "$x^{$", "note": "$x^{$", "labels": [("$x^{$", 0.5, True, 1)]}]),
    ]
    assert all(report.as_png(figure) for figure in figures)
    for figure in (*figures[:3], *figures[5:8]):
        legends = [*figure.legends, *(axis.get_legend() for axis in figure.axes)]
        shown = [text.get_text() for legend in legends if legend is not None for text in legend.get_texts()]
        assert any(text.startswith("_private") for text in shown)
        assert any(text.startswith("$x^{$") for text in shown)
